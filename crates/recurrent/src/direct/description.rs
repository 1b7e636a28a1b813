//! The description of a network, as in `ucudnnRnnDescription_t`, and the layout of its weights.

use std::ffi::c_int;
use std::fmt::Display;

use cudnn_abi::*;

use super::Refusal;
use cudnn::rnn::{CANONICAL_GRU, Data, Network, Weights};
use gpu::Element;

/// The largest accepted sizes. Larger ones are probably mistakes, and are refused before anything is allocated.
const MOST_ELEMENTS: c_int = 1 << 20;
const MOST_LAYERS: c_int = 1 << 10;
const MOST_BATCH: c_int = 1 << 16;
const MOST_STEPS: c_int = c_int::MAX;

/// The description of a network, not checked yet.
#[derive(Clone, Copy)]
pub struct Description<'a> {
    pub cell: cudnnRNNMode_t,
    pub data_type: cudnnDataType_t,
    pub allows_tf32: bool,
    pub has_biases: bool,
    pub input: c_int,
    pub hidden: c_int,
    pub layers: c_int,
    pub directions: c_int,
    pub most_batch: c_int,
    pub most_steps: c_int,
    /// The configuration of the kernels; `None`: chosen by times.
    pub configuration: Option<&'a str>,
}

impl Description<'_> {
    /// Checks the description, and returns its network.
    pub fn network(&self) -> Result<Network, Refusal> {
        let bad = |why: &dyn Display| Refusal::new(CUDNN_STATUS_BAD_PARAM, why);
        if !matches!(self.cell, CUDNN_RNN_RELU | CUDNN_RNN_TANH | CUDNN_LSTM | CUDNN_GRU | CANONICAL_GRU) {
            return Err(bad(&format!("cell is {}, which is none of ucudnnRnnCell_t", self.cell)));
        }
        if Element::of(self.data_type).is_none() {
            return Err(bad(&format!("dataType is {}: networks are float, half or bfloat16", self.data_type)));
        }
        let direction = match self.directions {
            1 => CUDNN_UNIDIRECTIONAL,
            2 => CUDNN_BIDIRECTIONAL,
            other => return Err(bad(&format!("directions is {other}: there are 1 or 2"))),
        };
        let input = within("inputSize", self.input, MOST_ELEMENTS)?;
        let hidden = within("hiddenSize", self.hidden, MOST_ELEMENTS)?;
        let layers = within("layers", self.layers, MOST_LAYERS)?;
        Ok(Network {
            algorithm: CUDNN_RNN_ALGO_STANDARD,
            cell: self.cell,
            bias: if self.has_biases { CUDNN_RNN_DOUBLE_BIAS } else { CUDNN_RNN_NO_BIAS },
            direction,
            input_mode: CUDNN_LINEAR_INPUT,
            data_type: self.data_type,
            math_type: match self.data_type == CUDNN_DATA_FLOAT && !self.allows_tf32 {
                true => CUDNN_FMA_MATH,
                false => CUDNN_DEFAULT_MATH,
            },
            input,
            hidden,
            projection: hidden,
            layers,
            flags: CUDNN_RNN_PADDED_IO_ENABLED,
            is_clipped: false,
        })
    }

    /// Checks and returns the largest batch and the most steps.
    pub fn most(&self) -> Result<[usize; 2], Refusal> {
        let most = [within("maxBatch", self.most_batch, MOST_BATCH)?, within("maxSteps", self.most_steps, MOST_STEPS)?];
        if most[0] * most[1] > c_int::MAX as usize {
            let why = format!("maxBatch times maxSteps is {}: it is {} at most", most[0] * most[1], c_int::MAX);
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, why));
        }
        Ok(most)
    }
}

fn within(name: &str, number: c_int, most: c_int) -> Result<usize, Refusal> {
    let why = || Refusal::new(CUDNN_STATUS_BAD_PARAM, format!("{name} is {number}: it is 1 to {most}"));
    usize::try_from(number).ok().filter(|_| (1..=most).contains(&number)).ok_or_else(why)
}

/// The sequences of a network. Without `lengths`, all have `steps` steps.
pub fn data_of(
    network: &Network,
    layout: cudnnRNNDataLayout_t,
    [batch, steps]: [usize; 2],
    lengths: Option<&[c_int]>,
) -> Data {
    let lengths = lengths.map_or_else(|| vec![steps as c_int; batch], <[_]>::to_vec);
    Data { data_type: network.data_type, layout, steps, vector: network.input, lengths, padding_fill: [0; 8] }
}

