//! Finds out whether an algorithm rounds the floats of a convolution to TF32, by running it.
//!
//! cuDNN does not always say. A legacy algorithm's math type may allow TF32 although its kernel does not round; and
//! engines whose notes name tensor cores have computed convolutions to full precision.
//!
//! The algorithm runs twice in memory of our own: once all numbers are 1, once 1 + 2⁻¹². It runs on all images, or on as
//! many as the memory holds: an engine of cuDNN's that rounded one image of 511 channels did not round 16 of them. Of an
//! image that is larger than that, it runs on a part. TF32 has 10 bits of mantissa, so it rounds the second number to the first. Each element of the result is a sum of products of two
//! such numbers. Both results are equal if both factors are rounded. Otherwise they differ by a factor of 1 + 2⁻¹² or
//! more, in any order of summing; rounding errors of sums and transforms are far below that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::LazyLock;

use cudnn_abi::*;
use parking_lot::Mutex;

use crate::executable::Executable;
use crate::record::Record;
use crate::waiting::{OwnBuffers, write_tiles};
use cudnn::owned::OwnedHandle;
use gpu::{Device, OwnStream};
use guest::settings;
use planner::{Configuration, MicroConfiguration};

/// The most bytes of memory that a run takes, unless `UCUDNN_TUNE_BYTES` names another number.
const MOST_BYTES: usize = 16 << 20;
/// Where a run fails, a run on half of the data follows, at most so many times: some engines are compiled for each size.
const MOST_HALVES: usize = 7;
/// The most bytes of a tensor that are looked at.
const MOST_READ: usize = 1 << 20;
/// The second number.
const NEAR_ONE: f32 = 1.0 + 1.0 / 4096.0;
/// Results that differ by a smaller factor come from rounded numbers.
const LEAST: f64 = 1.0 + 1.0 / 8192.0;
/// A sum of more products in one float may lose what each adds: from 8,192 on, its last bit is worth more than that.
const MOST_PRODUCTS: f32 = 4096.0;
/// Where sums have too many products, most numbers of a tensor are 0: one in so many is not.
const ONE_IN: [usize; 4] = [1, 4, 16, 64];

/// The findings of this process, by the device and the texts of the problem over the images that run and of the algorithm;
/// or why nothing was found.
static FOUND: LazyLock<Mutex<HashMap<Key, Result<bool, String>>>> = LazyLock::new(Mutex::default);

/// The handle and the stream of each device's runs. They stay: making a handle takes longer than most runs, and ending
/// one waits for the device.
static OWN: LazyLock<Mutex<HashMap<i32, Own>>> = LazyLock::new(Mutex::default);

struct Own {
    handle: OwnedHandle,
    stream: OwnStream,
}

// SAFETY: any thread may use a cuDNN handle and a stream, one at a time, and the lock around them sees to that.
unsafe impl Send for Own {}

impl Own {
    fn new(device: Device) -> Result<Self, String> {
        let stream = device.stream().ok_or("the device gives no stream")?;
        let handle = OwnedHandle::new(stream.raw());
        let handle = handle.map_err(|status| format!("cuDNN gives no handle: status {status}"))?;
        Ok(Self { handle, stream })
    }
}

type Key = (i32, String, String);

fn key<K: Executable>(sample: &K, algorithm: &K::Algorithm) -> Key {
    (cudnn::device().ordinal(), sample.spec(), sample.algorithm_text(algorithm))
}

/// The most bytes of memory that a run takes.
fn most_bytes() -> usize {
    settings::get().tune_bytes.unwrap_or(MOST_BYTES)
}

/// Cuts a problem to the data that fits in the memory of a run, if it can be cut so far.
fn sample<K: Executable>(problem: &K) -> K {
    let mut sample = problem.clone();
    while OwnBuffers::data_bytes(&sample) > most_bytes() {
        let Some(less) = less_of(&sample) else { break };
        sample = less;
    }
    sample
}

/// About half of a problem: of its images, or of the only one.
fn less_of<K: Executable>(problem: &K) -> Option<K> {
    if problem.batch() > 1 { Some(problem.with_batch(problem.batch() / 2)) } else { problem.halved() }
}

/// Returns whether an algorithm rounds the floats of a problem, if that was found before: in this process, or in one that
/// shares the database.
pub fn known<K: Executable>(problem: &K, algorithm: &K::Algorithm) -> Option<bool> {
    known_of_sample(&sample(problem), algorithm)?.ok()
}

