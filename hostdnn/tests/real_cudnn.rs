//! Descriptor functions against the real cuDNN, which needs no GPU for them: the same calls on both libraries give the
//! same statuses and read back the same values.
//!
//! Runs where `UCUDNN_TEST_REAL_CUDNN` names the folder that holds the real `libcudnn.so.9`. Left out, because cuDNN crashes
//! or is undefined there: null for results and arrays; NHWC in two dimensions; fewer than two output dimensions. Left out
//! because hostdnn refuses it: CUDNN_TENSOR_NCHW_VECT_C with the vector types it is for.

mod built;

use libloading::Library;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

type Desc = *mut c_void;
type Ints = *const c_int;
type Out = *mut c_int;

macro_rules! api {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// One of the two libraries.
        #[allow(non_snake_case)]
        struct Api {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
            library: Library,
        }

        impl Api {
            fn open(path: &Path) -> Self {
                // SAFETY: loading cuDNN or hostdnn runs nothing that needs care.
                let library = unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                // SAFETY: the types above are cuDNN's.
                unsafe {
                    Self { $($name: *library.get(concat!(stringify!($name), "\0")).unwrap(),)* library }
                }
            }
        }
    };
}
api! {
    cudnnGetVersion() -> usize;
    cudnnGetErrorString(c_int) -> *const c_char;
    cudnnGetProperty(c_int, Out) -> c_int;
    cudnnCreateTensorDescriptor(*mut Desc) -> c_int;
    cudnnCreateFilterDescriptor(*mut Desc) -> c_int;
    cudnnCreateConvolutionDescriptor(*mut Desc) -> c_int;
    cudnnCreateActivationDescriptor(*mut Desc) -> c_int;
    cudnnCreateOpTensorDescriptor(*mut Desc) -> c_int;
    cudnnDestroy(Desc) -> c_int;
    cudnnDestroyTensorDescriptor(Desc) -> c_int;
    cudnnDestroyFilterDescriptor(Desc) -> c_int;
    cudnnDestroyConvolutionDescriptor(Desc) -> c_int;
    cudnnDestroyActivationDescriptor(Desc) -> c_int;
    cudnnDestroyOpTensorDescriptor(Desc) -> c_int;
    cudnnSetStream(Desc, Desc) -> c_int;
    cudnnSetTensor4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensor4dDescriptorEx(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetTensorNdDescriptor(Desc, c_int, c_int, Ints, Ints) -> c_int;
    cudnnSetTensorNdDescriptorEx(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetTensor4dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetTensorSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetFilter4dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetFilterNdDescriptor(Desc, c_int, c_int, c_int, Ints) -> c_int;
    cudnnGetFilter4dDescriptor(Desc, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterNdDescriptor(Desc, c_int, Out, Out, Out, Out) -> c_int;
    cudnnGetFilterSizeInBytes(Desc, *mut usize) -> c_int;
    cudnnSetConvolution2dDescriptor(Desc, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int;
    cudnnSetConvolutionNdDescriptor(Desc, c_int, Ints, Ints, Ints, c_int, c_int) -> c_int;
    cudnnGetConvolution2dDescriptor(Desc, Out, Out, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdDescriptor(Desc, c_int, Out, Out, Out, Out, Out, Out) -> c_int;
    cudnnSetConvolutionMathType(Desc, c_int) -> c_int;
    cudnnGetConvolutionMathType(Desc, Out) -> c_int;
    cudnnSetConvolutionGroupCount(Desc, c_int) -> c_int;
    cudnnGetConvolutionGroupCount(Desc, Out) -> c_int;
    cudnnSetConvolutionReorderType(Desc, c_int) -> c_int;
    cudnnGetConvolutionReorderType(Desc, Out) -> c_int;
    cudnnGetConvolution2dForwardOutputDim(Desc, Desc, Desc, Out, Out, Out, Out) -> c_int;
    cudnnGetConvolutionNdForwardOutputDim(Desc, Desc, Desc, c_int, Out) -> c_int;
    cudnnSetActivationDescriptor(Desc, c_int, c_int, f64) -> c_int;
    cudnnGetActivationDescriptor(Desc, Out, Out, *mut f64) -> c_int;
    cudnnSetActivationDescriptorSwishBeta(Desc, f64) -> c_int;
    cudnnGetActivationDescriptorSwishBeta(Desc, *mut f64) -> c_int;
    cudnnSetOpTensorDescriptor(Desc, c_int, c_int, c_int) -> c_int;
    cudnnGetOpTensorDescriptor(Desc, Out, Out, Out) -> c_int;
    cudnnGetConvolutionForwardAlgorithmMaxCount(Desc, Out) -> c_int;
    cudnnGetConvolutionForwardWorkspaceSize(Desc, Desc, Desc, Desc, Desc, c_int, *mut usize) -> c_int;
}

/// Both libraries, or `None`, said aloud.
fn both() -> Option<[Api; 2]> {
    let Some(folder) = std::env::var_os("UCUDNN_TEST_REAL_CUDNN") else {
        eprintln!("SKIPPED: UCUDNN_TEST_REAL_CUDNN is not set: no real cuDNN to compare with");
        return None;
    };
    let (ours, real) = (Api::open(&built::library()), Api::open(&Path::new(&folder).join("libcudnn.so.9")));
    let marked = |api: &Api| {
        // SAFETY: the symbol is only looked up.
        unsafe { api.library.get::<unsafe extern "C" fn() -> *const c_char>("hostdnnGetVersion\0") }.is_ok()
    };
    assert!(marked(&ours) && !marked(&real), "the two libraries are not hostdnn and another");
    assert_ne!(ours.cudnnGetVersion as usize, real.cudnnGetVersion as usize, "the two libraries are one");
    Some([ours, real])
}

/// A call in words, with all that came back: comparing transcripts compares libraries.
type Line = (String, Vec<i64>);

/// Descriptors of one library that calls set and read back. Results start at -77, so that what is not written shows.
struct Session<'a> {
    api: &'a Api,
    tensor: Desc,
    filter: Desc,
    convolution: Desc,
    activation: Desc,
    op: Desc,
}

const UNWRITTEN: c_int = -77;

fn wide(values: &[c_int]) -> Vec<i64> {
    values.iter().copied().map(i64::from).collect()
}

// SAFETY of all unsafe blocks below: descriptors are live, and arrays longer than anything that is written to them.
impl<'a> Session<'a> {
    fn new(api: &'a Api) -> Self {
        let make = |create: unsafe extern "C" fn(*mut Desc) -> c_int| {
            let mut desc = null_mut();
            // SAFETY: see above.
            assert_eq!(unsafe { create(&mut desc) }, 0);
            desc
        };
        Self {
            tensor: make(api.cudnnCreateTensorDescriptor),
            filter: make(api.cudnnCreateFilterDescriptor),
            convolution: make(api.cudnnCreateConvolutionDescriptor),
            activation: make(api.cudnnCreateActivationDescriptor),
            op: make(api.cudnnCreateOpTensorDescriptor),
            api,
        }
    }

    fn tensor(&self, requested: c_int) -> Vec<i64> {
        let (mut four, mut head, mut dims, mut strides, mut size) =
            ([UNWRITTEN; 9], [UNWRITTEN; 2], [UNWRITTEN; 10], [UNWRITTEN; 10], 77);
        let [ty, n, c, h, w, sn, sc, sh, sw] = four.each_mut().map(|v| v as Out);
        let [nd_ty, rank] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetTensor4dDescriptor)(self.tensor, ty, n, c, h, w, sn, sc, sh, sw),
                (self.api.cudnnGetTensorNdDescriptor)(
                    self.tensor,
                    requested,
                    nd_ty,
                    rank,
                    dims.as_mut_ptr(),
                    strides.as_mut_ptr(),
                ),
                (self.api.cudnnGetTensorSizeInBytes)(self.tensor, &mut size),
            ]
        };
        [wide(&statuses), wide(&four), wide(&head), wide(&dims), wide(&strides), vec![size as i64]].concat()
    }

    fn filter(&self, requested: c_int) -> Vec<i64> {
        let (mut four, mut head, mut dims, mut size) = ([UNWRITTEN; 6], [UNWRITTEN; 3], [UNWRITTEN; 10], 77);
        let [ty, format, k, c, h, w] = four.each_mut().map(|v| v as Out);
        let [nd_ty, nd_format, rank] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetFilter4dDescriptor)(self.filter, ty, format, k, c, h, w),
                (self.api.cudnnGetFilterNdDescriptor)(
                    self.filter,
                    requested,
                    nd_ty,
                    nd_format,
                    rank,
                    dims.as_mut_ptr(),
                ),
                (self.api.cudnnGetFilterSizeInBytes)(self.filter, &mut size),
            ]
        };
        [wide(&statuses), wide(&four), wide(&head), wide(&dims), vec![size as i64]].concat()
    }

    fn convolution(&self, requested: c_int) -> Vec<i64> {
        let (mut two, mut head, mut arrays, mut rest) =
            ([UNWRITTEN; 8], [UNWRITTEN; 3], [[UNWRITTEN; 8]; 3], [UNWRITTEN; 3]);
        let [ph, pw, u, v, dh, dw, mode, ty] = two.each_mut().map(|v| v as Out);
        let [length, nd_mode, nd_ty] = head.each_mut().map(|v| v as Out);
        let [pad, stride, dilation] = arrays.each_mut().map(|a| a.as_mut_ptr());
        let [math, groups, reorder] = rest.each_mut().map(|v| v as Out);
        let conv = self.convolution;
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetConvolution2dDescriptor)(conv, ph, pw, u, v, dh, dw, mode, ty),
                (self.api.cudnnGetConvolutionNdDescriptor)(
                    conv, requested, length, pad, stride, dilation, nd_mode, nd_ty,
                ),
                (self.api.cudnnGetConvolutionMathType)(conv, math),
                (self.api.cudnnGetConvolutionGroupCount)(conv, groups),
                (self.api.cudnnGetConvolutionReorderType)(conv, reorder),
            ]
        };
        [wide(&statuses), wide(&two), wide(&head), wide(&arrays.concat()), wide(&rest)].concat()
    }

    fn output(&self, count: c_int) -> Vec<i64> {
        let (mut four, mut dims) = ([UNWRITTEN; 4], [UNWRITTEN; 10]);
        let [n, c, h, w] = four.each_mut().map(|v| v as Out);
        let (conv, x, filter) = (self.convolution, self.tensor, self.filter);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetConvolution2dForwardOutputDim)(conv, x, filter, n, c, h, w),
                (self.api.cudnnGetConvolutionNdForwardOutputDim)(conv, x, filter, count, dims.as_mut_ptr()),
            ]
        };
        [wide(&statuses), wide(&four), wide(&dims)].concat()
    }

    fn pointwise(&self) -> Vec<i64> {
        let (mut values, mut numbers) = ([UNWRITTEN; 5], [-77.0f64; 2]);
        let [mode, relu_nan, op, ty, nan] = values.each_mut().map(|v| v as Out);
        let [coef, beta] = numbers.each_mut().map(|v| v as *mut f64);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetActivationDescriptor)(self.activation, mode, relu_nan, coef),
                (self.api.cudnnGetActivationDescriptorSwishBeta)(self.activation, beta),
                (self.api.cudnnGetOpTensorDescriptor)(self.op, op, ty, nan),
            ]
        };
        [wide(&statuses), wide(&values), numbers.map(|v| v.to_bits() as i64).to_vec()].concat()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe {
            (self.api.cudnnDestroyTensorDescriptor)(self.tensor);
            (self.api.cudnnDestroyFilterDescriptor)(self.filter);
            (self.api.cudnnDestroyConvolutionDescriptor)(self.convolution);
            (self.api.cudnnDestroyActivationDescriptor)(self.activation);
            (self.api.cudnnDestroyOpTensorDescriptor)(self.op);
        }
    }
}

