//! What the library did in a process: the log's line when it is loaded, the log's line about all that it did when the
//! process ends (both at level `info`), and the terminal's line for a person (`UCUDNN_SUMMARY`). Without `UCUDNN_LOG`
//! and `UCUDNN_SUMMARY` this costs no more than reading these variables.

mod idle;
mod line;
mod waiting;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::ranks;
use crate::settings::{self, SUMMARY, SWITCH, Settings, Summary};
use crate::terminal;
use line::Totals;
use trust::Shown as _;
pub use waiting::Waiting;

/// The counted calls. A call of cuDNN that the library does not know is forwarded by a jump, and is not counted.
#[derive(Clone, Copy)]
pub enum Counted {
    /// A convolution that the program calls, by either API.
    Convolution,
    /// A convolution that ran in micro-batches.
    Divided,
    /// A convolution that ran in one piece, by another algorithm or engine than the program's choice.
    Replaced,
    /// A recurrent network that the program calls.
    Network,
    /// A recurrent network that ran on our kernels.
    OnOurKernels,
    /// A pass of batch or group normalization that the program calls.
    Normalization,
    /// A pass of batch or group normalization that ran on our kernels.
    NormalizedByUs,
}

impl Counted {
    /// A convolution that ran by our plan, which differs from the program's choice.
    pub fn planned(is_undivided: bool) -> Self {
        if is_undivided { Self::Replaced } else { Self::Divided }
    }
}

const KINDS: usize = 7;
static COUNTS: [AtomicU64; KINDS] = [const { AtomicU64::new(0) }; KINDS];
/// Nanoseconds by which calls were faster than plain cuDNN, by the times of trials.
static SAVED: AtomicI64 = AtomicI64::new(0);
/// The number of subjects that are being tried.
static TRIED: AtomicU64 = AtomicU64::new(0);
/// Returns the nanoseconds that exploring has cost so far, and those of the program's calls.
pub type Account = fn() -> [u64; 2];

static ACCOUNT: OnceLock<Account> = OnceLock::new();
/// Which processes end with a summary line. The variable is read when the library is loaded. At the end, a program's
/// variables may lie in memory that it has given back.
static WANTED: OnceLock<Summary> = OnceLock::new();
/// The file of times.
static KEPT: OnceLock<PathBuf> = OnceLock::new();
static IS_CALLED: AtomicBool = AtomicBool::new(false);
/// The process that the library was loaded into. A forked process says nothing of its parent's calls.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Counts one.
pub fn count(what: Counted) {
    COUNTS[what as usize].fetch_add(1, Ordering::Relaxed);
}

/// A call takes this many milliseconds less than plain cuDNN, by the times of a trial; negative for more.
pub fn saved(time: f64) {
    SAVED.fetch_add((time * 1e6) as i64, Ordering::Relaxed);
}

/// The nanoseconds that calls saved so far.
pub fn saved_so_far() -> i64 {
    SAVED.load(Ordering::Relaxed)
}

/// A subject that is being tried, as long as this lives.
pub struct Tried(());

