//! Paths in messages.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::path::Path;

/// Shows a path, or another text of the system's, in a message.
pub trait Shown {
    /// The text with its control characters escaped, such as `\n` or `\u{1b}`, and those that turn the direction of
    /// writing. A file's name can hold any: raw ones would forge lines of a log, or steer the terminal.
    fn shown(&self) -> Escaped<'_>;
}

impl Shown for OsStr {
    fn shown(&self) -> Escaped<'_> {
        Escaped(self)
    }
}

impl Shown for Path {
    fn shown(&self) -> Escaped<'_> {
        Escaped(self.as_os_str())
    }
}

impl Shown for str {
    fn shown(&self) -> Escaped<'_> {
        Escaped(self.as_ref())
    }
}

/// What [`Shown`] shows.
pub struct Escaped<'a>(&'a OsStr);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string_lossy().chars() {
            match c {
                '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(formatter, "{}", c.escape_unicode())?;
                }
                _ if c.is_control() => write!(formatter, "{}", c.escape_default())?,
                _ => formatter.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_are_not() {
        let shown = |text: &[u8]| OsStr::from_bytes(text).shown().to_string();
        assert_eq!(shown("/tmp/Gewöhnlich €/a b\\c'\".so".as_bytes()), "/tmp/Gewöhnlich €/a b\\c'\".so");
        assert_eq!(shown(b"/a\nb\t\r\x1b[31m\x7f"), "/a\\nb\\t\\r\\u{1b}[31m\\u{7f}");
        assert_eq!(shown("\u{9b}\u{202e}gpj.\u{2028}".as_bytes()), "\\u{9b}\\u{202e}gpj.\\u{2028}");
        assert_eq!(shown(b"\xff\x1b"), "\u{fffd}\\u{1b}");
        assert_eq!(Path::new("a\u{0}").shown().to_string(), "a\\u{0}");
    }
}
