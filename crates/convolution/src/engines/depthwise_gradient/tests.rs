use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::depthwise::Depthwise;
use crate::engines::depthwise::tests::{LAYERS, SIZES, convolution, problems};
use crate::engines::engine::Compiled;
use crate::engines::problem::Computed;
use crate::engines::sum_up::PARTS;
use crate::engines::tests::{Case, compile_without_spills, emulated_as_in_loops as in_loops, print_time};
use crate::engines::toeplitz::Toeplitz;
use crate::engines::toeplitz_gradient::ToeplitzGradient;
use gpu::Element;
use gpu::testing::on_gpu;

fn gradients() -> impl Iterator<Item = ByChannel> {
    problems(&[Direction::BackwardFilter])
}

/// In one part and in several, some of which may be empty.
fn engines() -> impl Iterator<Item = DepthwiseGradient> {
    let parts = [1, 3, 2];
    gradients().zip(parts.into_iter().cycle()).map(|(of, parts)| DepthwiseGradient::cut(&of, parts).unwrap())
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::depthwise_gradient::tests::some_emulated_as_in_loops";
    in_loops(test, 73, engines(), |index, _| index < 7 && index % 2 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::depthwise_gradient::tests::emulated_as_in_loops", 73, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().take(3));
    }
    compile_without_spills(90, engines().skip(7).take(4));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(74);
    for of in gradients() {
        let case = Case::new(of, device, stream.raw(), &mut random);
        for knobs in [vec![], vec![(PARTS, 2)], vec![(PARTS, 5)]] {
            let kernel = Compiled::<DepthwiseGradient>::new(device, &of, &knobs).expect("compiled");
            case.check(&kernel, device, stream.raw());
        }
    }
}

/// The workspace stays within the limit. Sums stay short: without workspace, many images are refused.
#[test]
fn parts_share_out_the_images() {
    let of = |images| {
        let axis = [56, 7, 1, 3, 1];
        let sizes = ([images, 8, 1], [[1, 1, 1, 0, 1], axis, axis]);
        ByChannel::of(&convolution(Element::Half, Direction::BackwardFilter, sizes)).unwrap()
    };
    let choice = |images, limit| {
        let of = of(images);
        let choices = DepthwiseGradient::choices(Device::Host, &of, limit);
        let engines = choices.iter().map(|knobs| DepthwiseGradient::new(Device::Host, &of, knobs).unwrap());
        engines.map(|engine| (engine.parts, engine.workspace())).next()
    };
    assert_eq!(choice(128, 0), Some((1, 0)));
    let bytes = 8 * 49 * size_of::<f32>();
    let (most, workspace) = choice(5000, usize::MAX).unwrap();
    assert!(most >= 10 && workspace == most * bytes, "{most}");
    assert_eq!(choice(5000, 9 * bytes), None);
    assert!(DepthwiseGradient::new(Device::Host, &of(8), &[(PARTS, 1)]).is_none());
    assert!(DepthwiseGradient::new(Device::Host, &of(8), &[(1, 2)]).is_none());
    let forward = ByChannel(convolution(Element::Half, Direction::Forward, SIZES[0]));
    assert!(DepthwiseGradient::choices(Device::Host, &forward, usize::MAX).is_empty());
}

/// Prints the times of all engines of this kind at layers of networks, in all directions.
#[test]
fn layers_on_a_gpu_are_timed() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    for sizes in LAYERS {
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let Ok(of) = ByChannel::of(&convolution(Element::Half, direction, sizes)) else { continue };
            let products = of.0.images * of.0.y.iter().product::<usize>() * of.filter_elements();
            if direction != Direction::BackwardFilter {
                print_time(&Compiled::<Depthwise>::new(device, &of, &[]).unwrap(), products, stream);
            }
            if let Ok(kernel) = Compiled::<Toeplitz>::new(device, &of, &[]) {
                print_time(&kernel, products, stream);
            }
            for knobs in ToeplitzGradient::choices(device, &of, usize::MAX) {
                print_time(&Compiled::<ToeplitzGradient>::new(device, &of, &knobs).unwrap(), products, stream);
            }
            for knobs in DepthwiseGradient::choices(device, &of, usize::MAX) {
                print_time(&Compiled::<DepthwiseGradient>::new(device, &of, &knobs).unwrap(), products, stream);
            }
        }
    }
}
