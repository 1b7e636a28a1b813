//! Results against double precision.

use super::hostdnn::seed;
use super::{FORCE, decisions, has_emulator, program};

/// A line of the program: the network, and the errors of y, hy and cy.
fn parse(line: &str) -> (&str, [f64; 3]) {
    let mut words = line.split('|');
    let network = words.next().unwrap();
    (network, [(); 3].map(|()| words.next().unwrap().parse().unwrap()))
}

/// The errors of two runs of the program: the second's at most the first's twice over, and an ulp of the type. How many
/// networks' results differ.
pub fn assert_exact(plain: &str, ours: &str) -> usize {
    assert_eq!(plain.lines().count(), ours.lines().count());
    let mut differ = 0;
    for (plain, ours) in plain.lines().zip(ours.lines()).filter(|(plain, _)| *plain != "ended") {
        let ((network, expected), (same, errors)) = (parse(plain), parse(ours));
        assert_eq!(network, same);
        let ulp = if network.contains("type 0") {
            1e-7
        } else if network.contains("type 2") {
            5e-4
        } else {
            4e-3
        };
        for (expected, error) in expected.into_iter().zip(errors) {
            assert!(error <= 2.0 * expected + ulp, "{network}: {error:e}, plain {expected:e}");
        }
        differ += usize::from(expected != errors);
    }
    differ
}

/// Networks of all cells, types, layouts, directions, layers, lengths and biases, with and without states: our kernels are
/// about as exact as hostdnn's own arithmetic in the same type.
#[test]
fn random_networks_are_as_exact_as_without_us() {
    let program = program("rnn_random");
    let report = program.file("report.jsonl");
    let seed = seed().to_string();
    let arguments = [seed.as_str(), "40"];
    let plain = program.plain(&arguments, &[]).stdout;
    let variables = [FORCE[0], FORCE[1], ("UCUDNN_REPORT", report.to_str().unwrap())];
    let ours = program.preloaded(&arguments, &variables);
    let differ = assert_exact(&plain, &ours.stdout);
    assert_eq!(plain.lines().count(), 41);
    if has_emulator() {
        let decisions = decisions(&report);
        let wrong: Vec<_> = decisions.iter().filter(|line| line["chosen"] == "cuDNN").collect();
        assert!(wrong.is_empty() && decisions.len() > 30, "{wrong:?}\n{}", ours.stderr);
        assert!(differ > 10, "two implementations round alike: {differ}");
        for regime in ["cluster", "wavefront"] {
            let mut chosen = decisions.iter().map(|line| line["chosen"].as_str().unwrap());
            assert!(chosen.any(|chosen| chosen.starts_with(regime)), "no network took a {regime}");
        }
    }
}
