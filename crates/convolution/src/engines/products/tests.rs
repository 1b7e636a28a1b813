use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::*;
use crate::engines::problem::{Computed, Correlation, FilterGradient, Slices};
use crate::engines::tests::{Case, Tensors};
use gpu::testing::buffers::bits;
use gpu::testing::on_gpu;

fn correlation(element: Element, is_gradient: bool, [images, depth, rows]: [usize; 3]) -> Correlation {
    let (one, filter, stride, padding) = ([1, 1], 1, 1, 0);
    let (is_exact, slices, from, to) = (element == Element::Float, Slices::ONE, one, one);
    Correlation { element, is_exact, is_gradient, images, depth, rows, slices, from, to, filter, stride, padding }
}

fn gradient(element: Element, [images, k, c]: [usize; 3]) -> FilterGradient {
    let (one, is_exact, slices) = ([1, 1], element == Element::Float, Slices::ONE);
    FilterGradient { element, is_exact, images, k, c, slices, x: one, dy: one, filter: one, stride: 1, padding: 0 }
}

/// The products of a batch that cublasLt would compute, in loops on the host.
pub fn multiply_batch((product, batch): (&Product, Batch), alpha: f32, element: Element) {
    for which in 0..batch.count {
        let [left, right, result] = batch.apart.map(|apart| which * apart);
        let later = |factor: Factor, by: usize| {
            let data = factor.data.wrapping_byte_add(by * element.bytes());
            Factor { data, ..factor }
        };
        let products = product.products.wrapping_byte_add(result * product.output.bytes());
        let (left, right) = (later(product.left, left), later(product.right, right));
        multiply(&Product { left, right, products, ..*product }, alpha, element);
    }
}

/// Likewise of one product.
fn multiply(product: &Product, alpha: f32, element: Element) {
    let at = |factor: &Factor, row: usize, column: usize| {
        let place = if factor.is_transposed { column * factor.stride + row } else { row * factor.stride + column };
        // SAFETY: the factors are the test's matrices.
        f64::from(unsafe { number(element, factor.data, place) })
    };
    for (row, column) in (0..product.rows).flat_map(|row| (0..product.columns).map(move |column| (row, column))) {
        let sum: f64 = (0..product.depth).map(|k| at(&product.left, row, k) * at(&product.right, k, column)).sum();
        let place = row * product.columns + column;
        // SAFETY: likewise the result.
        let old = if product.beta == 0.0 { 0.0 } else { unsafe { number(product.output, product.products, place) } };
        let sum = bits(product.output, alpha * sum as f32 + product.beta * old);
        let to = product.products.cast::<u8>().wrapping_add(place * product.output.bytes());
        // SAFETY: likewise the result.
        unsafe { std::ptr::copy_nonoverlapping(sum.as_ptr(), to, sum.len()) };
    }
}

/// The number at a place of a matrix.
///
/// # Safety
/// The caller promises that it is there.
unsafe fn number(element: Element, data: *const c_void, place: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        match element {
            Element::Float => data.cast::<f32>().add(place).read_unaligned(),
            Element::Half => data.cast::<half::f16>().add(place).read_unaligned().to_f32(),
            Element::Bfloat16 => data.cast::<half::bf16>().add(place).read_unaligned().to_f32(),
        }
    }
}

/// Multiplies in loops, in place of cublasLt.
struct InLoops(Matrices);

impl Plan for InLoops {
    fn workspace(&self) -> usize {
        0
    }

    unsafe fn run(&self, _: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        multiply(&self.0.product(memory, 0, beta), alpha, Element::Float);
        true
    }
}

const SIZES: [[usize; 3]; 5] = [[1, 1, 1], [5, 7, 3], [16, 24, 9], [3, 1, 20], [1000, 33, 40]];

