//! The direct call of `ucudnn.h`: a program runs networks without cuDNN's descriptors, and without cuDNN.
//!
//! | file | contents |
//! | --- | --- |
//! | `description` | the description of a network, and the layout of its weights |
//! | `choice` | choosing the kernels |

mod choice;
mod description;

use std::ffi::c_int;
use std::sync::Arc;

use cudnn_abi::*;

use super::recurrence::Recurrent;
use crate::inference::run::Work;
use crate::network::eligible::takes;
use crate::network::memory::{Memory, Unsound};
use crate::network::temporary::Temporary;
use cudnn::rnn::{Data, Network};
pub use description::Description;
use description::{WeightSpace, data_of};
use gpu::Stream;
pub use guest::refusal::Refusal;
use guest::settings;

/// The arguments of a run.
pub struct Arguments<'a> {
    /// `weight_space_size` is ignored: the network knows it.
    pub memory: Memory,
    pub layout: cudnnRNNDataLayout_t,
    pub batch: c_int,
    pub steps: c_int,
    /// Steps of each sequence; `None`: all have `steps`.
    pub lengths: Option<&'a [c_int]>,
}

/// A network with the kernels that run it, on one device.
pub struct Rnn {
    network: Network,
    /// The largest batch and the most steps of a run.
    most: [usize; 2],
    /// The device's number.
    device: i32,
    weights: WeightSpace,
    workspace_size: usize,
    engine: Arc<dyn Recurrent>,
    configuration: String,
}

impl Rnn {
    /// Compiles kernels for the calling thread's device, and chooses among them by their times there.
    pub fn new(description: &Description) -> Result<Self, Refusal> {
        settings::fault_point("rnn-direct-create");
        let network = description.network()?;
        let most = description.most()?;
        let too_large = || Refusal::new(CUDNN_STATUS_BAD_PARAM, "the network is larger than memory has addresses for");
        let weights = WeightSpace::of(&network).ok_or_else(too_large)?;
        let data = data_of(&network, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, most, None);
        Temporary::of(&network, &data, 0).ok_or_else(too_large)?;
        let device = cudnn::device();
        let ordinal = device.ordinal();
        let none = || {
            let why = "the calling thread has no CUDA device: CUDA's driver is missing, or knows of none";
            Refusal::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, why)
        };
        let _entered = device.enter(ordinal).ok_or_else(none)?;
        let chosen = choice::choose(&network, &data, &weights, description.configuration)?;
        let temporary = Temporary::of(&network, &data, chosen.engine.exchange_bytes()).ok_or_else(too_large)?;
        let (engine, configuration) = (chosen.engine, chosen.configuration);
        Ok(Self { network, most, device: ordinal, weights, workspace_size: temporary.bytes, engine, configuration })
    }

    /// Bytes of its weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes
    }

    /// Bytes of workspace that every run needs.
    pub fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// The configuration of its kernels, as text for [`Description::configuration`].
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// Launches all of a run. It waits for nothing, and allocates no device memory.
    ///
    /// # Safety
    /// Every pointer that is not null is memory of the stream's device, as large as the network and the arguments say.
    pub unsafe fn run(&self, arguments: &Arguments, stream: Stream) -> Result<(), Refusal> {
        settings::fault_point("rnn-direct-run");
        let memory = Memory { weight_space_size: self.weights.bytes, ..arguments.memory };
        let data = self.data(arguments)?;
        self.check(&memory, &data)?;
        let device = cudnn::device();
        let ordinal = device.ordinal();
        let mismatch = || {
            let why = format!("the network is for device {}, and the calling thread's is {ordinal}", self.device);
            Refusal::new(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, why)
        };
        // A thread without a context gets the device's.
        let _entered = device.enter(ordinal).filter(|_| ordinal == self.device).ok_or_else(mismatch)?;
        let temporary = Temporary::of(&self.network, &data, self.engine.exchange_bytes());
        let temporary = temporary.filter(|temporary| temporary.bytes <= self.workspace_size);
        let temporary = temporary.ok_or_else(|| Refusal::new(CUDNN_STATUS_INTERNAL_ERROR, "the workspace's size"))?;
        let work = Work {
            network: &self.network,
            data: &data,
            padding_fill: data.padding_fill,
            memory,
            weights: &self.weights.places,
            temporary: &temporary,
            engine: &*self.engine,
            projecting: None,
            stream,
        };
        // SAFETY: the caller promises the buffers (see `# Safety`); the workspace's size was checked above.
        unsafe { work.launch() }.map_err(|why| Refusal::new(CUDNN_STATUS_EXECUTION_FAILED, why))
    }

    /// Checks the arguments, and returns the sequences of the run.
    fn data(&self, arguments: &Arguments) -> Result<Data, Refusal> {
        let within = |name: &str, number: c_int, most: usize| {
            let status = if number < 1 { CUDNN_STATUS_BAD_PARAM } else { CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND };
            let why = || Refusal::new(status, format!("{name} is {number}: the network takes 1 to {most}"));
            usize::try_from(number).ok().filter(|size| (1..=most).contains(size)).ok_or_else(why)
        };
        let batch = within("batch", arguments.batch, self.most[0])?;
        let steps = within("steps", arguments.steps, self.most[1])?;
        let lengths = arguments.lengths;
        if let Some(length) = lengths.into_iter().flatten().find(|&length| !(0..=arguments.steps).contains(length)) {
            let why = format!("a sequence of {length} steps: lengths are 0 to {steps}");
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, why));
        }
        let data = data_of(&self.network, arguments.layout, [batch, steps], lengths);
        takes(&self.network, &data).map_err(|why| Refusal::new(CUDNN_STATUS_BAD_PARAM, why))?;
        Ok(data)
    }

    fn check(&self, memory: &Memory, data: &Data) -> Result<(), Refusal> {
        let Memory { x, y, weight_space, workspace, workspace_size, .. } = *memory;
        let needed =
            [("x", x), ("y", y.cast_const()), ("weights", weight_space), ("workspace", workspace.cast_const())];
        if let Some((name, _)) = needed.into_iter().find(|(_, pointer)| pointer.is_null()) {
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, format!("{name} is null")));
        }
        if workspace_size < self.workspace_size {
            let why = format!("a workspace of {workspace_size} bytes: the network takes {}", self.workspace_size);
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, why));
        }
        memory.check(&self.network, data).map_err(|unsound| {
            let status = match unsound {
                Unsound::Misaligned => CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                Unsound::Overlapping => CUDNN_STATUS_BAD_PARAM,
            };
            Refusal::new(status, unsound.why())
        })
    }
}
