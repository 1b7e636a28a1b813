//! What tests on a GPU begin with and time.

use super::{Device, Elapsed, Entered, OwnStream};

/// The first GPU, entered, and a stream of it, which goes first; `None`, and said aloud, on a machine without one.
pub fn first() -> Option<(Entered, OwnStream)> {
    let device = Device::Cuda;
    if device.count() == 0 {
        eprintln!("SKIPPED: there is no GPU");
        return None;
    }
    let entered = device.enter(0).expect("a context");
    Some((entered, device.stream().expect("a stream")))
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
