//! Results against double precision.

use std::collections::BTreeSet;

use super::program;
use crate::hostdnn::has_emulator;
use crate::hostdnn::seed;

const FIRST: (&str, &str) = ("UCUDNN_RNN_TOP_K", "1");

/// An error of one rounding alone exceeds this number of standard deviations once in 16,000 times.
const MOST_DEVIATIONS: f64 = 4.0;

/// A line of the program: the run, its configuration, and the errors of y, hy and cy in standard deviations.
struct Line<'a> {
    run: &'a str,
    configuration: &'a str,
    deviations: [f64; 3],
}

impl<'a> Line<'a> {
    fn all(stdout: &'a str) -> Vec<Self> {
        let parse = |line: &'a str| {
            let mut words = line.split('|');
            let mut next = || words.next().unwrap();
            Self { run: next(), configuration: next(), deviations: [(); 3].map(|()| next().parse().unwrap()) }
        };
        stdout.lines().filter(|line| *line != "ended").map(parse).collect()
    }

    /// The number that follows a word of the run.
    fn number(&self, word: &str) -> usize {
        let mut words = self.run.split(' ').skip_while(|other| *other != word);
        words.nth(1).unwrap_or_else(|| panic!("no {word} in {}", self.run)).parse().unwrap()
    }

    fn assert_exact(&self) {
        let Self { run, configuration, deviations } = self;
        println!("{run}|{configuration}|{deviations:?}");
        assert!(deviations.iter().all(|off| *off <= MOST_DEVIATIONS), "{run}: {configuration}: {deviations:?}");
    }
}

/// Any two of cell, type, layers and directions occur together.
fn assert_pairwise(lines: &[Line]) {
    let choices = [("cell", 5), ("type", 3), ("layers", 3), ("directions", 2)];
    for (i, (a, a_count)) in choices.iter().enumerate() {
        for (b, b_count) in &choices[..i] {
            let pairs: BTreeSet<_> = lines.iter().map(|line| (line.number(a), line.number(b))).collect();
            assert_eq!(pairs.len(), a_count * b_count, "{a} and {b}: {pairs:?}");
        }
    }
}

#[test]
fn random_networks_are_exact() {
    if !has_emulator() {
        return;
    }
    let program = program("direct_random");
    let ran = program.plain(&[&seed().to_string(), "15", "90"], &[FIRST]);
    let lines = Line::all(&ran.stdout);
    assert_eq!(lines.len(), 3 * 15, "{}", ran.stderr);
    assert_pairwise(&lines);
    lines.iter().for_each(Line::assert_exact);
    assert!(lines.iter().any(|line| !line.configuration.starts_with("block")), "no blocks exchanged anything");
    assert_eq!(ran.stderr, "");
}

/// One time step after the other: the only way if no GPU kernel fits on the chip.
#[test]
fn steps_are_exact() {
    if !has_emulator() {
        return;
    }
    let ran = program("direct_random").plain(&[&seed().to_string(), "15", "60", "step"], &[]);
    let lines = Line::all(&ran.stdout);
    assert_pairwise(&lines);
    assert!(lines.iter().all(|line| line.configuration == "step"));
    lines.iter().for_each(Line::assert_exact);
}

/// Canonical GRU with both ways of exchange between its blocks; 16 is its enumerator.
#[test]
fn some_canonical_gru_is_exact_with_one_exchange_and_with_two() {
    canonical_gru_is_exact(3);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn canonical_gru_is_exact_with_one_exchange_and_with_two() {
    canonical_gru_is_exact(15);
}

fn canonical_gru_is_exact(networks: usize) {
    if !has_emulator() {
        return;
    }
    for configuration in ["grid-single u24 b2 t32 l1 r64", "grid u24 b2 t32 l1 r64"] {
        let ran = program("direct_random")
            .plain(&[&seed().to_string(), &networks.to_string(), "70", configuration, "16"], &[]);
        let lines = Line::all(&ran.stdout);
        assert_eq!(lines.len(), 3 * networks, "{}", ran.stderr);
        assert!(lines.iter().all(|line| line.configuration == configuration && line.number("cell") == 16));
        lines.iter().for_each(Line::assert_exact);
    }
}

/// Several candidates are timed in memory that is freed again; whichever is chosen is right.
#[test]
fn the_fastest_is_chosen() {
    if !has_emulator() {
        return;
    }
    let program = program("direct_random");
    let arguments = ["3", "2", "33"];
    for variables in [[("UCUDNN_RNN_TOP_K", "3")], [("UCUDNN_FAULT", "allocation")]] {
        let ran = program.plain(&arguments, &variables);
        Line::all(&ran.stdout).iter().for_each(Line::assert_exact);
        let is_told = ran.stderr.contains("no memory to time it in");
        assert_eq!(is_told, variables[0].0 == "UCUDNN_FAULT", "{}", ran.stderr);
    }
}

/// The log has all candidates' times; the chosen one's is the least.
#[test]
fn what_was_timed_is_told() {
    if !has_emulator() {
        return;
    }
    let variables = [("UCUDNN_RNN_TOP_K", "3"), ("UCUDNN_LOG", "info")];
    let ran = program("direct_random").plain(&["3", "1", "33"], &variables);
    let chosen = Line::all(&ran.stdout)[0].configuration;
    let told = ran.stderr.lines().find_map(|line| Some(line.split_once("microseconds a step: ")?.1));
    let told = told.unwrap_or_else(|| panic!("{}", ran.stderr)).split(", ").map(|one| one.rsplit_once(": ").unwrap());
    let mut told: Vec<_> = told.map(|(one, time)| (one, time.parse::<f64>().unwrap())).collect();
    // The model's three candidates, and one with a matrix product for each step.
    assert_eq!((told.len(), told[3].0), (4, "step"));
    told.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    assert!(told[0].0 == chosen || told[0].1 == told[1].1, "{chosen}, of {told:?}");
}
