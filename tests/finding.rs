//! The library that the shim forwards to, in each way that a process may get a cuDNN, and a program's view when there
//! is none. The candidates are `tests/c/fake_cudnn.c`, and differ in the versions that they report.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{Folder, Outcome, compile, library, run, source};
use guest::testing::skip;

const NOT_INITIALIZED: &str = "1001";
const NOT_SUPPORTED: &str = "3000";

/// Makes a fake cuDNN of this version at `path` with this soname.
fn fake(path: &Path, soname: &str, version: u32) {
    let options = ["-shared".into(), "-fPIC".into(), format!("-Wl,-soname,{soname}"), format!("-DVERSION={version}")];
    compile(path, options.map(OsString::from).into_iter().chain([source("fake_cudnn.c").into()]));
}

/// Compiles `tests/c/calls.c` to `path`, linked with `linked` if any.
fn caller(path: &Path, linked: Option<&Path>) {
    let options = match linked {
        Some(linked) => vec!["-Wl,--no-as-needed".into(), linked.into()],
        None => vec![OsString::from("-DDLOPEN")],
    };
    compile(path, options.into_iter().chain([source("calls.c").into()]));
}

/// A folder where libcudnn.so.9 is libucudnn.so, as for programs that open cuDNN by name.
fn disguise(folder: &Folder) -> PathBuf {
    let file = folder.join("disguise/libcudnn.so.9");
    symlink(library(), &file).unwrap();
    file.parent().unwrap().to_owned()
}

fn paths<const N: usize>(folders: [&Path; N]) -> OsString {
    std::env::join_paths(folders).unwrap()
}

fn answers(outcome: &Outcome, version: &str, status: &str) {
    assert!(outcome.line("from").contains("libucudnn.so") || outcome.line("from").contains("disguise"));
    assert_eq!(outcome.line("version"), version, "{}", outcome.stderr);
    assert_eq!(outcome.line("version again"), version);
    assert_eq!(outcome.line("status"), status);
    assert_eq!(outcome.line("size"), "0");
    assert_eq!(outcome.line("text"), "ucudnn: the real cuDNN is missing or lacks this function");
    assert_eq!(outcome.line("message"), "ucudnn");
}

/// The number of messages of this level in the program's standard error.
fn messages(outcome: &Outcome, level: &str) -> usize {
    outcome.stderr.lines().filter(|line| line.starts_with('[') && line.contains(level)).count()
}

fn silent(outcome: &Outcome) {
    assert_eq!(outcome.stderr, "");
}

