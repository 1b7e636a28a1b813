use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::problem::Problem as Legacy;
use cudnn::convolution::Direction;

/// Convolution, bias and ReLU over half data with channels innermost.
const FUSED: &str = "graph half:8x16x9x9@1296x1x144x16/16/batched half:4x16x3x3@144x1x48x16/16 \
                     float:8x4x9x9@324x1x36x4/16/batched/virtual half:1x4x1x1@4x1x4x4/16 \
                     float:8x4x9x9@324x1x36x4/16/batched/virtual half:8x4x9x9@324x1x36x4/16/batched \
                     | F x=0 w=1 y=2 compute=float mode=correlation pre=1x1 post=1x1 stride=1x1 dilation=1x1 \
                     alpha=1.0 beta=0.0 \
                     | add compute=float x=2 b=3 y=4 alpha1=1.0 alpha2=1.0 \
                     | relu compute=float x=4 y=5 alpha1=1.0 alpha2=1.0 lower-clip=0.0";

fn factors() -> impl Strategy<Value = Factor> {
    prop_oneof![any::<u64>().prop_map(f64::from_bits), select(&[0.0, -0.0, 1.0, f64::NAN, f64::INFINITY][..])]
        .prop_map(Factor::new)
}

fn tensors() -> impl Strategy<Value = Tensor> {
    let shape = (1..=8_usize).prop_flat_map(|rank| (vec(1..=i64::MAX, rank), vec(0..=i64::MAX, rank)));
    (any::<i32>(), shape, any::<i64>(), any::<[bool; 3]>()).prop_map(
        |(data_type, (dims, strides), alignment, flags)| {
            let [is_virtual, is_by_value, is_batched] = flags;
            Tensor { data_type, dims, strides, alignment, is_virtual, is_by_value, is_batched }
        },
    )
}

fn convolutions(tensors: usize) -> impl Strategy<Value = Convolution> {
    let spatial = || vec(1..=i64::MAX, 1..4);
    let places = (0..tensors, 0..tensors, 0..tensors);
    (
        select(&DIRECTIONS[..]),
        places,
        any::<[i32; 2]>(),
        [spatial(), spatial(), spatial(), spatial()],
        [factors().boxed(), factors().boxed()],
    )
        .prop_map(
            |(direction, (x, w, y), [compute_type, mode], [pre_padding, post_padding, stride, dilation], factors)| {
                let [alpha, beta] = factors;
                Convolution {
                    direction,
                    x,
                    w,
                    y,
                    compute_type,
                    mode,
                    pre_padding,
                    post_padding,
                    stride,
                    dilation,
                    alpha,
                    beta,
                }
            },
        )
}

fn pointwise(tensors: usize) -> impl Strategy<Value = Pointwise> {
    let operands = vec((select(OPERANDS), 0..tensors).prop_map(|((_, name), place)| (name, place)), 0..5);
    let parameters = vec((select(PARAMETERS), factors()).prop_map(|((_, name), value)| (name, value)), 0..4);
    (any::<[i32; 2]>(), operands, factors(), factors(), parameters).prop_map(
        |([mode, compute_type], operands, alpha1, alpha2, parameters)| Pointwise {
            mode,
            compute_type,
            operands,
            alpha1,
            alpha2,
            parameters,
        },
    )
}

fn problems() -> impl Strategy<Value = Problem> {
    vec(tensors(), 1..6).prop_flat_map(|tensors| {
        let places = tensors.len();
        let others = || vec(pointwise(places).prop_map(Operation::Pointwise), 0..3);
        (Just(tensors), others(), convolutions(places), others()).prop_map(|(tensors, before, convolution, behind)| {
            let operations = [before, vec![Operation::Convolution(convolution)], behind].concat();
            Problem { tensors, operations }
        })
    })
}

