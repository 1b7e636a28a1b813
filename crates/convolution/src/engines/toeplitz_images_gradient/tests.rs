use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::depthwise::tests::{LAYERS, SIZES, convolution};
use crate::engines::engine::Compiled;
use crate::engines::problem::Computed;
use crate::engines::sum_up::PARTS;
use crate::engines::tests::{
    Case, compile_a_share_without_spills, compile_without_spills, emulated_as_in_loops as in_loops, print_time,
};
use crate::engines::toeplitz::Toeplitz;
use crate::engines::toeplitz::tests::OWN as MORE;
use crate::engines::toeplitz_gradient::ToeplitzGradient;
use crate::engines::toeplitz_images::ToeplitzImages;
use crate::engines::toeplitz_images::tests::{OWN, SHARED};
use gpu::Element;
use gpu::testing::on_gpu;

/// In one part and in several, some of which may be empty.
fn engines() -> impl Iterator<Item = ToeplitzImagesGradient> {
    let elements = [Element::Half, Element::Bfloat16].into_iter().cycle();
    let cases = OWN.into_iter().chain(MORE).chain(SIZES).zip(elements);
    let problems = cases
        .filter_map(|(sizes, element)| ByChannel::of(&convolution(element, Direction::BackwardFilter, sizes)).ok());
    let ours = problems.filter(|of| is_ours(Device::Host, of)).zip(SHARED.into_iter().cycle());
    let cuts = ours.filter_map(|(of, shared)| Some((of, Cut::of(&of, shared)?)));
    let parts = [1, 3, 2].into_iter().cycle();
    cuts.zip(parts).map(|((of, cut), parts)| ToeplitzImagesGradient { of, cut, parts })
}

#[test]
fn some_emulated_as_in_loops() {
    let test = "engines::toeplitz_images_gradient::tests::some_emulated_as_in_loops";
    in_loops(test, 79, engines(), |index, _| index % 5 == 0);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn emulated_as_in_loops() {
    in_loops("engines::toeplitz_images_gradient::tests::emulated_as_in_loops", 79, engines(), |_, _| true);
}

#[test]
fn compiles_for_all_gpus_without_spills() {
    for capability in [80, 100] {
        compile_without_spills(capability, engines().step_by(4));
    }
    compile_a_share_without_spills(3, engines().map(|engine| (90, engine)));
}

#[test]
fn on_a_gpu_as_on_the_host() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    let mut random = SmallRng::seed_from_u64(80);
    for of in engines().map(|engine| engine.of) {
        let case = Case::new(of, device, stream.raw(), &mut random);
        for knobs in [vec![], vec![(PARTS, 2)], vec![(PARTS, 5)]] {
            let kernel = Compiled::<ToeplitzImagesGradient>::new(device, &of, &knobs).expect("compiled");
            case.check(&kernel, device, stream.raw());
        }
    }
}

/// Blocks stay within the memory that they may take, and tiles within what they read. All kinds of cuts occur.
#[test]
fn tiles_fit() {
    let mut seen = std::collections::HashSet::new();
    for engine in engines() {
        let ToeplitzImagesGradient { of, cut, .. } = engine;
        let [rows, columns] = axes(&of);
        assert!(
            (cut.shared_bytes(&of) + 1024) * cut.blocks <= SHARED[0] + 1024 && columns.to <= 8 * cut.block.tiles(),
            "{engine:?}"
        );
        assert!(columns.from.is_multiple_of(cut.piece_x) && columns.to.is_multiple_of(cut.piece_dy), "{engine:?}");
        assert!((columns.before() + cut.shift as i32) % cut.piece_x as i32 == 0, "{engine:?}");
        assert!(cut.block.steps(rows.to) * cut.block.rows() >= rows.to + rows.places - 1, "{engine:?}");
        seen.extend([("tiles", cut.block.tiles()), ("x", cut.piece_x), ("dy", cut.piece_dy)]);
    }
    for (what, all) in [("tiles", [2, 4, 8]), ("x", [2, 4, 8]), ("dy", [2, 4, 8])] {
        assert!(all.iter().all(|value| seen.contains(&(what, *value))), "{what}: {seen:?}");
    }
}

/// The workspace stays within the limit, and sums stay short: without workspace, many images are refused.
#[test]
fn parts_share_out_the_images() {
    let of = |images| {
        let axis = [56, 5, 1, 2, 1];
        let sizes = ([images, 16, 1], [[1, 1, 1, 0, 1], axis, axis]);
        ByChannel::of(&convolution(Element::Half, Direction::BackwardFilter, sizes)).unwrap()
    };
    let choice = |images, limit| {
        let of = of(images);
        let choices = ToeplitzImagesGradient::choices(Device::Host, &of, limit);
        let engines = choices.iter().map(|knobs| ToeplitzImagesGradient::new(Device::Host, &of, knobs).unwrap());
        engines.map(|engine| (engine.parts, engine.workspace())).next()
    };
    let bytes = 16 * 25 * size_of::<f32>();
    assert_eq!(choice(128, 0), Some((1, 0)));
    let (parts, workspace) = choice(5000, usize::MAX).unwrap();
    assert!(parts >= 19 && workspace == parts * bytes, "{parts}");
    assert_eq!(choice(5000, 2 * bytes), None);
    assert_eq!(choice(17, usize::MAX), None);
}

/// Prints the times of the engines for many images, and of those for any, at layers that all of them compute.
#[test]
fn layers_on_a_gpu_are_timed() {
    let device = Device::Cuda;
    let Some(on_gpu::Gpu { stream, .. }) = &on_gpu::first() else { return };
    for sizes in LAYERS {
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter] {
            let Ok(of) = ByChannel::of(&convolution(Element::Bfloat16, direction, sizes)) else { continue };
            let products = of.0.images * of.0.y.iter().product::<usize>() * of.filter_elements();
            for knobs in ToeplitzImages::choices(device, &of, usize::MAX) {
                print_time(&Compiled::<ToeplitzImages>::new(device, &of, &knobs).unwrap(), products, stream);
                print_time(&Compiled::<Toeplitz>::new(device, &of, &[]).unwrap(), products, stream);
            }
            for knobs in ToeplitzImagesGradient::choices(device, &of, usize::MAX) {
                print_time(&Compiled::<ToeplitzImagesGradient>::new(device, &of, &knobs).unwrap(), products, stream);
                for knobs in ToeplitzGradient::choices(device, &of, usize::MAX) {
                    print_time(&Compiled::<ToeplitzGradient>::new(device, &of, &knobs).unwrap(), products, stream);
                }
            }
        }
    }
}
