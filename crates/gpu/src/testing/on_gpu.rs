//! Setup and timing for tests on a GPU.

use crate::{Device, Elapsed, Entered, OwnStream};
use guest::testing::skip;

/// An entered GPU, with a stream on it.
pub struct Gpu {
    // Dropped before the context of the stream.
    pub stream: OwnStream,
    _entered: Entered,
}

/// Enters the first GPU. `None`, with a skip message, on a machine without one.
pub fn first() -> Option<Gpu> {
    let device = Device::Cuda;
    if device.count() == 0 {
        skip("there is no GPU");
        return None;
    }
    let entered = device.enter(0).expect("a context");
    Some(Gpu { stream: device.stream().expect("a stream"), _entered: entered })
}

/// The median time of nine launches on a stream, in milliseconds.
pub fn median(stream: &OwnStream, mut launch: impl FnMut()) -> f64 {
    let device = Device::Cuda;
    let mut times = [0.0; 9].map(|_: f64| {
        let begin = device.mark(stream.raw()).unwrap();
        launch();
        let end = device.mark(stream.raw()).unwrap();
        device.synchronize(stream.raw());
        let Elapsed::Ready(time) = end.since(&begin) else { panic!("no time") };
        time
    });
    times.sort_by(f64::total_cmp);
    times[4]
}
