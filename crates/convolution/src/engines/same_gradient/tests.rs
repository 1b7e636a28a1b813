use super::*;
use crate::engines::tests::{
    compile_without_spills, emulated_as_in_loops as in_loops, on_a_gpu_as_on_the_host as on_a_gpu,
};
use crate::engines::warpgroups::tests::{SHARED, TINY, both_ways, filter_gradient, small, with_strides};
use gpu::Element;

fn small_gradients() -> impl Iterator<Item = FilterGradient> {
    let [tiny, _] = both_ways([3, 32, 40], TINY, 3, Element::Half);
    small().filter(|of| !of.is_gradient).chain([tiny]).chain(with_strides()).map(filter_gradient)
}

#[test]
fn clusters_share_out_the_pixels() {
    let cluster = |images, channels: [usize; 2], side: usize, multiprocessors, most| {
        let [of, _] = both_ways([images, channels[0], channels[1]], [side; 2], 1, Element::Half);
        Tiling::of(&filter_gradient(of), SHARED, multiprocessors, most).map(|tiling| tiling.cluster)
    };
    // 16 tiles of 128 x 128 on 264 places.
    assert_eq!(cluster(128, [256, 1024], 14, 132, 16), Some(16));
    assert_eq!(cluster(128, [512, 2048], 7, 132, 16), Some(4));
    assert_eq!(cluster(128, [2048, 2048], 14, 132, 16), Some(1));
    // Few pixels are not worth many blocks.
    assert_eq!(cluster(1, [256, 256], 14, 132, 16), Some(1));
    // More than 2^17 pixels are too many for one sum.
    assert_eq!(cluster(128, [4096, 4096], 56, 132, 16), Some(4));
    assert_eq!(cluster(128, [4096, 4096], 56, 132, 2), None);
}

/// With clusters of these sizes, in turns.
fn engines(clusters: &[usize]) -> impl Iterator<Item = SameGradient> + use<'_> {
    small_gradients().zip(clusters.iter().cycle()).map(|(of, &cluster)| {
        let tiling = Tiling::of(&of, SHARED, 1, 1).unwrap();
        SameGradient { of, tiling: Tiling { cluster, ..tiling } }
    })
}

fn as_in_loops(test: &str, has: fn(usize) -> bool) {
    in_loops(test, 34, engines(&[1, 2, 4, 1, 8, 16, 2, 4]), |index, _| has(index));
}

#[test]
fn some_emulated_as_in_loops() {
    as_in_loops("engines::same_gradient::tests::some_emulated_as_in_loops", |index| index % 9 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    as_in_loops("engines::same_gradient::tests::emulated_as_in_loops", |_| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_without_spills(90, engines(&[1, 2, 4, 8, 16]));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let [many, _] = both_ways([64, 64, 128], [14, 14], 3, Element::Half);
    on_a_gpu::<SameGradient>(35, small_gradients().chain([filter_gradient(many)]));
}
