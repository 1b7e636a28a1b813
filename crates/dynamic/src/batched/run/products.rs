//! Products of matrices and sums into parameters' gradients.

use gpu::jit::Error;
use gpu::products::Products;
use vertex::passes::{Pass, Work};

use super::{At, Left, Run};
use crate::batched::level_product::LevelProduct;
use crate::batched::tasks::{AddedRows, Numbers, OuterProducts, Parts, PartsSum, RowSums, RowsOfTable, Task};
use crate::emit::is_in_float;
use crate::memory::{ROWS_OF_PRODUCTS, index_passes};

/// The fewest rows of a static batch that are worth kernels of their own, which seldom find any: the others multiply zeros.
const LEAST_REST: usize = 1024;

/// A place for a sum, and whether to add to the numbers there.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub to: *mut f32,
    pub adds: bool,
}

/// Sums into parameters' gradients, which are launched together. Each has its parameter.
#[derive(Default)]
pub(super) struct Pending {
    outer_products: Vec<(usize, OuterProducts)>,
    rows: Vec<(usize, RowSums)>,
}

impl Run<'_> {
    /// How many of all rows of a kind, or edges, one product computes. Of a static batch those are some more than the batch
    /// had that was set first: other kernels compute the rest, if there is one when they run.
    fn multiplied_whole(&self, kind: usize, is_of_children: bool, most: usize) -> usize {
        let expected = self.arrays.expected_of_kind(kind)[usize::from(is_of_children)];
        // At least some, for which kernels have a block.
        let whole = (expected + expected / 4).max(1).next_multiple_of(ROWS_OF_PRODUCTS);
        if self.net.is_static && whole + LEAST_REST <= most { whole } else { most }
    }

    /// The place for the gradient of a parameter, a sum. `None` if it is not wanted.
    pub(super) fn sum(&mut self, parameter: usize) -> Option<Sum> {
        let gradient = self.gradients.parameters[parameter];
        if gradient.is_null() {
            return None;
        }
        let adds = std::mem::replace(&mut self.is_there[parameter], true);
        let is_float = self.gradient_bytes() == size_of::<f32>();
        let to: *mut f32 = if is_float { gradient } else { self.workspace(self.layout.sums[parameter]) }.cast();
        Some(Sum { to, adds })
    }

    /// Launches the sums that wait for it, with other tasks. Where a gradient is the sum of several, these come to be in the
    /// workspace first: the caller adds them up.
    ///
    /// # Safety
    /// As for [`Net::backward`](super::Net::backward).
    pub(super) unsafe fn add_pending(&mut self, mut tasks: Vec<Task>) -> Result<Vec<(usize, PartsSum)>, Error> {
        let Pending { mut outer_products, mut rows } = std::mem::take(&mut self.pending);
        let mut of_parts = vec![];
        for (parameter, size) in self.net.net.declaration().parameters.iter().enumerate() {
            let of_products = outer_products.iter_mut().filter(|(its, _)| *its == parameter);
            let of_products = of_products.map(|(_, its)| (&mut its.sums, &mut its.adds, its.slices));
            let of_rows = rows.iter_mut().filter(|(its, _)| *its == parameter);
            let of_rows = of_rows.map(|(_, its)| (&mut its.sums, &mut its.adds, its.slices));
            let sums: Vec<_> = of_products.chain(of_rows).collect();
            let part_count = sums.iter().map(|(_, _, slices)| slices).sum();
            let Some(Sum { to, adds }) = (part_count > 0).then(|| self.sum(parameter)).flatten() else { continue };
            let (adds, count) = (adds.into(), size.elements());
            let parts: *mut f32 = self.workspace(self.layout.parts[parameter]).cast();
            let mut first = 0;
            for (its, its_adds, slices) in sums {
                (*its, *its_adds) = if part_count > 1 { (parts.wrapping_add(first * count), 0) } else { (to, adds) };
                first += slices as usize;
            }
            if part_count > 1 {
                let parts = Parts { sums: parts, count, part_count };
                of_parts.push((parameter, PartsSum { parts, to: Numbers { first: to.cast(), are_floats: 1 }, adds }));
            }
        }
        tasks.extend(outer_products.into_iter().map(|(_, its)| Task::OuterProducts(its)));
        tasks.extend(rows.into_iter().map(|(_, its)| Task::RowSums(its)));
        // SAFETY: the caller's promise; the layout has room for the parts of all sums.
        unsafe { self.tasks(&tasks) }?;
        Ok(of_parts)
    }

    /// A sum waits, if its pass has all rows: sums of a block are launched now.
    ///
    /// # Safety
    /// As for [`Net::backward`](super::Net::backward).
    unsafe fn wait(&mut self, is_all: bool) -> Result<(), Error> {
        if is_all {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe {
            let of_parts = self.add_pending(vec![])?;
            self.tasks(&of_parts.into_iter().map(|(_, its)| Task::PartsSum(its)).collect::<Vec<_>>())
        }
    }

    /// Launches the work of a pass that has no kernel of its own: a product, or a sum into a parameter's gradient. Products of
    /// whole batches wait for others, in [`Run::products`].
    ///
    /// # Safety
    /// As for [`Net::forward`](super::Net::forward).
    pub(super) unsafe fn product(&mut self, kind: usize, pass: &Pass, at: At) -> Result<(), Error> {
        let At { range, script, is_all, .. } = at;
        let (net, stream) = (self.net, self.stream);
        let library = &net.library;
        match pass.work {
            Work::Product { parameter, is_transposed, x, y } => {
                let ((from, count), (to, _)) = (self.rows(kind, x, &range), self.rows(kind, y, &range));
                if count == 0 {
                    return Ok(());
                }
                let reads_copy = is_transposed && self.copied & 1 << parameter != 0;
                let weights = match reads_copy {
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
                    count: count as i32,
                    // The rows of a matrix are the depth of its transpose.
                    is_by_depth: (is_transposed && !reads_copy).into(),
                };
                if at.is_counted_by_script() {
                    let rows = [at.expected[usize::from(x.is_of_children)], at.launched(x.is_of_children)];
                    // SAFETY: the caller's promise.
                    return unsafe { library.multiply_level(stream, counted, rows, net.tf32) };
                }
                let most = count;
                let count = self.multiplied_whole(kind, x.is_of_children, most);
                if count < most {
                    let rest = LevelProduct { skipped: count as i32, ..counted };
                    // SAFETY: the caller's promise.
                    unsafe { library.multiply_level(stream, rest, [most - count; 2], net.tf32) }?;
                }
                // Rows behind the last one mean nothing, in a frame of one block or of all rows.
                let is_last = !y.is_whole() || is_all;
                let rows =
                    if is_last && count > ROWS_OF_PRODUCTS { count.next_multiple_of(ROWS_OF_PRODUCTS) } else { count };
                let products = Products { x: from, weights, products: to.cast(), rows: rows as i32, columns, depth };
                self.products.push(products);
                Ok(())
            }
            Work::Accumulate { parameter, dy, x } => {
                let ((of_dy, count), (of_x, _)) = (self.rows(kind, dy, &range), self.rows(kind, x, &range));
                if count == 0 || self.gradients.parameters[parameter].is_null() {
                    return Ok(());
                }
                let its = OuterProducts {
                    dy: of_dy.cast_const(),
                    x: of_x.cast_const(),
                    sums: std::ptr::null_mut(),
                    script,
                    count: count as i32,
                    rows: dy.width as i32,
                    columns: x.width as i32,
                    slices: self.layout.slices.of(count) as i32,
                    adds: 0,
                    is_of_children: dy.is_of_children.into(),
                };
                self.pending.outer_products.push((parameter, its));
                // SAFETY: the caller's promise.
                unsafe { self.wait(is_all) }
            }
            Work::AccumulateBias { parameter, dy } => {
                let (rows, count) = self.rows(kind, dy, &range);
                if count == 0 || self.gradients.parameters[parameter].is_null() {
                    return Ok(());
                }
                let its = RowSums {
                    rows,
                    sums: std::ptr::null_mut(),
                    script,
                    count: count as i32,
                    columns: dy.width as i32,
                    slices: self.layout.slices.of(count) as i32,
                    adds: 0,
                    is_of_children: dy.is_of_children.into(),
                };
                self.pending.rows.push((parameter, its));
                // SAFETY: the caller's promise.
                unsafe { self.wait(is_all) }
            }
            Work::AccumulateRow { parameter, input, dy } => {
                let (rows, count) = self.rows(kind, dy, &range);
                if count == 0 {
                    return Ok(());
                }
                let is_it = |(its, pass): (usize, &Pass)| {
                    let of_pass = |work: &Work| match *work {
                        Work::AccumulateRow { parameter, input, .. } => Some((parameter, input)),
                        _ => None,
                    };
                    its == kind && of_pass(&pass.work) == Some((parameter, input))
                };
                let of_table = index_passes(&self.its.passes, &self.extents)
                    .find(|(its, pass, _)| is_it((*its, *pass)))
                    .map_or(0, |(.., first)| first);
                let its = RowsOfTable {
                    rows: Numbers { first: rows, are_floats: is_in_float(dy.frame).into() },
                    indices: self.indices(of_table + range.row_of_kind as usize),
                    script,
                    count: count as i32,
                    columns: dy.width as i32,
                };
                if self.is_by_rows(parameter) {
                    self.left[parameter] = Some(Left::Rows(its));
                    return Ok(());
                }
                let Some(sum) = self.sum(parameter) else { return Ok(()) };
                // SAFETY: the caller's promise. The sum was cleared in the beginning.
                unsafe { self.tasks(&[Task::AddedRows(AddedRows { its, sums: sum.to })]) }
            }
            Work::Rows { .. } | Work::Reduce { .. } | Work::MaxGradient { .. } => unreachable!("they have kernels"),
        }
    }
}