/// Likewise, or why that cannot be found out, if this process has tried.
fn known_of_sample<K: Executable>(sample: &K, algorithm: &K::Algorithm) -> Option<Result<bool, String>> {
    let key = key(sample, algorithm);
    if let Some(found) = FOUND.lock().get(&key) {
        return Some(found.clone());
    }
    let device = cudnn::device();
    let found = Record::of(sample, device, device.ordinal()).rounds(algorithm)?;
    FOUND.lock().insert(key, Ok(found));
    Some(Ok(found))
}

/// Finds out whether an algorithm rounds the floats of a problem to TF32, and remembers it. Runs on a handle, a stream
/// and buffers of its own, and waits for them. `workspace` gives the bytes of workspace that the algorithm needs for
/// fewer images. `Err` says why the answer cannot be found.
pub fn rounds<K: Executable>(
    problem: &K,
    algorithm: &K::Algorithm,
    workspace: impl Fn(&K, cudnnHandle_t) -> Option<usize>,
) -> Result<bool, String> {
    let sample = sample(problem);
    if let Some(known) = known_of_sample(&sample, algorithm) {
        return known;
    }
    if sample.tensors().iter().any(|(_, data_type)| *data_type != CUDNN_DATA_FLOAT) {
        return Err("not all of its data are floats".into());
    }
    let mut found = run(&sample, algorithm, &workspace);
    // With its workspace, less may fit.
    for part in std::iter::successors(less_of(&sample), less_of).take(MOST_HALVES) {
        if found.is_ok() {
            break;
        }
        found = run(&part, algorithm, &workspace);
    }
    FOUND.lock().insert(key(&sample, algorithm), found.clone());
    let found = found?;
    let device = cudnn::device();
    Record::of(&sample, device, device.ordinal()).found_rounding(algorithm, found);
    let does = if found { "rounds" } else { "does not round" };
    log::debug!("{problem}: {algorithm} {does} floats to TF32");
    Ok(found)
}

fn run<K: Executable>(
    sample: &K,
    algorithm: &K::Algorithm,
    workspace: impl Fn(&K, cudnnHandle_t) -> Option<usize>,
) -> Result<bool, String> {
    let device = cudnn::device();
    // One run at a time: the handle is in no other use.
    let mut own = OWN.lock();
    let Own { handle, stream } = match own.entry(device.ordinal()) {
        Entry::Occupied(own) => own.into_mut(),
        Entry::Vacant(place) => place.insert(Own::new(device)?),
    };
    let images = format!("{} images", sample.batch());
    let workspace = workspace(sample, handle.raw()).ok_or_else(|| format!("it does not run on {images}"))?;
    let buffers = OwnBuffers::allocate(device, stream.raw(), sample, workspace, most_bytes())?;
    let bench = buffers.bench(device, handle.raw(), stream.raw(), sample);
    let micro = MicroConfiguration { batch: sample.batch(), algorithm: *algorithm, time: 0.0, workspace };
    // SAFETY: the handle is our own, live, and in no other use.
    let plan = unsafe { sample.plan(handle.raw(), Configuration::undivided(micro)) };
    let plan = plan.map_err(|status| format!("it does not run on {images}: status {status}"))?;
    let results = |number: f32, one_in: usize| {
        let mut all = Vec::new();
        for (place, buffer) in buffers.tensors().iter().enumerate() {
            if !write_tiles(device, stream.raw(), buffer, &tile(number, one_in, place)) {
                return Err("its memory cannot be written".to_owned());
            }
        }
        // SAFETY: the plan was made for this handle, and the bench holds the data of the plan's problem.
        unsafe { K::run(&plan, bench.handle, &bench.operands, bench.workspace) }
            .map_err(|status| format!("it does not run on {images}: status {status}"))?;
        for buffer in buffers.tensors() {
            let (before, bytes) = (all.len(), buffer.bytes().min(MOST_READ));
            // The program goes on where there is no memory.
            all.try_reserve_exact(bytes).map_err(|_| "there is no memory to read it".to_owned())?;
            all.resize(before + bytes, 0_u8);
            // SAFETY: the buffer holds as many bytes or more.
            if !unsafe { device.read(&mut all[before..], buffer.data(), stream.raw()) } {
                return Err("its memory cannot be read".to_owned());
            }
        }
        Ok(all)
    };
    for one_in in ONE_IN {
        let (ones, near) = (results(1.0, one_in)?, results(NEAR_ONE, one_in)?);
        if let Some(found) = are_rounded(floats(&ones).zip(floats(&near))) {
            return Ok(found);
        }
    }
    Err("its result has no products, or too many for a sum".to_owned())
}

