//! C programs that know only `cudnn.h`, run on hostdnn: plain, and with `libucudnn.so` preloaded.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use guest::testing::skip;

use crate::programs::{self, Folder, Outcome, library, source};

/// A compiled C program, in a folder of its own with hostdnn under cuDNN's names.
pub struct Program {
    folder: Folder,
    path: PathBuf,
}

/// How a program is built.
#[derive(Clone, Copy, Default)]
pub struct Build<'a> {
    /// Sources under `tests/c`.
    pub sources: &'a [&'a str],
    /// More options for the compiler.
    pub options: &'a [&'a str],
    /// Link `-lucudnn`.
    pub with_ucudnn: bool,
}

/// The output and status of a program that may fail.
pub struct Ended {
    pub outcome: Outcome,
    pub code: Option<i32>,
}

impl Program {
    /// Compiles `tests/c/{name}.c` with the sources that programs share.
    pub fn new(name: &str) -> Self {
        let main = format!("{name}.c");
        let sources = [main.as_str(), "kernel.c", "kernel_calls.c"];
        Self::build(name, Build { sources: &sources, ..Build::default() })
    }

    /// Compiles C sources into a program of this name.
    pub fn build(name: &str, build: Build) -> Self {
        let strict = ["-std=c11", "-O2", "-Werror", "-pedantic"];
        Self::build_by(&programs::c_compiler(), &strict, name, build)
    }

    /// Compiles with the given compiler and options. Tests that build the same program share the compiled file.
    pub fn build_by(compiler: &OsStr, strict: &[&str], name: &str, build: Build) -> Self {
        let compiled = compiled(compiler, strict, name, build);
        let folder = Folder::new(&format!("{name}-{}", next()));
        for (library, names) in [(hostdnn(), ["libcudnn.so.9", "libcudnn.so"]), (library(), ["libucudnn.so"; 2])] {
            for name in names {
                let link = folder.join(name);
                let _ = std::fs::remove_file(&link);
                std::os::unix::fs::symlink(&library, link).unwrap();
            }
        }
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        // Not a copy: a process that another test starts meanwhile would hold the new file open for writing, and a file
        // that is open for writing cannot be executed.
        std::fs::hard_link(&compiled, &path).unwrap();
        Self { folder, path }
    }

    /// The path of a file in the program's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs the program without libucudnn.so; it must succeed.
    pub fn plain(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
        self.end(arguments, variables, false).succeeded()
    }

    /// Runs the program with libucudnn.so preloaded; it must succeed.
    pub fn preloaded(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Outcome {
        self.end(arguments, variables, true).succeeded()
    }

    /// Runs the program, however it ends. After half an hour it has failed.
    pub fn end(&self, arguments: &[&str], variables: &[(&str, &str)], preloaded: bool) -> Ended {
        end(self.command(arguments, variables, preloaded), &self.folder)
    }

    /// The program as a command, for a test that starts it in its own way.
    pub fn command(&self, arguments: &[&str], variables: &[(&str, &str)], preloaded: bool) -> Command {
        let mut command = Command::new(&self.path);
        // Tests end within some iterations; those of the promise about exploring set another value.
        command.args(arguments).env_clear().env("UCUDNN_EXPLORE", "unbounded");
        // Tests run side by side: further threads of hostdnn would only wait for a processor.
        command.env("RAYON_NUM_THREADS", "1");
        // Without a home folder, which is one warning, results are not kept either.
        command.env("UCUDNN_DATABASE", "off").envs(variables.iter().copied());
        command.env("LD_LIBRARY_PATH", self.path.parent().unwrap());
        if preloaded {
            command.env("LD_PRELOAD", library());
        }
        command
    }
}

impl Ended {
    /// The outcome of a program that must have succeeded.
    pub fn succeeded(self) -> Outcome {
        let Self { outcome, code } = self;
        assert_eq!(code, Some(0), "\n{}\n{}", outcome.stdout, outcome.stderr);
        outcome
    }
}

/// hostdnn's library. Cargo builds it beside the tests' executable.
pub fn hostdnn() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libhostdnn.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

/// Returns whether GPU kernels can be compiled for the CPU here; reports a skipped test if not.
pub fn has_emulator() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip("there is no C++ compiler, so that GPU kernels do not run on the CPU");
    }
    found
}

