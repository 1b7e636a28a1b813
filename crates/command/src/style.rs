//! The looks of texts for people. `output` removes them where the stream does not show them.

use anstyle::{AnsiColor, Style};

pub const HEADING: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// A ratio of two times that lies this near to 1 does not matter.
const NEGLIGIBLE: f64 = 0.02;

/// The text with these looks.
pub fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// A table's cell: `1.41×`, so many times as fast, with the looks of something better or worse; any other as it is.
pub fn judged(cell: &str) -> String {
    let ratio = cell.strip_suffix('×').and_then(|number| number.parse::<f64>().ok());
    match ratio {
        Some(ratio) if ratio >= 1.0 + NEGLIGIBLE => styled(cell, GOOD),
        Some(ratio) if ratio <= 1.0 - NEGLIGIBLE => styled(cell, BAD),
        _ => cell.to_owned(),
    }
}

/// The text without its looks.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_better_or_worse() {
        assert_eq!(judged("1.41×"), "\u{1b}[32m1.41×\u{1b}[0m");
        assert_eq!(judged("0.97×"), "\u{1b}[1m\u{1b}[31m0.97×\u{1b}[0m");
        for other in ["1.01×", "0.99×", "×2", "2×64[FFT]", "1.41", "×", ""] {
            assert_eq!(judged(other), other);
        }
    }
}
