//! Tables fit the terminal, or COLUMNS, and are complete otherwise.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};

use recurrent::network::inference::Inference;
use serde_json::json;

use super::data::asked;
use super::{Installed, NETWORK, Row, csv, filled};

/// A network with long texts everywhere.
const WIDE: [Row; 2] = [Row("a-layer-with-a-rather-long-name", 2, [128, 256, 56, 56], 512, 3), NETWORK[0]];

/// Commands whose tables are wider than 120 columns in full, and a text that only the full tables have.
const WIDE_COMMANDS: [(&[&str], &str); 2] = [
    (&["report", "r.jsonl"], "float 128x256x56x56 * 512x256x3x3 pad 1x1 stride 1x1"),
    (&["report", "rnn.jsonl"], "because of a long reason that nobody reads to its very end"),
];

/// Commands whose tables are narrower.
const COMMANDS: [&[&str]; 4] = [
    &["plan", "net.csv", "--database=t.sqlite", "--limit=1MiB,none", "--total=64MiB"],
    &["plan", "net.csv", "--kernels"],
    &["db", "list", "--kernels", "--database=t.sqlite"],
    &["report", "many.jsonl"],
];

fn prepared(name: &str) -> Installed {
    let ucudnn = Installed::new(name);
    ucudnn.file("net.csv", &csv(&WIDE));
    filled(&ucudnn.path("t.sqlite"), &WIDE);
    let engine = |text: String| text.replace("FFT", "ENGINE_11[k2=4,k14=-1,k27=0]");
    ucudnn.file("r.jsonl", &engine(asked(&WIDE[0], "F", 1.0) + &asked(&WIDE[1], "BF", 1.0)));
    ucudnn.file("many.jsonl", &NETWORK.iter().map(|row| asked(row, "F", 1.0)).collect::<String>());
    let network = Inference::from_spec(RNN).unwrap();
    let rnn = json!({
        "event": "rnn", "rnn": network.to_string(), "spec": network.spec(), "chosen": "8x2 grid of 16",
        "why": WIDE_COMMANDS[1].1, "first": "8x2 grid of 16",
        "times": [{ "what": "8x2 grid of 16", "step_ms": 0.01 }, { "what": "cuDNN", "step_ms": 0.02 }],
    });
    ucudnn.file("rnn.jsonl", &format!("{rnn}\n"));
    ucudnn
}

const RNN: &str = "LSTM input=256 hidden=256 layers=2 directions=2 bias=double type=half math=tensor-op \
                   algorithm=persist-static layout=batch-major padded=yes batch=16 steps=100 full=yes";

/// The lines of the tables in a text: from a header to the last row. Sentences are the terminal's to wrap.
fn tables(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &&str| line.starts_with('─');
    let mut tables = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| is_rule(line)) {
        tables.push(lines[at - 1]);
        tables.extend(lines[at..].iter().take_while(|line| !line.is_empty()));
    }
    tables
}

fn widest(text: &str) -> usize {
    let tables = tables(text);
    assert!(!tables.is_empty(), "no table in\n{text}");
    tables.iter().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn tables_fit_the_columns() {
    let ucudnn = prepared("width-columns");
    for columns in [80, 120] {
        let variable = columns.to_string();
        let all = WIDE_COMMANDS.iter().map(|(arguments, _)| *arguments).chain(COMMANDS);
        for arguments in all {
            let ended = ucudnn.end(arguments, &[("COLUMNS", &variable)]);
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert!(widest(&ended.stdout) <= columns, "{arguments:?}\n{}", ended.stdout);
        }
        for (arguments, whole) in WIDE_COMMANDS {
            let ended = ucudnn.end(arguments, &[("COLUMNS", &variable)]);
            assert!(!ended.stdout.contains(whole), "{}", ended.stdout);
            let wide = ucudnn.end(&[arguments, &["--wide"]].concat(), &[("COLUMNS", &variable)]);
            assert!(wide.stdout.contains(whole) && widest(&wide.stdout) > 120, "{}", wide.stdout);
            assert!(!wide.stdout.contains("cut to fit"), "{}", wide.stdout);
        }
    }
    // A shape has a short form before anything is cut.
    let ended = ucudnn.end(&["report", "r.jsonl"], &[("COLUMNS", "130")]);
    assert!(ended.stdout.contains("128x256x56x56*512x256x3x3 p1  F "), "{}", ended.stdout);
}

#[test]
fn a_pipe_gets_everything() {
    let ucudnn = prepared("width-pipe");
    for (arguments, whole) in WIDE_COMMANDS {
        let text = ucudnn.run(arguments);
        assert!(text.contains(whole) && !text.contains("cut to fit"), "{text}");
        // Other values than a number of columns are ignored.
        for columns in ["0", "", "wide"] {
            assert_eq!(ucudnn.end(arguments, &[("COLUMNS", columns)]).stdout, text);
        }
    }
}

/// Runs the command, which must succeed, on a terminal of this many columns, and returns what that got.
pub fn on_terminal(ucudnn: &Installed, arguments: &[&str], variables: &[(&str, &str)], columns: u16) -> String {
    let (mut ours, theirs) = terminal(columns);
    let mut command = ucudnn.command(arguments, variables);
    let mut child = command.stdout(theirs).spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    // The terminal's end is an error to its reader.
    let _ = ours.read_to_end(&mut text);
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    String::from_utf8(text).unwrap().replace('\r', "")
}

/// A terminal of this many columns: its two ends.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (0, 0);
    // SAFETY: writes two descriptors to live variables, and reads a live record.
    let made =
        unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptors are new, and nobody else owns them.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

#[test]
fn tables_fit_the_terminal() {
    let ucudnn = prepared("width-terminal");
    for columns in [80, 120] {
        for (arguments, whole) in WIDE_COMMANDS {
            // The terminal's own width comes before the variable.
            let text = on_terminal(&ucudnn, arguments, &[("COLUMNS", "500")], columns);
            assert!(widest(&text) <= columns.into() && !text.contains(whole), "{text}");
        }
    }
}
