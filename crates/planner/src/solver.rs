//! `libucudnn_solver.so`, which solves Workspace Division's integer programme: loaded at the first use, once per
//! process, and never unloaded. The search starts beside the file that holds this code, `libucudnn.so` or a program
//! linked with us, and goes on in the folder `lib` next to that file's folder, for an installed command.

mod abi;

use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use trust::Shown as _;

const FILE: &str = "libucudnn_solver.so";

/// A programme as in [`abi::Programme`]: minimise Σ costs · x, where x counts a group's layers by choice.
#[derive(Debug)]
pub(super) struct Programme {
    /// The number of choices of each group, in order.
    pub group_choices: Vec<usize>,
    /// The number of layers of each group.
    pub layers: Vec<f64>,
    pub costs: Vec<f64>,
    /// The most layers of each choice.
    pub most: Vec<f64>,
    /// The needs of one layer by choice, one row per resource.
    pub needs: Vec<Vec<f64>>,
    pub capacities: Vec<f64>,
    /// A feasible x.
    pub start: Vec<f64>,
}

/// The solver's result.
#[derive(Debug)]
pub(super) struct Solved {
    pub counts: Vec<f64>,
    /// A lower bound on the cost of every feasible x.
    pub bound: f64,
    /// True if the search ended, so that no x costs less than `counts`.
    pub optimal: bool,
}

/// Loads the solver at the first call; `Err` gives the reason if it cannot be loaded.
pub fn solver_available() -> Result<(), String> {
    functions().as_ref().map(|_| ()).map_err(Clone::clone)
}

/// The solver's file for `libucudnn.so` at `library`, which need not be the file that holds this code. `Err` gives the
/// reason if it cannot be loaded.
pub fn solver_of(library: &Path) -> Result<PathBuf, String> {
    find(library).map(|(path, _)| path)
}

/// Solves `programme` as well as `time` allows.
pub(super) fn solve(programme: &Programme, time: Duration) -> Result<Solved, String> {
    let functions = functions().as_ref().map_err(Clone::clone)?;
    let mut counts = programme.start.clone();
    let (groups, choices) = (programme.group_choices.len(), counts.len());
    let needs = programme.needs.concat();
    let lengths = [programme.layers.len() == groups, programme.costs.len() == choices, programme.most.len() == choices];
    let rows = programme.needs.iter().all(|row| row.len() == choices);
    if !rows || programme.needs.len() != programme.capacities.len() || lengths.contains(&false) {
        return Err("a programme whose arrays do not agree".to_owned());
    }
    let raw = abi::Programme {
        groups,
        group_choices: programme.group_choices.as_ptr(),
        layers: programme.layers.as_ptr(),
        choices,
        costs: programme.costs.as_ptr(),
        most: programme.most.as_ptr(),
        resources: programme.capacities.len(),
        needs: needs.as_ptr(),
        capacities: programme.capacities.as_ptr(),
        seconds: time.as_secs_f64(),
    };
    let mut answer = abi::Answer { counts: counts.as_mut_ptr(), bound: f64::NEG_INFINITY, reason: [0; _] };
    // SAFETY: the lengths checked above make the arrays as long as the programme says, and the arrays outlive the call;
    // `load` has checked that the function has this version of the ABI.
    let status = unsafe { (functions.solve)(&raw, &mut answer) };
    match status {
        abi::OPTIMAL | abi::STOPPED => Ok(Solved { counts, bound: answer.bound, optimal: status == abi::OPTIMAL }),
        abi::REFUSED => Err(text(&answer.reason)),
        _ => Err(format!("{FILE} returned {status}")),
    }
}

fn text(reason: &[c_char]) -> String {
    let bytes: Vec<u8> = reason.iter().map(|&byte| byte as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}

struct Functions {
    solve: abi::Solve,
}

fn functions() -> &'static Result<Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| find(&own_file()?).map(|(_, functions)| functions))
}

/// Loads the solver from its places for `own`, the file that holds this code.
fn find(own: &Path) -> Result<(PathBuf, Functions), String> {
    let mut tried = String::new();
    for path in places(own) {
        match load(&path) {
            Ok(functions) => return Ok((path, functions)),
            Err(why) => write!(tried, "\n  {}: {why}", path.shown()).expect("writing to a string does not fail"),
        }
    }
    Err(format!("{FILE} was not found or cannot be used. Tried:{tried}"))
}

fn places(own: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let lib = folder.parent().map(|above| above.join("lib")).filter(|lib| lib != folder);
    [Some(folder.to_owned()), lib].into_iter().flatten().map(|folder| folder.join(FILE))
}

