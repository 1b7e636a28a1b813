//! docs/settings.md documents every environment variable of the source, and no other, and README names only these.
//! Figures that README and docs/pytorch.md give stand in docs/results-gpu.md. Lines of the pages fit an editor.

use std::path::Path;

use guest::settings::{SWITCH, VARIABLES};

/// The text of a page.
fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// A page's rows of the form "| `UCUDNN_NAME` | values | meaning |", and that of the switch.
fn rows(name: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        (name == SWITCH || name.starts_with("UCUDNN_"))
            .then(|| (name.to_owned(), cells.next().unwrap_or_default().to_owned()))
    };
    page(name).lines().filter_map(row).collect()
}

#[test]
fn the_pages_and_settings_agree() {
    let known: Vec<_> = VARIABLES.iter().map(|v| (v.name.to_owned(), v.values.to_owned())).collect();
    assert_eq!(rows("docs/settings.md"), known);
    let readme = page("README.md");
    let words = readme.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let named: Vec<_> = words.filter(|word| word.starts_with("UCUDNN")).collect();
    assert!(!named.is_empty() && named.iter().all(|name| known.iter().any(|(known, _)| known == name)), "{named:?}");
}

/// Words before a number that is no figure, but a version or an article's.
const BEFORE_OTHERS: [&str; 4] = ["PyTorch", "cuDNN", "Caffe", "arXiv"];

/// A line's figures: numbers with a decimal point, and whole milliseconds.
fn figures(line: &str) -> Vec<&str> {
    let is_between = |c: char| c.is_whitespace() || "|()→".contains(c);
    let words: Vec<_> = line.split(is_between).filter(|word| !word.is_empty()).collect();
    (0..words.len())
        .filter_map(|at| {
            let number = words[at].trim_matches(|c: char| !c.is_ascii_digit());
            let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
            let is_figure = number.contains('.') || words.get(at + 1).is_some_and(|unit| unit.starts_with("ms"));
            let is_other = at > 0 && BEFORE_OTHERS.contains(&words[at - 1]);
            (is_number && is_figure && !is_other).then_some(number)
        })
        .collect()
}

/// The lines of a page that are no code.
fn prose(text: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let is_prose = |line: &&str| {
        is_fenced ^= line.trim_start().starts_with("```");
        !is_fenced && !line.starts_with("    ")
    };
    text.lines().filter(is_prose).collect()
}

#[test]
fn figures_are_of_the_results() {
    let results = page("docs/results-gpu.md");
    let lines: Vec<Vec<&str>> = results.lines().map(numbers).collect();
    let mut met = 0;
    for name in ["README.md", "docs/pytorch.md"] {
        let text = page(name);
        for line in prose(&text) {
            let figures = figures(line);
            met += figures.len();
            // A row's figures are those of one row there.
            if line.starts_with('|') {
                let is_there = |row: &Vec<&str>| figures.iter().all(|figure| row.contains(figure));
                assert!(lines.iter().any(is_there), "{name}: {line}");
            } else {
                for figure in figures {
                    assert!(lines.iter().any(|row| row.contains(&figure)), "{name}: {figure} in {line}");
                }
            }
        }
    }
    assert!(met > 30, "{met} figures");
}

/// All numbers of a line.
fn numbers(line: &str) -> Vec<&str> {
    let numbers = line.split(|c: char| !c.is_ascii_digit() && c != '.');
    numbers.map(|number| number.trim_matches('.')).filter(|number| !number.is_empty()).collect()
}

#[test]
fn lines_have_at_most_120_characters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    assert!(!pages.is_empty());
    let mut long = Vec::new();
    for page in pages.iter().chain([&root.join("README.md")]) {
        let text = std::fs::read_to_string(page).unwrap();
        // A row of a table cannot be broken.
        let lines = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 120 && !line.starts_with('|'));
        long.extend(lines.map(|(number, _)| format!("{}:{}", page.display(), number + 1)));
    }
    assert!(long.is_empty(), "{long:#?}");
    let lines = page("README.md").lines().count();
    assert!(lines <= 120, "README has {lines} lines");
}
