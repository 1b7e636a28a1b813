//! Tensors of any type and layout for the tests of arithmetic, with their values in double precision.

use cudnn_abi::*;
use half::{bf16, f16};
use hostdnn::abi::*;
use rand::Rng;
use rand::rngs::StdRng;
use std::ffi::c_void;
use std::ptr::null_mut;

/// A scaling factor in the type that cuDNN reads for data of `data_type`.
pub struct Scale([f64; 1], [f32; 1], bool);

impl Scale {
    pub fn new(value: f64, data_type: cudnnDataType_t) -> Self {
        Self([value], [value as f32], data_type == CUDNN_DATA_DOUBLE)
    }
    pub fn pointer(&self) -> *const c_void {
        if self.2 { self.0.as_ptr().cast() } else { self.1.as_ptr().cast() }
    }
}

/// A tensor in memory. Bytes between its elements hold NaN, and must keep it.
pub struct Operand {
    pub data_type: cudnnDataType_t,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
    bytes: Vec<u8>,
    pub desc: cudnnTensorDescriptor_t,
}

pub fn element_size(data_type: cudnnDataType_t) -> usize {
    match data_type {
        CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 => 2,
        CUDNN_DATA_FLOAT => 4,
        _ => 8,
    }
}

/// The largest relative error of storing in `data_type`.
pub fn precision(data_type: cudnnDataType_t) -> f64 {
    match data_type {
        CUDNN_DATA_HALF => f64::powi(2.0, -11),
        CUDNN_DATA_BFLOAT16 => f64::powi(2.0, -8),
        CUDNN_DATA_FLOAT => f64::powi(2.0, -24),
        _ => f64::powi(2.0, -53),
    }
}

pub fn packed(dims: &[usize]) -> Vec<usize> {
    (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect()
}

pub fn channels_last(dims: &[usize]) -> Vec<usize> {
    let mut order = vec![dims[0]];
    order.extend(&dims[2..]);
    order.push(dims[1]);
    let strides = packed(&order);
    let mut result = vec![strides[0], 1];
    result.extend(&strides[1..strides.len() - 1]);
    result
}

/// Strides of a tensor with a gap after every dimension.
pub fn gapped(dims: &[usize]) -> Vec<usize> {
    let wide: Vec<usize> = dims.iter().map(|dim| dim + 1).collect();
    packed(&wide).iter().map(|stride| stride * 2).collect()
}

impl Operand {
    /// A tensor full of NaN.
    pub fn poisoned(data_type: cudnnDataType_t, dims: &[usize], strides: Vec<usize>) -> Self {
        let span: usize = dims.iter().zip(&strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>() + 1;
        let ints = |values: &[usize]| values.iter().map(|&value| value as i32).collect::<Vec<_>>();
        let mut desc = null_mut();
        // SAFETY: the arrays are as long as the rank.
        unsafe {
            assert_eq!(cudnnCreateTensorDescriptor(&mut desc), CUDNN_STATUS_SUCCESS);
            let (dims, strides) = (ints(dims), ints(&strides));
            let set = cudnnSetTensorNdDescriptor(desc, data_type, dims.len() as i32, dims.as_ptr(), strides.as_ptr());
            assert_eq!(set, CUDNN_STATUS_SUCCESS, "{dims:?} {strides:?}");
        }
        let mut operand =
            Self { data_type, dims: dims.to_vec(), strides, bytes: vec![0; span * element_size(data_type)], desc };
        (0..span).for_each(|i| operand.put(i, f64::NAN));
        operand
    }

    /// Uniform values in -1..1, rounded to the type.
    pub fn random(data_type: cudnnDataType_t, dims: &[usize], strides: Vec<usize>, dice: &mut StdRng) -> Self {
        let mut operand = Self::poisoned(data_type, dims, strides);
        let values: Vec<f64> = (0..operand.count()).map(|_| dice.random_range(-1.0..1.0)).collect();
        operand.fill(&values);
        operand
    }

    pub fn fill(&mut self, values: &[f64]) {
        assert_eq!(values.len(), self.count());
        let offsets = self.offsets();
        offsets.into_iter().zip(values).for_each(|(at, &value)| self.put(at, value));
    }

    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn pointer(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    pub fn pointer_mut(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Offsets of all elements, the last dimension fastest.
    fn offsets(&self) -> Vec<usize> {
        let mut all = vec![0];
        for (&dim, &stride) in self.dims.iter().zip(&self.strides) {
            all = all.iter().flat_map(|&at| (0..dim).map(move |i| at + i * stride)).collect();
        }
        all
    }

    /// All elements, the last dimension fastest.
    pub fn values(&self) -> Vec<f64> {
        self.offsets().into_iter().map(|at| self.get(at)).collect()
    }

    /// Panics if anything between the elements has changed.
    pub fn check_gaps(&self) {
        let mut between = vec![true; self.bytes.len() / element_size(self.data_type)];
        self.offsets().into_iter().for_each(|at| between[at] = false);
        let touched = between.iter().enumerate().find(|&(at, &gap)| gap && !self.get(at).is_nan());
        assert_eq!(touched, None, "written outside of the tensor");
    }

    fn get(&self, at: usize) -> f64 {
        let size = element_size(self.data_type);
        let bytes = &self.bytes[at * size..(at + 1) * size];
        match self.data_type {
            CUDNN_DATA_HALF => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            CUDNN_DATA_BFLOAT16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
            CUDNN_DATA_FLOAT => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
            _ => f64::from_le_bytes(bytes.try_into().unwrap()),
        }
    }

    fn put(&mut self, at: usize, value: f64) {
        let size = element_size(self.data_type);
        let bytes = &mut self.bytes[at * size..(at + 1) * size];
        match self.data_type {
            CUDNN_DATA_HALF => bytes.copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            CUDNN_DATA_BFLOAT16 => bytes.copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            CUDNN_DATA_FLOAT => bytes.copy_from_slice(&(value as f32).to_le_bytes()),
            _ => bytes.copy_from_slice(&value.to_le_bytes()),
        }
    }
}

impl Drop for Operand {
    fn drop(&mut self) {
        // SAFETY: made in `poisoned`, and used no more.
        unsafe { cudnnDestroyTensorDescriptor(self.desc) };
    }
}

/// `||got - want|| / ||want||`; NaN if any value is.
pub fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut got.iter().zip(want).map(|(a, b)| a - b));
    if difference == 0.0 { 0.0 } else { difference / norm(&mut want.iter().copied()) }
}

/// A handle for one test.
pub struct Handle(pub cudnnHandle_t);

impl Handle {
    pub fn new() -> Self {
        let mut handle = null_mut();
        // SAFETY: the place is valid for a write.
        assert_eq!(unsafe { cudnnCreate(&mut handle) }, CUDNN_STATUS_SUCCESS);
        Self(handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe { cudnnDestroy(self.0) };
    }
}
