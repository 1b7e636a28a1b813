//! Runs a test of our kernels on the CPU, under hostdnn's emulator and adversarial schedules.

use std::ffi::c_void;
use std::process::{Command, Stdio};
use std::ptr::NonNull;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use guest::testing::skip;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use crate::host;

const CHILD: &str = "UCUDNN_TEST_CHILD";

static LAUNCHES: AtomicUsize = AtomicUsize::new(0);

/// The kernels that this process has launched on the host so far.
pub fn launches() -> usize {
    LAUNCHES.load(Ordering::Relaxed)
}

pub(crate) fn count_launch() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// Runs the named test in child processes whose cuDNN is hostdnn, one for each schedule. Returns true in a child, where
/// the test should go on, and false in the parent.
pub fn is_child(test: &str) -> bool {
    is_child_with(test, &[])
}

/// Likewise with variables of the environment.
pub fn is_child_with(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        provide_hostdnn();
        return true;
    }
    let binary = std::env::current_exe().unwrap();
    let begin = |seed: &Option<&str>| {
        let mut command = Command::new(&binary);
        command.args(["--exact", test, "--include-ignored", "--nocapture"]).env_clear();
        command.env(CHILD, "1").env("UCUDNN_CUDNN_LIBRARY", binary.with_file_name("libhostdnn.so"));
        command.envs(seed.map(|seed| ("HOSTDNN_SCHEDULE_SEED", seed))).envs(variables.iter().copied());
        let passed_on = ["HOSTDNN_CXX", "HOSTDNN_KERNEL_CACHE"];
        command.envs(passed_on.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The first child compiles the kernels; the others run at the same time.
    for seeds in [&[None][..], &[Some("1"), Some("2")]] {
        let children: Vec<_> = seeds.iter().map(begin).collect();
        for (seed, child) in seeds.iter().zip(children) {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "seed {seed:?}: {text}");
            if let Some(line) = text.lines().find(|line| line.contains("SKIPPED")) {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
    false
}

/// Loads hostdnn from the file that `UCUDNN_CUDNN_LIBRARY` names, unless `cudnn` has.
pub(crate) fn provide_hostdnn() {
    static HOSTDNN: LazyLock<Library> = LazyLock::new(|| {
        let path = std::env::var_os("UCUDNN_CUDNN_LIBRARY").expect("hostdnn's file");
        // SAFETY: hostdnn's constructors do nothing but set up Rust's runtime.
        unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.expect("hostdnn loads")
    });
    host::provide(|name| {
        // SAFETY: only the address is taken; whoever calls the function vouches for its type.
        let symbol = unsafe { HOSTDNN.get::<*mut c_void>(name.to_bytes_with_nul()) };
        NonNull::new(*symbol.ok()?)
    });
    assert!(host::address_of(c"hostdnnGetVersion").is_some(), "the library is hostdnn");
}

/// The compiled kernels. `None`, with a skip message, on a machine without a compiler for them.
pub fn compiled<T>(kernels: Result<T, String>) -> Option<T> {
    match kernels {
        Err(why) if why.contains("only where there is a C++ compiler") => {
            skip(&why);
            None
        }
        kernels => Some(kernels.unwrap()),
    }
}
