//! The text of a file that a command is given.

use std::io::Read as _;
use std::path::Path;
use trust::Shown as _;

/// A file's text, or standard input's for `-`. Errors name the file. Bytes that are no text become U+FFFD: whoever reads the
/// lines leaves out those that this makes unreadable, as where a full disk cut a line within a character.
pub fn read(file: &Path) -> Result<String, String> {
    let mut bytes = vec![];
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        std::fs::read(file).map(|all| bytes = all)
    };
    read.map_err(|error| format!("{}: {error}", file.shown()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
