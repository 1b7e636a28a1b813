//! What the functions of batch normalization share: the rules for their arguments, in cuDNN's order.

use super::boundary::refer;
use crate::descriptor::{ActivationDescriptor, TensorDescriptor};
use crate::error::{Error, Result, require, support};
use crate::norm::{Blend, Mode, Relu, Shape, Tensor, mask_bytes};
use cudnn_abi::*;
use std::ffi::c_void;

/// The groups that a mode makes. CUDNN_BATCHNORM_SPATIAL_PERSISTENT computes what CUDNN_BATCHNORM_SPATIAL does.
pub(super) fn groups(mode: cudnnBatchNormMode_t) -> Result<Mode> {
    match mode {
        CUDNN_BATCHNORM_PER_ACTIVATION => Ok(Mode::PerActivation),
        CUDNN_BATCHNORM_SPATIAL | CUDNN_BATCHNORM_SPATIAL_PERSISTENT => Ok(Mode::Spatial),
        _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM, "violated: mode is a cudnnBatchNormMode_t")),
    }
}

/// The descriptor of parameters for `x`: packed, [1, c, 1, 1] or [1, c, h, w], in double for doubles and in float for
/// smaller types.
pub(super) fn derived(x: &TensorDescriptor, mode: cudnnBatchNormMode_t) -> Result<TensorDescriptor> {
    let mode = groups(mode)?;
    let mut dims = x.dims().to_vec();
    require(!dims.is_empty(), "descriptors are set")?;
    dims[0] = 1;
    if mode == Mode::Spatial {
        dims[2..].fill(1);
    }
    let data_type = match x.data_type() {
        CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 | CUDNN_DATA_INT8 => CUDNN_DATA_FLOAT,
        other => other,
    };
    let mut derived = TensorDescriptor::default();
    derived.set_packed(CUDNN_TENSOR_NCHW, data_type, &dims)?;
    Ok(derived)
}

/// Checks tensors of one type and shape, and the descriptor of their parameters.
pub(super) fn shape(
    mode: cudnnBatchNormMode_t,
    tensors: &[&TensorDescriptor],
    parameters: &TensorDescriptor,
) -> Result<Shape> {
    let groups = groups(mode)?;
    let x = tensors[0];
    require(matches!(x.dims().len(), 4 | 5), "tensors have four or five dimensions")?;
    require(tensors.iter().all(|tensor| alike(tensor, x)), "tensors have one type and the same dimensions")?;
    require(!tensors.iter().any(|tensor| tensor.is_reversed()), "strides are not negative")?;
    let derived = derived(x, mode)?;
    require(alike(parameters, &derived), "parameters have the type and dimensions of the derived descriptor")?;
    // The stride of a single element does not matter.
    let extents = derived.dims().iter().zip(parameters.strides().iter().zip(derived.strides()));
    require(extents.into_iter().all(|(&dim, (a, b))| dim == 1 || a == b), "parameters are packed")?;
    support(is_number(x.data_type()), "half, bfloat16, float or double")?;
    let mut dims = [1; 5];
    five(&mut dims, x.dims());
    Ok(Shape { mode: groups, dims })
}

fn alike(a: &TensorDescriptor, b: &TensorDescriptor) -> bool {
    a.dims() == b.dims() && a.data_type() == b.data_type()
}

fn is_number(data_type: cudnnDataType_t) -> bool {
    matches!(data_type, CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16 | CUDNN_DATA_FLOAT | CUDNN_DATA_DOUBLE)
}

/// Values of n, c, h, w or n, c, d, h, w as five.
fn five(to: &mut [usize; 5], values: &[i32]) {
    for (i, &value) in values.iter().enumerate() {
        to[if i < 2 { i } else { i + 5 - values.len() }] = value as usize;
    }
}

