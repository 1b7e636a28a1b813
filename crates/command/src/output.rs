//! Writing to standard output and to standard error, for people and for programs. Rust's own macros panic if a write
//! fails.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

use crate::Failure;
use crate::style::{self, styled};

/// True if the process began without a standard output.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's start, which puts `/dev/null` in the place of a closed standard output.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: F_GETFD reads the descriptor's flags, and fails for a closed descriptor.
        let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
        IS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
    look
};

/// Writes a text for people to standard output. The command fails if that cannot take it.
pub fn print(text: &str) -> Result<(), Failure> {
    write(|output| output.write_all(readable(&looks(text, &io::stdout())).as_bytes()))
}

/// Writes JSON to standard output, and ends the line.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text = format!("{value:#}\n");
    let text = if has_utf8() { text } else { escaped(&text) };
    write(|output| output.write_all(text.as_bytes()))
}

/// Lets `act` write to standard output.
pub fn write(act: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Failure::Failed("standard output: it is closed".into()));
    }
    // Beyond `ulimit -f`, a write is an error like others, and not the command's end.
    // SAFETY: ignoring a signal installs no handler.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let written = act(&mut output).and_then(|()| output.flush()).and_then(|()| output.get_mut().flush());
    // Dropping the writer would write the rest once more.
    let _ = output.into_parts();
    if written.is_ok() {
        // Otherwise Rust writes the rest once more when the process ends.
        // SAFETY: this is the action of before, and this command installs none for the signal.
        unsafe { libc::signal(libc::SIGXFSZ, before) };
    }
    written.map_err(|error| Failure::Failed(format!("standard output: {error}")))
}

/// Writes a message to standard error, if that takes it: something that the user should know.
pub fn tell(message: &str) {
    explain(&format!("{} {message}\n", styled("ucudnn:", style::WARNING)));
}

/// Writes why the command fails to standard error, if that takes it.
pub fn tell_failure(why: &str) {
    explain(&format!("{} {why}\n", styled("ucudnn:", style::BAD)));
}

/// Writes a text for people to standard error, if that takes it.
pub fn explain(text: &str) {
    let _ = io::stderr().write_all(readable(&looks(text, &io::stderr())).as_bytes());
}

/// Draws a line of progress over the one before, on standard error, which must be a terminal.
pub fn draw(line: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{}", readable(line));
}

/// The text, without its looks if the stream does not show them. By `anstream`'s rules, a terminal shows them, unless it is
/// dumb or NO_COLOR is set; and every stream does if CLICOLOR_FORCE is set.
fn looks<'text>(text: &'text str, stream: &impl RawStream) -> Cow<'text, str> {
    match AutoStream::choice(stream) {
        ColorChoice::Never => Cow::Owned(style::plain(text)),
        _ => Cow::Borrowed(text),
    }
}

/// The text as the user's locale can show it: without the command's own signs beyond ASCII if the locale has none.
fn readable(text: &str) -> Cow<'_, str> {
    if has_utf8() { Cow::Borrowed(text) } else { Cow::Owned(ascii(text)) }
}

/// JSON in ASCII. Signs beyond ASCII stand only in strings, where JSON has escapes for them.
fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for sign in json.chars() {
        match sign.is_ascii() {
            true => escaped.push(sign),
            false => escaped.extend(sign.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    escaped
}

/// True if the user's locale shows signs beyond ASCII.
fn has_utf8() -> bool {
    is_beyond_ascii(|name| std::env::var(name).ok())
}

/// True unless the variables of the locale name one without UTF-8. Where none is set, as in most containers, terminals
/// have UTF-8 all the same.
fn is_beyond_ascii(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    set.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8") || locale.contains("utf-8@") || locale.contains("utf8@")
    })
}

/// Replaces the signs that the command writes, each by one character, so that tables keep their columns.
fn ascii(text: &str) -> String {
    let sign = |sign| match sign {
        '×' => 'x',
        '─' | '–' => '-',
        '█' => '#',
        '·' => '.',
        '…' => '~',
        'µ' => 'u',
        '→' => '>',
        '≤' => '<',
        '≥' => '>',
        other => other,
    };
    text.chars().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_says_what_can_be_read() {
        let is = |pairs: &[(&str, &str)]| {
            is_beyond_ascii(|name| pairs.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
        };
        for beyond in ["en_US.UTF-8", "C.utf8", "de_DE.UTF-8@euro"] {
            assert!(is(&[("LANG", beyond)]) && is(&[("LC_ALL", beyond), ("LANG", "C")]), "{beyond}");
        }
        for without in ["C", "POSIX", "de_DE.ISO-8859-1", "en_US"] {
            assert!(!is(&[("LANG", without)]) && !is(&[("LC_ALL", without), ("LANG", "C.UTF-8")]), "{without}");
        }
        assert!(is(&[]) && is(&[("LC_ALL", "")]) && is(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]));
        assert_eq!(ascii("2×64 takes 3 µs … 5→64 of é"), "2x64 takes 3 us ~ 5>64 of é");
    }

    #[test]
    fn json_is_ascii_and_says_the_same() {
        let value = serde_json::json!({ "2×64": ["é", "\u{1f600}", "a\"b"] });
        let text = escaped(&value.to_string());
        assert!(text.is_ascii() && text.contains("\\u00d7"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn every_sign_of_the_sources_has_one_in_ascii() {
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut signs = std::collections::BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        signs.extend(std::fs::read_to_string(path).unwrap().chars().filter(|sign| !sign.is_ascii()))
                    }
                }
            }
        }
        let text: String = signs.iter().collect();
        assert!(text.contains('×'), "{text}");
        // A letter that stands for the user's own text.
        assert_eq!(ascii(&text).replace('é', "").chars().find(|sign| !sign.is_ascii()), None, "{text}");
    }
}
