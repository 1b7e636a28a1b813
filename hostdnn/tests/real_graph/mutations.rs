//! The mistakes of careless programs in sound scripts.

use super::attributes::attributes;
use super::script::{Elements, NONE, Slot, Step, Wants};
use cudnn_abi::*;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Numbers that programs get wrong.
const ODD: [i64; 14] = [-1, 0, 0, 1, 2, 3, 5, 8, 17, 65536, 1 << 31, 1 << 40, i64::MIN, i64::MAX];

/// Makes one change.
pub fn mutate(script: &mut Vec<Step>, dice: &mut StdRng) {
    let place = dice.random_range(0..script.len());
    match dice.random_range(0..12) {
        0 => drop(script.remove(place)),
        1 => {
            let again = script[place].clone();
            script.insert(dice.random_range(place..=script.len()), again);
        }
        2 => {
            let other = dice.random_range(0..script.len());
            script.swap(place, other);
        }
        3 => {
            let slot = any_slot(script, dice);
            script.insert(dice.random_range(0..=script.len()), Step::Finalize(slot));
        }
        4 => {
            // Copies made before the destruction stay valid.
            let slot = any_slot(script, dice);
            script.insert(dice.random_range(0..=script.len()), Step::Destroy(slot));
        }
        5 | 6 => {
            let get = any_get(script, dice);
            script.insert(dice.random_range(0..=script.len()), get);
        }
        _ => {
            let slot = any_slot(script, dice);
            let sets: Vec<usize> =
                (0..script.len()).filter(|&place| matches!(script[place], Step::Set { .. })).collect();
            if let Some(Step::Set { name, of, count, elements, .. }) = sets.choose(dice).map(|&set| &mut script[set]) {
                match dice.random_range(0..10) {
                    0 => *name = any_name(dice),
                    1 => *of = dice.random_range(-1..32),
                    2 => *count = dice.random_range(-2..12),
                    3 => *elements = Elements::Null,
                    _ => spoil(elements, slot, dice),
                }
            }
        }
    }
}

/// Changes the elements, but not the count that is passed.
fn spoil(elements: &mut Elements, slot: Slot, dice: &mut StdRng) {
    let odd = *ODD.choose(dice).unwrap();
    match elements {
        Elements::Null => {}
        Elements::Bytes(values) => values.iter_mut().for_each(|value| *value = odd as u8),
        Elements::Ints(values) => {
            let value = if dice.random_bool(0.7) { dice.random_range(-2..15) } else { dice.random_range(99..603) };
            values.iter_mut().for_each(|old| *old = value);
        }
        Elements::Longs(values) => {
            if let Some(value) = values.get_mut(dice.random_range(0..8)) {
                *value = odd;
            } else if let Some(value) = values.first_mut() {
                *value = value.wrapping_add(dice.random_range(-2..3));
            }
        }
        Elements::Floats(values) => values.iter_mut().for_each(|value| *value = odd as f32),
        Elements::Doubles(values) => values.iter_mut().for_each(|value| *value = odd as f64),
        Elements::Slots(slots) => {
            let place = dice.random_range(0..slots.len());
            slots[place] = if dice.random_bool(0.3) { NONE } else { slot };
        }
    }
}

fn any_slot(script: &[Step], dice: &mut StdRng) -> Slot {
    let slots: Vec<Slot> =
        script.iter().filter_map(|step| if let Step::Create(slot, _) = step { Some(*slot) } else { None }).collect();
    if slots.is_empty() || dice.random_bool(0.02) { NONE } else { *slots.choose(dice).unwrap() }
}

/// An attribute of any kind of descriptor, or none at all.
fn any_name(dice: &mut StdRng) -> cudnnBackendAttributeName_t {
    let kind = dice.random_range(0..20);
    match attributes(kind).choose(dice) {
        Some(attribute) => attribute.name,
        None => *[-1, 0, 99, 107, 899, 910, 1400, 9999].choose(dice).unwrap(),
    }
}

fn any_get(script: &[Step], dice: &mut StdRng) -> Step {
    let slot = any_slot(script, dice);
    let kind = script.iter().find_map(|step| match step {
        Step::Create(other, kind) if *other == slot => Some(*kind),
        _ => None,
    });
    let attribute = kind.and_then(|kind| attributes(kind).choose(dice));
    let name = match attribute {
        Some(attribute) if dice.random_bool(0.9) => attribute.name,
        _ => any_name(dice),
    };
    let of = match attribute {
        Some(attribute) if dice.random_bool(0.8) => attribute.get,
        _ => dice.random_range(-1..32),
    };
    let requested = *[-1, 0, 1, 1, 2, 3, 4, 5, 8, 12].choose(dice).unwrap();
    let wants = Wants { count: dice.random_bool(0.8), array: dice.random_bool(0.8) };
    Step::Get { slot, name, of, requested, wants }
}
