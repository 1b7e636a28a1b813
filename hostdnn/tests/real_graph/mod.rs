//! The graph API against the real cuDNN, which needs no GPU to plan: the same descriptors, sound and spoilt, give the
//! same statuses and read back the same values on both libraries.
//!
//! Runs if `UCUDNN_TEST_REAL_CUDNN` names the folder of the real `libcudnn.so.9`. Omitted, because cuDNN crashes or is
//! undefined there: inner descriptors of a wrong kind, null for a new descriptor, finalizing an engine configuration
//! without an engine, tensors of data types that do not exist, reading descriptors into null. `script::tame` removes
//! them. Engines differ between the libraries: the tests compare how engines are reached, not which engines exist.

mod attributes;
mod backend;
#[allow(dead_code)] // libucudnn's tests use the rest
mod graphs;
mod mutations;
#[allow(dead_code)] // libucudnn's tests use the rest
mod script;

use crate::libraries::both;
use attributes::{ATTRIBUTES, kinds};
use backend::Backend;
use cudnn_abi::*;
use graphs::Builder;
use mutations::mutate;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use script::{Elements, Line, Step, Wants, run, shortest, tame};
use std::ops::Range;
use std::path::Path;

/// A random script: a graph, or descriptors without one, with up to four errors.
fn random_script(seed: u64) -> Vec<Step> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut builder = Builder::new(dice);
    match builder.dice.random_range(0..8) {
        0 => _ = builder.variant_pack(),
        1 => (0..3).for_each(|_| builder.knob_choice()),
        2 => builder.refused(script::NONE),
        _ => {
            let data_type = builder.dice.random_range(0..3);
            let graph = builder.convolution_graph(data_type, false);
            if builder.dice.random_bool(0.2) {
                builder.refused(graph);
            }
        }
    }
    let mut script = builder.script;
    for _ in 0..dice.random_range(0..5) {
        mutate(&mut script, dice);
    }
    tame(&mut script);
    script
}

/// The steps from a sound graph to its execution, with up to three errors.
fn random_plan(seed: u64, properties: &str) -> Vec<Step> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut builder = Builder::new(dice);
    let data_type = *[CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16].choose(builder.dice).unwrap();
    let graph = builder.convolution_graph(data_type, true);
    let device = builder.device(properties);
    let sound = builder.script.len();
    let mode = *[CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_A].choose(builder.dice).unwrap();
    let plans = builder.plans(graph, device, mode, 1);
    let pack = builder.variant_pack();
    builder.script.push(Step::Execute { plan: plans[0], pack });
    let mut script = builder.script;
    let mut spoilt = script.split_off(sound);
    for _ in 0..dice.random_range(0..4) {
        mutate(&mut spoilt, dice);
    }
    script.append(&mut spoilt);
    tame(&mut script);
    script
}

/// The first call that the libraries answer differently: hostdnn's answer and cuDNN's.
fn difference(libraries: &[Backend; 2], script: &[Step], seen: fn(Line) -> Line) -> Result<usize, Box<[Line; 2]>> {
    let [ours, real] = libraries.each_ref().map(|backend| run(backend, script).into_iter().map(seen));
    let count = ours.len();
    ours.zip(real).find(|(ours, real)| ours != real).map_or(Ok(count), |(ours, real)| Err(Box::new([ours, real])))
}

/// Runs the scripts of `count` seeds on both libraries.
fn assert_random_alike(count: u64, script: impl Fn(u64) -> Vec<Step>, seen: fn(Line) -> Line) {
    let first: u64 = std::env::var("UCUDNN_TEST_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    assert_alike(first..first + count, script, seen);
}

/// Runs numbered scripts on both libraries, and prints the number of compared calls.
fn assert_alike(seeds: Range<u64>, script: impl Fn(u64) -> Vec<Step>, seen: fn(Line) -> Line) {
    let Some(libraries) = both(Backend::open) else { return };
    let mut compared = 0;
    for seed in seeds.clone() {
        let script = script(seed);
        compared += difference(&libraries, &script, seen).unwrap_or_else(|first| {
            let same = |script: &[Step]| difference(&libraries, script, seen).is_err_and(|other| other == first);
            let script: String = shortest(script, same).iter().map(|step| format!("  {step:?}\n")).collect();
            panic!("UCUDNN_TEST_SEED={seed}\n{script}hostdnn: {:?}\ncuDNN:   {:?}", first[0], first[1]);
        });
    }
    eprintln!("{compared} calls compared, seeds {seeds:?}");
}

#[test]
fn scripts_are_answered_alike() {
    assert_random_alike(3000, random_script, |line| line);
}

#[test]
fn plans_are_reached_alike() {
    let properties = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/devices/h200.json");
    let properties = std::fs::read_to_string(&properties).unwrap_or_else(|e| panic!("{}: {e}", properties.display()));
    assert_random_alike(200, |seed| random_plan(seed, &properties), Line::without_engines);
}

/// Sets one attribute, of this kind or another, on new descriptors as every type and with right and wrong counts, with
/// and without an array; then reads it from a finalized descriptor, if finalizing without settings succeeds.
fn every_call(kind: cudnnBackendDescriptorType_t, name: cudnnBackendAttributeName_t) -> Vec<Step> {
    let (slot, types) = (0, 0..=CUDNN_TYPE_CHAR + 2);
    let mut script = Vec::new();
    for of in types.clone() {
        for count in -2..=2 {
            for elements in [Elements::Null, Elements::Doubles(vec![1.0; 2])] {
                script.push(Step::Create(slot, kind));
                script.push(Step::Set { slot, name, of, count, elements });
            }
        }
    }
    script.extend([Step::Create(slot, kind), Step::Finalize(slot)]);
    for of in types {
        for requested in -1..=2 {
            let array = [false, true].map(|array| Wants { count: true, array });
            script.extend(array.map(|wants| Step::Get { slot, name, of, requested, wants }));
        }
    }
    tame(&mut script);
    script
}

#[test]
fn every_attribute_is_set_and_read_alike() {
    let all = kinds().flat_map(|kind| ATTRIBUTES.iter().map(move |attribute| (kind, attribute.name)));
    let all: Vec<_> = all.collect();
    assert_alike(0..all.len() as u64, |at| every_call(all[at as usize].0, all[at as usize].1), Line::without_engines);
}
