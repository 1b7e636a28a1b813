//! The steps of the program, for the report: how long one takes now, and what our plans save in it by the times of
//! trials. A step is the shortest sequence of calls that the program repeats. Its time is the host's between two of its
//! beginnings, so that it has all that the program does in a step, and most of the calls so far must be of such steps.
//! Where calls do not repeat, as with shapes that change, nothing is said.
//!
//! Without a report, a call costs no more than reading that. With one, it takes a lock and compares a number, and now and
//! then looks for a sequence.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu::Moment;
use parking_lot::Mutex;
use serde_json::json;

use guest::{ranks, settings, summary};

/// Calls that are remembered before a sequence is looked for first.
const FIRST: usize = 64;
/// The most calls that are remembered. A step of a network has at most a sixth of them.
const MOST: usize = 1 << 15;
/// How often the later half of what is remembered must have the sequence.
const REPEATS: usize = 3;
/// The least steps whose mean is said.
const LEAST: u64 = 8;
/// The calls that a sequence must have with no others between them before its steps are said: a network may have a few
/// hundred layers in a row of which every few are alike.
const IN_A_ROW: usize = 1024;
/// The most sequences that are told apart.
const MOST_SEQUENCES: usize = 16;

static OF_PROCESS: Mutex<Steps> = Mutex::new(Steps::new());
/// Calls that ran as trials.
static TRIALS: AtomicU64 = AtomicU64::new(0);
/// Calls by our plans and kernels.
static OURS: AtomicU64 = AtomicU64::new(0);
/// Those of them for which it is known what they save.
static JUDGED: AtomicU64 = AtomicU64::new(0);

/// The program calls a subject, which the number identifies.
pub fn called(subject: usize) {
    if settings::get().report.is_none() {
        return;
    }
    // A child of `fork` may find the lock held for ever.
    let Some(mut steps) = OF_PROCESS.try_lock() else { return };
    let mean = steps.called(subject, Tally::now);
    drop(steps);
    if let Some(mean) = mean {
        guest::report::write(|| {
            json!({
                "event": "steps", "process": std::process::id(), "rank": ranks::of_process(), "sequence": mean.sequence,
                "calls": mean.calls, "ours": mean.gain.ours, "judged": mean.gain.judged, "steps": mean.steps,
                "step_ms": mean.time, "saved_ms": mean.gain.saved as f64 / 1e6,
            })
        });
    }
}

