//! One engine for a convolution, outside of plans and trials: for callers that choose between it and something else.

use super::ENGINES;
use super::by_channel::ByChannel;
use super::engine::{Plan, Priority, Row};
use super::problem::{Computed, Convolution};
use crate::problem::graph::Knob;
use gpu::Device;

/// An engine for convolutions by channel, whose problem is one.
pub struct Alone {
    row: &'static Row,
    of: Convolution,
    knobs: Vec<Knob>,
}

impl Alone {
    /// The engine for a convolution by channel, or for one of its gradients, on the calling thread's device. It takes at
    /// most `limit` bytes of workspace. `None` if we have none.
    pub fn by_channel(device: Device, of: &Convolution, limit: usize) -> Option<Self> {
        ByChannel::of(of).ok()?;
        ENGINES.iter().filter(|row| row.takes_bias).find_map(|row| {
            let knobs = row.choices(device, of, Priority::Fast, limit).into_iter().next()?;
            Some(Self { row, of: *of, knobs })
        })
    }

    /// Whether its kernels are on disk, compiled for the calling thread's device.
    pub fn is_compiled(&self, device: Device) -> bool {
        (self.row.compiled)(device, &self.of, &self.knobs).is_none_or(|source| device.is_compiled(&source))
    }

    /// Compiles the kernels, so that [`Self::load`] is quick.
    pub fn compile(&self, device: Device) -> Result<(), String> {
        let source = (self.row.compiled)(device, &self.of, &self.knobs).ok_or("no kernel of ours computes it")?;
        device.compile(&source).map_err(|error| error.to_string())
    }

    /// Makes the engine ready.
    pub fn load(&self, device: Device) -> Result<Box<dyn Plan>, String> {
        (self.row.plan)(device, &self.of, &self.knobs)
    }
}
