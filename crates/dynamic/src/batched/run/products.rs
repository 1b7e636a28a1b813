//! Products of matrices and sums into parameters' gradients.

use std::ffi::c_void;

use gpu::jit::Error;
use gpu::products::Products;
use vertex::passes::{Pass, Place, Work};

use super::{At, Run};
use crate::batched::library::{AddedRows, FEW, LevelProduct, OuterProducts, Rest, RowSums, RowsOfTable, Sum, WIDE};
use crate::emit::GraphArray;
use crate::memory::ROWS_OF_PRODUCTS;

/// The fewest rows of a static batch that are worth kernels of their own, which seldom find any: the others multiply zeros.
const LEAST_REST: usize = 1024;
/// The most multiply-adds of a sum of outer products: at half of a large GPU's speed they take about as long as a launch of
/// cublasLt and one that clears tails. An estimate, not measured.
const MOST_OUTER: usize = 1 << 27;

/// Sums into parameters' gradients that are launched together. No two of them have one place.
#[derive(Default)]
pub(super) struct Pending {
    outer_products: Vec<OuterProducts>,
    rows: Vec<RowSums>,
}

impl Pending {
    /// A sum waits for this place.
    fn has(&self, place: *mut f32) -> bool {
        self.outer_products.iter().any(|its| its.sums == place) || self.rows.iter().any(|its| its.sums == place)
    }
}

