//! The choice of an algorithm: ranked by operation counts (`cudnnGetConvolution*Algorithm_v7`) or by the clock
//! (`cudnnFindConvolution*Algorithm[Ex]`).

use crate::buffer::Buffer;
use crate::clock;
use crate::convolution::{self, Algorithm, Direction, Error as RunError, Problem};
use crate::error::{Error, Result};
use crate::fault;
use crate::kernel::element_size;
use cudnn_abi::*;
use std::sync::LazyLock;
use std::time::Duration;

/// One entry of a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// cuDNN's id.
    pub algo: i32,
    /// CUDNN_STATUS_SUCCESS if it can run, or the reason.
    pub status: cudnnStatus_t,
    /// Milliseconds; -1 if not measured.
    pub time: f32,
    /// Bytes of workspace; 0 if the problem is not supported.
    pub memory: usize,
    /// Whether equal calls give equal bits.
    pub deterministic: bool,
}

/// Pointers to `x`, `w` and `y`.
#[derive(Clone, Copy, Debug)]
pub struct Tensors {
    /// The input, or its gradient.
    pub x: *mut u8,
    /// The filter, or its gradient.
    pub w: *mut u8,
    /// The output, or its gradient.
    pub y: *mut u8,
}

/// Every algorithm that cuDNN names in the problem's direction, the supported ones first.
fn candidates(problem: &Problem) -> Vec<(Algorithm, Candidate)> {
    let all = Algorithm::all(problem.direction).iter().enumerate();
    all.map(|(id, &algorithm)| {
        let need = convolution::workspace_size(problem, algorithm);
        let candidate = Candidate {
            algo: id as i32,
            status: if need.is_ok() { CUDNN_STATUS_SUCCESS } else { CUDNN_STATUS_NOT_SUPPORTED },
            time: -1.0,
            memory: need.unwrap_or(0),
            deterministic: algorithm.deterministic(),
        };
        (algorithm, candidate)
    })
    .collect()
}

