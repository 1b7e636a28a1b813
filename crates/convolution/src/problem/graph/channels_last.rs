//! An operation graph converted from channels-first to channels-last tensors, the layout that tensor cores want.
//! cuDNN's own engines for channels-first tensors convert inside their workspace. Where images have too few channels to
//! fill one 16-byte access of a tensor core, zero channels are appended to the images and the filter, and their results
//! are dropped.

use cudnn_abi::*;

use crate::problem::graph::{Factor, Operation, Problem, Tensor};
use cudnn::tensor::element_size;

/// The address alignment that 16-byte accesses need.
const ALIGNMENT: i64 = 16;

/// A tensor as matrices side by side, with one row per channel and one column per place, or the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// The number of matrices: images, or a filter's outputs.
    pub images: usize,
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns of each matrix.
    pub columns: usize,
    /// Elements from one row to the next. Elements past `columns` are ignored.
    pub pitch: usize,
    /// The pitch of the transposed matrices, whose rows have `rows` elements. Zeros fill the rest.
    pub transposed_pitch: usize,
}

impl Matrices {
    /// Matrices without gaps between rows.
    pub fn packed(images: usize, rows: usize, columns: usize) -> Self {
        Self { images, rows, columns, pitch: columns, transposed_pitch: rows }
    }

    /// Returns true if there are no gaps between rows.
    pub fn is_packed(self) -> bool {
        self == Self::packed(self.images, self.rows, self.columns)
    }

    /// The transposed matrices.
    pub fn transposed(self) -> Self {
        let Self { images, rows, columns, pitch, transposed_pitch } = self;
        Self { images, rows: columns, columns: rows, pitch: transposed_pitch, transposed_pitch: pitch }
    }

    /// Elements of all matrices, gaps between rows included.
    pub fn elements(self) -> usize {
        self.images * self.rows * self.pitch
    }

    /// Returns true if the transposed matrices differ from these in memory.
    pub fn differ(self) -> bool {
        self.rows > 1 && self.columns > 1 || !self.is_packed()
    }
}

/// Channels-first images, sampled: every `down`-th row, and every `right`-th pixel of it, is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The number of images.
    pub images: usize,
    /// Channels of each image.
    pub channels: usize,
    /// Rows of each channel.
    pub height: usize,
    /// Pixels of each row.
    pub width: usize,
    /// Rows from one sampled row to the next.
    pub down: usize,
    /// Pixels from one sampled pixel to the next.
    pub right: usize,
}

impl Sampling {
    /// Sampled pixels per channel of an image.
    pub fn sampled(self) -> usize {
        self.height.div_ceil(self.down) * self.width.div_ceil(self.right)
    }
}

impl Tensor {
    /// Strides that pack the dimensions in `order`, innermost first.
    fn strides_in(&self, order: impl Iterator<Item = usize>) -> Vec<i64> {
        let mut strides = vec![0; self.dims.len()];
        let mut next = 1_i64;
        for axis in order {
            strides[axis] = next;
            next = next.saturating_mul(self.dims[axis]);
        }
        strides
    }

    fn channels_last_strides(&self) -> Vec<i64> {
        self.strides_in(std::iter::once(1).chain((2..self.dims.len()).rev()).chain([0]))
    }

    /// Returns true if the tensor has these strides; dimensions of one element may have any.
    fn has_strides(&self, strides: &[i64]) -> bool {
        let mut axes = self.dims.iter().zip(self.strides.iter().zip(strides));
        axes.all(|(dim, (own, wanted))| own == wanted || *dim == 1)
    }

    /// The tensor as matrices with one row per channel, if it is packed with channels first.
    pub fn channels_first(&self) -> Option<Matrices> {
        let is_first = self.dims.len() > 2 && self.has_strides(&self.strides_in((0..self.dims.len()).rev()));
        let [images, rows, ref places @ ..] = self.dims[..] else { return None };
        let columns = places.iter().product::<i64>();
        is_first.then_some(Matrices::packed(images as usize, rows as usize, columns as usize))
    }

    /// The same tensor with channels last, if it is packed with channels first or last.
    fn with_channels_last(&self) -> Option<Self> {
        let strides = self.channels_last_strides();
        match self.channels_first() {
            Some(matrices) if matrices.differ() => {
                Some(Self { strides, alignment: ALIGNMENT, ..self.clone() }).filter(|_| self.alignment % ALIGNMENT == 0)
            }
            Some(_) => Some(Self { strides, ..self.clone() }),
            None => self.has_strides(&strides).then(|| self.clone()),
        }
    }
}

impl Problem {
    /// The number of channels that [`Self::channels_last`] pads images and filters to, if their own would not fill 16
    /// bytes. A single channel is not padded: such an image needs no copy.
    fn padded_channels(&self) -> Option<i64> {
        let convolution = self.convolution();
        let (x, w) = (&self.tensors[convolution.x], &self.tensors[convolution.w]);
        let filling = ALIGNMENT / element_size(x.data_type)? as i64;
        let are_few = (2..filling).contains(&x.dims[1]) && x.dims[1] == w.dims[1];
        let are_first = x.channels_first().is_some() && w.channels_first().is_some();
        (are_few && are_first && self.sampling().is_none()).then_some(filling)
    }

