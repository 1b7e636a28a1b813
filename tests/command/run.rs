//! `ucudnn run`: programs start unchanged, with the library in front of their cuDNN.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use super::{Ended, Installed, has_terminals};
use crate::graph;
use crate::programs::{Folder, compile, library, source};
use guest::settings::{SUMMARY, SWITCH, VARIABLES};
use guest::testing::skip;

/// The program's environment, as `env` prints it.
fn environment(ended: &Ended) -> Vec<(&str, &str)> {
    ended.stdout.lines().filter_map(|line| line.split_once('=')).collect()
}

fn value<'a>(ended: &'a Ended, name: &str) -> Option<&'a str> {
    environment(ended).into_iter().find(|(set, _)| *set == name).map(|(_, value)| value)
}

#[test]
fn the_library_is_found_where_it_is_installed_and_preloaded() {
    let ucudnn = Installed::new("installed");
    let ended = ucudnn.end(&["run", "env"], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(value(&ended, "LD_PRELOAD"), Some(library().canonicalize().unwrap().to_str().unwrap()));
    assert_eq!(value(&ended, "LD_LIBRARY_PATH"), None);

    let ended = ucudnn.end(&["run", "env"], &[("LD_PRELOAD", "libm.so.6")]);
    assert!(value(&ended, "LD_PRELOAD").unwrap().ends_with("libucudnn.so:libm.so.6"), "{}", ended.stdout);
}

/// A valid value of each variable. A new variable needs one here.
fn example(name: &str) -> &'static str {
    match name {
        "UCUDNN_POLICY" => "wr",
        "UCUDNN_BATCH_SIZE_POLICY" => "all",
        "UCUDNN_WORKSPACE_LIMIT" | "UCUDNN_DEFAULT_WORKSPACE_LIMIT" => "64MiB",
        "UCUDNN_TOTAL_WORKSPACE_SIZE" | "UCUDNN_TUNE_BYTES" => "1GiB",
        "UCUDNN_TUNE_SECONDS" => "2.5",
        "UCUDNN_DATABASE" => "off",
        "UCUDNN_SEED_DATABASE" | "UCUDNN_CUDNN_LIBRARY" => "/bin/sh",
        "UCUDNN_REPORT" => "/dev/null",
        "UCUDNN_EXPLORE" => "7%",
        "UCUDNN_BENCHMARK_DEVICES" => "0,1",
        "UCUDNN_NUMERICS" => "deterministic",
        "UCUDNN_CHECK" => "1",
        "UCUDNN_RNN" => "force",
        "UCUDNN_RNN_TRAINING" => "force",
        "UCUDNN_RNN_TOP_K" => "3",
        "UCUDNN_NORM" | "UCUDNN_TORCH" => "force",
        "UCUDNN_DYNAMIC" => "batched",
        "UCUDNN_LOG" => "info",
        _ => panic!("{name} is new: give a value that it takes"),
    }
}

