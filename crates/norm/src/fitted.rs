//! Our kernels for a pass, with the cut of its launches.

use std::sync::Arc;

use super::kernels::{self, Engine, source};
use super::shape::{Cut, Flat, Groups, Room, Shape};
use super::subject::Normalization;
use gpu::background::compiling;
use guest::settings;

/// A pass's kernels for a tensor's type, loaded, and how the tensor is shared out to blocks.
pub struct Fitted {
    pub engine: Arc<Engine>,
    pub subject: Normalization,
    pub cut: Cut,
}

impl Fitted {
    /// Compiles, unless that was done before, and loads the kernels on the calling thread's device. `Err` says why they
    /// cannot run there.
    pub fn load(subject: &Normalization, cut: Cut) -> Result<Self, String> {
        settings::fault_point("norm-load");
        compiling::hang()?;
        let engine = Engine::load(cudnn::device(), subject.pass, subject.types())?;
        if let Cut::Clusters(shape) = cut
            && shape.blocks() > 1
            && engine.resident_clusters(subject, &cut).map_err(|why| why.to_string())? == 0
        {
            return Err(format!("the device holds no cluster of {} blocks", shape.blocks()));
        }
        Ok(Self { engine, subject: *subject, cut })
    }

    /// Compiles the kernels, so that [`Self::load`] is quick.
    pub fn compile(subject: &Normalization) -> Result<(), String> {
        compiling::hang()?;
        let source = source(subject.pass, subject.types());
        cudnn::device().compile(&source).map_err(|error| error.to_string())
    }

    /// Returns true if the kernels are loaded, or known not to load.
    pub fn is_loaded(subject: &Normalization) -> bool {
        Engine::is_loaded(cudnn::device(), subject.pass, subject.types())
    }

    /// Returns true if the kernels are on disk, compiled for the calling thread's device.
    pub fn is_compiled(subject: &Normalization) -> bool {
        cudnn::device().is_compiled(&source(subject.pass, subject.types()))
    }

    /// How the pass is likely the fastest on the calling thread's device.
    pub fn cut(subject: &Normalization) -> Result<Cut, String> {
        let room = Room::of(cudnn::device()).ok_or("the device does not tell its properties")?;
        Ok(kernels::cut(subject.pass, &subject.reduced(), &room)?)
    }

    /// The clusters of a pass that has some.
    pub fn clusters(&self) -> Shape {
        match self.cut {
            Cut::Clusters(shape) => shape,
            Cut::Flat(_) => unreachable!("the pass reduces channels"),
        }
    }

    /// The groups of channels of a pass that has some.
    pub fn groups(&self) -> Groups {
        Groups::new(&self.subject.planes, self.subject.groups.expect("the pass has groups of channels"))
    }

    /// The tensor of a pass that is one sweep.
    pub fn flat(&self) -> Flat {
        match self.cut {
            Cut::Flat(flat) => flat,
            Cut::Clusters(_) => unreachable!("the pass is one sweep"),
        }
    }
}
