//! RNN descriptors.

use super::DropoutDescriptor;
use crate::error::{Error, Result, require, support};
use crate::rnn::{Cell, Clip, Network};
use cudnn_abi::*;

/// A recurrent network. Unset, it has no settings; a refused call changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RnnDescriptor {
    settings: Option<RnnSettings>,
    clipping: Clipping,
}

/// The arguments of `cudnnSetRNNDescriptor_v8`, in its order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RnnSettings {
    /// cuDNN's algorithm; hostdnn computes all of them alike.
    pub algorithm: cudnnRNNAlgo_t,
    /// The cell.
    pub cell: cudnnRNNMode_t,
    /// The biases that exist.
    pub bias: cudnnRNNBiasMode_t,
    /// One direction or two.
    pub direction: cudnnDirectionMode_t,
    /// The first layer's treatment of its input.
    pub input_mode: cudnnRNNInputMode_t,
    /// The type of data and weights.
    pub data_type: cudnnDataType_t,
    /// The type that cuDNN computes in; hostdnn computes half in float.
    pub math_precision: cudnnDataType_t,
    /// Whether tensor cores may be used; hostdnn has none.
    pub math_type: cudnnMathType_t,
    /// Elements of an input vector, of a hidden state, of a projected one, and layers.
    pub sizes: [i32; 4],
    /// The dropout descriptor's address, kept only to be read back; 0 for none.
    pub dropout_address: usize,
    /// The dropout descriptor's settings when the RNN descriptor was set.
    pub dropout: DropoutDescriptor,
    /// Flags, such as padded data.
    pub flags: u32,
}

/// The arguments of the `cudnnRNNSetClip` functions. Any mode is kept; only CUDNN_RNN_CLIP_MINMAX clips.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clipping {
    /// Whether LSTM's cell state is clipped.
    pub mode: cudnnRNNClipMode_t,
    /// Whether NaN stays NaN.
    pub nan_propagation: cudnnNanPropagation_t,
    /// The range.
    pub range: [f64; 2],
}

impl RnnDescriptor {
    /// Sets everything and switches clipping off.
    pub fn set(&mut self, settings: RnnSettings) -> Result {
        settings.check()?;
        *self = Self { settings: Some(settings), clipping: Clipping::default() };
        Ok(())
    }

    /// The settings; CUDNN_STATUS_NOT_INITIALIZED if there are none.
    pub fn settings(&self) -> Result<&RnnSettings> {
        let unset = || Error::new(CUDNN_STATUS_NOT_INITIALIZED, "the RNN descriptor is not set");
        self.settings.as_ref().ok_or_else(unset)
    }

    /// Sets clipping; without a NaN option, NaN stays NaN.
    pub fn set_clipping(
        &mut self,
        mode: cudnnRNNClipMode_t,
        nan_propagation: Option<cudnnNanPropagation_t>,
        range: [f64; 2],
    ) -> Result {
        require(range[0] <= range[1], "lclip is not above rclip, and neither is NaN")?;
        self.clipping = Clipping { mode, nan_propagation: nan_propagation.unwrap_or(CUDNN_PROPAGATE_NAN), range };
        Ok(())
    }

    /// The clipping of the cell state.
    pub fn clipping(&self) -> &Clipping {
        &self.clipping
    }

    /// The network, if one was set.
    pub fn network(&self) -> Option<Network> {
        let settings = self.settings?;
        let [input, hidden, projection, layers] = settings.sizes.map(|size| size as usize);
        let Clipping { mode, nan_propagation, range: [least, most] } = self.clipping;
        let clip = Clip { least, most, keep_nan: nan_propagation != CUDNN_NOT_PROPAGATE_NAN };
        Some(Network {
            cell: match settings.cell {
                CUDNN_RNN_RELU => Cell::Relu,
                CUDNN_RNN_TANH => Cell::Tanh,
                CUDNN_LSTM => Cell::Lstm,
                _ => Cell::Gru,
            },
            input_bias: matches!(settings.bias, CUDNN_RNN_SINGLE_INP_BIAS | CUDNN_RNN_DOUBLE_BIAS),
            recurrent_bias: matches!(settings.bias, CUDNN_RNN_SINGLE_REC_BIAS | CUDNN_RNN_DOUBLE_BIAS),
            directions: if settings.direction == CUDNN_BIDIRECTIONAL { 2 } else { 1 },
            skip_input: settings.input_mode == CUDNN_SKIP_INPUT,
            layers,
            input,
            hidden,
            projection,
            clip: (mode == CUDNN_RNN_CLIP_MINMAX).then_some(clip),
        })
    }
}

impl RnnSettings {
    fn check(&self) -> Result {
        let Self { algorithm, cell, bias, direction, input_mode, data_type, math_precision, math_type, .. } = *self;
        let [input, hidden, projection, layers] = self.sizes;
        require((CUDNN_RNN_ALGO_STANDARD..CUDNN_RNN_ALGO_COUNT).contains(&algorithm), "algo is a cudnnRNNAlgo_t")?;
        require((CUDNN_RNN_RELU..=CUDNN_GRU).contains(&cell), "cellMode is a cudnnRNNMode_t")?;
        let biases = CUDNN_RNN_NO_BIAS..=CUDNN_RNN_SINGLE_REC_BIAS;
        require(biases.contains(&bias), "biasMode is a cudnnRNNBiasMode_t")?;
        let directions = CUDNN_UNIDIRECTIONAL..=CUDNN_BIDIRECTIONAL;
        require(directions.contains(&direction), "dirMode is a cudnnDirectionMode_t")?;
        let inputs = CUDNN_LINEAR_INPUT..=CUDNN_SKIP_INPUT;
        require(inputs.contains(&input_mode), "inputMode is a cudnnRNNInputMode_t")?;
        require((CUDNN_DEFAULT_MATH..=CUDNN_FMA_MATH).contains(&math_type), "mathType is a cudnnMathType_t")?;
        require([input, hidden, layers].iter().all(|&size| size > 0), "sizes and layers are positive")?;
        // The checks are in cuDNN's order, which decides the reported error.
        let persistent = algorithm != CUDNN_RNN_ALGO_STANDARD;
        support(!persistent || bias == CUDNN_RNN_DOUBLE_BIAS, "persistent algorithms take both biases")?;
        require(projection > 0, "projSize is positive")?;
        require(self.flags & !CUDNN_RNN_PADDED_IO_ENABLED == 0, "auxFlags has CUDNN_RNN_PADDED_IO_ENABLED alone")?;
        let types = (data_type, math_precision);
        let both_half = types == (CUDNN_DATA_HALF, CUDNN_DATA_HALF);
        let taken = matches!(
            types,
            (CUDNN_DATA_FLOAT | CUDNN_DATA_HALF | CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT)
                | (CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE)
        );
        support(taken || both_half, "dataType and mathPrec are a pair that cuDNN computes in")?;
        support(projection <= hidden, "a projection does not widen the hidden state")?;
        support(projection == hidden || cell == CUDNN_LSTM, "only LSTM has a projection")?;
        if persistent {
            support(projection == hidden, "a projection goes with CUDNN_RNN_ALGO_STANDARD")?;
            support(!both_half, "persistent algorithms do not compute in half")?;
            let double = data_type == CUDNN_DATA_DOUBLE;
            support(!double || algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC, "the algorithm computes in double")?;
        }
        Ok(())
    }
}
