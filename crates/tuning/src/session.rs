//! Carries a search out: one thread a device times its candidates, the caller's runs the best
//! configurations in place.

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
use guest::signals;
use planner::MicroConfiguration;

/// How much longer than its own tuning may take a program waits for another process's.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the budget is looked at while there is nothing to do.
const GLANCE: Duration = Duration::from_millis(20);

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Micro-configurations that are timed.
    pub timed: usize,
    /// Those still to be timed, as far as can be told: it falls faster than `timed` rises, since what
    /// turns out to be of no use is left out.
    pub remaining: usize,
}

/// One kernel's tuning.
pub struct Session<'a, K: Executable> {
    pub kernel: &'a K,
    /// What the benches hold data for: the kernel, or where these do not fit a part of its mini-batch. Then no
    /// configuration runs in place.
    pub part: &'a K,
    pub wanted: &'a Wanted<K>,
    pub record: &'a Record<'a, K>,
    pub budget: Budget,
    /// The number of the calling thread's device, then of others that help.
    pub devices: &'a [i32],
    /// The most bytes that tuning may allocate on a device.
    pub bytes: usize,
    /// Tuning ends soon after this is set.
    pub stop: &'a AtomicBool,
    /// Told of each micro-configuration, from any thread.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// Where the calling thread times: a bench, and what must live as long as it is in use.
pub type Prepared<K> = Result<(Bench<K>, Option<OwnBuffers>), String>;

impl<K: Executable> Session<'_, K> {
    /// Searches. What is known, here or by what the process has `measured` itself, is not measured;
    /// `prepare` makes the bench, for the most bytes of workspace of any candidate, only if anything is to
    /// be. `Err` says why that could not be.
    ///
    /// # Safety
    /// The bench's data are the part's, its workspace is of the bytes asked for or of the search's limit,
    /// and its handle is of the calling thread's device and in no other use.
    pub unsafe fn tune(
        &self,
        measured: &[MicroConfiguration<K::Algorithm>],
        prepare: impl FnOnce(usize) -> Prepared<K>,
    ) -> Result<Search<K::Algorithm>, String> {
        let ends = [End::Spent(self.budget)];
        let mut search = self.record.search(self.wanted, measured, &ends);
        if search.wants() == Next::Nothing {
            return Ok(search);
        }
        let lock = self.begin().ok_or("another process tunes it, and takes long")?;
        if lock.is_some() {
            search = self.record.search(self.wanted, measured, &ends);
            if search.wants() == Next::Nothing {
                return Ok(search);
            }
        }
        let limit = self.wanted.goal.limit();
        let workspaces = self.wanted.candidates.iter().map(|candidate| candidate.workspace);
        let workspace = workspaces.filter(|&bytes| bytes <= limit).max().unwrap_or(0);
        let (bench, _buffers) = prepare(workspace)?;
        // SAFETY: as ours.
        let end = unsafe { self.measure(&mut search, &bench, workspace) };
        self.record.ended(self.wanted, &search, end);
        if !matches!(end, End::Complete) {
            log::info!("{}: tuning ended within {:?}", self.kernel, self.budget);
        }
        Ok(search)
    }

    /// Waits until no other process tunes the kernel. `None` if one still does: then it may stand still, and
    /// this process waits for none any more.
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

    /// Measures until there is nothing more to do or the budget is spent.
    ///
    /// # Safety
    /// As for [`Self::tune`].
    unsafe fn measure(&self, search: &mut Search<K::Algorithm>, bench: &Bench<K>, workspace: usize) -> End {
        let start = Instant::now();
        let helpers = self.devices.iter().skip(1).take(search.remaining().saturating_sub(1));
        let work = Work {
            session: self,
            start,
            deadline: start + self.budget.time,
            state: Mutex::new(State { search, taken: Vec::new(), end: None, last_log: start }),
            changed: Condvar::new(),
        };
        let (work, device) = (&work, bench.device);
        std::thread::scope(|scope| {
            let _over = Over(work);
            for &ordinal in helpers {
                let help = move || {
                    signals::leave_to_program();
                    let helped = catch_unwind(AssertUnwindSafe(|| work.help(device, ordinal, workspace)));
                    match helped {
                        Ok(Ok(())) => {}
                        Ok(Err(why)) => log::info!("device {ordinal} does not help to tune {}: {why}", self.kernel),
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
            // SAFETY: as ours.
            unsafe { work.carry_out(bench, own, true) };
        });
        let end = work.state.lock().end;
        end.unwrap_or(End::Stopped)
    }
}

/// A search that several threads carry out.
struct Work<'a, K: Executable> {
    session: &'a Session<'a, K>,
    start: Instant,
    deadline: Instant,
    state: Mutex<State<'a, K::Algorithm>>,
    /// Notified when a candidate is taken no longer, and at the end.
    changed: Condvar,
}

struct State<'a, A> {
    search: &'a mut Search<A>,
    /// What is being timed.
    taken: Vec<Candidate<A>>,
    end: Option<End>,
    last_log: Instant,
}

