//! The descriptors of a network and generated data, on a handle of our own: to time the network ahead of time.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cudnn_abi::*;

use crate::network::call::Call;
use crate::network::inference::Inference;
use cudnn::arguments::{Promised, RnnForward};
use cudnn::calls;
use cudnn::owned::{OwnedHandle, OwnedRnn, OwnedRnnData, OwnedTensor};
use cudnn::rnn::{Data, Network};
use cudnn::tensor::Tensor;
use gpu::{Buffer, Device, OwnStream};
use tuning::waiting::write_tiles;

/// A network's descriptors, which this struct owns.
pub struct Sequences {
    pub x: OwnedRnnData,
    pub y: OwnedRnnData,
    /// The descriptors of h and of c of all layers.
    pub states: [OwnedTensor; 2],
    pub rnn: OwnedRnn,
    /// Bytes of x and of y.
    pub x_bytes: usize,
    pub y_bytes: usize,
    /// Random values, for buffers of any size.
    tile: Vec<u8>,
    device: Device,
    pub handle: OwnedHandle,
    pub stream: OwnStream,
}

/// The bytes of a tile.
const TILE: usize = 1 << 20;

/// The sizes that cuDNN tells for a network, in bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub weights: usize,
    pub workspace: usize,
    pub reserve: usize,
}

/// The memory of forward calls.
pub struct Buffers {
    pub x: Buffer,
    pub y: Buffer,
    pub weights: Buffer,
    pub workspace: Buffer,
    /// The sizes that calls get.
    pub sizes: Sizes,
}

/// The reason why a network cannot be timed: what cuDNN refuses.
pub fn refused(status: cudnnStatus_t) -> String {
    format!("cuDNN refuses it with status {status}")
}

impl Sequences {
    pub fn new(device: Device, inference: &Inference) -> Result<Self, String> {
        let stream = device.stream().ok_or("the device gives no stream")?;
        let handle = OwnedHandle::new(stream.raw()).map_err(refused)?;
        let network = &inference.network;
        let rnn = OwnedRnn::new(&handle, network).map_err(refused)?;
        let x_data = data(inference);
        let y_data = Data { vector: network.output(), ..x_data.clone() };
        let state = |width| {
            let state = state(network, inference.batch, width).ok_or("a state has more elements than cuDNN counts")?;
            OwnedTensor::new(3, &state).map_err(refused)
        };
        let bytes = |data: &Data| data.rows() * data.vector * network.element();
        Ok(Self {
            x: OwnedRnnData::new(&x_data).map_err(refused)?,
            y: OwnedRnnData::new(&y_data).map_err(refused)?,
            states: [state(network.projection)?, state(network.hidden)?],
            rnn,
            x_bytes: bytes(&x_data),
            y_bytes: bytes(&y_data),
            tile: values(network.data_type, TILE),
            device,
            handle,
            stream,
        })
    }

    /// The sizes that cuDNN tells for a descriptor of the network.
    pub fn sizes(&self, rnn: &OwnedRnn, mode: cudnnForwardMode_t) -> Result<Sizes, String> {
        let (handle, rnn) = (self.handle.raw(), rnn.raw());
        let [mut weights, mut workspace, mut reserve] = [0; 3];
        // SAFETY: the handle and the descriptors have owners; the sizes go to local variables.
        let statuses = unsafe {
            [
                calls::cudnnGetRNNWeightSpaceSize(handle, rnn, &mut weights),
                calls::cudnnGetRNNTempSpaceSizes(handle, rnn, mode, self.x.raw(), &mut workspace, &mut reserve),
            ]
        };
        match statuses.into_iter().find(|status| *status != CUDNN_STATUS_SUCCESS) {
            Some(status) => Err(refused(status)),
            None => Ok(Sizes { weights, workspace, reserve }),
        }
    }

    /// The memory of forward calls, with these sizes.
    pub fn buffers(&self, sizes: Sizes) -> Result<Buffers, String> {
        Ok(Buffers {
            x: self.filled(self.x_bytes)?,
            y: self.buffer(self.y_bytes)?,
            weights: self.filled(sizes.weights)?,
            workspace: self.buffer(sizes.workspace)?,
            sizes,
        })
    }

    /// A forward call with null states, for as long as `self`, the buffers and the reserve live.
    pub fn forward(&self, mode: cudnnForwardMode_t, buffers: &Buffers, reserve: (*mut c_void, usize)) -> Call {
        let call = RnnForward {
            handle: self.handle.raw(),
            descriptor: self.rnn.raw(),
            mode,
            device_lengths: null(),
            x_descriptor: self.x.raw(),
            y_descriptor: self.y.raw(),
            h_descriptor: self.states[0].raw(),
            c_descriptor: self.states[1].raw(),
            x: buffers.x.data(),
            y: buffers.y.data(),
            hx: null(),
            hy: null_mut(),
            cx: null(),
            cy: null_mut(),
            weight_space: buffers.weights.data(),
            weight_space_size: buffers.sizes.weights,
            workspace: buffers.workspace.data(),
            workspace_size: buffers.sizes.workspace,
            reserve_size: reserve.1,
            reserve: reserve.0,
        };
        // SAFETY: `self` owns the handle and the descriptors, and the buffers are as large as these say.
        Call(unsafe { Promised::new(call) })
    }

    /// A buffer with whatever the memory holds.
    pub fn buffer(&self, bytes: usize) -> Result<Buffer, String> {
        self.device.allocate(bytes).ok_or_else(|| format!("{bytes} bytes of its data cannot be had"))
    }

    /// A buffer of random values of the network's type; a tile of them repeats.
    pub fn filled(&self, bytes: usize) -> Result<Buffer, String> {
        let buffer = self.buffer(bytes)?;
        let is_written = write_tiles(self.device, self.stream.raw(), &buffer, &self.tile);
        if is_written { Ok(buffer) } else { Err("the device's memory cannot be written".to_owned()) }
    }
}

/// The sequences of x: equally long if the batch is full, else with lengths that fall from `steps` to 1.
pub fn data(inference: &Inference) -> Data {
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

/// The shape of a state: a packed [layers · D, B, width]. `None`: a size exceeds an `int`.
fn state(network: &Network, batch: usize, width: usize) -> Option<Tensor> {
    let mut dims = [0; 5];
    let mut strides = [0; 5];
    let sizes = [network.pseudo_layers(), batch, width];
    for axis in 0..3 {
        dims[axis] = i32::try_from(sizes[axis]).ok()?;
        strides[axis] = i32::try_from(sizes[axis + 1..].iter().product::<usize>()).ok()?;
    }
    Some(Tensor { data_type: network.data_type, dims, strides })
}

/// Returns `bytes` bytes of random numbers, with magnitudes of 1/128 to 1/64: the exponents are fixed, the other bits
/// random. As weights they are so small that states and gradients do not grow over time.
fn values(data_type: cudnnDataType_t, bytes: usize) -> Vec<u8> {
    let (exponent, others, size) = match data_type {
        CUDNN_DATA_HALF => (0x2000, 0x83FF, 2),
        CUDNN_DATA_BFLOAT16 => (0x3C00, 0x807F, 2),
        _ => (0x3C00_0000_u32, 0x807F_FFFF, 4),
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
            assert!(all.iter().all(|value| (1.0 / 128.0..1.0 / 64.0).contains(&value.abs())));
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
        let state = state(&full.network, 4, 64).unwrap();
        assert_eq!((&state.dims[..3], &state.strides[..3]), (&[4, 4, 64][..], &[256, 64, 1][..]));
    }
}