/// All algorithms by [`cost`], unsupported ones last. Times are not measured.
pub fn rank(problem: &Problem) -> Vec<Candidate> {
    let mut all = candidates(problem);
    let key = |&(algorithm, candidate): &(Algorithm, Candidate)| match candidate.status {
        CUDNN_STATUS_SUCCESS => cost(problem, algorithm, candidate.memory),
        _ => f64::INFINITY,
    };
    all.sort_by(|a, b| key(a).total_cmp(&key(b)));
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The supported ones among `algorithms`, by [`cost`].
pub fn order(problem: &Problem, algorithms: impl IntoIterator<Item = Algorithm>) -> Vec<Algorithm> {
    let priced = algorithms.into_iter().filter_map(|algorithm| {
        let workspace = convolution::workspace_size(problem, algorithm).ok()?;
        Some((cost(problem, algorithm, workspace), algorithm))
    });
    let mut all: Vec<_> = priced.collect();
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    all.into_iter().map(|(_, algorithm)| algorithm).collect()
}

/// A device has run an algorithm: its clock counts a launch and what [`cost`] says.
pub fn ran(problem: &Problem, algorithm: Algorithm) {
    ran_in(problem, algorithm, 1.0);
}

/// The same, where the device takes a share of that.
pub fn ran_in(problem: &Problem, algorithm: Algorithm, share: f64) {
    const LAUNCH: f64 = 1e5; // some microseconds of a fast device
    let of_work = || cost(problem, algorithm, convolution::workspace_size(problem, algorithm).unwrap_or(0));
    clock::count(|| LAUNCH + share * slowness(problem, algorithm) * of_work());
}

/// `HOSTDNN_SLOW=FACTOR` makes each algorithm but the one that is ranked first for eight images take so many times as long
/// as its rank promises, on a clock that counts work: cuDNN offers such, too.
fn slowness(problem: &Problem, algorithm: Algorithm) -> f64 {
    static FACTOR: LazyLock<f64> = LazyLock::new(|| {
        let text = std::env::var("HOSTDNN_SLOW").unwrap_or_default();
        let factor = text.trim().parse().ok().filter(|factor| (1.0..=1e6).contains(factor));
        if factor.is_none() && !text.is_empty() {
            eprintln!("hostdnn: HOSTDNN_SLOW={text:?} is not understood: it takes 1 to 1e6; nothing is slow");
        }
        factor.unwrap_or(1.0)
    });
    let is_first = || {
        let eight = Problem { batch: 8, ..*problem };
        let first = rank(&eight).first().map(|best| Algorithm::all(problem.direction)[best.algo as usize]);
        first == Some(algorithm)
    };
    if *FACTOR > 1.0 && !is_first() { *FACTOR } else { 1.0 }
}

/// Times every algorithm on `tensors`, whose output is overwritten; fastest first, then those without a time.
///
/// An algorithm that needs more than `workspace` holds is listed with CUDNN_STATUS_ALLOC_FAILED. Without a `workspace`,
/// each gets its own buffer. `function` is the caller's name, for faults.
///
/// # Safety
/// As for [`convolution::run`]; `workspace` is valid for reads and writes of its length.
pub unsafe fn time_all(
    function: &str,
    problem: &Problem,
    tensors: Tensors,
    workspace: Option<(*mut u8, usize)>,
) -> Vec<Candidate> {
    let mut all = candidates(problem);
    for (algorithm, candidate) in &mut all {
        if candidate.status == CUDNN_STATUS_SUCCESS {
            // SAFETY: the caller's promise.
            match unsafe { time(function, problem, *algorithm, candidate, tensors, workspace) } {
                Ok(time) => candidate.time = time.as_secs_f32() * 1e3,
                Err(error) => candidate.status = error.status,
            }
        }
    }
    all.sort_by(|(_, a), (_, b)| {
        let key = |c: &Candidate| (c.status == CUDNN_STATUS_NOT_SUPPORTED, c.time < 0.0);
        key(a).cmp(&key(b)).then(a.time.total_cmp(&b.time))
    });
    all.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The best of a few runs, or a single run if that took long.
///
/// # Safety
/// As for [`time_all`].
unsafe fn time(
    function: &str,
    problem: &Problem,
    algorithm: Algorithm,
    candidate: &Candidate,
    tensors: Tensors,
    workspace: Option<(*mut u8, usize)>,
) -> Result<Duration> {
    const LONG: Duration = Duration::from_millis(20);
    const RUNS: usize = 3;
    fault::check(function, Some(fault::Run { algo: candidate.algo, batch: problem.batch }))?;
    let own;
    let (buffer, size) = match workspace {
        Some(given) => given,
        None => {
            own = Buffer::new(candidate.memory)?;
            (own.pointer, candidate.memory)
        }
    };
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = clock::now();
        let Tensors { x, w, y } = tensors;
        // SAFETY: the caller's promise; `buffer` holds `size` bytes.
        unsafe { convolution::run(problem, algorithm, 1.0, 0.0, x, w, y, buffer, size) }.map_err(|error| {
            // cuDNN's FindEx reports a workspace that is too small as a failed allocation.
            let status = match error {
                RunError::Unsupported => CUDNN_STATUS_NOT_SUPPORTED,
                RunError::Workspace { .. } => CUDNN_STATUS_ALLOC_FAILED,
            };
            Error::new(status, error.to_string())
        })?;
        ran(problem, algorithm);
        best = best.min(clock::now() - start);
        if best > LONG {
            break;
        }
    }
    Ok(best)
}

/// Times every algorithm on newly allocated tensors.
pub fn time_all_on_own_tensors(function: &str, problem: &Problem) -> Result<Vec<Candidate>> {
    let [x, w, y] = footprints(problem).map(|bytes| Buffer::filled(problem.element, bytes));
    let (x, w, y) = (x?, w?, y?);
    let tensors = Tensors { x: x.pointer, w: w.pointer, y: y.pointer };
    // SAFETY: the buffers span their tensors, do not overlap, and nobody else uses them.
    Ok(unsafe { time_all(function, problem, tensors, None) })
}

/// Bytes that `x`, `w` and `y` span.
pub fn footprints(problem: &Problem) -> [usize; 3] {
    let span = |outer: [usize; 2], extents: [usize; 3], strides: [usize; 5]| {
        let dims = [outer[0], outer[1], extents[0], extents[1], extents[2]];
        let last: usize = dims.iter().zip(strides).map(|(&dim, stride)| (dim - 1) * stride).sum();
        (last + 1) * element_size(problem.element)
    };
    let (n, c, k) = (problem.batch, problem.in_channels, problem.out_channels);
    [
        span([n, c], problem.input, problem.x_strides),
        span([k, c / problem.groups], problem.filter, problem.w_strides),
        span([n, k], problem.output, problem.y_strides),
    ]
}

/// An estimate in units of one multiply-add of an efficient GEMM. Counts an algorithm's multiplications and the bytes
/// of workspace that it writes and reads; needs no measurement.
fn cost(problem: &Problem, algorithm: Algorithm, workspace: usize) -> f64 {
    // The cost of writing a byte to the workspace and reading it back.
    const BYTE: f64 = 4.0;
    let product = |values: [usize; 3]| values.iter().product::<usize>() as f64;
    let (images, k) = (problem.batch as f64, problem.out_channels as f64);
    let c = problem.in_channels as f64;
    let pairs = k * c / problem.groups as f64;
    let direct = images * pairs * product(problem.output) * product(problem.filter);
    // Real transforms of n points take 2.5·n·log2(n) operations, and their products 2 multiplications a point; both run
    // at less than a GEMM's rate, which the factors here hold.
    let transformed = |points: f64, tiles: f64| {
        let transforms = images * tiles * (c + k) + pairs;
        4.0 * points * points.log2() * transforms + 3.0 * points * images * tiles * pairs
    };
    let padded: f64 =
        (0..3).map(|i| ((problem.input[i] + 2 * problem.pad[i]) as f64).max(1.0)).product::<f64>().max(2.0);
    let multiplications = match algorithm {
        Algorithm::Gemm => direct,
        Algorithm::ImplicitPrecompGemm | Algorithm::Algo3 => 1.1 * direct,
        // Gathers each phase of the strides separately, in products that shrink as their number grows.
        Algorithm::Algo0 if problem.direction == Direction::BackwardData => {
            1.35 * direct * product(problem.stride).powf(0.35)
        }
        Algorithm::ImplicitGemm | Algorithm::Algo0 | Algorithm::Algo1 => 1.15 * direct,
        Algorithm::Direct => f64::INFINITY,
        Algorithm::Winograd => direct / 2.25 * 1.6,
        Algorithm::WinogradNonfused if product(problem.filter) > 9.0 => direct / 2.78 * 1.4,
        Algorithm::WinogradNonfused => direct / 4.0 * 1.4,
        Algorithm::Fft => transformed(padded, 1.0),
        Algorithm::FftTiling | Algorithm::FftTiling16 | Algorithm::FftTiling64 => {
            let tile = algorithm.fft_tile().unwrap_or(1) as f64;
            let inside = |i: usize| (tile + 1.0 - problem.filter[i] as f64).max(1.0);
            let tiles = (1..3).map(|i| (problem.output[i] as f64 / inside(i)).ceil()).product();
            transformed(tile * tile, tiles)
        }
    };
    multiplications + BYTE * workspace as f64
}

/// The number of algorithms that cuDNN names in a direction.
pub fn count(direction: Direction) -> i32 {
    Algorithm::all(direction).len() as i32
}
