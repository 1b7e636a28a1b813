use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::ENGINES;
use crate::engines::engine::Compiled;
use crate::engines::tests::{Case, compile_without_spills, emulated_as_in_loops as in_loops, print_time};
use gpu::testing::on_gpu;

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];

/// Images, inputs and outputs.
type Counts = [usize; 3];
/// An image and a filter.
type Sizes = ([usize; 3], [usize; 3]);

/// A convolution of images of `x` by a filter, with its strides.
fn convolution(
    element: Element,
    direction: Direction,
    [images, inputs, outputs]: Counts,
    (x, filter): Sizes,
) -> Convolution {
    let y = std::array::from_fn(|axis| x[axis] / filter[axis]);
    let (is_exact, groups, stride, padding, dilation) = (element == Element::Float, 1, filter, [0; 3], [1; 3]);
    Convolution {
        element,
        is_exact,
        direction,
        images,
        inputs,
        outputs,
        groups,
        x,
        y,
        filter,
        stride,
        padding,
        dilation,
    }
}

/// Patches of an image of one row, of images and of volumes; of one patch and of many, one column and one row; rests
/// behind the last patch of each axis; more patches and more lines than a tile has; all units. Rows of patches, of places
/// and of outputs that are whole vectors, and that are none.
fn sizes() -> [(Counts, Sizes); 17] {
    [
        ([1, 1, 1], ([1, 2, 2], [1, 2, 2])),
        ([2, 3, 5], ([1, 28, 28], [1, 14, 14])),
        ([3, 3, 4], ([1, 32, 48], [1, 16, 16])),
        ([2, 2, 3], ([4, 8, 12], [2, 4, 4])),
        ([2, 3, 2], ([5, 7, 9], [2, 2, 2])),
        ([3, 2, 3], ([1, 17, 35], [1, 16, 16])),
        ([1, 5, 3], ([1, 9, 11], [1, 3, 5])),
        ([2, 3, 7], ([1, 1, 50], [1, 1, 4])),
        ([2, 2, 2], ([3, 5, 6], [3, 1, 1])),
        ([1, 2, 3], ([1, 3, 700], [1, 1, 2])),
        ([2, 130, 70], ([1, 4, 6], [1, 2, 2])),
        ([1, 1, 2], ([1, 2, 2100], [1, 2, 1050])),
        ([7, 1, 300], ([2, 2, 8], [2, 2, 8])),
        ([3, 3, 8], ([1, 28, 42], [1, 14, 14])),
        ([2, 2, 16], ([1, 6, 10], [1, 2, 2])),
        ([2, 4, 7], ([1, 8, 16], [1, 2, 2])),
        ([3, 1, 24], ([3, 6, 3], [3, 2, 3])),
    ]
}

fn problems() -> impl Iterator<Item = Patched> {
    let elements = [Element::Half, Element::Float, Element::Bfloat16];
    sizes().into_iter().enumerate().flat_map(move |(index, (counts, sizes))| {
        let of = move |way: usize| convolution(elements[(index + way) % 3], DIRECTIONS[way], counts, sizes);
        [0, 1, 2].map(|way| Patched::of(&of(way)).unwrap())
    })
}

/// With all images at once, and in parts. The last part may be smaller.
fn engines() -> impl Iterator<Item = PatchProducts> {
    problems().enumerate().map(|(index, of)| {
        let at_once = index % 2 + 1;
        let knobs = if at_once < of.0.images { vec![(IMAGES, at_once as i64)] } else { vec![] };
        PatchProducts::new(Device::Host, &of, &knobs).unwrap()
    })
}

/// The problems have each way to multiply, in each direction.
#[test]
fn all_ways_to_multiply_are_tried() {
    for direction in DIRECTIONS {
        let has = |what: fn(&Patched) -> bool| problems().any(|of| of.0.direction == direction && what(&of));
        assert!(has(|of| of.pitch() == of.depth()) && has(|of| of.pitch() != of.depth()));
        assert!(has(Patched::has_pixels));
        assert!(has(|of| !of.has_pixels()) || direction == Direction::BackwardFilter);
    }
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::patch_products::tests::some_emulated_as_in_loops";
    in_loops(test, 61, engines(), |index, _| index % 3 == index / 3 % 3);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    let test = "engines::patch_products::tests::emulated_as_in_loops";
    in_loops(test, 61, engines(), |_, _| true);
}

