//! Ahead-of-time tuning on the library's own handles and buffers, on hostdnn with three devices.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use convolution::problem::{Algorithm, Problem};
use planner::{BatchSizePolicy, desirable_set};
use tuning::ahead::{self, Budget, Goal, Job, Search};
use tuning::database::Database;

use crate::child;
use crate::hostdnn::hostdnn;
use crate::programs::Folder;

const LIMIT: usize = 4 << 20;

/// Returns whether this is the named test's own process, which has hostdnn with three devices, and a new database.
fn is_child(test: &str) -> bool {
    let folder = Folder::new(&format!("ahead-{test}"));
    let (hostdnn, database) = (hostdnn(), folder.join("database"));
    let variables = [
        ("UCUDNN_CUDNN_LIBRARY", hostdnn.as_os_str()),
        ("UCUDNN_DATABASE", database.as_os_str()),
        ("HOSTDNN_DEVICES", "3".as_ref()),
        ("HOSTDNN_DEVICE_NAMES", "a,a,b".as_ref()),
        ("UCUDNN_BENCHMARK_DEVICES", "all".as_ref()),
    ];
    child::is_child(&format!("ahead::{test}"), &variables)
}

/// A convolution problem of `channels` channels.
fn kernel(channels: usize) -> Problem {
    let image = 14 * 14;
    let tensor = format!("float:16x{channels}x14x14@{}x{image}x14x1", channels * image);
    let spec = format!(
        "F x={tensor} w=float:nchw:{channels}x{channels}x3x3 y={tensor} pad=1x1 stride=1x1 dilation=1x1 \
         mode=correlation compute=float math=default groups=1"
    );
    Problem::from_spec(&spec).unwrap()
}

/// The parts of the usual job that a test changes.
struct Tuned<'a> {
    goal: Goal,
    bytes: usize,
    devices: &'a [i32],
    stop: bool,
}

impl Default for Tuned<'_> {
    fn default() -> Self {
        Self { goal: Goal::DesirableSet { limit: LIMIT }, bytes: 1 << 30, devices: &[0], stop: false }
    }
}

impl Tuned<'_> {
    fn tune(self, kernel: &Problem) -> Result<Search<Algorithm>, String> {
        let told = AtomicUsize::new(0);
        let job = Job {
            problem: kernel,
            class: None,
            sizes: BatchSizePolicy::PowerOfTwo,
            goal: self.goal,
            budget: Budget::of_time(Duration::from_secs(60)),
            bytes: self.bytes,
            devices: self.devices,
            stop: &AtomicBool::new(self.stop),
            progress: &|progress| {
                assert!(progress.timed > 0);
                told.fetch_add(1, Ordering::Relaxed);
            },
        };
        let search = ahead::tune(&job);
        if let Ok(search) = &search {
            assert_eq!(told.into_inner(), search.found().len(), "each is told of");
        }
        search
    }
}

#[test]
fn the_desirable_set_is_found_and_kept() {
    if !is_child("the_desirable_set_is_found_and_kept") {
        return;
    }
    let kernel = kernel(8);
    let search = Tuned::default().tune(&kernel).unwrap();
    let set = search.desirable_set();
    assert!(!search.found().is_empty() && !set.is_empty());
    for (configuration, time) in &set {
        assert_eq!(configuration.batch(), 16);
        assert!(configuration.workspace() <= LIMIT && *time > 0.0);
    }
    assert!(set.is_sorted_by(|a, b| a.0.workspace() < b.0.workspace() && a.1 > b.1), "{set:?}");
    // The set contains the configuration with the least workspace, whatever else it holds.
    let front = desirable_set(16, search.measured());
    assert_eq!(set[0].0.workspace(), front[0].workspace());

    let again = Tuned::default().tune(&kernel).unwrap();
    assert_eq!(again.found().len(), 0, "what is known was measured again");
    assert_eq!(again.desirable_set(), set);
    // Another goal measures only the configurations that it adds, and only once.
    let fastest = || Tuned { goal: Goal::Fastest { limit: LIMIT }, ..Tuned::default() }.tune(&kernel).unwrap();
    let found = fastest().found().to_vec();
    assert!(
        found.iter().all(|new| {
            search.measured().iter().all(|old| (old.batch, old.algorithm) != (new.batch, new.algorithm))
        })
    );
    let best = fastest();
    assert_eq!(best.found().len(), 0);
    assert!(best.best().is_some());
}

