//! The parts of a workspace for the projections of an LSTM's layer.

use crate::network::parts::{Each, Parts};
use cudnn::rnn::Network;

/// The parts of a workspace that a pass forward needs for projections.
#[derive(Clone, Copy, Debug)]
pub struct ForwardProjection {
    /// R W_p of each direction: [G·H, H].
    pub folded: Each,
    /// R h0, float: [B, G·H].
    pub first: usize,
}

/// The parts of a workspace that the gradients of data need for projections.
#[derive(Clone, Copy, Debug)]
pub struct DataProjection {
    /// R W_p of each direction: [G·H, H].
    pub folded: Each,
    /// W_p^T dy of each direction: [R, H].
    pub gradients: Each,
    /// W_p^T dhy of each direction: [B, H].
    pub last: Each,
    /// R^T dgates, float: [R, P].
    pub products: usize,
}

impl ForwardProjection {
    /// `Some(None)` without a projection.
    pub fn of(network: &Network, batch: usize, parts: &mut Parts) -> Option<Option<Self>> {
        if !network.projects() {
            return Some(None);
        }
        let columns = network.gates().checked_mul(network.hidden)?;
        Some(Some(Self {
            folded: Each::add(parts, network.directions(), &[columns, network.hidden, network.element()])?,
            first: parts.add(&[batch, columns, size_of::<f32>()])?,
        }))
    }
}

impl DataProjection {
    /// `Some(None)` without a projection.
    pub fn of(network: &Network, [rows, batch]: [usize; 2], parts: &mut Parts) -> Option<Option<Self>> {
        if !network.projects() {
            return Some(None);
        }
        let (directions, hidden, element) = (network.directions(), network.hidden, network.element());
        let columns = network.gates().checked_mul(hidden)?;
        Some(Some(Self {
            folded: Each::add(parts, directions, &[columns, hidden, element])?,
            gradients: Each::add(parts, directions, &[rows, hidden, element])?,
            last: Each::add(parts, directions, &[batch, hidden, element])?,
            products: parts.add(&[rows, network.projection, size_of::<f32>()])?,
        }))
    }
}
