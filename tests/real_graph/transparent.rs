//! Random scripts on the real library, directly and through libucudnn.so: the same statuses and the same attributes.

use super::backend::Backend;
use super::children::{Through, h200, run as run_child, told};
use super::families::Family;
use super::graphs::Builder;
use super::mutations::mutate;
use super::script::{Elements, Step, Wants, run, tame};
use crate::programs::real_cudnn;
use cudnn_abi::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A graph of any kind, plans for it, a plan made from another's text, and an execution; with up to three errors.
fn random_plans(seed: u64, properties: &str) -> Vec<Step> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut builder = Builder::new(dice);
    let ours = builder.dice.random_bool(0.5);
    let graph = if ours {
        let data_type = builder.dice.random_range(0..3);
        let usual = builder.dice.random_bool(0.7);
        builder.convolution_graph(data_type, usual)
    } else {
        Family::new(&mut builder).graph()
    };
    let device = builder.device(properties);
    let sound = builder.script.len();
    let mode = if builder.dice.random_bool(0.8) { CUDNN_HEUR_MODE_A } else { CUDNN_HEUR_MODE_FALLBACK };
    let plans = builder.plans(graph, device, mode, 2);
    for _ in 0..2 {
        let index = builder.dice.random_range(0..12);
        builder.plan_of_engine(graph, device, index);
    }
    let (name, of) = (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR);
    builder.script.push(Step::Get { slot: plans[0], name, of, requested: 1 << 15, wants: Wants::BOTH });
    let pack = builder.variant_pack();
    let read = pack + 1;
    let mut script = builder.script;
    let mut spoilt = script.split_off(sound);
    for _ in 0..dice.random_range(0..4) {
        mutate(&mut spoilt, dice);
    }
    script.append(&mut spoilt);
    script.push(Step::Create(read, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    // These steps are never mutated: cuDNN crashes on some texts, and without a device.
    let (name, of, elements) =
        (CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, Elements::Slots(vec![device]));
    script.push(Step::Set { slot: read, name, of, count: 1, elements });
    script.push(Step::Deserialize { from: plans[0], into: read });
    script.extend([plans[0], read].map(|plan| Step::Execute { plan, pack }));
    tame(&mut script);
    script
}

/// A graph around a convolution, sound or mutated, without plans.
fn random_graph(seed: u64) -> Vec<Step> {
    let dice = &mut StdRng::seed_from_u64(seed);
    let mut builder = Builder::new(dice);
    let data_type = builder.dice.random_range(0..3);
    let graph = builder.convolution_graph(data_type, false);
    builder.refused(graph);
    builder.variant_pack();
    let mut script = builder.script;
    for _ in 0..dice.random_range(0..5) {
        mutate(&mut script, dice);
    }
    tame(&mut script);
    script
}

/// The number of seeds: fewer over versions of cuDNN that hostdnn does not stand in for.
fn seeds(backend: &Backend) -> u64 {
    // SAFETY: every version declares the function so.
    if unsafe { (backend.cudnnGetVersion)() } == 91900 { 150 } else { 50 }
}

#[test]
#[ignore = "a part of passing_through_changes_nothing"]
fn transcript() {
    let (backend, properties) = (told(), h200());
    let first: u64 = std::env::var("UCUDNN_TEST_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    for seed in first..first + seeds(&backend) {
        for script in [random_graph(seed), random_plans(seed, &properties)] {
            for line in run(&backend, &script) {
                eprintln!("seed {seed} {line:?}");
            }
        }
    }
}

/// A line without the parts that a limit changes in split plans: their reported workspace, and the library's own
/// refusal of a call that could not run anyway.
fn but_for_limits(line: &str) -> &str {
    let of_split = (line.contains("Get {") && line.contains("name: 402,")) || line.contains("Execute {");
    if of_split { line.split(" -> ").next().unwrap_or(line) } else { line }
}

#[test]
fn passing_through_changes_nothing() {
    let transcript = |through, variables| run_child("real_graph::transparent::transcript", through, variables);
    let Some(folder) = real_cudnn() else { return };
    let seeds = seeds(&Backend::open(&folder.join("libcudnn.so.9"))) as usize;
    let real = transcript(Through::Real, &[]).unwrap();
    let runs: [&[(&str, &str)]; 3] = [&[], &[("UCUDNN_POLICY", "off")], &[("UCUDNN_WORKSPACE_LIMIT", "0")]];
    for variables in runs {
        let is_limited = variables.iter().any(|(name, _)| *name == "UCUDNN_WORKSPACE_LIMIT");
        let kept = |line: &str| if is_limited { but_for_limits(line).to_owned() } else { line.to_owned() };
        let ours = transcript(Through::Ours, variables).unwrap();
        // The library's own messages are no answers of cuDNN's.
        let answers =
            |text: &str| -> Vec<String> { text.lines().filter(|line| line.starts_with("seed ")).map(kept).collect() };
        let (real, ours) = (answers(&real), answers(&ours));
        for (real, ours) in real.iter().zip(&ours) {
            assert_eq!(ours, real, "{variables:?}: through us on the left");
        }
        assert_eq!(ours.len(), real.len());
        let plans = real.iter().filter(|line| line.contains("name: 402,")).count();
        assert!(plans > 4 * seeds, "only {plans} workspaces of plans were asked for");
        eprintln!("{variables:?}: {} calls compared", real.len());
    }
}