/// Values as a program passes them: mostly sound, some not.
struct Dice(StdRng);

impl Dice {
    fn pick<const N: usize>(&mut self, of: [c_int; N]) -> c_int {
        *of.choose(&mut self.0).unwrap()
    }
    fn dim(&mut self) -> c_int {
        if self.0.random_bool(0.9) {
            self.0.random_range(1..12)
        } else {
            self.pick([-3, -1, 0, 0, 1000, 65536, 1 << 20, c_int::MAX])
        }
    }
    fn stride(&mut self) -> c_int {
        if self.0.random_bool(0.9) {
            self.0.random_range(1..400)
        } else {
            self.pick([-7, -1, 0, 0, 1 << 20, c_int::MAX])
        }
    }
    fn step(&mut self) -> c_int {
        if self.0.random_bool(0.95) { self.0.random_range(1..4) } else { self.pick([-1, 0, 1 << 20, c_int::MAX]) }
    }
    fn pad(&mut self) -> c_int {
        if self.0.random_bool(0.95) { self.0.random_range(0..4) } else { self.pick([-1, 1 << 20, 1 << 30, c_int::MAX]) }
    }
    fn data_type(&mut self) -> c_int {
        if self.0.random_bool(0.8) { self.0.random_range(0..3) } else { self.0.random_range(-1..24) }
    }
    fn rank(&mut self, usual: c_int) -> c_int {
        if self.0.random_bool(0.7) { usual } else { self.0.random_range(-1..11) }
    }
    fn array(&mut self, mut value: impl FnMut(&mut Self) -> c_int) -> [c_int; 12] {
        std::array::from_fn(|_| value(self))
    }
    fn enumerator(&mut self, count: c_int) -> c_int {
        if self.0.random_bool(0.85) { self.0.random_range(0..count) } else { self.0.random_range(-2..count + 3) }
    }
}