#[test]
fn every_variable_has_an_option_that_sets_it() {
    let ucudnn = Installed::new("options");
    let option = |name: &str| format!("--{}", name.trim_start_matches("UCUDNN_").to_lowercase().replace('_', "-"));
    let others = [SWITCH, SUMMARY];
    let variables: Vec<_> = VARIABLES.iter().filter(|variable| !others.contains(&variable.name)).collect();
    let options: Vec<_> =
        variables.iter().map(|variable| format!("{}={}", option(variable.name), example(variable.name))).collect();
    let mut arguments = vec!["run"];
    arguments.extend(options.iter().map(String::as_str));
    arguments.push("env");
    let ended = ucudnn.end(&arguments, &[("UCUDNN_LOG", "debug")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for variable in &variables {
        assert_eq!(value(&ended, variable.name), Some(example(variable.name)), "{}", variable.name);
    }
    // No other variable is set without its option.
    let ended = ucudnn.end(&["run", "env"], &[]);
    let set: Vec<_> = environment(&ended).into_iter().filter(|(name, _)| name.starts_with("UCUDNN")).collect();
    assert!(set.len() == 1 && set[0].0 == SUMMARY, "{}", ended.stdout);
    let help = ucudnn.run(&["run", "--help"]);
    for variable in &variables {
        assert!(
            help.contains(variable.name) && help.contains(&option(variable.name)),
            "{} is not in the help",
            variable.name
        );
    }
}

#[test]
fn paths_hold_wherever_the_program_goes() {
    let ucudnn = Installed::new("paths");
    let ended = ucudnn.end(&["run", "--report", "r.jsonl", "--database", "d/t.sqlite", "--check", "env"], &[]);
    let at = |name: &str| ucudnn.path(name).to_str().unwrap().to_owned();
    assert_eq!(value(&ended, "UCUDNN_REPORT"), Some(at("r.jsonl").as_str()));
    assert_eq!(value(&ended, "UCUDNN_DATABASE"), Some(at("d/t.sqlite").as_str()));
    assert_eq!(value(&ended, "UCUDNN_CHECK"), Some("1"));
}

#[test]
fn what_is_after_the_program_is_the_program_s() {
    let ucudnn = Installed::new("arguments");
    let stdout = ucudnn.run(&["run", "--log", "off", "echo", "--log", "info", "--", "-x"]);
    assert_eq!(stdout, "--log info -- -x\n");
}

#[test]
fn exit_statuses_and_signals_are_the_program_s() {
    let ucudnn = Installed::new("statuses");
    assert_eq!(ucudnn.end(&["run", "sh", "-c", "exit 7"], &[]).code, Some(7));
    let killed = ucudnn.end(&["run", "sh", "-c", "kill -TERM $$"], &[]);
    assert_eq!((killed.code, killed.signal), (None, Some(libc::SIGTERM)));

    // A signal to the command reaches the program: they are one process.
    let mut child =
        ucudnn.command(&["run", "sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done"], &[]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    // SAFETY: `kill` touches no memory. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(9), None));
}

#[test]
fn what_cannot_be_run_is_named() {
    let ucudnn = Installed::new("errors");
    let error = ucudnn.fails(127, &["run", "no-such-program"]);
    assert!(error.contains("no-such-program") && error.contains("PATH"), "{error}");
    let error = ucudnn.fails(127, &["run", "./no/such/file"]);
    assert!(error.contains("./no/such/file: No such file"), "{error}");
    ucudnn.file("text", "not a program");
    let error = ucudnn.fails(126, &["run", "./text"]);
    assert!(error.contains("text cannot be run: Permission denied"), "{error}");
    let error = ucudnn.fails(1, &["run", "--library", "none.so", "true"]);
    assert!(error.contains("--library none.so: No such file"), "{error}");
    for option in ["--cudnn-library", "--seed-database"] {
        let error = ucudnn.fails(1, &["run", option, "./none", "true"]);
        assert!(error.contains(&format!("{option} ./none: No such file")), "{error}");
        let error = ucudnn.fails(1, &["run", option, "./bin", "true"]);
        assert!(error.contains(&format!("{option} ./bin: not a file")), "{error}");
    }
    let error = ucudnn.fails(2, &["run", "--log", "inof", "true"]);
    assert!(error.contains("--log: ") && error.contains("\"inof\" is not understood"), "{error}");
    let error = ucudnn.fails(2, &["run", "--numerics", "fast", "true"]);
    assert!(error.contains("--numerics") && error.contains("match, allowed, any, deterministic"), "{error}");
    let error = ucudnn.fails(2, &["run"]);
    assert!(error.contains("<PROGRAM>"), "{error}");
    let error = ucudnn.fails(2, &["run", "--workspace-limit", "lots", "true"]);
    assert!(error.contains("--workspace-limit") && error.contains("lots") && error.contains("MiB"), "{error}");
    let error = ucudnn.fails(2, &["run", "--policy", "wd", "true"]);
    assert!(error.contains("UCUDNN_TOTAL_WORKSPACE_SIZE"), "{error}");
    let error = ucudnn.fails(2, &["run", "--polcy", "wd", "true"]);
    assert!(error.contains("--policy"), "no suggestion: {error}");

    std::fs::remove_file(ucudnn.path("lib/libucudnn.so")).unwrap();
    let error = ucudnn.fails(1, &["run", "true"]);
    assert!(error.contains("--library") && error.contains("/../lib/libucudnn.so"), "{error}");
    let spaced = ucudnn.path("a folder/libucudnn.so");
    std::fs::write(&spaced, "").unwrap();
    let error = ucudnn.fails(1, &["run", "--library", spaced.to_str().unwrap(), "true"]);
    assert!(error.contains("space"), "{error}");
}

#[test]
fn programs_that_gain_rights_are_refused() {
    let ucudnn = Installed::new("setuid");
    let program = ucudnn.path("gains");
    std::fs::copy("/bin/true", &program).unwrap();
    if chown(&program, Some(1), None).is_err() {
        return skip("only root can make a program of another user");
    }
    std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let error = ucudnn.fails(126, &["run", "./gains"]);
    assert!(error.contains("./gains") && error.contains("LD_PRELOAD"), "{error}");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    ucudnn.run(&["run", "./gains"]);
}

/// Makes a fake cuDNN of this version.
fn fake(path: &Path, version: u32) {
    let options =
        ["-shared".into(), "-fPIC".into(), "-Wl,-soname,libcudnn.so.9".into(), format!("-DVERSION={version}")];
    compile(path, options.map(OsString::from).into_iter().chain([source("fake_cudnn.c").into()]));
}

fn line<'a>(ended: &'a Ended, word: &str) -> &'a str {
    let found = ended.stdout.lines().find_map(|line| line.strip_prefix(word));
    found.unwrap_or_else(|| panic!("no line {word} in:\n{}{}", ended.stdout, ended.stderr)).trim()
}

#[test]
fn programs_that_open_cudnn_by_name_are_reached() {
    let ucudnn = Installed::new("dlopen");
    let real = ucudnn.path("real/libcudnn.so.9");
    fake(&real, 91_900);
    let program = ucudnn.path("calls");
    compile(&program, [OsString::from("-DDLOPEN"), source("calls.c").into()]);
    let program = program.to_str().unwrap();
    let search = [("LD_LIBRARY_PATH", real.parent().unwrap().to_str().unwrap())];

    let reached = ucudnn.end(&["run", "--dlopen", program], &search);
    assert_eq!(reached.code, Some(0), "{}", reached.stderr);
    assert!(!line(&reached, "from").starts_with(real.parent().unwrap().to_str().unwrap()), "{}", reached.stdout);
    assert_eq!(line(&reached, "version"), "91900");
    assert_eq!(line(&reached, "text"), "ucudnn: the real cuDNN is missing or lacks this function");
    assert_eq!(reached.stderr, "");

    let ended = ucudnn.end(&["run", "--dlopen", "env"], &search);
    assert_eq!(value(&ended, "UCUDNN_CUDNN_LIBRARY"), real.to_str());
    let path = value(&ended, "LD_LIBRARY_PATH").unwrap();
    let (disguise, rest) = path.split_once(':').unwrap();
    assert_eq!(rest, real.parent().unwrap().to_str().unwrap());
    let cache = ucudnn.path("home/.cache/ucudnn").canonicalize().unwrap();
    assert!(Path::new(disguise).starts_with(cache), "{disguise}");
    let preload = value(&ended, "LD_PRELOAD").unwrap();
    assert_eq!(preload, format!("{}:{disguise}/libcudnn.so.9", library().canonicalize().unwrap().display()));

    // One `run` inside another: the folder is already in the path, and must not be taken for the real cuDNN.
    let binary = ucudnn.path("bin/ucudnn");
    let nested = ucudnn.end(&["run", "--dlopen", binary.to_str().unwrap(), "run", "--dlopen", program], &search);
    assert_eq!(line(&nested, "version"), "91900");

    // The user names the real cuDNN: the loader's search path does not count.
    let other = Folder::new("command-dlopen-other");
    let named = other.join("libcudnn.so.9");
    fake(&named, 92_000);
    let named = named.to_str().unwrap();
    let ended = ucudnn.end(&["run", "--dlopen", "--cudnn-library", named, program], &search);
    assert_eq!(line(&ended, "version"), "92000");
}

/// Whoever can exchange a folder of the path decides what the program and its children preload.
#[test]
fn a_folder_that_others_can_exchange_is_not_preloaded_from() {
    let ucudnn = Installed::new("cache");
    let cache = ucudnn.path("shared/user/cache/x").parent().unwrap().canonicalize().unwrap();
    let end = || ucudnn.end(&["run", "--dlopen", "echo", "started"], &[("XDG_CACHE_HOME", cache.to_str().unwrap())]);
    let refused = |why: &str| {
        let ended = end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{why}: {}", ended.stderr);
        for part in [why, "the program is not started", "set XDG_CACHE_HOME to another place"] {
            assert!(ended.stderr.contains(part), "{part} is not in {}", ended.stderr);
        }
    };
    let accepted = || {
        let ended = end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "started\n"), "{}", ended.stderr);
    };
    accepted();
    let made = std::fs::read_dir(cache.join("ucudnn")).unwrap().next().unwrap().unwrap().path();
    let folders: Vec<_> = made.ancestors().take(5).collect();
    for folder in folders.into_iter().rev() {
        let mode = |mode| std::fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
        mode(0o757);
        refused(&format!("other users can write to {} (mode 757)", folder.display()));
        mode(0o755);
        accepted();
    }
    // In a sticky folder on the path, other users cannot exchange this user's files; but the folder's owner can.
    let shared = cache.ancestors().nth(2).unwrap();
    std::fs::set_permissions(shared, Permissions::from_mode(0o1777)).unwrap();
    accepted();
    if chown(shared, Some(65534), None).is_err() {
        return skip("only root makes a folder of another user");
    }
    refused(&format!("another user (number 65534) owns {}", shared.display()));
}