/// The layout of the weights, without gaps: W and R of each layer and direction, then b_W and b_R of each.
pub struct WeightSpace {
    /// One for each pseudo layer.
    pub places: Vec<Weights>,
    pub bytes: usize,
}

impl WeightSpace {
    /// The weight space of a network. `None`: it exceeds the address space.
    pub fn of(network: &Network) -> Option<Self> {
        let rows = network.gates().checked_mul(network.hidden)?;
        let mut bytes = 0_usize;
        let mut part = |columns: usize| {
            let start = bytes;
            bytes = bytes.checked_add(rows.checked_mul(columns)?.checked_mul(network.element())?)?;
            Some(start)
        };
        let mut places = Vec::with_capacity(network.pseudo_layers());
        for pseudo_layer in 0..network.pseudo_layers() {
            let columns = network.layer_input(pseudo_layer / network.directions());
            let (input, recurrent) = (part(columns)?, part(network.hidden)?);
            places.push(Weights { input, recurrent, projection: None, input_bias: None, recurrent_bias: None });
        }
        if network.has_input_bias() {
            for weights in &mut places {
                (weights.input_bias, weights.recurrent_bias) = (Some(part(1)?), Some(part(1)?));
            }
        }
        Some(Self { places, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Description = Description {
        cell: CUDNN_LSTM,
        data_type: CUDNN_DATA_HALF,
        allows_tf32: false,
        has_biases: true,
        input: 3,
        hidden: 5,
        layers: 2,
        directions: 2,
        most_batch: 4,
        most_steps: 9,
        configuration: None,
    };

    #[test]
    fn weights_follow_each_other() {
        let space = WeightSpace::of(&PLAIN.network().unwrap()).unwrap();
        let row = 4 * 5 * 2; // bytes of one column of a matrix
        let matrices = [0, 3, 8, 11, 16, 26, 31, 41].map(|columns| columns * row);
        let found: Vec<_> = space.places.iter().flat_map(|place| [place.input, place.recurrent]).collect();
        assert_eq!(found, matrices);
        let biases: Vec<_> = space
            .places
            .iter()
            .flat_map(|place| [place.input_bias, place.recurrent_bias])
            .map(Option::unwrap)
            .collect();
        assert_eq!(biases, (0..8).map(|index| (46 + index) * row).collect::<Vec<_>>());
        assert_eq!(space.bytes, 54 * row);
        let without = Description { has_biases: false, layers: 1, directions: 1, ..PLAIN };
        let space = WeightSpace::of(&without.network().unwrap()).unwrap();
        assert_eq!((space.places.len(), space.places[0].input_bias, space.bytes), (1, None, 8 * row));
    }

    #[test]
    fn what_is_refused_names_its_field() {
        assert!(PLAIN.network().is_ok() && PLAIN.most().is_ok());
        for (description, field) in [
            (Description { cell: 4, ..PLAIN }, "cell is 4"),
            (Description { cell: -1, ..PLAIN }, "cell is -1"),
            (Description { cell: CANONICAL_GRU + 1, ..PLAIN }, "cell is 17"),
            (Description { data_type: CUDNN_DATA_DOUBLE, ..PLAIN }, "dataType is 1"),
            (Description { directions: 0, ..PLAIN }, "directions is 0"),
            (Description { directions: 3, ..PLAIN }, "directions is 3"),
            (Description { input: 0, ..PLAIN }, "inputSize is 0"),
            (Description { input: MOST_ELEMENTS + 1, ..PLAIN }, "inputSize"),
            (Description { hidden: -5, ..PLAIN }, "hiddenSize is -5"),
            (Description { layers: 0, ..PLAIN }, "layers is 0"),
            (Description { layers: c_int::MAX, ..PLAIN }, "layers"),
            (Description { most_batch: 0, ..PLAIN }, "maxBatch is 0"),
            (Description { most_batch: c_int::MAX, ..PLAIN }, "maxBatch"),
            (Description { most_steps: -1, ..PLAIN }, "maxSteps is -1"),
            (Description { most_steps: c_int::MAX, ..PLAIN }, "maxBatch times maxSteps"),
        ] {
            let refusal = description.network().and_then(|_| description.most()).unwrap_err();
            assert_eq!(refusal.status, CUDNN_STATUS_BAD_PARAM);
            assert!(refusal.why.starts_with(field), "{}", refusal.why);
        }
    }
}
