//! Null, garbage, mismatched and aliased arguments: the plain library's statuses. cuDNN's own results have its bits.

use super::{FORCE, program};

#[test]
fn statuses_and_bits_are_those_without_us() {
    let program = program("rnn_hostile");
    let plain = program.plain(&[], &[]).stdout;
    let refused = plain.lines().filter(|line| line.split('|').nth(1).is_some_and(|status| status != "0")).count();
    assert!(refused > 200 && plain.lines().count() > 500, "{refused} of {}", plain.lines().count());
    // Networks that train would be tried on our kernels, if these were compiled in time.
    let no_training = ("UCUDNN_RNN_TRAINING", "off");
    for variables in [&FORCE[..], &[], &[("UCUDNN_RNN", "off")], &[("UCUDNN_RNN", "force"), ("UCUDNN_POLICY", "off")]] {
        let ours = program.preloaded(&[], &[variables, &[no_training]].concat());
        for (plain, ours) in plain.lines().zip(ours.stdout.lines()) {
            assert_eq!(plain, ours, "{variables:?}");
        }
        assert_eq!(plain.lines().count(), ours.stdout.lines().count(), "{}", ours.stderr);
        assert_eq!(ours.stderr, "");
    }
}

/// Off means cuDNN's own bits everywhere.
#[test]
fn off_is_cudnn() {
    let program = program("rnn_random");
    let arguments = ["3", "12"];
    let plain = program.plain(&arguments, &[]).stdout;
    for variables in [[("UCUDNN_RNN", "off")], [("UCUDNN_POLICY", "off")]] {
        assert_eq!(plain, program.preloaded(&arguments, &variables).stdout, "{variables:?}");
    }
}
