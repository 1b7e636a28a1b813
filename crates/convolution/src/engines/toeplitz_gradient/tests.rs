use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::depthwise::tests::{LAYERS, SIZES, convolution};
use crate::engines::engine::Compiled;
use crate::engines::problem::Computed;
use crate::engines::sum_up::PARTS;
use crate::engines::tests::{Case, compile_without_spills, emulated_as_in_loops as in_loops};
use crate::engines::toeplitz::tests::OWN;
use gpu::Element;
use gpu::testing::on_gpu;

/// An axis of one place.
const ONE: [usize; 5] = [1, 1, 1, 0, 1];

fn gradients() -> impl Iterator<Item = ByChannel> {
    let elements = [Element::Half, Element::Bfloat16].into_iter().cycle();
    let cases = OWN.into_iter().chain(SIZES).zip(elements);
    let problems = cases
        .filter_map(|(sizes, element)| ByChannel::of(&convolution(element, Direction::BackwardFilter, sizes)).ok());
    problems.filter(|of| is_ours(Device::Host, of))
}

/// In one part and in several, some of which may be empty.
fn engines() -> impl Iterator<Item = ToeplitzGradient> {
    let parts = [1, 3, 2];
    gradients().zip(parts.into_iter().cycle()).map(|(of, parts)| {
        let cut = Cut::of(Device::Host, &of).expect("it fits");
        ToeplitzGradient { of, cut, parts }
    })
}

fn has_strides(engine: &ToeplitzGradient) -> bool {
    engine.of.0.stride != [1; 3]
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::toeplitz_gradient::tests::some_emulated_as_in_loops";
    in_loops(test, 75, engines(), |index, engine| index % 5 == 0 || index % 4 == 0 && has_strides(engine));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::toeplitz_gradient::tests::emulated_as_in_loops", 75, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().take(3));
        compile_without_spills(capability, engines().filter(has_strides).step_by(5));
    }
    compile_without_spills(90, engines().step_by(3));
    compile_without_spills(90, engines().filter(has_strides));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(76);
    for of in gradients() {
        let case = Case::new(of, device, stream.raw(), &mut random);
        for knobs in [vec![], vec![(PARTS, 2)], vec![(PARTS, 5)]] {
            let kernel = Compiled::<ToeplitzGradient>::new(device, &of, &knobs).expect("compiled");
            case.check(&kernel, device, stream.raw());
        }
    }
}

/// Images that are cut alike share a kernel.
#[test]
fn images_share_a_kernel() {
    let options = |side, filter| {
        let axis = [side, filter, 1, filter / 2, 1];
        let of = convolution(Element::Half, Direction::BackwardFilter, ([3, 8, 1], [ONE, axis, axis]));
        let of = ByChannel::of(&of).unwrap();
        ToeplitzGradient { of, cut: Cut::of(Device::Host, &of).unwrap(), parts: 1 }.options()
    };
    assert_eq!(options(14, 3), options(10, 3));
    assert_eq!(options(32, 5), options(48, 5));
    assert_ne!(options(14, 3), options(14, 5));
}

/// The workspace stays within the limit, and a block's memory within a block's.
#[test]
fn parts_share_out_the_images() {
    for sizes in LAYERS.into_iter().chain(OWN).chain(SIZES) {
        let of = ByChannel::of(&convolution(Element::Half, Direction::BackwardFilter, sizes)).unwrap();
        let bytes = of.filter_elements() * size_of::<f32>();
        for limit in [0, 3 * bytes, usize::MAX] {
            for knobs in ToeplitzGradient::choices(Device::Host, &of, limit) {
                let engine = ToeplitzGradient::new(Device::Host, &of, &knobs).unwrap();
                assert!(engine.workspace() <= limit && engine.cut.shared_bytes(&of) <= MOST_SHARED, "{engine:?}");
            }
        }
    }
    let of = |images| {
        let axis = [56, 7, 1, 3, 1];
        let sizes = ([images, 8, 1], [[1, 1, 1, 0, 1], axis, axis]);
        ByChannel::of(&convolution(Element::Half, Direction::BackwardFilter, sizes)).unwrap()
    };
    let parts = |images, limit| {
        let choices = ToeplitzGradient::choices(Device::Host, &of(images), limit);
        choices.iter().map(|knobs| parts_of(knobs).unwrap()).next()
    };
    assert_eq!(parts(128, 0), Some(1));
    assert!(parts(5000, usize::MAX).unwrap() >= 10);
    // Sums stay short.
    assert_eq!(parts(5000, 9 * 8 * 49 * size_of::<f32>()), None);
}