/// A call ran by our plan in this many milliseconds less than plain cuDNN takes; `None` if that is not known.
pub fn saved(time: Option<f64>) {
    let is_reported = settings::get().report.is_some();
    if is_reported {
        OURS.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(time) = time {
        summary::saved(time);
        if is_reported {
            JUDGED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A call runs as a trial: its step takes longer than others.
pub fn tried() {
    TRIALS.fetch_add(1, Ordering::Relaxed);
}

/// What was counted until a moment.
#[derive(Clone, Copy)]
struct Tally {
    moment: Moment,
    trials: u64,
    gain: Gain,
}

/// What our plans do in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gain {
    /// Calls by our plans and kernels.
    ours: u64,
    /// Those of them for which it is known what they save.
    judged: u64,
    /// The nanoseconds that they save.
    saved: i64,
}

impl Tally {
    fn now() -> Self {
        let [ours, judged] = [&OURS, &JUDGED].map(|count| count.load(Ordering::Relaxed));
        let gain = Gain { ours, judged, saved: summary::saved_so_far() };
        Self { moment: Moment::now(), trials: TRIALS.load(Ordering::Relaxed), gain }
    }
}

impl Gain {
    fn since(self, earlier: Self) -> Self {
        Self {
            ours: self.ours.saturating_sub(earlier.ours),
            judged: self.judged.saturating_sub(earlier.judged),
            saved: self.saved.saturating_sub(earlier.saved),
        }
    }
}

/// The mean of alike steps.
#[derive(Debug, PartialEq)]
struct Mean {
    /// The number of the sequence of calls.
    sequence: usize,
    calls: usize,
    steps: u64,
    /// Milliseconds of a step.
    time: f64,
    gain: Gain,
}

/// The program's calls, and the sequence that they repeat.
struct Steps {
    /// All calls so far.
    calls: u64,
    course: Course,
    sequences: Vec<Sequence>,
}

enum Course {
    /// The calls since the sequence before ended, and their number at which a new one is looked for.
    Learning(Vec<usize>, usize),
    Watching(Watched),
}

/// A sequence that the program repeats.
struct Watched {
    /// Its number, if it is one of those that are told apart.
    number: Option<usize>,
    subjects: Vec<usize>,
    /// The place of the next call.
    next: usize,
    /// Its calls with no others between them, with those by which it was found.
    calls: usize,
    /// When the present step began.
    begin: Option<Tally>,
    /// Steps of one gain since others came, with their milliseconds.
    alike: Option<(Gain, u64, f64)>,
}

/// What is known of a sequence.
struct Sequence {
    /// Equal for all places at which its steps may begin.
    identity: usize,
    calls: u64,
    /// The gains that were said, with the most steps of each.
    said: Vec<(Gain, u64)>,
}

impl Steps {
    const fn new() -> Self {
        Self { calls: 0, course: Course::Learning(Vec::new(), FIRST), sequences: Vec::new() }
    }

    /// Takes a call. Returns what is to be said.
    fn called(&mut self, subject: usize, now: impl FnOnce() -> Tally) -> Option<Mean> {
        self.calls += 1;
        match &mut self.course {
            Course::Learning(calls, next) => {
                calls.push(subject);
                if calls.len() < *next {
                    return None;
                }
                let later = &calls[calls.len() / 2..];
                match period(later) {
                    Some(period) => {
                        let (subjects, found) = (later[later.len() - period..].to_vec(), later.len());
                        self.watch(subjects, found);
                    }
                    None if *next < MOST => *next *= 2,
                    None => calls.clear(),
                }
                None
            }
            Course::Watching(watched) if watched.subjects[watched.next] != subject => {
                // Of a network whose layers are partly alike, these may be a few layers. Whatever is found next must have
                // come more often.
                let least = if watched.calls > MOST / 4 { FIRST } else { (2 * watched.calls).next_power_of_two() };
                self.course = Course::Learning(vec![subject], least.max(FIRST));
                None
            }
            Course::Watching(watched) => {
                watched.calls += 1;
                let begins = watched.next == 0;
                watched.next = (watched.next + 1) % watched.subjects.len();
                let sequence = watched.number.and_then(|number| self.sequences.get_mut(number))?;
                sequence.calls += 1;
                let (gain, steps, time) = if begins { watched.begins(now()) } else { None }?;
                let is_told = 2 * sequence.calls >= self.calls && watched.calls >= IN_A_ROW;
                let is_new = is_told && steps >= LEAST && steps.is_power_of_two() && sequence.is_new(gain, steps);
                is_new.then(|| Mean {
                    sequence: watched.number.unwrap_or_default(),
                    calls: watched.subjects.len(),
                    steps,
                    time: time / steps as f64,
                    gain,
                })
            }
        }
    }

    /// Watches a sequence from here on. The last `found` calls were of it.
    fn watch(&mut self, subjects: Vec<usize>, found: usize) {
        let identity = subjects.iter().fold(subjects.len(), |sum, subject| sum.wrapping_add(mixed(*subject)));
        let known = self.sequences.iter().position(|known| known.identity == identity);
        let number = known.or_else(|| {
            let is_room = self.sequences.len() < MOST_SEQUENCES;
            is_room.then(|| self.sequences.push(Sequence { identity, calls: 0, said: Vec::new() }))?;
            Some(self.sequences.len() - 1)
        });
        if let Some(sequence) = number.and_then(|number| self.sequences.get_mut(number)) {
            sequence.calls += found as u64;
        }
        self.course = Course::Watching(Watched { number, subjects, next: 0, calls: found, begin: None, alike: None });
    }
}

impl Watched {
    /// A step begins. Returns the gain of the steps before it that were alike, their number and their milliseconds.
    fn begins(&mut self, now: Tally) -> Option<(Gain, u64, f64)> {
        let begin = self.begin.replace(now)?;
        if now.trials != begin.trials {
            return None;
        }
        let gain = now.gain.since(begin.gain);
        let (steps, time) = match self.alike {
            Some((its, steps, time)) if its == gain => (steps, time),
            _ => (0, 0.0),
        };
        let alike = (gain, steps + 1, time + now.moment.since(begin.moment).as_secs_f64() * 1e3);
        self.alike = Some(alike);
        Some(alike)
    }
}

impl Sequence {
    /// Returns whether as many steps of this gain were not said yet, and notes that they are.
    fn is_new(&mut self, gain: Gain, steps: u64) -> bool {
        /// A program in which gains go on changing fills no file.
        const MOST_GAINS: usize = 256;
        if !self.said.iter().any(|(said, _)| *said == gain) && self.said.len() < MOST_GAINS {
            self.said.push((gain, 0));
        }
        let Some((_, most)) = self.said.iter_mut().find(|(said, most)| *said == gain && *most < steps) else {
            return false;
        };
        *most = steps;
        true
    }
}

/// Spreads a number's bits: addresses are multiples of powers of two.
fn mixed(subject: usize) -> usize {
    foldhash::fast::FixedState::default().hash_one(subject) as usize
}

/// The shortest period of calls, by the borders of their beginnings. `None` if they have it less often than
/// [`REPEATS`].
fn period(calls: &[usize]) -> Option<usize> {
    let mut borders = vec![0; calls.len()];
    for end in 1..calls.len() {
        let mut border = borders[end - 1];
        while border > 0 && calls[border] != calls[end] {
            border = borders[border - 1];
        }
        borders[end] = border + usize::from(calls[border] == calls[end]);
    }
    let period = calls.len() - borders.last()?;
    (REPEATS * period <= calls.len()).then_some(period)
}

#[cfg(test)]
mod tests;