/// Checks that results have places of their own. A result in place has its operand's strides.
pub(super) fn check_result(
    (to, y): (&TensorDescriptor, *mut c_void),
    operands: &[(&TensorDescriptor, *const c_void)],
) -> Result {
    support(to.is_injective(), "the output's elements do not overlap")?;
    let fits = |&(from, x): &(&TensorDescriptor, *const c_void)| x != y.cast_const() || from.strides() == to.strides();
    require(operands.iter().all(fits), "strides are equal in place")
}

/// The tensor at `data`, whose descriptor has passed [`shape`].
pub(super) fn tensor<T>(descriptor: &TensorDescriptor, data: *const c_void) -> Tensor<T> {
    let mut strides = [0; 5];
    five(&mut strides, descriptor.strides());
    Tensor { data: data.cast_mut().cast(), strides }
}

/// The pair of scaling factors of a result.
///
/// # Safety
/// The pointers are null or point to numbers of the type that `data_type` asks for.
pub(super) unsafe fn blend(alpha: *const c_void, beta: *const c_void, data_type: cudnnDataType_t) -> Result<Blend> {
    use super::boundary::scale;
    // SAFETY: the caller's promise.
    unsafe { Ok(Blend { alpha: scale(alpha, data_type)?, beta: scale(beta, data_type)? }) }
}

/// Checks epsilon, and that a pair of saved statistics is whole. Returns whether there is one.
pub(super) fn check_statistics(epsilon: f64, saved: [*const c_void; 2]) -> Result<bool> {
    require(epsilon >= CUDNN_BN_MIN_EPSILON, "epsilon is at least CUDNN_BN_MIN_EPSILON")?;
    let [mean, deviation] = saved.map(|pointer| !pointer.is_null());
    require(mean == deviation, "both saved statistics are given, or none")?;
    Ok(mean)
}

/// Numbers of a parameter: double for doubles, float otherwise.
///
/// # Safety
/// `from` is null or valid for `count` such numbers.
pub(super) unsafe fn read_parameter(from: *const c_void, count: usize, data_type: cudnnDataType_t) -> Result<Vec<f64>> {
    require(!from.is_null(), "parameters are not null")?;
    // SAFETY: the caller's promise.
    let number = |i| unsafe {
        match data_type {
            CUDNN_DATA_DOUBLE => from.cast::<f64>().add(i).read_unaligned(),
            _ => from.cast::<f32>().add(i).read_unaligned().into(),
        }
    };
    Ok((0..count).map(number).collect())
}

/// Writes numbers of a parameter.
///
/// # Safety
/// `to` is valid for the numbers.
pub(super) unsafe fn write_parameter(to: *mut c_void, values: &[f64], data_type: cudnnDataType_t) {
    for (i, &value) in values.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            match data_type {
                CUDNN_DATA_DOUBLE => to.cast::<f64>().add(i).write_unaligned(value),
                _ => to.cast::<f32>().add(i).write_unaligned(value as f32),
            }
        }
    }
}

/// Temporary memory of the Ex functions.
#[derive(Clone, Copy)]
pub(super) struct Spaces {
    pub workspace: (*mut c_void, usize),
    pub reserve: (*mut c_void, usize),
}

/// What follows the normalization: a ReLU, and before it perhaps the sum with another tensor.
pub(super) struct Fused<'a> {
    activation: &'a ActivationDescriptor,
    /// z, or dz.
    pub sum: Option<&'a TensorDescriptor>,
}

impl<'a> Fused<'a> {
    /// What `ops` asks for; `None` for CUDNN_BATCHNORM_OPS_BN.
    ///
    /// # Safety
    /// The descriptors are null or live.
    pub unsafe fn new(
        ops: cudnnBatchNormOps_t,
        activation: cudnnActivationDescriptor_t,
        sum: cudnnTensorDescriptor_t,
    ) -> Result<Option<Self>> {
        // SAFETY: the caller's promise.
        unsafe {
            match ops {
                CUDNN_BATCHNORM_OPS_BN => Ok(None),
                CUDNN_BATCHNORM_OPS_BN_ACTIVATION => Ok(Some(Self { activation: refer(activation)?, sum: None })),
                CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION => {
                    Ok(Some(Self { activation: refer(activation)?, sum: Some(refer(sum)?) }))
                }
                _ => Err(Error::new(CUDNN_STATUS_BAD_PARAM, "violated: bnOps is a cudnnBatchNormOps_t")),
            }
        }
    }

