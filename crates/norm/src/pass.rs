//! The passes of batch and group normalization, and their facts.

use std::ffi::CStr;

use kernels::KernelSource;
use kernels::norm as sources;

/// What a call does with a tensor: the variants' order is that of [`PASSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    Forward,
    Backward,
    Inference,
    GroupForward,
    GroupBackward,
}

/// The facts of a pass.
pub struct Row {
    /// Its word in texts that identify a subject.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    pub source: &'static KernelSource,
    /// The kernels' names: for planes that are whole vectors, and for others.
    pub kernels: [&'static CStr; 2],
    /// The name of a kernel that is launched behind one of these.
    pub behind: Option<&'static CStr>,
    /// The tensors that it reads before it writes, and so keeps in shared memory: none if it is done in one sweep.
    pub kept: usize,
    /// The tensors that it reads or writes.
    pub tensors: usize,
}

static PASSES: [Row; 5] = [
    Row {
        name: "forward",
        what: "batch normalization",
        source: &sources::FORWARD,
        kernels: [c"normalize_whole", c"normalize_uneven"],
        behind: None,
        kept: 1,
        tensors: 2,
    },
    Row {
        name: "backward",
        what: "gradient of a batch normalization",
        source: &sources::BACKWARD,
        kernels: [c"differentiate_whole", c"differentiate_uneven"],
        behind: None,
        kept: 2,
        tensors: 3,
    },
    Row {
        name: "inference",
        what: "batch normalization in inference",
        source: &sources::INFERENCE,
        kernels: [c"infer_whole", c"infer_uneven"],
        behind: None,
        kept: 0,
        tensors: 2,
    },
    Row {
        name: "group_forward",
        what: "group normalization",
        source: &sources::GROUP_FORWARD,
        kernels: [c"normalize_groups_whole", c"normalize_groups_uneven"],
        behind: None,
        kept: 1,
        tensors: 2,
    },
    Row {
        name: "group_backward",
        what: "gradient of a group normalization",
        source: &sources::GROUP_BACKWARD,
        kernels: [c"differentiate_groups_whole", c"differentiate_groups_uneven"],
        behind: Some(c"differentiate_parameters"),
        kept: 2,
        tensors: 3,
    },
];

impl Pass {
    pub const ALL: [Self; PASSES.len()] =
        [Self::Forward, Self::Backward, Self::Inference, Self::GroupForward, Self::GroupBackward];
    /// Those that cuDNN has a function for: batch normalization's.
    pub const OF_CUDNN: [Self; 3] = [Self::Forward, Self::Backward, Self::Inference];

    /// Returns whether it normalizes groups of channels.
    pub fn has_groups(self) -> bool {
        matches!(self, Self::GroupForward | Self::GroupBackward)
    }

    pub fn row(self) -> &'static Row {
        &PASSES[self as usize]
    }
}
