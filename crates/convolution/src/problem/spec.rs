//! Convolution problems as text. Tuning results are stored under this text, and processes exchange problems in it.

use std::ffi::c_int;
use std::fmt::Write;

use cudnn_abi::*;

use super::Problem;
use cudnn::names::{DIRECTIONS, MATH_TYPES, MODES, Names, TYPES, list, named, value};
use cudnn::tensor::{MAX_RANK, Tensor, element_size, in_use};

const FORMATS: &Names = &[("nchw", CUDNN_TENSOR_NCHW), ("nhwc", CUDNN_TENSOR_NHWC)];

impl Problem {
    /// The whole problem as one line of text. Equal problems have equal texts, and [`Self::from_spec`] reads them back:
    ///
    /// `F x=float:32x64x27x27@46656x729x27x1 w=float:nchw:192x64x5x5 y=float:32x192x27x27@139968x729x27x1
    /// pad=2x2 stride=1x1 dilation=1x1 mode=correlation compute=float math=default groups=1`
    ///
    /// x, w and y give the element type, the filter's layout, the dimensions, and after `@` a tensor's strides in
    /// elements.
    pub fn spec(&self) -> String {
        let rank = usize::from(self.rank);
        let spatial = rank - 2;
        let mut text = String::with_capacity(256);
        let tensor = |tensor: &Tensor| {
            let data_type = named(TYPES, tensor.data_type);
            format!("{data_type}:{}@{}", list(&tensor.dims[..rank]), list(&tensor.strides[..rank]))
        };
        let filter = (named(TYPES, self.w_type), named(FORMATS, self.w_format), list(&self.w_dims[..rank]));
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{} x={} w={}:{}:{} y={} pad={} stride={} dilation={} mode={} compute={} math={} groups={}",
            self.direction,
            tensor(&self.x),
            filter.0,
            filter.1,
            filter.2,
            tensor(&self.y),
            list(&self.pad[..spatial]),
            list(&self.stride[..spatial]),
            list(&self.dilation[..spatial]),
            named(MODES, self.mode),
            named(TYPES, self.compute_type),
            named(MATH_TYPES, self.math_type),
            self.groups,
        );
        text
    }

    /// Reads the text of [`Self::spec`], and nothing else. `Err` names the part that is wrong, and why.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let mut fields = text.split(' ');
        let name = fields.next().unwrap_or_default();
        let direction = DIRECTIONS.into_iter().find(|direction| direction.to_string() == name);
        let direction = direction.ok_or_else(|| format!("the direction is {name:?}: it must be F, BD or BF"))?;
        let mut field = |key: &str| {
            let field = fields.next().unwrap_or_default();
            let value = field.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
            value.ok_or_else(|| format!("{key}=… is expected where {field:?} stands"))
        };
        let (x, rank) = tensor(field("x")?)?;
        let (w_type, w_format, w_dims) = filter(field("w")?, rank)?;
        let (y, _) = tensor(field("y")?)?;
        let problem = Self {
            direction,
            rank: rank as u8,
            x,
            w_type,
            w_format,
            w_dims,
            y,
            pad: numbers("pad", field("pad")?, rank - 2, 0)?,
            stride: numbers("stride", field("stride")?, rank - 2, 1)?,
            dilation: numbers("dilation", field("dilation")?, rank - 2, 1)?,
            mode: value("mode", MODES, field("mode")?)?,
            compute_type: value("compute", TYPES, field("compute")?)?,
            math_type: value("math", MATH_TYPES, field("math")?)?,
            groups: numbers::<1>("groups", field("groups")?, 1, 1)?[0],
        };
        // One problem has one text: this rejects another rank of y, leading zeros, a number where a name exists,
        // trailing text.
        let canonical = problem.spec();
        if canonical == text { Ok(problem) } else { Err(format!("it reads as {canonical:?}, and differs from that")) }
    }
}

/// Reads exactly `count` numbers, each at least `least`.
fn numbers<const N: usize>(what: &str, text: &str, count: usize, least: c_int) -> Result<[c_int; N], String> {
    let values: Option<Vec<c_int>> = text.split('x').map(|number| number.parse().ok()).collect();
    match values {
        Some(values) if values.len() == count && values.iter().all(|&value| value >= least) => {
            Ok(in_use(&values, count))
        }
        _ => Err(format!("{what} is {text:?}: it must be {count} numbers of at least {least}, with x between them")),
    }
}

fn element_type(what: &str, text: &str) -> Result<cudnnDataType_t, String> {
    let data_type = value(what, TYPES, text)?;
    let planned = element_size(data_type).is_some();
    planned.then_some(data_type).ok_or_else(|| format!("{what}'s type {text} is none whose convolutions are planned"))
}

fn tensor(text: &str) -> Result<(Tensor, usize), String> {
    let parts =
        text.split_once(':').and_then(|(t, rest)| rest.split_once('@').map(|(dims, strides)| (t, dims, strides)));
    let (data_type, dims, strides) = parts.ok_or_else(|| format!("{text:?} is not a tensor's type:dims@strides"))?;
    let rank = dims.split('x').count();
    if !(4..=MAX_RANK).contains(&rank) {
        return Err(format!("a tensor has {rank} dimensions: it must have 4 to {MAX_RANK}"));
    }
    let tensor = Tensor {
        data_type: element_type("a tensor", data_type)?,
        dims: numbers("a tensor's dimensions", dims, rank, 1)?,
        strides: numbers("a tensor's strides", strides, rank, 0)?,
    };
    Ok((tensor, rank))
}

type Filter = (cudnnDataType_t, cudnnTensorFormat_t, [c_int; MAX_RANK]);

