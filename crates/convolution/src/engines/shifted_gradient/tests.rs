use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::engine::Compiled;
use crate::engines::problem::Correlation;
use crate::engines::sum_up::PARTS;
use crate::engines::tests::{Case, compile_a_share_without_spills, emulated_as_in_loops as in_loops, gpu_for};
use crate::engines::warpgroups::tests::{TINY, both_ways, filter_gradient, small, volumes};
use gpu::Element;
use gpu::testing::on_gpu::Gpu;

/// Images of several chunks, several images in a chunk, parts of tiles of rows and columns, rows longer than a chunk,
/// tiny images; volumes of rows of one slice and of two.
fn small_gradients() -> impl Iterator<Item = FilterGradient> {
    let others = [([3, 32, 40], TINY), ([1, 8, 16], [3, 301]), ([2, 48, 72], [16, 24]), ([20, 8, 8], [5, 6])];
    let others = others.into_iter().map(|(sizes, from)| both_ways(sizes, from, FILTER, Element::Bfloat16)[0]);
    let convolutions = small().chain(volumes()).filter(|of| !of.is_gradient && of.filter == FILTER).chain(others);
    convolutions.map(filter_gradient)
}

/// In one part and in several. The last may be empty.
fn engines() -> impl Iterator<Item = ShiftedGradient> {
    let parts = [1, 3, 2, 7];
    small_gradients().zip(parts.into_iter().cycle()).map(|(of, parts)| ShiftedGradient { of, parts })
}

#[test]
fn some_emulated_as_in_loops() {
    // An image, a volume with rows of two slices, and one with rows of one.
    let test = "engines::shifted_gradient::tests::some_emulated_as_in_loops";
    in_loops(test, 43, engines(), |index, _| [0, 3, 4].contains(&index));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    let test = "engines::shifted_gradient::tests::emulated_as_in_loops";
    in_loops(test, 43, engines(), |_, _| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_a_share_without_spills(3, engines().map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &gpu_for::<ShiftedGradient>(&small_gradients().next().unwrap()) else { return };
    let mut random = SmallRng::seed_from_u64(44);
    let [many, _] = both_ways([64, 64, 128], [14, 14], FILTER, Element::Half);
    for of in small_gradients().chain([filter_gradient(many)]) {
        for knobs in [vec![], vec![(PARTS, 2)], vec![(PARTS, 5)]] {
            let kernel = Compiled::<ShiftedGradient>::new(device, &of, &knobs).expect("compiled");
            Case::new(of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
        }
    }
}

/// The workspace stays within the limit, and sums stay short. Where a limit leaves most of the device idle, another
/// engine is faster for images, and there is none for volumes.
#[test]
fn parts_share_out_the_pixels() {
    let choice = |of: Correlation, limit| {
        let of = filter_gradient(of);
        let choices = ShiftedGradient::choices(Device::Host, &of, limit);
        let engines = choices.iter().map(|knobs| ShiftedGradient::new(Device::Host, &of, knobs).unwrap());
        engines.map(|engine| (engine.parts, engine.workspace())).next()
    };
    let images =
        |images, [c, k]: [usize; 2], side: usize| both_ways([images, c, k], [side; 2], FILTER, Element::Half)[0];
    let [few, many] = [images(16, [64, 64], 28), images(128, [64, 64], 56)];
    let bytes = 64 * 64 * 9 * size_of::<f32>();
    let (most, workspace) = choice(few, usize::MAX).unwrap();
    assert!(most > 8 && workspace == most * bytes, "{most}");
    let limit = most * bytes - 1;
    assert!(choice(few, limit).is_some_and(|(parts, workspace)| parts < most && workspace <= limit));
    assert_eq!(choice(few, 2 * bytes), None);
    assert_eq!(choice(images(4, [512, 512], 14), 0), Some((1, 0)));
    // Too many pixels for one sum.
    assert_eq!(choice(many, 0), None);
    let volume = Correlation { slices: Slices { count: 4, filter: 3 }, ..few };
    assert_eq!(choice(volume, 0), Some((1, 0)));
}
