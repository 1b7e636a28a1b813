//! Results against double precision.

use super::program;
use crate::command::Installed;
use crate::hostdnn::has_emulator;

/// The most that an error may be, in roundings of the type and of each number on the way to it.
const MOST_ROUNDINGS: f64 = 4.0;
/// Likewise on a device.
const MOST_ROUNDINGS_ON_A_DEVICE: f64 = 16.0;
/// The operations of UCUDNN_VERTEX_PULL to UCUDNN_VERTEX_PUSH, a bit each.
const ALL_OPERATIONS: u64 = (1 << 26) - 1;
/// The greatest child of halves depends on roundings: UCUDNN_VERTEX_MAX_CHILDREN.
const NOT_OF_HALVES: u64 = 1 << 18;

/// Forward, backward and step of nets of all operations, in all types, by one thread and by three.
#[test]
fn random_nets_are_exact() {
    let program = program("dynamic_random");
    for (seed, threads) in [("1", "1"), ("2", "3"), ("3", "1")] {
        check(&program.plain(&[seed, "400", threads], &[]).stdout);
    }
}

/// On the device, where values that other kernels read are rounded to the tensors' type.
#[test]
fn some_nets_are_exact_on_a_device() {
    nets_are_exact_on_a_device(6);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_nets_are_exact_on_a_device() {
    nets_are_exact_on_a_device(30);
}

fn nets_are_exact_on_a_device(count: usize) {
    if !has_emulator() {
        return;
    }
    let stdout = program("dynamic_random").plain(&["4", &count.to_string(), "device"], &[]).stdout;
    let lines: Vec<_> = stdout.lines().filter(|line| *line != "ended").collect();
    assert_eq!(lines.len(), count);
    for line in lines {
        let (_, errors) = line.split_once('|').unwrap();
        let errors: Vec<f64> = errors.split(' ').map(|error| error.parse().unwrap()).collect();
        assert!(errors.len() == 4 && errors.iter().all(|error| *error <= MOST_ROUNDINGS_ON_A_DEVICE), "{line}");
    }
}

/// Each net on a device is a line of the report, which the command shows.
#[test]
fn nets_on_a_device_are_reported() {
    if !has_emulator() {
        return;
    }
    let command = Installed::new("dynamic-report");
    let report = command.path("nets.jsonl");
    let file = report.to_str().unwrap();
    program("dynamic_random").plain(&["5", "2", "device"], &[("UCUDNN_REPORT", file), ("UCUDNN_DYNAMIC", "unfused")]);
    let text = std::fs::read_to_string(&report).unwrap();
    let events: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let nets: Vec<_> = events.iter().filter(|event| event["event"] == "dynamic").collect();
    assert_eq!(nets.len(), 2, "{text}");
    let shown = command.run(&["report", file]);
    for net in nets {
        assert_eq!(net["chosen"], "batched, 0 fused, without fusion");
        assert!(net["text"].as_str().unwrap().contains("function"), "{net}");
        let [name, data_type, chosen] = ["net", "type", "chosen"].map(|key| net[key].as_str().unwrap());
        let line = format!("{name}, {data_type}: {chosen}");
        assert!(shown.contains(&line), "{shown}");
    }
}

fn check(stdout: &str) {
    let lines: Vec<_> = stdout.lines().filter(|line| *line != "ended").collect();
    assert_eq!(lines.len(), 400);
    let (mut gradients, mut operations) = (0, [0; 4]);
    for (number, line) in lines.iter().enumerate() {
        let (case, errors) = line.split_once('|').unwrap();
        let errors: Vec<f64> = errors.split(' ').map(|error| error.parse().unwrap()).collect();
        assert!(errors.len() == 4 && errors.iter().all(|error| *error <= MOST_ROUNDINGS), "{line}");
        let bits = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        let [_, _, _, its, of_parameters] = case.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        operations[number % 4] |= bits(its);
        gradients += bits(of_parameters).count_ones();
    }
    let of_halves = ALL_OPERATIONS & !NOT_OF_HALVES;
    assert_eq!(operations, [ALL_OPERATIONS, ALL_OPERATIONS, of_halves, of_halves]);
    assert!(gradients >= 200, "{gradients} parameters had a gradient");
}
