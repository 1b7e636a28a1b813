//! Products on emulated tensor cores: used where the network's math type allows them, with their expected accuracy.

use cudnn_abi::*;

use super::{FORCE, decisions, program};
use crate::hostdnn::has_emulator;

#[test]
fn tensor_cores_multiply_what_they_may() {
    if !has_emulator() {
        return;
    }
    let program = program("rnn_wide");
    let errors = |text: &str| -> Vec<f64> { text.trim().split('|').map(|error| error.parse().unwrap()).collect() };
    let tf32 = 1.0 / 2048.0;
    let all = [
        // TF32's own error, and none where it is forbidden.
        (CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 48, Some(tf32)),
        (CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 48, Some(tf32)),
        (CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 24, None),
        (CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH, 48, Some(0.0)),
        (CUDNN_DATA_HALF, CUDNN_FMA_MATH, 12, None),
        (CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH, 48, Some(0.0)),
        // Too few rows to make tensor cores worthwhile.
        (CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH, 7, None),
    ];
    for (i, (data_type, math, batch, more)) in all.into_iter().enumerate() {
        let report = program.file(&format!("report-{i}.jsonl"));
        let arguments = [data_type, math, batch].map(|number| number.to_string());
        let arguments = [&*arguments[0], &arguments[1], &arguments[2]];
        let variables = [FORCE[0], FORCE[1], ("UCUDNN_REPORT", report.to_str().unwrap())];
        let (plain, ours) = (program.plain(&arguments, &[]), program.preloaded(&arguments, &variables));
        for (plain, ours) in errors(&plain.stdout).into_iter().zip(errors(&ours.stdout)) {
            let most = 2.0 * plain + 1e-7 + more.unwrap_or(0.0);
            assert!(ours <= most, "{arguments:?}: {ours:e} > {most:e}");
        }
        let decisions = decisions(&report);
        let [decision] = &decisions[..] else { panic!("{arguments:?}: {decisions:?}\n{}", ours.stderr) };
        let chosen = decision["chosen"].as_str().unwrap();
        assert!(chosen != "cuDNN" && chosen.contains("tensor") == more.is_some(), "{arguments:?}: {decision}");
    }
}
