use super::*;
use crate::engines::problem::Slices;
use crate::engines::tests::{
    compile_without_spills, emulated_as_in_loops as in_loops, on_a_gpu_as_on_the_host as as_on_the_host,
};
use crate::engines::warpgroups::tests::{SHARED, both_ways, rolling_volumes};
use gpu::Element;

/// The engines for the problems that a device with these multiprocessors computes.
fn engines(multiprocessors: usize) -> impl Iterator<Item = RollingConvolution> {
    let is_ours =
        |of: &Correlation| of.filter == FILTER && of.slices.filter == FILTER && of.depth >= 16 && of.rows >= 32;
    rolling_volumes().filter(is_ours).filter_map(move |of| {
        let tiling = Tiling::of(&of, SHARED, multiprocessors)?;
        Some(RollingConvolution { of, tiling })
    })
}

fn as_in_loops(test: &str, has: fn(usize) -> bool) {
    in_loops(test, 52, engines(7), |index, _| has(index));
}

#[test]
fn some_emulated_as_in_loops() {
    let has = |index| [0, 3, 5].contains(&index);
    as_in_loops("engines::rolling::tests::some_emulated_as_in_loops", has);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::rolling::tests::emulated_as_in_loops", |_| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_without_spills(90, engines(132));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    as_on_the_host::<RollingConvolution>(53, engines(132).map(|engine| engine.of));
}

#[test]
fn takes_few_channels_only() {
    let of = |depth, side| {
        let [of, _] = both_ways([1, depth, 32], [side; 2], FILTER, Element::Half);
        Tiling::of(&Correlation { slices: Slices { count: 8, filter: FILTER }, ..of }, SHARED, 132)
    };
    assert_eq!(of(32, 128).map(|tiling| tiling.stages), Some(4));
    assert_eq!(of(64, 128).map(|tiling| tiling.stages), Some(3));
    assert_eq!(of(128, 128), None);
}
