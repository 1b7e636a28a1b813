//! Launches that are recorded and launched together, as a CUDA graph of our own. A launch on a stream takes the host some
//! 5 µs, a recorded one below 1 µs, and the launch of the whole some 10 µs, so that many short kernels follow each other
//! as fast as the device runs them.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::null_mut;

use cudarc::driver::sys;
use parking_lot::Mutex;

use crate::cuda::{ok, relaxed};
use crate::{Device, OwnStream, Stream};

thread_local! {
    /// The form of the calling thread's recording, as a hash of the launches so far. `None` outside of recordings.
    static FORM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Adds to the form of a recording of the calling thread, if it records: which kernel is launched, and how. Each launch of
/// another form is a graph of its own. An update to another kernel succeeds, but on an H200 (driver 580.159) some products
/// of cublasLt then left their results unwritten.
pub fn note(launch: impl Hash) {
    FORM.with(|form| {
        if let Some(so_far) = form.get() {
            let mut hasher = DefaultHasher::new();
            (so_far, launch).hash(&mut hasher);
            form.set(Some(hasher.finish()));
        }
    });
}

/// The form of the current recording, until it is taken or dropped.
struct Form;

impl Form {
    fn begin() -> Self {
        FORM.set(Some(0));
        Self
    }

    fn take(self) -> u64 {
        FORM.take().unwrap_or(0)
    }
}

impl Drop for Form {
    fn drop(&mut self) {
        FORM.set(None);
    }
}

/// Records launches, and keeps the graphs made of them: a recording of the same kernels only updates its graph.
pub struct Recorder {
    /// Nothing runs on it.
    stream: OwnStream,
    ready: Mutex<Vec<Ready>>,
}

// SAFETY: CUDA's driver allows the use of streams and graphs from any thread, one at a time; the mutex is held meanwhile.
unsafe impl Send for Recorder {}
// SAFETY: as above.
unsafe impl Sync for Recorder {}

/// The most graphs that are kept, one for each form.
const MOST: usize = 64;

/// A graph that was made ready to be launched.
struct Ready {
    form: (usize, u64),
    graph: sys::CUgraphExec,
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: `instantiate` made it, and only this drop destroys it. If it still runs, the driver frees it later.
        relaxed(|| unsafe { sys::cuGraphExecDestroy(self.graph) });
    }
}

/// A recorded graph, and its launches' form.
struct Recorded {
    graph: sys::CUgraph,
    launches: u64,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: the capture made it, and only this drop destroys it.
        relaxed(|| unsafe { sys::cuGraphDestroy(self.graph) });
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
        if !ok(|| unsafe { sys::cuGraphGetNodes(recorded.graph, null_mut(), &mut nodes) }) {
            return Ok(false);
        }
        if nodes == 0 {
            return Ok(true);
        }
        let form = (nodes, recorded.launches);
        let known = ready.iter().position(|ready| ready.form == form && update(ready.graph, &recorded));
        let place = match known {
            Some(place) => place,
            None => {
                let Some(made) = instantiate(form, &recorded) else { return Ok(false) };
                ready.retain(|ready| ready.form != form);
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
        let form = Form::begin();
        let done = record(stream);
        let launches = form.take();
        let mut graph = null_mut();
        // SAFETY: ends the capture that has begun above, and writes one graph.
        let ended = ok(|| unsafe { sys::cuStreamEndCapture(stream.cast(), &mut graph) }) && !graph.is_null();
        let recorded = ended.then(|| Recorded { graph, launches });
        done?;
        Ok(recorded)
    }
}

/// Gives a graph the parameters of another one of the same form. Returns whether that was possible. Earlier launches
/// keep their parameters.
fn update(graph: sys::CUgraphExec, from: &Recorded) -> bool {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: both graphs are live; writes one struct.
    ok(|| unsafe { sys::cuGraphExecUpdate_v2(graph, from.graph, info.as_mut_ptr()) })
}

fn instantiate(form: (usize, u64), from: &Recorded) -> Option<Ready> {
    let mut graph = null_mut();
    // SAFETY: the graph is live; writes one pointer.
    ok(|| unsafe { sys::cuGraphInstantiateWithFlags(&mut graph, from.graph, 0) }).then_some(Ready { form, graph })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_tells_kernels_and_their_order_apart() {
        let of = |launches: &[(u32, &str)]| {
            let form = Form::begin();
            launches.iter().for_each(note);
            form.take()
        };
        let forms = [of(&[]), of(&[(1, "a")]), of(&[(1, "b")]), of(&[(1, "a"), (2, "b")]), of(&[(2, "b"), (1, "a")])];
        assert!((1..forms.len()).all(|first| !forms[first..].contains(&forms[first - 1])), "{forms:?}");
        assert_eq!(of(&[(1, "a"), (2, "b")]), forms[3]);
        note((1, "a"));
        assert_eq!(FORM.get(), None, "nothing is recorded");
    }
}
