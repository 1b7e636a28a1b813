//! Carries a search out: one thread for each device times candidates; the caller's thread also runs the best
//! configurations in place.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_abi::*;
use parking_lot::{Condvar, Mutex};

use super::database::TuningLock;
use super::executable::Executable;
use super::record::{End, Record, Wanted};
use super::search::{Candidate, Next, Search};
use super::waiting::{Bench, Budget, OwnBuffers, far_above, row_of};
use cudnn::owned::OwnedHandle;
use gpu::Moment;
use guest::{room, signals};
use planner::MicroConfiguration;

/// How much longer than its own budget a program waits for another process that tunes.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often an idle thread checks the budget.
const GLANCE: Duration = Duration::from_millis(20);

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The micro-configurations timed so far.
    pub timed: usize,
    /// The micro-configurations still to be timed, as far as known. It falls faster than `timed` rises, since the
    /// search drops useless candidates.
    pub remaining: usize,
}

impl Progress {
    /// The progress of a subject's tuning in words.
    pub fn of(&self, subject: &impl fmt::Display) -> String {
        format!("tuning: {} timed, {} to go, of {subject}", self.timed, self.remaining)
    }
}

/// The tuning of one problem.
pub struct Session<'a, K: Executable> {
    pub problem: &'a K,
    /// The problem that the benches hold data for: `problem`, or if its data do not fit, a part of its mini-batch. With
    /// a part, no configuration runs in place.
    pub part: &'a K,
    pub wanted: &'a Wanted<K>,
    pub record: &'a Record<'a, K>,
    pub budget: Budget,
    /// The ordinal of the calling thread's device, then those of devices that help.
    pub devices: &'a [i32],
    /// The most bytes that tuning may allocate on a device.
    pub bytes: usize,
    /// Tuning ends soon after this is set.
    pub stop: &'a AtomicBool,
    /// Called after each micro-configuration, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// The bench of the calling thread, and the buffers that must live as long as the bench is used.
pub type Prepared<K> = Result<(Bench<K>, Option<OwnBuffers>), String>;

impl<K: Executable> Session<'_, K> {
    /// Carries the search out. Results in the database, and those that the process has `measured`, are not measured
    /// again. `prepare` makes the bench for the largest workspace of any candidate, in bytes, and is called only if
    /// something must be measured; `Err` is its error, or says that another process tunes the problem.
    ///
    /// # Safety
    /// The caller promises that the bench holds data of `part`, that its workspace has the bytes passed to `prepare` or
    /// the search's limit, and that its handle is of the calling thread's device and in no other use.
    pub unsafe fn tune(
        &self,
        measured: &[MicroConfiguration<K::Algorithm>],
        prepare: impl FnOnce(usize) -> Prepared<K>,
    ) -> Result<Search<K::Algorithm>, String> {
        let ends = [End::Spent(self.budget)];
        let mut search = self.record.search(self.wanted, measured, &ends);
        // Without an end, another process may be tuning: times that it still takes would change the choice.
        if search.wants() == Next::Nothing && search.has_ended() {
            return Ok(search);
        }
        let lock = self.begin().ok_or("another process tunes it, and takes long")?;
        if lock.is_some() {
            search = self.record.search(self.wanted, measured, &ends);
        }
        if search.wants() == Next::Nothing {
            return Ok(search);
        }
        let limit = self.wanted.goal.limit();
        let workspaces = self.wanted.candidates.iter().map(|candidate| candidate.workspace);
        let workspace = workspaces.filter(|&bytes| bytes <= limit).max().unwrap_or(0);
        let (bench, _buffers) = prepare(workspace)?;
        // SAFETY: the caller makes the promise of this function for the bench that `prepare` made (see `# Safety`).
        let end = unsafe { self.measure(&mut search, &bench, workspace) };
        self.record.ended(self.wanted, &search, end);
        if !matches!(end, End::Complete) {
            log::info!("{}: tuning ended within {:?}", self.problem, self.budget);
        }
        Ok(search)
    }

    /// Waits until no other process tunes the problem. `None` if one still does: it may hang, so this process never
    /// waits for one again.
    fn begin(&self) -> Option<Option<TuningLock>> {
        static WAITED_IN_VAIN: AtomicBool = AtomicBool::new(false);
        let deadline = Instant::now() + self.budget.time + PATIENCE;
        while !self.stop.load(Ordering::Relaxed) {
            let lock = self.record.begin(GLANCE);
            if lock.is_some() || WAITED_IN_VAIN.load(Ordering::Relaxed) {
                return lock;
            }
            WAITED_IN_VAIN.fetch_or(Instant::now() >= deadline, Ordering::Relaxed);
        }
        None
    }

    /// Measures until nothing is left to do or the budget is spent.
    ///
    /// # Safety
    /// The caller makes the promise of [`Self::tune`].
    unsafe fn measure(&self, search: &mut Search<K::Algorithm>, bench: &Bench<K>, workspace: usize) -> End {
        let start = Moment::now();
        let helpers = self.devices.iter().skip(1).take(search.remaining().saturating_sub(1));
        let work = Work {
            session: self,
            start,
            deadline: start + self.budget.time,
            state: Mutex::new(State { search, taken: Vec::new(), end: None, last_log: Instant::now() }),
            changed: Condvar::new(),
        };
        let (work, device) = (&work, bench.device);
        std::thread::scope(|scope| {
            let _over = Over(work);
            for &ordinal in helpers.take_while(|_| room::is_left()) {
                let help = move || {
                    signals::leave_to_program();
                    let helped = catch_unwind(AssertUnwindSafe(|| work.help(device, ordinal, workspace)));
                    match helped {
                        Ok(Ok(())) => {}
                        Ok(Err(why)) => log::info!("device {ordinal} does not help to tune {}: {why}", self.problem),
                        Err(_) => log::error!("a panic inside ucudnn: device {ordinal} tunes no longer"),
                    }
                };
                let spawned =
                    std::thread::Builder::new().name(format!("ucudnn-tune-{ordinal}")).spawn_scoped(scope, help);
                if let Err(error) = spawned {
                    log::info!("no thread to tune on device {ordinal}: {error}");
                }
            }
            let own = self.devices.first().copied().unwrap_or_else(|| device.ordinal());
            // SAFETY: the caller makes the promise of `tune` for this bench (see `# Safety`).
            unsafe { work.carry_out(bench, own, true) };
        });
        let end = work.state.lock().end;
        end.unwrap_or(End::Stopped)
    }
}

