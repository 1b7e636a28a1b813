//! Decides which networks, data and calls our kernels can answer. A call that cuDNN might refuse goes to cuDNN, which
//! reports the error itself.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::network::call::Call;
use crate::network::memory::Unsound;
use cudnn::calls;
use cudnn::rnn::{Data, Network, is_state};
use gpu::Element;

/// The network and the data of a call.
pub struct Case {
    pub network: Network,
    /// x's data; y has the same sequences.
    pub data: Data,
    /// The value of y's rows behind the ends of their sequences.
    pub padding_fill: [u8; 8],
}

impl Case {
    /// Reads a call. `Err` gives the reason why cuDNN has to run it.
    pub fn of(call: &Call) -> Result<Self, &'static str> {
        if call.mode != CUDNN_FWD_MODE_INFERENCE {
            return Err("it is no inference");
        }
        let memory = &call.memory();
        let needed = [memory.x, memory.y, memory.weight_space, memory.workspace];
        if needed.iter().any(|pointer| pointer.is_null()) {
            return Err("data, weights or workspace are null");
        }
        // SAFETY: the descriptor is a call's.
        let network = unsafe { Network::read(call.descriptor) }.ok_or("its RNN descriptor is not readable")?;
        // SAFETY: the descriptor is a call's.
        let data = unsafe { Data::read(call.x_descriptor) }.ok_or("x's descriptor is not readable")?;
        takes(&network, &data)?;
        let states = [
            (call.h_descriptor, [memory.hx, memory.hy.cast_const()]),
            (call.c_descriptor, [memory.cx, memory.cy.cast_const()]),
        ];
        // SAFETY: handle and descriptors are a call's.
        let padding_fill = unsafe {
            check_states(&network, &data, states)?;
            check_weight_space(call.handle, call.descriptor, memory.weight_space_size)?;
            output(&network, &data, call.y_descriptor)?.padding_fill
        };
        // If our kernels fail, cuDNN runs the call again, so results must not overwrite inputs.
        memory.check(&network, &data).map_err(Unsound::why)?;
        Ok(Self { network, data, padding_fill })
    }
}

/// Reads y's descriptor, which has to go with x's data.
///
/// # Safety
/// The descriptor is null or live.
pub unsafe fn output(
    network: &Network,
    data: &Data,
    y_descriptor: cudnnRNNDataDescriptor_t,
) -> Result<Data, &'static str> {
    // SAFETY: the descriptor is null or live.
    let y = unsafe { Data::read(y_descriptor) }.ok_or("y's descriptor is not readable")?;
    let alike = y.data_type == data.data_type && y.layout == data.layout && y.steps == data.steps;
    let is_as_wide = y.vector == network.output();
    let matches = alike && is_as_wide && y.lengths == data.lengths;
    matches.then_some(y).ok_or("y's descriptor does not go with x's")
}

/// Checks the descriptors of h and of c, if they are needed: one of its two pointers is not null.
///
/// # Safety
/// The descriptors are null or live.
pub unsafe fn check_states(
    network: &Network,
    data: &Data,
    states: [(cudnnTensorDescriptor_t, [*const c_void; 2]); 2],
) -> Result<(), &'static str> {
    for ((descriptor, pointers), width) in states.into_iter().zip([network.projection, network.hidden]) {
        let shape = [network.pseudo_layers(), data.batch(), width];
        let is_needed = pointers.into_iter().any(|pointer| !pointer.is_null());
        // SAFETY: the descriptor is null or live.
        if is_needed && !unsafe { is_state(descriptor, shape) } {
            return Err("a state's descriptor does not go with the network's");
        }
    }
    Ok(())
}

/// Checks a weight space's size.
///
/// # Safety
/// The handle and the descriptor are null or live.
pub unsafe fn check_weight_space(
    handle: cudnnHandle_t,
    descriptor: cudnnRNNDescriptor_t,
    space_size: usize,
) -> Result<(), &'static str> {
    let mut size = 0;
    // SAFETY: handle and descriptor are null or live, and `size` is a local.
    let status = unsafe { calls::cudnnGetRNNWeightSpaceSize(handle, descriptor, &mut size) };
    if status == CUDNN_STATUS_SUCCESS && space_size >= size { Ok(()) } else { Err("the weight space is too small") }
}

