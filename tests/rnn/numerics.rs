//! Results against double precision.

use std::collections::HashMap;

use super::{FORCE, decisions, program};
use crate::hostdnn::has_emulator;
use crate::hostdnn::seed;

/// The ratios of our errors to the plain run's, for each kind of network.
pub type Ratios = HashMap<String, Vec<f64>>;

/// See [`assert_exact`].
const MOST_UNITS: f64 = 8.0;
/// The largest ratio of our errors to the plain run's, as the geometric mean of many networks.
const MOST_IN_THE_MEAN: f64 = 1.5;

/// A line of a program: the network, and the errors of its results.
fn parse(line: &str) -> (&str, Vec<f64>) {
    let mut words = line.split('|');
    let network = words.next().unwrap();
    (network, words.map(|word| word.parse().unwrap()).collect())
}

/// Compares the errors of two runs: the second's are at most twice the first's and some units of the type's last digit,
/// as a few results may be small differences of large numbers. Returns the ratios of the second's to the first's, by
/// type.
pub fn assert_exact(plain: &str, ours: &str) -> Ratios {
    assert_eq!(plain.lines().count(), ours.lines().count());
    let mut ratios = HashMap::<_, Vec<_>>::new();
    for (plain, ours) in plain.lines().zip(ours.lines()).filter(|(plain, _)| *plain != "ended") {
        let ((network, expected), (same, errors)) = (parse(plain), parse(ours));
        assert_eq!((network, expected.len()), (same, errors.len()));
        let data_type = network.split(' ').skip_while(|word| *word != "type").nth(1).unwrap();
        let unit = match data_type {
            "0" => 2_f64.powi(-24),
            "2" => 2_f64.powi(-11),
            _ => 2_f64.powi(-8),
        };
        for (expected, error) in expected.into_iter().zip(errors) {
            assert!(error <= 2.0 * expected + MOST_UNITS * unit, "{network}: {error:e}, plain {expected:e}");
            if expected > 0.0 && error > 0.0 {
                ratios.entry(data_type.to_owned()).or_default().push(error / expected);
            }
        }
    }
    ratios
}

/// Checks the ratios of errors by type, of all three types.
pub fn assert_exact_in_the_mean(ratios: &HashMap<String, Vec<f64>>) {
    assert_eq!(ratios.len(), 3, "{ratios:?}");
    for (data_type, ratios) in ratios {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        println!("type {data_type}: ours are {mean:.2} of plain's, of {}", ratios.len());
        assert!(mean <= MOST_IN_THE_MEAN, "type {data_type}: {mean:.2}, of {ratios:?}");
    }
}

/// Networks of all cells, types, layouts, directions, layers, lengths and biases, with and without states: our GPU
/// kernels are about as exact as hostdnn's own arithmetic in the same type.
#[test]
fn some_networks_are_as_exact_as_without_us() {
    let (decisions, _) = networks_are_as_exact_as_without_us(8);
    assert!(!has_emulator() || decisions.len() >= 4, "{decisions:?}");
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_networks_are_as_exact_as_without_us() {
    let (decisions, ratios) = networks_are_as_exact_as_without_us(40);
    assert_exact_in_the_mean(&ratios);
    if has_emulator() {
        assert!(decisions.len() > 30, "{decisions:?}");
        let differ = ratios.values().flatten().filter(|&&ratio| ratio != 1.0).count();
        assert!(differ > 10, "two implementations round alike: {differ}");
        for regime in ["cluster", "wavefront"] {
            let mut chosen = decisions.iter().map(|line| line["chosen"].as_str().unwrap());
            assert!(chosen.any(|chosen| chosen.starts_with(regime)), "no network took a {regime}");
        }
    }
}

/// Returns the decisions about `count` networks, and the ratios of errors.
fn networks_are_as_exact_as_without_us(count: usize) -> (Vec<serde_json::Value>, Ratios) {
    let program = program("rnn_random");
    let report = program.file("report.jsonl");
    let (seed, number) = (seed().to_string(), count.to_string());
    let arguments = [seed.as_str(), &number];
    let plain = program.plain(&arguments, &[]).stdout;
    let variables = [FORCE[0], FORCE[1], ("UCUDNN_REPORT", report.to_str().unwrap())];
    let ours = program.preloaded(&arguments, &variables);
    let ratios = assert_exact(&plain, &ours.stdout);
    assert_eq!(plain.lines().count(), count + 1);
    let decisions = decisions(&report);
    let wrong: Vec<_> = decisions.iter().filter(|line| has_emulator() && line["chosen"] == "cuDNN").collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", ours.stderr);
    (decisions, ratios)
}
