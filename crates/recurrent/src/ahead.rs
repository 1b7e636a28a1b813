//! Times a network ahead of time, on our own handle and data (`ucudnn tune --rnn`). Programs recall the result.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_abi::*;

use super::call::Call;
use super::choice;
use super::eligible::takes;
use super::forward::workspace_size;
use super::memory::Memory;
use super::record::StepTime;
use super::registry;
use super::state::NOTHING_FITS;
use crate::inference::Inference;
use cudnn::calls;
use cudnn::owned::{OwnedHandle, OwnedRnn, OwnedRnnData, OwnedTensor};
use cudnn::rnn::{Data, Network};
use cudnn::tensor::Tensor;
use gpu::{Buffer, Device, OwnStream};
use tuning::turns::{self, Trial};

/// A network to time.
pub struct Job<'a> {
    /// The network and its batches: each sequence has `steps` time steps, or at most `steps` if the batch is not full.
    pub network: &'a Inference,
    /// The device's number.
    pub device: i32,
    /// Setting this stops the tuning soon after; nothing is stored then.
    pub stop: &'a AtomicBool,
    /// Called after each compilation and execution, with an upper bound of those that remain.
    pub progress: &'a dyn Fn(usize),
}

/// The result of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The fastest: a configuration of our kernels, or `cuDNN`.
    pub chosen: String,
    /// The configuration that the performance model ranks first.
    pub first: Option<String>,
    /// The time of each candidate.
    pub step_times: Vec<StepTime>,
}

/// Times cuDNN and the `UCUDNN_RNN_TOP_K` configurations that the model ranks best, and stores the times. A network
/// that the database already knows is not timed again. `Err` gives the reason why the network cannot be timed.
pub fn tune(job: &Job) -> Result<Found, String> {
    let device = cudnn::device();
    let _entered = device.enter(job.device).ok_or_else(|| format!("device {} is not there", job.device))?;
    // These checks come before `Sequences::new` allocates memory.
    let shape = data(job.network);
    takes(&job.network.network, &shape)?;
    if registry::state(&job.network.network, &shape).first_choice().is_none() {
        return Err(NOTHING_FITS.into());
    }
    let data = Sequences::new(device, job.network)?;
    let call = data.call();
    // SAFETY: `data` owns the call's handle, descriptors and buffers, made for one network, and outlives `running`.
    let running = unsafe { call.running() }?;
    let state = &running.state;
    let first = state.first_choice().map(ToString::to_string);
    if let Some(recalled) = state.recalled() {
        let chosen = choice::name(recalled.chosen.as_ref());
        return Ok(Found { chosen, first, step_times: recalled.step_times.clone() });
    }
    let stopped = || if job.stop.load(Ordering::Relaxed) { Err("it was stopped".to_owned()) } else { Ok(()) };
    let candidates = state.candidates(&mut |remaining| {
        (job.progress)(remaining + turns::executions(remaining + 1));
        stopped()
    })?;
    let Job { stop, progress, .. } = *job;
    let trial = Trial { device, stream: data.stream.raw(), stop, progress };
    let times = trial.times(candidates.engines.len(), |index, turns| {
        // SAFETY: `running` holds a valid call: `data` owns its handle, descriptors and buffers.
        let (ran, timed) = unsafe { running.measure(candidates.engines[index].as_deref()) };
        match ran {
            Ok(CUDNN_STATUS_SUCCESS) => turns.ran(index, running.case.data.steps, timed),
            Ok(status) => return Err(format!("cuDNN refuses it with status {status}")),
            Err(_) => turns.failed(index),
        }
        Ok(())
    })?;
    state.found(&candidates, &times, "timed ahead of time");
    let chosen = candidates.fastest(&times);
    let chosen = choice::name(chosen.as_deref().map(super::kernels::Engine::configuration));
    Ok(Found { chosen, first, step_times: candidates.step_times(&times) })
}

