//! Tests of products by cublasLt, with the library's descriptions alone or with loops in its place.

use guest::libraries::{Chosen, Place};

use super::*;
use guest::testing::skip;

/// cuDNN's package brings cublasLt. Without a GPU all of cublasLt works except handles and products.
#[test]
fn the_real_library_takes_descriptions() {
    let Some(folder) = std::env::var_os("UCUDNN_TEST_REAL_CUDNN") else {
        return skip("UCUDNN_TEST_REAL_CUDNN does not name the real cuDNN's folder");
    };
    let beside = places::beside(&[std::path::Path::new(&folder).join("libcudnn.so.9").into()]);
    let functions = Functions::find(places::in_folders("libcublasLt", "a test", beside).into_iter()).unwrap();
    for (element, compute) in [
        (Element::Float, Compute::Float),
        (Element::Float, Compute::Tf32),
        (Element::Half, Compute::Float),
        (Element::Bfloat16, Compute::Float),
    ] {
        for transposed in FORMS {
            let alignments = [16, 4, 256];
            for output in [element, Element::Float] {
                let (strides, [rows, columns, depth]) = ([16, 16], [7, 12, 5]);
                let workspace_bytes = 0;
                for batch in [Batch::ONE, Batch { count: 3, apart: [0, 400, 84] }] {
                    let shape = Shape {
                        element,
                        output,
                        compute,
                        transposed,
                        strides,
                        rows,
                        columns,
                        depth,
                        batch,
                        alignments,
                        workspace_bytes,
                    };
                    functions.describe(&shape).unwrap();
                }
            }
        }
    }
    let wrong = functions.set(&functions.describe(&ANY).unwrap()[0], 9999, 1);
    assert!(wrong.unwrap_err().contains("status"));
}

const ANY: Shape = Shape {
    element: Element::Float,
    output: Element::Float,
    compute: Compute::Float,
    transposed: [false; 2],
    strides: [1; 2],
    rows: 1,
    columns: 1,
    depth: 1,
    batch: Batch::ONE,
    alignments: [4; 3],
    workspace_bytes: 0,
};

/// Which factors are stored as their transposes.
const FORMS: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Each form of a product of floats, computed by loops in place of cublasLt: the descriptions that they get are of the
/// product that the caller asked for.
#[test]
fn all_forms_are_described() {
    let cublaslt = by_loops();
    let (rows, columns, depth) = (3, 5, 4);
    let number = |index: usize| (index * 7 % 11) as f32 - 5.0;
    for transposed in FORMS {
        for (beta, gap) in [(0.0, 0), (1.0, 0), (0.0, 3), (1.0, 2)] {
            // A product must not read the NaNs between stored rows.
            let stored = |[height, width]: [usize; 2], is_transposed: bool, first: usize| {
                let [height, width] = if is_transposed { [width, height] } else { [height, width] };
                let row = |row| (0..width).map(move |at| number(first + row * width + at)).chain(vec![f32::NAN; gap]);
                ((0..height).flat_map(row).collect::<Vec<f32>>(), width + gap)
            };
            let (left, left_stride) = stored([rows, depth], transposed[0], 0);
            let (right, right_stride) = stored([depth, columns], transposed[1], 3);
            let before = if beta == 0.0 { f32::NAN } else { 100.0 };
            let mut products = vec![before; rows * columns];
            let factor = |data: &[f32], stride, is_transposed| {
                let data = data.as_ptr().cast();
                Factor { data, stride, is_transposed }
            };
            let product = Product {
                left: factor(&left, left_stride, transposed[0]),
                right: factor(&right, right_stride, transposed[1]),
                products: products.as_mut_ptr().cast(),
                output: Element::Float,
                beta,
                rows,
                columns,
                depth,
                workspace: (null_mut(), 0),
            };
            // SAFETY: the vectors have the sizes in `product`.
            unsafe { cublaslt.multiply(null_mut(), &product, Element::Float, Compute::Float) }.unwrap();
            let at = |matrix: &[f32], stride, is_transposed, [row, column]: [usize; 2]| {
                matrix[if is_transposed { column * stride + row } else { row * stride + column }]
            };
            for (index, found) in products.into_iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let term = |k| {
                    at(&left, left_stride, transposed[0], [row, k])
                        * at(&right, right_stride, transposed[1], [k, column])
                };
                let expected = (0..depth).map(term).sum::<f32>() + if beta == 0.0 { 0.0 } else { beta * before };
                assert_eq!(found, expected, "{transposed:?}, beta {beta}, gap {gap}: {row}, {column}");
            }
        }
    }
}

