//! Launches that are recorded and launched together, as a CUDA graph of our own. A launch on a stream takes the host some
//! 5 µs, a recorded one below 1 µs, and the launch of the whole some 10 µs, so that many short kernels follow each other
//! as fast as the device runs them.

use std::ptr::null_mut;

use cudarc::driver::sys;
use parking_lot::Mutex;

use crate::cuda::ok;
use crate::{Device, OwnStream, Stream};

/// Records launches, and keeps what was made of them: a recording of as many launches only updates it.
pub struct Recorder {
    /// Nothing runs on it.
    stream: OwnStream,
    ready: Mutex<Vec<Ready>>,
}

// SAFETY: CUDA's driver allows the use of streams and graphs from any thread, one at a time; the mutex is held meanwhile.
unsafe impl Send for Recorder {}
// SAFETY: as above.
unsafe impl Sync for Recorder {}

/// The most graphs that are kept, one for each number of launches.
const MOST: usize = 64;

/// A graph that was made ready to be launched.
struct Ready {
    nodes: usize,
    graph: sys::CUgraphExec,
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: `instantiate` made it, and only this drop destroys it. If it still runs, the driver frees it later.
        ok(|| unsafe { sys::cuGraphExecDestroy(self.graph) });
    }
}

/// A recorded graph.
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: the capture made it, and only this drop destroys it.
        ok(|| unsafe { sys::cuGraphDestroy(self.0) });
    }
}

impl Recorder {
    /// A recorder of the calling thread's device. `None` on the host, or if there is no stream.
    pub fn new(device: Device) -> Option<Self> {
        if device == Device::Host {
            return None;
        }
        Some(Self { stream: device.stream()?, ready: Mutex::default() })
    }

    /// Records the launches of `record` on the stream that it gets, and launches them on `stream`, which is not being
    /// captured. `Ok(false)` if they cannot be recorded; then nothing was launched.
    pub fn run<E>(&self, stream: Stream, record: impl FnOnce(Stream) -> Result<(), E>) -> Result<bool, E> {
        let mut ready = self.ready.lock();
        let Some(recorded) = self.recorded(record)? else { return Ok(false) };
        let mut nodes = 0;
        // SAFETY: the graph is live; a null array asks for the number of nodes only.
        if !ok(|| unsafe { sys::cuGraphGetNodes(recorded.0, null_mut(), &mut nodes) }) {
            return Ok(false);
        }
        if nodes == 0 {
            return Ok(true);
        }
        let known = ready.iter().position(|ready| ready.nodes == nodes && update(ready.graph, &recorded));
        let place = match known {
            Some(place) => place,
            None => {
                let Some(made) = instantiate(nodes, &recorded) else { return Ok(false) };
                ready.retain(|ready| ready.nodes != nodes);
                if ready.len() >= MOST {
                    ready.remove(0);
                }
                ready.push(made);
                ready.len() - 1
            }
        };
        // SAFETY: the graph is live, and the program passes a live stream.
        Ok(ok(|| unsafe { sys::cuGraphLaunch(ready[place].graph, stream.cast()) }))
    }

    fn recorded<E>(&self, record: impl FnOnce(Stream) -> Result<(), E>) -> Result<Option<Recorded>, E> {
        let (stream, mode) = (self.stream.raw(), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED);
        // SAFETY: the stream is our own, and the mutex keeps other threads from it.
        if !ok(|| unsafe { sys::cuStreamBeginCapture_v2(stream.cast(), mode) }) {
            return Ok(None);
        }
        let done = record(stream);
        let mut graph = null_mut();
        // SAFETY: ends the capture that has begun above, and writes one graph.
        let ended = ok(|| unsafe { sys::cuStreamEndCapture(stream.cast(), &mut graph) }) && !graph.is_null();
        let recorded = ended.then(|| Recorded(graph));
        done?;
        Ok(recorded)
    }
}

/// Gives a graph the parameters of another one of the same form. Returns whether it has that form. Launches so far keep
/// theirs.
fn update(graph: sys::CUgraphExec, from: &Recorded) -> bool {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: both graphs are live; writes one struct.
    ok(|| unsafe { sys::cuGraphExecUpdate_v2(graph, from.0, info.as_mut_ptr()) })
}

fn instantiate(nodes: usize, from: &Recorded) -> Option<Ready> {
    let mut graph = null_mut();
    // SAFETY: the graph is live; writes one pointer.
    ok(|| unsafe { sys::cuGraphInstantiateWithFlags(&mut graph, from.0, 0) }).then_some(Ready { nodes, graph })
}