fn load(path: &Path) -> Result<Functions, String> {
    if !path.exists() {
        return Err("no such file".to_owned());
    }
    let path =
        trust::file(path).inspect_err(|why| log::warn!("{} is passed over, as it is not safe: {why}", path.shown()))?;
    // SAFETY: this is our own library, found beside our file; the constructors of GLPK's dependencies do nothing.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| match error {
        libloading::Error::DlOpen { source } => source.to_string().shown().to_string(),
        error => error.to_string(),
    })?;
    // SAFETY: the function of this name has this type in every version of the ABI.
    let version = unsafe { library.get::<abi::Version>(c"ucudnn_solver_version".to_bytes_with_nul()) };
    // SAFETY: the function of this name has this type in every version of the ABI, and takes no arguments.
    let version = unsafe { version.map_err(|_| "exports no ucudnn_solver_version")?() };
    if version != abi::VERSION {
        return Err(format!("its interface is version {version}, not {}: it is of another ucudnn", abi::VERSION));
    }
    // SAFETY: the function of this name has this type in the version just checked.
    let solve = unsafe { library.get::<abi::Solve>(c"ucudnn_solver_solve".to_bytes_with_nul()) };
    let solve = *solve.map_err(|_| "exports no ucudnn_solver_solve")?;
    std::mem::forget(library);
    Ok(Functions { solve })
}

/// The file that this code was loaded from.
fn own_file() -> Result<PathBuf, String> {
    trust::file_at(own_file as *const () as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solver_lies_beside_the_tests() {
        assert_eq!(solver_available(), Ok(()));
    }

    #[test]
    fn what_was_tried_is_said() {
        let folder = std::env::temp_dir().join(format!("ucudnn-no-solver-{}", std::process::id()));
        let (bin, lib) = (folder.join("bin"), folder.join("lib"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join(FILE), "not a library").unwrap();
        let why = find(&bin.join("ucudnn")).err().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(why.contains(&format!("{}: no such file", bin.join(FILE).display())), "{why}");
        assert!(why.contains(lib.join(FILE).to_str().unwrap()), "{why}");
    }

    #[test]
    fn the_kernel_knows_our_file() {
        assert_eq!(own_file().unwrap(), std::env::current_exe().unwrap());
    }

    #[test]
    fn null_is_refused() {
        let solve = functions().as_ref().map(|functions| functions.solve).unwrap();
        let mut answer = abi::Answer { counts: std::ptr::null_mut(), bound: 0.0, reason: [0; _] };
        // SAFETY: the ABI allows null.
        let statuses = unsafe { [solve(std::ptr::null(), std::ptr::null_mut()), solve(std::ptr::null(), &mut answer)] };
        assert_eq!(statuses, [abi::REFUSED; 2]);
        assert_eq!(text(&answer.reason), "a null programme");
    }

    #[test]
    fn a_bad_programme_is_refused() {
        let good = || Programme {
            group_choices: vec![2],
            layers: vec![3.0],
            costs: vec![2.0, 1.0],
            most: vec![3.0; 2],
            needs: vec![vec![0.0, 1.0]],
            capacities: vec![2.0],
            start: vec![3.0, 0.0],
        };
        let solve = |programme: &Programme| super::solve(programme, Duration::from_secs(60));
        let solved = solve(&good()).unwrap();
        assert_eq!((solved.counts, solved.bound, solved.optimal), (vec![1.0, 2.0], 4.0, true));
        type Harm = fn(&mut Programme);
        let harms: [(Harm, &str); 11] = [
            (|it| it.costs[0] = f64::NAN, "NaN in costs"),
            (|it| it.needs[0][1] = f64::INFINITY, "inf in needs"),
            (|it| it.capacities[0] = 1e300, "in capacities"),
            (|it| it.layers[0] = -1.0, "-1.0 in layers"),
            (|it| it.most[1] = 0.5, "0.5 in most"),
            (|it| it.group_choices[0] = 3, "groups' choices"),
            (|it| it.group_choices = vec![2, 0], "arrays do not agree"),
            (|it| it.group_choices = Vec::new(), "arrays do not agree"),
            (|it| it.start = vec![0.0, 3.0], "more than the capacity"),
            (|it| it.start = vec![2.0, 0.0], "as many layers"),
            (|it| it.start = vec![4.0, -1.0], "-1.0 in counts"),
        ];
        for (harm, reason) in harms {
            let mut programme = good();
            harm(&mut programme);
            let why = solve(&programme).unwrap_err();
            assert!(why.contains(reason), "{why:?}, not {reason:?}");
        }
    }
}
