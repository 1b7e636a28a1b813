//! The graph API against the real cuDNN, which needs no GPU to plan: the same descriptors, sound and spoilt, give the
//! same statuses and read back the same values on both libraries.
//!
//! Runs where `UCUDNN_TEST_REAL_CUDNN` names the folder that holds the real `libcudnn.so.9`. Left out, because cuDNN
//! crashes or is undefined there: inner descriptors of a wrong kind, null for a new descriptor, finalizing an engine
//! configuration without an engine, tensors of data types that do not exist, reading descriptors into null.
//! `script::tame` takes them out. Engines differ by nature: how they are reached is compared, not which.

mod attributes;
mod backend;
#[path = "../built/mod.rs"]
mod built;
mod graphs;
mod mutations;
mod script;

use backend::Backend;
use cudnn_abi::*;
use graphs::Builder;
use mutations::mutate;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use script::{Line, Step, run, shortest, tame};
use std::ffi::c_char;
use std::path::Path;

/// hostdnn and the real library, or `None`, said aloud.
fn both() -> Option<[Backend; 2]> {
    let Some(folder) = std::env::var_os("UCUDNN_TEST_REAL_CUDNN") else {
        built::skip("UCUDNN_TEST_REAL_CUDNN is not set: no real cuDNN to compare with");
        return None;
    };
    let libraries = [built::library(), Path::new(&folder).join("libcudnn.so.9")].map(|path| Backend::open(&path));
    let marked = libraries.each_ref().map(|backend| {
        // SAFETY: the symbol is only looked up.
        unsafe { backend.library.get::<unsafe extern "C" fn() -> *const c_char>("hostdnnGetVersion\0") }.is_ok()
    });
    assert_eq!(marked, [true, false], "the two libraries are not hostdnn and another");
    Some(libraries)
}

/// A random script: a graph, or what needs none, with up to four things wrong.
fn random_script(seed: u64) -> Vec<Step> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut builder = Builder::new(dice);
    match builder.dice.random_range(0..8) {
        0 => builder.variant_pack(),
        1 => (0..3).for_each(|_| builder.knob_choice()),
        2 => builder.refused(script::NONE),
        _ => {
            let data_type = builder.dice.random_range(0..3);
            let graph = builder.convolution_graph(data_type);
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

/// The first call that the libraries answer differently: in words, and hostdnn's answer and cuDNN's.
fn difference(libraries: &[Backend; 2], script: &[Step]) -> Result<usize, [Line; 2]> {
    let [ours, real] = libraries.each_ref().map(|backend| run(backend, script));
    let count = ours.len();
    ours.into_iter().zip(real).find(|(ours, real)| ours != real).map_or(Ok(count), |(ours, real)| Err([ours, real]))
}

/// Returns how many calls were compared.
fn assert_alike(libraries: &[Backend; 2], script: Vec<Step>, seed: u64) -> usize {
    difference(libraries, &script).unwrap_or_else(|first| {
        let script = shortest(script, |script| difference(libraries, script).is_err_and(|other| other == first));
        let script: String = script.iter().map(|step| format!("  {step:?}\n")).collect();
        panic!("seed {seed}:\n{script}hostdnn: {:?}\ncuDNN:   {:?}", first[0], first[1]);
    })
}

#[test]
fn scripts_are_answered_alike() {
    let Some(libraries) = both() else { return };
    let first: u64 = std::env::var("UCUDNN_TEST_SEED").map_or(0, |seed| seed.parse().unwrap());
    let count = 3000;
    let compared: usize = (first..first + count)
        .map(|seed| assert_alike(&libraries, random_script(seed), || format!("seed {seed}")))
        .sum();
    eprintln!("{compared} calls compared, seeds {first} to {}", first + count - 1);
}
