//! Solves a programme with GLPK.
//!
//! GLPK keeps its state (memory, whether it prints) per thread, and the host program may use GLPK itself. So each
//! programme is solved on its own thread, and that thread's GLPK state is freed at the end.
//!
//! When an assertion of GLPK fails, which rounding can cause for any numbers, or when memory runs out, GLPK prints a
//! message, calls the error hook and ends the process once the hook returns. Our hook does not return: it reports the
//! failure and puts the thread to sleep for good.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use glpk_sys::*;

use crate::programme::Programme;
use crate::signals;

/// The distance from an integer within which GLPK takes a number for that integer. With its default, 1e-5, a need of
/// many units would be off by many units. Below 1e-7, the tolerance of its simplex method, nothing is gained.
const INTEGER: f64 = 1e-7;
/// GLPK looks only for answers that cost less by more than this.
const BETTER: f64 = 1e-9;

/// The result of solving.
pub struct Found {
    pub counts: Vec<f64>,
    /// A lower bound on every answer's cost.
    pub bound: f64,
    /// True if no answer costs less than the counts.
    pub optimal: bool,
}

/// Solves the programme as well as its time allows.
pub fn solve(programme: Programme) -> Result<Found, String> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("ucudnn-solver".to_owned());
    let solving = thread.spawn(move || {
        signals::leave_to_program();
        let state = State::new(sender.clone());
        let found = state.map(|_state| Problem::new(&programme).solve(&programme));
        // the receiver waits for this
        let _ = sender.send(found);
    });
    solving.map_err(|error| format!("no thread to solve on: {error}"))?;
    receiver.recv().unwrap_or_else(|_| Err("an error inside the solver".to_owned()))
}

/// This thread's GLPK state: it prints nothing and reports failures.
struct State {
    failing: Box<Failing>,
}

/// GLPK's messages before it gives up, and the channel that reports them.
struct Failing {
    said: RefCell<String>,
    sender: Sender<Result<Found, String>>,
}

impl State {
    fn new(sender: Sender<Result<Found, String>>) -> Result<Self, String> {
        // SAFETY: the option is a C string. Without TLS, GLPK's threads would share one state.
        if unsafe { glp_config(c"TLS".as_ptr()) }.is_null() {
            return Err("this GLPK was built without support for threads".to_owned());
        }
        let state = Self { failing: Box::new(Failing { said: RefCell::default(), sender }) };
        let failing = (&raw const *state.failing).cast_mut().cast();
        // SAFETY: sets fields of this thread's state. `failing` outlives their use: `drop` frees that state first.
        unsafe {
            glp_term_out(GLP_OFF);
            glp_term_hook(Some(said), failing);
            glp_error_hook(Some(failed), failing);
        }
        Ok(state)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: this thread has no problem left: `Problem` is dropped before its `State`.
        unsafe { glp_free_env() };
    }
}

/// GLPK's terminal hook, called with each text that it would print; returning 1 suppresses the text.
unsafe extern "C" fn said(failing: *mut c_void, text: *const c_char) -> c_int {
    // SAFETY: `State::new` passes its boxed `Failing`, which is alive, and GLPK passes a C string.
    let (failing, text) = unsafe { (&*failing.cast::<Failing>(), CStr::from_ptr(text)) };
    failing.said.borrow_mut().push_str(&text.to_string_lossy());
    1
}

/// GLPK's error hook, called before GLPK would end the process.
unsafe extern "C" fn failed(failing: *mut c_void) {
    // SAFETY: `State::new` passes its boxed `Failing`, which is alive.
    let failing = unsafe { &*failing.cast::<Failing>() };
    let said = failing.said.borrow().split_whitespace().collect::<Vec<_>>().join(" ");
    // the receiver waits for this
    let _ = failing.sender.send(Err(format!("GLPK gave up: {said}")));
    loop {
        std::thread::park();
    }
}

/// A GLPK problem. Its rows are the groups, then the resources; its columns are the choices.
struct Problem(NonNull<glp_prob>);

impl Drop for Problem {
    fn drop(&mut self) {
        // SAFETY: `new` made the problem on this thread, and `drop` runs once.
        unsafe { glp_delete_prob(self.0.as_ptr()) };
    }
}

impl Problem {
    fn new(programme: &Programme) -> Self {
        // SAFETY: makes a problem in this thread's state, or calls the error hook.
        let problem = Self(NonNull::new(unsafe { glp_create_prob() }).expect("GLPK returns no null"));
        let (rows, columns, values) = entries(programme);
        let (groups, choices) = (programme.groups.len(), programme.costs.len());
        let it = problem.0.as_ptr();
        // SAFETY: rows and columns are added before their use, numbered from 1. `Programme` has checked that bounds are
        // finite and ordered. `entries` gives each place of the matrix once, in arrays that begin at 1.
        unsafe {
            glp_set_obj_dir(it, GLP_MIN);
            glp_add_rows(it, count(groups + programme.capacities.len()));
            glp_add_cols(it, count(choices));
            for (group, &layers) in programme.layers.iter().enumerate() {
                glp_set_row_bnds(it, count(group + 1), GLP_FX, layers, layers);
            }
            for (resource, &capacity) in programme.capacities.iter().enumerate() {
                glp_set_row_bnds(it, count(groups + resource + 1), GLP_UP, 0.0, capacity);
            }
            for (choice, (&cost, &most)) in programme.costs.iter().zip(&programme.most).enumerate() {
                let column = count(choice + 1);
                glp_set_col_kind(it, column, GLP_IV);
                glp_set_col_bnds(it, column, if most > 0.0 { GLP_DB } else { GLP_FX }, 0.0, most);
                glp_set_obj_coef(it, column, cost);
            }
            glp_load_matrix(it, count(values.len() - 1), rows.as_ptr(), columns.as_ptr(), values.as_ptr());
        }
        problem
    }