/// Checks that our kernels support such a network on such data. `Err` gives the reason if not.
pub fn takes(network: &Network, data: &Data) -> Result<(), &'static str> {
    let known = (CUDNN_RNN_NO_BIAS..=CUDNN_RNN_SINGLE_REC_BIAS).contains(&network.bias)
        && (CUDNN_UNIDIRECTIONAL..=CUDNN_BIDIRECTIONAL).contains(&network.direction)
        && network.flags & !CUDNN_RNN_PADDED_IO_ENABLED == 0
        && network.gates() > 0;
    let padded = match data.layout {
        CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED => false,
        CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED => !data.is_full(),
        _ => true,
    };
    let layouts = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED..=CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
    let sorted = || data.lengths.is_sorted_by(|a, b| a >= b) && data.lengths.first() == Some(&(data.steps as i32));
    let is_strict_float = network.data_type == CUDNN_DATA_FLOAT && network.math_type == CUDNN_FMA_MATH;
    let refusals = [
        (!known, "the network is of a kind that is not known here"),
        (Element::of(network.data_type).is_none(), "its type is double"),
        (network.projects() && network.cell != CUDNN_LSTM, "only LSTM has a projection"),
        (network.projection > network.hidden, "its projection is wider than its state"),
        (network.projects() && is_strict_float, "R W_p would be rounded more than floats without TF32 are"),
        (network.is_clipped, "it clips"),
        (network.input_mode != CUDNN_LINEAR_INPUT, "its first layer skips the input product"),
        (data.data_type != network.data_type || data.vector != network.input, "x's descriptor is another network's"),
        (!layouts.contains(&data.layout), "the layout is not known here"),
        (padded && network.flags & CUDNN_RNN_PADDED_IO_ENABLED == 0, "data are padded without the flag for it"),
        (data.is_packed() && (!sorted() || data.lengths.last() == Some(&0)), "packed sequences are out of order"),
    ];
    refusals.into_iter().find(|(refused, _)| *refused).map_or(Ok(()), |(_, why)| Err(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        Network {
            algorithm: CUDNN_RNN_ALGO_STANDARD,
            cell: CUDNN_LSTM,
            bias: CUDNN_RNN_DOUBLE_BIAS,
            direction: CUDNN_UNIDIRECTIONAL,
            input_mode: CUDNN_LINEAR_INPUT,
            data_type: CUDNN_DATA_FLOAT,
            math_type: CUDNN_FMA_MATH,
            input: 5,
            hidden: 7,
            projection: 7,
            layers: 2,
            flags: 0,
            is_clipped: false,
        }
    }

    fn data(layout: cudnnRNNDataLayout_t, lengths: &[i32]) -> Data {
        let (steps, padding_fill) = (4, [0; 8]);
        Data { data_type: CUDNN_DATA_FLOAT, layout, steps, vector: 5, lengths: lengths.to_vec(), padding_fill }
    }

    #[test]
    fn what_is_refused_says_why() {
        let full = data(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, &[4, 4]);
        assert_eq!(takes(&network(), &full), Ok(()));
        let refused = |network: Network, word: &str| {
            let why = takes(&network, &full).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(Network { projection: 8, ..network() }, "wider");
        refused(Network { projection: 3, cell: CUDNN_GRU, ..network() }, "projection");
        refused(Network { is_clipped: true, ..network() }, "clips");
        refused(Network { data_type: CUDNN_DATA_DOUBLE, ..network() }, "double");
        refused(Network { input_mode: CUDNN_SKIP_INPUT, ..network() }, "skips");
        refused(Network { cell: 9, ..network() }, "not known");
        refused(Network { bias: 9, ..network() }, "not known");
        refused(Network { flags: 6, ..network() }, "not known");
        refused(Network { input: 6, ..network() }, "another network's");
    }

    #[test]
    fn padding_goes_with_its_flag() {
        let with = Network { flags: CUDNN_RNN_PADDED_IO_ENABLED, ..network() };
        for layout in [CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED] {
            let varied = data(layout, &[2, 4, 0]);
            assert!(takes(&network(), &varied).is_err());
            assert_eq!(takes(&with, &varied), Ok(()));
        }
        let packed = |lengths| takes(&network(), &data(CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, lengths));
        assert_eq!(packed(&[4, 2, 1]), Ok(()));
        assert!(packed(&[2, 4, 1]).is_err() && packed(&[3, 2]).is_err() && packed(&[4, 0]).is_err());
    }
}
