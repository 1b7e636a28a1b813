//! A recurrent network's inference on batches of one shape, the unit of timing, and its text.

use std::fmt;

use cudnn_abi::*;

use cudnn::names::{MATH_TYPES, Names, TYPES, named, value};
use cudnn::rnn::{Data, Network};

/// A network on batches of one shape. The network does not clip, and its first layer multiplies its input
/// (`CUDNN_LINEAR_INPUT`), so the text leaves these out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inference {
    /// The network.
    pub network: Network,
    /// The order of vectors in memory, by sequence and time step.
    pub layout: cudnnRNNDataLayout_t,
    /// Sequences.
    pub batch: usize,
    /// Time steps, rounded up to a power of two, because programs have sequences of every length.
    pub steps: usize,
    /// True if every sequence has all of the batch's time steps.
    pub is_full: bool,
}

const CELLS: &Names = &[("ReLU", CUDNN_RNN_RELU), ("tanh", CUDNN_RNN_TANH), ("LSTM", CUDNN_LSTM), ("GRU", CUDNN_GRU)];
const BIASES: &Names = &[
    ("none", CUDNN_RNN_NO_BIAS),
    ("input", CUDNN_RNN_SINGLE_INP_BIAS),
    ("double", CUDNN_RNN_DOUBLE_BIAS),
    ("recurrent", CUDNN_RNN_SINGLE_REC_BIAS),
];
const DIRECTIONS: &Names = &[("1", CUDNN_UNIDIRECTIONAL), ("2", CUDNN_BIDIRECTIONAL)];
const ALGORITHMS: &Names = &[
    ("standard", CUDNN_RNN_ALGO_STANDARD),
    ("persist-static", CUDNN_RNN_ALGO_PERSIST_STATIC),
    ("persist-dynamic", CUDNN_RNN_ALGO_PERSIST_DYNAMIC),
    ("persist-static-small-h", CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H),
];
const LAYOUTS: &Names = &[
    ("sequence-major", CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED),
    ("packed", CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED),
    ("batch-major", CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED),
];
/// The key of a projection in a text.
const PROJECTION: &str = " projection=";
const YES: &Names = &[("no", 0), ("yes", 1)];

impl Inference {
    /// The inference of `network` on batches of `data`'s shape.
    pub fn of(network: &Network, data: &Data) -> Self {
        Self {
            network: *network,
            layout: data.layout,
            batch: data.batch(),
            steps: data.steps.next_power_of_two(),
            is_full: data.is_full(),
        }
    }

    /// The inference as one line of text. Equal inferences have equal texts, and [`Self::from_spec`] reads them back:
    ///
    /// `LSTM input=5 hidden=64 layers=2 directions=1 bias=double type=float math=default algorithm=standard
    /// layout=sequence-major padded=yes batch=4 steps=128 full=yes`
    ///
    /// With a projection, ` projection=32` follows `hidden`.
    pub fn spec(&self) -> String {
        let Self { network, layout, batch, steps, is_full } = self;
        let Network { input, hidden, projection, layers, .. } = network;
        let projection = if network.projects() { format!("{PROJECTION}{projection}") } else { String::new() };
        format!(
            "{} input={input} hidden={hidden}{projection} layers={layers} directions={} bias={} type={} math={} algorithm={} \
             layout={} padded={} batch={batch} steps={steps} full={}",
            self.cell(),
            named(DIRECTIONS, network.direction),
            named(BIASES, network.bias),
            self.data_type(),
            named(MATH_TYPES, network.math_type),
            named(ALGORITHMS, network.algorithm),
            named(LAYOUTS, *layout),
            named(YES, network.flags as i32),
            named(YES, i32::from(*is_full)),
        )
    }

    /// Reads the text of [`Self::spec`], and nothing else. `Err` names the part that is wrong, and why.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let (before, rest) = text.split_once(PROJECTION).map_or((text, None), |(before, rest)| (before, Some(rest)));
        let (projection, behind) = rest.map_or((None, ""), |rest| {
            let (projection, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            (Some(projection), behind)
        });
        let mut fields = before.split(' ').chain(projection.into_iter().flat_map(|_| behind.split(' ')));
        let cell = fields.next().unwrap_or_default();
        let mut field = |key: &str| {
            let field = fields.next().unwrap_or_default();
            let value = field.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
            value.ok_or_else(|| format!("{key}=… is expected where {field:?} stands"))
        };
        let cell = value("the cell", CELLS, cell)?;
        let [input, hidden, layers] =
            ["input", "hidden", "layers"].map(|key| field(key).and_then(|text| size(key, text)));
        let hidden = hidden?;
        let mut one_of = |key: &str, names| field(key).and_then(|text| value(key, names, text));
        let network = Network {
            cell,
            input: input?,
            hidden,
            projection: projection.map_or(Ok(hidden), |text| size("projection", text))?,
            layers: layers?,
            direction: one_of("directions", DIRECTIONS)?,
            bias: one_of("bias", BIASES)?,
            data_type: one_of("type", TYPES)?,
            math_type: one_of("math", MATH_TYPES)?,
            algorithm: one_of("algorithm", ALGORITHMS)?,
            input_mode: CUDNN_LINEAR_INPUT,
            flags: 0,
            is_clipped: false,
        };
        let layout = one_of("layout", LAYOUTS)?;
        let flags = one_of("padded", YES)? as u32;
        let inference = Self {
            network: Network { flags, ..network },
            layout,
            batch: field("batch").and_then(|text| size("batch", text))?,
            steps: field("steps").and_then(|text| size("steps", text))?,
            is_full: field("full").and_then(|text| value("full", YES, text))? != 0,
        };
        // One network has one text: this rejects leading zeros, a number where a name exists, and trailing text.
        let canonical = inference.spec();
        if canonical == text { Ok(inference) } else { Err(format!("it reads as {canonical:?}, and differs from that")) }
    }

