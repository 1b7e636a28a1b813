//! The `ucudnn` command as a user has it: installed in its own folder, `bin/ucudnn` with its libraries in `lib`, and
//! started there by its name.

mod data;
mod demo;
mod device;
mod doctor;
mod examples;
mod kernel_versions;
mod looks;
mod norm;
mod output;
mod plot;
mod reading;
mod rnn;
mod run;
mod shell;
mod times;
pub mod tune;
mod unfit;
mod width;

use std::ffi::CStr;
use std::fs::{File, hard_link, write};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use convolution::problem::graph::{self, EngineConfiguration, Notes};
use convolution::problem::{Algorithm, Problem};
use cudnn::Direction;
use cudnn_abi::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
use tuning::database::{Database, Environment, Outcome};

use crate::programs::{self, Folder};
use guest::testing::skip;

/// An installed command.
pub struct Installed {
    pub folder: Folder,
}

/// How a command ended.
pub struct Ended {
    pub stdout: String,
    pub stderr: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Installed {
    pub fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("command-{name}"));
        let beside = |name: &str| std::env::current_exe().unwrap().with_file_name(name);
        // A hard link has its own name: the command finds itself in this folder, not where it was built.
        let _ = std::fs::remove_file(folder.join("bin/ucudnn"));
        // The command is another package's: `cargo build` puts it a folder above the tests.
        let command = beside("../ucudnn");
        hard_link(&command, folder.join("bin/ucudnn"))
            .unwrap_or_else(|error| panic!("{}: {error}; run cargo build first", command.display()));
        for (library, name) in [
            (programs::library(), "lib/libucudnn.so"),
            (beside("libucudnn_solver.so"), "lib/libucudnn_solver.so"),
            (beside("libhostdnn.so"), "cudnn/libcudnn.so.9"),
        ] {
            assert!(library.is_file(), "{} is missing", library.display());
            let link = folder.join(name);
            let _ = std::fs::remove_file(&link);
            symlink(library, link).unwrap();
        }
        Self { folder }
    }

    /// A file's path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        write(&path, text).unwrap();
        path
    }

    /// The command in the folder. Its environment has only `variables`, a search path and a home in the folder.
    pub fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.path("bin/ucudnn"));
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.path("home"));
        // As for tests' programs, so that both have one device.
        command.env("RAYON_NUM_THREADS", "1").envs(variables.iter().copied());
        command.current_dir(self.path("bin").parent().unwrap()).stdin(Stdio::null());
        command
    }

    /// Runs the command, however it ends.
    pub fn end(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let output = self.command(arguments, variables).output().unwrap();
        Ended {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
            signal: output.status.signal(),
        }
    }

    /// Runs the command with a terminal as its standard error, and returns what the terminal got.
    pub fn on_terminal(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let (mut terminal, program) = terminal().unwrap();
        let mut command = self.command(arguments, variables);
        // In the terminal's foreground, as a command that a user starts.
        // SAFETY: between fork and exec, these three calls alone run. They allocate nothing.
        unsafe {
            command.pre_exec(|| {
                let is_first = libc::setsid() != -1 && libc::ioctl(libc::STDERR_FILENO, libc::TIOCSCTTY, 0) == 0;
                let is_in_front = is_first && libc::tcsetpgrp(libc::STDERR_FILENO, libc::getpgrp()) == 0;
                if is_in_front { Ok(()) } else { Err(io::Error::last_os_error()) }
            });
        }
        let mut child = command.stdout(Stdio::null()).stderr(program).spawn().unwrap();
        // The last copy of the program's side: once the child ends, reading ends.
        drop(command);
        let mut got = Vec::new();
        // Linux reports the other side's end as an error.
        let _ = terminal.read_to_end(&mut got);
        assert!(child.wait().unwrap().success(), "{arguments:?}");
        String::from_utf8(got).unwrap()
    }

    /// Runs the command, which must succeed, and returns its standard output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let Ended { stdout, stderr, code, .. } = self.end(arguments, &[]);
        assert_eq!(code, Some(0), "{arguments:?}\n{stdout}\n{stderr}");
        stdout
    }

    /// Runs the command, which must succeed and print JSON.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.run(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Runs the command, which must end with status `code`, and returns its standard error.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ended = self.end(arguments, &[]);
        assert_eq!(ended.code, Some(code), "{arguments:?}\n{}\n{}", ended.stdout, ended.stderr);
        ended.stderr
    }
}

/// Returns whether this machine has terminals; reports a skipped test if not.
pub fn has_terminals() -> bool {
    terminal().inspect_err(|error| skip(&format!("there are no terminals: {error}"))).is_ok()
}