/// One random call, and what can be read back after it.
fn call(session: &Session, dice: &mut Dice) -> Line {
    let Session { api, tensor, filter, convolution, activation, op } = *session;
    let (data_type, format) = (dice.data_type(), dice.enumerator(2));
    // The one pair that hostdnn refuses and cuDNN takes.
    let format = if format == 2 && matches!(data_type, 5 | 7 | 8) { 3 } else { format };
    let (dims, strides) = (dice.array(Dice::dim), dice.array(Dice::stride));
    let (pads, steps, dilations) = (dice.array(Dice::pad), dice.array(Dice::step), dice.array(Dice::step));
    let mode = dice.enumerator(2);
    let which = dice.0.random_range(0..14);
    // SAFETY: descriptors are live, and arrays longer than any rank that is read.
    unsafe {
        match which {
            0 => {
                let [n, c, h, w, ..] = dims;
                let status = (api.cudnnSetTensor4dDescriptor)(tensor, format, data_type, n, c, h, w);
                line(format!("SetTensor4d {format} {data_type} {:?}", [n, c, h, w]), status, session.tensor(4))
            }
            1 => {
                let ([n, c, h, w, ..], [sn, sc, sh, sw, ..]) = (dims, strides);
                let status = (api.cudnnSetTensor4dDescriptorEx)(tensor, data_type, n, c, h, w, sn, sc, sh, sw);
                let words = format!("SetTensor4dEx {data_type} {:?} {:?}", [n, c, h, w], [sn, sc, sh, sw]);
                line(words, status, session.tensor(9))
            }
            2 => {
                let (rank, requested) = (dice.rank(5), dice.rank(5));
                let status = (api.cudnnSetTensorNdDescriptor)(tensor, data_type, rank, dims.as_ptr(), strides.as_ptr());
                line(format!("SetTensorNd {data_type} {rank} {dims:?} {strides:?}"), status, session.tensor(requested))
            }
            3 => {
                let (rank, requested) = (dice.rank(4), dice.rank(5));
                // cuDNN keeps half of a vector format that it refuses here, and then cannot read it back.
                let format = if format == 2 { 3 } else { format };
                let rank = if rank == 2 && format == 1 { 3 } else { rank };
                let status = (api.cudnnSetTensorNdDescriptorEx)(tensor, format, data_type, rank, dims.as_ptr());
                let words = format!("SetTensorNdEx {format} {data_type} {rank} {dims:?}");
                line(words, status, session.tensor(requested))
            }
            4 => {
                let [k, c, h, w, ..] = dims;
                let status = (api.cudnnSetFilter4dDescriptor)(filter, data_type, format, k, c, h, w);
                line(format!("SetFilter4d {data_type} {format} {:?}", [k, c, h, w]), status, session.filter(4))
            }
            5 => {
                let (rank, requested) = (dice.rank(4), dice.rank(5));
                let status = (api.cudnnSetFilterNdDescriptor)(filter, data_type, format, rank, dims.as_ptr());
                let words = format!("SetFilterNd {data_type} {format} {rank} {dims:?} ask {requested}");
                line(words, status, session.filter(requested))
            }
            6 => {
                let ([ph, pw, ..], [u, v, ..], [dh, dw, ..]) = (pads, steps, dilations);
                let status = (api.cudnnSetConvolution2dDescriptor)(convolution, ph, pw, u, v, dh, dw, mode, data_type);
                let words = format!("SetConvolution2d {:?} {mode} {data_type}", [ph, pw, u, v, dh, dw]);
                line(words, status, session.convolution(6))
            }
            7 => {
                let (rank, requested) = (dice.rank(2), dice.rank(3));
                let status = (api.cudnnSetConvolutionNdDescriptor)(
                    convolution,
                    rank,
                    pads.as_ptr(),
                    steps.as_ptr(),
                    dilations.as_ptr(),
                    mode,
                    data_type,
                );
                let words = format!("SetConvolutionNd {rank} {pads:?} {steps:?} {dilations:?} ask {requested}");
                line(words, status, session.convolution(requested))
            }
            8 => {
                let groups = dice.pick([-1, 0, 1, 1, 1, 2, 3]);
                let (math, reorder) = (dice.enumerator(4), dice.enumerator(2));
                let statuses = [
                    (api.cudnnSetConvolutionGroupCount)(convolution, groups),
                    (api.cudnnSetConvolutionMathType)(convolution, math),
                    (api.cudnnSetConvolutionReorderType)(convolution, reorder),
                ];
                let back = [wide(&statuses), session.convolution(2)].concat();
                (format!("groups {groups} math {math} reorder {reorder}"), back)
            }
            9 => {
                let (mode, nan) = (dice.enumerator(7), dice.enumerator(2));
                let coef: f64 = dice.0.random_range(-2.0..2.0);
                let beta: f64 = dice.0.random_range(-2.0..2.0);
                // cuDNN leaves unset operations uninitialised: both descriptors are set before they are read.
                let statuses = [
                    (api.cudnnSetActivationDescriptor)(activation, 1, 0, 1.0),
                    (api.cudnnSetOpTensorDescriptor)(op, 0, 0, 0),
                    (api.cudnnSetActivationDescriptor)(activation, mode, nan, coef),
                    (api.cudnnSetActivationDescriptorSwishBeta)(activation, beta),
                    (api.cudnnSetOpTensorDescriptor)(op, mode, data_type, nan),
                ];
                let words = format!("activation {mode} {nan} {coef} {beta}, op {mode} {data_type} {nan}");
                (words, [wide(&statuses), session.pointwise()].concat())
            }
            _ => {
                // Shapes that go together now and then: channels follow the filter's, ranks agree.
                let rank = dice.pick([3, 4, 4, 5, 6]);
                let [mut x, mut w] = [dims, dice.array(|dice| dice.0.random_range(1..5))];
                let groups = dice.pick([1, 1, 2, 3]);
                x[1] = w[1].saturating_mul(groups);
                if dice.0.random_bool(0.2) {
                    w[1] += 1;
                }
                let (off, count) = (dice.pick([0, 0, 0, 0, 1]), dice.0.random_range(2..9));
                let statuses = [
                    (api.cudnnSetTensorNdDescriptorEx)(tensor, 0, 0, rank, x.as_ptr()),
                    (api.cudnnSetFilterNdDescriptor)(filter, 0, 0, rank, w.as_ptr()),
                    (api.cudnnSetConvolutionGroupCount)(convolution, groups),
                    (api.cudnnSetConvolutionNdDescriptor)(
                        convolution,
                        rank - 2 + off,
                        pads.as_ptr(),
                        steps.as_ptr(),
                        dilations.as_ptr(),
                        1,
                        0,
                    ),
                ];
                let words = format!("outputs {rank} {x:?} {w:?} {pads:?} {steps:?} {dilations:?} {groups} {count}");
                // Of a convolution that was refused half-way, cuDNN divides by what it was refused for.
                let output = if statuses == [0; 4] { session.output(count) } else { Vec::new() };
                (words, [wide(&statuses), output].concat())
            }
        }
    }
}

