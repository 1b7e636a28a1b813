//! What our engines compute: single convolutions over packed tensors, channels first, and their gradients.

use std::ffi::c_void;
use std::fmt::Debug;

use cudnn::convolution::Direction;
use gpu::Element;

/// With fewer channels, cuDNN's engines on tensor cores fill them up to as many.
const LEAST_CHANNELS: usize = 8;

/// A convolution or one of its gradients. Tensors are packed, channels first. Each array has the values of slices, rows
/// and columns; images without slices, or without rows, have one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The type of all three tensors.
    pub element: Element,
    /// Floats are multiplied exactly, not in TF32. False for other types.
    pub is_exact: bool,
    /// The result: y, or the gradient of x or of the filter.
    pub direction: Direction,
    /// The images of x and y.
    pub images: usize,
    /// The channels of x, and of y, of all groups.
    pub inputs: usize,
    pub outputs: usize,
    pub groups: usize,
    pub x: [usize; 3],
    pub y: [usize; 3],
    pub filter: [usize; 3],
    pub stride: [usize; 3],
    /// The zeros before the first slice, row and column of x. Those behind the last follow from y.
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Convolution {
    /// Returns whether the filter covers the whole image, and has more than one place: each image is one row of a
    /// product.
    pub fn covers_image(&self) -> bool {
        self.filter == self.x
            && self.y == [1; 3]
            && self.filter != [1; 3]
            && self.padding == [0; 3]
            && self.dilation == [1; 3]
            && self.groups == 1
    }

    /// Returns whether it cuts images of few channels into patches, as the first layer of a vision transformer does.
    pub fn is_patch_embedding(&self) -> bool {
        self.inputs < LEAST_CHANNELS && self.reads_patches().is_ok()
    }

    /// Returns whether it reads patches that do not overlap: its strides are the filter's sizes. `Err` says why not.
    pub fn reads_patches(&self) -> Result<(), Refusal> {
        let Self { groups, x, y, filter, stride, padding, .. } = *self;
        Refusal::unless([
            (groups == 1, "groups"),
            (!self.is_dilated(), "dilation"),
            (padding == [0; 3], "padding"),
            (filter == stride && filter != [1; 3], "strides that are not the filter's sizes"),
            ((0..3).all(|axis| y[axis].saturating_mul(filter[axis]) <= x[axis]), "places behind the input"),
        ])
    }

    /// Returns whether the filter's places are apart.
    pub fn is_dilated(&self) -> bool {
        self.dilation.iter().zip(self.filter).any(|(dilation, places)| *dilation != 1 && places > 1)
    }

    /// The same convolution over simpler images. Packed tensors lie in memory as they would then.
    pub fn simplified(self) -> Self {
        if self.covers_image() {
            // The image's places are channels of an image of one place.
            let inputs = self.filter.iter().fold(self.inputs, |inputs, places| inputs.saturating_mul(*places));
            return Self { inputs, x: [1; 3], filter: [1; 3], stride: [1; 3], ..self };
        }
        let is_one_place = self.filter == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3];
        if is_one_place && self.x == self.y {
            // The slices need not be told apart.
            let rows = |[slices, rows, columns]: [usize; 3]| [1, slices.saturating_mul(rows), columns];
            return Self { x: rows(self.x), y: rows(self.y), dilation: [1; 3], ..self };
        }
        self
    }

    /// The slices, and the rows and columns as pairs, for engines that take square filters alike in both directions.
    fn planes(&self) -> Result<Planes, Refusal> {
        let Self { groups, x: [slices, height, width], y: [_, p, q], filter, stride, padding, .. } = *self;
        let axis = |of: [usize; 3]| [of[1], of[2]];
        let alike = |of: [usize; 3], refusal| if of[1] == of[2] { Ok(of[1]) } else { Err(Refusal(refusal)) };
        if groups > 1 {
            return Err(Refusal("groups"));
        }
        if self.is_dilated() {
            return Err(Refusal("dilation"));
        }
        let is_same = filter[0] % 2 == 1 && [stride[0], padding[0], self.y[0]] == [1, filter[0] / 2, slices];
        if !is_same {
            return Err(Refusal("slices whose number changes"));
        }
        let (stride, padding) = (alike(stride, "strides that differ")?, alike(padding, "paddings that differ")?);
        // Checks that as many zeros are on both sides.
        let is_whole = |from: usize, places: usize, to: usize| {
            let padded = padding.checked_mul(2).and_then(|both| from.checked_add(both));
            let beyond = padded.and_then(|padded| padded.checked_sub(places));
            beyond.is_some_and(|beyond| to == beyond / stride.max(1) + 1)
        };
        if !is_whole(height, filter[1], p) || !is_whole(width, filter[2], q) {
            return Err(Refusal("paddings that differ"));
        }
        let slices = Slices { count: slices, filter: filter[0] };
        Ok(Planes { slices, x: [height, width], y: [p, q], filter: axis(filter), stride, padding })
    }

    /// Computes result = `alpha` · (convolution + bias, or gradient) + `beta` · result in loops on the host.
    ///
    /// # Safety
    /// The caller promises host memory as large as the tensors, with elements of their type.
    pub unsafe fn compute(&self, Memory { x, w, y, bias, .. }: Memory, alpha: f32, beta: f32) {
        let Self { element, direction, images, inputs, outputs, groups, filter, stride, padding, dilation, .. } = *self;
        let result = match direction {
            Direction::Forward => loops::Tensor::Y,
            Direction::BackwardData => loops::Tensor::X,
            Direction::BackwardFilter => loops::Tensor::Filter,
        };
        let (x_sizes, y_sizes) = (self.x, self.y);
        let shape = loops::Convolution {
            result,
            images,
            inputs,
            outputs,
            groups,
            x: x_sizes,
            y: y_sizes,
            filter,
            stride,
            padding,
            dilation,
        };
        // SAFETY: the caller promises memory as large as the tensors, with elements of this type.
        unsafe { loops::convolve(element, &shape, [x, w, y], bias, alpha, beta) }
    }
}

