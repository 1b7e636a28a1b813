//! What our engines compute: single convolutions over packed images in NCHW, and their gradients.

use std::ffi::c_void;
use std::fmt::Debug;

use gpu::Element;

/// A problem for our engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A convolution, or its input's gradient.
    Correlation(Correlation),
    /// A filter's gradient.
    FilterGradient(FilterGradient),
}

impl Problem {
    /// Returns whether floats are to be multiplied exactly, not in TF32. False for other types.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Correlation(of) => of.is_exact,
            Self::FilterGradient(of) => of.is_exact,
        }
    }
}

/// The addresses of a convolution's tensors and workspace.
#[derive(Clone, Copy)]
pub struct Memory {
    /// The input, or its gradient.
    pub x: *mut c_void,
    /// The filter, or its gradient.
    pub w: *mut c_void,
    /// The output, or its gradient.
    pub y: *mut c_void,
    /// The engine's workspace.
    pub workspace: *mut c_void,
}

// SAFETY: the addresses are only passed on to the device, so any thread may hold them.
unsafe impl Send for Memory {}

/// One kind of [`Problem`].
pub trait Computed: Copy + Debug + Send + Sync + 'static {
    /// The problem, if it is of this kind.
    fn of(problem: &Problem) -> Option<Self>;

    /// Computes result = `alpha` · convolution or gradient + `beta` · result in loops on the host.
    ///
    /// # Safety
    /// The caller promises host memory as large as the tensors, with elements of their type.
    unsafe fn compute(&self, memory: Memory, alpha: f32, beta: f32);
}

/// A correlation of packed images and filters: out\[n\]\[m\]\[p\]\[q\] = Σ over d, r, s of v\[m\]\[d\]\[r\]\[s\] ·
/// in\[n\]\[d\]\[p · stride + r - padding\]\[q · stride + s - padding\]. For a convolution v is its filter w. For an
/// input gradient m counts the convolution's inputs and d its outputs, v\[m\]\[d\] is w\[d\]\[m\] with rows and columns
/// reversed, and the padding is the filter's reach beyond the convolution's padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// The type of all three tensors.
    pub element: Element,
    /// Floats are multiplied exactly, not in TF32. False for other types.
    pub is_exact: bool,
    /// True for an input gradient, false for a convolution.
    pub is_gradient: bool,
    /// n
    pub images: usize,
    /// d: the channels of the images read.
    pub depth: usize,
    /// m: the channels of the images written.
    pub rows: usize,
    /// Rows and columns of the images read.
    pub from: [usize; 2],
    /// Rows p and columns q of the images written.
    pub to: [usize; 2],
    /// The filter's rows r, which equal its columns s.
    pub filter: usize,
    /// The stride in both directions.
    pub stride: usize,
    /// The zeros above the images and on their left.
    pub padding: usize,
}

impl Correlation {
    /// The elements of the filter, of the images read, and of those written. `None` for more than can be counted.
    pub fn counts(&self) -> [Option<usize>; 3] {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let Self { images, depth, rows, from, to, filter, .. } = *self;
        [
            product(&[rows, depth, filter, filter]),
            product(&[images, depth, from[0], from[1]]),
            product(&[images, rows, to[0], to[1]]),
        ]
    }

    /// The images that are read and those that are written.
    pub fn images_in(&self, memory: Memory) -> [*mut c_void; 2] {
        if self.is_gradient { [memory.y, memory.x] } else { [memory.x, memory.y] }
    }
}

impl Computed for Correlation {
    fn of(problem: &Problem) -> Option<Self> {
        if let Problem::Correlation(of) = problem { Some(*of) } else { None }
    }

    unsafe fn compute(&self, memory: Memory, alpha: f32, beta: f32) {
        let Self { element, is_gradient, images, depth, rows, from, to, filter, stride, padding, .. } = *self;
        let shape = loops::Correlation { is_gradient, images, depth, rows, from, to, filter, stride, padding };
        let [from, to] = self.images_in(memory);
        // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
        unsafe { loops::correlate(element, &shape, [memory.w, from].map(<*mut c_void>::cast_const), to, alpha, beta) }
    }
}

/// A filter gradient: dw\[k\]\[c\]\[r\]\[s\] = Σ over n, p, q of dy\[n\]\[k\]\[p\]\[q\] ·
/// x\[n\]\[c\]\[p · stride + r - padding\]\[q · stride + s - padding\], for packed NCHW tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterGradient {
    /// The type of all three tensors.
    pub element: Element,
    /// Floats are multiplied exactly, not in TF32. False for other types.
    pub is_exact: bool,
    /// n
    pub images: usize,
    /// k: dy's channels.
    pub k: usize,
    /// c: x's channels.
    pub c: usize,
    /// Rows and columns of x.
    pub x: [usize; 2],
    /// Rows p and columns q of dy.
    pub dy: [usize; 2],
    /// Rows r and columns s of the filter.
    pub filter: [usize; 2],
    /// The stride in both directions.
    pub stride: usize,
    /// The zeros on each side of x.
    pub padding: usize,
}

impl Computed for FilterGradient {
    fn of(problem: &Problem) -> Option<Self> {
        if let Problem::FilterGradient(of) = problem { Some(*of) } else { None }
    }

    unsafe fn compute(&self, Memory { x, w, y, .. }: Memory, alpha: f32, beta: f32) {
        let Self { element, images, k, c, x: x_pixels, dy, filter, stride, padding, .. } = *self;
        let shape = loops::FilterGradient { images, k, c, x: x_pixels, dy, filter, stride, padding };
        // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
        unsafe { loops::filter_gradient(element, &shape, [x, y].map(<*mut c_void>::cast_const), w, alpha, beta) }
    }
}