/// Three products with one left factor. Between the other matrices are elements that belong to none.
#[test]
fn products_of_a_batch_are_described() {
    let cublaslt = by_loops();
    let (count, rows, columns, depth) = (3, 2, 4, 3);
    let apart = [0, depth * columns + 1, rows * columns + 2];
    let numbers =
        |count: usize, first| (first..first + count).map(|at| (at * 5 % 9) as f32 - 4.0).collect::<Vec<f32>>();
    let (left, right, before) = (numbers(rows * depth, 0), numbers(count * apart[1], 2), numbers(count * apart[2], 7));
    let mut products = before.clone();
    let factor = |data: &[f32], stride| Factor { data: data.as_ptr().cast(), stride, is_transposed: false };
    let product = Product {
        left: factor(&left, depth),
        right: factor(&right, columns),
        products: products.as_mut_ptr().cast(),
        output: Element::Float,
        beta: 2.0,
        rows,
        columns,
        depth,
        workspace: (null_mut(), 0),
    };
    let batch = (&product, Batch { count, apart });
    // SAFETY: the vectors have the sizes in `product`, for each of the batch.
    unsafe { cublaslt.multiply_batch(null_mut(), 0.5, batch, Element::Float, Compute::Float) }.unwrap();
    for (index, (found, before)) in products.into_iter().zip(before).enumerate() {
        let (which, place) = (index / apart[2], index % apart[2]);
        let (row, column) = (place / columns, place % columns);
        let term = |k| left[row * depth + k] * right[which * apart[1] + k * columns + column];
        let is_product = place < rows * columns;
        let expected = if is_product { 0.5 * (0..depth).map(term).sum::<f32>() + 2.0 * before } else { before };
        assert_eq!(found, expected, "{which}: {row}, {column}");
    }
}

/// cublasLt whose functions are loops.
fn by_loops() -> CublasLt {
    let functions = Box::leak(Box::new(by_loops::FUNCTIONS));
    // SAFETY: writes one handle to a live variable.
    let handle = Object::new(functions.destroy, |raw| unsafe { (functions.create)(raw) }).unwrap();
    CublasLt { functions, handle, ready: Mutex::default() }
}

/// cublasLt's functions for products of floats, by loops on the host. An object is a box, which is never freed.
mod by_loops {
    use super::*;

    #[derive(Default)]
    struct Description {
        is_transposed: [bool; 2],
    }

    /// Matrices, column by column, `stride` elements from one to the next.
    struct Matrix {
        rows: usize,
        columns: usize,
        stride: usize,
        count: usize,
        apart: usize,
    }

    pub const FUNCTIONS: Functions = Functions {
        create: create_any,
        destroy: destroy_any,
        create_product,
        destroy_product: destroy_any,
        set_product,
        create_matrix,
        destroy_matrix: destroy_any,
        set_matrix,
        create_preference: create_any,
        destroy_preference: destroy_any,
        set_preference,
        heuristic,
        multiply,
    };

    unsafe fn keep<T>(object: T, at: *mut *mut c_void) -> Status {
        // SAFETY: the caller promises a place for a pointer.
        unsafe { at.write(Box::into_raw(Box::new(object)).cast()) };
        SUCCESS
    }

    unsafe extern "C" fn create_any(at: *mut *mut c_void) -> Status {
        // SAFETY: the caller promises a place for a pointer.
        unsafe { keep((), at) }
    }

    unsafe extern "C" fn destroy_any(_: *mut c_void) -> Status {
        SUCCESS
    }

    unsafe extern "C" fn create_product(at: *mut *mut c_void, compute: c_int, scale: c_int) -> Status {
        assert_eq!((compute, scale), (Compute::Float as c_int, FLOAT));
        // SAFETY: the caller promises a place for a pointer.
        unsafe { keep(Description::default(), at) }
    }

    unsafe extern "C" fn set_product(
        product: *mut c_void,
        attribute: c_int,
        value: *const c_void,
        bytes: usize,
    ) -> Status {
        // SAFETY: the caller promises a product, and the size says that the value is an `i32`.
        let (product, value) = unsafe { (&mut *product.cast::<Description>(), *value.cast::<i32>()) };
        assert_eq!(bytes, 4);
        product.is_transposed[(attribute - TRANSPOSE_A) as usize] = value == TRANSPOSED;
        SUCCESS
    }

