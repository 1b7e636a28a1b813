//! The memory that cuDNN itself asks for, and whether a call brings it. cuDNN refuses calls with less, so our kernels do not run
//! them either.

use cudnn_abi::*;
use parking_lot::Mutex;

use cudnn::calls;
use cudnn::rnn::{Data, Network};

/// A network on data, in a mode, by its descriptors.
pub struct Asked<'a> {
    pub handle: cudnnHandle_t,
    pub descriptor: cudnnRNNDescriptor_t,
    pub x_descriptor: cudnnRNNDataDescriptor_t,
    pub mode: cudnnForwardMode_t,
    /// What the two descriptors say.
    pub network: &'a Network,
    pub data: &'a Data,
    /// A hash of what else sizes depend on: dropout.
    pub others: u64,
}

/// Bytes of a workspace and a reserve.
type Sizes = [usize; 2];

/// The sizes that cuDNN told last, which takes some microseconds.
#[derive(Default)]
pub struct Room(Mutex<Option<(Network, Data, u64, Sizes)>>);

impl Room {
    /// Returns whether spaces are as large as cuDNN's own. All questions to one `Room` are in the same mode.
    ///
    /// # Safety
    /// The handle and the descriptors are null or live.
    pub unsafe fn is_enough(&self, asked: &Asked, [workspace, reserve]: Sizes) -> bool {
        let Asked { handle, descriptor, x_descriptor, mode, network, data, others } = *asked;
        let is_enough = |sizes: &Sizes| workspace >= sizes[0] && reserve >= sizes[1];
        if let Some((of, on, with, sizes)) = &*self.0.lock()
            && (of, on, *with) == (network, data, others)
        {
            return is_enough(sizes);
        }
        let mut sizes = [0; 2];
        let [to_workspace, to_reserve] = &mut sizes;
        // SAFETY: handle and descriptors are null or live; the sizes go to local variables.
        let status = unsafe {
            calls::cudnnGetRNNTempSpaceSizes(handle, descriptor, mode, x_descriptor, to_workspace, to_reserve)
        };
        if status != CUDNN_STATUS_SUCCESS {
            return false;
        }
        *self.0.lock() = Some((*network, data.clone(), others, sizes));
        is_enough(&sizes)
    }
}
