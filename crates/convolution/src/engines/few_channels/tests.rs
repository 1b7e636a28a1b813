use super::*;
use crate::engines::tests::{
    compile_without_spills, emulated_as_in_loops as in_loops, on_a_gpu_as_on_the_host as on_a_gpu,
};

pub fn few_channels_of(
    [images, depth, rows]: [usize; 3],
    from: [usize; 2],
    [filter, stride, padding]: [usize; 3],
    element: Element,
) -> Correlation {
    let to = from.map(|length| (length + 2 * padding - filter) / stride + 1);
    let (is_exact, is_gradient) = (false, false);
    let slices = Slices::ONE;
    Correlation { element, is_exact, is_gradient, images, depth, rows, slices, from, to, filter, stride, padding }
}

/// Convolutions of images with few channels: every width of copies, words and single numbers, images and rows that end
/// within a tile, several tiles of rows, filters of one and two pieces.
fn small() -> impl Iterator<Item = Correlation> {
    let shapes = [
        ([2, 3, 64], [32, 40], [7, 2, 3]),
        ([3, 3, 40], [15, 15], [3, 2, 0]),
        ([2, 3, 136], [20, 22], [3, 1, 1]),
        ([1, 1, 8], [28, 28], [5, 1, 0]),
        ([2, 4, 64], [43, 40], [11, 4, 2]),
        ([2, 8, 96], [16, 24], [4, 4, 0]),
        ([60, 2, 24], [4, 8], [2, 1, 1]),
    ];
    let shapes = shapes.into_iter().zip([Element::Half, Element::Bfloat16].into_iter().cycle());
    shapes.map(|((sizes, from, filter), element)| few_channels_of(sizes, from, filter, element))
}

fn engines() -> impl Iterator<Item = FewChannels> {
    small().map(|of| FewChannels::new(Device::Host, &of, &[]).expect("ours"))
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::few_channels::tests::some_emulated_as_in_loops";
    in_loops(test, 38, engines(), |index, _| [1, 3].contains(&index));
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    let test = "engines::few_channels::tests::emulated_as_in_loops";
    in_loops(test, 38, engines(), |_, _| true);
}

#[test]
fn compiles_for_hopper_without_spills() {
    compile_without_spills(90, engines());
}

#[test]
fn on_a_gpu_as_on_the_host() {
    on_a_gpu::<FewChannels>(39, small());
}