/// A candidate that is being timed. If nothing comes of it, it does not run.
struct Claim<'a, 'b, K: Executable> {
    work: &'a Work<'b, K>,
    candidate: Candidate<K::Algorithm>,
}

impl<K: Executable> Work<'_, K> {
    /// Times candidates on another device than the caller's, with a handle, a stream and buffers there.
    fn help(&self, device: gpu::Device, ordinal: i32, workspace: usize) -> Result<(), String> {
        let part = self.session.part;
        let _entered = device.enter(ordinal).ok_or("it cannot be entered")?;
        let stream = device.stream().ok_or("it gives no stream")?;
        let handle = OwnedHandle::new(stream.raw()).map_err(|status| format!("it gives no handle: status {status}"))?;
        let buffers = OwnBuffers::allocate(device, stream.raw(), part, workspace, self.session.bytes)?;
        let bench = buffers.bench(device, handle.raw(), stream.raw(), part);
        // SAFETY: buffers for this kernel and this workspace, and a handle of ours.
        unsafe { self.carry_out(&bench, ordinal, false) };
        Ok(())
    }

    /// Does what the search wants until there is nothing left for this thread; only one may run
    /// configurations `in_place`.
    ///
    /// # Safety
    /// As for [`Session::tune`].
    unsafe fn carry_out(&self, bench: &Bench<K>, ordinal: i32, in_place: bool) {
        while let Some(next) = self.next(in_place) {
            match next {
                // SAFETY: as ours.
                Next::Time(candidate) => unsafe { self.time(bench, ordinal, Claim { work: self, candidate }) },
                Next::Try(index) => {
                    let trial = self.state.lock().search.trial(index).cloned();
                    // SAFETY: the bench's own handle.
                    let plan = trial.and_then(|trial| unsafe { self.session.kernel.plan(bench.handle, trial) }.ok());
                    // SAFETY: as ours.
                    let time = plan.and_then(|plan| unsafe { bench.time_row(&plan, 1) }.ok());
                    self.state.lock().search.tried(index, time);
                }
                Next::Nothing => return,
            }
        }
    }

    /// What this thread is to do; `None` if nothing any more.
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
                Some(Next::Try(_)) if self.session.part != self.session.kernel => Some(End::Complete),
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
        (often || Instant::now() >= self.deadline).then_some(End::Spent(self.session.budget))
    }

    /// # Safety
    /// As for [`Session::tune`].
    unsafe fn time(&self, bench: &Bench<K>, ordinal: i32, claim: Claim<'_, '_, K>) {
        let Session { kernel, record, .. } = *self.session;
        let candidate = claim.candidate;
        let Candidate { batch, algorithm, workspace } = candidate;
        let far = far_above(self.state.lock().search.measured(), batch);
        let micro = MicroConfiguration { batch, algorithm, time: 0.0, workspace };
        // SAFETY: the bench's own handle.
        let timed = unsafe { kernel.micro_batch(bench.handle, micro) }.and_then(|plan| {
            // SAFETY: as ours; a micro-batch is a part of the kernel.
            unsafe { bench.time(&plan, row_of(kernel.batch(), batch), far, self.deadline) }
        });
        match timed {
            Ok(time) => {
                record.timed(&candidate, time, ordinal);
                claim.timed(time);
            }
            Err(status) => {
                // What cuDNN refuses it always refuses; anything else may have been an accident.
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
            log::info!("tuning {}: {} micro-configurations timed", self.work.session.kernel, progress.timed);
        }
        drop(state);
        (self.work.session.progress)(progress);
    }
}

impl<K: Executable> Drop for Claim<'_, '_, K> {
    fn drop(&mut self) {
        let mut state = self.work.state.lock();
        state.taken.retain(|taken| *taken != self.candidate);
        // Does nothing if it has been timed.
        state.search.failed(self.candidate);
        self.work.changed.notify_all();
    }
}

/// However the caller's part ends, the others end too.
struct Over<'a, 'b, K: Executable>(&'a Work<'b, K>);

impl<K: Executable> Drop for Over<'_, '_, K> {
    fn drop(&mut self) {
        self.0.state.lock().end.get_or_insert(End::Stopped);
        self.0.changed.notify_all();
    }
}
