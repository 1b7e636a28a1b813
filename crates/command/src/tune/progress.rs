//! The progress of tuning: a bar on a terminal, otherwise a line for each convolution problem.

use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::output;

/// Columns of the bar itself.
const WIDTH: usize = 24;
/// The least time between two drawings.
const INTERVAL: Duration = Duration::from_millis(100);

/// The progress over all problems.
pub struct Bar {
    problems: usize,
    done: AtomicUsize,
    terminal: bool,
    drawn: Mutex<Option<Instant>>,
}

/// The progress of one problem.
pub struct Problem<'a> {
    bar: &'a Bar,
    name: String,
    begin: Instant,
    measured: AtomicUsize,
}

impl Bar {
    pub fn new(problems: usize) -> Self {
        Self { problems, done: AtomicUsize::new(0), terminal: stderr().is_terminal(), drawn: Mutex::new(None) }
    }

    /// Starts the next problem.
    pub fn problem(&self, name: String) -> Problem<'_> {
        let problem = Problem { bar: self, name, begin: Instant::now(), measured: AtomicUsize::new(0) };
        self.draw(&problem, None);
        problem
    }

    /// Clears the line.
    pub fn finish(&self) {
        if self.terminal {
            output::draw("");
        }
    }

    /// Draws the bar. `remaining` estimates the problem's micro-configurations still to come.
    fn draw(&self, problem: &Problem, remaining: Option<usize>) {
        if !self.terminal {
            return;
        }
        // If another thread is drawing, that is enough.
        let Ok(mut drawn) = self.drawn.try_lock() else { return };
        if remaining.is_some() && drawn.is_some_and(|drawn| drawn.elapsed() < INTERVAL) {
            return;
        }
        *drawn = Some(Instant::now());
        let (done, measured) = (self.done.load(Ordering::Relaxed), problem.measured.load(Ordering::Relaxed));
        let part = remaining.map_or(0.0, |remaining| measured as f64 / (measured + remaining).max(1) as f64);
        output::draw(&line(done, self.problems, part, &problem.name, measured, remaining));
    }
}

/// The bar as text.
fn line(done: usize, problems: usize, part: f64, name: &str, measured: usize, remaining: Option<usize>) -> String {
    let filled = ((done as f64 + part) / problems.max(1) as f64 * WIDTH as f64) as usize;
    let bar: String = (0..WIDTH).map(|column| if column < filled { '█' } else { '·' }).collect();
    let to_go = remaining.map_or_else(String::new, |remaining| format!(", {remaining} to go"));
    format!("{bar} {}/{problems} {name}: {measured} measured{to_go}", (done + 1).min(problems))
}

impl Problem<'_> {
    /// Counts one more measured micro-configuration.
    pub fn measured(&self, remaining: usize) {
        self.measured.fetch_add(1, Ordering::Relaxed);
        self.bar.draw(self, Some(remaining));
    }

    /// Ends the problem and returns its number of measured micro-configurations.
    pub fn finish(self) -> usize {
        let measured = self.measured.load(Ordering::Relaxed);
        self.end(&format!("{measured} measured"));
        measured
    }

    /// Ends the problem; what became of it.
    pub fn end(self, what: &str) {
        let done = self.bar.done.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.bar.terminal {
            let took = self.begin.elapsed().as_secs_f64();
            let (problems, name) = (self.bar.problems, &self.name);
            output::explain(&format!("{done}/{problems} {name}: {what} in {took:.1} s\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let at_half = line(7, 15, 0.5, "conv3 BD", 4, Some(4));
        assert_eq!(at_half, "████████████············ 8/15 conv3 BD: 4 measured, 4 to go");
        assert!(line(15, 15, 0.0, "conv5 BF", 0, None).starts_with(&"█".repeat(24)));
        assert!(line(0, 0, 0.0, "", 0, None).starts_with('·'));
    }
}