impl Tried {
    /// From here on, the subject is tried.
    pub fn begin() -> Self {
        TRIED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        TRIED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Times are kept in this file.
pub fn times_are_kept(file: &Path) {
    KEPT.get_or_init(|| file.to_owned());
}

/// Notes that the program calls cuDNN.
pub fn called() {
    IS_CALLED.store(true, Ordering::Relaxed);
}

/// The library is being loaded. Says so, if the log wants it. At the process's end the account is asked.
pub fn begin(version: &str, account: Account) {
    let log = std::env::var_os(settings::LOG);
    let summary = *WANTED.get_or_init(wanted);
    // Later, another thread may change variables.
    ranks::of_process();
    if log.is_none() && summary == Summary::Off {
        return;
    }
    let logs = log.is_some() && {
        settings::start_log_early();
        log::log_enabled!(log::Level::Info)
    };
    if logs {
        let program = std::env::current_exe().unwrap_or_default();
        log::info!("ucudnn {version} is loaded into {} (process {})", program.shown(), std::process::id());
    }
    if logs || summary != Summary::Off {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        ACCOUNT.get_or_init(|| account);
        // SAFETY: the handler is a function of this library, which is never unloaded.
        unsafe { libc::atexit(at_exit) };
    }
}

extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        if PROCESS.load(Ordering::Relaxed) == std::process::id() {
            let is_called = IS_CALLED.load(Ordering::Relaxed);
            let counts = COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
            let explored = ACCOUNT.get().map_or([0; 2], |account| account());
            log::info!("{}", text(is_called, counts, explored));
            if speaks(is_called) && terminal::is_ours() {
                let [saved, cost] = [SAVED.load(Ordering::Relaxed) as f64, explored[0] as f64].map(|time| time / 1e9);
                let totals = Totals { counts, saved, cost, tried: TRIED.load(Ordering::Relaxed) };
                let kept = KEPT.get().map(PathBuf::as_path);
                let said = if is_called { line::text(&totals, kept) } else { idle::why() };
                let rank = ranks::of_process().map_or_else(String::new, |rank| format!(" (rank {rank})"));
                terminal::write(&format!("ucudnn{rank}: {said}\n"));
            }
        }
    });
}

/// Which processes end with a summary line, by the environment.
fn wanted() -> Summary {
    // Most processes do not have the variable, and read no other.
    if std::env::var_os(SUMMARY).is_none() || trust::has_more_rights_than_its_user() {
        return Summary::Off;
    }
    // These two alone: a process that calls no cuDNN warns of no variable.
    let (settings, _) = Settings::read(|name| [SWITCH, SUMMARY].contains(&name).then(|| std::env::var_os(name))?);
    if settings.is_on { settings.summary } else { Summary::Off }
}

/// Returns whether this process says what was gained. A program starts others, such as shells and compilers: those that
/// call no cuDNN are silent, but for the one that the user started.
fn speaks(is_called: bool) -> bool {
    match WANTED.get() {
        None | Some(Summary::Off) => false,
        Some(Summary::On) => true,
        Some(Summary::Of(process)) => is_called || *process == std::process::id(),
    }
}

fn text(is_called: bool, counts: [u64; KINDS], explored: [u64; 2]) -> String {
    let [convolutions, divided, replaced, networks, ours, normalizations, by_us] = counts;
    if !is_called {
        return "cuDNN was never called. If the program opens cuDNN by name, try `ucudnn run --dlopen`".into();
    }
    let unchanged = convolutions.saturating_sub(divided.saturating_add(replaced));
    let [by_cudnn, not_by_us] = [networks.saturating_sub(ours), normalizations.saturating_sub(by_us)];
    let [cost, calls] = explored.map(|nanoseconds| nanoseconds as f64 / 1e9);
    format!(
        "{convolutions} convolutions: {divided} in micro-batches, {replaced} by another algorithm or engine, {unchanged} \
         unchanged; {networks} recurrent networks: {ours} on our kernels, {by_cudnn} by cuDNN; \
         {normalizations} passes of normalization: {by_us} on our kernels, {not_by_us} by cuDNN or PyTorch; exploring \
         cost {cost:.3} s beside {calls:.3} s of calls"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_in_one_place() {
        assert_eq!(
            text(true, [10, 5, 2, 4, 1, 7, 5], [250_000_000, 4_000_000_000]),
            "10 convolutions: 5 in micro-batches, 2 by another algorithm or engine, 3 unchanged; 4 recurrent networks: \
             1 on our kernels, 3 by cuDNN; 7 passes of normalization: 5 on our kernels, 2 by cuDNN or PyTorch; exploring \
             cost 0.250 s beside 4.000 s of calls"
        );
        assert!(text(false, [0; KINDS], [0; 2]).contains("--dlopen"));
    }
}
