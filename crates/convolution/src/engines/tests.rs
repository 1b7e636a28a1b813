//! Shared by the tests of all engines: tensors of small whole numbers, whose sums are exact. The loops' results for
//! them are compared with an engine's.

mod contributing;

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::engine::{Compiled, Engine, Plan, Priority, compile, compile_source, source};
use super::problem::{Computed, Convolution, Memory};
use cudnn::convolution::Direction;
use gpu::testing::buffers::{GUARD, between_nans, bytes_of, errors, filled, read, small_whole_numbers, write};
use gpu::testing::on_gpu::{self, Gpu};
use gpu::testing::{emulated, resources};
use gpu::{Buffer, Device, Element, OwnStream, Stream};

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

/// The tensors of a problem: two that are read, and one that is written.
pub trait Tensors: Computed {
    fn element(&self) -> Element {
        self.convolution().element
    }

    /// The elements of each tensor.
    fn elements(&self) -> [usize; 3] {
        let Convolution { direction, images, inputs, outputs, groups, x, y, filter, .. } = self.convolution();
        let sizes = [([images, inputs], x), ([inputs / groups, outputs], filter), ([images, outputs], y)];
        let [x, w, y] = sizes.map(|(counts, sizes)| counts.into_iter().chain(sizes).product());
        match direction {
            Direction::Forward => [w, x, y],
            Direction::BackwardData => [w, y, x],
            Direction::BackwardFilter => [x, y, w],
        }
    }

    fn memory(&self, [one, other, to]: [*mut c_void; 3], workspace: *mut c_void, bias: *const c_void) -> Memory {
        let (x, w, y) = match self.convolution().direction {
            Direction::Forward => (other, one, to),
            Direction::BackwardData => (to, one, other),
            Direction::BackwardFilter => (one, to, other),
        };
        Memory { x, w, y, workspace, bias }
    }
}

impl<P: Computed> Tensors for P {}

/// A problem with its tensors and its results.
pub struct Case<P> {
    of: P,
    inputs: [Buffer; 2],
    /// Where its engines take one.
    bias: Option<Buffer>,
    to: Buffer,
    results: Results,
}

impl<P: Tensors> Case<P> {
    pub fn new(of: P, device: Device, stream: Stream, random: &mut SmallRng) -> Self {
        let [mut one, mut other, held] = Self::numbers(&of, random);
        let to = device.allocate(held.len() + 2 * GUARD).unwrap();
        let Convolution { direction, outputs, .. } = of.convolution();
        // Numbers of its own, so that the others are those of cases without one.
        let bias = (P::TAKES_BIAS && direction == Direction::Forward)
            .then(|| small_whole_numbers(of.element(), outputs, &mut SmallRng::seed_from_u64(outputs as u64)));
        let results = Results::new(held, |to, beta| {
            let tensors = [&mut one[..], &mut other, to].map(|tensor| tensor.as_mut_ptr().cast());
            let bias = bias.as_ref().map_or(std::ptr::null(), |bias| bias.as_ptr().cast());
            // SAFETY: the vectors are as large as the tensors, and the allocator aligns them for elements.
            unsafe { of.convolution().compute(of.memory(tensors, std::ptr::null_mut(), bias), ALPHA, beta) }
        });
        let inputs = [one, other].map(|bytes| between_nans(device, &bytes, stream));
        let bias = bias.map(|bytes| between_nans(device, &bytes, stream));
        Self { of, inputs, bias, to, results }
    }

    /// Random numbers for the tensors, the last of which is the result before the run. A test draws the numbers of
    /// cases that it leaves out, too: so each case has the same numbers in all tests.
    pub fn numbers(of: &P, random: &mut SmallRng) -> [Vec<u8>; 3] {
        of.elements().map(|count| small_whole_numbers(of.element(), count, random))
    }

    /// Runs an engine in poisoned memory and compares its result.
    pub fn check<E: Engine<Problem = P>>(&self, kernel: &Compiled<E>, device: Device, stream: Stream) {
        self.check_plan(kernel, &format!("{:?}", kernel.engine), device, stream);
    }