/// The file is opened and then checked: whose it is, who can write to it, and each of its bytes.
#[test]
fn a_file_that_is_not_as_made_is_replaced() {
    let ucudnn = Installed::new("replaced");
    let run = || ucudnn.run(&["run", "--dlopen", "true"]);
    run();
    let folder = std::fs::read_dir(ucudnn.path("home/.cache/ucudnn")).unwrap().next().unwrap().unwrap().path();
    let file = folder.join("libcudnn.so.9");
    let made = std::fs::read(&file).unwrap();
    let inode = || file.symlink_metadata().unwrap().ino();
    let before = inode();
    run();
    assert_eq!(inode(), before, "a good file is made again");
    let pipe = || {
        std::fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    };
    let link = || {
        std::fs::rename(&file, ucudnn.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(ucudnn.path("elsewhere"), &file).unwrap();
    };
    let harms: [(&str, &dyn Fn()); 5] = [
        ("others can write", &|| std::fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap()),
        ("a byte more", &|| std::fs::write(&file, [&made[..], b"x"].concat()).unwrap()),
        ("another content", &|| std::fs::write(&file, vec![0; made.len()]).unwrap()),
        ("a pipe without a writer", &pipe),
        ("a link", &link),
    ];
    let is_replaced = |harm: &str| {
        run();
        let metadata = file.symlink_metadata().unwrap();
        assert!(metadata.is_file(), "{harm}");
        assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (user(), 0o600), "{harm}");
        assert_eq!(std::fs::read(&file).unwrap(), made, "{harm}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{harm}: something was left behind");
    };
    for (harm, act) in harms {
        act();
        is_replaced(harm);
    }
    if chown(&file, Some(65534), None).is_err() {
        return skip("only root gives files away");
    }
    is_replaced("another user's");
}

