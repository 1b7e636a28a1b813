//! The memory of one execution.

use std::ffi::c_void;
use std::ptr;

use crate::problem::graph::Problem;

/// The most tensors of a graph that we plan. The graphs of frameworks have fewer.
pub const MOST_TENSORS: usize = 12;

/// The addresses of one execution's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// The problem's tensors, by place; null for virtual tensors.
    pub pointers: [*mut c_void; MOST_TENSORS],
    /// The workspace, as large as reported.
    pub workspace: *mut c_void,
}

// SAFETY: the addresses are only passed on to cuDNN and the device, so any thread may hold them.
unsafe impl Send for Operands {}

impl Operands {
    /// The addresses of a problem without virtual tensors.
    pub fn new(tensors: &[*mut c_void], workspace: *mut c_void) -> Self {
        let mut pointers = [ptr::null_mut(); MOST_TENSORS];
        pointers[..tensors.len()].copy_from_slice(tensors);
        Self { pointers, workspace }
    }

    /// Returns whether a second run would give another result, because a result is also read.
    pub fn add_to_results(&self, problem: &Problem) -> bool {
        let is_read = |result: usize| {
            let alike = |place: usize| place != result && self.pointers[place] == self.pointers[result];
            (0..problem.tensors.len()).any(alike)
        };
        problem.convolution().beta.value() != 0.0 || problem.results().any(is_read)
    }

    /// Returns whether results share memory with other tensors that are cut in another way. Micro-batches might then
    /// read memory that an earlier one has overwritten.
    pub fn overlap(&self, problem: &Problem) -> bool {
        let range = |place: usize| {
            let start = self.pointers[place].addr();
            start..start.saturating_add(problem.tensors[place].bytes().unwrap_or(usize::MAX))
        };
        let in_memory = |place: &usize| !problem.tensors[*place].is_virtual && !problem.tensors[*place].is_by_value;
        problem.results().any(|result| {
            let own = range(result);
            (0..problem.tensors.len()).filter(|&place| place != result).filter(in_memory).any(|place| {
                let other = range(place);
                let [a, b] = [&problem.tensors[place], &problem.tensors[result]];
                let alike = (a.data_type, a.is_batched) == (b.data_type, b.is_batched);
                // A convolution alone cannot run in place: it reads more than the element that it writes.
                let in_place = problem.operations.len() > 1 && own.start == other.start;
                let same = in_place && alike && (&a.dims, &a.strides) == (&b.dims, &b.strides);
                own.start < other.end && other.start < own.end && !same
            })
        })
    }
}