    pub fn relu(&self) -> Relu {
        Relu { keeps_nan: self.activation.nan_propagation == CUDNN_PROPAGATE_NAN }
    }

    /// Checks the mode and layouts that cuDNN fuses. It does so before it compares types and dimensions.
    pub fn check_layouts(&self, mode: cudnnBatchNormMode_t, tensors: &[&TensorDescriptor]) -> Result {
        groups(mode)?;
        support(mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT, "operations are fused in SPATIAL_PERSISTENT mode")?;
        support(tensors.iter().all(|tensor| is_channels_last(tensor)), "operations are fused on packed NHWC")?;
        support(tensors[0].data_type() != CUDNN_DATA_DOUBLE, "operations are fused in half, bfloat16 and float")
    }

    /// Checks the sum's tensor and the activation, after [`shape`].
    pub fn check_operations(&self, x: &TensorDescriptor) -> Result {
        if let Some(sum) = self.sum {
            require(alike(sum, x), "tensors have one type and the same dimensions")?;
            support(is_channels_last(sum), "operations are fused on packed NHWC")?;
        }
        support(self.activation.mode == CUDNN_ACTIVATION_RELU, "the activation is CUDNN_ACTIVATION_RELU")
    }

    /// Whether the sum's kernels take the channels. The backward workspace's size does not depend on it.
    pub fn check_channels(&self, x: &TensorDescriptor) -> Result {
        support(self.sum.is_none() || x.dims()[1] % 4 == 0, "a sum's channels are a multiple of four")
    }

    /// Checks temporary memory and saved statistics.
    pub fn check_spaces(&self, x: &TensorDescriptor, shape: &Shape, spaces: Spaces, saved: bool) -> Result {
        let holds = |(space, size): (*mut c_void, usize), needed| !space.is_null() && size >= needed;
        let workspace = workspace_bytes(CUDNN_BATCHNORM_SPATIAL_PERSISTENT, x);
        support(holds(spaces.workspace, workspace), "the workspace is large enough")?;
        support(self.sum.is_none() || holds(spaces.reserve, reserve_bytes(shape)), "the reserve is large enough")?;
        support(saved, "fused operations save statistics")
    }
}

/// Returns whether a tensor is packed with its channels innermost. The strides of single elements do not matter.
pub(super) fn is_channels_last(tensor: &TensorDescriptor) -> bool {
    let (dims, strides) = (tensor.dims(), tensor.strides());
    let mut step = 1;
    [1].into_iter().chain((2..dims.len()).rev()).chain([0]).all(|i| match dims.get(i) {
        None => false,
        Some(&dim) => {
            let packed = dim == 1 || strides[i] == step;
            step *= dim;
            packed
        }
    })
}

/// Bytes of workspace: two doubles for each channel where cuDNN's persistent kernels run. cuDNN's own sizes depend on
/// the GPU. hostdnn asks for the workspace and does not use it.
pub(super) fn workspace_bytes(mode: cudnnBatchNormMode_t, x: &TensorDescriptor) -> usize {
    let persistent = mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    match persistent && is_channels_last(x) && x.data_type() != CUDNN_DATA_DOUBLE {
        true => 2 * size_of::<f64>() * x.dims()[1] as usize,
        false => 0,
    }
}

/// Bytes of reserve for a mask, as many as cuDNN asks for.
pub(super) fn reserve_bytes(shape: &Shape) -> usize {
    mask_bytes(shape).next_multiple_of(256) + 1024
}