    /// Likewise of a plan, by these words for it.
    pub fn check_plan(&self, kernel: &dyn Plan, what: &str, device: Device, stream: Stream) {
        let workspace = Workspace::new(device, kernel.workspace());
        let [one, other] = self.inputs.each_ref().map(|tensor| tensor.data().wrapping_byte_add(GUARD));
        self.results.check(&self.to, self.of.element(), device, stream, what, |to, beta| {
            workspace.poison(device, stream);
            let bias = self.bias.as_ref().map_or(std::ptr::null_mut(), |bias| bias.data().wrapping_byte_add(GUARD));
            let memory = self.of.memory([one, other, to.cast()], workspace.memory.data(), bias);
            // SAFETY: the buffers are as large as the tensors and the workspace, with guards around them.
            assert!(unsafe { kernel.run(stream, memory, ALPHA, beta) });
            workspace.check(device, stream, what);
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

/// The engine as the emulator runs it. `None` on a machine without a compiler.
pub fn emulated<E: Engine>(engine: E) -> Option<Compiled<E>> {
    let kernels = emulated::compiled(compile(Device::Host, &engine))?;
    Some(Compiled { engine, kernels: Arc::new(Some(kernels)) })
}

/// A change of a kernel's text that some case must show; `Races` only under an adversarial schedule.
pub enum Mutation {
    Errs(&'static str, &'static str),
    Races(&'static str, &'static str),
}

/// On the CPU, each mutation of the engines' source makes at least one of them disagree with loops.
pub fn mutants_disagree<E: Engine<Problem: Tensors>>(test: &str, engines: &[E], mutations: &[Mutation]) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let is_adversarial = std::env::var_os("HOSTDNN_SCHEDULE_SEED").is_some();
    for mutation in mutations {
        let (from, to) = match mutation {
            Mutation::Errs(from, to) => (from, to),
            Mutation::Races(from, to) if is_adversarial => (from, to),
            Mutation::Races(..) => continue,
        };
        let mut is_seen = false;
        for engine in engines {
            let mut mutant = source(engine);
            assert_eq!(mutant.text.matches(from).count(), 1, "{from}");
            mutant.text = mutant.text.replace(from, to).into();
            let Some(kernels) = emulated::compiled(compile_source::<E>(device, &mutant)) else { return };
            let kernel = Compiled { engine: *engine, kernels: Arc::new(Some(kernels)) };
            let case = Case::new(*engine.problem(), device, stream, &mut SmallRng::seed_from_u64(31));
            let checked = std::panic::AssertUnwindSafe(|| case.check(&kernel, device, stream));
            is_seen |= std::panic::catch_unwind(checked).is_err();
        }
        assert!(is_seen, "no case shows that this is missing: {from}");
    }
}

/// On the CPU, under the emulator and adversarial schedules, engines agree with loops, in those cases that `has`
/// chooses by their number. Runs in child processes whose cuDNN is hostdnn.
pub fn emulated_as_in_loops<E: Engine<Problem: Tensors>>(
    test: &str,
    seed: u64,
    engines: impl Iterator<Item = E>,
    has: impl Fn(usize, &E) -> bool,
) {
    if !emulated::is_child(test) {
        return;
    }
    let (device, stream) = (Device::Host, std::ptr::null_mut());
    let mut random = SmallRng::seed_from_u64(seed);
    for (index, engine) in engines.enumerate() {
        if !has(index, &engine) {
            Case::numbers(engine.problem(), &mut random);
            continue;
        }
        let Some(kernel) = emulated(engine) else { return };
        Case::new(*engine.problem(), device, stream, &mut random).check(&kernel, device, stream);
    }
}

/// NVRTC compiles the engines for this compute capability. Nothing spills.
pub fn compile_without_spills<E: Engine>(capability: u32, engines: impl Iterator<Item = E>) {
    compile_a_share_without_spills(1, engines.map(|engine| (capability, engine)));
}

/// The same for every `step`th of many kernels, each with its GPU's compute capability.
pub fn compile_a_share_without_spills<E: Engine>(step: usize, engines: impl Iterator<Item = (u32, E)>) {
    let Some(nvrtc) = resources::nvrtc() else { return };
    let mut seen = HashSet::new();
    let once = engines.filter(|(capability, engine)| seen.insert((*capability, engine.options())));
    for (capability, engine) in resources::share(once, step) {
        let compiled = resources::compile(nvrtc, &source(&engine), capability);
        let spills = compiled.count(resources::STL) + compiled.count(resources::LDL);
        assert_eq!(spills, 0, "{capability}: {engine:?}");
    }
}

/// The first GPU, if it has what the engine needs for the problem.
pub fn gpu_for<E: Engine>(of: &E::Problem) -> Option<Gpu> {
    let gpu = on_gpu::first()?;
    if E::priority(of) == Priority::OnWarpgroups && !Device::Cuda.has_warpgroup_products(Device::Cuda.ordinal()) {
        println!("SKIPPED: the GPU has no products of warpgroups");
        return None;
    }
    Some(gpu)
}

/// On a GPU an engine without knobs agrees with loops on the host.
pub fn on_a_gpu_as_on_the_host<E: Engine<Problem: Tensors>>(seed: u64, problems: impl Iterator<Item = E::Problem>) {
    let (device, mut problems) = (Device::Cuda, problems.peekable());
    let Some(Gpu { stream, .. }) = &gpu_for::<E>(problems.peek().unwrap()) else { return };
    let mut random = SmallRng::seed_from_u64(seed);
    for of in problems {
        let kernel = Compiled::<E>::new(device, &of, &[]).expect("compiled");
        Case::new(of, device, stream.raw(), &mut random).check(&kernel, device, stream.raw());
    }
}

/// Returns ||result - exact|| / ||exact|| and the result's mean relative excess, for floats from `least` to 2.
pub fn errors_of<E: Engine<Problem: Tensors>>(
    kernel: &Compiled<E>,
    least: f32,
    device: Device,
    stream: Stream,
    random: &mut SmallRng,
) -> (f64, f64) {
    let of = kernel.engine.problem();
    let [one, other, to] = of.elements();
    let mut values = |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(least..2.0)).collect() };
    let (mut inputs, mut exact) = ([values(one), values(other)], vec![0_f32; to]);
    let [one, other] = inputs.each_mut().map(|values| values.as_mut_ptr().cast());
    // SAFETY: the vectors are as large as the tensors, and loops need no workspace.
    unsafe {
        of.convolution().compute(
            of.memory([one, other, exact.as_mut_ptr().cast()], std::ptr::null_mut(), std::ptr::null()),
            1.0,
            0.0,
        )
    };
    let inputs = inputs.map(|values| between_nans(device, &bytes_of(&values), stream));
    let [one, other] = inputs.each_ref().map(|tensor| tensor.data().wrapping_byte_add(GUARD));
    let [to, workspace] = [4 * to, kernel.workspace().max(1)].map(|bytes| device.allocate(bytes).unwrap());
    // SAFETY: the buffers are as large as the tensors and the workspace, with guards around the inputs.
    assert!(unsafe {
        kernel.run(stream, of.memory([one, other, to.data()], workspace.data(), std::ptr::null()), 1.0, 0.0)
    });
    let exact: Vec<f64> = exact.into_iter().map(f64::from).collect();
    errors(&read(device, &to, 4 * exact.len(), stream), &exact)
}

/// Prints the median time of an engine on a GPU, for `products` multiply-adds, and the rate.
pub fn print_time<E: Engine<Problem: Tensors>>(kernel: &Compiled<E>, products: usize, stream: &OwnStream) {
    let (device, of) = (Device::Cuda, kernel.engine.problem());
    let mut random = SmallRng::seed_from_u64(14);
    let elements = of.elements();
    let tensors = elements.map(|count| filled(device, of.element(), count, &mut random, stream.raw()));
    let workspace = device.allocate(kernel.workspace().max(1)).unwrap();
    let memory = of.memory(tensors.each_ref().map(Buffer::data), workspace.data(), std::ptr::null());
    // SAFETY: the buffers are as large as the tensors and the workspace.
    let time = on_gpu::median(stream, || assert!(unsafe { kernel.run(stream.raw(), memory, 1.0, 0.0) }));
    let bytes = elements.into_iter().sum::<usize>() * of.element().bytes();
    let rates = [2.0 * products as f64 / time / 1e9, bytes as f64 / time / 1e9];
    println!("{:?}: {time:.3} ms, {:.0} TFLOP/s, {:.2} TB/s", kernel.engine, rates[0], rates[1]);
}
