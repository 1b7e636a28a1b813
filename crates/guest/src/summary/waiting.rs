//! The terminal's line while the program waits for tuning.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::WANTED;
use crate::ranks;
use crate::settings::Summary;
use crate::terminal;

/// A program that waits for less long sees nothing.
const LONG: Duration = Duration::from_secs(1);
/// The least time between two drawings.
const INTERVAL: Duration = Duration::from_millis(200);

/// A wait of the program. Its line goes when it ends.
pub struct Waiting {
    begin: Instant,
    is_wanted: bool,
    drawn: Mutex<Option<Instant>>,
}

impl Waiting {
    /// The program begins to wait.
    pub fn begin() -> Self {
        let is_wanted = WANTED.get().is_some_and(|summary| *summary != Summary::Off);
        // Of several processes on one terminal, each would draw over the others' lines.
        let is_wanted = is_wanted && ranks::of_process().is_none_or(|rank| rank == 0);
        Self { begin: Instant::now(), is_wanted, drawn: Mutex::new(None) }
    }

    /// Draws the line, once the program has waited for long. Any thread may call this.
    pub fn show(&self, text: impl FnOnce() -> String) {
        if self.is_wanted && self.is_due(Instant::now()) && terminal::is_ours() {
            terminal::write(&line(&text(), terminal::width()));
        }
    }

    /// Returns whether to draw the line at a moment, and notes that.
    fn is_due(&self, now: Instant) -> bool {
        let mut drawn = self.drawn.lock();
        let is_due = now - self.begin >= LONG && drawn.is_none_or(|drawn| now - drawn >= INTERVAL);
        if is_due {
            *drawn = Some(now);
        }
        is_due
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.drawn.lock().is_some() && terminal::is_ours() {
            terminal::write(CLEARED);
        }
    }
}

/// Returns to the line's begin, and clears it.
const CLEARED: &str = "\r\x1b[K";

fn line(text: &str, width: usize) -> String {
    CLEARED.chars().chain(format!("ucudnn: {text}").chars().take(width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_shown_now_and_then() {
        let begin = Instant::now();
        let waiting = Waiting { begin, is_wanted: false, drawn: Mutex::new(None) };
        let times = [0, 999, 1000, 1100, 1199, 1200, 5000];
        let due = times.map(|time| waiting.is_due(begin + Duration::from_millis(time)));
        assert_eq!(due, [false, false, true, false, false, true, true]);
        *waiting.drawn.lock() = None; // or its end would write to the tests' output
        let line = line(&"é".repeat(200), 79);
        assert!(line.starts_with("\r\x1b[Kucudnn: é") && line.chars().count() == CLEARED.len() + 79, "{line:?}");
    }
}