/// The descriptors and data of a network, which this struct owns.
struct Sequences {
    x: OwnedRnnData,
    y: OwnedRnnData,
    state: OwnedTensor,
    rnn: OwnedRnn,
    /// x, y, weights and workspace.
    buffers: [Buffer; 4],
    /// Bytes of the weights and of the workspace.
    sizes: [usize; 2],
    handle: OwnedHandle,
    stream: OwnStream,
}

impl Sequences {
    fn new(device: Device, inference: &Inference) -> Result<Self, String> {
        let refused = |status| format!("cuDNN refuses it with status {status}");
        let stream = device.stream().ok_or("the device gives no stream")?;
        let handle = OwnedHandle::new(stream.raw()).map_err(refused)?;
        let network = &inference.network;
        let rnn = OwnedRnn::new(&handle, network).map_err(refused)?;
        let x_data = data(inference);
        let y_data = Data { vector: network.directions() * network.hidden, ..x_data.clone() };
        let (x, y) = (OwnedRnnData::new(&x_data).map_err(refused)?, OwnedRnnData::new(&y_data).map_err(refused)?);
        let state = state(network, inference.batch).ok_or("a state has more elements than cuDNN counts")?;
        let state = OwnedTensor::new(3, &state).map_err(refused)?;
        let [mut weights, mut workspace, mut reserve] = [0; 3];
        let mode = CUDNN_FWD_MODE_INFERENCE;
        // SAFETY: this function owns the handle and the descriptors; the sizes go to local variables.
        let workspace = unsafe {
            let sized = calls::rnn::cudnnGetRNNWeightSpaceSize(handle.raw(), rnn.raw(), &mut weights);
            checked(sized).map_err(refused)?;
            let sized = calls::rnn::cudnnGetRNNTempSpaceSizes(
                handle.raw(),
                rnn.raw(),
                mode,
                x.raw(),
                &mut workspace,
                &mut reserve,
            );
            checked(sized).map_err(refused)?;
            workspace.max(workspace_size(handle.raw(), rnn.raw(), mode, x.raw()))
        };
        let rows = x_data.rows() * network.element();
        let allocate = |bytes: usize| {
            let buffer = device.allocate(bytes);
            let buffer = buffer.ok_or_else(|| format!("{bytes} bytes of its data cannot be had"))?;
            let values = values(network.data_type, bytes);
            // SAFETY: `buffer` and `values` both have `bytes` bytes.
            let written = unsafe { device.write(buffer.data(), &values, stream.raw()) };
            if written { Ok(buffer) } else { Err("the device's memory cannot be written".to_owned()) }
        };
        let bytes = [rows * x_data.vector, rows * y_data.vector, weights, workspace];
        let [x_bytes, y_bytes, weight_bytes, workspace_bytes] = bytes;
        let buffers = [allocate(x_bytes)?, allocate(y_bytes)?, allocate(weight_bytes)?, allocate(workspace_bytes)?];
        Ok(Self { x, y, state, rnn, buffers, sizes: [weights, workspace], handle, stream })
    }

    fn call(&self) -> Call {
        let [x, y, weight_space, workspace] = self.buffers.each_ref().map(Buffer::data);
        let [weight_space_size, workspace_size] = self.sizes;
        let (hx, hy, cx, cy) = (null(), null_mut(), null(), null_mut());
        Call {
            handle: self.handle.raw(),
            descriptor: self.rnn.raw(),
            mode: CUDNN_FWD_MODE_INFERENCE,
            device_lengths: null(),
            x_descriptor: self.x.raw(),
            y_descriptor: self.y.raw(),
            h_descriptor: self.state.raw(),
            c_descriptor: self.state.raw(),
            memory: Memory { x, y, hx, hy, cx, cy, weight_space, weight_space_size, workspace, workspace_size },
            reserve_size: 0,
            reserve: null_mut(),
        }
    }
}

/// The sequences of x: equally long if the batch is full, else with lengths that fall from `steps` to 1.
fn data(inference: &Inference) -> Data {
    let Inference { network, layout, batch, steps, is_full } = inference;
    let length = |row: usize| match (is_full, batch) {
        (true, _) => *steps,
        (false, 1) => steps.div_ceil(2),
        (false, _) => steps - row * (steps - 1) / (batch - 1),
    };
    Data {
        data_type: network.data_type,
        layout: *layout,
        steps: *steps,
        vector: network.input,
        lengths: (0..*batch).map(|row| length(row) as i32).collect(),
        padding_fill: [0; 8],
    }
}

