//! The layout of a weight space.

use std::ffi::c_void;
use std::ptr;

use cudnn_abi::*;

use super::Network;
use crate::calls;
use crate::owned::OwnedTensor;

/// The byte offsets of a pseudo layer's weights in a weight space. The matrices of all gates are contiguous, and so are
/// their biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// W: [G·H, layer's input], row-major.
    pub input: usize,
    /// R: [G·H, P], row-major.
    pub recurrent: usize,
    /// W_p: [P, H], row-major. `None` without a projection.
    pub projection: Option<usize>,
    /// The bias of W: [G·H].
    pub input_bias: Option<usize>,
    /// The bias of R: [G·H].
    pub recurrent_bias: Option<usize>,
}

impl Weights {
    /// Asks cuDNN for a pseudo layer's offsets. Returns `None` if cuDNN refuses or the gates are not contiguous.
    ///
    /// # Safety
    /// `handle` and `descriptor` are live, `descriptor` describes `network`, and `space` has `size` bytes.
    pub unsafe fn find(
        handle: cudnnHandle_t,
        descriptor: cudnnRNNDescriptor_t,
        network: &Network,
        pseudo_layer: usize,
        (space, size): (*const c_void, usize),
    ) -> Option<Self> {
        let (matrix, bias) = (OwnedTensor::unset().ok()?, OwnedTensor::unset().ok()?);
        let (gates, element) = (network.gates(), network.element());
        let mut regions = Vec::with_capacity(2 * gates + 1);
        for id in 0..2 * gates + usize::from(network.projects()) {
            let (mut matrix_data, mut bias_data) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the caller promises the handle, the descriptor and the space; all else is local to this call.
            let status = unsafe {
                calls::cudnnGetRNNWeightParams(
                    handle,
                    descriptor,
                    pseudo_layer as i32,
                    size,
                    space,
                    id as i32,
                    matrix.raw(),
                    &mut matrix_data,
                    bias.raw(),
                    &mut bias_data,
                )
            };
            if status != CUDNN_STATUS_SUCCESS {
                return None;
            }
            let offset = |data: *mut c_void| (!data.is_null()).then(|| data.addr().checked_sub(space.addr())).flatten();
            regions.push((offset(matrix_data), offset(bias_data)));
        }
        let (w, rest) = regions.split_at(gates);
        let (r, projection) = rest.split_at(gates);
        let follow = |first: Option<usize>, others: &mut dyn Iterator<Item = Option<usize>>, bytes: usize| {
            others.enumerate().all(|(gate, other)| other == first.map(|first| first + gate * bytes))
        };
        let columns = network.layer_input(pseudo_layer / network.directions());
        let row = network.hidden * element;
        let projection = projection.first().and_then(|region| region.0);
        let [input, recurrent] = [w, r].map(|regions| regions[0].0);
        let (input_bias, recurrent_bias) = (w[0].1, r[0].1);
        let found = Self { input: input?, recurrent: recurrent?, projection, input_bias, recurrent_bias };
        let sound = follow(w[0].0, &mut w.iter().map(|region| region.0), columns * row)
            && follow(r[0].0, &mut r.iter().map(|region| region.0), network.projection * row)
            && follow(w[0].1, &mut w.iter().map(|region| region.1), row)
            && follow(r[0].1, &mut r.iter().map(|region| region.1), row)
            && found.projection.is_some() == network.projects()
            && found.input_bias.is_some() == network.has_input_bias()
            && found.recurrent_bias.is_some() == network.has_recurrent_bias();
        sound.then_some(found)
    }
}
