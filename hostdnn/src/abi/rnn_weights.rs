//! The weight space and its layout.

use super::boundary::{context, refer, refer_mut, write};
use super::entries::*;
use crate::descriptor::{RnnDataDescriptor, RnnDescriptor, TensorDescriptor};
use crate::error::{Error, Result, require};
use crate::rnn::{Network, Region};
use cudnn_abi::*;
use std::ffi::c_void;

/// Bytes of the weight space; 0 for a descriptor that is not set, as in cuDNN.
impl Answer for cudnnGetRNNWeightSpaceSize {
    unsafe fn answer(self) -> Result {
        let Self { handle, descriptor, weight_space_size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let descriptor = refer::<RnnDescriptor>(descriptor)?;
            let size = match descriptor.network() {
                Some(network) => weight_bytes(descriptor, &network)?,
                None => 0,
            };
            write(weight_space_size, size)
        }
    }
}

/// Finds the matrix and the bias of `id` in a pseudo layer: W of each gate, R of each gate, the projection. A
/// missing one has a null address and a descriptor without dimensions. As in cuDNN, `weight_space_size` need only reach
/// to the end of the requested weights; if not, the address is still written.
impl Answer for cudnnGetRNNWeightParams {
    unsafe fn answer(self) -> Result {
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(self.handle)?;
            let descriptor = refer::<RnnDescriptor>(self.descriptor)?;
            require(!self.matrix.is_null() && !self.bias.is_null(), "pointers to results are not null")?;
            refer::<TensorDescriptor>(self.matrix_descriptor)?;
            refer::<TensorDescriptor>(self.bias_descriptor)?;
            let network = descriptor.network();
            let layer = usize::try_from(self.pseudo_layer).ok();
            let layer = layer.filter(|&layer| network.is_some_and(|network| layer < network.pseudo_layers()));
            let (Some(network), Some(layer)) = (network, layer) else {
                return require(false, "pseudoLayer is one of the network's");
            };
            let id = usize::try_from(self.id).ok().filter(|&id| id <= 2 * network.cell.gates());
            let Some(id) = id else { return require(false, "linLayerID is one of the cell's") };
            weight_bytes(descriptor, &network)?;
            let data_type = descriptor.settings()?.data_type;
            let element = RnnDataDescriptor::element_size(data_type).unwrap_or(1);
            require(self.weight_space.addr().is_multiple_of(element), "the weight space is aligned to its type")?;
            let space = (self.weight_space, self.weight_space_size, data_type, element);
            write_region(network.matrix(layer, id), space, self.matrix_descriptor, self.matrix)?;
            write_region(network.bias(layer, id), space, self.bias_descriptor, self.bias)
        }
    }
}

/// # Safety
/// The descriptor is live, and the address is valid for a write.
unsafe fn write_region(
    region: Option<Region>,
    (space, size, data_type, element): (*const c_void, usize, cudnnDataType_t, usize),
    descriptor: cudnnTensorDescriptor_t,
    address: *mut *mut c_void,
) -> Result {
    // SAFETY: the caller promises a live descriptor and a valid place; the address, perhaps outside, is not followed.
    unsafe {
        let descriptor = refer_mut::<TensorDescriptor>(descriptor)?;
        let Some(region) = region else {
            *descriptor = TensorDescriptor::default();
            return write(address, std::ptr::null_mut());
        };
        write(address, space.wrapping_byte_add(region.offset * element).cast_mut())?;
        require(region.end() * element <= size, "the weight space reaches to what is asked for")?;
        let dims = [1, region.rows as i32, region.columns as i32];
        descriptor.set_packed(CUDNN_TENSOR_NCHW, data_type, &dims)
    }
}

/// Bytes of the weight space of a descriptor that is set.
pub(super) fn weight_bytes(descriptor: &RnnDescriptor, network: &Network) -> Result<usize> {
    let element = RnnDataDescriptor::element_size(descriptor.settings()?.data_type).unwrap_or(1);
    let count = network.weight_count();
    let too_many = || Error::new(CUDNN_STATUS_NOT_SUPPORTED, "more weights than memory has addresses for");
    count.map(|count| count * element).ok_or_else(too_many)
}
