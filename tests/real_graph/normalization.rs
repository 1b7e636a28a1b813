//! Batch normalization as an operation graph, which cuDNN runs: the log and the report say so, once for each graph.

use super::children::{Through, run as run_child, told};
use super::families::Family;
use super::graphs::Builder;
use super::script::{Step, run};
use crate::programs::Folder;
use cudnn_abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// The operation graphs of a pass forward in training, backward, and forward again.
fn script() -> Vec<Step> {
    let dims = [4, 32, 16, 16];
    let dice = &mut StdRng::seed_from_u64(0);
    let mut builder = Builder::new(dice);
    for forward in [true, false, true] {
        let mut family = Family::of_type(&mut builder, CUDNN_DATA_HALF);
        let operation =
            if forward { family.batch_norm_forward(&dims, true) } else { family.batch_norm_backward(&dims) };
        builder.graph(&[operation]);
    }
    builder.script
}

#[test]
#[ignore = "a part of the_log_and_the_report_name_the_graphs"]
fn graphs() {
    let (backend, script) = (told(), script());
    for line in &run(&backend, &script)[..script.len()] {
        assert_eq!(line.status, CUDNN_STATUS_SUCCESS, "{line:?}");
    }
}

#[test]
fn the_log_and_the_report_name_the_graphs() {
    let folder = Folder::new("real-graph-normalization");
    let report = folder.join("report.jsonl");
    let variables = [("UCUDNN_LOG", "info"), ("UCUDNN_REPORT", report.to_str().unwrap())];
    let Some(log) = run_child("real_graph::normalization::graphs", Through::Ours, &variables) else { return };
    let report = std::fs::read_to_string(&report).unwrap();
    for pass in ["in training", "backward"] {
        let name = format!("batch normalization {pass} of half 4x32x16x16");
        let said = format!("{name}: cuDNN: an operation graph");
        assert_eq!(log.matches(&said).count(), 1, "{said}: {log}");
        let lines: Vec<&str> = report.lines().filter(|line| line.contains(&name)).collect();
        let [line] = lines[..] else { panic!("{name}: {report}") };
        assert!(line.contains(r#""event":"graph""#) && line.contains(r#""chosen":"cuDNN""#), "{line}");
    }
}
