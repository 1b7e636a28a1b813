//! Little memory: if it is enough for cuDNN alone, the library leaves cuDNN enough.

use std::os::unix::process::CommandExt;

use crate::hostdnn::{Build, Program};

/// Checks that plans of the graph API are executed rightly within this many MiB of address space.
///
/// On one thread of hostdnn and at fixed addresses, so that each run takes the same memory.
fn passes(program: &Program, mebibytes: u64, variables: &[(&str, &str)]) -> Result<(), String> {
    let variables: Vec<_> = variables.iter().copied().chain([("RAYON_NUM_THREADS", "1")]).collect();
    let mut command = program.command(&["elsewhere", "10"], &variables, true);
    let limit = libc::rlimit { rlim_cur: mebibytes << 20, rlim_max: mebibytes << 20 };
    let bound = move || {
        // SAFETY: all three only tell the kernel about this process, and the limits outlive the calls.
        let is_bound = unsafe {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) >= 0
                && libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) == 0
                && libc::setrlimit(libc::RLIMIT_AS, &raw const limit) == 0
        };
        if is_bound { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec, the function makes system calls alone.
    let ended = unsafe { command.pre_exec(bound) }.output().unwrap();
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr))),
    }
}

/// A failed allocation would end the process. With `off`, all calls go to cuDNN: so the comparison shows our
/// allocations, without our code.
#[test]
fn nothing_is_begun_that_might_not_fit() {
    const OFF: [(&str, &str); 3] = [("UCUDNN_POLICY", "off"), ("UCUDNN_RNN", "off"), ("UCUDNN_NORM", "off")];
    // In MiB. Enumerating candidates takes some MiB beyond the least that is enough.
    let (mut too_few, mut enough) = (16, 256);
    let program = Program::build(
        "graph_promises",
        Build { sources: &["graph_promises.c", "graph.c", "kernel.c"], ..Build::default() },
    );
    passes(&program, enough, &OFF).unwrap();
    while enough - too_few > 2 {
        let between = (too_few + enough) / 2;
        match passes(&program, between, &OFF) {
            Ok(()) => enough = between,
            Err(_) => too_few = between,
        }
    }
    for more in [2, 4, 6] {
        if let Err(why) = passes(&program, enough + more, &[]) {
            let off = passes(&program, enough + more, &OFF);
            panic!("{} MiB are enough for cuDNN alone ({off:?}), and not with us: {why}", enough + more);
        }
    }
}
