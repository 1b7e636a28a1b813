//! Random calls, each with the values that are read back after it.

use super::session::{SPACE, Session, wide};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::ffi::c_int;
use std::ptr::null_mut;

/// A call in words, with all its results: comparing transcripts compares libraries.
pub type Line = (String, Vec<i64>);

/// Values as a program passes them: mostly sound, some not.
pub struct Dice(pub StdRng);

impl Dice {
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        *of.choose(&mut self.0).unwrap()
    }
    pub fn one_in(&mut self, n: u32) -> bool {
        self.0.random_ratio(1, n)
    }
    fn enumerator(&mut self, count: c_int) -> c_int {
        if self.one_in(20) { self.0.random_range(-2..count + 3) } else { self.0.random_range(0..count) }
    }
    fn size(&mut self) -> c_int {
        if self.one_in(25) { self.pick([-1, 0]) } else { self.0.random_range(1..9) }
    }
    fn types(&mut self) -> [c_int; 2] {
        let sound = self.pick([[0, 0], [0, 0], [1, 1], [2, 0], [2, 2], [9, 0]]);
        if self.one_in(12) { [self.0.random_range(-1..20), self.0.random_range(-1..20)] } else { sound }
    }
}

/// Makes one random call, and reads the descriptor back.
pub fn call(session: &Session, dice: &mut Dice) -> Line {
    match dice.0.random_range(0..10) {
        0..3 => set_rnn(session, dice),
        3 => set_clip(session, dice),
        4..6 => set_data(session, dice),
        6 => set_dropout(session, dice),
        _ => weights(session, dice),
    }
}

fn set_rnn(session: &Session, dice: &mut Dice) -> Line {
    let algo = if dice.one_in(3) { dice.enumerator(4) } else { 0 };
    let (cell, bias) = (dice.enumerator(4), if dice.one_in(2) { 2 } else { dice.enumerator(4) });
    let (direction, input_mode) = (dice.enumerator(2), dice.enumerator(2));
    let ([data_type, precision], math_type) = (dice.types(), dice.enumerator(4));
    let [input, hidden, layers] = [0; 3].map(|_| dice.size());
    let projection = if dice.one_in(4) { dice.size() } else { hidden };
    let flags = dice.pick([0, 1, 1, 1, 1, 2, u32::MAX]);
    let with_dropout = dice.one_in(2);
    let dropout = if with_dropout { session.dropout } else { null_mut() };
    // SAFETY: descriptors are live.
    let status = unsafe {
        (session.api.cudnnSetRNNDescriptor_v8)(
            session.rnn,
            algo,
            cell,
            bias,
            direction,
            input_mode,
            data_type,
            precision,
            math_type,
            input,
            hidden,
            projection,
            layers,
            dropout,
            flags,
        )
    };
    let enumerators = [algo, cell, bias, direction, input_mode, data_type, precision, math_type];
    let words = format!("SetRNN {enumerators:?} {:?} {with_dropout} {flags}", [input, hidden, projection, layers]);
    (words, [vec![status.into()], session.read_rnn()].concat())
}

fn set_clip(session: &Session, dice: &mut Dice) -> Line {
    let (mode, nan) = (dice.enumerator(2), dice.enumerator(2));
    let [low, high] = [0; 2].map(|_| dice.pick([-2.0, -1.0, 0.0, 1.0, 2.0, f64::INFINITY, f64::NAN, 1e300]));
    let ninth = dice.one_in(2);
    // SAFETY: descriptors are live.
    let status = unsafe {
        if ninth {
            (session.api.cudnnRNNSetClip_v9)(session.rnn, mode, low, high)
        } else {
            (session.api.cudnnRNNSetClip_v8)(session.rnn, mode, nan, low, high)
        }
    };
    (format!("SetClip v9 {ninth} {mode} {nan} {low} {high}"), [vec![status.into()], session.read_rnn()].concat())
}

fn set_data(session: &Session, dice: &mut Dice) -> Line {
    let which = dice.0.random_range(0..2);
    let data_type = if dice.one_in(8) { dice.0.random_range(-1..20) } else { dice.pick([0, 1, 2, 9]) };
    let layout = dice.enumerator(3);
    let (batch, vector) = (dice.size(), dice.size());
    let steps = if dice.one_in(10) { dice.pick([65535, 65536, c_int::MAX]) } else { dice.size() };
    let mut lengths = [0; 16].map(|_| dice.0.random_range(0..steps.clamp(1, 9) + 1));
    if dice.one_in(2) {
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths[0] = steps;
    }
    if dice.one_in(10) {
        lengths[dice.0.random_range(0..4)] = dice.pick([-1, steps.saturating_add(1)]);
    }
    let mut fill: [u8; 8] = dice.0.random();
    let fill = if dice.one_in(2) { fill.as_mut_ptr().cast() } else { null_mut() };
    let lengths_given = if dice.one_in(20) { std::ptr::null() } else { lengths.as_ptr() };
    let requested = dice.0.random_range(-1..12);
    let data = session.data[which];
    // SAFETY: descriptors are live, and the array is longer than any batch.
    let status = unsafe {
        (session.api.cudnnSetRNNDataDescriptor)(data, data_type, layout, steps, batch, vector, lengths_given, fill)
    };
    let words = format!("SetRNNData {which} {data_type} {layout} {:?} {lengths:?}", [steps, batch, vector]);
    (words, [vec![status.into()], session.read_data(which, requested)].concat())
}

fn set_dropout(session: &Session, dice: &mut Dice) -> Line {
    let probability = dice.pick([0.0, 0.5, 1.0, -1.0, 1.5, f32::NAN]);
    let (seed, restore) = (dice.0.random(), dice.one_in(2));
    // Setting states fills them, on a device; restoring states does not read them.
    let states = if restore && dice.one_in(2) { SPACE } else { 0 };
    let (api, dropout) = (session.api, session.dropout);
    // SAFETY: descriptors are live.
    let status = unsafe {
        let set = if restore { api.cudnnRestoreDropoutDescriptor } else { api.cudnnSetDropoutDescriptor };
        set(dropout, api.handle, probability, states as *mut _, 1 << 30, seed)
    };
    let words = format!("SetDropout restored {restore} {probability} {states} {seed}");
    (words, [vec![status.into()], session.read_dropout()].concat())
}

fn weights(session: &Session, dice: &mut Dice) -> Line {
    let (pseudo_layer, id) = (dice.0.random_range(-1..10), dice.0.random_range(-1..10));
    let size = if dice.one_in(2) { 1 << 30 } else { dice.0.random_range(0..6000) };
    let space = if dice.one_in(8) { dice.pick([0, SPACE + 1, SPACE + 2, SPACE + 4]) } else { SPACE };
    let words = format!("weights {pseudo_layer} {id} {size} {space}");
    (words, [session.read_weights(pseudo_layer, id, size, space), wide(&[0])].concat())
}
