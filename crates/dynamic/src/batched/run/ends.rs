//! What a run does before its stages, and after them.

use gpu::jit::Error;
use gpu::products::Transposed;
use vertex::passes::{Passes, Work};
use vertex::stages::Way;

use super::Run;
use crate::batched::library::{ReadersSums, Sum, Zeros};
use crate::batched::net::{Net, transposed};
use crate::emit::GraphArray;
use crate::options::Without;

impl Net {
    /// A bit for each parameter whose gradient is the sum of rows of one pass alone, as an embedding's is. A run keeps such
    /// rows to its end.
    pub fn tables_of_rows(&self) -> u64 {
        if self.without == Without::Batching && !self.is_static {
            return 0; // a block's rows take the place of the last one's
        }
        let passes = self.way(Way::Backward).passes.iter().flat_map(Passes::all);
        let (mut once, mut more) = (0, 0);
        for pass in passes {
            let (parameter, is_by_rows) = match pass.work {
                Work::AccumulateRow { parameter, .. } => (parameter, true),
                Work::Accumulate { parameter, .. } | Work::AccumulateBias { parameter, .. } => (parameter, false),
                _ => continue,
            };
            let bit = 1 << parameter;
            if !is_by_rows || once & bit != 0 {
                more |= bit;
            }
            once |= bit;
        }
        once & !more
    }
}

impl Run<'_> {
    /// Outputs of vertices whose functions do not push them are zeros, and of a static batch those behind the last vertex.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    pub(super) unsafe fn clear_outputs(&self) -> Result<(), Error> {
        let widths = &self.net.net.declaration().pushes;
        let outputs = self.inputs.pushes.iter().zip(widths).enumerate();
        let zeros: Vec<_> = outputs
            .filter(|(output, (to, _))| !to.is_null() && (self.net.is_static || self.is_missing(*output)))
            .map(|(_, (to, width))| Zeros { to: *to, bytes: self.sizes.vertices * width * self.element() })
            .collect();
        // SAFETY: the caller's promise.
        unsafe { self.net.library.fill_zeros(self.stream, &zeros) }
    }

    /// Some vertex of the batch does not make this result.
    fn is_missing(&self, result: usize) -> bool {
        let mut kinds = self.its.results.iter().zip(&self.extents);
        kinds.any(|(bits, extent)| extent.rows > 0 && bits & 1 << result == 0)
    }

    /// # Safety
    /// As for [`Net::backward`].
    pub(super) unsafe fn begin_backward(&mut self) -> Result<(), Error> {
        let mut zeros = vec![Zeros { to: self.workspace(self.layout.given[0]), bytes: self.layout.given_bytes }];
        let declaration = self.net.net.declaration();
        for (input, width) in declaration.pulls.iter().enumerate() {
            if self.wanted.pulls & 1 << input != 0 && self.is_missing(input) {
                let bytes = self.sizes.vertices * width * size_of::<f32>();
                zeros.push(Zeros { to: self.workspace(self.layout.pull_gradients[input]), bytes });
            }
        }
        for parameter in self.tables_to_clear() {
            if let Some(Sum { to, adds: false }) = self.sum(parameter) {
                zeros.push(Zeros {
                    to: to.cast(),
                    bytes: declaration.parameters[parameter].elements() * size_of::<f32>(),
                });
            }
        }
        let of_transposed = transposed(&self.its.passes);
        let matrices = declaration.parameters.iter().enumerate().filter(|(place, _)| of_transposed & 1 << place != 0);
        let matrices: Vec<_> = matrices
            .map(|(parameter, size)| Transposed {
                from: self.inputs.parameters[parameter],
                to: self.workspace(self.layout.transposed[parameter]),
                rows: size.rows as i32,
                columns: size.columns as i32,
            })
            .collect();
        // SAFETY: the caller's promise.
        unsafe {
            self.net.library.fill_zeros(self.stream, &zeros)?;
            self.net.library.transpose(self.stream, &matrices)
        }
    }

    /// The tables to whose gradients rows are added. Other gradients are written by the first pass that has a part of them.
    fn tables_to_clear(&self) -> Vec<usize> {
        let kinds = self.its.passes.iter().zip(&self.extents).filter(|(_, extent)| extent.rows > 0);
        let passes = kinds.flat_map(|(passes, _)| passes.all());
        let tables = passes.filter_map(|pass| match pass.work {
            Work::AccumulateRow { parameter, .. } if pass.purpose.is_met_by(self.wanted) => Some(parameter),
            _ => None,
        });
        tables.filter(|table| self.by_rows & 1 << table == 0).collect()
    }

    /// # Safety
    /// As for [`Net::backward`].
    pub(super) unsafe fn finish_backward(&mut self) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.add_pending() }?;
        let (library, stream) = (&self.net.library, self.stream);
        let declaration = self.net.net.declaration();
        for (parameter, size) in declaration.parameters.iter().enumerate() {
            let to = self.gradients.parameters.get(parameter).copied().unwrap_or_default();
            if to.is_null() || self.by_rows & 1 << parameter != 0 {
                continue;
            }
            let is_there = self.is_there[parameter];
            // SAFETY: the caller's promise.
            unsafe {
                if self.gradient_bytes() == size_of::<f32>() || !is_there {
                    if !is_there && !self.gradients.accumulates {
                        library.fill_zeros(stream, &[Zeros { to, bytes: size.elements() * self.gradient_bytes() }])?;
                    }
                    continue;
                }
                let from = self.workspace(self.layout.sums[parameter]).cast_const().cast();
                library.narrow(stream, from, to, size.elements(), self.gradients.accumulates)?;
            }
        }
        for (input, width) in declaration.pulls.iter().enumerate() {
            let to = self.gradients.pulls.get(input).copied().unwrap_or_default();
            if to.is_null() || *width == 0 || self.sizes.pulled_rows == 0 {
                continue;
            }
            let sums = ReadersSums {
                from: self.workspace(self.layout.pull_gradients[input]).cast_const().cast(),
                to,
                readers: self.arrays.array(GraphArray::Readers),
                readers_end: self.arrays.array(GraphArray::ReadersEnd),
                script: self.arrays.inputs_in_script(),
                count: self.sizes.pulled_rows as i32,
                columns: *width as i32,
            };
            // SAFETY: the caller's promise.
            unsafe { library.sum_readers(stream, sums) }?;
        }
        Ok(())
    }
}
