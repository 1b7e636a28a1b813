//! The looks of what the command writes: colours on a terminal alone, and ASCII where the locale has no other signs.

use std::process::Stdio;

use super::output::{PRINTING, prepared};
use super::width::on_terminal;
use super::{Installed, has_terminals};

const REPORT: [&str; 2] = ["report", "r.jsonl"];
const ESCAPE: char = '\u{1b}';

/// The text without its looks.
fn plain(text: &str) -> String {
    let mut parts = text.split(ESCAPE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').expect("looks end with an m").1)
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn ended(ucudnn: &Installed, arguments: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let ended = ucudnn.end(arguments, variables);
    (ended.stdout, ended.stderr)
}

#[test]
fn a_terminal_shows_colours_unless_it_is_told_otherwise() {
    if !has_terminals() {
        return;
    }
    let ucudnn = prepared("looks-terminal");
    let usual = ("TERM", "xterm");
    let shown = on_terminal(&ucudnn, &REPORT, &[usual], 120);
    for what in ["\u{1b}[1mWorkspace Reuse", "\u{1b}[1mkernel", "\u{1b}[2m─"] {
        assert!(shown.contains(what), "{what:?} in {shown:?}");
    }
    let piped = ucudnn.end(&REPORT, &[("COLUMNS", "120"), usual]).stdout;
    assert_eq!(plain(&shown), piped);
    assert!(on_terminal(&ucudnn, &REPORT, &[usual, ("NO_COLOR", "")], 120).contains(ESCAPE));
    for variables in [&[usual, ("NO_COLOR", "1")][..], &[usual, ("NO_COLOR", "0")], &[("TERM", "dumb")], &[]] {
        assert_eq!(on_terminal(&ucudnn, &REPORT, variables, 120), piped, "{variables:?}");
    }
    // Options are bold in clap's own help.
    let help = on_terminal(&ucudnn, &["report", "--help"], &[usual], 120);
    assert!(help.contains("\u{1b}[1m--html"), "{help:?}");
    assert!(!on_terminal(&ucudnn, &["report", "--help"], &[usual, ("NO_COLOR", "1")], 120).contains(ESCAPE));
}

#[test]
fn a_pipe_shows_no_colours_unless_they_are_forced() {
    let ucudnn = prepared("looks-pipe");
    let term = ("TERM", "xterm");
    for arguments in [&REPORT[..], &["--help"], &["report", "none.jsonl"], &["plan"], &["doctor"]] {
        let (stdout, stderr) = ended(&ucudnn, arguments, &[term]);
        assert!(!stdout.contains(ESCAPE) && !stderr.contains(ESCAPE), "{arguments:?}\n{stdout}{stderr}");
        let forced = ended(&ucudnn, arguments, &[term, ("CLICOLOR_FORCE", "1")]);
        assert!(forced.0.contains(ESCAPE) || forced.1.contains(ESCAPE), "{arguments:?}\n{stdout}{stderr}");
        assert_eq!((plain(&forced.0), plain(&forced.1)), (stdout, stderr), "{arguments:?}");
    }
    let forced = ("CLICOLOR_FORCE", "1");
    let error = ucudnn.end(&["report", "none.jsonl"], &[forced]).stderr;
    assert!(error.starts_with("\u{1b}[1m\u{1b}[31mucudnn:\u{1b}[0m none.jsonl: "), "{error:?}");
    let doctor = ucudnn.end(&["doctor"], &[forced, ("UCUDNN_WORKSPACE_LIMIT", "much")]).stdout;
    for looks in ["\u{1b}[32mlibucudnn.so", "\u{1b}[1m\u{1b}[33msettings", "\u{1b}[1mNext:"] {
        assert!(doctor.contains(looks), "{looks:?} in {doctor:?}");
    }
}

#[test]
fn a_locale_without_other_signs_gets_ascii() {
    let ucudnn = prepared("looks-ascii");
    let subcommands = ["run", "demo", "report", "tune", "plan", "plot", "db", "doctor", "completions", "man"];
    let helps = subcommands.map(|name| [name, "--help"]);
    let wrong: [&[&str]; 3] = [&["plan"], &["report", "none.jsonl"], &["plan", "net.csv", "--limit=×"]];
    let mut beyond = 0;
    for arguments in PRINTING.into_iter().chain(helps.iter().map(|help| &help[..])).chain(wrong) {
        let run = |locale: &str| {
            let output = ucudnn.command(arguments, &[("LC_ALL", locale)]).stdin(Stdio::null()).output().unwrap();
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
        };
        let said = run("C.UTF-8");
        beyond += usize::from(said.iter().any(|text| !text.is_ascii()));
        for locale in ["C", "de_DE.ISO-8859-1"] {
            let ascii = run(locale);
            assert!(ascii.iter().all(|text| text.is_ascii()), "{arguments:?} in {locale}: {ascii:?}");
            // One sign each: tables keep their columns. JSON has escapes, and says the same.
            match arguments.contains(&"--json") {
                true => assert_eq!(json(&ascii[0]), json(&said[0]), "{arguments:?}"),
                false => assert_eq!(ascii.concat().chars().count(), said.concat().chars().count(), "{arguments:?}"),
            }
        }
    }
    assert!(beyond >= 3, "only {beyond} commands write signs beyond ASCII");
}