/// A search shared by several threads.
struct Work<'a, K: Executable> {
    session: &'a Session<'a, K>,
    start: Moment,
    deadline: Moment,
    state: Mutex<State<'a, K::Algorithm>>,
    /// Notified when a candidate is released, and at the end.
    changed: Condvar,
}

struct State<'a, A> {
    search: &'a mut Search<A>,
    /// The candidates being timed.
    taken: Vec<Candidate<A>>,
    end: Option<End>,
    last_log: Instant,
}

/// A candidate that a thread is timing. Dropping this without a time marks the candidate as failed.
struct Claim<'a, 'b, K: Executable> {
    work: &'a Work<'b, K>,
    candidate: Candidate<K::Algorithm>,
}

impl<K: Executable> Work<'_, K> {
    /// Times candidates on another device than the caller's, with its own handle, stream and buffers.
    fn help(&self, device: gpu::Device, ordinal: i32, workspace: usize) -> Result<(), String> {
        let part = self.session.part;
        let _entered = device.enter(ordinal).ok_or("it cannot be entered")?;
        let stream = device.stream().ok_or("it gives no stream")?;
        let handle = OwnedHandle::new(stream.raw()).map_err(|status| format!("it gives no handle: status {status}"))?;
        let buffers = OwnBuffers::allocate(device, stream.raw(), part, workspace, self.session.bytes)?;
        let bench = buffers.bench(device, handle.raw(), stream.raw(), part);
        // SAFETY: we allocated the bench's buffers for `part` and `workspace`, and nobody else uses its handle.
        unsafe { self.carry_out(&bench, ordinal, false) };
        Ok(())
    }

    /// Does the search's tasks until none is left for this thread. Only one thread may run configurations `in_place`.
    ///
    /// # Safety
    /// The caller makes the promise of [`Session::tune`].
    unsafe fn carry_out(&self, bench: &Bench<K>, ordinal: i32, in_place: bool) {
        while let Some(next) = self.next(in_place) {
            match next {
                // SAFETY: the caller makes the promise of `Session::tune` for this bench (see `# Safety`).
                Next::Time(candidate) => unsafe { self.time(bench, ordinal, Claim { work: self, candidate }) },
                Next::Try(index) => {
                    let trial = self.state.lock().search.trial(index).cloned();
                    // SAFETY: the caller promises that the bench's handle is live and in no other use (see `# Safety`).
                    let plan = trial.and_then(|trial| unsafe { self.session.problem.plan(bench.handle, trial) }.ok());
                    // SAFETY: the caller promises the bench (see `# Safety`), and the plan was made for its handle.
                    let time = plan.and_then(|plan| unsafe { bench.time_row(&plan, 1) }.ok());
                    self.state.lock().search.tried(index, time);
                }
                Next::Nothing => return,
            }
        }
    }

    /// Returns the next task of this thread; `None` if nothing is left.
    fn next(&self, in_place: bool) -> Option<Next<K::Algorithm>> {
        let mut state = self.state.lock();
        loop {
            if state.end.is_some() {
                return None;
            }
            let State { search, taken, .. } = &mut *state;
            let next = search.wants_besides(taken);
            let end = match &next {
                Some(Next::Nothing) => Some(End::Complete),
                Some(Next::Try(_)) if self.session.part != self.session.problem => Some(End::Complete),
                _ => self.is_spent(search),
            };
            if end.is_some() {
                state.end = end;
                self.changed.notify_all();
                return None;
            }
            match next {
                Some(Next::Time(candidate)) => {
                    taken.push(candidate);
                    return next;
                }
                Some(_) => return next.filter(|_| in_place),
                None => {
                    self.changed.wait_for(&mut state, GLANCE);
                }
            }
        }
    }

    fn is_spent(&self, search: &Search<K::Algorithm>) -> Option<End> {
        let Budget { executions, .. } = self.session.budget;
        if self.session.stop.load(Ordering::Relaxed) {
            return Some(End::Stopped);
        }
        let spent = self.start.elapsed().as_secs_f64() * 1e3;
        let often = search.fastest_whole(usize::MAX).is_some_and(|whole| spent > executions * whole.time);
        let end = if self.session.budget.is_rest { End::Stopped } else { End::Spent(self.session.budget) };
        (often || Moment::now() >= self.deadline).then_some(end)
    }

    /// # Safety
    /// The caller makes the promise of [`Session::tune`].
    unsafe fn time(&self, bench: &Bench<K>, ordinal: i32, claim: Claim<'_, '_, K>) {
        let Session { problem, record, .. } = *self.session;
        let candidate = claim.candidate;
        let Candidate { batch, algorithm, workspace } = candidate;
        let far = far_above(self.state.lock().search.measured(), batch);
        let micro = MicroConfiguration { batch, algorithm, time: 0.0, workspace };
        // SAFETY: the caller promises that the bench's handle is live and in no other use (see `# Safety`).
        let timed = unsafe { problem.micro_batch(bench.handle, micro) }.and_then(|plan| {
            // SAFETY: the caller promises the bench's data (see `# Safety`), and a micro-batch uses a part of them.
            unsafe { bench.time(&plan, row_of(problem.batch(), batch), far, self.deadline) }
        });
        match timed {
            Ok(time) => {
                record.timed(&candidate, time, ordinal);
                claim.timed(time);
            }
            Err(status) => {
                // With these statuses cuDNN refuses the configuration for good; any other failure may be an accident.
                if (CUDNN_STATUS_BAD_PARAM..CUDNN_STATUS_INTERNAL_ERROR).contains(&status) {
                    record.failed(&candidate);
                }
                drop(claim);
            }
        }
    }
}

impl<K: Executable> Claim<'_, '_, K> {
    fn timed(self, time: f64) {
        let mut state = self.work.state.lock();
        state.search.timed(self.candidate, time);
        let progress = Progress { timed: state.search.measured().len(), remaining: state.search.remaining() };
        if state.last_log.elapsed() > Duration::from_secs(2) {
            state.last_log = Instant::now();
            log::info!("tuning {}: {} micro-configurations timed", self.work.session.problem, progress.timed);
        }
        drop(state);
        (self.work.session.progress)(progress);
    }
}

impl<K: Executable> Drop for Claim<'_, '_, K> {
    fn drop(&mut self) {
        let mut state = self.work.state.lock();
        state.taken.retain(|taken| *taken != self.candidate);
        // Has no effect on a candidate that was timed.
        state.search.failed(self.candidate);
        self.work.changed.notify_all();
    }
}

/// Ends the other threads' work when the caller's work ends, even by a panic.
struct Over<'a, 'b, K: Executable>(&'a Work<'b, K>);

impl<K: Executable> Drop for Over<'_, '_, K> {
    fn drop(&mut self) {
        self.0.state.lock().end.get_or_insert(End::Stopped);
        self.0.changed.notify_all();
    }
}
