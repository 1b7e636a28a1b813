//! Holds docs/CONTRIBUTING.md's list of what a new engine touches against the engines that there are.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::engines::ENGINES;

/// The files that a new engine adds or changes, at most.
const MOST_FILES: usize = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of the list in CONTRIBUTING: the first name in code of each of its items.
fn listed() -> Vec<String> {
    let page = text("docs/CONTRIBUTING.md");
    let (_, section) = page.split_once("## How to add an engine\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let items = section.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    items.map(|item| item.split('`').nth(1).expect("a file").to_owned()).collect()
}

/// The type of each engine with kernels of ours and the name of its files, from the table's text and its rows.
fn engines() -> Vec<(String, &'static str)> {
    let table = text("crates/convolution/src/engines/mod.rs");
    let types = table.split("Row::of::<").skip(1).map(|row| row.split('>').next().unwrap());
    let types = types.map(|path| path.rsplit("::").next().unwrap().to_owned());
    let name = |source: &'static str| source.strip_prefix("convolution/")?.strip_suffix(".cu");
    let sources = ENGINES.iter().filter_map(|row| row.source);
    let engines: Vec<_> = types.zip(sources.clone().map(|source| name(source.name).expect("a source"))).collect();
    assert_eq!(engines.len(), sources.count());
    engines
}

/// All Rust files in a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn every_engine_has_the_listed_files() {
    let listed = listed();
    assert!(!listed.is_empty() && listed.len() <= MOST_FILES, "{listed:?}");
    for (_, name) in engines() {
        for file in &listed {
            let file = file.replace("NAME", name);
            // A large engine's file is a folder.
            let is_there = [file.clone(), file.replace(".rs", "/mod.rs")].iter().any(|it| root().join(it).exists());
            assert!(is_there, "CONTRIBUTING's list names {file}");
        }
        assert!(text("docs/kernels.md").contains(&format!("`convolution/{name}.cu`")), "docs/kernels.md lacks {name}");
    }
}

/// No other file of the library names an engine: else a new engine would need a line there. Tests may compare engines.
#[test]
fn an_engine_is_named_only_in_the_listed_files() {
    let listed = listed();
    let is_test = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let files: Vec<_> = ["crates", "src"].iter().flat_map(|folder| rust_files(&root().join(folder))).collect();
    // Each file with its words, and the parts of paths in it.
    let files = files.into_iter().filter(|path| !is_test(path)).map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let words: HashSet<_> = text.split(|c: char| c != ':' && c != '_' && !c.is_alphanumeric()).collect();
        let parts = words.iter().flat_map(|word| word.split("::")).map(ToOwned::to_owned).collect::<HashSet<_>>();
        let words = words.into_iter().filter(|word| word.contains("convolution::")).map(ToOwned::to_owned);
        (path, words.collect::<Vec<String>>(), parts)
    });
    let files: Vec<_> = files.collect();
    for (engine, name) in engines() {
        let own: Vec<_> =
            listed.iter().map(|file| root().join(file.replace("NAME", name).replace(".rs", ""))).collect();
        let constant = format!("convolution::{}", name.to_uppercase());
        let naming = files
            .iter()
            .filter(|(_, words, parts)| parts.contains(&engine) || words.iter().any(|word| word.ends_with(&constant)));
        let naming = naming.map(|(path, ..)| path);
        let naming: Vec<_> = naming.collect();
        assert!(naming.len() >= 2, "{engine} stands in {naming:?}");
        for path in naming {
            assert!(
                own.iter().any(|own| path.with_extension("").starts_with(own)),
                "{} names {engine}",
                path.display()
            );
        }
    }
}

#[test]
fn numbers_are_not_given_twice() {
    let mut numbers: Vec<_> = ENGINES.iter().map(|row| row.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..ENGINES.len() as i64).collect::<Vec<_>>());
}
