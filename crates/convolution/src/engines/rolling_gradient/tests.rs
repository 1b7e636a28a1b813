use super::*;
use crate::engines::engine::Compiled;
use crate::engines::problem::{Correlation, Slices};
use crate::engines::sum_up::PARTS;
use crate::engines::tests::{Case, compile_a_share_without_spills, emulated_as_in_loops as in_loops, gpu_for};
use crate::engines::warpgroups::tests::{both_ways, filter_gradient, rolling_volumes};
use gpu::Element;
use gpu::testing::on_gpu::Gpu;
use rand::SeedableRng;
use rand::rngs::SmallRng;

fn gradients() -> impl Iterator<Item = FilterGradient> {
    let convolutions = rolling_volumes().filter(|of| !of.is_gradient);
    convolutions.map(filter_gradient).filter(|of| of.k.min(of.c) >= LEAST_CHANNELS)
}

/// In one part and in several. The last may be empty.
fn engines() -> impl Iterator<Item = RollingGradient> {
    let parts = [3, 1, 2, 7];
    gradients().zip(parts.into_iter().cycle()).map(|(of, parts)| RollingGradient::with(&of, parts))
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::rolling_gradient::tests::some_emulated_as_in_loops";
    in_loops(test, 54, engines(), |index, _| [0, 1, 3].contains(&index));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::rolling_gradient::tests::emulated_as_in_loops", 54, engines(), |_, _| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_a_share_without_spills(3, engines().map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(Gpu { stream, .. }) = &gpu_for::<RollingGradient>(&gradients().next().unwrap()) else { return };
    let mut random = SmallRng::seed_from_u64(55);
    for of in gradients() {
        for knobs in [vec![], vec![(PARTS, 2)], vec![(PARTS, 5)]] {
            let kernel = Compiled::<RollingGradient>::new(device, &of, &knobs).expect("compiled");
            Case::new(of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
        }
    }
}

/// The workspace stays within the limit, and sums stay short.
#[test]
fn parts_share_out_the_slices() {
    let of = |side| {
        let [of, _] = both_ways([2, 32, 32], [side; 2], FILTER, Element::Half);
        filter_gradient(Correlation { slices: Slices { count: side, filter: FILTER }, ..of })
    };
    let choice = |side, limit| RollingGradient::within(&of(side), 132, limit);
    let all = choice(32, usize::MAX).unwrap();
    assert_eq!(all.parts, 132);
    let limit = all.workspace() - 1;
    assert!(choice(32, limit).is_some_and(|it| it.parts == 131 && it.workspace() <= limit));
    assert_eq!(choice(32, 0).map(|it| it.parts), Some(1));
    // Too many pixels for one sum.
    assert!(choice(128, 0).is_none());
}
