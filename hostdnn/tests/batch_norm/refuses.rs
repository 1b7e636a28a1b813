//! Refused calls: their statuses, and that nothing is written.

use super::call::*;
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const BAD: cudnnStatus_t = CUDNN_STATUS_BAD_PARAM;
const UNSUPPORTED: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED;
const FINE: cudnnStatus_t = CUDNN_STATUS_SUCCESS;
const DIMS: [usize; 4] = [2, 8, 3, 4];

fn plain() -> Problem {
    let last = |dims: &[usize], _: &mut StdRng| packed(dims);
    Problem::new(CUDNN_DATA_FLOAT, CUDNN_BATCHNORM_SPATIAL, 0, &DIMS, last, &mut StdRng::seed_from_u64(1))
}

fn activated() -> Problem {
    Problem::fused(CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &DIMS, &mut StdRng::seed_from_u64(1))
}

fn added() -> Problem {
    Problem::fused(CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &DIMS, &mut StdRng::seed_from_u64(1))
}

/// An operand that no call writes.
fn operand(data_type: cudnnDataType_t, dims: &[usize], strides: Vec<usize>) -> Operand {
    Operand::poisoned(data_type, dims, strides)
}

/// Makes each call on a changed problem of its own. `want` are the statuses of training, training Ex, inference,
/// backward and backward Ex. A refused call writes nothing.
fn expect(what: &str, make: fn() -> Problem, change: impl Fn(&mut Problem), want: [cudnnStatus_t; 5]) {
    let calls: [fn(&mut Problem) -> cudnnStatus_t; 5] =
        [Problem::train, Problem::train_ex, Problem::infer, Problem::differentiate, Problem::differentiate_ex];
    for (i, (call, want)) in calls.into_iter().zip(want).enumerate() {
        let mut problem = make();
        if problem.ops != CUDNN_BATCHNORM_OPS_BN && i != 1 && i != 4 {
            continue;
        }
        problem.running[1].fill(&[0.5; 8]);
        problem.saved.iter_mut().take(usize::from(i > 2) * 2).for_each(|saved| saved.fill(&[0.5; 8]));
        change(&mut problem);
        let running = problem.running.each_ref().map(Operand::values);
        assert_eq!(call(&mut problem), want, "{what}: call {i}");
        if want != FINE {
            problem.saved = plain().saved;
            assert!(problem.is_untouched(), "{what}: call {i} wrote");
            assert_eq!(problem.running.each_ref().map(Operand::values), running, "{what}: call {i} wrote");
        }
    }
}

#[test]
fn arguments_that_cudnn_refuses_everywhere() {
    const ALL: [cudnnStatus_t; 5] = [BAD; 5];
    for make in [plain, activated, added] {
        expect("nothing", make, |_| (), [FINE; 5]);
        expect("epsilon", make, |p| p.epsilon = -1e-9, ALL);
        expect("epsilon", make, |p| p.epsilon = f64::NAN, ALL);
        expect("no epsilon", make, |p| p.epsilon = 0.0, [FINE; 5]);
        expect("factor", make, |p| p.factor = -1.0, [FINE; 5]);
        expect("mode", make, |p| p.mode = 3, ALL);
        expect("mode", make, |p| p.mode = -1, ALL);
        let (ones, eight) = ([1, 8, 1, 1], vec![8, 1, 1, 1]);
        let with = |scale: fn() -> Operand| move |p: &mut Problem| p.scale = scale();
        expect("nine channels", make, with(|| operand(0, &[1, 9, 1, 1], vec![9, 1, 1, 1])), ALL);
        expect("parameters in double", make, with(|| operand(1, &[1, 8, 1, 1], vec![8, 1, 1, 1])), ALL);
        expect("parameters in half", make, with(|| operand(2, &[1, 8, 1, 1], vec![8, 1, 1, 1])), ALL);
        expect("parameters of rank 5", make, with(|| operand(0, &[1, 8, 1, 1, 1], vec![8, 1, 1, 1, 1])), ALL);
        expect("parameters apart", make, with(|| operand(0, &[1, 8, 1, 1], vec![16, 2, 2, 2])), ALL);
        let nhwc = move |p: &mut Problem| {
            let values = p.scale.values();
            p.scale = operand(0, &ones, vec![eight[0], 1, 8, 8]);
            p.scale.fill(&values);
        };
        expect("parameters in NHWC", make, nhwc, [FINE; 5]);
    }
    expect("operations", plain, |p| p.ops = 3, [FINE, BAD, FINE, FINE, BAD]);
    expect("operations", plain, |p| p.ops = -1, [FINE, BAD, FINE, FINE, BAD]);
    expect("one saved", plain, |p| p.saves = [true, false], [BAD, BAD, FINE, BAD, BAD]);
    expect("one saved", plain, |p| p.saves = [false, true], [BAD, BAD, FINE, BAD, BAD]);
    expect("none saved", plain, |p| p.saves = [false; 2], [FINE; 5]);
    expect("no running mean", plain, |p| p.runs = [false, true], [FINE, FINE, BAD, FINE, FINE]);
    expect("no running variance", plain, |p| p.runs = [true, false], [FINE, FINE, BAD, FINE, FINE]);
    expect("nothing running", plain, |p| p.runs = [false; 2], [FINE, FINE, BAD, FINE, FINE]);
}

