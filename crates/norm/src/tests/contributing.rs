//! Holds docs/CONTRIBUTING.md's list of what a new call touches against the calls that there are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::pass::Pass;

/// The files that a new call adds or changes, at most.
const MOST_FILES: usize = 8;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of the list in CONTRIBUTING: the first name in code of each of its items.
fn listed() -> Vec<String> {
    let page = text(&root().join("docs/CONTRIBUTING.md"));
    let (_, section) = page.split_once("## How to add a call with kernels of ours\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let items = section.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    items.map(|item| item.split('`').nth(1).expect("a file").to_owned()).collect()
}

/// The file of a call, and words by which other files name it: its type, its struct of arguments, its constants.
struct Names {
    file: &'static str,
    words: Vec<String>,
}

fn calls() -> Vec<Names> {
    let names = |pass: Pass| {
        let file = pass.row().name;
        let source = text(&root().join(format!("crates/norm/src/calls/{file}.rs")));
        let (_, imported) = source.split_once("use cudnn::arguments::{").expect("the struct of its arguments");
        let imported = imported.split_once('}').expect("an end").0.split(',').map(str::trim);
        let structs = imported.filter(|name| *name != "Promised").map(str::to_owned);
        let own = [format!("{pass:?}Call"), format!("Pass::{pass:?}"), format!("sources::{}", file.to_uppercase())];
        Names { file, words: structs.chain(own).collect() }
    };
    Pass::OF_CUDNN.map(names).into_iter().collect()
}

/// All Rust files in a folder, without tests.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.file_name().and_then(|name| name.to_str()) {
        Some("tests" | "tests.rs") => vec![],
        _ if path.is_dir() => rust_files(&path),
        _ => vec![path],
    });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The text has the word, and not only as a part of another.
fn has(text: &str, word: &str) -> bool {
    let is_of_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    let ends = |at: usize| !is_of_name(bytes.get(at + word.len())) && (at == 0 || !is_of_name(bytes.get(at - 1)));
    text.match_indices(word).any(|(at, _)| ends(at))
}

#[test]
fn every_call_has_the_listed_files() {
    let listed = listed();
    assert!(!listed.is_empty() && listed.len() <= MOST_FILES, "{listed:?}");
    for Names { file, words } in calls() {
        for path in listed.iter().map(|path| path.replace("NAME", file)) {
            let text = text(&root().join(&path));
            let is_its_own = path.contains(file);
            let is_page = path.ends_with(".md") && text.contains(&format!("`norm/{file}.cu`"));
            let is_symbol = path.ends_with("symbols.rs"); // it has the function's name, which the prototypes check
            let is_there = is_its_own || is_page || is_symbol || words.iter().any(|word| has(&text, word));
            assert!(is_there, "{path} has nothing of {words:?}");
        }
    }
}

/// No other source names one: else a new call would need a line there.
#[test]
fn a_call_is_named_only_in_the_listed_files() {
    let folders = ["src", "crates/norm/src", "crates/command/src", "crates/cudnn/src", "crates/guest/src"];
    let files: Vec<_> = folders.iter().flat_map(|folder| rust_files(&root().join(folder))).collect();
    for Names { file, words } in calls() {
        let listed: Vec<_> = listed().iter().map(|path| root().join(path.replace("NAME", file))).collect();
        let naming = files.iter().filter(|path| {
            let text = text(path);
            let (product, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((&text, ""));
            words.iter().any(|word| has(product, word))
        });
        let naming: Vec<_> = naming.collect();
        assert!(naming.len() >= 2, "{words:?} stand in {naming:?}");
        for path in naming {
            assert!(listed.contains(path), "{} names one of {words:?}", path.display());
        }
    }
}
