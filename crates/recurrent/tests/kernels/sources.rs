//! The kernels' sources, unchanged or with a part removed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cudnn_abi::CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING;
use hostdnn::emulator::{Module, Source};

use guest::testing::skip;
use kernels::recurrent as kernels;
use ucudnn_recurrent::configuration::{Cell, Configuration, Pass, Problem, Regime};

/// The file of each regime, and all files that these include.
pub const BLOCK: &str = "recurrent/block.cu";
pub const CLUSTER: &str = "recurrent/cluster.cu";
pub const GRID: &str = "recurrent/grid.cu";
pub const WAVEFRONT: &str = "recurrent/wavefront.cu";
/// The exchange between a cluster's blocks.
pub const CLUSTER_EXCHANGE: &str = "common/cluster_exchange.cuh";
/// The computation of W x within the steps, and by separate warps.
pub const STEP_INPUT: &str = "recurrent/step_input.cuh";
pub const INPUT_WARPS: &str = "recurrent/input_warps.cuh";
/// The element-wise part of a step.
pub const STATES: &str = "recurrent/states.cuh";
/// The products on tensor cores.
pub const TENSOR: &str = "common/matrix/tensor.cuh";
/// Canonical GRU's kernel.
pub const CANONICAL_BLOCK: &str = "recurrent/canonical_block.cu";
/// The steps of blocks, and the exchange between them.
pub const GRID_STEPS: &str = "recurrent/grid_steps.cuh";
pub const GRID_EXCHANGE: &str = "recurrent/grid_exchange.cuh";
pub const EXCHANGE: &str = "common/exchange.cuh";
pub const SINGLE_EXCHANGE: &str = "recurrent/single_exchange.cuh";
/// The kernels that go back through time, and the element-wise part of their steps.
pub const BACK_BLOCK: &str = "recurrent/back_block.cu";
pub const BACK_CLUSTER: &str = "recurrent/back_cluster.cu";
pub const BACK_SCATTER: &str = "recurrent/back_scatter.cu";
pub const BACK_GRID: &str = "recurrent/back_grid.cu";
pub const BACK_STATES: &str = "recurrent/back_states.cuh";
pub const BACK_RECURRENCE: &str = "recurrent/back_recurrence.cuh";
pub const SCATTER_SHARE: &str = "recurrent/scatter_share.cuh";
pub const PHASED: &str = "common/phased.cuh";
/// What the blocks of a cluster send each other.
pub const CLUSTER_SEND: &str = "recurrent/cluster_send.cuh";
/// The activations of cells.
pub const ACTIVATIONS: &str = "common/activations.cuh";

/// The texts of all files, by their names.
fn texts() -> BTreeMap<&'static str, &'static str> {
    let forward = [kernels::BLOCK, kernels::CANONICAL_BLOCK, kernels::CLUSTER, kernels::GRID, kernels::WAVEFRONT];
    let back = [kernels::BACK_BLOCK, kernels::BACK_CLUSTER, kernels::BACK_SCATTER, kernels::BACK_GRID];
    forward
        .iter()
        .chain(&back)
        .flat_map(|source| source.headers.iter().copied().chain([(source.name, source.text)]))
        .collect()
}

/// A replacement in one file.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    pub file: &'static str,
    /// The text to replace; `occurrence` counts from 0.
    pub from: &'static str,
    pub occurrence: usize,
    pub to: &'static str,
}

impl Mutation {
    fn apply(&self, text: &str) -> String {
        let (at, _) =
            text.match_indices(self.from).nth(self.occurrence).unwrap_or_else(|| panic!("{self:?}: not there"));
        [&text[..at], self.to, &text[at + self.from.len()..]].concat()
    }
}

/// The number of times that a file contains a text.
pub fn occurrences(file: &str, text: &str) -> usize {
    texts()[file].matches(text).count()
}

/// Compiles a configuration's kernel. `None`, and a skipped test, if there is no C++ compiler.
pub fn load(problem: &Problem, configuration: &Configuration, mutation: Option<&Mutation>) -> Option<Module> {
    let name = match (configuration.regime, problem.cell) {
        (Regime::Block, _) if problem.pass == Pass::Backward => BACK_BLOCK,
        (Regime::Cluster, _) if problem.pass == Pass::Backward => BACK_CLUSTER,
        (Regime::Scatter, _) => BACK_SCATTER,
        (Regime::GridScatter, _) => BACK_GRID,
        (Regime::Block, Cell::CanonicalGru) => CANONICAL_BLOCK,
        (Regime::Block, _) => BLOCK,
        (Regime::Cluster, _) => CLUSTER,
        (Regime::Grid | Regime::GridSingle, _) => GRID,
        (Regime::Wavefront { .. }, _) => WAVEFRONT,
    };
    let options = configuration.options(problem);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    load_text(name, None, &options, mutation)
}

/// Does the same for a source of this name, or for a text that includes some.
pub fn load_text(name: &str, text: Option<&str>, options: &[&str], mutation: Option<&Mutation>) -> Option<Module> {
    let mutated = |(name, text): (&'static str, &'static str)| match mutation {
        Some(mutation) if mutation.file == name => (name, Cow::Owned(mutation.apply(text))),
        _ => (name, Cow::Borrowed(text)),
    };
    let texts: BTreeMap<_, _> = texts().into_iter().map(mutated).collect();
    let all: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, &**text)).collect();
    let text = text.unwrap_or_else(|| &texts[name]);
    match Module::load(&Source { name, text, headers: &all, options }) {
        Ok(module) => Some(module),
        Err(error) if error.status == CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING => {
            skip(&error.reason);
            None
        }
        Err(error) => panic!("{name} {options:?}: {}", error.reason),
    }
}
