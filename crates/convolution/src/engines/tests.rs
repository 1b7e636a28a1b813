//! What the tests of several engines share: tensors of small whole numbers, whose sums are exact. The loops' results for
//! them are compared with a kernel's.

use std::ffi::c_void;
use std::fmt::Debug;

use rand::rngs::SmallRng;

use super::backward_filter::{self, FilterGradient, GradientMemory};
use super::implicit_gemm::{self, Correlation, CorrelationMemory};
use gpu::testing::buffers::{GUARD, between_nans, read, small_whole_numbers, write};
use gpu::{Buffer, Device, Element, Stream};

const ALPHA: f32 = 0.5;
const BETA: f32 = 2.0;

/// A result that was there before, and the expected ones.
struct Results {
    held: Vec<u8>,
    /// The expected result when adding to `held`, and when not.
    added: Vec<u8>,
    written: Vec<u8>,
}

impl Results {
    /// `compute` computes a result by loops, with this beta, in the vector's place.
    fn new(held: Vec<u8>, mut compute: impl FnMut(&mut [u8], f32)) -> Self {
        let mut computed = |beta: f32| {
            let mut result = held.clone();
            compute(&mut result, beta);
            result
        };
        Self { added: computed(BETA), written: computed(0.0), held }
    }

    /// Calls `run` with the result's place and a beta, in poisoned memory of `to`, and compares its results.
    fn check(
        &self,
        to: &Buffer,
        element: Element,
        device: Device,
        stream: Stream,
        what: &str,
        run: impl Fn(*mut u8, f32),
    ) {
        let Self { held, added, written } = self;
        let guard = [0xff; GUARD];
        for (beta, begin, expected) in [(BETA, held, added), (0.0, &vec![0xff; held.len()], written)] {
            write(device, to, &[&guard[..], begin, &guard].concat(), stream);
            run(to.data().cast::<u8>().wrapping_add(GUARD), beta);
            let found = read(device, to, held.len() + 2 * GUARD, stream);
            let inside = &found[GUARD..found.len() - GUARD];
            let wrong = expected.iter().zip(inside).position(|(expected, found)| expected != found);
            assert_eq!(wrong.map(|byte| byte / element.bytes()), None, "{what}, beta {beta}");
            assert!(found.starts_with(&guard) && found.ends_with(&guard), "{what}: written beside it");
        }
    }
}

/// A correlation's tensors.
pub struct CorrelationCase {
    of: Correlation,
    w: Buffer,
    from: Buffer,
    to: Buffer,
    results: Results,
}

impl CorrelationCase {
    pub fn new(of: Correlation, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let [w, from, held] = Self::numbers(&of, random);
        let to = device.allocate(held.len() + 2 * GUARD).unwrap();
        let results = Results::new(held, |to, beta| {
            let (w, from, to) = (w.as_ptr().cast(), from.as_ptr().cast(), to.as_mut_ptr().cast());
            // SAFETY: the vectors are as large as the tensors, and the allocator aligns them for elements.
            unsafe { implicit_gemm::compute(&of, CorrelationMemory { w, from, to }, ALPHA, beta) }
        });
        let [w, from] = [w, from].map(|bytes| between_nans(device, &bytes, stream));
        Self { of, w, from, to, results }
    }

    /// Random numbers for the filter w, for the images that are read, and for the result before the run. A test draws
    /// the numbers of cases that it leaves out, too: so each case has the same numbers in all tests.
    pub fn numbers(of: &Correlation, random: &mut SmallRng) -> [Vec<u8>; 3] {
        let w = of.rows * of.depth * of.filter * of.filter;
        let from = of.images * of.depth * of.from[0] * of.from[1];
        let held = of.images * of.rows * of.to[0] * of.to[1];
        [w, from, held].map(|count| small_whole_numbers(of.element, count, random))
    }

    /// Runs a kernel, which `how` describes, in poisoned memory and compares its result. `run` gets memory as large as
    /// the tensors, alpha and beta, and returns whether the kernel was launched.
    pub fn check(
        &self,
        device: Device,
        stream: Stream,
        how: impl Debug,
        run: impl Fn(CorrelationMemory, f32, f32) -> bool,
    ) {
        self.check_with_workspace(device, stream, 0, how, |memory, _, alpha, beta| run(memory, alpha, beta));
    }

