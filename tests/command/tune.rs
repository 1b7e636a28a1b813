//! `ucudnn tune` on hostdnn, followed by a program and by `ucudnn plan`.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::database::convnet;
use crate::hostdnn::{has_emulator, report};
use guest::testing::skip;

use super::{Ended, Installed, NETWORK, Row, csv};

const SMALL: [Row; 2] = [Row("a", 1, [4, 4, 10, 10], 4, 3), Row("b", 2, [4, 4, 9, 9], 4, 3)];

fn tune(ucudnn: &Installed, arguments: &[&str]) -> Ended {
    let search = ucudnn.path("cudnn").to_str().unwrap().to_owned();
    ucudnn.end(&[&["tune"], arguments].concat(), &[("LD_LIBRARY_PATH", &search)])
}

/// The number of micro-configurations that the command reports as measured.
fn measured(ended: &Ended) -> usize {
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let line = ended.stdout.lines().find(|line| line.starts_with("Measured in "));
    let line = line.unwrap_or_else(|| panic!("{}", ended.stdout));
    line.split_once("s: ").unwrap().1.split_once(" micro-configuration").unwrap().0.parse().unwrap()
}

#[test]
fn what_is_tuned_is_planned_and_not_measured_again() {
    let ucudnn = Installed::new("tune");
    ucudnn.file("net.csv", &csv(&SMALL));
    let all = ["net.csv", "--database", "t.sqlite"];
    let first = tune(&ucudnn, &all);
    assert!(measured(&first) > 12, "{}", first.stdout);
    assert!(first.stderr.contains("1/6 a F: ") && first.stderr.contains("6/6 b BF: "), "{}", first.stderr);
    assert!(!first.stderr.contains('\r'), "a bar in a file: {}", first.stderr);
    let second = tune(&ucudnn, &all);
    assert_eq!(measured(&second), 0, "{}", second.stderr);
    let plan =
        ucudnn.json(&["plan", "net.csv", "--database", "t.sqlite", "--limit", "none", "--total", "100KiB", "--json"]);
    assert_eq!(plan["plans"][0]["layers"].as_array().unwrap().len(), 6);
    assert!(plan["plans"][1]["workspace"].as_u64().unwrap() <= 100 << 10);
    let listed = ucudnn.json(&["db", "list", "--json", "--database", "t.sqlite"]);
    assert_eq!(listed["environments"][0]["kernels"], 6);
    // Another batch size gives other problems, whose undivided times are not known.
    let error = ucudnn.fails(
        1,
        &["plan", "net.csv", "--database", "t.sqlite", "--limit", "none", "--batch", "64", "--sizes", "undivided"],
    );
    assert!(error.contains("ucudnn tune net.csv --batch 64 --sizes undivided"), "{error}");
}