    /// The tensor at `place` as the matrices to transpose for [`Self::channels_last`], with one row per channel, if it
    /// is packed with channels first.
    pub fn to_be_transposed(&self, place: usize) -> Option<Matrices> {
        let matrices = self.tensors[place].channels_first()?;
        let convolution = self.convolution();
        let padded = self.padded_channels().filter(|_| place == convolution.x || place == convolution.w);
        Some(padded.map_or(matrices, |padded| Matrices { transposed_pitch: padded as usize, ..matrices }))
    }

    /// The part of `x` that the convolution reads, if not all: 1×1 filters with a stride and no padding.
    pub fn sampling(&self) -> Option<Sampling> {
        let convolution = self.convolution();
        let (x, w) = (&self.tensors[convolution.x], &self.tensors[convolution.w]);
        x.channels_first()?;
        let (&[images, channels, height, width], &[down, right]) = (&x.dims[..], &convolution.stride[..]) else {
            return None;
        };
        let paddings = [&convolution.pre_padding, &convolution.post_padding];
        let is_sampled = (down > 1 || right > 1)
            && w.dims[2..].iter().all(|&dim| dim == 1)
            && paddings.into_iter().flatten().all(|&padding| padding == 0);
        let [images, channels, height, width, down, right] =
            [images, channels, height, width, down, right].map(|count| count as usize);
        is_sampled.then_some(Sampling { images, channels, height, width, down, right })
    }

    /// The same convolution on packed tensors with channels last. A [sampled](Self::sampling) `x` is cut to its
    /// samples, and the stride becomes 1. If `x` and `w` have few channels, they get more ([`Self::to_be_transposed`]).
    /// Returns `None` if images have channels last already, if the graph has another operation or a beta other than 0,
    /// if a tensor is not packed, or if its type is not half, bfloat16 or float.
    pub fn channels_last(&self) -> Option<Self> {
        const TYPES: [cudnnDataType_t; 3] = [CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT];
        let convolution = self.convolution();
        if self.operations.len() != 1 || convolution.beta != Factor::ZERO {
            return None;
        }
        let first = self.tensors.first()?;
        let convertible = |tensor: &Tensor| {
            let is_countable =
                |it: Matrices| it.rows.checked_mul(it.columns).max(Some(it.images)) <= Some(i32::MAX as usize);
            tensor.data_type == first.data_type
                && TYPES.contains(&tensor.data_type)
                && !tensor.is_virtual
                && !tensor.is_by_value
                && tensor.channels_first().is_none_or(is_countable)
        };
        if !self.tensors.iter().all(convertible) {
            return None;
        }
        // A filter's gradient is copied in every layout, because parts of it are added up.
        let w = &self.tensors[convolution.w];
        if self.adds_up() && (w.channels_first().is_none() || w.alignment % ALIGNMENT != 0) {
            return None;
        }
        let tensors = self.tensors.iter().map(Tensor::with_channels_last).collect::<Option<Vec<_>>>()?;
        let mut converted = Self { tensors, operations: self.operations.clone() };
        if self.adds_up() {
            converted.tensors[convolution.w].alignment = ALIGNMENT;
        }
        if let Some(channels) = self.padded_channels() {
            for place in [convolution.x, convolution.w] {
                let tensor = &mut converted.tensors[place];
                tensor.dims[1] = channels;
                tensor.strides = tensor.channels_last_strides();
                tensor.alignment = ALIGNMENT;
            }
        }
        if self.sampling().is_some() {
            converted.keep_samples();
            return Some(converted);
        }
        let is_moved = |place: usize| self.to_be_transposed(place).is_some_and(Matrices::differ);
        (is_moved(convolution.x) || is_moved(convolution.y)).then_some(converted)
    }

