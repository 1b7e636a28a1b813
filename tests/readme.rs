//! docs/settings.md documents every environment variable of the source, and no other, and README names only these.
//! Lines of the pages fit an editor.

use guest::settings::{SWITCH, VARIABLES};

/// A page's rows of the form "| `UCUDNN_NAME` | values | meaning |", and that of the switch.
fn rows(page: &str) -> Vec<(String, String)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        (name == SWITCH || name.starts_with("UCUDNN_"))
            .then(|| (name.to_owned(), cells.next().unwrap_or_default().to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_pages_and_settings_agree() {
    let known: Vec<_> = VARIABLES.iter().map(|v| (v.name.to_owned(), v.values.to_owned())).collect();
    assert_eq!(rows("docs/settings.md"), known);
    let named = rows("README.md");
    assert!(
        named.len() == 6 && named.iter().all(|(name, _)| known.iter().any(|(known, _)| known == name)),
        "{named:?}"
    );
}

#[test]
fn lines_have_at_most_120_characters() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
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
}
