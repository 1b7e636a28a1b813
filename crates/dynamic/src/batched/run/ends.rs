//! What a run does before its stages, and after them.

use gpu::jit::Error;
use gpu::products::Transposed;
use vertex::function::{Arity, Op};
use vertex::passes::{Pass, Passes, Step, Work};
use vertex::stages::{Stage, Way};

use super::products::Sum;
use super::{Left, Run};
use crate::batched::net::Net;
use crate::batched::tasks::{Numbers, Parts, PartsSum, ReadersSums, TableIndices, Task, Zeros};
use crate::emit::GraphArray;
use crate::memory::index_passes;
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
    /// Outputs of vertices whose functions do not push them are zeros, and if `has_rest` those of a static batch behind the
    /// last vertex.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    pub(super) unsafe fn clear_outputs(&self, has_rest: bool) -> Result<(), Error> {
        let widths = &self.net.net.declaration().pushes;
        let outputs = self.inputs.pushes.iter().zip(widths).enumerate();
        let zeros: Vec<_> = outputs
            .filter(|(output, (to, _))| !to.is_null() && (has_rest && self.net.is_static || self.is_missing(*output)))
            .map(|(_, (to, width))| Task::Zeros(Zeros { to: *to, bytes: self.sizes.vertices * width * self.element() }))
            .collect();
        // SAFETY: the caller's promise.
        unsafe { self.tasks(&zeros) }
    }

    /// Some vertex of the batch does not make this result.
    fn is_missing(&self, result: usize) -> bool {
        let mut kinds = self.its.results.iter().zip(&self.extents);
        kinds.any(|(bits, extent)| extent.rows > 0 && bits & 1 << result == 0)
    }

    /// What needs nothing of the run, in one launch.
    ///
    /// # Safety
    /// As for [`Net::backward`].
    pub(super) unsafe fn begin_backward(&mut self) -> Result<(), Error> {
        self.copied = self.copied_matrices();
        let declaration = self.net.net.declaration();
        let mut tasks: Vec<_> = self.step.iter().map(|step| step.scores).collect();
        let mut clear = |to, bytes| tasks.push(Task::Zeros(Zeros { to, bytes }));
        for (state, width) in declaration.states.iter().enumerate().filter(|(state, _)| !self.is_given(*state)) {
            clear(self.workspace(self.layout.given[state]), self.sizes.edges * width * size_of::<f32>());
        }
        for (input, width) in declaration.pulls.iter().enumerate() {
            if self.wanted.pulls & 1 << input != 0 && self.is_missing(input) {
                let bytes = self.sizes.vertices * width * size_of::<f32>();
                clear(self.workspace(self.layout.pull_gradients[input]), bytes);
            }
        }
        for parameter in self.tables_to_clear() {
            if let Some(Sum { to, adds: false }) = self.sum(parameter) {
                clear(to.cast(), declaration.parameters[parameter].elements() * size_of::<f32>());
            }
        }
        let matrices = declaration.parameters.iter().enumerate().filter(|(place, _)| self.copied & 1 << place != 0);
        tasks.extend(matrices.map(|(parameter, size)| {
            Task::Transposed(Transposed {
                from: self.inputs.parameters[parameter],
                to: self.workspace(self.layout.transposed[parameter]),
                rows: size.rows as i32,
                columns: size.columns as i32,
            })
        }));
        let of_tables = index_passes(&self.its.passes, &self.extents);
        tasks.extend(of_tables.filter_map(|(kind, pass, first)| self.table_indices(kind, pass, first)));
        // SAFETY: the caller's promise.
        unsafe { self.tasks(&tasks) }
    }

    /// The matrices of whose transposes the run makes copies first, a bit each. A level's product of a static batch reads a
    /// matrix as it lies. If a path that was chosen cannot be launched, levels read the copies.
    fn copied_matrices(&self) -> u64 {
        let is_in_one_launch = self.path_in_one_launch().is_some();
        let mut copied = 0;
        for (passes, kernels) in self.its.passes.iter().zip(&self.its.kernels) {
            for (stage, (passes, kernels)) in Stage::ALL.into_iter().zip(passes.stages.iter().zip(kernels)) {
                let of_levels = stage == Stage::Path && self.net.is_static && !is_in_one_launch;
                for pass in passes.iter().filter(|pass| !of_levels && pass.purpose.is_met_by(self.wanted)) {
                    if let Work::Product { parameter, is_transposed: true, .. } = pass.work {
                        copied |= 1 << parameter;
                    }
                }
                let fused = kernels.iter().filter_map(|kernels| kernels.fused.as_ref()?.0.fused);
                copied |= fused.filter(|shape| shape.is_transposed).fold(0, |bits, shape| bits | 1 << shape.parameter);
            }
        }
        copied
    }

    /// All edges are given gradients of this state in one way: each is written before it is read.
    fn is_given(&self, state: usize) -> bool {
        let functions = &self.net.net.declaration().functions;
        self.its.passes.iter().zip(functions).all(|(passes, function)| {
            let steps = passes.all().flat_map(|pass| match &pass.work {
                Work::Rows { steps, .. } => &steps[..],
                _ => &[],
            });
            let (mut slots, mut to_all) = (0, false);
            for step in steps {
                match *step {
                    Step::Hand { op: Op::Give, arguments: [_, its], .. } if its == state => slots += 1,
                    Step::Hand { op: Op::GiveChildren, arguments: [its, _], .. } if its == state => to_all = true,
                    _ => {}
                }
            }
            match function.children {
                Arity::Exactly(0) => true,
                Arity::Exactly(its) if !to_all => slots == its,
                Arity::Exactly(_) | Arity::Any => to_all && slots == 0,
            }
        })
    }

    /// Finds the rows of a table that the rows of a kind name. `None` without rows, or if nobody wants the table's gradient.
    fn table_indices(&self, kind: usize, pass: &Pass, first: usize) -> Option<Task> {
        let Work::AccumulateRow { parameter, input, .. } = pass.work else { return None };
        let count = self.extents[kind].rows;
        (count > 0 && pass.purpose.is_met_by(self.wanted)).then(|| {
            Task::TableIndices(TableIndices {
                indices: self.indices(first),
                rows_of_kind: self.arrays.all_of(self.batch, kind).rows,
                script: self.arrays.kind_in_script(kind),
                pulled: self.arrays.array(GraphArray::Pulled),
                indices_of_input: self.inputs.pulls[input],
                count: count as i32,
                table: self.net.net.declaration().parameters[parameter].rows as i32,
            })
        })
    }

    /// The place for the index of this number among those of all tables.
    pub(super) fn indices(&self, number: usize) -> *mut i32 {
        self.workspace(self.layout.indices).cast::<i32>().wrapping_add(number)
    }

    /// The tables to whose gradients rows are added. Other gradients are written by the first pass that has a part of them.
    fn tables_to_clear(&self) -> Vec<usize> {
        let kinds = self.its.passes.iter().zip(&self.extents).filter(|(_, extent)| extent.rows > 0);
        let passes = kinds.flat_map(|(passes, _)| passes.all());
        let tables = passes.filter_map(|pass| match pass.work {
            Work::AccumulateRow { parameter, .. } if pass.purpose.is_met_by(self.wanted) => Some(parameter),
            _ => None,
        });
        tables.filter(|table| !self.is_by_rows(*table)).collect()
    }

    /// The sums into gradients that wait, and then what follows from them.
    ///
    /// # Safety
    /// As for [`Net::backward`].
    pub(super) unsafe fn finish_backward(&mut self) -> Result<(), Error> {
        let losses = self.step.iter_mut().flat_map(|step| std::mem::take(&mut step.losses)).collect();
        // SAFETY: the caller's promise.
        let mut sums = unsafe { self.add_pending(losses) }?;
        if self.gradient_bytes() != size_of::<f32>() {
            // What is added to sums that are there comes before these are rounded.
            let added: Vec<_> =
                sums.extract_if(.., |(_, its)| its.adds != 0).map(|(_, its)| Task::PartsSum(its)).collect();
            // SAFETY: the caller's promise.
            unsafe { self.tasks(&added) }?;
        }
        let mut tasks = vec![];
        for (parameter, size) in self.net.net.declaration().parameters.iter().enumerate() {
            let to = self.gradients.parameters.get(parameter).copied().unwrap_or_default();
            if to.is_null() || self.is_by_rows(parameter) {
                continue;
            }
            let sum = sums.iter().find(|(its, _)| *its == parameter).map(|(_, sum)| *sum);
            let (is_there, count) = (self.is_there[parameter], size.elements());
            match sum {
                Some(PartsSum { parts, adds: 0, .. }) if self.step.is_some() => {
                    self.left[parameter] = Some(Left::Parts(parts))
                }
                Some(sum) if self.gradient_bytes() == size_of::<f32>() => tasks.push(Task::PartsSum(sum)),
                _ if is_there && self.gradient_bytes() != size_of::<f32>() => {
                    let sums = self.workspace(self.layout.sums[parameter]).cast_const().cast();
                    let parts = sum.map_or(Parts { sums, count, part_count: 1 }, |sum| sum.parts);
                    let (to, adds) = (Numbers { first: to, are_floats: 0 }, self.gradients.accumulates.into());
                    tasks.push(Task::PartsSum(PartsSum { parts, to, adds }));
                }
                _ if is_there || self.gradients.accumulates => {}
                _ => tasks.push(Task::Zeros(Zeros { to, bytes: count * self.gradient_bytes() })),
            }
        }
        for (input, width) in self.net.net.declaration().pulls.iter().enumerate() {
            let to = self.gradients.pulls.get(input).copied().unwrap_or_default();
            if to.is_null() || *width == 0 || self.sizes.pulled_rows == 0 {
                continue;
            }
            tasks.push(Task::ReadersSums(ReadersSums {
                from: self.workspace(self.layout.pull_gradients[input]).cast_const().cast(),
                to,
                readers: self.arrays.array(GraphArray::Readers),
                readers_end: self.arrays.array(GraphArray::ReadersEnd),
                script: self.arrays.inputs_in_script(),
                count: self.sizes.pulled_rows as i32,
                columns: *width as i32,
            }));
        }
        // SAFETY: the caller's promise.
        unsafe { self.tasks(&tasks) }
    }
}
