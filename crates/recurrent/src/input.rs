//! The work before the recurrence: the products of all time steps' inputs with W, and one launch for the rest, if there
//! is any (sequence lengths in device memory, zeros). Twins of the struct and sizes in `kernels/recurrent/input.cu`.

use std::ffi::c_void;
use std::ptr;

use gpu::cublaslt::CublasLt;
use gpu::jit::{Error, Function, Launch, Source};
use gpu::products::{self, Multiplier};
use gpu::{Device, Element, Stream};

const THREADS: u32 = 256;
/// Sequence lengths that a launch carries.
const LENGTHS: usize = 896;

/// The preparation of a call.
#[derive(Clone, Copy)]
pub struct Preparation<'a> {
    /// Memory to zero, aligned to 16 bytes, and its bytes, a multiple of 16.
    pub zeroed: (*mut c_void, usize),
    /// Sequence lengths, and their destination.
    pub lengths: Option<(&'a [i32], *mut i32)>,
    /// For packed sequences: the destination of each step's first row index, and the number of steps.
    pub starts: Option<(*mut i32, usize)>,
}

/// The parameters of the kernel `prepare`.
#[repr(C)]
struct Prepare {
    zeroed: *mut c_void,
    quads: i64,
    first: i32,
    count: i32,
    lengths: *mut i32,
    starts: *mut i32,
    steps: i32,
    values: [i32; LENGTHS],
}

/// The kernels before a recurrence, for elements of one type, on one device.
pub struct Input {
    pub products: Multiplier,
    prepare: Function,
}

impl Input {
    /// Compiles and loads the kernels.
    pub fn load(device: Device, element: Element) -> Result<Self, Error> {
        let module = device.load(&Self::source(element))?;
        let cublaslt = match device {
            Device::Host => None,
            Device::Cuda => {
                // In this scope, calls do not disturb captures of other threads.
                let _entered = device.enter(device.ordinal());
                let made = CublasLt::new();
                made.inspect_err(|why| log::warn!("RNNs' inputs are multiplied by a kernel of ours: {why}")).ok()
            }
        };
        let products = Multiplier::new(&module, element, cublaslt)?;
        Ok(Self { products, prepare: module.function(c"prepare")? })
    }

    /// Keeps the kernels loaded for good.
    pub fn keep_loaded(&self) {
        self.prepare.keep_loaded();
    }

    /// The source of the kernels.
    pub fn source(element: Element) -> Source {
        products::source(element)
    }

    /// Returns true if the kernels are on disk, compiled for the calling thread's device.
    pub fn is_compiled(device: Device, element: Element) -> bool {
        device.is_compiled(&Self::source(element))
    }

    /// Zeroes memory, writes lengths and finds starts, in the stream's order: in one launch, or none if there is
    /// nothing to do. More than `LENGTHS` sequences take more launches. The lengths are launch parameters: nothing
    /// waits, and a CUDA graph keeps them.
    ///
    /// # Safety
    /// The memory is the stream's device's, with the sizes that [`Preparation`] gives.
    pub unsafe fn prepare(&self, stream: Stream, preparation: &Preparation) -> Result<(), Error> {
        let Preparation { zeroed: (zeroed, bytes), lengths, starts } = *preparation;
        if bytes == 0 && lengths.is_none() && starts.is_none() {
            return Ok(());
        }
        let (values, lengths) = lengths.unwrap_or((&[], ptr::null_mut()));
        let (starts, steps) = starts.unwrap_or((ptr::null_mut(), 0));
        let quads = bytes / 16;
        let mut parameters = Prepare {
            zeroed,
            quads: quads as i64,
            first: 0,
            count: 0,
            lengths,
            starts,
            steps: steps as i32,
            values: [0; LENGTHS],
        };
        let mut elements = [quads, steps, LENGTHS.min(values.len())];
        let mut parts = values.chunks(LENGTHS);
        let mut part = parts.next().unwrap_or_default();
        loop {
            let most = elements.into_iter().max().unwrap_or(0);
            if most == 0 {
                return Ok(());
            }
            parameters.count = part.len() as i32;
            parameters.values[..part.len()].copy_from_slice(part);
            let grid = [most.div_ceil(THREADS as usize) as u32, 1, 1];
            let launch = Launch { grid, block: [THREADS, 1, 1], ..Launch::default() };
            let mut arguments = [(&raw mut parameters).cast()];
            // SAFETY: the kernel has one parameter, a `Prepare`; the caller promises its memory.
            unsafe { self.prepare.launch(stream, &launch, &mut arguments) }?;
            // Further launches carry the lengths of other sequences.
            let Some(next) = parts.next() else { return Ok(()) };
            parameters.first += part.len() as i32;
            parameters.quads = 0;
            (part, elements) = (next, [0, steps, next.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::testing::emulated;

    /// Lengths of more sequences than a launch carries, starts and zeros; memory behind them stays unchanged.
    #[test]
    fn all_is_prepared() {
        if !emulated::is_child("input::tests::all_is_prepared") {
            return;
        }
        let loaded = Input::load(Device::Host, Element::Float).map_err(|error| error.to_string());
        let Some(input) = emulated::compiled(loaded) else { return };
        let steps = 6;
        for (sequences, quads) in [(3, 0), (0, 300), (LENGTHS, 1), (2 * LENGTHS + 5, 40)] {
            let lengths: Vec<i32> = (0..sequences).map(|i| (i * 5 % (steps + 1)) as i32).collect();
            let mut zeroed = vec![-1_i128; quads + 1];
            let (mut written, mut starts) = (vec![-1; sequences + 1], vec![-1; steps + 1]);
            let preparation = Preparation {
                zeroed: (zeroed.as_mut_ptr().cast(), 16 * quads),
                lengths: (sequences > 0).then_some((&lengths, written.as_mut_ptr())),
                starts: (sequences > 0).then_some((starts.as_mut_ptr(), steps)),
            };
            // SAFETY: the vectors have the sizes that `preparation` gives, and outlive the launch.
            unsafe { input.prepare(ptr::null_mut(), &preparation) }.unwrap();
            assert!(zeroed[..quads].iter().all(|&quad| quad == 0));
            assert_eq!((zeroed[quads], written[sequences], starts[steps]), (-1, -1, -1));
            assert_eq!(written[..sequences], lengths);
            if sequences > 0 {
                let before = |step: usize| lengths.iter().map(|&length| length.min(step as i32)).sum::<i32>();
                assert_eq!(starts[..steps], [0, 1, 2, 3, 4, 5].map(before));
            }
        }
        // Nothing to do means no launch; a launch without blocks would fail.
        let nothing = Preparation { zeroed: (ptr::null_mut(), 0), lengths: None, starts: None };
        // SAFETY: `nothing` has no memory to write.
        unsafe { input.prepare(ptr::null_mut(), &nothing) }.unwrap();
    }
}