    fn solve(&self, programme: &Programme) -> Found {
        let end = Duration::try_from_secs_f64(programme.seconds).ok().and_then(|time| Instant::now().checked_add(time));
        let start = [0.0].into_iter().chain(programme.start.iter().copied()).collect();
        let mut search = Search { start, end, bound: f64::NEG_INFINITY };
        let optimal = self.relax(&mut search) && self.search(&mut search);

        let it = self.0.as_ptr();
        // SAFETY: the problem belongs to this thread, and every column exists.
        let (status, found) = unsafe {
            let column = |choice| glp_mip_col_val(it, count(choice + 1));
            (glp_mip_status(it), (0..programme.costs.len()).map(column).collect())
        };
        let known = status == GLP_OPT || status == GLP_FEAS;
        let counts = if known { found } else { programme.start.clone() };
        let cost = counts.iter().zip(&programme.costs).map(|(count, cost)| count * cost).sum();
        let optimal = optimal && known;
        Found { counts, bound: if optimal { cost } else { search.bound.min(cost) }, optimal }
    }

    /// Solves the linear relaxation, whose optimum is a bound. Returns false if the time did not suffice.
    fn relax(&self, search: &mut Search) -> bool {
        let it = self.0.as_ptr();
        // SAFETY: GLPK initialises the parameters, and its manual allows the values set here.
        unsafe {
            let mut parameters = std::mem::zeroed();
            glp_init_smcp(&mut parameters);
            parameters.msg_lev = GLP_MSG_OFF;
            parameters.meth = GLP_DUAL;
            parameters.tm_lim = search.milliseconds();
            glp_std_basis(it);
            let solved = glp_simplex(it, &parameters) == 0 && glp_get_status(it) == GLP_OPT;
            if solved {
                search.bound = glp_get_obj_val(it);
            }
            solved
        }
    }

    /// Branches and cuts. Returns false if it stopped early.
    fn search(&self, search: &mut Search) -> bool {
        let it = self.0.as_ptr();
        // SAFETY: GLPK initialises the parameters, and its manual allows the values set here. `search` outlives the
        // call, and only `called_back` uses it during the call.
        unsafe {
            let mut parameters = std::mem::zeroed();
            glp_init_iocp(&mut parameters);
            parameters.msg_lev = GLP_MSG_OFF;
            parameters.tm_lim = search.milliseconds();
            parameters.tol_int = INTEGER;
            parameters.tol_obj = BETTER;
            parameters.cov_cuts = GLP_ON;
            parameters.cb_func = Some(called_back);
            parameters.cb_info = (search as *mut Search).cast();
            glp_intopt(it, &parameters) == 0 && glp_mip_status(it) == GLP_OPT
        }
    }
}

/// The state that GLPK's search and its callback share.
struct Search {
    /// The start by column, from 1; empty once GLPK has it.
    start: Vec<f64>,
    /// The deadline, if there is one.
    end: Option<Instant>,
    bound: f64,
}

impl Search {
    /// The time left, in the form that GLPK takes.
    fn milliseconds(&self) -> c_int {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()).as_millis());
        left.and_then(|left| c_int::try_from(left).ok()).unwrap_or(c_int::MAX)
    }
}

/// GLPK's callback, called at points of its search.
unsafe extern "C" fn called_back(tree: *mut glp_tree, search: *mut c_void) {
    // SAFETY: `search` passes its `Search` here, and does not use it itself before the call ends.
    let search = unsafe { &mut *search.cast::<Search>() };
    // SAFETY: the tree is being searched, and the start has one number for each column.
    unsafe {
        match glp_ios_reason(tree) {
            GLP_IHEUR if !search.start.is_empty() => {
                glp_ios_heur_sol(tree, std::mem::take(&mut search.start).as_ptr());
            }
            GLP_ISELECT => {
                let best = glp_ios_best_node(tree);
                if best != 0 {
                    search.bound = search.bound.max(glp_ios_node_bound(tree, best));
                }
            }
            _ => {}
        }
    }
}

/// The matrix for GLPK: rows, columns and values, from 1, without duplicates and zeros.
fn entries(programme: &Programme) -> (Vec<c_int>, Vec<c_int>, Vec<f64>) {
    let (mut rows, mut columns, mut values) = (vec![0], vec![0], vec![0.0]);
    let mut entry = |row: usize, choice: usize, value: f64| {
        if value != 0.0 {
            rows.push(count(row + 1));
            columns.push(count(choice + 1));
            values.push(value);
        }
    };
    for (row, choices) in programme.groups.iter().enumerate() {
        choices.clone().for_each(|choice| entry(row, choice, 1.0));
    }
    for (resource, needs) in programme.needs.iter().enumerate() {
        let row = programme.groups.len() + resource;
        needs.iter().enumerate().for_each(|(choice, &need)| entry(row, choice, need));
    }
    (rows, columns, values)
}

/// A count of rows, columns or entries; `Programme` has checked that it is small.
fn count(number: usize) -> c_int {
    c_int::try_from(number).expect("checked to be few")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_glpk_is_an_error_and_not_the_end() {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let _state = State::new(sender);
            // SAFETY: GLPK checks the number, and calls the error hook, which does not return.
            unsafe { glp_add_cols(glp_create_prob(), -1) };
        });
        let why = receiver.recv().expect("the failure is reported").err().expect("nothing was solved");
        assert!(why.starts_with("GLPK gave up: ") && why.contains("ncs = -1"), "{why}");
    }
}
