//! Programs that open cuDNN while they run and take its functions by name, as JAX and cudnn-frontend's dynamic mode do.
//! Under `ucudnn run --dlopen` they get libucudnn.so's functions, with the same results as plain.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::command::{Ended, Installed};
use crate::hostdnn::report;
use crate::programs::{compile, library, real_cudnn, source};

struct Client {
    ucudnn: Installed,
    program: PathBuf,
    /// The folder of its cuDNN, which is in the loader's search path.
    cudnn: PathBuf,
    search: String,
}

impl Client {
    fn new(name: &str) -> Self {
        let ucudnn = Installed::new(name);
        let program = ucudnn.path("client");
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostdnn/include");
        compile(&program, [OsString::from("-I"), include.into(), source("dlopen.c").into(), "-lm".into()]);
        let cudnn = ucudnn.path("cudnn");
        let search = cudnn.to_str().unwrap().to_owned();
        Self { ucudnn, program, cudnn, search }
    }

    /// The same with another cuDNN.
    fn on(name: &str, cudnn: &Path) -> Self {
        let search = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        Self { cudnn: cudnn.to_owned(), search, ..Self::new(name) }
    }

    fn real(&self) -> String {
        self.cudnn.join("libcudnn.so.9").to_str().unwrap().to_owned()
    }

    fn plain(&self, arguments: &[&str]) -> Ended {
        let mut command = std::process::Command::new(&self.program);
        let output = command.args(arguments).env_clear().env("LD_LIBRARY_PATH", &self.search).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code(), signal: None }
    }

    fn reached(&self, arguments: &[&str]) -> Ended {
        let run = ["run", "--dlopen", "--workspace-limit=64KiB", "--report=r.jsonl", "--database=off"];
        let all = [&run[..], &[self.program.to_str().unwrap()], arguments].concat();
        self.ucudnn.end(&all, &[("LD_LIBRARY_PATH", &self.search)])
    }

    /// cuDNN's functions plain, libucudnn.so's under `run --dlopen`, and the same results. Returns both runs.
    fn same(&self, arguments: &[&str]) -> [Ended; 2] {
        let (plain, reached) = (self.plain(arguments), self.reached(arguments));
        for ended in [&plain, &reached] {
            assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}\n{}", ended.stdout);
        }
        let ours = library().canonicalize().unwrap();
        for from in ["legacy-from", "graph-from"] {
            assert_ne!(Path::new(line(&plain, from)).canonicalize().unwrap(), ours, "{arguments:?}");
            assert_eq!(Path::new(line(&reached, from)).canonicalize().unwrap(), ours, "{arguments:?}");
        }
        assert_eq!(line(&plain, "version"), line(&reached, "version"));
        assert_eq!(line(&plain, "create"), line(&reached, "create"));
        [plain, reached]
    }
}

fn line<'a>(ended: &'a Ended, word: &str) -> &'a str {
    let found = ended.stdout.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no line {word} in:\n{}{}", ended.stdout, ended.stderr))
}

/// Both runs gave the right result of the convolutions, and libucudnn.so kept the limit.
fn computed([plain, reached]: &[Ended; 2]) {
    for api in ["legacy", "graph"] {
        assert_eq!(line(plain, api), line(reached, api));
        assert!(line(plain, api).parse::<f64>().unwrap() > 1.0);
    }
    assert!(line(reached, "workspace").parse::<usize>().unwrap() <= 64 << 10);
}

#[test]
fn by_name() {
    let client = Client::new("dlopen-name");
    computed(&client.same(&["name", "libcudnn.so.9"]));
    let told = report(&client.ucudnn.path("r.jsonl"));
    assert!(!told.is_empty(), "nothing was planned");
}

/// JAX's Python opens the library of its wheel by its path; XLA then finds it by its name.
#[test]
fn by_name_once_it_was_opened_by_its_path() {
    let client = Client::new("dlopen-path");
    computed(&client.same(&["path", &client.real(), "name", "libcudnn.so.9"]));
}

/// A second run finds the file of the first run, or the link that an earlier version left.
#[test]
fn the_folder_is_used_again() {
    let client = Client::new("dlopen-again");
    let arguments = ["path", &client.real(), "name", "libcudnn.so.9"];
    computed(&client.same(&arguments));
    let cache = client.ucudnn.path("home/.cache/ucudnn");
    let folder = std::fs::read_dir(cache).unwrap().next().unwrap().unwrap().path();
    let file = folder.join("libcudnn.so.9");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(library().canonicalize().unwrap(), &file).unwrap();
    computed(&client.same(&arguments));
    assert!(!file.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "something was left behind");
}

/// The first file of the search path, by its path, as cudnn-frontend's Python package looks for it.
#[test]
fn by_the_path_of_the_search_path_s_first_folder() {
    let client = Client::new("dlopen-search");
    let script = format!("exec {} handle \"${{LD_LIBRARY_PATH%%:*}}/libcudnn.so.9\"", client.program.display());
    let run = ["run", "--dlopen", "--workspace-limit=64KiB", "sh", "-c", &script];
    let reached = client.ucudnn.end(&run, &[("LD_LIBRARY_PATH", &client.search)]);
    assert_eq!((reached.code, reached.stderr.as_str()), (Some(0), ""), "{}", reached.stdout);
    computed(&[client.plain(&["name", "libcudnn.so.9"]), reached]);
}

/// A sub-library of cuDNN exports the graph API too, and is globally visible.
#[test]
fn by_name_beside_a_sub_library() {
    let client = Client::new("dlopen-sub");
    let graph = client.ucudnn.path("cudnn/libcudnn_graph.so.9");
    let options = ["-shared", "-fPIC", "-Wl,-soname,libcudnn_graph.so.9", "-DVERSION=91900"].map(OsString::from);
    compile(&graph, options.into_iter().chain([source("fake_cudnn.c").into()]));
    computed(&client.same(&["path", graph.to_str().unwrap(), "name", "libcudnn.so.9"]));
}

/// From the whole process: no function plain, and libucudnn.so's under `run --dlopen`.
#[test]
fn by_no_library_at_all() {
    let client = Client::new("dlopen-default");
    let plain = client.plain(&["default"]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.stderr.contains("cudnnConvolutionForward"), "{}", plain.stderr);
    let reached = client.reached(&["default"]);
    assert_eq!((reached.code, reached.stderr.as_str()), (Some(0), ""), "{}", reached.stdout);
    computed(&[client.plain(&["name", "libcudnn.so.9"]), reached]);
}

/// A program that takes the functions of a file that it opened by its path has chosen: it runs unchanged.
#[test]
fn by_a_path_cudnn_itself() {
    let client = Client::new("dlopen-handle");
    let arguments = ["handle", &client.real()];
    let (plain, reached) = (client.plain(&arguments), client.reached(&arguments));
    assert_eq!((reached.code, reached.stderr.as_str()), (Some(0), ""), "{}", reached.stdout);
    assert_eq!(plain.stdout, reached.stdout);
}

#[test]
fn the_real_library() {
    let Some(folder) = real_cudnn() else { return };
    let client = Client::on("dlopen-real", &folder);
    let [_, reached] = client.same(&["name", "libcudnn.so.9"]);
    assert!(line(&reached, "version").starts_with('9'));
    client.same(&["path", &client.real(), "name", "libcudnn.so.9"]);
    let graph = folder.join("libcudnn_graph.so.9");
    client.same(&["path", graph.to_str().unwrap(), "path", &client.real(), "name", "libcudnn.so.9"]);
}
