//! The trait of engines; how an engine is made ready and run.

use std::error::Error;
use std::ffi::CStr;
use std::fmt::Debug;
use std::sync::Arc;

use super::problem::{Computed, Convolution, Memory};
use crate::problem::graph::Knob;
use gpu::jit::loaded::Loaded;
use gpu::jit::{Function, Source};
use gpu::{Device, Element, Stream};
use kernels::KernelSource;

/// One of our engines, with a problem that is cut for a device. An engine computes problems of one kind by the kernels
/// of one source. Equal calls give equal bits.
pub trait Engine: Copy + Debug + Send + Sync + 'static {
    /// The kind of problem that it computes.
    type Problem: Computed;
    /// The kernels' source.
    const SOURCE: &'static KernelSource;
    /// The kernels, by name.
    const KERNELS: &'static [&'static CStr];
    /// Set if cublasLt multiplies for it, and its own kernels only copy.
    const IS_PRODUCT: bool = false;
    /// Whether loaded kernels stay, because there are few kinds of them. Others stay while they are used.
    const IS_KEPT: bool;

    /// When to try the engine for a problem that it may compute.
    fn priority(of: &Self::Problem) -> Priority;

    /// Returns whether a problem of two-byte numbers has short sums, see [`is_short`].
    fn has_short_sums(_of: &Self::Problem) -> bool {
        true
    }

    /// The knobs with which it computes a problem on the calling thread's device, the fastest first. Only the first
    /// that the device runs counts. An engine with several choices takes at most `limit` bytes of workspace.
    fn choices(device: Device, of: &Self::Problem, _limit: usize) -> Vec<Vec<Knob>> {
        Self::new(device, of, &[]).map(|_| vec![]).into_iter().collect()
    }

    /// Cuts a problem for the calling thread's device. `None` if it does not compute the problem with these knobs.
    fn new(device: Device, of: &Self::Problem, knobs: &[Knob]) -> Option<Self>;

    /// The problem.
    fn problem(&self) -> &Self::Problem;

    /// The compiler's options for it.
    fn options(&self) -> Vec<String>;

    /// Allows the launches of the loaded kernels on the calling thread's device.
    fn allow(&self, device: Device, kernels: &[Function]) -> Result<(), Box<dyn Error>>;

    /// The bytes of workspace.
    fn workspace(&self) -> usize {
        0
    }

    /// Whether it writes some images' results before it launches the others: a failure may leave a part written.
    fn writes_in_parts(&self) -> bool {
        false
    }

    /// Launches result = `alpha` · convolution or gradient + `beta` · result, where a `beta` of 0 leaves the result
    /// unread. Returns whether that worked.
    ///
    /// # Safety
    /// As for [`Plan::run`].
    unsafe fn launch(&self, kernels: &[Function], stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool;
}

/// The kernels of engines. `None`: the host runs loops.
type Kernels = Option<Vec<Function>>;

/// The loaded kernels, by source and compiler options.
type LoadedKernels = Loaded<(&'static str, Vec<String>), Kernels>;
static KEPT: LoadedKernels = Loaded::kept();
static WHILE_USED: LoadedKernels = Loaded::while_used();

/// The place of an engine in the order of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// First: it runs on the tensor cores of warpgroups, and is faster than cuDNN's engines in small parts.
    OnWarpgroups,
    /// Next: it is at least as fast as cuDNN's tensor core engines with enough workspace.
    Fast,
    /// Where none of cuDNN's tensor core engines fits half of the mini-batch.
    Slow,
}

/// How an engine multiplies and adds, which decides the classes that admit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numerics {
    /// Floats in TF32, and numbers of two bytes in sums of any length.
    OnTensorCores,
    /// Floats, multiplied exactly. Such an engine gets the problems that ask for this, and no others.
    ExactFloats,
    /// As exact as without tensor cores: numbers of two bytes, in sums so short that tensor cores are as exact as anything
    /// else, or in float arithmetic.
    ShortSums,
}