fn user() -> u32 {
    // SAFETY: geteuid always succeeds.
    unsafe { libc::geteuid() }
}

/// A command in a sticky folder, where another user may have put a library beside it.
#[test]
fn a_library_that_others_can_exchange_is_not_preloaded() {
    let ucudnn = Installed::new("beside");
    let bin = ucudnn.path("bin/x").parent().unwrap().canonicalize().unwrap();
    std::fs::copy(library(), bin.join("libucudnn.so")).unwrap();
    let preloaded = || value(&ucudnn.end(&["run", "env"], &[]), "LD_PRELOAD").map(str::to_owned);
    assert_eq!(preloaded().as_deref(), bin.join("libucudnn.so").to_str());
    std::fs::set_permissions(&bin, Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(preloaded().as_deref(), library().canonicalize().unwrap().to_str(), "that in ../lib");
    std::fs::remove_file(ucudnn.path("lib/libucudnn.so")).unwrap();
    let error = ucudnn.fails(1, &["run", "true"]);
    assert!(error.contains(&format!("other users can write to {} (mode 1777)", bin.display())), "{error}");
    assert!(error.contains("give --library"), "{error}");
    ucudnn.run(&["run", "--library", "bin/libucudnn.so", "true"]);
}

/// A person on a terminal learns at the end what was gained, or why nothing ran.
#[test]
fn a_terminal_is_told_what_was_gained() {
    if !has_terminals() {
        return;
    }
    let ucudnn = Installed::new("summary");
    let program = graph::program("graph_random");
    let path = program.file("graph_random");
    let cudnn = ucudnn.path("cudnn");
    // hostdnn counts its work: the choices, and what they save, do not depend on the machine.
    let variables = [("LD_LIBRARY_PATH", cudnn.to_str().unwrap()), ("HOSTDNN_CLOCK", "1")];
    let run = |options: &[&str]| {
        let program = [path.to_str().unwrap(), "1", "6", "packed"];
        ucudnn.on_terminal(&[&["run", "--database", "t.sqlite"], options, &program].concat(), &variables)
    };
    let ours = |line: &str| -> usize {
        let words = line.strip_prefix("ucudnn: ").and_then(|line| line.split_once(" of "));
        words.unwrap_or_else(|| panic!("{line:?}")).0.parse().unwrap()
    };
    let first = run(&["--explore", "unbounded"]);
    assert!(first.contains(" s less than plain cuDNN takes, by trials that cost "), "{first:?}");
    assert!(ours(&first) > 0 && first.ends_with("/t.sqlite\r\n") && first.lines().count() == 1, "{first:?}");
    // What the first run found is known, and nothing is tried.
    let known = run(&["--explore", "0"]);
    assert!(ours(&known) > 0 && known.contains(" s less than plain cuDNN takes"), "{known:?}");
    assert_eq!(run(&["--quiet"]), "");
    // Not where nobody looks, and not for the programs that a program starts.
    let piped = ucudnn.end(&["run", "--database", "t.sqlite", path.to_str().unwrap(), "1", "3", "packed"], &variables);
    assert_eq!((piped.code, &*piped.stderr), (Some(0), ""));
    let why = "ucudnn: the program loaded no cuDNN (`ucudnn doctor -- PROGRAM` tells more); those that it started have their own lines\r\n";
    assert_eq!(ucudnn.on_terminal(&["run", "true"], &[]), why);
    assert_eq!(ucudnn.on_terminal(&["run", "true"], &[("UCUDNN_SUMMARY", "off")]), "");
    let shell = "/bin/sh -c true; exec true";
    assert_eq!(ucudnn.on_terminal(&["run", "sh", "-c", shell], &[]), why, "only the process that was started");
}

/// The processes of a job write to one terminal.
#[test]
fn a_rank_is_named_in_the_line_of_its_process() {
    if !has_terminals() {
        return;
    }
    let ucudnn = Installed::new("ranks");
    let line = |variables: &[(&str, &str)]| ucudnn.on_terminal(&["run", "true"], variables);
    let why = "the program loaded no cuDNN";
    for starter in ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"] {
        let said = line(&[(starter, "5")]);
        assert!(said.starts_with(&format!("ucudnn (rank 5): {why}")), "{starter}: {said:?}");
    }
    for alone in [&[("RANK", "0"), ("WORLD_SIZE", "1")][..], &[("RANK", "first")], &[]] {
        assert!(line(alone).starts_with(&format!("ucudnn: {why}")), "{alone:?}: {:?}", line(alone));
    }
}

