//! Runs batches on the host, level by level: element-wise operations in one pass over each row, eager and lazy products
//! for all rows at once. A run allocates nothing but what the `gemm` crate packs matrices in.

mod elements;
mod few;
mod memory;
mod product;
mod real;
mod rows;
mod run;
mod step;
mod threads;
mod update;

pub use elements::Element;
pub use memory::Memory;
pub use real::Real;
pub use rows::Pull;
pub use step::{Step, check_rates};
pub use threads::Threads;
pub use update::{Moments, Rule};

use crate::batch::{Batch, Maxima};
use crate::derivative::differentiate;
use crate::function::{MOST_FUNCTIONS, Net};
use crate::passes::{Extent, FRAMES, Frame, Grain, Passes, passes};
use crate::stages::Way;
use memory::of_frames;

use std::fmt::{self, Display, Formatter};

/// A run whose arguments do not fit: why. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl Display for Refused {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// A net that runs on the host.
#[derive(Clone, Debug)]
pub struct Executor {
    net: Net,
    /// The passes of each kind.
    forward: Vec<Passes>,
    /// The passes backward of each kind; empty without training.
    backward: Vec<Passes>,
    threads: Threads,
}

/// What a run reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, C> {
    /// `[rows][columns]` of each parameter.
    pub parameters: &'a [&'a [C]],
    /// Each input.
    pub pulls: &'a [Pull<'a, C>],
}

/// What a run backward reads and writes besides.
#[derive(Debug)]
pub struct Gradients<'a, 'b, 'c, C> {
    /// `[vertices][width]` of each output; an empty one is of zeros.
    pub pushes: &'a [&'a [C]],
    /// `[rows][width]` of each input whose gradient is wanted.
    pub pulls: &'a mut [Option<&'b mut [C]>],
    /// `[rows][columns]` of each parameter whose gradient is wanted.
    pub parameters: &'a mut [Option<&'c mut [C]>],
    /// Adds to the parameters' gradients, in place of writing them.
    pub accumulates: bool,
}

impl Executor {
    /// Makes the passes of a net. With training, runs forward keep the values that runs backward read.
    pub fn new(net: &Net, is_training: bool, threads: Threads) -> Self {
        let (mut forward, mut backward) = (vec![], vec![]);
        for (kind, function) in net.declaration().functions.iter().enumerate() {
            if !is_training {
                forward.push(passes(net, kind, &function.operations, Way::Forward, Grain::Row));
                continue;
            }
            let derivative = differentiate(net, kind);
            let ways = [
                (&mut forward, &derivative.forward, Way::Forward),
                (&mut backward, &derivative.backward, Way::Backward),
            ];
            for (to, operations, way) in ways {
                let mut its = passes(net, kind, operations, way, Grain::Row);
                its.strides[Frame::Kept as usize] = derivative.kept;
                its.strides[Frame::Kept as usize + FRAMES] = derivative.kept_of_children;
                to.push(its);
            }
        }
        Self { net: net.clone(), forward, backward, threads }
    }

    /// The net.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// It was made for training.
    pub fn is_training(&self) -> bool {
        !self.backward.is_empty()
    }

    /// The number of threads that share a run.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// The memory that the frames and states of a batch take.
    fn memory_of_batch(&self, batch: &Batch) -> Memory {
        self.memory_of(&Extent::of(batch, self.forward.len()), batch.vertices(), batch.edges())
    }

    /// Likewise of any batch within these maxima.
    fn memory_of_maxima(&self, maxima: &Maxima) -> Memory {
        self.memory_of(&Extent::most(maxima, &self.net), maxima.vertices, maxima.children)
    }

    fn memory_of(&self, extents: &[Extent; MOST_FUNCTIONS], vertices: usize, edges: usize) -> Memory {
        let width: usize = self.net.declaration().states.iter().sum();
        let of_states = width.saturating_mul(vertices);
        let sum = |kinds: &[Passes]| {
            let frames = kinds.iter().zip(extents).map(|(passes, extent)| of_frames(passes, extent));
            let both = frames.fold(Memory::default(), |sum, its| Memory {
                workspace: sum.workspace.saturating_add(its.workspace),
                reserve: sum.reserve.saturating_add(its.reserve),
            });
            Memory { workspace: both.workspace.saturating_add(self.scratch(kinds)), ..both }
        };
        let (forward, backward) = (sum(&self.forward), sum(&self.backward));
        if !self.is_training() {
            return Memory { workspace: forward.workspace.saturating_add(of_states), reserve: 0 };
        }
        let of_backward = backward.workspace.saturating_add(width.saturating_mul(edges));
        Memory { workspace: forward.workspace.max(of_backward), reserve: forward.reserve.saturating_add(of_states) }
    }

    /// The numbers of a row's scratch memory, for all threads.
    fn scratch(&self, kinds: &[Passes]) -> usize {
        self.threads.count() * kinds.iter().map(Passes::scratch).max().unwrap_or(0)
    }
}