/// An engine that is ready to run its problem.
pub trait Plan: Send + Sync {
    /// The bytes of workspace.
    fn workspace(&self) -> usize;

    /// Whether a run that fails may leave a part of the result written.
    fn writes_in_parts(&self) -> bool {
        false
    }

    /// Launches result = `alpha` · convolution or gradient + `beta` · result, where a `beta` of 0 leaves the result
    /// unread. Returns whether that worked.
    ///
    /// # Safety
    /// The caller promises that `memory` is device memory as large as the tensors and the workspace, that all of them
    /// are aligned to 16 bytes, that the result and the workspace overlap nothing else, and that the stream belongs to
    /// that device.
    unsafe fn run(&self, stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool;
}

/// A plan, or why there is none.
pub type Ready = Result<Box<dyn Plan>, String>;

/// An engine with its kernels.
pub struct Compiled<E> {
    pub engine: E,
    pub kernels: Arc<Kernels>,
}

impl<E: Engine> Compiled<E> {
    /// Makes an engine ready on the calling thread's device. Compiles at the first call for its options, which may take
    /// a second; do not call it under capture. `Err` says why there is no kernel.
    pub fn new(device: Device, of: &E::Problem, knobs: &[Knob]) -> Result<Self, String> {
        let engine = E::new(device, of, knobs).ok_or("no kernel of ours computes it")?;
        let loaded = if E::IS_KEPT { &KEPT } else { &WHILE_USED };
        let kernels = loaded.get(device, (E::SOURCE.name, engine.options()), || match device {
            Device::Host => Ok(None),
            Device::Cuda => compile(device, &engine).map(Some),
        })?;
        if let Some(kernels) = &*kernels {
            // Problems that share kernels may need different sizes of shared memory.
            engine.allow(device, kernels).map_err(|error| error.to_string())?;
        }
        Ok(Self { engine, kernels })
    }
}

impl<E: Engine> Plan for Compiled<E> {
    fn workspace(&self) -> usize {
        self.engine.workspace()
    }

    fn writes_in_parts(&self) -> bool {
        self.engine.writes_in_parts()
    }