/// The two sides of a new terminal: ours, and a program's.
fn terminal() -> io::Result<(File, File)> {
    let ours = File::options().read(true).write(true).open("/dev/ptmx")?;
    let mut name = [0; 64];
    // SAFETY: the descriptor is open, and the name has as many bytes as the call is told.
    let is_ready = unsafe {
        libc::grantpt(ours.as_raw_fd()) == 0
            && libc::unlockpt(ours.as_raw_fd()) == 0
            && libc::ptsname_r(ours.as_raw_fd(), name.as_mut_ptr(), name.len()) == 0
    };
    if !is_ready {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `ptsname_r` has ended the name with a zero byte.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().map_err(io::Error::other)?;
    let program = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name)?;
    Ok((ours, program))
}

/// One row of a network file: name, layers, the shape (images, channels, height and width), output channels, and the
/// filter's height, which is also its width. Padded to the same size.
#[derive(Clone, Copy)]
pub struct Row(pub &'static str, pub usize, pub [i32; 4], pub i32, pub i32);

pub const HEADER: &str = "network,layer,count,n,c,h,w,k,r,s,pad_h,pad_w,stride_h,stride_w,dilation_h,dilation_w,groups";

/// A network of four layers, two of them alike.
pub const NETWORK: [Row; 3] = [
    Row("conv1", 1, [8, 3, 16, 16], 8, 5),
    Row("block.3x3", 2, [8, 8, 16, 16], 8, 3),
    Row("last-1x1", 1, [8, 8, 16, 16], 4, 1),
];

/// The rows as a network file.
pub fn csv(rows: &[Row]) -> String {
    let row = |Row(name, count, [n, c, h, w], k, r): &Row| {
        format!("net,{name},{count},{n},{c},{h},{w},{k},{r},{r},{0},{0},1,1,1,1,1\n", r / 2)
    };
    format!("{HEADER}\n{}", rows.iter().map(row).collect::<String>())
}

/// The convolution problem of a row, with everything that cuDNN's descriptors would say.
pub fn kernel(Row(_, _, [n, c, h, w], k, r): &Row, direction: &str) -> Problem {
    let image = |channels: i32| format!("float:{n}x{channels}x{h}x{w}@{}x{}x{w}x1", channels * h * w, h * w);
    let spec = format!(
        "{direction} x={} w=float:nchw:{k}x{c}x{r}x{r} y={} pad={p}x{p} stride=1x1 dilation=1x1 mode=correlation \
         compute=float math=default groups=1",
        image(*c),
        image(*k),
        p = r / 2
    );
    Problem::from_spec(&spec).unwrap()
}

pub const DIRECTIONS: [&str; 3] = ["F", "BD", "BF"];

pub fn environment() -> Environment {
    Environment { device: "A device".into(), multiprocessors: 7, cudnn: "91900".into(), driver: "13000".into() }
}

/// Fills a database with the whole network: an algorithm without workspace, and one that is four times as fast and
/// takes 1 KiB an image and channel, with a launch that costs as much as half an image.
pub fn filled(path: &Path, rows: &[Row]) {
    let database = Database::open(path, None).unwrap();
    for row in rows {
        for direction in DIRECTIONS {
            let kernel = kernel(row, direction);
            database.store_measured(&environment(), &kernel, &outcomes(row, &kernel));
        }
    }
}

/// Does the same for the operation graphs of its convolutions, each by an engine instead of an algorithm; the fast
/// engine is not deterministic.
pub fn filled_with_graphs(path: &Path, rows: &[Row]) {
    let database = Database::open(path, None).unwrap();
    for row in rows {
        for direction in DIRECTIONS {
            let kernel = kernel(row, direction);
            let by_engine = |outcome: Outcome<Algorithm>| {
                let Outcome { batch, algorithm: Algorithm { id, deterministic, .. }, workspace, time } = outcome;
                let notes = (!deterministic).then_some(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
                let engine =
                    EngineConfiguration::new(id.into(), vec![(2, 4)], notes.into_iter().collect(), Notes::default());
                Outcome { batch, algorithm: engine, workspace, time }
            };
            let outcomes: Vec<_> = outcomes(row, &kernel).into_iter().map(by_engine).collect();
            database.store_measured(&environment(), &graph::Problem::of_convolution(&kernel), &outcomes);
        }
    }
}

fn outcomes(Row(_, _, [n, c, ..], k, r): &Row, kernel: &Problem) -> Vec<Outcome<Algorithm>> {
    let work = f64::from(c * k * r * r) / 100.0;
    let sizes = (0..).map(|power| 1 << power).take_while(|size| size <= n);
    let algorithm =
        |id| Algorithm { direction: kernel.direction, id, math_type: 0, deterministic: id < 4, engine: None };
    let of = |size: i32| {
        let outcome = |id, workspace, time| Outcome { batch: size as usize, algorithm: algorithm(id), workspace, time };
        let time = work * (f64::from(size) + 0.5);
        let slow = outcome(i32::from(kernel.direction != Direction::Forward), 0, Some(4.0 * time));
        [slow, outcome(4, (size * c) as usize * 1024, Some(time))]
    };
    sizes.flat_map(of).collect()
}
