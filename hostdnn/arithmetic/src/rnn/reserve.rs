//! The reserve: what forward in training keeps for backward. All rows are in the order of computation.

use super::Network;
use super::element::Stored;
use super::rows::{Arena, row, total};

/// What a reserve keeps of 2-byte data, always in numbers of the computing type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The numbers as they were computed.
    Numbers,
    /// Numbers that are rounded to the data's type, as cuDNN's reserve has elements of that type.
    Elements,
}

impl Keeps {
    /// Rounds numbers that are being kept.
    pub fn round<S: Stored>(self, numbers: &mut [S::Number]) {
        if self == Self::Elements {
            numbers.iter_mut().for_each(|number| *number = S::store(*number).load());
        }
    }
}

/// A training call's reserve, split into its parts.
pub struct Reserve<'a, N> {
    /// The output of each layer but the last, whose output the program has: `[rows, D·P]`.
    pub outputs: Vec<&'a mut [N]>,
    /// By number.
    pub pseudo_layers: Vec<Kept<'a, N>>,
}

/// What is kept of a pseudo layer.
pub struct Kept<'a, N> {
    /// Dropout's factors of the input, `[rows, D·P]`; none without dropout, and none in the first layer.
    pub mask: &'a mut [N],
    /// `[rows, G·H]`: the activated gates. `backward_data` puts in their place the gradients of the sums that they are
    /// functions of: of Wx + b + Rh + d, and for GRU's n of Wx + b.
    pub gates: &'a mut [N],
    /// `[rows, H]`: LSTM's cell states; for GRU, Rh + d of n, and after `backward_data` its gradient; else nothing.
    pub inner: &'a mut [N],
    /// `[rows, H]` for LSTM with projection: h before it.
    pub unprojected: &'a mut [N],
    /// `[rows, P]` for LSTM with projection: the gradient of h, by `backward_data`.
    pub projected: &'a mut [N],
}

impl<N: Copy> Kept<'_, N> {
    /// Copies a row of GRU's gradients of Rh + d, `[G·H]`, which `backward_data` left.
    pub fn load_recurrent(&self, at: usize, hidden: usize, to: &mut [N]) {
        let (both, new) = to.split_at_mut(2 * hidden);
        both.copy_from_slice(&row(self.gates, at, 3 * hidden)[..2 * hidden]);
        new.copy_from_slice(row(self.inner, at, hidden));
    }
}

/// The numbers of the reserve; `None` if their byte count could overflow.
pub fn reserve_len(network: &Network, steps: usize, batch: usize, dropout: bool) -> Option<usize> {
    let rows = steps.checked_mul(batch)?;
    let output = rows.checked_mul(network.output());
    let outputs = output?.checked_mul(network.layers - 1);
    let pseudo_layer = |layer| total(kept(network, layer, dropout).map(|width| rows.checked_mul(width)));
    let later = pseudo_layer(1)?.checked_mul(network.layers - 1)?.checked_mul(network.directions);
    total([outputs, pseudo_layer(0)?.checked_mul(network.directions), later])
}

impl<'a, N> Reserve<'a, N> {
    /// Splits numbers; `dropout` says whether there are masks.
    pub fn new(network: &Network, rows: usize, dropout: bool, numbers: &'a mut [N]) -> Self {
        let mut numbers = Arena(numbers);
        let outputs = (1..network.layers).map(|_| numbers.take(rows * network.output())).collect();
        let pseudo_layers = (0..network.pseudo_layers())
            .map(|pseudo_layer| {
                let widths = kept(network, pseudo_layer / network.directions, dropout);
                let [mask, gates, inner, unprojected, projected] = widths.map(|width| numbers.take(rows * width));
                Kept { mask, gates, inner, unprojected, projected }
            })
            .collect();
        Self { outputs, pseudo_layers }
    }
}

/// The widths of the rows of [`Kept`], in its order.
fn kept(network: &Network, layer: usize, dropout: bool) -> [usize; 5] {
    [
        if dropout && layer > 0 { network.output() } else { 0 },
        network.gate_rows(),
        if network.keeps_inner() { network.hidden } else { 0 },
        if network.projects() { network.hidden } else { 0 },
        if network.projects() { network.projection } else { 0 },
    ]
}