/// The rows and columns of a convolution by filters that are alike in both directions.
struct Planes {
    slices: Slices,
    x: [usize; 2],
    y: [usize; 2],
    filter: [usize; 2],
    stride: usize,
    padding: usize,
}

/// The reason why an engine does not take a convolution, as the end of "no engine of ours computes it, because of …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

impl Refusal {
    /// The reason of the first condition that does not hold.
    pub fn unless(conditions: impl IntoIterator<Item = (bool, &'static str)>) -> Result<(), Self> {
        match conditions.into_iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(Self(what)),
            None => Ok(()),
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
    /// Null, or a number for each channel of y, which is added to the convolution. Only engines of convolutions by
    /// channel take one.
    pub bias: *const c_void,
}

// SAFETY: the addresses are only passed on to the device, so any thread may hold them.
unsafe impl Send for Memory {}

/// Convolutions of one kind, for engines of this kind.
pub trait Computed: Copy + Debug + Send + Sync + 'static {
    /// Whether its engines take a bias with a convolution.
    const TAKES_BIAS: bool = false;

    /// The convolution, if it is of this kind.
    fn of(convolution: &Convolution) -> Result<Self, Refusal>;

    /// The convolution again.
    fn convolution(&self) -> Convolution;
}

/// The slices of volumes, which rows and columns make up. A result has as many as its input: the filter has an odd
/// number of them, and half of it reaches beyond the first and the last slice, where there are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Those of a volume.
    pub count: usize,
    /// Those of a filter.
    pub filter: usize,
}

impl Slices {
    /// Images that are no volumes.
    pub const ONE: Self = Self { count: 1, filter: 1 };

    /// The stride and padding along the slices.
    fn stride_and_padding(self) -> [usize; 2] {
        [1, self.filter / 2]
    }
}

/// A correlation of packed images and filters: out\[n\]\[m\]\[p\]\[q\] = Σ over d, r, s of v\[m\]\[d\]\[r\]\[s\] ·
/// in\[n\]\[d\]\[p · stride + r - padding\]\[q · stride + s - padding\], and likewise over slices. For a convolution v
/// is its filter w. For an input gradient m counts the convolution's inputs and d its outputs, v\[m\]\[d\] is
/// w\[d\]\[m\] with slices, rows and columns reversed, and the padding is the filter's reach beyond the convolution's
/// padding.
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
    pub slices: Slices,
    /// Rows and columns of the images read.
    pub from: [usize; 2],
    /// Rows p and columns q of the images written.
    pub to: [usize; 2],
    /// The filter's rows r, which equal its columns s.
    pub filter: usize,
    /// The stride in both directions: 1 for a gradient.
    pub stride: usize,
    /// The zeros above the images and on their left.
    pub padding: usize,
}

