//! How a net is made.

use gpu::Element;

/// How a net is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The type of tensors.
    pub element: Element,
    /// Runs forward keep values for runs backward.
    pub is_training: bool,
    /// Products of floats may be rounded to TF32.
    pub tf32: bool,
    /// The products that run on tensor cores of warpgroups, where the device has them.
    pub warpgroups: Warpgroups,
    /// The passes over elements whose threads compute four at once.
    pub fours: Fours,
    /// Runs may be captured into a CUDA graph, whose replays run the graphs that the batch holds at that time. All runs
    /// launch the kernels for the largest batch.
    pub is_static: bool,
    /// The part of the executor that is left out.
    pub without: Without,
    /// The executor of the path.
    pub executor: Executor,
}

/// The products that run on tensor cores of warpgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Warpgroups {
    /// None.
    Never,
    /// Those of many rows, which are faster so.
    Many,
    /// All that could, and as many blocks as can be share out the depth: for tests.
    Always,
}

/// The passes over elements whose threads compute four neighbours at once, where four come about alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fours {
    /// Those over many elements.
    Many,
    /// All that can: for tests.
    Always,
}

/// The executor of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// For each batch the one that takes the least time, by a model.
    Auto,
    /// Launches for each level and kind.
    Batched,
    /// One launch each way, whose blocks keep weights on chip (VPPS); where a net does not allow it, the other. Each group
    /// of blocks keeps all weights, and runs a part of the batch's graphs.
    Persistent {
        /// The number of groups.
        groups: usize,
    },
}

/// A part of the executor that is left out, to measure its worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// No part is left out.
    Nothing,
    /// Each operation has a kernel (Cavs, section 3.5).
    Fusion,
    /// Eager and lazy products are computed level by level (Cavs, section 3.4). A static net has them for whole batches.
    Batching,
}