    unsafe fn run(&self, stream: Stream, memory: Memory, alpha: f32, beta: f32) -> bool {
        debug_assert!(memory.bias.is_null() || E::Problem::TAKES_BIAS, "the engine takes no bias");
        // SAFETY: the caller promises memory as large as the tensors, which is the host's where there are no kernels.
        unsafe {
            match &*self.kernels {
                Some(kernels) => self.engine.launch(kernels, stream, memory, alpha, beta),
                None => {
                    self.engine.problem().convolution().compute(memory, alpha, beta);
                    true
                }
            }
        }
    }
}

/// Returns whether a sum of so many products is short: tensor cores compute it as exactly as other arithmetic, because the
/// result is rounded to two bytes anyway. They round towards zero after every 16 products, to 24 bits. Over 16,384 products
/// in half and 131,072 in bfloat16, that came to a tenth of the result's rounding and less on an H200.
pub fn is_short(element: Element, products: usize) -> bool {
    match element {
        Element::Half => products <= 1 << 14,
        Element::Bfloat16 => products <= 1 << 17,
        Element::Float => false,
    }
}

/// The source and the options that are compiled for an engine.
pub fn source<E: Engine>(engine: &E) -> Source {
    Source::new(E::SOURCE, engine.options())
}

/// Compiles and loads an engine's kernels on the calling thread's device. `Err` says why there are none.
pub fn compile<E: Engine>(device: Device, engine: &E) -> Result<Vec<Function>, String> {
    compile_source::<E>(device, &source(engine))
}

/// The same for this text of an engine's source.
pub fn compile_source<E: Engine>(device: Device, source: &Source) -> Result<Vec<Function>, String> {
    let compile = || {
        let module = device.load(source)?;
        let kernels = E::KERNELS.iter().map(|name| module.function(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(kernels)
    };
    compile().map_err(|error: gpu::jit::Error| error.to_string())
}

/// [`Engine::choices`] for a problem on a device within a limit, if the engine has this priority for it.
type Choices = fn(Device, &Convolution, Priority, usize) -> Vec<Vec<Knob>>;
type MakePlan = fn(Device, &Convolution, &[Knob]) -> Ready;
type MakeSource = fn(Device, &Convolution, &[Knob]) -> Option<Source>;

/// A row of [`ENGINES`](super::ENGINES).
pub struct Row {
    /// The engine's name in reports and in the database is `UCUDNN_ENGINE_` and this number: it never changes.
    pub number: i64,
    pub numerics: Numerics,
    /// `None` for an engine whose kernels are another library's.
    pub source: Option<&'static KernelSource>,
    /// Set if cublasLt multiplies for it, and its own kernels only copy.
    pub is_product: bool,
    /// Set if it takes a bias with a convolution.
    pub takes_bias: bool,
    choices: Choices,
    /// Makes the engine ready with these knobs, as [`Compiled::new`] does.
    pub plan: MakePlan,
    /// What is compiled for that. `None` if the engine does not compute it, or if its kernels are another library's.
    pub compiled: MakeSource,
}

impl Row {
    pub(super) const fn of<E: Engine>(number: i64, numerics: Numerics) -> Self {
        let choices: Choices = match numerics {
            Numerics::ShortSums => short_choices::<E>,
            Numerics::OnTensorCores | Numerics::ExactFloats => choices::<E>,
        };
        Self {
            number,
            numerics,
            source: Some(E::SOURCE),
            is_product: E::IS_PRODUCT,
            takes_bias: <E::Problem as Computed>::TAKES_BIAS,
            choices,
            plan: plan::<E>,
            compiled: compiled::<E>,
        }
    }

    /// An engine that is cublasLt alone.
    pub(super) const fn of_library(number: i64, numerics: Numerics, choices: Choices, plan: MakePlan) -> Self {
        Self {
            number,
            numerics,
            source: None,
            is_product: true,
            takes_bias: false,
            choices,
            plan,
            compiled: |_, _, _| None,
        }
    }

    /// Returns whether floats are multiplied exactly, not in TF32.
    pub fn is_exact(&self) -> bool {
        self.numerics == Numerics::ExactFloats
    }

    /// The [`Engine::choices`] for a problem, if that is the engine's priority.
    pub fn choices(&self, device: Device, of: &Convolution, priority: Priority, limit: usize) -> Vec<Vec<Knob>> {
        if self.is_exact() == of.is_exact { (self.choices)(device, of, priority, limit) } else { vec![] }
    }
}

fn choices<E: Engine>(device: Device, of: &Convolution, priority: Priority, limit: usize) -> Vec<Vec<Knob>> {
    let of = E::Problem::of(of).ok().filter(|of| E::priority(of) == priority);
    of.map_or(vec![], |of| E::choices(device, &of, limit))
}

fn short_choices<E: Engine>(device: Device, of: &Convolution, priority: Priority, limit: usize) -> Vec<Vec<Knob>> {
    let is_short = E::Problem::of(of).is_ok_and(|of| E::has_short_sums(&of));
    if is_short { choices::<E>(device, of, priority, limit) } else { vec![] }
}

fn compiled<E: Engine>(device: Device, of: &Convolution, knobs: &[Knob]) -> Option<Source> {
    let of = E::Problem::of(of).ok()?;
    E::new(device, &of, knobs).map(|engine| source(&engine))
}

fn plan<E: Engine>(device: Device, of: &Convolution, knobs: &[Knob]) -> Ready {
    let of =
        E::Problem::of(of).map_err(|refusal| format!("no kernel of ours computes it, because of {}", refusal.0))?;
    Ok(Box::new(Compiled::<E>::new(device, &of, knobs)?))
}
