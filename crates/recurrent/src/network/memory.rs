//! The buffers of a network.

use std::ffi::c_void;
use std::ops::Range;

use cudnn_abi::*;

use cudnn::rnn::{Data, Network};

/// The buffers that `cudnnRNNForward` takes. States may be null.
#[derive(Clone, Copy)]
pub struct Memory {
    pub x: *const c_void,
    pub y: *mut c_void,
    pub hx: *const c_void,
    pub hy: *mut c_void,
    pub cx: *const c_void,
    pub cy: *mut c_void,
    pub weight_space: *const c_void,
    pub weight_space_size: usize,
    pub workspace: *mut c_void,
    pub workspace_size: usize,
}

/// Why a network cannot run in these buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    Misaligned,
    Overlapping,
}

impl Unsound {
    pub fn why(self) -> &'static str {
        match self {
            Self::Misaligned => "data are not aligned to their type",
            Self::Overlapping => "a result overlaps other data",
        }
    }
}

impl Memory {
    /// Checks that data are aligned to their type, and that results overlap nothing: inputs must stay unchanged while
    /// results are written.
    pub fn check(&self, network: &Network, data: &Data) -> Result<(), Unsound> {
        let element = network.element();
        let states = (network.pseudo_layers() * element).saturating_mul(data.batch());
        let [state, c_state] = [network.projection, network.hidden].map(|width| states.saturating_mul(width));
        let rows = data.rows() * element;
        let range = |pointer: *const c_void, bytes: usize| match pointer.is_null() {
            true => 0..0,
            false => pointer.addr()..pointer.addr().saturating_add(bytes),
        };
        let c_state = if network.cell == CUDNN_LSTM { c_state } else { 0 };
        let read = [
            range(self.x, rows.saturating_mul(network.input)),
            range(self.weight_space, self.weight_space_size),
            range(self.hx, state),
            range(self.cx, c_state),
        ];
        let written = [
            range(self.y, rows.saturating_mul(network.output())),
            range(self.hy, state),
            range(self.cy, c_state),
            range(self.workspace, self.workspace_size),
        ];
        if read.iter().chain(&written[..3]).any(|range| !range.start.is_multiple_of(element)) {
            return Err(Unsound::Misaligned);
        }
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let others = |i: usize| read.iter().chain(&written[i + 1..]);
        if written.iter().enumerate().any(|(i, range)| others(i).any(|other| overlap(range, other))) {
            return Err(Unsound::Overlapping);
        }
        Ok(())
    }
}