fn line(words: String, status: c_int, back: Vec<i64>) -> Line {
    (words, [vec![status.into()], back].concat())
}

#[test]
fn descriptors_are_set_and_read_back_alike() {
    let Some(libraries) = both() else { return };
    let mut compared = 0;
    for seed in 0..2000 {
        let transcripts = libraries.each_ref().map(|api| {
            let session = Session::new(api);
            let mut dice = Dice(StdRng::seed_from_u64(seed));
            let unset = [session.tensor(8), session.filter(8), session.convolution(6)].concat();
            let mut lines = vec![("unset".to_owned(), unset)];
            lines.extend((0..20).map(|_| call(&session, &mut dice)));
            lines
        });
        let [ours, real] = transcripts;
        for (i, (ours, real)) in ours.iter().zip(&real).enumerate() {
            assert_eq!(ours, real, "seed {seed}, call {i}: hostdnn on the left");
            compared += 1;
        }
    }
    eprintln!("{compared} calls compared");
}

#[test]
fn versions_and_error_strings_are_alike() {
    let Some([ours, real]) = both() else { return };
    // SAFETY: strings that live as long as their libraries.
    unsafe {
        assert_eq!((ours.cudnnGetVersion)(), (real.cudnnGetVersion)());
        let name = |api: &Api, status| CStr::from_ptr((api.cudnnGetErrorString)(status)).to_owned();
        for status in -10..8000 {
            assert_eq!(name(&ours, status), name(&real, status), "{status}");
        }
        for property in -1..5 {
            let values = [&ours, &real].map(|api| {
                let mut value = UNWRITTEN;
                ((api.cudnnGetProperty)(property, &mut value), value)
            });
            assert_eq!(values[0], values[1], "property {property}");
        }
    }
}

