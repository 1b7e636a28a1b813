//! Which executor runs the path of a batch: the one that takes the least time by a model of an H200.
//!
//! The model's numbers are fitted to steps of N-ary Tree-LSTMs of 256 units (float, TF32 and bfloat16, 1 to 256 trees) and of
//! 512 (1 to 128 trees), which `examples/pytorch/dynamic_paths.py` measures. There a step takes 0.1% more than by the fastest
//! executor on average, and at most 3%. Where the weights of one way fit into a group's blocks and those of the other do not,
//! that other way has launches for each level.
//!
//! Executors differ in the order of their sums. The choice depends on the net and the batch alone, so that a program has
//! the same bits each time it runs. So it is not made by times, and a program compiles only what is chosen.

use gpu::Element;
use vertex::batch::Batch;
use vertex::passes::{Passes, Work};
use vertex::stages::Stage;

use super::net::{Net, OneWay};
use crate::emit;
use crate::options::Executor;

/// The numbers of groups that a path may have.
const GROUPS: [usize; 4] = [1, 2, 4, 8];

/// What the batched executor takes for a level one way, in µs: launches, and the last blocks of each.
const LAUNCHES_OF_LEVEL: f64 = 5.25;

/// The multiply-adds of its products in a µs, by warps and by warpgroups, each of elements of 2 bytes and of floats.
/// Floats by warpgroups take little time beside the launches.
const PRODUCTS: [[f64; 2]; 2] = [[20e6, 9.7e6], [30e6, 60e6]];

/// What the persistent executor takes for a level one way, in µs; and for each unit that a block has. A level has an
/// exchange, and passes over its rows that wait for memory.
const EXCHANGE: f64 = 1.8;
const UNIT: f64 = 0.075;

/// What a group's blocks take for a byte of packets, in µs: to collect and multiply it, and for its part of the passes.
/// Again of elements of 2 bytes, and of floats.
const PACKETS: [f64; 2] = [42e-6, 24e-6];

impl Executor {
    /// The numbers of groups to choose from.
    pub(super) fn groups(self) -> Vec<usize> {
        match self {
            Self::Batched => vec![],
            Self::Auto => GROUPS.into(),
            Self::Persistent { groups } => vec![groups],
        }
    }
}

/// The steps of a batch's path, and how many graphs share them out.
struct Steps<'a> {
    batch: &'a Batch,
    count: f64,
}

impl Net {
    /// The path's configuration for a batch, loaded; `None` for launches for each level.
    pub(super) fn choose(&self, batch: &Batch) -> Option<usize> {
        let blocks = batch.blocks().iter().filter(|block| block.level > 0).count();
        let steps = Steps { batch, count: blocks as f64 };
        let time = |number: usize| self.ways().map(|way| self.time(way, Some(number), &steps)).sum::<f64>();
        let batched = match self.executor() {
            Executor::Auto => self.ways().map(|way| self.time(way, None, &steps)).sum(),
            Executor::Batched | Executor::Persistent { .. } => f64::INFINITY,
        };
        let all = (0..self.configurations.len()).filter(|number| self.has_path(*number));
        let times = all.map(|number| (number, time(number)));
        let mut numbers: Vec<_> = times.filter(|(_, time)| *time < batched).collect();
        numbers.sort_by(|left, right| left.1.total_cmp(&right.1));
        numbers.into_iter().map(|(number, _)| number).find(|number| self.load(*number))
    }

    /// The time of a way's path by a configuration, or by the batched executor, in µs.
    fn time(&self, way: &OneWay, configuration: Option<usize>, steps: &Steps) -> f64 {
        let is_float = usize::from(self.element == Element::Float);
        if let Some(path) = configuration.and_then(|number| way.path(number)) {
            return persistent_time(&path.emitted, steps, PACKETS[is_float]);
        }
        let products: f64 =
            way.passes.iter().enumerate().map(|(kind, passes)| products(passes, kind, steps.batch)).sum();
        let by_warpgroups = usize::from(self.library.has_warpgroups());
        steps.count * LAUNCHES_OF_LEVEL + products / PRODUCTS[by_warpgroups][is_float]
    }
}

/// In µs.
fn persistent_time(path: &emit::Path, steps: &Steps, of_byte: f64) -> f64 {
    let bytes = path.published.iter().map(|published| {
        let (rows, edges) = steps.batch.of_kind(published.kind);
        (if published.is_of_children { edges } else { rows } * published.bytes_of_row) as f64
    });
    let graphs = steps.batch.graphs().max(1) as f64;
    let groups = (path.groups as f64).min(graphs);
    // The group with the most rows: graphs differ, and few of them are not dealt out evenly.
    let share = (1.0 + (groups - 1.0) / graphs) / groups;
    let of_level = EXCHANGE + UNIT * path.own_units as f64;
    steps.count * of_level + bytes.sum::<f64>() * of_byte * share
}

/// The multiply-adds of a kind's products on the path.
fn products(passes: &Passes, kind: usize, batch: &Batch) -> f64 {
    let (rows, edges) = batch.of_kind(kind);
    let of_pass = |work: &Work| match work {
        Work::Product { x, y, .. } => (if x.is_of_children { edges } else { rows } * x.width * y.width) as f64,
        _ => 0.0,
    };
    passes.stages[Stage::Path as usize].iter().map(|pass| of_pass(&pass.work)).sum()
}