    /// Cuts `x` to its samples, one for each pixel of `y`.
    fn keep_samples(&mut self) {
        let (x, y) = (self.convolution().x, self.convolution().y);
        let pixels = self.tensors[y].dims[2..].to_vec();
        let x = &mut self.tensors[x];
        x.dims.truncate(2);
        x.dims.extend(pixels);
        x.strides = x.channels_last_strides();
        x.alignment = ALIGNMENT;
        for operation in &mut self.operations {
            if let Operation::Convolution(convolution) = operation {
                convolution.stride.fill(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(spec: &str) -> Problem {
        Problem::from_spec(spec).unwrap()
    }

    const FIRST: &str = "graph half:8x16x9x9@1296x81x9x1/16/batched half:4x16x3x3@144x9x3x1/16 \
                         half:8x4x7x7@196x49x7x1/16/batched | F x=0 w=1 y=2 compute=float mode=correlation pre=0x0 \
                         post=0x0 stride=1x1 dilation=1x1 alpha=1.0 beta=0.0";
    const LAST: &str = "graph half:8x16x9x9@1296x1x144x16/16/batched half:4x16x3x3@144x1x48x16/16 \
                        half:8x4x7x7@196x1x28x4/16/batched | F x=0 w=1 y=2 compute=float mode=correlation pre=0x0 \
                        post=0x0 stride=1x1 dilation=1x1 alpha=1.0 beta=0.0";

    #[test]
    fn channels_go_last_once() {
        let first = problem(FIRST);
        assert_eq!(first.channels_last(), Some(problem(LAST)));
        assert_eq!(problem(LAST).channels_last(), None);
        assert_eq!(first.tensors[0].channels_first(), Some(Matrices::packed(8, 16, 81)));
        assert_eq!(first.tensors[1].channels_first(), Some(Matrices::packed(4, 16, 9)));
    }

    #[test]
    fn few_channels_are_filled_up() {
        let few =
            |text: &str| text.replace("8x16x9x9@1296x81", "8x3x9x9@243x81").replace("4x16x3x3@144x9", "4x3x3x3@27x9");
        let many = |text: &str, channels: usize| {
            let text = text.replace(
                "8x16x9x9@1296x1x144x16",
                &format!("8x{channels}x9x9@{}x1x{}x{channels}", 81 * channels, 9 * channels),
            );
            text.replace(
                "4x16x3x3@144x1x48x16",
                &format!("4x{channels}x3x3@{}x1x{}x{channels}", 9 * channels, 3 * channels),
            )
        };
        let first = problem(&few(FIRST));
        assert_eq!(first.channels_last(), Some(problem(&many(LAST, 8))));
        assert_eq!(first.to_be_transposed(0), Some(Matrices { transposed_pitch: 8, ..Matrices::packed(8, 3, 81) }));
        assert_eq!(first.to_be_transposed(1), Some(Matrices { transposed_pitch: 8, ..Matrices::packed(4, 3, 9) }));
        assert_eq!(first.to_be_transposed(2), Some(Matrices::packed(8, 4, 49)));
        let in_float = |text: &str| text.replace("half", "float");
        assert_eq!(problem(&in_float(&few(FIRST))).channels_last(), Some(problem(&in_float(&many(LAST, 4)))));
        // A filter has the channels of one group only: no padding.
        let grouped =
            problem(&FIRST.replace("8x16x9x9@1296x81", "8x6x9x9@486x81").replace("4x16x3x3@144x9", "4x3x3x3@27x9"));
        assert_eq!(grouped.channels_last().unwrap().tensors[0].dims, [8, 6, 9, 9]);
    }

    #[test]
    fn what_is_not_packed_or_added_to_or_of_another_type_is_left_alone() {
        for (from, to) in [
            ("beta=0.0", "beta=1.0"),
            ("@1296x81x9x1", "@2592x81x9x1"),
            ("@144x9x3x1", "@144x9x1x3"),
            ("half:8x16x9x9@1296x81x9x1/16", "half:8x16x9x9@1296x81x9x1/2"),
            ("half", "double"),
            ("half:4x16", "float:4x16"),
        ] {
            let other = FIRST.replace(from, to);
            assert_ne!(other, FIRST);
            assert_eq!(problem(&other).channels_last(), None, "{other}");
        }
    }

    #[test]
    fn what_is_strided_over_without_being_read_is_left_out() {
        let text = FIRST.replace("4x16x3x3@144x9x3x1/16", "4x16x1x1@16x1x1x1/16");
        let text = text.replace("8x4x7x7@196x49x7x1", "8x4x5x3@60x15x3x1").replace("stride=1x1", "stride=2x3");
        let strided = problem(&text);
        let sampling = Sampling { images: 8, channels: 16, height: 9, width: 9, down: 2, right: 3 };
        assert_eq!(strided.sampling(), Some(sampling));
        assert_eq!(sampling.sampled(), 15);
        let last = strided.channels_last().unwrap();
        assert_eq!(last.tensors[0].dims, [8, 16, 5, 3]);
        assert_eq!(last.tensors[0].strides, [240, 1, 48, 16]);
        assert_eq!(last.convolution().stride, [1, 1]);
        for padded in ["pre=1x0", "post=0x1"] {
            let name = padded.split('=').next().unwrap();
            assert_eq!(problem(&text.replace(&format!("{name}=0x0"), padded)).sampling(), None);
        }
        assert_eq!(problem(FIRST).sampling(), None);
    }

    #[test]
    fn a_filter_of_one_place_stays_where_it_is() {
        let text = FIRST.replace("4x16x3x3@144x9x3x1/16", "4x16x1x1@16x1x1x1/2");
        let text = text.replace("8x4x7x7@196x49x7x1", "8x4x9x9@324x81x9x1");
        let last = problem(&text).channels_last().unwrap();
        assert_eq!(last.tensors[1].alignment, 2);
        assert!(!problem(&text).tensors[1].channels_first().unwrap().differ());
        // A filter's gradient is copied, so it needs the alignment of 16-byte accesses.
        let gradient = text.replace("| F ", "| BF ");
        assert_eq!(problem(&gradient).channels_last(), None);
        let gradient = gradient.replace("@16x1x1x1/2", "@16x1x1x1/32");
        assert_eq!(problem(&gradient).channels_last().unwrap().tensors[1].alignment, 16);
    }
}