/// The numbers that repeat in a tensor: one in `one_in` is `number`, and the others are 0. Each tensor has another tile.
fn tile(number: f32, one_in: usize, tensor: usize) -> Vec<u8> {
    let mut state = tensor + 0x9E37_79B9_7F4A_7C15;
    let mut is_number = || {
        // xorshift64 of Marsaglia, "Xorshift RNGs", 2003
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20).is_multiple_of(one_in)
    };
    (0..1 << 12).flat_map(|_| if is_number() { number } else { 0.0 }.to_ne_bytes()).collect()
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes))
}

/// Returns whether most elements of the results are sums of rounded products. Elements that are no sums keep the number
/// that was written, or are 0. `None` if there are no sums of few enough products.
fn are_rounded(results: impl Iterator<Item = (f32, f32)>) -> Option<bool> {
    let is_sum = |(ones, near): &(f32, f32)| *ones > 0.5 && *ones < MOST_PRODUCTS && (*ones, *near) != (1.0, NEAR_ONE);
    let (mut rounded, mut kept) = (0_usize, 0_usize);
    for (ones, near) in results.filter(is_sum) {
        let is_rounded = f64::from(near) < LEAST * f64::from(ones);
        *(if is_rounded { &mut rounded } else { &mut kept }) += 1;
    }
    (rounded + kept > 0).then_some(rounded > kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TF32 keeps the 10 highest bits of the mantissa.
    fn tf32(value: f32) -> f32 {
        f32::from_bits((value.to_bits() + 0x0fff + (value.to_bits() >> 13 & 1)) & !0x1fff)
    }

    #[test]
    fn sums_of_rounded_products_are_recognised() {
        assert_eq!([tf32(NEAR_ONE), tf32(1.0)], [1.0; 2]);
        let sum = |round: fn(f32) -> f32, number: f32, count: usize| {
            (0..count).map(|_| round(number) * round(number)).sum::<f32>()
        };
        let of = |round: fn(f32) -> f32, count: usize| (sum(round, 1.0, count), sum(round, NEAR_ONE, count));
        let results = |round: fn(f32) -> f32| [1, 9, 27, 4095].map(|count| of(round, count));
        // Inputs, gaps in the result, and elements without a product.
        let others = [(1.0, NEAR_ONE), (1.0, NEAR_ONE), (0.0, 0.0), (-1e-7, -2e-7)];
        assert_eq!(are_rounded(results(tf32).into_iter().chain(others)), Some(true));
        assert_eq!(are_rounded(results(|number| number).into_iter().chain(others)), Some(false));
        assert_eq!(are_rounded(others.into_iter()), None);
        // Such sums lose what is to be seen.
        let long = of(|number| number, 100_000);
        assert!(f64::from(long.1) < LEAST * f64::from(long.0));
        assert_eq!(are_rounded([long].into_iter()), None);
    }

    /// Numbers of two tensors meet as often as chance has it, so that each sum of many products gets fewer.
    #[test]
    fn tiles_are_as_sparse_as_asked() {
        for one_in in ONE_IN {
            let tiles = [0, 1, 2].map(|tensor| tile(NEAR_ONE, one_in, tensor));
            let numbers = tiles.each_ref().map(|tile| floats(tile).collect::<Vec<_>>());
            let near = |count: usize, wanted: usize| count * 2 > wanted && count < wanted * 2;
            for tile in &numbers {
                let count = tile.iter().filter(|number| **number == NEAR_ONE).count();
                assert!(near(count, tile.len() / one_in), "{count} of one in {one_in}");
            }
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                let both = numbers[one].iter().zip(&numbers[other]).filter(|(one, other)| *one * *other > 0.0).count();
                let wanted = numbers[one].len() / one_in / one_in;
                assert!(near(both, wanted) || wanted < 8, "{both} of one in {one_in}");
            }
        }
    }
}
