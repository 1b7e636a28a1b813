//! A standard output that cannot be written is one message and exit status 1; a reader that leaves is neither.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Output, Stdio};

use super::data::asked;
use super::{Installed, NETWORK, csv, filled};

/// Commands that print, each in its own way.
pub const PRINTING: [&[&str]; 12] = [
    &["--help"],
    &["--version"],
    &["plan", "--help"],
    &["report", "r.jsonl"],
    &["report", "r.jsonl", "--json"],
    &["plan", "net.csv", "--database=t.sqlite", "--limit=none,0"],
    &["plan", "net.csv", "--kernels"],
    &["plot", "totals", "net.csv", "--database=t.sqlite"],
    &["db", "list", "--database=t.sqlite"],
    &["db", "list", "--kernels", "--json", "--database=t.sqlite"],
    &["db", "export", "--database=t.sqlite"],
    &["db", "import", "/dev/null", "--database=t.sqlite"],
];

pub fn prepared(name: &str) -> Installed {
    let ucudnn = Installed::new(name);
    ucudnn.file("net.csv", &csv(&NETWORK));
    ucudnn.file("r.jsonl", &asked(&NETWORK[0], "F", 1.0));
    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    ucudnn
}

fn one_message(arguments: &[&str], output: &Output, says: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}\n{stderr}");
    assert!(stderr.starts_with("ucudnn: standard output: ") && stderr.contains(says), "{arguments:?}\n{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}\n{stderr}");
}

#[test]
fn a_full_disk_is_a_failure() {
    let ucudnn = prepared("output-full");
    for arguments in PRINTING {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = ucudnn.command(arguments, &[]).stdout(full).output().unwrap();
        one_message(arguments, &output, "No space left on device");
    }
}

/// A write beyond the limit on a file's size also raises a signal.
#[test]
fn a_file_that_may_not_grow_is_a_failure() {
    let ucudnn = prepared("output-limit");
    for arguments in PRINTING {
        let file = File::create(ucudnn.path("out")).unwrap();
        let command = ucudnn.command(arguments, &[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null()).stdout(file);
        // A command that writes to a database fails at that.
        if !arguments.contains(&"import") {
            one_message(arguments, &shell.output().unwrap(), "File too large");
        }
    }
}

#[test]
fn a_closed_standard_output_is_a_failure() {
    let ucudnn = prepared("output-closed");
    for arguments in PRINTING {
        let command = ucudnn.command(arguments, &[]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "exec \"$@\" >&-", "sh"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
        one_message(arguments, &shell.output().unwrap(), "closed");
    }
}

#[test]
fn a_standard_error_that_is_full_is_no_panic() {
    let ucudnn = prepared("output-stderr");
    for (arguments, code) in [(&["report", "none.jsonl"][..], 1), (&["plan", "net.csv"], 2), (&["plan"], 2)] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = ucudnn.command(arguments, &[]).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let ucudnn = prepared("output-pipe");
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = ucudnn.command(arguments, &[]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert!(said.is_empty() && !status.success(), "{arguments:?}: {status}\n{said}");
    }
    // The same commands have something to say.
    for arguments in PRINTING {
        let file = File::create(ucudnn.path("out")).unwrap();
        assert!(ucudnn.command(arguments, &[]).stdout(file).status().unwrap().success(), "{arguments:?}");
        assert!(std::fs::metadata(ucudnn.path("out")).unwrap().len() > 0, "{arguments:?}");
    }
}
