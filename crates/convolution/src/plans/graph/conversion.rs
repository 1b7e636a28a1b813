//! Runs a micro-batch on channels-last copies of its tensors: transposes tensors before and after the engine runs. The
//! copies lie in the workspace, in front of the engine's own.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cudnn_abi::*;

use crate::engines::{self, Destination, Move, Samples, Transposes, Transposition};
use crate::problem::graph::{Matrices, Problem, Sampling, WORKSPACE_ALIGNMENT};
use gpu::Stream;

/// The layout of a part's copies, and the transposes that make them.
pub struct Conversion {
    transposes: Arc<Transposes>,
    /// The tensors that are not stored with channels last already, by place.
    copies: Vec<(usize, Copied)>,
    filter: usize,
    result: usize,
    bytes: usize,
}

#[derive(Clone)]
struct Copied {
    /// The way from the tensor to its copy.
    how: How,
    /// The copy's offset in the workspace, in bytes.
    offset: usize,
}

#[derive(Clone)]
enum How {
    /// All of the tensor, with channels as rows.
    Transposed(Matrices),
    /// The sampled pixels of the tensor.
    Sampled(Arc<Samples>, Sampling),
}

/// Copies that may run at once: none reads or writes memory that another writes.
pub struct Moves {
    transposes: Arc<Transposes>,
    transpositions: Vec<Transposition>,
    samples: Vec<Sample>,
    /// The memory that the copies read, and the memory that they write.
    reads: Vec<Range<usize>>,
    writes: Vec<Range<usize>>,
}

/// Pixels to gather or to scatter.
struct Sample {
    samples: Arc<Samples>,
    sampling: Sampling,
    from: *const c_void,
    to: *mut c_void,
    kind: Move,
}

// SAFETY: the addresses are only passed on to the device, so any thread may hold them.
unsafe impl Send for Moves {}