#[test]
fn tensors_that_do_not_fit() {
    let all = [BAD; 5];
    expect("x of three dimensions", plain, |p| p.x = operand(0, &[2, 8, 3], packed(&[2, 8, 3])), all);
    expect("x in half", plain, |p| p.x = operand(2, &DIMS, packed(&DIMS)), all);
    let of_y = [BAD, BAD, BAD, FINE, FINE];
    expect("y in half", plain, |p| p.y = operand(2, &DIMS, packed(&DIMS)), of_y);
    expect("y of nine channels", plain, |p| p.y = operand(0, &[2, 9, 3, 4], packed(&[2, 9, 3, 4])), of_y);
    expect("y in NHWC", plain, |p| p.y = operand(0, &DIMS, channels_last(&DIMS)), [FINE; 5]);
    let of_gradient = [FINE, FINE, FINE, BAD, BAD];
    expect("dy in half", plain, |p| p.dy = operand(2, &DIMS, packed(&DIMS)), of_gradient);
    expect("dx in half", plain, |p| p.dx = operand(2, &DIMS, packed(&DIMS)), of_gradient);
    expect("dx in NHWC", plain, |p| p.dx = operand(0, &DIMS, channels_last(&DIMS)), [FINE; 5]);
    expect("z is ignored", plain, |p| p.z = operand(2, &[2, 9, 3, 4], packed(&[2, 9, 3, 4])), [FINE; 5]);

    // Elements of a result that overlap are hostdnn's refusal: cuDNN computes something.
    let overlapping = |p: &mut Problem| {
        p.y = operand(0, &DIMS, vec![8, 1, 2, 3]);
        p.dx = operand(0, &DIMS, vec![8, 1, 2, 3]);
    };
    expect("results that overlap", plain, overlapping, [UNSUPPORTED; 5]);
    // So is a result in place that is laid out in another way.
    let mut p = plain();
    let other = operand(0, &DIMS, channels_last(&DIMS));
    let before = (p.x.values(), p.dy.values());
    assert_eq!(p.in_place(other.desc), [BAD; 2], "in place");
    assert!((p.x.values(), p.dy.values()) == before, "in place");
    let all_of = |dims: &'static [i32], strides: &'static [i32], ty| {
        move |p: &mut Problem| {
            for tensor in [&p.x, &p.y, &p.dy, &p.dx] {
                let (dims, strides, rank) = (dims.as_ptr(), strides.as_ptr(), dims.len() as i32);
                // SAFETY: the descriptor is live, and the arrays are as long as the rank.
                assert_eq!(unsafe { cudnnSetTensorNdDescriptor(tensor.desc, ty, rank, dims, strides) }, FINE);
            }
        }
    };
    expect("negative strides", plain, all_of(&[2, 8, 3, 4], &[96, 12, -4, 1], 0), all);
    expect("six dimensions", plain, all_of(&[2, 8, 3, 2, 2, 1], &[96, 12, 4, 2, 1, 1], 0), all);
    expect("int8", plain, all_of(&[2, 8, 3, 4], &[96, 12, 4, 1], CUDNN_DATA_INT8), [UNSUPPORTED; 5]);
}