fn filter(text: &str, rank: usize) -> Result<Filter, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(data_type), Some(format), Some(dims)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("{text:?} is not a filter's type:format:dims"));
    };
    Ok((
        element_type("the filter", data_type)?,
        value("the filter's format", FORMATS, format)?,
        numbers("the filter's dimensions", dims, rank, 1)?,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const CONV2: &str = "F x=float:32x64x27x27@46656x729x27x1 w=float:nchw:192x64x5x5 \
                         y=float:32x192x27x27@139968x729x27x1 pad=2x2 stride=1x1 dilation=1x1 \
                         mode=correlation compute=float math=default groups=1";

    fn data_type() -> impl Strategy<Value = cudnnDataType_t> {
        select(TYPES).prop_map(|(_, value)| value)
    }

    fn tensors(rank: usize) -> impl Strategy<Value = Tensor> {
        let (dims, strides) = (vec(1..=c_int::MAX, rank), vec(0..=c_int::MAX, rank));
        (data_type(), dims, strides).prop_map(move |(data_type, dims, strides)| Tensor {
            data_type,
            dims: in_use(&dims, rank),
            strides: in_use(&strides, rank),
        })
    }

    fn problems() -> impl Strategy<Value = Problem> {
        (4..=MAX_RANK).prop_flat_map(|rank| {
            let tensors = (tensors(rank), tensors(rank));
            let filter = (data_type(), -9..9, vec(1..=c_int::MAX, rank));
            let spatial = (vec(0..=c_int::MAX, rank - 2), vec(1..=c_int::MAX, rank - 2), vec(1..=9, rank - 2));
            let enumerations = (-9..9, -99..99, -9..9, 1..=c_int::MAX);
            let all = (select(&DIRECTIONS[..]), tensors, filter, spatial, enumerations);
            all.prop_map(move |(direction, (x, y), (w_type, w_format, w_dims), (pad, stride, dilation), rest)| {
                let (mode, compute_type, math_type, groups) = rest;
                Problem {
                    direction,
                    rank: rank as u8,
                    x,
                    w_type,
                    w_format,
                    w_dims: in_use(&w_dims, rank),
                    y,
                    pad: in_use(&pad, rank - 2),
                    stride: in_use(&stride, rank - 2),
                    dilation: in_use(&dilation, rank - 2),
                    mode,
                    compute_type,
                    math_type,
                    groups,
                }
            })
        })
    }

    proptest! {
        #[test]
        fn every_kernel_is_read_back(problem in problems()) {
            prop_assert_eq!(Problem::from_spec(&problem.spec()), Ok(problem));
        }

        /// No field is left out: problems that differ in a single value have different texts.
        #[test]
        fn different_kernels_have_different_texts(a in problems(), b in problems()) {
            let field = |b: &Problem, i: usize| match i {
                0 => Problem { direction: b.direction, ..a },
                1 => Problem { w_type: b.w_type, ..a },
                2 => Problem { w_format: b.w_format, ..a },
                3 => Problem { mode: b.mode, ..a },
                4 => Problem { compute_type: b.compute_type, ..a },
                5 => Problem { math_type: b.math_type, ..a },
                6 => Problem { groups: b.groups, ..a },
                _ if b.rank != a.rank => a,
                7 => Problem { x: b.x, ..a },
                8 => Problem { w_dims: b.w_dims, ..a },
                9 => Problem { y: b.y, ..a },
                10 => Problem { pad: b.pad, ..a },
                11 => Problem { stride: b.stride, ..a },
                _ => Problem { dilation: b.dilation, ..a },
            };
            for i in 0..=12 {
                let changed = field(&b, i);
                prop_assert_eq!(changed == a, changed.spec() == a.spec(), "field {}", i);
            }
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(cut in 0..CONV2.len(), text in ".{0,9}") {
            let garbage = format!("{}{text}{}", &CONV2[..cut], &CONV2[(cut + text.len()).min(CONV2.len())..]);
            if let Ok(problem) = Problem::from_spec(&garbage) {
                prop_assert_eq!(problem.spec(), garbage);
            }
        }
    }

    #[test]
    fn the_text_is_as_documented() {
        let problem = Problem::from_spec(CONV2).unwrap();
        assert_eq!(problem.spec(), CONV2);
        assert_eq!(problem.to_string(), "F float 32x64x27x27 * 192x64x5x5 pad 2x2 stride 1x1");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (change, with, message) in [
            ("F x", "FW x", "the direction is \"FW\": it must be F, BD or BF"),
            ("x=float", "x=int8", "a tensor is \"int8\": it must be one of float, double"),
            ("x=float", "x=3", "a tensor's type 3 is none whose convolutions are planned"),
            ("x=float", "x=0", "it reads as"),
            ("32x64x27x27@", "32x64@", "a tensor has 2 dimensions: it must have 4 to 5"),
            ("@46656x729x27x1", "", "is not a tensor's type:dims@strides"),
            ("32x192x27x27@139968x729x27x1", "32x192x27x27x1@139968x729x27x1x1", "it reads as"),
            ("pad=2x2", "pad=2", "pad is \"2\": it must be 2 numbers of at least 0, with x between them"),
            ("pad=2x2", "pad=-1x2", "pad is \"-1x2\""),
            ("pad=2x2 ", "", "pad=… is expected where \"stride=1x1\" stands"),
            ("stride=1x1", "stride=0x1", "stride is \"0x1\""),
            ("groups=1", "groups=01", "it reads as"),
            ("groups=1", "groups=1 more=2", "it reads as"),
        ] {
            let text = CONV2.replacen(change, with, 1);
            let error = Problem::from_spec(&text).unwrap_err();
            assert!(error.contains(message), "{text}\n{error}");
        }
    }
}
