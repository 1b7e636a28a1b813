//! Makes, sets, measures and destroys batches.

use std::ffi::{c_longlong, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;

use cudnn_abi::*;
use guest::refusal::Refusal;
use parking_lot::Mutex;
use vertex::batch::{Batch, Policy};

use super::given::{bad, check, numbers};
use super::objects::{BATCHES, Batches, GRAPHS, GraphBatch, NETS, Runs, destroy as forget, find};
use super::types::*;
use crate::DeviceBatch;

/// A number, not 0, that tells these graphs in a batch from others. Handles have no more than one object.
fn number_of_graphs(batch: usize, graphs: usize, ids: &[c_longlong]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (batch, graphs, ids).hash(&mut hasher);
    hasher.finish() | 1
}

/// Makes memory for batches, for `ucudnnCreateGraphBatch`.
pub unsafe fn create(batch: *mut ucudnnGraphBatch_t, net: ucudnnVertexNet_t) -> Result<(), Refusal> {
    check(batch, "batch")?;
    let net = find(&NETS, net.addr(), "net", "net")?;
    let refused = |why| Refusal::new(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, why);
    // A static net's launches are those of levels.
    let policy = if net.is_static() { Policy::Height } else { Policy::of(net.net()) };
    let mut made = Batch::new(net.maxima, net.net(), policy).map_err(refused)?;
    if let Runs::OnDevice(its) = &net.runs {
        made.deal_to(its.most_groups()).map_err(refused)?;
    }
    let _entered = net.enter()?;
    let on_device = match &net.runs {
        Runs::OnHost(..) => None,
        Runs::OnDevice(its) => Some(DeviceBatch::new(its, &net.maxima).ok_or_else(|| {
            let why = "no memory on the device for the arrays of a batch";
            Refusal::new(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, why)
        })?),
    };
    let made = GraphBatch { batch: Mutex::new(Batches { batch: made, on_device, graphs: 0 }), net };
    // SAFETY: not null, and the caller promises a place for the batch.
    unsafe { batch.write(ptr::without_provenance_mut(BATCHES.keep(made))) };
    Ok(())
}

/// Destroys a batch.
pub fn destroy(batch: ucudnnGraphBatch_t) -> Result<(), Refusal> {
    forget(&BATCHES, batch.addr(), "batch", "batch")
}

/// Makes a batch of graphs, for `ucudnnSetGraphBatch`.
pub unsafe fn set(
    batch: ucudnnGraphBatch_t,
    graphs: ucudnnGraphs_t,
    ids: *const c_longlong,
    count: c_longlong,
    stream: *mut c_void,
) -> Result<(), Refusal> {
    let handles = (batch.addr(), graphs.addr());
    let batch = find(&BATCHES, handles.0, "batch", "batch")?;
    let graphs = find(&GRAPHS, handles.1, "graphs", "set of graphs")?;
    let most = batch.net.maxima.graphs;
    let size = usize::try_from(count).ok().filter(|size| (1..=most).contains(size));
    let count = size.ok_or_else(|| bad(format!("count is {count}; 1 to {most}, the net's maxGraphs, are accepted")))?;
    // SAFETY: the caller promises the ids.
    let ids = unsafe { numbers(ids, count, "ids")? };
    let _entered = batch.net.enter()?;
    if let Runs::OnDevice(net) = &batch.net.runs
        && net.device().is_capturing(stream)
    {
        let why = "the stream is being captured; a batch is set before";
        return Err(Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why));
    }
    let mut set = batch.batch.lock();
    let Batches { batch: on_host, on_device, graphs: number } = &mut *set;
    let (Runs::OnDevice(net), Some(on_device)) = (&batch.net.runs, on_device) else {
        on_host.set(batch.net.net(), &graphs, ids).map_err(bad)?;
        *number = number_of_graphs(handles.0, handles.1, ids);
        return Ok(());
    };
    let is_copied = on_device.set(net, on_host, &graphs, ids, stream).map_err(bad)?;
    // Without its copy the batch has no graphs, neither the old ones nor these.
    *number = if is_copied { number_of_graphs(handles.0, handles.1, ids) } else { 0 };
    let not_copied = || Refusal::new(CUDNN_STATUS_EXECUTION_FAILED, "the batch was not copied to the device");
    is_copied.then_some(()).ok_or_else(not_copied)
}

/// Writes what a batch has.
pub unsafe fn sizes(batch: ucudnnGraphBatch_t, sizes: *mut ucudnnGraphBatchSizes_t) -> Result<(), Refusal> {
    let batch = find(&BATCHES, batch.addr(), "batch", "batch")?;
    check(sizes, "sizes")?;
    let its = &batch.batch.lock().batch;
    let [graphs, vertices, children, levels, rows] =
        [its.graphs(), its.vertices(), its.edges(), its.levels(), its.pulled_rows()].map(|size| size as c_longlong);
    // SAFETY: not null, and the caller promises a place for the sizes.
    unsafe { sizes.write(ucudnnGraphBatchSizes_t { graphs, vertices, children, levels, rows }) };
    Ok(())
}
