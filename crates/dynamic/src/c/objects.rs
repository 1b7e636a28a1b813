//! The objects behind handles: nets, graphs and batches.

use std::sync::Arc;

use cudnn_abi::*;
use gpu::Entered;
use guest::handles::Handles;
use guest::refusal::Refusal;
use parking_lot::Mutex;
use vertex::batch::{Batch, Maxima};
use vertex::function;
use vertex::graphs::Graphs;
use vertex::host::{Executor, Memory};

use super::given::{bad, null};
use super::host::{self, Kind};
use super::types::ucudnnGraphBatch_t;
use crate::{Bytes, DeviceBatch, Net};

pub static NETS: Handles<VertexNet> = Handles::new();
pub static GRAPHS: Handles<Graphs> = Handles::new();
pub static BATCHES: Handles<GraphBatch> = Handles::new();

/// A net, and what its batches may have.
pub struct VertexNet {
    pub runs: Runs,
    pub maxima: Maxima,
    /// The output with the scores, if the net takes steps.
    pub loss_push: Option<usize>,
}

/// Where a net runs.
pub enum Runs {
    OnHost(Box<Executor>, Kind),
    OnDevice(Box<Net>),
}

/// A batch, and the net that it was made for. Runs of it follow each other.
pub struct GraphBatch {
    pub net: Arc<VertexNet>,
    pub batch: Mutex<Batches>,
}

/// A batch on the host, and on the net's device.
pub struct Batches {
    pub batch: Batch,
    pub on_device: Option<DeviceBatch>,
    /// The number of the graphs that it was set to last. It is 0 before, and where the device has no copy of them. A reserve
    /// on the host has it too.
    pub graphs: u64,
}

impl VertexNet {
    pub fn net(&self) -> &function::Net {
        match &self.runs {
            Runs::OnHost(executor, _) => executor.net(),
            Runs::OnDevice(net) => net.net(),
        }
    }

    pub fn is_training(&self) -> bool {
        match &self.runs {
            Runs::OnHost(executor, _) => executor.is_training(),
            Runs::OnDevice(net) => net.is_training(),
        }
    }

    /// Its runs may be captured.
    pub fn is_static(&self) -> bool {
        matches!(&self.runs, Runs::OnDevice(net) if net.is_static())
    }

    /// The bytes of workspace and reserve that all runs of a batch take, or of any batch within the maxima.
    pub fn memory(&self, batch: Option<&Batch>) -> [usize; 2] {
        match &self.runs {
            Runs::OnHost(executor, kind) => {
                let memory = self.memory_on_host(executor, *kind, batch, self.loss_push);
                host::bytes(*kind, executor, memory)
            }
            Runs::OnDevice(net) => {
                let bytes = self.memory_on_device(net, batch, self.loss_push);
                [bytes.workspace, bytes.reserve]
            }
        }
    }

    pub fn memory_on_host(
        &self,
        executor: &Executor,
        kind: Kind,
        batch: Option<&Batch>,
        step: Option<usize>,
    ) -> Memory {
        let vertices = batch.map_or(self.maxima.vertices, Batch::vertices);
        let memory = kind.memory(executor, batch, &self.maxima);
        step.map_or(memory, |push| executor.with_step(memory, push, vertices))
    }

    pub fn memory_on_device(&self, net: &Net, batch: Option<&Batch>, step: Option<usize>) -> Bytes {
        let bytes = batch.map_or_else(|| net.most_memory(&self.maxima), |batch| net.memory(batch));
        let vertices = batch.filter(|_| !net.is_static()).map_or(self.maxima.vertices, Batch::vertices);
        step.map_or(bytes, |push| net.with_step(bytes, push, vertices))
    }

    /// Makes the net's device the calling thread's while the result lives. `None` on the host.
    pub fn enter(&self) -> Result<Option<Entered>, Refusal> {
        let Runs::OnDevice(net) = &self.runs else { return Ok(None) };
        let ordinal = net.device().ordinal();
        let mismatch = || {
            let why = format!("the net is for device {}, and the calling thread's is {ordinal}", net.ordinal());
            Refusal::new(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, why)
        };
        net.device().enter(ordinal).filter(|_| ordinal == net.ordinal()).map(Some).ok_or_else(mismatch)
    }
}

/// The object of a handle.
pub fn find<T>(all: &Handles<T>, handle: usize, name: &str, what: &str) -> Result<Arc<T>, Refusal> {
    if handle == 0 {
        return Err(null(name));
    }
    all.find(handle).ok_or_else(|| unknown(name, what))
}

fn unknown(name: &str, what: &str) -> Refusal {
    bad(format!("{name} is no {what}, or was destroyed"))
}

/// Forgets a handle. Of several calls with the same handle, one succeeds.
pub fn destroy<T>(all: &Handles<T>, handle: usize, name: &str, what: &str) -> Result<(), Refusal> {
    find(all, handle, name, what)?;
    all.remove(handle).map(drop).ok_or_else(|| unknown(name, what))
}

/// The batch of a handle, which was made for this net.
pub fn batch_of(net: &Arc<VertexNet>, batch: ucudnnGraphBatch_t) -> Result<Arc<GraphBatch>, Refusal> {
    let batch = find(&BATCHES, batch.addr(), "batch", "batch")?;
    if Arc::ptr_eq(&batch.net, net) { Ok(batch) } else { Err(bad("batch was made for another net")) }
}
