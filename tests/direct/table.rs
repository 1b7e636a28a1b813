//! The table of `scripts/gpu.py canonical-gru`, here of emulated GPU kernels.

use std::path::Path;
use std::process::Command;

use crate::hostdnn::has_emulator;
use crate::programs::library;
use guest::testing::skip;

#[test]
fn ways_to_exchange_are_timed() {
    let version = Command::new("python3").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return skip("there is no python3");
    }
    if !has_emulator() {
        return;
    }
    let hostdnn = std::env::current_exe().unwrap().with_file_name("libhostdnn.so");
    let mut script = Command::new("python3");
    script.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/gpu.py"));
    script.args(["canonical-gru", "--host", "--library"]).arg(library()).arg("--cudnn").arg(hostdnn);
    script.args(["--type", "half", "--hidden", "160", "--batch", "1", "--steps", "2", "--candidates", "3"]);
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<_>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let [_, _, kinds @ .., _, _] = &rows[0][..] else { panic!("{text}") };
    let [hidden, batch, times @ .., ratio] = &rows[1][..kinds.len() + 3] else { panic!("{text}") };
    assert_eq!((*hidden, *batch), ("160", "1"));
    let timed = kinds.iter().zip(times).filter_map(|(kind, time)| Some((*kind, time.parse::<f64>().ok()?)));
    let timed: Vec<_> = timed.collect();
    // The model's best candidates include both ways of exchange.
    assert!(timed.iter().any(|(kind, _)| *kind == "grid-single") && timed.len() >= 3, "{text}");
    assert!(timed.iter().all(|(_, time)| *time > 0.0) && ratio.parse::<f64>().unwrap() >= 1.0, "{text}");
    let least = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap().0;
    assert_eq!(rows[1][kinds.len() + 3], least, "{text}");
}