impl Conversion {
    /// Lays out the copies for a part that [`Problem::channels_last`] converts. `Err` if nothing can transpose them.
    pub fn new(part: &Problem) -> Result<Self, cudnnStatus_t> {
        let convolution = part.convolution();
        let (filter, result) = (convolution.w, convolution.result());
        let data_type = part.tensors[filter].data_type;
        let transposes = Transposes::of(cudnn::device(), data_type).map_err(engines::unavailable)?;
        let sampling = part.sampling();
        let mut bytes = 0;
        let mut copies = Vec::new();
        // The filter comes first, so its copy has the same place for micro-batches of all sizes.
        for place in [filter, convolution.x, convolution.y] {
            let tensor = &part.tensors[place];
            let (how, elements) = match (sampling, part.to_be_transposed(place)) {
                (Some(sampling), _) if place == convolution.x => {
                    let samples = Samples::of(cudnn::device(), data_type).map_err(engines::unavailable)?;
                    (How::Sampled(samples, sampling), sampling.images * sampling.channels * sampling.sampled())
                }
                // A filter's gradient always has a copy, because its parts are added up.
                (_, Some(matrices)) if matrices.differ() || (place == filter && place == result) => {
                    (How::Transposed(matrices), matrices.transposed().elements())
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

    /// Returns the address of a tensor's copy. `None` if the engine uses the tensor itself.
    pub fn copy(&self, place: usize, workspace: *mut c_void) -> Option<*mut c_void> {
        self.copied(place).map(|copy| workspace.wrapping_byte_add(copy.offset))
    }

    /// Returns the filter's copy that stays for the next micro-batch in the same workspace, if there is one.
    pub fn kept_filter(&self, workspace: *mut c_void) -> Option<*mut c_void> {
        self.copy(self.filter, workspace).filter(|_| self.filter != self.result)
    }

    /// Returns the copies to make before the engine of a micro-batch in `workspace` runs. `pointer` gives the tensors.
    /// The filter's copy may be `kept` from the micro-batch before.
    pub fn before(
        &self,
        pointer: impl Fn(usize) -> *mut c_void,
        workspace: *mut c_void,
        kept: Option<*mut c_void>,
    ) -> Moves {
        let is_new = |place: usize| place != self.filter || self.kept_filter(workspace) != kept;
        let mut moves = Moves::none(&self.transposes);
        for (place, Copied { how, offset }) in &self.copies {
            if *place != self.result && is_new(*place) {
                moves.copy(how, pointer(*place), workspace.wrapping_byte_add(*offset));
            }
        }
        moves
    }

    /// Returns the copies or additions to make after the engine has run.
    pub fn behind(&self, workspace: *mut c_void, destination: Destination) -> Moves {
        let mut moves = Moves::none(&self.transposes);
        if let Some(Copied { how, offset }) = self.copied(self.result) {
            moves.copy_back(how, workspace.wrapping_byte_add(*offset), destination);
        }
        moves
    }
}

impl Moves {
    fn none(transposes: &Arc<Transposes>) -> Self {
        let (transpositions, samples, reads, writes) = Default::default();
        Self { transposes: transposes.clone(), transpositions, samples, reads, writes }
    }

    /// Adds a move of a tensor into its copy.
    fn copy(&mut self, how: &How, from: *const c_void, to: *mut c_void) {
        match how {
            How::Transposed(matrices) => self.transpose(*matrices, from, Destination::Tensor(to)),
            How::Sampled(samples, sampling) => self.sample(samples, *sampling, from, to, Move::Gather),
        }
    }

    /// Adds a move of a copy into its tensor, or into a sum.
    fn copy_back(&mut self, how: &How, from: *const c_void, to: Destination) {
        match (how, to) {
            (How::Transposed(matrices), to) => self.transpose(matrices.transposed(), from, to),
            // Only filters are summed, and filters are not sampled.
            (How::Sampled(samples, sampling), Destination::Tensor(to) | Destination::Sum(to, _)) => {
                self.sample(samples, *sampling, from, to, Move::Scatter);
            }
        }
    }

    fn transpose(&mut self, matrices: Matrices, from: *const c_void, to: Destination) {
        let (read, written) = (matrices.elements(), matrices.transposed().elements());
        self.reads.push(range(from, read * self.transposes.element()));
        self.writes.push(match to {
            Destination::Tensor(to) => range(to, written * self.transposes.element()),
            Destination::Sum(sum, _) => range(sum, written * size_of::<f32>()),
        });
        self.transpositions.push(Transposition { matrices, from, to });
    }

    fn sample(&mut self, samples: &Arc<Samples>, sampling: Sampling, from: *const c_void, to: *mut c_void, kind: Move) {
        let Sampling { images, channels, height, width, .. } = sampling;
        let [all, sampled] = [height * width, sampling.sampled()].map(|it| it * images * channels * samples.element());
        let (read, written) = match kind {
            Move::Gather => (all, sampled),
            Move::Scatter => (sampled, all),
        };
        self.reads.push(range(from, read));
        self.writes.push(range(to, written));
        self.samples.push(Sample { samples: samples.clone(), sampling, from, to, kind });
    }

    /// Joins both into one. If one touches memory that the other writes, they stay two, to run one after the other.
    pub fn then(mut self, mut behind: Self) -> Vec<Self> {
        if touches(&self.writes, &behind.writes)
            || touches(&self.writes, &behind.reads)
            || touches(&self.reads, &behind.writes)
        {
            return vec![self, behind];
        }
        self.transpositions.append(&mut behind.transpositions);
        self.samples.append(&mut behind.samples);
        self.reads.append(&mut behind.reads);
        self.writes.append(&mut behind.writes);
        vec![self]
    }

    /// Launches the copies. Returns whether that worked.
    ///
    /// # Safety
    /// The caller promises that the memory is allocated, and that the stream belongs to its device.
    pub unsafe fn run(&self, stream: Stream) -> bool {
        let sample = |Sample { samples, sampling, from, to, kind }: &Sample| {
            // SAFETY: our caller promised the memory and the stream.
            unsafe { samples.run(*kind, stream, *sampling, *from, *to) }
        };
        // SAFETY: our caller promised the memory and the stream, and no copy touches memory that another writes.
        let transposed = unsafe { self.transposes.run(stream, &self.transpositions) };
        transposed && self.samples.iter().all(sample)
    }
}

fn range(start: *const c_void, bytes: usize) -> Range<usize> {
    start.addr()..start.addr() + bytes
}

/// Returns whether any of `these` ranges overlaps any of `those`.
fn touches(these: &[Range<usize>], those: &[Range<usize>]) -> bool {
    these.iter().any(|a| those.iter().any(|b| a.start < b.end && b.start < a.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a move that transposes two matrices of 8 floats between made-up addresses.
    fn moves(from: usize, to: usize) -> Moves {
        let transposes = Transposes::of(gpu::Device::Host, CUDNN_DATA_FLOAT).unwrap();
        let mut moves = Moves::none(&transposes);
        let to = Destination::Tensor(std::ptr::without_provenance_mut(to));
        moves.transpose(Matrices::packed(2, 2, 4), std::ptr::without_provenance(from), to);
        moves
    }

    #[test]
    fn what_shares_no_written_memory_is_moved_at_once() {
        for (first, second, together) in [
            ((0x1000, 0x2000), (0x3000, 0x4000), true),
            ((0x1000, 0x2000), (0x1000, 0x4000), true),  // both read it
            ((0x1000, 0x2000), (0x1040, 0x2040), true),  // side by side
            ((0x1000, 0x2000), (0x3000, 0x2000), false), // both write it
            ((0x1000, 0x2000), (0x2000, 0x4000), false), // the second reads what the first writes
            ((0x1000, 0x2000), (0x3000, 0x1000), false), // the second overwrites what the first reads
            ((0x1000, 0x2000), (0x3000, 0x103c), false), // the last element of it
            ((0x1000, 0x2000), (0x203c, 0x4000), false),
        ] {
            let [(from, to), (other_from, other_to)] = [first, second];
            let launches = moves(from, to).then(moves(other_from, other_to));
            assert_eq!(launches.len(), if together { 1 } else { 2 }, "{first:x?} {second:x?}");
            assert_eq!(launches.iter().map(|moves| moves.transpositions.len()).sum::<usize>(), 2);
            // The first move stays first.
            assert_eq!(launches[0].transpositions[0].from.addr(), from);
        }
    }

    #[test]
    fn sums_and_padding_are_memory_too() {
        let transposes = Transposes::of(gpu::Device::Host, CUDNN_DATA_HALF).unwrap();
        let sum = |from: usize, to: usize| {
            let mut moves = Moves::none(&transposes);
            let to = Destination::Sum(std::ptr::without_provenance_mut(to), true);
            let padded = Matrices { transposed_pitch: 8, ..Matrices::packed(1, 3, 4) };
            moves.transpose(padded.transposed(), std::ptr::without_provenance(from), to);
            moves
        };
        // The source has 4 rows of 8 halves, 3 of them values and the rest padding; the sum has 12 floats.
        let Moves { reads, writes, .. } = sum(0x1000, 0x2000);
        assert_eq!((&reads[0], &writes[0]), (&(0x1000..0x1040), &(0x2000..0x2030)));
    }
}
