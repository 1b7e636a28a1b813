//! Products on emulated tensor cores: used where the network's math type allows them, with their expected accuracy.

use cudnn_abi::*;

use super::{FORCE, decisions, program};
use crate::hostdnn::has_emulator;

/// TF32's own error.
const TF32: f64 = 1.0 / 2048.0;

/// A data type, a math type, the rows of a batch, and the error that tensor cores add; `None` where they do not multiply.
type Case = (cudnnDataType_t, cudnnMathType_t, i32, Option<f64>);

#[test]
fn tensor_cores_multiply_where_the_math_type_allows_them() {
    products_are_as_exact_as_allowed(&[
        (CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 48, Some(TF32)),
        (CUDNN_DATA_HALF, CUDNN_FMA_MATH, 12, None),
        // Too few rows to make tensor cores worthwhile.
        (CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH, 7, None),
    ]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn tensor_cores_multiply_in_each_type() {
    products_are_as_exact_as_allowed(&[
        (CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 48, Some(TF32)),
        (CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 24, None),
        (CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH, 48, Some(0.0)),
        (CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH, 48, Some(0.0)),
    ]);
}

fn products_are_as_exact_as_allowed(cases: &[Case]) {
    if !has_emulator() {
        return;
    }
    let program = program("rnn_wide");
    let errors = |text: &str| -> Vec<f64> { text.trim().split('|').map(|error| error.parse().unwrap()).collect() };
    for (i, &(data_type, math, batch, more)) in cases.iter().enumerate() {
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
