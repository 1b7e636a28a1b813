//! README documents every environment variable of the source, and no other.

use guest::settings::VARIABLES;

/// README's rows of the form "| `UCUDNN_NAME` | values | meaning |".
fn rows() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        name.starts_with("UCUDNN_").then(|| (name.to_owned(), cells.next().unwrap_or_default().to_owned()))
    };
    readme.lines().filter_map(row).collect()
}

#[test]
fn readme_and_settings_agree() {
    let known: Vec<_> = VARIABLES.iter().map(|v| (v.name.to_owned(), v.values.to_owned())).collect();
    assert_eq!(rows(), known);
}
