//! Against PyTorch's RNNs on the CPU, if `UCUDNN_TEST_PYTORCH` names a Python that has torch.

use crate::built;
use std::process::Command;

#[test]
fn results_are_pytorchs() {
    run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rnn/pytorch.py"));
}

#[test]
fn gradients_are_pytorchs() {
    run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rnn/pytorch_gradients.py"));
}

fn run(script: &str) {
    let Some(python) = std::env::var_os("UCUDNN_TEST_PYTORCH") else {
        built::skip("UCUDNN_TEST_PYTORCH names no Python with torch: nothing to compare with");
        return;
    };
    let mut command = Command::new(python);
    command.env_clear().args(["-B", "-W", "ignore", script]).arg(built::library());
    let output = built::succeed(&mut command);
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
}