proptest! {
    /// It follows that equal texts are equal problems, and that no field is left out.
    #[test]
    fn every_kernel_is_read_back(problem in problems()) {
        prop_assert_eq!(Problem::from_spec(&problem.spec()), Ok(problem));
    }

    #[test]
    fn garbage_is_an_error_and_no_panic(cut in 0..FUSED.len(), text in ".{0,9}") {
        let garbage = format!("{}{text}{}", &FUSED[..cut], &FUSED[(cut + text.len()).min(FUSED.len())..]);
        if let Ok(problem) = Problem::from_spec(&garbage) {
            prop_assert_eq!(problem.spec(), garbage);
        }
    }
}

#[test]
fn the_text_is_as_documented() {
    let problem = Problem::from_spec(FUSED).unwrap();
    assert_eq!(problem.spec(), FUSED);
    assert_eq!(problem.to_string(), "F half 8x16x9x9 * 4x16x3x3 pad 1x1 stride 1x1 nhwc + add + relu");
}

#[test]
fn what_is_wrong_is_named() {
    for (change, with, message) in [
        ("graph half", "graf half", "it must start with \"graph \""),
        ("graph half", "graph heart", "a tensor's type is \"heart\": it must be one of float, double, half"),
        ("8x16x9x9@", "8x16x9@", "is not a tensor's type:dims@strides/alignment"),
        ("8x16x9x9@", "8x0x9x9@", "a tensor's dimensions is \"8x0x9x9\": it must be numbers of at least 1"),
        ("/16/batched", "/16/matched", "it reads as"),
        ("| F x=0", "| F x=6", "x is \"6\": it must be the place of one of 6 tensors"),
        ("w=1 ", "", "w=… is expected where \"y=2\" stands"),
        ("stride=1x1", "stride=1xy", "stride is \"1xy\": it must be numbers of at least 1, with x between them"),
        ("alpha=1.0", "alpha=one", "alpha is \"one\": it must be a number"),
        ("alpha=1.0", "alpha=1", "it reads as"),
        ("| add", "| odd", "the operation is \"odd\": it must be one of add, mul"),
        ("| add", "| 0", "it reads as"),
        ("lower-clip=", "lowest-clip=", "\"lowest-clip=0.0\" is not expected behind relu"),
        ("| F x", "| add x", "compute=… is expected"),
    ] {
        let text = FUSED.replacen(change, with, 1);
        let error = Problem::from_spec(&text).unwrap_err();
        assert!(error.contains(message), "{text}\n{error}");
    }
    let without = FUSED.split(SEPARATOR).filter(|part| !part.starts_with('F')).collect::<Vec<_>>().join(SEPARATOR);
    assert_eq!(Problem::from_spec(&without).unwrap_err(), "it has 0 convolutions: it must have one");
}

#[test]
fn a_legacy_kernels_graph_has_its_shapes() {
    let legacy = "BF x=half:8x16x9x9@1296x1x144x16 w=half:nhwc:4x8x3x3 y=half:8x4x9x9@324x1x36x4 pad=1x2 stride=1x1 \
                  dilation=2x1 mode=correlation compute=float math=tensor-op groups=2";
    let graph = Problem::of_convolution(&Legacy::from_spec(legacy).unwrap());
    let text = "graph half:8x16x9x9@1296x1x144x16/16/batched half:4x8x3x3@72x1x24x8/16 \
                half:8x4x9x9@324x1x36x4/16/batched | BF x=0 w=1 y=2 compute=float mode=correlation pre=1x2 post=1x2 \
                stride=1x1 dilation=2x1 alpha=1.0 beta=0.0";
    assert_eq!(graph.spec(), text);
    assert_eq!(graph.to_string(), "BF half 8x16x9x9 * 4x8x3x3 pad 1x2 stride 1x1 dilation 2x1 groups 2 nhwc");
    let planar = Problem::of_convolution(&Legacy::from_spec(&legacy.replace("nhwc:", "nchw:")).unwrap());
    assert_eq!(planar.tensors[1].strides, [72, 9, 3, 1]);
    assert_eq!(graph.operations.len(), 1);
    assert!(matches!(&graph.operations[0], Operation::Convolution(c) if c.direction == Direction::BackwardFilter));
}