impl Run<'_> {
    /// How many of all rows of a kind, or edges, one product computes. Of a static batch those are some more than the batch
    /// had that was set first: other kernels compute the rest, if there is one when they run.
    fn multiplied_whole(&self, kind: usize, is_of_children: bool, most: usize) -> usize {
        let expected = self.arrays.expected_of_kind(kind)[usize::from(is_of_children)];
        // At least some, since the first product of a sum writes it.
        let whole = (expected + expected / 4).max(1).next_multiple_of(ROWS_OF_PRODUCTS);
        if self.net.is_static && whole + LEAST_REST <= most { whole } else { most }
    }

    /// The place for the gradient of a parameter, a sum over `count` rows. `None` if there is nothing to add. What waits to
    /// be added there was added.
    ///
    /// # Safety
    /// As for [`Net::backward`](super::Net::backward).
    pub(super) unsafe fn sum(&mut self, parameter: usize, count: usize) -> Result<Option<Sum>, Error> {
        let gradient = self.gradients.parameters[parameter];
        if gradient.is_null() || count == 0 {
            return Ok(None);
        }
        let adds = std::mem::replace(&mut self.is_there[parameter], true);
        let is_float = self.gradient_bytes() == size_of::<f32>();
        let to: *mut f32 = if is_float { gradient } else { self.workspace(self.layout.sums[parameter]) }.cast();
        if self.pending.has(to) {
            // SAFETY: the caller's promise.
            unsafe { self.add_pending() }?;
        }
        Ok(Some(Sum { to, adds }))
    }

    /// Launches the sums that wait for it.
    ///
    /// # Safety
    /// As for [`Net::backward`](super::Net::backward).
    pub(super) unsafe fn add_pending(&mut self) -> Result<(), Error> {
        let Pending { outer_products, rows } = std::mem::take(&mut self.pending);
        // SAFETY: the caller's promise.
        unsafe {
            self.net.library.sum_outer_products(self.stream, &outer_products)?;
            self.net.library.sum_rows(self.stream, &rows)
        }
    }

    /// The outer products of `count` rows of dy and x are so few that their launch takes longer than their work. All runs of
    /// a static batch are as those of the batch that was set first.
    fn are_few(&self, kind: usize, [dy, x]: [Place; 2], count: usize) -> bool {
        let expected = self.arrays.expected_of_kind(kind)[usize::from(dy.is_of_children)];
        let rows = if self.net.is_static { expected } else { count };
        rows <= FEW && rows * dy.width * x.width <= MOST_OUTER
    }

    /// Launches the work of a pass that has no kernel of its own: a product, or a sum into a parameter's gradient.
    ///
    /// # Safety
    /// As for [`Net::forward`](super::Net::forward).
    pub(super) unsafe fn product(&mut self, kind: usize, pass: &Pass, at: At) -> Result<(), Error> {
        let At { range, script, is_all, .. } = at;
        let (net, stream) = (self.net, self.stream);
        let library = &net.library;
        let sizes = &net.net.declaration().parameters;
        match pass.work {
            Work::Product { parameter, is_transposed, x, y } => {
                let ((from, count), (to, _)) = (self.rows(kind, x, &range), self.rows(kind, y, &range));
                if count == 0 {
                    return Ok(());
                }
                let weights = match is_transposed {
                    true => self.workspace(self.layout.transposed[parameter]).cast_const(),
                    false => self.inputs.parameters[parameter],
                };
                let [columns, depth] = [y.width as i32, x.width as i32];
                let counted = LevelProduct {
                    x: from,
                    weights,
                    products: to.cast(),
                    script,
                    columns,
                    depth,
                    has_all_x: x.is_whole().into(),
                    has_all_products: y.is_whole().into(),
                    is_of_children: x.is_of_children.into(),
                    skipped: 0,
                };
                if at.is_counted_by_script() {
                    let launched = at.launched(x.is_of_children);
                    let is_wide = at.expected[usize::from(x.is_of_children)] >= WIDE;
                    // SAFETY: the caller's promise.
                    return unsafe { library.multiply_level(stream, counted, launched, is_wide, net.tf32) };
                }
                let most = count;
                let count = self.multiplied_whole(kind, x.is_of_children, most);
                if count < most {
                    let rest = LevelProduct { skipped: count as i32, ..counted };
                    // SAFETY: the caller's promise.
                    unsafe { library.multiply_level(stream, rest, most - count, true, net.tf32) }?;
                }
                // Rows behind the last one mean nothing, in a frame of one block or of all rows.
                let is_last = !y.is_whole() || is_all;
                let rows =
                    if is_last && count > ROWS_OF_PRODUCTS { count.next_multiple_of(ROWS_OF_PRODUCTS) } else { count };
                let products = Products { x: from, weights, products: to.cast(), rows: rows as i32, columns, depth };
                // SAFETY: the caller's promise.
                unsafe { library.multiply(stream, &products, net.tf32) }
            }
            Work::Accumulate { parameter, dy, x } => {
                let ((of_dy, count), (of_x, _)) = (self.rows(kind, dy, &range), self.rows(kind, x, &range));
                // SAFETY: the caller's promise.
                let Some(sum) = unsafe { self.sum(parameter, count) }? else { return Ok(()) };
                if is_all && self.are_few(kind, [dy, x], count) {
                    self.pending.outer_products.push(OuterProducts {
                        dy: of_dy,
                        x: of_x,
                        sums: sum.to,
                        script,
                        count: count as i32,
                        rows: dy.width as i32,
                        columns: x.width as i32,
                        adds: sum.adds.into(),
                        is_of_children: dy.is_of_children.into(),
                    });
                    return Ok(());
                }
                let whole = self.multiplied_whole(kind, dy.is_of_children, count);
                // SAFETY: the caller's promise.
                unsafe {
                    if !script.is_null() {
                        let matrices = [(of_dy, dy.width), (of_x, x.width)];
                        library.clear_tails(stream, matrices, whole, script, dy.is_of_children)?;
                    }
                    let (left, right) = ((of_dy.cast_const(), dy.width), (of_x.cast_const(), x.width));
                    library.accumulate(stream, whole, left, right, sum, net.tf32)?;
                    if whole < count {
                        let behind = |of: *mut c_void, columns: usize| {
                            (of.wrapping_byte_add(whole * columns * self.element()).cast_const(), columns)
                        };
                        let is_of_children = dy.is_of_children.into();
                        let rest = Rest { script, skipped: whole as i32, is_of_children };
                        let (left, right) = (behind(of_dy, dy.width), behind(of_x, x.width));
                        library.accumulate_rest(stream, left, right, sum.to, rest)?;
                    }
                }
                Ok(())
            }
            Work::AccumulateBias { parameter, dy } => {
                let (rows, count) = self.rows(kind, dy, &range);
                // SAFETY: the caller's promise.
                let Some(Sum { to, adds }) = unsafe { self.sum(parameter, count) }? else { return Ok(()) };
                self.pending.rows.push(RowSums {
                    rows,
                    sums: to,
                    script,
                    count: count as i32,
                    columns: dy.width as i32,
                    adds: adds.into(),
                    is_of_children: dy.is_of_children.into(),
                });
                // SAFETY: the caller's promise.
                if is_all { Ok(()) } else { unsafe { self.add_pending() } }
            }
            Work::AccumulateRow { parameter, input, dy } => {
                let (rows, count) = self.rows(kind, dy, &range);
                if count == 0 {
                    return Ok(());
                }
                let rows_of_kind = self.arrays.all_of(self.batch, kind).rows.cast::<i32>();
                let its = RowsOfTable {
                    rows,
                    rows_of_kind: rows_of_kind.wrapping_add(range.row_of_kind as usize).cast(),
                    script,
                    pulled: self.arrays.array(GraphArray::Pulled),
                    indices: self.inputs.pulls[input],
                    count: count as i32,
                    columns: dy.width as i32,
                    table: sizes[parameter].rows as i32,
                };
                if self.by_rows & 1 << parameter != 0 {
                    self.rows_of_tables.push((parameter, its));
                    return Ok(());
                }
                // SAFETY: the caller's promise. The sum was cleared in the beginning.
                unsafe {
                    let Some(sum) = self.sum(parameter, count)? else { return Ok(()) };
                    library.add_rows(stream, AddedRows { its, sums: sum.to })
                }
            }
            Work::Rows { .. } | Work::Reduce { .. } | Work::MaxGradient { .. } => unreachable!("they have kernels"),
        }
    }
}
