//! Large products whose matrices have rows that are no whole vectors. cublasLt's fastest kernels do not take such rows, so
//! the products run on copies of these matrices, with zeros behind each row.
//!
//! Each product of all steps at once has two such matrices, which have equally wide rows: W x has x and W, dgates W has W
//! and the gradient of x, and dgatesᵀ x has x and the gradient of W.

use std::ffi::c_void;

use crate::training::compute::kernels::{CopiedRows, Kernels};
use gpu::cublaslt::{Factor, Product, has_whole_vectors, padded_row};
use gpu::jit::Error;
use gpu::{Device, Element, Stream};

/// The fewest multiply-adds for which copies pay: in half on an H200, cublasLt's other kernels take some 50 µs for these,
/// and three copies of such matrices less than 20.
const LEAST: usize = 1 << 32;
/// Emulated, small products run on copies too, so that tests of networks come here.
const LEAST_EMULATED: usize = 1 << 10;

/// The bytes of the copies of two matrices with rows of `width` elements, of which one has `rows` and the other one
/// `columns`; elements have at most `most` bytes. 0 where products run without copies.
pub fn bytes(device: Device, element: Element, most: usize, [rows, columns, width]: [usize; 3]) -> Option<usize> {
    let products = rows.checked_mul(columns)?.checked_mul(width)?;
    if has_whole_vectors(width, element) || products < least(device) {
        return Some(0);
    }
    rows.checked_add(columns)?.checked_mul(padded_row(width, element)?)?.checked_mul(most)
}

/// The product on copies at `place`, which has the [`bytes`] of its matrices; none if it runs as well without.
fn on_copies(device: Device, element: Element, product: &Product, place: *mut c_void, tf32: bool) -> Option<OnCopies> {
    let Product { left, right, rows, columns, depth, output, .. } = *product;
    let is_large = rows.saturating_mul(columns).saturating_mul(depth) >= least(device);
    if !is_large || has_whole_vectors(right.stride, element) || (element == Element::Float && !tf32) {
        return None;
    }
    let (width, copied) = (right.stride, padded_row(right.stride, element)?);
    let behind = |matrix: usize| place.wrapping_byte_add(matrix * copied * element.bytes());
    let copy = |from: *const c_void, to: *mut c_void, count: usize, bytes: usize| CopiedRows {
        from,
        to,
        rows: count as i32,
        width: width as i32,
        strides: [width as i32, copied as i32],
        bytes: bytes as i32,
    };
    let right_at_copy = Factor { data: place, stride: copied, ..right };
    match (left.is_transposed, right.is_transposed) {
        // Both have rows as wide as the sums are deep.
        (false, true) if left.stride == width && depth == width => {
            let left_at_copy = Factor { data: behind(columns), stride: copied, ..left };
            Some(OnCopies {
                before: [
                    Some(copy(right.data, place, columns, element.bytes())),
                    Some(copy(left.data, behind(columns), rows, element.bytes())),
                ],
                product: Product { left: left_at_copy, right: right_at_copy, depth: copied, ..*product },
                after: None,
            })
        }
        // The products' rows are as wide as those of the right factor.
        (_, false) if columns == width && has_whole_vectors(left.stride, element) => {
            let products = behind(depth);
            let old = copy(product.products, products, rows, output.bytes());
            Some(OnCopies {
                before: [Some(copy(right.data, place, depth, element.bytes())), (product.beta != 0.0).then_some(old)],
                product: Product { right: right_at_copy, products, columns: copied, ..*product },
                after: Some(CopiedRows {
                    from: products,
                    to: product.products,
                    strides: [copied as i32, width as i32],
                    ..old
                }),
            })
        }
        _ => None,
    }
}

/// A product on copies, and the copies before and after it.
struct OnCopies {
    before: [Option<CopiedRows>; 2],
    product: Product,
    after: Option<CopiedRows>,
}

impl Kernels {
    /// As [`Self::multiply`], on copies at `place` where that is faster. Returns whether it was done: if not, nothing was
    /// launched.
    ///
    /// # Safety
    /// As for [`Self::multiply`]; the place has the [`bytes`] of the product's matrices.
    pub unsafe fn multiply_on_copies(
        &self,
        stream: Stream,
        product: &Product,
        place: *mut c_void,
        tf32: bool,
    ) -> Result<bool, Error> {
        let Some(copies) = on_copies(cudnn::device(), self.element(), product, place, tf32) else { return Ok(false) };
        // SAFETY: the caller promises the matrices, and the place of the copies.
        unsafe {
            copies.before.iter().flatten().try_for_each(|rows| self.copy_rows(stream, rows))?;
            self.multiply(stream, &copies.product, tf32)?;
            copies.after.iter().try_for_each(|rows| self.copy_rows(stream, rows))?;
        }
        Ok(true)
    }

