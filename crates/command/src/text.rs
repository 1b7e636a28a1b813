//! The text of a file that a command is given.

use std::path::Path;
use trust::Shown as _;

/// A file's text, or standard input's for `-`. Errors name the file.
pub fn read(file: &Path) -> Result<String, String> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read(file).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not text"))
        })
    };
    text.map_err(|error| format!("{}: {error}", file.shown()))
}
