//! The real cuDNN, which loads and answers about descriptors without a GPU, through the shim: nothing changes.
//! `UCUDNN_TEST_REAL_CUDNN` names the folder of its `libcudnn.so.9`.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::child::is_child;
use crate::programs::{Folder, compile, library, real_cudnn, run, source};
use cudnn::library as loaded;
use cudnn_abi::symbols::Symbol;

/// Compiles `tests/c/descriptors.c` against `linked`; references to the real library carry that library's versions.
fn program(folder: &Folder, linked: &Path) -> PathBuf {
    let program = folder.join("descriptors");
    let header = Path::new(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/hostdnn/include"));
    compile(&program, [header, &source("descriptors.c"), linked]);
    program
}

/// `folders`, then the search path of the tests, which may lead to cuBLAS.
fn search_path(folders: &[&Path]) -> OsString {
    let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited = std::env::split_paths(&inherited).collect::<Vec<_>>();
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    std::env::join_paths(folders.chain(inherited)).unwrap()
}

/// The program's output with the real library alone.
fn plain(folder: &Folder, real: &Path) -> String {
    let program = program(folder, &real.join("libcudnn.so.9"));
    let outcome = run(&program, &[], &[("LD_LIBRARY_PATH", &search_path(&[real]))]);
    let stdout = &outcome.stdout;
    assert!(stdout.starts_with("version 9"), "{stdout}");
    assert!(stdout.contains("groups 2, output 5 9 9 11"), "{stdout}");
    assert!(stdout.contains("4: 5 6 27 27"), "{stdout}");
    outcome.stdout
}

#[test]
fn preloaded_answers_as_alone() {
    let Some(real) = real_cudnn() else { return };
    let folder = Folder::new("real-preloaded");
    let plain = plain(&folder, &real);
    let search = search_path(&[&real]);
    let program = folder.join("descriptors");
    let variables =
        [("LD_PRELOAD", library().into_os_string()), ("LD_LIBRARY_PATH", search), ("UCUDNN_LOG", "info".into())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_os_str()));
    let outcome = run(&program, &[], &variables);
    assert_eq!(outcome.stdout, plain);
    // The shim answered.
    let found = format!("the real cuDNN is {}", real.join("libcudnn.so.9").display());
    assert!(outcome.stderr.contains(&found), "{}", outcome.stderr);
}

#[test]
fn linked_answers_as_alone() {
    let Some(real) = real_cudnn() else { return };
    let folder = Folder::new("real-linked");
    let plain = plain(&folder, &real);
    let program = program(&folder, &library());
    let search = search_path(&[library().parent().unwrap()]);
    let named = real.join("libcudnn.so.9");
    let variables = [("LD_LIBRARY_PATH", search.as_os_str()), ("UCUDNN_CUDNN_LIBRARY", named.as_os_str())];
    let outcome = run(&program, &[], &variables);
    assert_eq!(outcome.stdout, plain);
    assert_eq!(outcome.stderr, "");
}

/// For programs that open cuDNN by name, as JAX does: a folder where that name leads to libucudnn.so.
#[test]
fn opened_by_name_is_found_behind_us() {
    let Some(real) = real_cudnn() else { return };
    let folder = Folder::new("real-opened");
    let program = folder.join("calls");
    compile(&program, [OsStr::new("-DDLOPEN"), source("calls.c").as_os_str()]);
    let disguise = folder.join("disguise/libcudnn.so.9");
    symlink(library(), &disguise).unwrap();
    let search = search_path(&[disguise.parent().unwrap(), &real]);
    let outcome = run(&program, &[], &[("LD_LIBRARY_PATH", &search)]);
    assert_eq!(Path::new(outcome.line("from")), disguise);
    assert!(outcome.line("version").starts_with('9'), "{}", outcome.stdout);
    assert_eq!(outcome.line("text"), "CUDNN_STATUS_SUCCESS");
}

/// The first version that has a function: 92200 for 9.22.
fn since(symbol: Symbol) -> usize {
    let minor = symbol.since().strip_prefix("9.").unwrap();
    90_000 + 100 * minor.parse::<usize>().unwrap()
}

/// On the crate itself: the real library is loaded, so that the crate finds it.
#[test]
fn every_function_is_the_real_one() {
    let Some(real) = real_cudnn() else { return };
    if !is_child("real_library::every_function_is_the_real_one", &[]) {
        return;
    }
    let file = real.join("libcudnn.so.9");
    // SAFETY: this is the real cuDNN, whose constructors need nothing of the process.
    let direct = unsafe { libloading::Library::new(&file) }.unwrap();
    assert_eq!(loaded::path().map(|path| path.canonicalize().unwrap()), file.canonicalize().ok());
    assert!(!loaded::is_host());
    assert_eq!(loaded::older_major(), None);
    // SAFETY: cuDNN declares `cudnnGetVersion` with this type.
    let version = unsafe { loaded::function::<extern "C" fn() -> usize>(Symbol::cudnnGetVersion) }.unwrap()();
    for &symbol in Symbol::ALL {
        // SAFETY: the symbol is never dereferenced: only its address is read.
        let expected = unsafe { direct.get::<*mut ()>(symbol.name().to_bytes_with_nul()) };
        let expected = expected.ok().map(|address| *address);
        let found = loaded::address(symbol).map(|address| address.as_ptr().cast());
        assert_eq!(found, expected, "{symbol:?}");
        assert_eq!(found.is_some(), since(symbol) <= version, "{symbol:?} in {version}");
    }
}