    /// As [`Self::multiply`], on copies where that is faster.
    ///
    /// # Safety
    /// As for [`Self::multiply_on_copies`].
    pub unsafe fn multiply_large(
        &self,
        stream: Stream,
        product: &Product,
        place: *mut c_void,
        tf32: bool,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.multiply_on_copies(stream, product, place, tf32)? {
                return Ok(());
            }
            self.multiply(stream, product, tf32)
        }
    }
}

fn least(device: Device) -> usize {
    if device == Device::Host { LEAST_EMULATED } else { LEAST }
}

#[cfg(test)]
mod tests {
    use std::ptr::without_provenance_mut;

    use super::*;
    use gpu::cublaslt::VECTOR;

    const PLACE: usize = 1 << 40;
    const FORMS: [[bool; 2]; 3] = [[false, true], [false, false], [true, false]];

    /// A product with rows of `width` in two of its matrices, which have `rows` and `columns` of them.
    fn product([left, right]: [bool; 2], output: Element, [rows, columns, width]: [usize; 3]) -> Product {
        let [its_rows, its_columns, depth] = match (left, right) {
            (false, true) => [rows, columns, width],
            (false, false) => [rows, width, columns],
            _ => [columns, width, rows],
        };
        let factor = |is_transposed, stride| Factor { data: without_provenance_mut(256), stride, is_transposed };
        Product {
            left: factor(left, if left { columns } else { depth }),
            right: factor(right, width),
            products: without_provenance_mut(256),
            output,
            beta: 1.0,
            rows: its_rows,
            columns: its_columns,
            depth,
            workspace: (without_provenance_mut(0), 0),
        }
    }

    #[test]
    fn copies_have_whole_vectors_and_fit_into_their_place() {
        for (element, output, width, copied) in [
            (Element::Half, Element::Half, 1150, 1152),
            (Element::Bfloat16, Element::Float, 1150, 1152),
            (Element::Half, Element::Half, 1151, 1152),
            (Element::Float, Element::Float, 1150, 1152),
        ] {
            let sizes = [5600, 4600, width];
            let bytes = bytes(Device::Cuda, element, output.bytes().max(element.bytes()), sizes).unwrap();
            for form in FORMS {
                let place = without_provenance_mut(PLACE);
                let found = on_copies(Device::Cuda, element, &product(form, output, sizes), place, true).unwrap();
                let all = found.before.iter().flatten();
                let mut ends: Vec<usize> = all
                    .map(|rows| {
                        assert_eq!((rows.width, rows.strides), (width as i32, [width as i32, copied]));
                        let begin = rows.to.addr();
                        assert!(begin >= PLACE && begin.is_multiple_of(VECTOR));
                        begin + rows.rows as usize * (copied * rows.bytes) as usize
                    })
                    .collect();
                assert!(ends[0] <= found.before[1].unwrap().to.addr(), "{form:?}");
                let Product { left, right, products, columns, depth, .. } = found.product;
                assert_eq!(right.stride, copied as usize);
                if form[1] {
                    assert_eq!((left.stride, depth), (copied as usize, copied as usize));
                    assert!(found.after.is_none());
                } else {
                    assert_eq!(columns, copied as usize);
                    let after = found.after.unwrap();
                    assert_eq!((after.from.addr(), after.to.addr()), (products.addr(), 256));
                    assert_eq!((after.width, after.strides), (width as i32, [copied, width as i32]));
                    ends.push(after.from.addr() + after.rows as usize * (copied * after.bytes) as usize);
                }
                assert!(ends.into_iter().max().unwrap() <= PLACE + bytes, "{form:?}");
            }
        }
    }

    #[test]
    fn small_products_and_whole_rows_run_without_copies() {
        let is_copied = |element, sizes, tf32| {
            let place = without_provenance_mut(PLACE);
            let found = FORMS
                .map(|form| on_copies(Device::Cuda, element, &product(form, element, sizes), place, tf32).is_some());
            assert_eq!([found[0]; 3], found);
            found[0]
        };
        assert!(is_copied(Element::Half, [1000, 4600, 1150], false));
        assert!(!is_copied(Element::Half, [700, 4600, 1150], false));
        assert!(!is_copied(Element::Half, [5600, 4600, 1152], false));
        assert!(!is_copied(Element::Float, [5600, 4600, 1150], false));
        assert_eq!(bytes(Device::Cuda, Element::Half, 2, [700, 4600, 1150]), Some(0));
        assert_eq!(bytes(Device::Cuda, Element::Half, 2, [5600, 4600, 1152]), Some(0));
        assert_eq!(bytes(Device::Cuda, Element::Half, 2, [usize::MAX, 2, 1150]), None);
        // Without a first sum there is no old product to copy.
        let fresh = Product { beta: 0.0, ..product([true, false], Element::Half, [5600, 4600, 1150]) };
        let place = without_provenance_mut(PLACE);
        assert!(on_copies(Device::Cuda, Element::Half, &fresh, place, false).unwrap().before[1].is_none());
        // The other factor's rows are no whole vectors either.
        let odd = product([true, false], Element::Half, [5600, 4601, 1150]);
        assert!(on_copies(Device::Cuda, Element::Half, &odd, place, false).is_none());
    }
}