    /// As [`Self::check`], with a poisoned workspace of so many bytes.
    pub fn check_with_workspace(
        &self,
        device: Device,
        stream: Stream,
        workspace_bytes: usize,
        how: impl Debug,
        run: impl Fn(CorrelationMemory, *mut c_void, f32, f32) -> bool,
    ) {
        let workspace = Workspace::new(device, workspace_bytes);
        let [w, from] = [&self.w, &self.from].map(|tensor| tensor.data().wrapping_byte_add(GUARD));
        let what = format!("{:?}, {how:?}", self.of);
        self.results.check(&self.to, self.of.element, device, stream, &what, |to, beta| {
            workspace.poison(device, stream);
            assert!(run(CorrelationMemory { w, from, to: to.cast() }, workspace.memory.data(), ALPHA, beta));
            workspace.check(device, stream, &what);
        });
    }
}

/// A workspace with a guard behind it.
struct Workspace {
    memory: Buffer,
    bytes: usize,
}

impl Workspace {
    fn new(device: Device, bytes: usize) -> Self {
        Self { memory: device.allocate(bytes + GUARD).unwrap(), bytes }
    }

    fn poison(&self, device: Device, stream: Stream) {
        write(device, &self.memory, &vec![0xff; self.bytes + GUARD], stream);
    }

    /// Checks that nothing was written behind it.
    fn check(&self, device: Device, stream: Stream, what: &str) {
        let behind = read(device, &self.memory, self.bytes + GUARD, stream);
        assert!(behind.ends_with(&[0xff; GUARD]), "{what}: written behind the workspace");
    }
}

/// The tensors of a filter's gradient.
pub struct GradientCase {
    of: FilterGradient,
    x: Buffer,
    dy: Buffer,
    dw: Buffer,
    results: Results,
}

impl GradientCase {
    pub fn new(of: FilterGradient, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let [x, dy, held] = Self::numbers(&of, random);
        let dw = device.allocate(held.len() + 2 * GUARD).unwrap();
        let results = Results::new(held, |dw, beta| {
            let (x, dy, dw) = (x.as_ptr().cast(), dy.as_ptr().cast(), dw.as_mut_ptr().cast());
            let memory = GradientMemory { x, dy, dw, workspace: std::ptr::null_mut() };
            // SAFETY: the vectors are as large as the tensors, and the allocator aligns them for elements.
            unsafe { backward_filter::compute(&of, memory, ALPHA, beta) }
        });
        let [x, dy] = [x, dy].map(|bytes| between_nans(device, &bytes, stream));
        Self { of, x, dy, dw, results }
    }

    /// Random numbers for x, for dy, and for the result before the run, as in [`CorrelationCase::numbers`].
    pub fn numbers(of: &FilterGradient, random: &mut SmallRng) -> [Vec<u8>; 3] {
        let x = of.images * of.c * of.x[0] * of.x[1];
        let dy = of.images * of.k * of.dy[0] * of.dy[1];
        let held = of.k * of.c * of.filter[0] * of.filter[1];
        [x, dy, held].map(|count| small_whole_numbers(of.element, count, random))
    }

    /// As [`CorrelationCase::check`], with a poisoned workspace of so many bytes.
    pub fn check(
        &self,
        device: Device,
        stream: Stream,
        workspace_bytes: usize,
        how: impl Debug,
        run: impl Fn(GradientMemory, f32, f32) -> bool,
    ) {
        let workspace = Workspace::new(device, workspace_bytes);
        let [x, dy] = [&self.x, &self.dy].map(|tensor| tensor.data().wrapping_byte_add(GUARD));
        let what = format!("{:?}, {how:?}", self.of);
        self.results.check(&self.dw, self.of.element, device, stream, &what, |dw, beta| {
            workspace.poison(device, stream);
            assert!(run(GradientMemory { x, dy, dw: dw.cast(), workspace: workspace.memory.data() }, ALPHA, beta));
            workspace.check(device, stream, &what);
        });
    }
}
