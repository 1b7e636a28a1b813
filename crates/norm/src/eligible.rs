//! Checks of a call's arguments: whether our kernels can answer it. A call that cuDNN might refuse goes to cuDNN, which
//! reports the error itself.

use std::ffi::c_void;
use std::ops::Range;

use cudnn_abi::*;

use super::shape::{Planes, VECTOR_BYTES};
use cudnn::tensor::Tensor;
use gpu::Element;

/// Bytes of a tensor, and of a number for each channel.
pub fn sizes(planes: &Planes) -> [usize; 2] {
    let elements = planes.images.saturating_mul(planes.channels).saturating_mul(planes.plane);
    [elements.saturating_mul(planes.element.bytes()), planes.channels * size_of::<f32>()]
}

/// Checks that a call only normalizes, over each channel.
pub fn is_plain(
    mode: cudnnBatchNormMode_t,
    ops: Option<cudnnBatchNormOps_t>,
    epsilon: f64,
) -> Result<(), &'static str> {
    let is_spatial = mode == CUDNN_BATCHNORM_SPATIAL || mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    let refusals = [
        (!is_spatial, "its mode is not a spatial one"),
        (ops.is_some_and(|ops| ops != CUDNN_BATCHNORM_OPS_BN), "it is fused with other operations"),
        (!(0.0..=f64::from(f32::MAX)).contains(&epsilon), "its epsilon is not a positive number that a float holds"),
    ];
    refusals.into_iter().find(|(refused, _)| *refused).map_or(Ok(()), |(_, why)| Err(why))
}

/// Checks that a result replaces the old values: result · 1 + old · 0.
///
/// # Safety
/// The pointers are null or to floats, as they are for half, bfloat16 and float tensors, or to doubles.
pub unsafe fn is_replaced(alpha: *const c_void, beta: *const c_void) -> Result<(), &'static str> {
    if alpha.is_null() || beta.is_null() {
        return Err("a factor is null");
    }
    // SAFETY: the pointers are to floats, or to something longer; any alignment is fine.
    let factors = unsafe { [alpha, beta].map(|factor| factor.cast::<f32>().read_unaligned()) };
    if factors == [1.0, 0.0] { Ok(()) } else { Err("it scales its result, or adds it to another") }
}

/// The planes of tensors that are alike.
///
/// # Safety
/// The descriptors are null or alive.
pub unsafe fn planes(
    tensors: &[cudnnTensorDescriptor_t],
    parameters: cudnnTensorDescriptor_t,
) -> Result<Planes, &'static str> {
    // SAFETY: the caller promises descriptors that are null or alive.
    let read = |descriptor| unsafe { Tensor::read(descriptor) };
    let first = read(tensors[0]).ok_or("a tensor's descriptor is not readable")?;
    if tensors[1..].iter().any(|&other| read(other) != Some(first)) {
        return Err("its tensors differ");
    }
    let (rank, Tensor { data_type, dims, strides }) = first;
    let element = Element::of(data_type).ok_or("its type is not half, bfloat16 or float")?;
    let mut stride = 1_i64;
    for axis in (0..rank).rev() {
        if i64::from(strides[axis]) != stride {
            return Err("its tensors are not packed with the channels first");
        }
        stride = stride.saturating_mul(dims[axis].into());
    }
    let (parameter_rank, of_parameters) = read(parameters).ok_or("the parameters' descriptor is not readable")?;
    let numbers = std::array::from_fn(|axis| if axis == 1 { dims[1] } else { i32::from(axis < rank) });
    if (parameter_rank, of_parameters.data_type, of_parameters.dims) != (rank, CUDNN_DATA_FLOAT, numbers) {
        return Err("the parameters' descriptor does not go with x's");
    }
    // The stride of a single channel does not matter, as those of the other axes.
    if dims[1] > 1 && of_parameters.strides[1] != 1 {
        return Err("its parameters are not packed");
    }
    let dims = dims.map(|dim| dim as usize);
    let plane =
        dims[2..rank].iter().try_fold(1_usize, |plane, &dim| plane.checked_mul(dim)).ok_or("it is too large")?;
    Ok(Planes { element, images: dims[0], channels: dims[1], plane })
}

/// Checks that our kernels can share a channel out to the blocks of a cluster.
pub fn is_reduced(planes: &Planes) -> Result<(), &'static str> {
    planes.vectors().map(drop).ok_or("an image is not whole vectors of 16 bytes, or a channel has too many")
}

/// Checks that memory is there and aligned, and that results overlap nothing: they may only replace a whole input
/// tensor. A piece of memory is its first byte and its size. Optional results are null.
pub fn is_sound(
    read: &[(*const c_void, usize)],
    written: &[(*const c_void, usize)],
    needed: &[*const c_void],
    vectors: &[*const c_void],
) -> Result<(), &'static str> {
    if read.iter().any(|piece| piece.0.is_null()) || needed.iter().any(|place| place.is_null()) {
        return Err("something is null");
    }
    let is_aligned = |place: &*const c_void, to: usize| place.addr().is_multiple_of(to);
    let all = || read.iter().chain(written);
    if vectors.iter().any(|place| !is_aligned(place, VECTOR_BYTES)) || all().any(|piece| !is_aligned(&piece.0, 4)) {
        return Err("its memory is not aligned");
    }
    let range = |piece: &(*const c_void, usize)| -> Range<usize> {
        if piece.0.is_null() { 0..0 } else { piece.0.addr()..piece.0.addr().saturating_add(piece.1) }
    };
    let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    for (index, result) in written.iter().enumerate() {
        let its = range(result);
        let is_replaced = |piece: &(*const c_void, usize)| index == 0 && piece == result;
        let inputs = read.iter().filter(|piece| !is_replaced(piece)).map(range);
        let results = written[index + 1..].iter().map(range);
        if inputs.chain(results).any(|other| overlap(&its, &other)) {
            return Err("a result overlaps other data");
        }
    }
    Ok(())
}
