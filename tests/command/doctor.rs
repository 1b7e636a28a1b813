//! `ucudnn doctor` on hostdnn: the parts that the library would use, and whether a program reaches it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Ended, Installed, NETWORK, filled};
use crate::hostdnn::{Build, Program};
use crate::programs::compile;
use guest::testing::skip;

/// The line of a part.
fn part<'a>(ended: &'a Ended, name: &str) -> &'a str {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{}\n{}", ended.stdout, ended.stderr)).trim()
}

fn doctor(ucudnn: &Installed, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let cudnn = ucudnn.path("cudnn").to_str().unwrap().to_owned();
    ucudnn.end(&[&["doctor"], arguments].concat(), &[&[("LD_LIBRARY_PATH", cudnn.as_str())], variables].concat())
}

/// A program that is linked with cuDNN, and not with libucudnn.so.
pub fn program() -> Program {
    let options = ["-Wl,-z,lazy"];
    Program::build("doctor", Build { sources: &["doctor.c"], options: &options, ..Build::default() })
}

#[test]
fn each_part_is_named() {
    let ucudnn = Installed::new("doctor");
    let ended = doctor(&ucudnn, &[], &[]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{}", ended.stdout);
    assert!(part(&ended, "libucudnn.so").contains(&format!("libucudnn.so, version {}", env!("CARGO_PKG_VERSION"))));
    let cudnn = part(&ended, "cuDNN");
    assert!(cudnn.starts_with(ucudnn.path("cudnn/libcudnn.so.9").to_str().unwrap()), "{cudnn}");
    assert!(cudnn.contains(", version 9") && cudnn.contains("(hostdnn "), "{cudnn}");
    assert!(part(&ended, "GPU").starts_with("none: hostdnn computes on 0: "), "{}", ended.stdout);
    assert!(part(&ended, "driver").starts_with("none") && part(&ended, "NVRTC").starts_with("none"));
    assert!(part(&ended, "solver").ends_with("libucudnn_solver.so"), "{}", ended.stdout);
    assert_eq!(part(&ended, "settings"), "none: the defaults hold");
    let database = part(&ended, "database");
    assert!(database.contains("home/.cache/ucudnn/tuning.sqlite: not there yet"), "{database}");
    assert!(!ucudnn.path("bin").with_file_name("home").exists(), "a folder was made");
    assert!(
        ended
            .stdout
            .ends_with("\nNext: ucudnn doctor -- PROGRAM, which says whether the program's calls reach the library.\n")
    );

    filled(&ucudnn.path("t.sqlite"), &NETWORK);
    let ended = doctor(&ucudnn, &[], &[("UCUDNN_DATABASE", "t.sqlite"), ("UCUDNN_LOG", "debug")]);
    let found = format!("{}: 72 results", ucudnn.path("t.sqlite").display());
    assert_eq!((part(&ended, "database"), &*ended.stderr), (&*found, ""));
    assert!(ended.stdout.contains("UCUDNN_DATABASE=t.sqlite\n") && ended.stdout.contains("UCUDNN_LOG=debug\n"));
    let ended = doctor(&ucudnn, &[], &[("UCUDNN_DATABASE", "off"), ("UCUDNN_TUNE_SECOND", "1"), ("UCUDNN_RNN", "x")]);
    assert!(part(&ended, "database").starts_with("off") && ended.code == Some(0));
    assert!(ended.stdout.contains("UCUDNN_TUNE_SECOND is not a setting, and is ignored. Is UCUDNN_TUNE_SECONDS"));
    assert!(ended.stdout.contains("UCUDNN_RNN=\"x\" is not understood"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_used_is_a_failure_with_its_reason() {
    let ucudnn = Installed::new("doctor-broken");
    ucudnn.file("none.sqlite", &"no database ".repeat(100));
    let ended = doctor(&ucudnn, &[], &[("UCUDNN_DATABASE", "none.sqlite")]);
    assert_eq!((ended.code, &*ended.stderr), (Some(1), "ucudnn: not usable: database\n"), "{}", ended.stdout);
    assert!(part(&ended, "database").contains("none.sqlite"), "{}", ended.stdout);

    // The library does without its solver.
    std::fs::remove_file(ucudnn.path("lib/libucudnn_solver.so")).unwrap();
    let total = [("UCUDNN_TOTAL_WORKSPACE_SIZE", "1GiB")];
    let ended = doctor(&ucudnn, &[], &total);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = doctor(&ucudnn, &["--library", "lib/none.so"], &total);
    assert_eq!(ended.stderr, "ucudnn: not usable: libucudnn.so\n");
    assert!(ended.stdout.contains("(without it, Workspace Division of very large networks"), "{}", ended.stdout);

    let ended = ucudnn.end(&["doctor", "--library", "lib/libucudnn.so"], &[]);
    if ended.code == Some(0) {
        return skip("the loader finds a cuDNN");
    }
    assert!(part(&ended, "cuDNN").starts_with("none was found. Tried:"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nNext: name the program's cuDNN 9 in UCUDNN_CUDNN_LIBRARY"), "{}", ended.stdout);
    assert!(ended.stdout.contains("libcudnn.so.9 (the loader's search path): "), "{}", ended.stdout);
    assert!(ended.stderr.starts_with("ucudnn: not usable: cuDNN"), "{}", ended.stderr);
}

#[test]
fn a_linked_program_s_functions_are_counted() {
    let (ucudnn, program) = (Installed::new("doctor-linked"), program());
    let path = program.file("doctor");
    let ended = doctor(&ucudnn, &["--", path.to_str().unwrap(), "linked"], &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("doctor ended with status 0.\n2 functions of cuDNN were bound to libucudnn.so.\n"));
    assert!(!ended.stdout.contains("past it"), "{}", ended.stdout);
    let real = ucudnn.path("cudnn/libcudnn.so.9");
    assert!(
        ended.stdout.contains(&format!("The cuDNN behind libucudnn.so was {}", real.display())),
        "{}",
        ended.stdout
    );

    // The program gets the variables of whoever started the doctor.
    let ended = doctor(&ucudnn, &["--", "env"], &[("UCUDNN_LOG", "info")]);
    assert!(ended.stderr.contains("\nUCUDNN_LOG=info\n") && !ended.stderr.contains("VIRTUAL_ENV"), "{}", ended.stderr);
    assert!(!doctor(&ucudnn, &["--", "env"], &[]).stderr.contains("UCUDNN_LOG"));

    // The program's own end says nothing about the library.
    let ended = doctor(&ucudnn, &["--", path.to_str().unwrap(), "fail"], &[]);
    assert!(ended.stdout.contains("doctor ended with status 3.\n"), "{}", ended.stdout);
    // A program that runs on is ended.
    let ended = doctor(&ucudnn, &["--seconds", "1", "--", path.to_str().unwrap(), "sleep"], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("doctor was ended after 1 s.\n2 functions"), "{}", ended.stdout);
}

#[test]
fn functions_that_pass_the_library_by_are_named() {
    let (ucudnn, program) = (Installed::new("doctor-past"), program());
    let path = program.file("doctor");
    let arguments = ["--", path.to_str().unwrap(), "dlopen"];
    let ended = doctor(&ucudnn, &arguments, &[]);
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 function of cuDNN was bound past it, to "), "{}", ended.stdout);
    assert!(ended.stdout.contains(": cudnnGetVersion.\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Try --dlopen"), "{}", ended.stdout);
    assert!(ended.stderr.contains("version 9") && ended.stderr.ends_with("ucudnn: not usable: the program\n"));
    let ended = doctor(&ucudnn, &[&["--dlopen"], &arguments[..]].concat(), &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("\n1 function of cuDNN was bound to libucudnn.so.\n"), "{}", ended.stdout);
}

#[test]
fn a_program_without_cudnn_is_told() {
    let ucudnn = Installed::new("doctor-without");
    let ended = doctor(&ucudnn, &["true"], &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("cuDNN was never called through the linker: try --dlopen"), "{}", ended.stdout);
    let ended = doctor(&ucudnn, &["--dlopen", "true"], &[]);
    assert!(ended.stdout.contains("nor by its name") && ended.code == Some(1), "{}", ended.stdout);
    let file: PathBuf = ucudnn.file("static.c", "int main(void) { return 0; }\n");
    let program = ucudnn.path("static");
    compile(&program, ["-static".into(), file]);
    let ended = doctor(&ucudnn, &[program.to_str().unwrap()], &[]);
    assert!(ended.stdout.contains("The loader reported nothing"), "{}", ended.stdout);
    let ended = doctor(&ucudnn, &["./none"], &[]);
    assert!(ended.code == Some(127) && ended.stderr.contains("./none"), "{}", ended.stderr);
    assert_eq!(doctor(&ucudnn, &["--dlopen"], &[]).code, Some(2));
}

/// A library with libtorch's name and functions that do nothing: all that the library needs, or all but one.
#[test]
fn pytorch_s_operators_are_in_the_verdict() {
    let (ucudnn, program) = (Installed::new("doctor-torch"), program());
    let kernels = [
        "_ZN2at3cpu17native_batch_normERKNS_6TensorERKSt8optionalIS1_ES7_S7_S7_bdd",
        "_ZN2at3cpu26native_batch_norm_backwardERKNS_6TensorES3_RKSt8optionalIS1_ES7_S7_S7_S7_bdSt5arrayIbLm3EE",
        "_Znwm",
        "_ZdlPv",
    ];
    let names: Vec<_> = torch::NEEDED.iter().map(|name| name.to_str().unwrap()).chain(kernels).collect();
    let verdict = |names: &[&str], variables: &[(&str, &str)]| {
        let functions: String = names.iter().map(|name| format!("long {name}(void) {{ return 0; }}\n")).collect();
        // libtorch takes functions of its own, too.
        let own = "long own(void) { return aoti_torch_abi_version(); }\n";
        let source = ucudnn.file("torch.c", &(functions + own));
        let libtorch = ucudnn.path("libtorch_cpu.so");
        let options = ["-w", "-shared", "-fPIC", "-fno-builtin", "-Wl,-z,now", "-O0"];
        compile(&libtorch, options.map(Into::into).into_iter().chain([source]));
        // Loaded before the program begins, as a program that is linked with it has it.
        let path = program.file("doctor");
        let preload = format!("LD_PRELOAD={}:{}", ucudnn.path("lib/libucudnn.so").display(), libtorch.display());
        let ended = doctor(&ucudnn, &["--", "env", &preload, path.to_str().unwrap(), "handle"], variables);
        assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
        let line = ended.stdout.lines().find(|line| line.starts_with("PyTorch's own operators"));
        line.unwrap_or_else(|| panic!("{}", ended.stdout)).to_owned()
    };
    let force = [("UCUDNN_TORCH", "force")];
    assert!(verdict(&names, &force).contains("can run on our kernels: its libtorch_cpu.so has all functions"));
    assert!(verdict(&names, &[]).contains("the library did not look for libtorch's functions"));
    let without: Vec<_> = names.iter().copied().filter(|name| *name != "torch_list_size").collect();
    assert!(verdict(&without, &force).contains("its libtorch has no torch_list_size."));
}

/// The doctor finds no cuDNN, but the program has its own beside it, as an interpreter of another environment may.
#[test]
fn a_program_s_own_cudnn_counts() {
    let (ucudnn, program) = (Installed::new("doctor-own"), program());
    if ucudnn.end(&["doctor"], &[]).code == Some(0) {
        return skip("the loader finds a cuDNN");
    }
    let path = program.file("doctor");
    let search = format!("LD_LIBRARY_PATH={}", path.parent().unwrap().display());
    let ended = ucudnn.end(&["doctor", "--", "env", &search, path.to_str().unwrap(), "linked"], &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(part(&ended, "cuDNN").contains("/libcudnn.so.9, version 9"), "{}", ended.stdout);
    let next = "\nNext: ucudnn run --report run.jsonl PROGRAM, and then ucudnn report run.jsonl.\n";
    assert!(ended.stdout.ends_with(next), "{}", ended.stdout);
}

/// Ctrl-C reaches the doctor alone. It asks the program to end, and kills it at the second Ctrl-C.
#[test]
fn ctrl_c_ends_the_program_too() {
    let ucudnn = Installed::new("doctor-interrupted");
    let tmp = ucudnn.path("tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let wait_for = |doctor: &mut Child, file: &str| {
        let deadline = Instant::now() + Duration::from_secs(100);
        loop {
            if let Ok(text) = std::fs::read_to_string(ucudnn.path(file)) {
                return text;
            }
            assert!(Instant::now() < deadline && doctor.try_wait().unwrap().is_none(), "there is no {file}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for (name, then) in [("willing", "exec sleep 60"), ("unwilling", "while :; do sleep 0.1; done")] {
        let script = format!("trap 'echo > asked' TERM; echo $$ > new; mv new {name}; {then}");
        let mut doctor = ucudnn.command(&["doctor", "--", "sh", "-c", &script], &[("TMPDIR", tmp.to_str().unwrap())]);
        let mut doctor = doctor.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let program: i32 = wait_for(&mut doctor, name).trim().parse().unwrap();
        // SAFETY: `kill` touches no memory. The doctor has not been waited for, so its number is still its own.
        let interrupt = |doctor: &Child| unsafe { libc::kill(doctor.id() as i32, libc::SIGINT) };
        interrupt(&doctor);
        if name == "unwilling" {
            wait_for(&mut doctor, "asked");
            interrupt(&doctor);
        }
        assert_eq!(doctor.wait().unwrap().signal(), Some(libc::SIGINT));
        // SAFETY: as above. The program leads its group.
        let lives = unsafe { libc::kill(program, 0) == 0 && libc::kill(-program, libc::SIGKILL) == 0 };
        assert!(!lives, "the {name} program ran on");
        assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0, "a file is left");
    }
}

/// The loader writes its report by path, so others must not be able to exchange a folder of it.
#[test]
fn a_report_does_not_go_where_others_can_exchange_it() {
    let ucudnn = Installed::new("doctor-shared");
    let tmp = ucudnn.path("tmp/x").parent().unwrap().canonicalize().unwrap();
    std::fs::set_permissions(&tmp, Permissions::from_mode(0o777)).unwrap();
    let end = || {
        doctor(&ucudnn, &["--", "touch", ucudnn.path("ran").to_str().unwrap()], &[("TMPDIR", tmp.to_str().unwrap())])
    };
    let ended = end();
    let why = format!("other users can write to {} (mode 777)", tmp.display());
    assert!(
        ended.code == Some(1) && ended.stderr.contains(&why) && ended.stderr.contains("TMPDIR"),
        "{}",
        ended.stderr
    );
    assert!(!ucudnn.path("ran").exists() && std::fs::read_dir(&tmp).unwrap().count() == 0);
    std::fs::set_permissions(&tmp, Permissions::from_mode(0o1777)).unwrap();
    end();
    assert!(ucudnn.path("ran").exists());
}