/// Units of all sizes.
#[test]
fn compiles_for_all_gpus_without_spills() {
    let mut units = vec![];
    let of_units = engines().filter(|engine| {
        let is_new = !units.contains(&engine.layout.tile.unit);
        units.push(engine.layout.tile.unit);
        is_new
    });
    let engines: Vec<_> = of_units.collect();
    assert_eq!(engines.len(), UNITS.len());
    for capability in [80, 90, 100] {
        compile_without_spills(capability, engines.iter().copied());
    }
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !products::is_there(device) {
        return guest::testing::skip("there is no cublasLt");
    }
    let mut random = SmallRng::seed_from_u64(62);
    for of in problems() {
        let case = Case::new(of, device, stream.raw(), &mut random);
        let in_parts = if of.0.images > 1 { vec![vec![(IMAGES, 1)]] } else { vec![] };
        for knobs in PatchProducts::choices(device, &of, usize::MAX).into_iter().chain([vec![]]).chain(in_parts) {
            let kernel = Compiled::<PatchProducts>::new(device, &of, &knobs).expect("compiled");
            case.check(&kernel, device, stream.raw());
        }
    }
}

#[test]
fn other_convolutions_are_refused() {
    let of = convolution(Element::Half, Direction::Forward, [2, 4, 6], ([1, 8, 8], [1, 2, 2]));
    let refusal = |of: Convolution| Patched::of(&of).err().map(|refusal| refusal.0);
    assert_eq!(refusal(of), None);
    let others = [
        (Convolution { groups: 2, ..of }, "groups"),
        (Convolution { dilation: [1, 2, 1], ..of }, "dilation"),
        (Convolution { padding: [0, 1, 0], ..of }, "padding"),
        (Convolution { stride: [1, 2, 1], ..of }, "strides that are not the filter's sizes"),
        (Convolution { filter: [1; 3], stride: [1; 3], y: of.x, ..of }, "strides that are not the filter's sizes"),
        (Convolution { y: [1, 4, 5], ..of }, "places behind the input"),
    ];
    for (of, what) in others {
        assert_eq!(refusal(of), Some(what), "{of:?}");
    }
    // A filter of one slice reaches over no others.
    assert_eq!(refusal(Convolution { dilation: [3, 1, 1], ..of }), None);
    let exact = |of| PatchProducts::new(Device::Host, &Patched::of(&of).unwrap(), &[]);
    assert!(exact(Convolution { is_exact: true, ..of }).is_none() && exact(of).is_some());
    assert!(exact(Convolution { images: 0, ..of }).is_none());
    assert!(exact(Convolution { inputs: 1 << 40, ..of }).is_none());
}

/// The workspace stays within the limit, whatever it is, down to one image's patches. Less room first costs cublasLt's
/// memory, then images.
#[test]
fn the_limit_is_kept() {
    for direction in DIRECTIONS {
        let counts = ([1, 224, 224], [1, 16, 16]);
        let of = Patched::of(&convolution(Element::Half, direction, [128, 3, 768], counts)).unwrap();
        let engine = |limit| {
            let choices = PatchProducts::choices(Device::Host, &of, limit);
            choices.iter().map(|knobs| PatchProducts::new(Device::Host, &of, knobs).unwrap()).next()
        };
        let most = engine(usize::MAX).unwrap();
        let parts = 128_usize.div_ceil(most.at_once);
        assert_eq!(parts, if direction == Direction::BackwardFilter { 2 } else { 1 }, "{most:?}");
        assert!(most.for_splits > 0);
        let mut limit = most.workspace();
        let mut tried = 0;
        while let Some(engine) = engine(limit) {
            assert!(engine.workspace() <= limit, "{engine:?}");
            (limit, tried) = (engine.workspace() - 1, tried + 1);
        }
        assert!((7..=24).contains(&tried) && limit < 4 << 20, "{tried}, {limit}");
    }
}