impl Correlation {
    /// The elements of the filter, of the images read, and of those written. `None` for more than can be counted.
    pub fn counts(&self) -> [Option<usize>; 3] {
        let product = |counts: &[usize]| counts.iter().try_fold(1_usize, |product, count| product.checked_mul(*count));
        let Self { images, depth, rows, slices, from, to, filter, .. } = *self;
        [
            product(&[rows, depth, slices.filter, filter, filter]),
            product(&[images, depth, slices.count, from[0], from[1]]),
            product(&[images, rows, slices.count, to[0], to[1]]),
        ]
    }

    /// The images that are read and those that are written.
    pub fn images_in(&self, memory: Memory) -> [*mut c_void; 2] {
        if self.is_gradient { [memory.y, memory.x] } else { [memory.x, memory.y] }
    }
}

impl Computed for Correlation {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        let Convolution { element, is_exact, images, inputs, outputs, .. } = *of;
        let Planes { slices, x, y, filter: [filter, columns], stride, padding } = of.planes()?;
        if filter != columns {
            return Err(Refusal("a filter that is not square"));
        }
        let convolution = Self {
            element,
            is_exact,
            is_gradient: false,
            images,
            depth: inputs,
            rows: outputs,
            slices,
            from: x,
            to: y,
            filter,
            stride,
            padding,
        };
        match of.direction {
            Direction::Forward => Ok(convolution),
            Direction::BackwardData if stride > 1 => Err(Refusal("strides of an input gradient")),
            Direction::BackwardData => {
                let padding = filter.checked_sub(padding + 1).ok_or(Refusal("a padding as large as the filter"))?;
                let (depth, rows) = (outputs, inputs);
                Ok(Self { is_gradient: true, depth, rows, from: y, to: x, padding, ..convolution })
            }
            Direction::BackwardFilter => Err(Refusal("a filter's gradient")),
        }
    }

    fn convolution(&self) -> Convolution {
        let Self { element, is_exact, is_gradient, images, depth, rows, slices, from, to, filter, stride, padding } =
            *self;
        let [slice_stride, slice_padding] = slices.stride_and_padding();
        let volume = |[height, width]: [usize; 2]| [slices.count, height, width];
        let forward = Convolution {
            element,
            is_exact,
            direction: Direction::Forward,
            images,
            inputs: depth,
            outputs: rows,
            groups: 1,
            x: volume(from),
            y: volume(to),
            filter: [slices.filter, filter, filter],
            stride: [slice_stride, stride, stride],
            padding: [slice_padding, padding, padding],
            dilation: [1; 3],
        };
        if !is_gradient {
            return forward;
        }
        let padding = [slice_padding, filter - 1 - padding, filter - 1 - padding];
        let (inputs, outputs, x, y) = (rows, depth, forward.y, forward.x);
        Convolution { direction: Direction::BackwardData, inputs, outputs, x, y, padding, ..forward }
    }
}

/// A filter gradient: dw\[k\]\[c\]\[r\]\[s\] = Σ over n, p, q of dy\[n\]\[k\]\[p\]\[q\] ·
/// x\[n\]\[c\]\[p · stride + r - padding\]\[q · stride + s - padding\], for packed tensors, and likewise over slices.
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
    pub slices: Slices,
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

impl FilterGradient {
    /// The number of values in dw.
    pub fn elements(&self) -> usize {
        self.k * self.c * self.slices.filter * self.filter[0] * self.filter[1]
    }
}

impl Computed for FilterGradient {
    fn of(of: &Convolution) -> Result<Self, Refusal> {
        if of.direction != Direction::BackwardFilter {
            return Err(Refusal("a result that is no filter's gradient"));
        }
        let Convolution { element, is_exact, images, inputs: c, outputs: k, .. } = *of;
        let Planes { slices, x, y: dy, filter, stride, padding } = of.planes()?;
        Ok(Self { element, is_exact, images, k, c, slices, x, dy, filter, stride, padding })
    }

    fn convolution(&self) -> Convolution {
        let Self { element, is_exact, images, k, c, slices, x, dy, filter, stride, padding } = *self;
        let [slice_stride, slice_padding] = slices.stride_and_padding();
        Convolution {
            element,
            is_exact,
            direction: Direction::BackwardFilter,
            images,
            inputs: c,
            outputs: k,
            groups: 1,
            x: [slices.count, x[0], x[1]],
            y: [slices.count, dy[0], dy[1]],
            filter: [slices.filter, filter[0], filter[1]],
            stride: [slice_stride, stride, stride],
            padding: [slice_padding, padding, padding],
            dilation: [1; 3],
        }
    }
}