#[test]
fn the_product_is_the_convolution() {
    let (device, stream, mut random) = (Device::Host, std::ptr::null_mut(), SmallRng::seed_from_u64(51));
    let mut check = |sizes: [usize; 3]| {
        for is_gradient in [false, true] {
            let of = correlation(Element::Float, is_gradient, sizes);
            let plan = InLoops(Matrices::of(&of.convolution()).unwrap());
            Case::new(of, device, stream, &mut random).check_plan(&plan, &format!("{of:?}"), device, stream);
        }
        let of = gradient(Element::Float, sizes);
        let plan = InLoops(Matrices::of(&of.convolution()).unwrap());
        Case::new(of, device, stream, &mut random).check_plan(&plan, &format!("{of:?}"), device, stream);
    };
    SIZES.into_iter().for_each(&mut check);
}

#[test]
fn images_of_more_places_are_no_product() {
    let of = correlation(Element::Half, false, [2, 3, 4]);
    let others = [
        Correlation { from: [2, 1], to: [2, 1], ..of },
        Correlation { from: [3, 3], filter: 3, ..of },
        Correlation { from: [1, 1], to: [3, 3], padding: 1, ..of },
        Correlation { images: 0, ..of },
        Correlation { depth: 1 << 40, ..of },
    ];
    assert!(Matrices::of(&of.convolution()).is_some());
    assert!(others.into_iter().all(|of| Matrices::of(&of.convolution()).is_none()));
}

/// Sums of two-byte numbers are short or not, and sums of floats are neither.
#[test]
fn sums_that_are_short() {
    let has = |element, is_gradient, sizes| {
        let of = correlation(element, is_gradient, sizes).convolution();
        !short_choices(Device::Host, &of, Priority::Fast, 0).is_empty()
    };
    assert!(has(Element::Half, false, [9000, 16_384, 4000]) && !has(Element::Half, false, [9, 16_385, 4]));
    assert!(has(Element::Bfloat16, true, [9000, 131_072, 4000]) && !has(Element::Bfloat16, true, [9, 131_073, 4]));
    assert!(!has(Element::Float, false, [9, 20, 4]));
    let gradient = |images| gradient(Element::Half, [images, 4, 4]).convolution();
    assert!(short_choices(Device::Host, &gradient(16_385), Priority::Fast, 0).is_empty());
    assert!(!short_choices(Device::Host, &gradient(16_384), Priority::Fast, 0).is_empty());
}

#[test]
fn a_product_takes_workspace_within_the_limit() {
    let problem = correlation(Element::Half, false, [20, 4, 4]).convolution();
    let workspaces = |limit: usize| {
        let choices = choices(Device::Host, &problem, Priority::Fast, limit).into_iter();
        choices.map(|knobs| plan(Device::Host, &problem, &knobs).unwrap().workspace() >> 20).collect::<Vec<_>>()
    };
    assert_eq!([0, (4 << 20) - 1, 4 << 20, 1 << 30].map(workspaces), [vec![0], vec![0], vec![4, 0], vec![32, 4, 0]]);
    let wrong: [&[Knob]; 3] = [&[(WORKSPACE_KNOB, 3)], &[(1, 4)], &[(WORKSPACE_KNOB, 4), (1, 1)]];
    assert!(wrong.iter().all(|knobs| plan(Device::Host, &problem, knobs).is_err()));
}

fn on_a_gpu<P: Tensors>(of: P, gpu: &on_gpu::Gpu, random: &mut SmallRng) {
    let problem = of.convolution();
    let case = Case::new(of, Device::Cuda, gpu.stream.raw(), random);
    for knobs in choices(Device::Cuda, &problem, Priority::Fast, usize::MAX) {
        let plan = plan(Device::Cuda, &problem, &knobs).unwrap();
        case.check_plan(&*plan, &format!("{problem:?} {knobs:?}"), Device::Cuda, gpu.stream.raw());
    }
}

#[test]
fn on_a_gpu_as_in_loops() {
    let Some(gpu) = on_gpu::first() else { return };
    if CublasLt::new().is_err() {
        return guest::testing::skip("there is no cublasLt");
    }
    let mut random = SmallRng::seed_from_u64(52);
    for (element, sizes) in Element::ALL.into_iter().flat_map(|element| SIZES.map(|sizes| (element, sizes))) {
        for is_gradient in [false, true] {
            let of = correlation(element, is_gradient, sizes);
            on_a_gpu(of, &gpu, &mut random);
        }
        let of = gradient(element, sizes);
        on_a_gpu(of, &gpu, &mut random);
    }
}
