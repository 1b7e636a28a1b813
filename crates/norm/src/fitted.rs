//! Our kernels for a pass, with the shape of its launches.

use std::sync::Arc;

use super::kernels::{Engine, likely, shapes, source};
use super::shape::{Room, Shape};
use super::subject::Normalization;
use gpu::background::compiling;
use guest::settings;

/// A pass's kernels for a tensor's type, loaded, and how the tensor is shared out to blocks.
pub struct Fitted {
    pub engine: Arc<Engine>,
    pub subject: Normalization,
    pub shape: Shape,
}

impl Fitted {
    /// Compiles, unless that was done before, and loads the kernels on the calling thread's device. `Err` says why they
    /// cannot run there.
    pub fn load(subject: &Normalization, shape: Shape) -> Result<Self, String> {
        settings::fault_point("norm-load");
        compiling::hang()?;
        let engine = Engine::load(cudnn::device(), subject.pass, subject.planes.element)?;
        if shape.blocks() > 1 && engine.resident_clusters(&subject.planes, &shape).map_err(|why| why.to_string())? == 0
        {
            return Err(format!("the device holds no cluster of {} blocks", shape.blocks()));
        }
        Ok(Self { engine, subject: *subject, shape })
    }

    /// Compiles the kernels, so that [`Self::load`] is quick.
    pub fn compile(subject: &Normalization) -> Result<(), String> {
        compiling::hang()?;
        let source = source(subject.pass, subject.planes.element);
        cudnn::device().compile(&source).map_err(|error| error.to_string())
    }

    /// Returns true if the kernels are loaded, or known not to load.
    pub fn is_loaded(subject: &Normalization) -> bool {
        Engine::is_loaded(cudnn::device(), subject.pass, subject.planes.element)
    }

    /// Returns true if the kernels are on disk, compiled for the calling thread's device.
    pub fn is_compiled(subject: &Normalization) -> bool {
        cudnn::device().is_compiled(&source(subject.pass, subject.planes.element))
    }

    /// The shape that is likely the fastest on the calling thread's device.
    pub fn shape(subject: &Normalization) -> Result<Shape, String> {
        let Normalization { pass, planes, .. } = subject;
        let room = Room::of(cudnn::device()).ok_or("the device does not tell its properties")?;
        let shapes = shapes(*pass, planes, &room);
        let likely = shapes.get(likely(planes, &room, &shapes));
        likely.copied().ok_or_else(|| "the device has no clusters of blocks".into())
    }
}

/// The name of a shape in the database and in reports.
pub fn name(shape: &Shape) -> String {
    format!("clusters of {}", shape.blocks())
}