#[test]
fn interrupted_it_keeps_what_it_measured_and_goes_on() {
    let ucudnn = Installed::new("tune-interrupted");
    ucudnn.file("net.csv", &csv(&[Row("slow", 1, [64, 16, 40, 40], 16, 5), Row("b", 1, [4, 4, 9, 9], 4, 3)]));
    let search = ucudnn.path("cudnn").to_str().unwrap().to_owned();
    let arguments = ["tune", "net.csv", "--database", "t.sqlite", "--directions", "F", "--layers", "b,slow"];
    let mut child = ucudnn.command(&arguments, &[("LD_LIBRARY_PATH", &search)]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Waits until the database has a first result.
    let kept = || {
        let text = ucudnn.end(&["db", "export", "--database", "t.sqlite"], &[]).stdout;
        text.lines().filter(|line| line.contains("\"outcome\"")).count()
    };
    let deadline = Instant::now() + Duration::from_secs(100);
    while kept() == 0 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "nothing was kept before it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: `kill` touches no memory. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGINT), "{said}");
    assert!(said.contains("stopped at kernel 1 of 2; the same command goes on"), "{said}");
    let before = kept();
    assert!(before > 0);
    let rest = tune(&ucudnn, &arguments[1..]);
    assert!(measured(&rest) > 0);
    let again = tune(&ucudnn, &arguments[1..]);
    assert_eq!(measured(&again), 0);
    assert_eq!(kept(), before + measured(&rest), "measured twice, or lost");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let ucudnn = Installed::new("tune-errors");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let ended = ucudnn.end(&["tune", "net.csv", "--database", "t.sqlite", "--cudnn-library", "/no/such.so"], &[]);
    if ended.code == Some(0) {
        return skip("the loader finds a cuDNN");
    }
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("/no/such.so") && ended.stderr.contains("there is no cuDNN"), "{}", ended.stderr);
    ucudnn.file("none.sqlite", &"no database ".repeat(100));
    let ended = tune(&ucudnn, &["net.csv", "--database", "none.sqlite"]);
    assert!(ended.code == Some(1) && ended.stderr.contains("none.sqlite"), "{}", ended.stderr);
    let ended = tune(&ucudnn, &["net.csv", "--database", "t.sqlite", "--bytes", "1KiB"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("9 of 9 kernels could not be tuned"), "{}", ended.stderr);
    assert!(ended.stdout.contains("1024"), "{}", ended.stdout);
    for (option, value, says) in [
        ("--seconds", "-1", "seconds"),
        ("--devices", "x", "device numbers"),
        ("--numerics", "x", "match, allowed, any"),
    ] {
        let ended = tune(&ucudnn, &["net.csv", "--database", "t.sqlite", &format!("{option}={value}")]);
        assert!(
            ended.code == Some(2) && ended.stderr.contains(option) && ended.stderr.contains(says),
            "{}",
            ended.stderr
        );
    }
    for seconds in ["0", "-0.5", "nan", "inf", "-inf", "1e10", "1e20", "1e300", "1e999", "ten", ""] {
        let ended = tune(&ucudnn, &["net.csv", "--database", "t.sqlite", &format!("--seconds={seconds}")]);
        let bounds = "expected a number of seconds, more than 0 and at most 1000000000";
        assert!(ended.code == Some(2) && ended.stderr.contains(bounds), "{seconds}: {}", ended.stderr);
    }
    let ended = ucudnn.end(&["tune", "net.csv"], &[("UCUDNN_DATABASE", "off")]);
    assert!(ended.code == Some(2) && ended.stderr.contains("--database"), "{}", ended.stderr);
}

/// The command reads a network file as a program does that sets cuDNN's descriptors by it.
#[test]
fn a_network_file_s_kernels_are_a_program_s() {
    let ucudnn = Installed::new("convnet");
    let rows = [Row("a", 1, [4, 4, 10, 10], 6, 3), Row("b", 1, [4, 6, 9, 7], 4, 1)];
    // Strides, dilations and groups, too.
    let text = csv(&rows) + "net,c,1,4,4,12,14,8,3,2,1,0,2,1,1,2,2\n";
    let file = ucudnn.file("net.csv", &text);
    let convnet = convnet();
    for options in [["float", "nchw", "default"], ["half", "nhwc", "tensor-op"], ["double", "nchw", "fma"]] {
        let [data_type, format, math] = options;
        let out = convnet.file(&format!("{data_type}.jsonl"));
        let arguments = ["--type", data_type, "--format", format, "--math", math, "--batch", "2", "--iterations", "1"];
        let variables = [("UCUDNN_REPORT", out.to_str().unwrap()), ("UCUDNN_DATABASE", "off")];
        convnet.preloaded(&[&arguments[..], &[file.to_str().unwrap()]].concat(), &variables);
        let mut ran: Vec<_> = report(&out)
            .iter()
            .filter(|line| line["event"] == "asked")
            .map(|line| line["spec"].as_str().unwrap().to_owned())
            .collect();
        // The problems that the command reads from the file are those that it lists as not measured.
        ucudnn.run(&["db", "import", "/dev/null", "--database", "t.sqlite"]);
        let arguments = ["--type", data_type, "--format", format, "--math", math, "--batch", "2", "--json"];
        let listed = ucudnn.json(&[&["plan", "net.csv", "--kernels"], &arguments[..]].concat());
        let mut read: Vec<_> = listed["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kernel| kernel["spec"].as_str().unwrap().to_owned())
            .collect();
        ran.sort();
        ran.dedup();
        read.sort();
        assert_eq!(read, ran, "{options:?}");
        assert_eq!(read.len(), 9);
    }
}

/// A report's line of a net of vertex functions.
pub fn vertex_net(data_type: &str) -> serde_json::Value {
    serde_json::json!({
        "event": "dynamic", "net": "a net of 2 vertex functions and 48 parameters", "type": data_type, "tf32": false,
        "training": true, "static": false, "device": 0, "chosen": "batched, 0 fused", "seconds": 0.1,
        "text": "states 4\nparameters 4x8 4x4\npulls 4\npushes 4\nfunction 0:\n%0 = pull 0\n%1 = matmul P1, %0\nscatter 0, %1\n\
                 push 0, %1\nfunction 2:\n%0 = gather 0, 0\n%1 = gather 1, 0\n%2 = concat %0, %1\n%3 = matmul P0, %2\n\
                 %4 = tanh %3\nscatter 0, %4\npush 0, %4\n",
    })
}

#[test]
fn dynamic_nets_of_a_report_are_made() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-dynamic");
    let [float, half] = ["float", "half"].map(vertex_net);
    let mut wrong = vertex_net("bfloat16");
    wrong["text"] = "function 0:\nscatter 0, %7\n".into();
    ucudnn.file("run.jsonl", &format!("{float}\n{half}\n{float}\n"));
    ucudnn.file("other.jsonl", &format!("{wrong}\n{half}\n"));
    ucudnn.file("none.jsonl", "{\"event\": \"began\"}\n");
    let made = tune(&ucudnn, &["--dynamic", "run.jsonl", "--database", "t.sqlite"]);
    assert_eq!(made.code, Some(0), "{}\n{}", made.stdout, made.stderr);
    for line in [
        "48 parameters, float  persistent in groups (",
        "48 parameters, half   persistent in groups (",
        "2 nets made in ",
    ] {
        assert!(made.stdout.contains(line), "{line}: {}", made.stdout);
    }
    assert!(
        made.stderr.contains("1/2 a net of 2 vertex functions and 48 parameters, float: made in "),
        "{}",
        made.stderr
    );
    let failed = tune(&ucudnn, &["--dynamic", "other.jsonl", "--dynamic", "run.jsonl", "--database", "t.sqlite"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stdout);
    assert!(failed.stdout.contains("2 nets made in ") && failed.stderr.contains("1 of 3 nets could not be made"));
    assert!(failed.stderr.contains("bfloat16: a net has 1 to 64 outputs, not 0"), "{}", failed.stderr);
    let error = ucudnn.fails(1, &["tune", "--dynamic", "none.jsonl"]);
    assert!(error.contains("none.jsonl: the run made no dynamic net on a device"), "{error}");
}