/// The shape of a state: a packed [layers · D, B, H]. `None`: a size exceeds an `int`.
fn state(network: &Network, batch: usize) -> Option<Tensor> {
    let mut dims = [0; 5];
    let mut strides = [0; 5];
    let sizes = [network.pseudo_layers(), batch, network.hidden];
    for axis in 0..3 {
        dims[axis] = i32::try_from(sizes[axis]).ok()?;
        strides[axis] = i32::try_from(sizes[axis + 1..].iter().product::<usize>()).ok()?;
    }
    Some(Tensor { data_type: network.data_type, dims, strides })
}

/// Returns `bytes` bytes of random numbers, with magnitudes of 1/16 to 1/8: the exponents are fixed, the other bits
/// random. Execution times depend on values only if these are subnormal or not numbers.
fn values(data_type: cudnnDataType_t, bytes: usize) -> Vec<u8> {
    let (exponent, others, size) = match data_type {
        CUDNN_DATA_HALF => (0x2C00, 0x83FF, 2),
        CUDNN_DATA_BFLOAT16 => (0x3D80, 0x807F, 2),
        _ => (0x3D80_0000_u32, 0x807F_FFFF, 4),
    };
    // Marsaglia, "Xorshift RNGs" (2003): the generator with 64 bits.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (exponent | ((state >> 32) as u32 & others)).to_le_bytes()
    };
    let mut numbers: Vec<u8> =
        std::iter::repeat_with(next).take(bytes.div_ceil(size)).flat_map(|n| n.into_iter().take(size)).collect();
    numbers.truncate(bytes);
    numbers
}

fn checked(status: cudnnStatus_t) -> Result<(), cudnnStatus_t> {
    if status == CUDNN_STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_of_their_size() {
        let floats = values(CUDNN_DATA_FLOAT, 4001);
        assert_eq!(floats.len(), 4001);
        let floats: Vec<_> = floats.chunks_exact(4).map(|n| f32::from_le_bytes(n.try_into().unwrap())).collect();
        let halves = values(CUDNN_DATA_HALF, 2000);
        let halves = halves.chunks_exact(2).map(|n| half::f16::from_le_bytes(n.try_into().unwrap()).to_f32());
        let brains = values(CUDNN_DATA_BFLOAT16, 2000);
        let brains = brains.chunks_exact(2).map(|n| half::bf16::from_le_bytes(n.try_into().unwrap()).to_f32());
        for all in [floats, halves.collect(), brains.collect::<Vec<f32>>()] {
            assert_eq!(all.len(), 1000);
            assert!(all.iter().all(|value| (1.0 / 16.0..1.0 / 8.0).contains(&value.abs())));
            let negative = all.iter().filter(|value| **value < 0.0).count();
            assert!((300..700).contains(&negative), "{negative}");
        }
    }

    #[test]
    fn sequences_are_full_or_not() {
        let text = "LSTM input=5 hidden=64 layers=2 directions=2 bias=double type=half math=default algorithm=standard \
                    layout=packed padded=no batch=4 steps=10 full=yes";
        let full = Inference::from_spec(text).unwrap();
        assert_eq!(data(&full).lengths, [10; 4]);
        let varied = Inference { is_full: false, ..full.clone() };
        assert_eq!(data(&varied).lengths, [10, 7, 4, 1]);
        assert_eq!(data(&Inference { batch: 1, ..varied.clone() }).lengths, [5]);
        assert_eq!(Inference::of(&varied.network, &data(&varied)), Inference { steps: 16, ..varied });
        let state = state(&full.network, 4).unwrap();
        assert_eq!((&state.dims[..3], &state.strides[..3]), (&[4, 4, 64][..], &[256, 64, 1][..]));
    }
}
