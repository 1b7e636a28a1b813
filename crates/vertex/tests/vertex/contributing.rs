//! Holds docs/CONTRIBUTING.md's list of what a new operation touches against the functions of one value that there are.

use std::fs;
use std::path::{Path, PathBuf};

use ucudnn_vertex::function::{Op, USER_OPERATIONS};

/// The files that a new operation changes, at most.
const MOST_FILES: usize = 6;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of the list in CONTRIBUTING: the first name in code of each of its items.
fn listed() -> Vec<PathBuf> {
    let page = text(&root().join("docs/CONTRIBUTING.md"));
    let (_, section) = page.split_once("## How to add a vertex operation\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let items = section.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    items.map(|item| root().join(item.split('`').nth(1).expect("a file"))).collect()
}

/// The functions of one value, element by element, by their names in Rust and in texts.
fn functions() -> Vec<(String, &'static str)> {
    let operations = (0..USER_OPERATIONS).filter_map(Op::of_user).filter(|op| op.dx().is_some());
    operations.map(|op| (format!("{op:?}"), op.name())).collect()
}

/// All files of sources in a folder, without tests and nets.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| match path.file_name().and_then(|name| name.to_str()) {
        Some("tests" | "tests.rs" | "examples" | "nets") => vec![],
        _ if path.is_dir() => sources(&path),
        _ => vec![path],
    });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs" || extension == "py")).collect()
}

/// The text names an operation: as Rust, the header or Python do.
fn names(text: &str, (op, name): &(String, &str)) -> bool {
    let words = text.split(|character: char| character != '_' && character != ':' && !character.is_alphanumeric());
    let in_header = format!("UCUDNN_VERTEX_{}", name.to_uppercase());
    let in_rust = format!("Op::{op}");
    text.contains(&format!("\"{name}\""))
        || words.into_iter().any(|word| word == in_rust || word.starts_with(&in_header))
}

#[test]
fn every_function_is_in_the_listed_files() {
    let listed = listed();
    assert!(!listed.is_empty() && listed.len() <= MOST_FILES, "{listed:?}");
    for function in functions() {
        for file in &listed {
            let text = text(file);
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            let is_there = if is_page {
                text.split(|character: char| !character.is_alphanumeric()).any(|word| word == function.1)
            } else {
                names(&text, &function)
            };
            assert!(is_there, "{} lacks {}", file.display(), function.1);
        }
    }
}

/// No other source names one: else a new operation would need a line there. Tests may compare operations.
#[test]
fn a_function_is_named_only_in_the_listed_files() {
    let listed = listed();
    let folders = ["crates/vertex", "crates/dynamic", "src", "python/ucudnn"];
    let files: Vec<_> = folders.iter().flat_map(|folder| sources(&root().join(folder))).collect();
    for function in functions() {
        let naming: Vec<_> = files.iter().filter(|file| names(&text(file), &function)).collect();
        assert_eq!(naming.len(), listed.len() - 1, "{naming:?} name {}; a page is listed too", function.1);
        let other = naming.iter().find(|file| !listed.contains(file));
        assert_eq!(other, None, "names {}", function.1);
    }
}

#[test]
fn each_name_is_one_operation() {
    let of_users = (0..USER_OPERATIONS).filter_map(Op::of_user);
    for op in of_users.flat_map(|op| [Some(op), op.dx()]).flatten() {
        assert_eq!(Op::named(op.name()), Some(op));
    }
}