#[test]
fn the_one_that_the_program_was_linked_with() {
    let folder = Folder::new("linked");
    let (real, program) = (folder.join("real/libcudnn.so.9"), folder.join("calls"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, Some(&real));
    let outcome = start(&program, &preloaded(real.parent().unwrap(), None));
    answers(&outcome, "91900", NOT_SUPPORTED);
    silent(&outcome);
}

#[test]
fn the_variable_comes_first() {
    let folder = Folder::new("variable");
    let (loaded, named) = (folder.join("loaded/libcudnn.so.9"), folder.join("named.so"));
    let program = folder.join("calls");
    fake(&loaded, "libcudnn.so.9", 91_900);
    fake(&named, "libcudnn.so.9", 92_000);
    caller(&program, Some(&loaded));
    let outcome = start(&program, &preloaded(loaded.parent().unwrap(), Some(&named)));
    answers(&outcome, "92000", NOT_SUPPORTED);
    silent(&outcome);
}

#[test]
fn the_loader_s_search_path() {
    let folder = Folder::new("searched");
    let (real, program) = (folder.join("real/libcudnn.so.9"), folder.join("calls"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, Some(&library()));
    let search = real.parent().unwrap();
    let variables = [("LD_LIBRARY_PATH", paths([search, library().parent().unwrap()]))];
    let outcome = start(&program, &variables);
    answers(&outcome, "91900", NOT_SUPPORTED);
    silent(&outcome);
}

#[test]
fn a_bad_variable_is_named_once_and_passed_over() {
    let folder = Folder::new("bad-variable");
    let (real, program) = (folder.join("real/libcudnn.so.9"), folder.join("calls"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, Some(&real));
    let not_cudnn = folder.join("empty.so");
    compile(&not_cudnn, ["-shared", "-fPIC", "-x", "c", "/dev/null"]);
    let search = real.parent().unwrap();
    let ours = library();
    let wrong = [
        (Path::new("/nonexistent/libcudnn.so"), "No such file"),
        (not_cudnn.as_path(), "exports no cudnnGetVersion"),
        (ours.as_path(), "is ucudnn itself"),
        (program.as_path(), "dynamically load"),
    ];
    for (value, why) in wrong {
        let outcome = start(&program, &preloaded(search, Some(value)));
        answers(&outcome, "91900", NOT_SUPPORTED);
        assert_eq!(messages(&outcome, "WARN"), 1, "{}", outcome.stderr);
        let warning = &outcome.stderr;
        assert!(warning.contains("UCUDNN_CUDNN_LIBRARY"), "{warning}");
        assert!(warning.contains(value.to_str().unwrap()) && warning.contains(why), "{warning}");
    }
}

#[test]
fn none_is_one_message_with_every_place() {
    // SAFETY: loads the loader's cuDNN, if any, as the shim would; cuDNN's constructors need nothing of the process.
    if unsafe { libloading::Library::new("libcudnn.so.9") }.is_ok() {
        return skip("the loader finds a cuDNN");
    }
    let folder = Folder::new("none");
    let program = folder.join("calls");
    caller(&program, Some(&library()));
    let own = library().parent().unwrap().as_os_str().to_owned();
    let outcome = start(&program, &[("LD_LIBRARY_PATH", own.clone())]);
    answers(&outcome, "0", NOT_INITIALIZED);
    assert_eq!(messages(&outcome, "ERROR"), 1, "{}", outcome.stderr);
    let message = &outcome.stderr;
    let places = ["already loaded", "search path", "/usr/lib64/libcudnn.so.9", own.to_str().unwrap()];
    for place in places {
        assert!(message.contains(place), "{place} is not in {message}");
    }
}

/// libucudnn.so under cuDNN's name, first in the search path: for programs that open cuDNN by name.
#[test]
fn never_ourselves() {
    let folder = Folder::new("ourselves");
    let (real, program) = (folder.join("real/libcudnn.so.9"), folder.join("calls"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, None);
    let disguise = disguise(&folder);
    let search = paths([&disguise, real.parent().unwrap()]);
    let outcome = start(&program, &[("LD_LIBRARY_PATH", search)]);
    answers(&outcome, "91900", NOT_SUPPORTED);
    silent(&outcome);

    let outcome = start(&program, &[("LD_LIBRARY_PATH", disguise.into_os_string())]);
    answers(&outcome, "0", NOT_INITIALIZED);
    assert!(outcome.stderr.contains("is ucudnn itself"), "{}", outcome.stderr);
}

/// A copy of libucudnn.so is another file and another library, but still ucudnn: two of them must not forward to each
/// other.
#[test]
fn never_a_copy_of_ourselves() {
    let folder = Folder::new("copy");
    let (real, program) = (folder.join("real/libcudnn.so.9"), folder.join("calls"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, None);
    let copy = folder.join("copy/libcudnn.so.9");
    std::fs::copy(library(), &copy).unwrap();
    let search = paths([&disguise(&folder), copy.parent().unwrap(), real.parent().unwrap()]);
    for preload in [library(), copy] {
        let variables = [("LD_PRELOAD", preload.into()), ("LD_LIBRARY_PATH", search.clone())];
        let outcome = start(&program, &variables);
        assert_eq!(outcome.line("version"), "91900");
        silent(&outcome);
    }
}

#[test]
fn an_older_major_in_the_process_keeps_its_calls() {
    let folder = Folder::new("older");
    let (old, newer) = (folder.join("old/libcudnn.so.8"), folder.join("new/libcudnn.so.9"));
    let program = folder.join("calls");
    fake(&old, "libcudnn.so.8", 8_907);
    fake(&newer, "libcudnn.so.9", 91_900);
    caller(&program, Some(&old));
    let search = paths([old.parent().unwrap(), newer.parent().unwrap()]);
    let outcome = start(&program, &preloaded(search, None));
    answers(&outcome, "8907", NOT_SUPPORTED);
    assert_eq!(messages(&outcome, "WARN"), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cuDNN 8907, older than 9"), "{}", outcome.stderr);
}

/// In a virtual environment, beside the program's path as it was started, or in the folder that a variable names.
#[test]
fn the_process_s_python_packages() {
    let folder = Folder::new("packages");
    let real = folder.join("venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    fake(&real, "libcudnn.so.9", 91_900);
    let program = folder.join("system/calls");
    caller(&program, Some(&library()));
    let link = folder.join("venv/bin/calls");
    symlink(&program, &link).unwrap();
    let own = library().parent().unwrap().as_os_str().to_owned();
    let venv = folder.join("venv").into_os_string();
    let packages = folder.join("venv/lib/python3.11/site-packages").into_os_string();
    let ways: [(&Path, &[(&str, OsString)]); 3] =
        [(&program, &[("VIRTUAL_ENV", venv)]), (&program, &[("PYTHONPATH", packages)]), (&link, &[])];
    for (program, variables) in ways {
        let variables = [variables, &[("LD_LIBRARY_PATH", own.clone())]].concat();
        let outcome = start(program, &variables);
        answers(&outcome, "91900", NOT_SUPPORTED);
        silent(&outcome);
    }
}

/// Whoever can write to the folder could make the program run their code.
#[test]
fn packages_that_others_can_change_are_passed_over() {
    let folder = Folder::new("shared-packages");
    let real = folder.join("lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    fake(&real, "libcudnn.so.9", 91_900);
    let program = folder.join("bin/calls");
    caller(&program, Some(&library()));
    let shared = folder.join("lib");
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    // The sticky folder is safe as long as the user owns the files in it.
    let search = || ("LD_LIBRARY_PATH", library().parent().unwrap().as_os_str().to_owned());
    answers(&start(&program, &[search()]), "91900", NOT_SUPPORTED);

    std::fs::set_permissions(&shared, Permissions::from_mode(0o757)).unwrap();
    let outcome = start(&program, &[search()]);
    answers(&outcome, "0", NOT_INITIALIZED);
    assert_eq!(messages(&outcome, "WARN"), 1, "{}", outcome.stderr);
    let why = format!("other users can write to {} (mode 757)", shared.display());
    assert!(outcome.stderr.contains(&why), "{}", outcome.stderr);

    // The user's word counts, with a warning.
    let outcome = start(&program, &[search(), ("UCUDNN_CUDNN_LIBRARY", real.into_os_string())]);
    answers(&outcome, "91900", NOT_SUPPORTED);
    assert_eq!(messages(&outcome, "WARN"), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is used, but is not safe: ") && outcome.stderr.contains(&why));
}

/// A sticky folder, in which another user has made a folder of Python's packages beside the program, and a file by the
/// name that the process's list of libraries has for the kernel's own.
#[test]
fn names_in_the_working_directory_make_nobody_trusted() {
    let folder = Folder::new("planted");
    let real = folder.join("lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    fake(&real, "libcudnn.so.9", 91_900);
    let program = folder.join("bin/calls");
    caller(&program, Some(&library()));
    let name = folder.join("linux-vdso.so.1");
    std::fs::write(&name, "").unwrap();
    let shared = folder.join("lib").parent().unwrap().to_owned();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let theirs = real.ancestors().take_while(|path| *path != shared).chain([name.as_path()]);
    for path in theirs {
        if std::os::unix::fs::chown(path, Some(65534), None).is_err() {
            return skip("only root makes files of another user");
        }
    }
    let outcome = start_in(&shared, &program, &[("LD_LIBRARY_PATH", library().parent().unwrap().into())]);
    answers(&outcome, "0", NOT_INITIALIZED);
    let why = format!("is not safe: another user (number 65534) owns {}", shared.join("lib").display());
    assert!(outcome.stderr.contains(&why), "{}", outcome.stderr);
}

/// The program may have changed its folder since it got the path.
#[test]
fn relative_paths_to_packages_do_not_count() {
    let folder = Folder::new("relative-packages");
    fake(&folder.join("venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9"), "libcudnn.so.9", 91_900);
    let program = folder.join("system/calls");
    caller(&program, Some(&library()));
    let venv = folder.join("venv");
    let working = venv.parent().unwrap();
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"] {
        let told = |venv: &Path| {
            let search = ("LD_LIBRARY_PATH", library().parent().unwrap().into());
            start_in(working, &program, &[search, (name, venv.into())])
        };
        answers(&told(&venv), "91900", NOT_SUPPORTED);
        answers(&told(Path::new("venv")), "0", NOT_INITIALIZED);
    }
}

/// Opening such a file would wait for a writer for ever.
#[test]
fn a_pipe_is_no_cudnn() {
    let folder = Folder::new("pipe");
    let (real, program, pipe) = (folder.join("real/libcudnn.so.9"), folder.join("calls"), folder.join("pipe.so"));
    fake(&real, "libcudnn.so.9", 91_900);
    caller(&program, Some(&real));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let outcome = start(&program, &preloaded(real.parent().unwrap(), Some(&pipe)));
    answers(&outcome, "91900", NOT_SUPPORTED);
    assert!(outcome.stderr.contains("not a regular file"), "{}", outcome.stderr);
}

/// A setuid program takes no orders from its user's environment, and touches none of the user's files.
#[test]
fn a_setuid_program_is_served_by_cudnn_alone() {
    let folder = Folder::new("setuid");
    let (real, other) = (folder.join("real/libcudnn.so.9"), folder.join("other.so"));
    fake(&real, "libcudnn.so.9", 91_900);
    fake(&other, "libcudnn.so.9", 92_000);
    let program = folder.join("calls");
    let search = paths([real.parent().unwrap(), library().parent().unwrap()]);
    // With the older kind of search path, which libraries that the program loads later share.
    let mut options: Vec<OsString> = vec!["-Wl,--no-as-needed,--disable-new-dtags".into(), library().into()];
    options.extend(["-Xlinker".into(), "-rpath".into(), "-Xlinker".into(), search, source("calls.c").into()]);
    compile(&program, options);
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        return skip("only root makes a program of another user");
    }
    std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let report = folder.join("report.jsonl");
    let variables = [
        ("UCUDNN_CUDNN_LIBRARY", other.into_os_string()),
        ("UCUDNN_REPORT", report.clone().into_os_string()),
        ("UCUDNN_LOG", "trace".into()),
        ("UCUDNN_NONSENSE", "1".into()),
        ("XDG_CACHE_HOME", folder.join("cache").into_os_string()),
    ];
    let outcome = start(&program, &variables);
    if outcome.line("version") == "92000" {
        return skip("this file system knows no setuid programs");
    }
    answers(&outcome, "91900", NOT_SUPPORTED);
    silent(&outcome);
    assert!(!report.exists() && !folder.join("cache").exists());
}

/// The variables of a program with libucudnn.so preloaded, with the loader's search path and the cuDNN that the user
/// names, if any.
fn preloaded(search: impl Into<OsString>, named: Option<&Path>) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![("LD_PRELOAD", library().into_os_string()), ("LD_LIBRARY_PATH", search.into())];
    variables.extend(named.map(|named| ("UCUDNN_CUDNN_LIBRARY", named.into())));
    variables
}

fn start(program: &Path, variables: &[(&str, OsString)]) -> Outcome {
    started(program, &[], variables)
}

/// Starts a program that goes to this folder before its first call.
fn start_in(folder: &Path, program: &Path, variables: &[(&str, OsString)]) -> Outcome {
    started(program, &[folder.to_str().unwrap()], variables)
}

fn started(program: &Path, arguments: &[&str], variables: &[(&str, OsString)]) -> Outcome {
    let variables: Vec<(&str, &OsStr)> = variables.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    run(program, arguments, &variables)
}