/// Users look for the file first, whether or not the program calls cuDNN.
#[test]
fn a_report_is_there_whatever_the_program_does() {
    let ucudnn = Installed::new("empty-report");
    let path = ucudnn.path("run.jsonl");
    let report = path.to_str().unwrap();
    ucudnn.run(&["run", "--report", report, "true"]);
    let began = format!("{{\"event\":\"began\",\"ucudnn\":\"{}\"}}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), began);
    let said = ucudnn.run(&["report", report]);
    assert!(said.starts_with("Nothing was decided") && !said.contains("does not know"), "{said}");

    // Another run replaces it, or goes on behind it.
    let other = "{\"event\":\"other\"}\n";
    std::fs::write(&path, other).unwrap();
    ucudnn.run(&["run", "--report", report, "--append", "true"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
    ucudnn.run(&["run", "--report", report, "true"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), began);
    assert!(ucudnn.fails(2, &["run", "--append", "true"]).contains("--report"));
    // Nothing is lost for a program that does not start, and no other file.
    std::fs::write(&path, other).unwrap();
    ucudnn.fails(126, &["run", "--report", report, "./run.jsonl"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
    ucudnn.file("model", "weights");
    assert!(ucudnn.fails(1, &["run", "--report", "model", "true"]).contains("the file is there, and is no report"));
    assert_eq!(std::fs::read_to_string(ucudnn.path("model")).unwrap(), "weights");
    ucudnn.run(&["run", "--report", "/dev/null", "true"]);

    let nowhere = path.with_file_name("missing").join("run.jsonl");
    let ended = ucudnn.end(&["run", "--report", nowhere.to_str().unwrap(), "true"], &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("--report") && ended.stderr.contains("No such file"), "{}", ended.stderr);
}

/// Its user may have forgotten the switch, and must not look for another reason.
#[test]
fn a_report_says_that_the_program_ran_switched_off() {
    let ucudnn = Installed::new("off-report");
    let (real, program, report) = (ucudnn.path("real/libcudnn.so.9"), ucudnn.path("calls"), ucudnn.path("run.jsonl"));
    fake(&real, 91_900);
    compile(&program, [OsString::from("-DDLOPEN"), source("calls.c").into()]);
    let [real, program, report] = [&real, &program, &report].map(|path| path.to_str().unwrap());
    let run = ["run", "--dlopen", "--cudnn-library", real, "--report", report];
    let said = |words: &[&str], switch| {
        let ended = ucudnn.end(&[&run[..], words].concat(), &[(SWITCH, switch)]);
        assert_eq!((ended.code, line(&ended, "version")), (Some(0), "91900"), "{}", ended.stderr);
        ucudnn.run(&["report", report])
    };
    let off = "Switched off by UCUDNN=off: 1 program. Every call went to cuDNN.\n";
    assert_eq!(said(&[program], "off"), off);
    assert_eq!(ucudnn.json(&["report", report, "--json"])["switched_off"], 1);
    // Another program of the same report has other reasons.
    assert_eq!(said(&["--append", program], "off"), off.replace("1 program", "2 programs"));
    assert!(said(&[program], "on").starts_with("Nothing was decided"));
}