#[test]
fn fused_operations_that_cudnn_refuses() {
    let all = [UNSUPPORTED; 5];
    for make in [activated, added] {
        expect("spatial", make, |p| p.mode = CUDNN_BATCHNORM_SPATIAL, all);
        expect("per activation", make, |p| p.mode = CUDNN_BATCHNORM_PER_ACTIVATION, all);
        for mode in [0, 2, 3, 4, 5, 6] {
            expect("activation", make, move |p| p.activation = Activation::new(mode), all);
        }
        expect("no workspace", make, |p| p.workspace.clear(), all);
        expect("nothing saved", make, |p| p.saves = [false; 2], all);
        expect("one saved", make, |p| p.saves = [false, true], [BAD; 5]);
        let half = |strides: fn(&[usize]) -> Vec<usize>| operand(2, &DIMS, strides(&DIMS));
        expect("x in NCHW", make, |p| p.x = half(packed), all);
        expect("y in NCHW", make, |p| p.y = half(packed), [FINE, UNSUPPORTED, FINE, FINE, FINE]);
        expect("dy in NCHW", make, |p| p.dy = half(packed), [FINE, FINE, FINE, FINE, UNSUPPORTED]);
        expect("dx in NCHW", make, |p| p.dx = half(packed), [FINE, FINE, FINE, FINE, UNSUPPORTED]);
        expect("x with gaps", make, |p| p.x = operand(2, &DIMS, vec![192, 1, 64, 16]), all);
        let float = || operand(0, &DIMS, channels_last(&DIMS));
        expect("y in float", make, |p| p.y = float(), [FINE, BAD, FINE, FINE, FINE]);
        expect("dx in float", make, |p| p.dx = float(), [FINE, FINE, FINE, FINE, BAD]);
    }
    let last = |dims: &[usize], _: &mut StdRng| channels_last(dims);
    for ops in [CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION] {
        let mut dice = StdRng::seed_from_u64(1);
        let mut p = Problem::new(CUDNN_DATA_DOUBLE, 2, ops, &DIMS, last, &mut dice);
        assert_eq!([p.train_ex(), p.differentiate_ex()], [UNSUPPORTED; 2], "double");
        let mut p = Problem::fused(ops, &[2, 3, 3, 4], &mut dice);
        let want = if ops == CUDNN_BATCHNORM_OPS_BN_ACTIVATION { FINE } else { UNSUPPORTED };
        assert_eq!([p.train_ex(), p.differentiate_ex()], [want; 2], "three channels");
    }

    expect("no reserve", activated, |p| p.reserve.clear(), [FINE; 5]);
    expect("no reserve", added, |p| p.reserve.clear(), all);
    let sums = |make: fn() -> Operand| {
        move |p: &mut Problem| {
            p.z = make();
            p.dz = make();
        }
    };
    expect("dz in dx", added, |p| p.dz_is_dx = true, [FINE, FINE, FINE, FINE, BAD]);
    expect("z of nine channels", added, sums(|| operand(2, &[2, 9, 3, 4], channels_last(&[2, 9, 3, 4]))), [BAD; 5]);
    expect("z in float", added, sums(|| operand(0, &DIMS, packed(&DIMS))), [BAD; 5]);
    expect("z in NCHW", added, sums(|| operand(2, &DIMS, packed(&DIMS))), all);
    expect("no sum, so z is ignored", activated, sums(|| operand(0, &DIMS, packed(&DIMS))), [FINE; 5]);
}
