//! Running a micro-batch on copies of its tensors that have their channels last: what is transposed before an engine
//! runs and behind it. The copies lie in the workspace, in front of the engine's own.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_abi::*;

use crate::cudnn::graph::{Kernel, Matrices, Sampling, WORKSPACE_ALIGNMENT};
use crate::device::{Device, Stream};
use crate::exec::{Samples, Transposes};

/// Where the copies of a part's tensors lie, and what makes them.
pub struct Conversion {
    transposes: Arc<Transposes>,
    /// Of the tensors that are not stored so already, by place.
    copies: Vec<(usize, Copied)>,
    filter: usize,
    result: usize,
    bytes: usize,
}

#[derive(Clone)]
struct Copied {
    /// From the tensor to its copy.
    how: How,
    /// In the workspace, in bytes.
    offset: usize,
}

#[derive(Clone)]
enum How {
    /// All of it, with channels as rows.
    Transposed(Matrices),
    /// What is sampled of it.
    Sampled(Arc<Samples>, Sampling),
}

/// What is copied from one place to another.
struct Move {
    how: How,
    from: *const c_void,
    to: *mut c_void,
}

/// What one execution copies.
pub struct Moves {
    transposes: Arc<Transposes>,
    before: Vec<Move>,
    /// From the copy to the tensor.
    after: Option<Move>,
    /// What is behind is added up in float; the first of a sum begins it.
    adds: Option<bool>,
}

// SAFETY: addresses, which are only handed on to the device.
unsafe impl Send for Moves {}

/// Where the result of a micro-batch goes.
pub enum Destination {
    /// Into the tensor's own memory.
    Tensor(*mut c_void),
    /// Into a sum of floats, which the first micro-batch begins.
    Sum(*mut c_void, bool),
}

impl Conversion {
    /// For a part of a kernel that [`Kernel::channels_last`] converts. `Err` where nothing transposes.
    pub fn new(part: &Kernel) -> Result<Self, cudnnStatus_t> {
        let convolution = part.convolution();
        let (filter, result) = (convolution.w, convolution.result());
        let data_type = part.tensors[filter].data_type;
        let transposes = Transposes::of(Device::current(), data_type).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)?;
        let sampling = part.sampling();
        let mut bytes = 0;
        let mut copies = Vec::new();
        // The filter first: there it is the same for micro-batches of all sizes.
        for place in [filter, convolution.x, convolution.y] {
            let tensor = &part.tensors[place];
            let (how, elements) = match (sampling, tensor.channels_first()) {
                (Some(sampling), _) if place == convolution.x => {
                    let samples = Samples::of(Device::current(), data_type).map_err(|_| CUDNN_STATUS_NOT_SUPPORTED)?;
                    (How::Sampled(samples, sampling), sampling.images * sampling.channels * sampling.sampled())
                }
                // A filter's gradient is always copied: parts of it are added up.
                (_, Some(matrices)) if matrices.differ() || (place == filter && place == result) => {
                    (How::Transposed(matrices), matrices.elements())
                }
                _ => continue,
            };
            copies.push((place, Copied { how, offset: bytes }));
            bytes += (elements * tensor.element()).next_multiple_of(WORKSPACE_ALIGNMENT);
        }
        Ok(Self { transposes, copies, filter, result, bytes })
    }

    /// Bytes of workspace that the copies take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn copied(&self, place: usize) -> Option<&Copied> {
        self.copies.iter().find_map(|(copied, copy)| (*copied == place).then_some(copy))
    }

    /// Where the engine finds the tensor of a place; `None` where that is its own memory.
    pub fn copy(&self, place: usize, workspace: *mut c_void) -> Option<*mut c_void> {
        self.copied(place).map(|copy| workspace.wrapping_byte_add(copy.offset))
    }

    /// Where a copy of the filter stays for the next micro-batch in the same workspace; `None` if there is none.
    pub fn kept_filter(&self, workspace: *mut c_void) -> Option<*mut c_void> {
        self.copy(self.filter, workspace).filter(|_| self.filter != self.result)
    }

    /// What a micro-batch in `workspace` transposes, whose tensors `pointer` gives. The filter's copy may be `kept` from
    /// the last.
    pub fn moves(
        &self,
        pointer: impl Fn(usize) -> *mut c_void,
        workspace: *mut c_void,
        kept: Option<*mut c_void>,
        destination: &Destination,
    ) -> Moves {
        let is_new = |place: usize| place != self.filter || self.kept_filter(workspace) != kept;
        let inputs = self.copies.iter().filter(|(place, _)| *place != self.result && is_new(*place));
        let before = inputs.map(|(place, Copied { how, offset })| Move {
            how: how.clone(),
            from: pointer(*place),
            to: workspace.wrapping_byte_add(*offset),
        });
        let (to, adds) = match *destination {
            Destination::Tensor(to) => (to, None),
            Destination::Sum(to, begins) => (to, Some(begins)),
        };
        let after = self.copied(self.result).map(|Copied { how, offset }| Move {
            how: how.clone(),
            from: workspace.wrapping_byte_add(*offset),
            to,
        });
        Moves { transposes: self.transposes.clone(), before: before.collect(), after, adds }
    }
}

impl Moves {
    /// Copies what the engine reads.
    ///
    /// # Safety
    /// The memory is there, and the stream is of its device.
    pub unsafe fn before(&self, stream: Stream) -> bool {
        self.before.iter().all(|Move { how, from, to }| {
            // SAFETY: as ours.
            unsafe {
                match how {
                    How::Transposed(matrices) => self.transposes.run(stream, *matrices, *from, *to),
                    How::Sampled(samples, sampling) => samples.gather(stream, *sampling, *from, *to),
                }
            }
        })
    }

    /// Copies, or adds, what the engine wrote.
    ///
    /// # Safety
    /// As for [`Self::before`].
    pub unsafe fn after(&self, stream: Stream) -> bool {
        let Some(Move { how, from, to }) = &self.after else { return true };
        // SAFETY: as ours.
        unsafe {
            match (how, self.adds) {
                (How::Transposed(matrices), None) => self.transposes.run(stream, matrices.transposed(), *from, *to),
                (How::Transposed(matrices), Some(begins)) => {
                    self.transposes.add(stream, matrices.transposed(), *from, *to, begins)
                }
                (How::Sampled(samples, sampling), _) => samples.scatter(stream, *sampling, *from, *to),
            }
        }
    }
}