    unsafe extern "C" fn create_matrix(
        at: *mut *mut c_void,
        data_type: c_int,
        rows: u64,
        columns: u64,
        leading: i64,
    ) -> Status {
        assert_eq!(data_type, FLOAT);
        let (rows, columns, stride) = (rows as usize, columns as usize, leading as usize);
        // SAFETY: the caller promises a place for a pointer.
        unsafe { keep(Matrix { rows, columns, stride, count: 1, apart: 0 }, at) }
    }

    unsafe extern "C" fn set_matrix(
        matrix: *mut c_void,
        attribute: c_int,
        value: *const c_void,
        bytes: usize,
    ) -> Status {
        // SAFETY: the caller promises a matrix, and a value of the attribute's size.
        unsafe {
            let matrix = &mut *matrix.cast::<Matrix>();
            match (attribute, bytes) {
                (BATCH_COUNT, 4) => matrix.count = *value.cast::<i32>() as usize,
                (BATCH_APART, 8) => matrix.apart = *value.cast::<i64>() as usize,
                _ => panic!("attribute {attribute} of {bytes} bytes"),
            }
        }
        SUCCESS
    }

    unsafe extern "C" fn set_preference(_: *mut c_void, _: c_int, _: *const c_void, _: usize) -> Status {
        SUCCESS
    }

    unsafe extern "C" fn heuristic(
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: c_int,
        result: *mut Heuristic,
        count: *mut c_int,
    ) -> Status {
        // SAFETY: the caller promises places for a result and for the count.
        unsafe {
            (*result).state = SUCCESS;
            count.write(1);
        }
        SUCCESS
    }

    unsafe extern "C" fn multiply(
        _: *mut c_void,
        product: *mut c_void,
        alpha: *const c_void,
        a: *const c_void,
        a_matrix: *mut c_void,
        b: *const c_void,
        b_matrix: *mut c_void,
        beta: *const c_void,
        c: *const c_void,
        _: *mut c_void,
        d: *mut c_void,
        d_matrix: *mut c_void,
        _: *const Algorithm,
        _: *mut c_void,
        _: usize,
        _: Stream,
    ) -> Status {
        // SAFETY: the caller promises objects that were made here, and matrices of the described sizes.
        unsafe {
            let is_transposed = (*product.cast::<Description>()).is_transposed;
            let (alpha, beta) = (*alpha.cast::<f32>(), *beta.cast::<f32>());
            let matrix = |raw: *mut c_void| &*raw.cast::<Matrix>();
            let (a_matrix, b_matrix, d_matrix) = (matrix(a_matrix), matrix(b_matrix), matrix(d_matrix));
            let sizes = |matrix: &Matrix, is_transposed| match is_transposed {
                true => [matrix.columns, matrix.rows],
                false => [matrix.rows, matrix.columns],
            };
            let ([height, depth], [also_depth, width]) =
                (sizes(a_matrix, is_transposed[0]), sizes(b_matrix, is_transposed[1]));
            assert_eq!((depth, [height, width]), (also_depth, [d_matrix.rows, d_matrix.columns]));
            assert!([a_matrix.count, b_matrix.count] == [d_matrix.count; 2]);
            for which in 0..d_matrix.count {
                let at = |data: *const c_void, matrix: &Matrix, is_transposed, row: usize, column: usize| {
                    let (row, column) = if is_transposed { (column, row) } else { (row, column) };
                    *data.cast::<f32>().add(which * matrix.apart + column * matrix.stride + row)
                };
                for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
                    let term =
                        |k| at(a, a_matrix, is_transposed[0], row, k) * at(b, b_matrix, is_transposed[1], k, column);
                    let sum = alpha * (0..depth).map(term).sum::<f32>();
                    let before = if beta == 0.0 { 0.0 } else { beta * at(c, d_matrix, false, row, column) };
                    let place = which * d_matrix.apart + column * d_matrix.stride + row;
                    d.cast::<f32>().add(place).write(sum + before);
                }
            }
        }
        SUCCESS
    }
}

#[test]
fn what_was_tried_is_told() {
    let place = Place { origin: "a test", file: "libc.so.6".into(), chosen: Chosen::Loaded };
    let places = [Candidate { place, major: 12 }];
    let Err(why) = Functions::find(places.into_iter()) else { panic!("found cublasLt") };
    assert!(why.contains("libc.so.6 (a test): it has no cublasLtCreate"), "{why}");
}