#[test]
fn a_search_that_was_stopped_goes_on() {
    if !is_child("a_search_that_was_stopped_goes_on") {
        return;
    }
    let kernel = kernel(5);
    let stopped = Tuned { stop: true, ..Tuned::default() }.tune(&kernel);
    assert!(stopped.is_err() || stopped.is_ok_and(|search| search.found().is_empty()));
    assert!(!Tuned::default().tune(&kernel).unwrap().found().is_empty());
}

#[test]
fn memory_bounds_what_is_measured() {
    if !is_child("memory_bounds_what_is_measured") {
        return;
    }
    let kernel = kernel(7);
    let of = |images: usize| 4 * (2 * images * 7 * 14 * 14 + 7 * 7 * 9);
    let data = of(16);
    // Not even one image fits.
    let (few, whole) = (of(1).to_string(), data.to_string());
    let refused = Tuned { bytes: of(1), ..Tuned::default() }.tune(&kernel).err().unwrap();
    assert!(refused.contains(&few) && refused.contains(&whole), "{refused}");
    // Four images fit beside an equal amount of workspace: their times give configurations of the whole mini-batch.
    let part = || Tuned { bytes: 2 * of(4), ..Tuned::default() }.tune(&kernel).unwrap();
    let search = part();
    assert!(search.found().iter().all(|micro| micro.batch <= 4) && search.trials().next().is_none());
    assert!(search.desirable_set().iter().all(|(configuration, _)| configuration.batch() == 16));
    assert!(!search.desirable_set().is_empty() && part().found().is_empty());
    let search = Tuned { bytes: data + 1000, ..Tuned::default() }.tune(&kernel).unwrap();
    assert!(search.measured().iter().all(|micro| micro.workspace <= 1000));
    assert!(!search.desirable_set().is_empty());
}

#[test]
fn devices_are_entered_and_left() {
    if !is_child("devices_are_entered_and_left") {
        return;
    }
    let _ = cudnn::library::path(); // loads hostdnn
    // SAFETY: the library is loaded already, so opening it runs no constructor.
    let hostdnn = unsafe { libloading::Library::new(std::env::var_os("UCUDNN_CUDNN_LIBRARY").unwrap()) }.unwrap();
    // SAFETY: hostdnn's header declares both functions with these types.
    let (get, set) = unsafe {
        let get = hostdnn.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"hostdnnGetDevice").unwrap();
        (get, hostdnn.get::<extern "C" fn(c_int) -> c_int>(b"hostdnnSetDevice").unwrap())
    };
    let current = || {
        let mut device = -1;
        // SAFETY: `get` writes one `c_int` to its argument, and `device` is a valid one.
        assert_eq!(unsafe { get(&mut device) }, 0);
        device
    };
    assert_eq!(set(1), 0);
    assert_eq!(ahead::devices(), [1, 0], "the current one, and the one that is like it");
    Tuned { devices: &[2], ..Tuned::default() }.tune(&kernel(3)).unwrap();
    assert_eq!(current(), 1);
    assert_eq!(
        std::thread::spawn(|| Tuned { devices: &[2], ..Tuned::default() }.tune(&kernel(2)).is_ok()).join().ok(),
        Some(true)
    );
    let absent = Tuned { devices: &[3], ..Tuned::default() }.tune(&kernel(3)).err().unwrap();
    assert_eq!((absent.as_str(), current()), ("device 3 is not there", 1));
    assert_eq!(set(2), 0);
    assert_eq!(ahead::devices(), [2], "none is like it");
    assert_eq!(set(0), 0);
    assert_eq!(set(3), 2000, "CUDNN_STATUS_BAD_PARAM");
}

#[test]
fn results_of_other_devices_are_not_known() {
    if !is_child("results_of_other_devices_are_not_known") {
        return;
    }
    let kernel = kernel(6);
    let [first, alike, unlike] = [0, 1, 2].map(|device| Tuned { devices: &[device], ..Tuned::default() }.tune(&kernel));
    assert!(!first.unwrap().found().is_empty());
    assert!(alike.unwrap().found().is_empty());
    assert!(!unlike.unwrap().found().is_empty());
    assert!(Database::of_process().is_some());
}