/// The products of a batch are limited, and only what adds to a result minds that a part may be left written.
#[test]
fn many_images_are_several_batches() {
    for direction in DIRECTIONS {
        let sizes = ([1, 4, 4], [1, 2, 2]);
        let of = Patched::of(&convolution(Element::Half, direction, [100_000, 1, 8], sizes)).unwrap();
        let is_batched = direction != Direction::BackwardFilter;
        assert_eq!(PatchProducts::new(Device::Host, &of, &[]).is_none(), is_batched);
        let choices = PatchProducts::choices(Device::Host, &of, usize::MAX);
        let engine = PatchProducts::new(Device::Host, &of, &choices[0]).unwrap();
        assert_eq!(engine.at_once, if is_batched { 25_000 } else { 100_000 });
        assert_eq!(engine.writes_in_parts(), is_batched);
    }
}

#[test]
fn knobs_that_are_none_of_its_own_are_refused() {
    let of =
        |direction| Patched::of(&convolution(Element::Half, direction, [4, 2, 3], ([1, 4, 4], [1, 2, 2]))).unwrap();
    let takes = |direction, knobs: &[Knob]| PatchProducts::new(Device::Host, &of(direction), knobs).is_some();
    for direction in DIRECTIONS {
        assert!(takes(direction, &[]) && takes(direction, &[(IMAGES, 3)]));
        for wrong in [&[(IMAGES, 4)][..], &[(IMAGES, 0)], &[(IMAGES, -1)], &[(2, 1)], &[(IMAGES, 1), (IMAGES, 1)]] {
            assert!(!takes(direction, wrong), "{wrong:?}");
        }
        assert!(
            takes(direction, &[(IMAGES, 1), (SPLITS, 4)])
                && !takes(direction, &[(SPLITS, 5)])
                && !takes(direction, &[(SPLITS, 0)])
        );
    }
}

/// The engine of short sums gets those alone.
#[test]
fn sums_that_are_short() {
    let row = ENGINES.iter().find(|row| row.number == 12).unwrap();
    let has = |element, direction, counts| {
        let of = convolution(element, direction, counts, ([1, 32, 32], [1, 16, 16]));
        let of = Convolution { is_exact: false, ..of };
        !row.choices(Device::Host, &of, Priority::Fast, usize::MAX).is_empty()
    };
    assert!(
        has(Element::Half, Direction::Forward, [9, 64, 3000]) && !has(Element::Half, Direction::Forward, [9, 65, 3])
    );
    assert!(has(Element::Half, Direction::BackwardData, [9, 9, 16_384]));
    assert!(!has(Element::Half, Direction::BackwardData, [9, 9, 16_385]));
    assert!(has(Element::Bfloat16, Direction::BackwardData, [9, 9, 131_072]));
    assert!(!has(Element::Bfloat16, Direction::BackwardData, [9, 9, 131_073]));
    assert!(has(Element::Half, Direction::BackwardFilter, [4096, 3, 3]));
    assert!(!has(Element::Half, Direction::BackwardFilter, [4097, 3, 3]));
    assert!(!has(Element::Float, Direction::Forward, [9, 3, 3]));
}

/// Prints the times at patch embeddings, downsampling and transposed convolutions of networks, in all directions.
#[test]
fn layers_on_a_gpu_are_timed() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    if !products::is_there(device) {
        return guest::testing::skip("there is no cublasLt");
    }
    let layers = [
        ([128, 3, 768], ([1, 224, 224], [1, 16, 16])),
        ([64, 3, 1152], ([1, 224, 224], [1, 14, 14])),
        ([128, 3, 96], ([1, 224, 224], [1, 4, 4])),
        ([128, 96, 192], ([1, 56, 56], [1, 2, 2])),
        ([4, 3, 1024], ([16, 224, 224], [2, 16, 16])),
        ([2, 32, 64], ([128, 128, 128], [2, 2, 2])),
        ([2, 128, 256], ([32, 32, 32], [2, 2, 2])),
    ];
    for ((counts, sizes), direction) in layers.into_iter().flat_map(|layer| DIRECTIONS.map(|it| (layer, it))) {
        let of = Patched::of(&convolution(Element::Half, direction, counts, sizes)).unwrap();
        let products = of.0.images * of.places() * of.depth() * of.0.outputs;
        for knobs in PatchProducts::choices(device, &of, usize::MAX).into_iter().chain([vec![(SPLITS, 32)]]) {
            print_time(&Compiled::<PatchProducts>::new(device, &of, &knobs).unwrap(), products, stream);
        }
    }
}