#[test]
fn null_is_refused_alike() {
    let Some([ours, real]) = both() else { return };
    let statuses = |api: &Api| {
        let (mut value, mut size) = ([UNWRITTEN; 10], 77);
        let v = value.as_mut_ptr();
        let ones = [1; 8].as_ptr();
        let null = null_mut();
        // SAFETY: cuDNN checks the null that each of these hands over.
        unsafe {
            vec![
                (api.cudnnDestroy)(null),
                (api.cudnnSetStream)(null, null),
                (api.cudnnGetProperty)(0, null.cast()),
                (api.cudnnCreateTensorDescriptor)(null.cast()),
                (api.cudnnCreateFilterDescriptor)(null.cast()),
                (api.cudnnCreateConvolutionDescriptor)(null.cast()),
                (api.cudnnCreateActivationDescriptor)(null.cast()),
                (api.cudnnCreateOpTensorDescriptor)(null.cast()),
                (api.cudnnDestroyTensorDescriptor)(null),
                (api.cudnnDestroyFilterDescriptor)(null),
                (api.cudnnDestroyConvolutionDescriptor)(null),
                (api.cudnnDestroyActivationDescriptor)(null),
                (api.cudnnDestroyOpTensorDescriptor)(null),
                (api.cudnnSetTensor4dDescriptor)(null, 0, 0, 1, 1, 1, 1),
                (api.cudnnSetTensor4dDescriptorEx)(null, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                (api.cudnnSetTensorNdDescriptor)(null, 0, 4, ones, ones),
                (api.cudnnSetTensorNdDescriptorEx)(null, 0, 0, 4, ones),
                (api.cudnnGetTensor4dDescriptor)(null, v, v, v, v, v, v, v, v, v),
                (api.cudnnGetTensorNdDescriptor)(null, 4, v, v, v, v),
                (api.cudnnGetTensorSizeInBytes)(null, &mut size),
                (api.cudnnSetFilter4dDescriptor)(null, 0, 0, 1, 1, 1, 1),
                (api.cudnnSetFilterNdDescriptor)(null, 0, 0, 4, ones),
                (api.cudnnGetFilter4dDescriptor)(null, v, v, v, v, v, v),
                (api.cudnnGetFilterNdDescriptor)(null, 4, v, v, v, v),
                (api.cudnnGetFilterSizeInBytes)(null, &mut size),
                (api.cudnnSetConvolution2dDescriptor)(null, 1, 1, 1, 1, 1, 1, 1, 0),
                (api.cudnnSetConvolutionNdDescriptor)(null, 2, ones, ones, ones, 1, 0),
                (api.cudnnGetConvolution2dDescriptor)(null, v, v, v, v, v, v, v, v),
                (api.cudnnGetConvolutionNdDescriptor)(null, 2, v, v, v, v, v, v),
                (api.cudnnSetConvolutionMathType)(null, 0),
                (api.cudnnGetConvolutionMathType)(null, v),
                (api.cudnnSetConvolutionGroupCount)(null, 1),
                (api.cudnnGetConvolutionGroupCount)(null, v),
                (api.cudnnSetConvolutionReorderType)(null, 0),
                (api.cudnnGetConvolutionReorderType)(null, v),
                (api.cudnnGetConvolution2dForwardOutputDim)(null, null, null, v, v, v, v),
                (api.cudnnGetConvolutionNdForwardOutputDim)(null, null, null, 4, v),
                (api.cudnnSetActivationDescriptor)(null, 1, 0, 0.0),
                (api.cudnnSetActivationDescriptorSwishBeta)(null, 1.0),
                (api.cudnnSetOpTensorDescriptor)(null, 0, 0, 0),
                (api.cudnnGetOpTensorDescriptor)(null, v, v, v),
                (api.cudnnGetConvolutionForwardAlgorithmMaxCount)(null, v),
                (api.cudnnGetConvolutionForwardWorkspaceSize)(null, null, null, null, null, 0, &mut size),
            ]
        }
    };
    assert_eq!(statuses(&ours), statuses(&real));
}
