use super::*;
use crate::engines::tests::{
    compile_a_share_without_spills, emulated_as_in_loops as in_loops, on_a_gpu_as_on_the_host as on_a_gpu,
};
use crate::engines::warpgroups::tests::{SHARED, small, with_strides};

fn engines() -> impl Iterator<Item = SameConvolution> {
    let all = small().chain(with_strides());
    all.map(|of| SameConvolution { of, tile: Tile::of_correlation(&of, SHARED).unwrap() })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::same::tests::some_emulated_as_in_loops";
    in_loops(test, 31, engines(), |index, _| index % 19 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::same::tests::emulated_as_in_loops", 31, engines(), |_, _| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_a_share_without_spills(3, engines().map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    on_a_gpu::<SameConvolution>(32, small().chain(with_strides()));
}