/// The file of a program. Neither it nor an object of one of its sources is compiled if an earlier test, perhaps of
/// another process, has compiled the same sources and headers with the same options.
fn compiled(compiler: &OsStr, strict: &[&str], name: &str, build: Build) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options: Vec<OsString> = strict.iter().chain(build.options).map(OsString::from).collect();
    for folder in ["hostdnn/include", "include"] {
        options.extend(["-I".into(), root.join(folder).into()]);
    }
    let object = |name: &&str| {
        let source = source(name);
        let of_source = [&options[..], &["-c".into(), source.clone().into()]].concat();
        let stem = source.file_stem().unwrap().to_str().unwrap();
        made(compiler, stem, of_source, &(std::fs::read(&source).unwrap(), headers(root)))
    };
    let objects: Vec<_> = build.sources.iter().map(object).collect();
    // Objects are no sources, whatever language the options name.
    let mut linking = [options.clone(), vec!["-x".into(), "none".into()]].concat();
    linking.extend(objects.into_iter().map(OsString::from));
    linking.extend(build.with_ucudnn.then(|| library().into()));
    // By its soname, `libcudnn.so.9`, the program looks for cuDNN when it starts.
    linking.extend([hostdnn().into(), "-ldl".into(), "-lm".into()]);
    made(compiler, name, linking, &())
}

/// What a compiler makes with these arguments from contents that have this hash.
fn made(compiler: &OsStr, name: &str, arguments: Vec<OsString>, contents: &impl Hash) -> PathBuf {
    static FOLDER: LazyLock<Folder> = LazyLock::new(|| Folder::lasting("compiled"));
    static FILES: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let mut hash = DefaultHasher::new();
    (compiler, &arguments, contents).hash(&mut hash);
    let whole = FOLDER.join(&format!("{name}-{:016x}", hash.finish()));
    let file = FILES.lock().unwrap_or_else(PoisonError::into_inner).entry(whole.clone()).or_default().clone();
    file.get_or_init(|| {
        if !whole.exists() {
            // Renamed when it is whole: another process may look for it now.
            let partial = whole.with_extension(std::process::id().to_string());
            programs::compile_with(compiler, &partial, arguments);
            std::fs::rename(&partial, &whole).unwrap();
        }
    });
    whole
}

/// The texts of all headers that programs under test include.
fn headers(root: &Path) -> &'static [Vec<u8>] {
    static TEXTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let folders = ["hostdnn/include", "include", "tests/c", "examples/convnet", "examples/rnn_bench"];
        let files = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "h"));
        files.sort_unstable();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect()
    })
}

/// A number that differs in each call.
fn next() -> usize {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Runs a command to its end. A command that hangs is a failure, not a hanging test.
fn end(mut command: Command, folder: &Folder) -> Ended {
    let number = next();
    // To files: a full pipe would stop the program.
    let (out, err) = (folder.join(&format!("{number}.out")), folder.join(&format!("{number}.err")));
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // Far more than any takes, however busy the machine is.
    let deadline = Instant::now() + Duration::from_secs(1800);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    // How long a program waits for timing depends on how busy the machine is, and so does this message.
    let is_of_machine = |line: &&str| line.contains("timing convolutions has taken ");
    let mut stderr: String = text(err).split_inclusive('\n').filter(|line| !is_of_machine(line)).collect();
    if !status.success() {
        stderr += &format!("{command:?}: {status}");
    }
    Ended { outcome: Outcome { stdout: text(out), stderr }, code: status.code() }
}

/// The lines of a report.
pub fn report(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Returns whether a report line's configuration has more than one micro-batch.
pub fn is_divided(line: &serde_json::Value) -> bool {
    line["parts"].as_array().is_some_and(|parts| parts.len() > 1 || parts[0]["count"] != 1)
}

/// The seed of random cases: `UCUDNN_TEST_SEED`, or from the clock. A failure shows the program's arguments, which
/// include it.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var("UCUDNN_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 % 1_000_000_007;
        let seed = given.unwrap_or_else(clock);
        use std::io::Write;
        // Not `eprintln`, which the test harness swallows for tests that pass.
        let _ = writeln!(std::io::stderr(), "UCUDNN_TEST_SEED={seed}");
        seed
    })
}

/// The places in a folder of our sources that can be made to panic (`UCUDNN_FAULT`), except those in `without`.
pub fn fault_points(folder: &str, without: &[&str]) -> Vec<String> {
    fn search(folder: &Path, without: &[PathBuf], found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if without.contains(&entry) {
                continue;
            }
            if entry.is_dir() {
                search(&entry, without, found);
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            let calls = text.split("fault_point(").skip(1).map(|rest| rest.split(')').next().unwrap());
            found.extend(calls.flat_map(|call| call.split('"').skip(1).step_by(2).map(str::to_owned)));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let without: Vec<_> = without.iter().map(|folder| root.join(folder)).collect();
    search(&root.join(folder), &without, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}
