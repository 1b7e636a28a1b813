//! What tests on a GPU begin with and time.

use crate::{Device, Elapsed, Entered, OwnStream};
use guest::testing::skip;

/// A GPU that was entered, and a stream of it.
pub struct Gpu {
    // Goes before the context that it is of.
    pub stream: OwnStream,
    _entered: Entered,
}

/// The first GPU; `None`, and said aloud, on a machine without one.
pub fn first() -> Option<Gpu> {
    let device = Device::Cuda;
    if device.count() == 0 {
        skip("there is no GPU");
        return None;
    }
    let entered = device.enter(0).expect("a context");
    Some(Gpu { stream: device.stream().expect("a stream"), _entered: entered })
}

/// The median of what nine launches take on a stream, in milliseconds.
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