    /// The cell's name.
    pub fn cell(&self) -> String {
        named(CELLS, self.network.cell)
    }

    /// The data type's name.
    pub fn data_type(&self) -> String {
        named(TYPES, self.network.data_type)
    }
}

/// Reads a positive number that fits cuDNN's `int`.
fn size(what: &str, text: &str) -> Result<usize, String> {
    let size = text.parse::<i32>().ok().filter(|&size| size > 0);
    size.map(|size| size as usize).ok_or_else(|| format!("{what} is {text:?}: it must be a number of at least 1"))
}

impl fmt::Display for Inference {
    /// Writes, for example, `LSTM 5→64 ×2, float, batch 4, up to 128 steps`; with a projection `5→64→32`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { network, batch, steps, .. } = self;
        let directions = if network.directions() > 1 { ", both directions" } else { "" };
        let (cell, data_type, Network { input, hidden, layers, .. }) = (self.cell(), self.data_type(), network);
        let projection = if network.projects() { format!("→{}", network.projection) } else { String::new() };
        let layers = if *layers > 1 { format!(" ×{layers}") } else { String::new() };
        write!(
            f,
            "{cell} {input}→{hidden}{projection}{layers}{directions}, {data_type}, batch {batch}, up to {steps} steps"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "LSTM input=5 hidden=64 layers=2 directions=1 bias=double type=float math=default \
                        algorithm=standard layout=sequence-major padded=yes batch=4 steps=128 full=yes";

    #[test]
    fn a_text_is_read_back() {
        let inference = Inference::from_spec(TEXT).unwrap();
        assert_eq!(inference.spec(), TEXT);
        assert_eq!(inference.to_string(), "LSTM 5→64 ×2, float, batch 4, up to 128 steps");
        let network = inference.network;
        assert_eq!((network.input, network.projection, network.flags), (5, 64, CUDNN_RNN_PADDED_IO_ENABLED));
        let projected = TEXT.replace("hidden=64", "hidden=64 projection=32");
        let inference = Inference::from_spec(&projected).unwrap();
        assert_eq!((inference.network.hidden, inference.network.projection), (64, 32));
        assert_eq!(inference.spec(), projected);
        assert_eq!(inference.to_string(), "LSTM 5→64→32 ×2, float, batch 4, up to 128 steps");
        let changes = [
            ("LSTM", "GRU"),
            ("input=5", "input=6"),
            ("directions=1", "directions=2"),
            ("bias=double", "bias=recurrent"),
            ("type=float", "type=bfloat16"),
            ("math=default", "math=fma"),
            ("algorithm=standard", "algorithm=persist-static-small-h"),
            ("layout=sequence-major", "layout=packed"),
            ("padded=yes", "padded=no"),
            ("full=yes", "full=no"),
            ("LSTM", "17"),
        ];
        for (from, to) in changes {
            let other = Inference::from_spec(&TEXT.replace(from, to)).unwrap();
            assert!(other != inference && other.spec() == TEXT.replace(from, to), "{to}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            ("LSTM", "LSTMP", "the cell is \"LSTMP\""),
            ("input=5", "input=0", "input is \"0\""),
            ("hidden=64", "hidden=99999999999", "hidden is"),
            ("hidden=64", "hidden=64 projection=0", "projection is \"0\""),
            ("hidden=64", "hidden=64 projection=64", "it reads as"),
            ("full=yes", "full=yes projection=32", "it reads as"),
            ("batch=4", "projection=32 batch=4", "it reads as"),
            ("layers=2 ", "", "layers=… is expected"),
            ("type=float", "type=int3", "type is \"int3\": it must be one of float"),
            ("batch=4", "batch=04", "it reads as"),
            ("type=float", "type=0", "it reads as"),
            ("full=yes", "full=yes more", "it reads as"),
            ("full=yes", "full=2", "it reads as"),
        ];
        for (from, to, why) in wrong {
            let error = Inference::from_spec(&TEXT.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        for length in 0..TEXT.len() {
            assert!(Inference::from_spec(&TEXT[..length]).is_err(), "{length}");
        }
    }
}
