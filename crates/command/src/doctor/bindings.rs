//! The loader's own report of the symbols that it bound (`LD_DEBUG=bindings`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_abi::symbols::Symbol;

/// The first function that libucudnn.so looks up in a library that may be cuDNN, and that all cuDNNs have.
const VERSION: &str = "cudnnGetVersion";
/// The function by which libucudnn.so recognises itself. It looks it up in every library that may be cuDNN.
const OWN_VERSION: &str = "ucudnnGetVersion";

/// libtorch's library that has the functions of its stable C ABI.
const LIBTORCH: &str = "libtorch_cpu.so";

/// What became of PyTorch's own operators.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Libtorch {
    /// The process has no libtorch.
    #[default]
    Absent,
    /// libucudnn.so did not look up its functions.
    Loaded,
    /// It has those that the operators take.
    Complete,
    /// It lacks this one.
    Lacks(String),
}

/// The cuDNN functions of a program, by the library that they were bound to.
#[derive(Debug, Default)]
pub struct Bindings {
    /// Those bound to libucudnn.so.
    pub ours: BTreeSet<String>,
    /// Those bound past it, by the other library's file.
    pub past: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The cuDNN that libucudnn.so itself took functions from.
    pub real: Option<PathBuf>,
    /// libtorch in the program.
    pub libtorch: Libtorch,
}

/// The library's files.
pub struct Files {
    /// libucudnn.so.
    pub library: PathBuf,
    /// The library of cuDNN's name that stands for it under --dlopen.
    pub disguise: Option<PathBuf>,
}

impl Bindings {
    /// Adds the lines of one process.
    ///
    /// References among cuDNN's own libraries are no calls of the program. A function that is looked up in an opened
    /// library (`dlsym`) has this library on both sides of its line, whoever asked: the program, or libucudnn.so, which
    /// looks up every function once and [`VERSION`] twice.
    pub fn add(&mut self, text: &str, files: &Files) {
        let mut looked_up: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        let mut searches: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            if let Some((file, symbol)) = missing(line) {
                if symbol == OWN_VERSION {
                    *searches.entry(file).or_default() += 1;
                } else if starts_with(file, LIBTORCH) && is_needed(symbol) {
                    self.libtorch = Libtorch::Lacks(symbol.into());
                }
            }
            let Some(Binding { from, to, symbol }) = Binding::read(line) else { continue };
            if starts_with(to, LIBTORCH) && !matches!(self.libtorch, Libtorch::Lacks(_)) {
                // The first function that is looked up. libtorch itself does not call it.
                if from == to && symbol.as_bytes() == torch::NEEDED[0].to_bytes() {
                    self.libtorch = Libtorch::Complete;
                } else if self.libtorch == Libtorch::Absent {
                    self.libtorch = Libtorch::Loaded;
                }
            }
            let is_ours = same(to, &files.library);
            if from == to && symbol == OWN_VERSION {
                *searches.entry(to).or_default() += 1;
            }
            if !Symbol::ALL.iter().any(|known| known.name().to_bytes() == symbol.as_bytes()) {
                continue;
            }
            let is_disguise = files.disguise.as_ref().is_some_and(|disguise| same(from, disguise));
            if from == to {
                *looked_up.entry(to).or_default().entry(symbol).or_default() += 1;
            } else if is_disguise && is_ours || !is_cudnn(from) && !same(from, &files.library) {
                self.count(to, is_ours, symbol);
            }
        }
        for (file, functions) in looked_up {
            let is_ours = same(file, &files.library);
            let searches = searches.get(file).copied().unwrap_or(0);
            if searches > 0 && !is_ours {
                self.real.get_or_insert_with(|| file.into());
            }
            // In itself, libucudnn.so looks up the version alone.
            let own = |symbol: &str| match (symbol == VERSION, is_ours) {
                (true, false) => 2 * searches,
                (false, true) => 0,
                _ => searches,
            };
            for (symbol, count) in functions {
                if count > own(symbol) && (is_ours || names_cudnn(file)) {
                    self.count(file, is_ours, symbol);
                }
            }
        }
    }

    fn count(&mut self, to: &str, is_ours: bool, symbol: &str) {
        let functions = if is_ours { &mut self.ours } else { self.past.entry(to.into()).or_default() };
        functions.insert(symbol.into());
    }
}

/// One line: a file's reference to a symbol, and the file that defines it.
struct Binding<'a> {
    from: &'a str,
    to: &'a str,
    symbol: &'a str,
}

impl<'a> Binding<'a> {
    /// Reads `12: binding file FROM [0] to TO [0]: normal symbol `NAME' [VERSION]`.
    fn read(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once("binding file ")?;
        let (files, symbol) = rest.rsplit_once(": normal symbol `")?;
        let (from, to) = files.split_once("] to ")?;
        let file = |text: &'a str| text.rsplit_once(" [").map(|(file, _)| file);
        Some(Self { from: file(from)?, to: file(to)?, symbol: symbol.split_once('\'')?.0 })
    }
}

/// The file and the symbol that it lacks, in `12: FILE: error: symbol lookup error: undefined symbol: NAME (fatal)`.
fn missing(line: &str) -> Option<(&str, &str)> {
    let (file, rest) = line.split_once(": error: symbol lookup error: undefined symbol: ")?;
    let (_, file) = file.split_once(":\t")?;
    Some((file, rest.split(' ').next()?))
}

/// libucudnn.so needs this function of libtorch's for PyTorch's own operators.
fn is_needed(symbol: &str) -> bool {
    torch::NEEDED.iter().any(|name| name.to_bytes() == symbol.as_bytes())
}

fn same(file: &str, other: &Path) -> bool {
    let file = Path::new(file);
    file == other || file.canonicalize().is_ok_and(|file| file == other)
}

/// Returns true for the files of cuDNN: libcudnn.so.9, libcudnn_graph.so.9 and the others.
fn is_cudnn(file: &str) -> bool {
    starts_with(file, "libcudnn")
}

/// Returns true for the file that programs open.
fn names_cudnn(file: &str) -> bool {
    starts_with(file, "libcudnn.so")
}

fn starts_with(file: &str, name: &str) -> bool {
    Path::new(file).file_name().and_then(OsStr::to_str).is_some_and(|file| file.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str], disguise: Option<&str>) -> Bindings {
        let mut bindings = Bindings::default();
        let files = Files { library: "/l/libucudnn.so".into(), disguise: disguise.map(PathBuf::from) };
        bindings.add(&lines.iter().map(|line| format!("     7:\t{line}\n")).collect::<String>(), &files);
        bindings
    }

    fn past(bindings: &Bindings) -> Vec<(String, Vec<&str>)> {
        let each = bindings.past.iter();
        each.map(|(file, names)| (file.display().to_string(), Vec::from_iter(names.iter().map(|name| &**name))))
            .collect()
    }

    #[test]
    fn the_program_s_own_references_are_counted() {
        let bindings = read(
            &[
                "binding file ./a b [0] to /l/libucudnn.so [0]: normal symbol `cudnnCreate' [libcudnn.so.9]",
                "binding file ./a b [0] to /l/libucudnn.so [0]: normal symbol `cudnnDestroy'",
                "binding file /c/libcudnn_cnn.so.9 [0] to /c/libcudnn_ops.so.9 [0]: normal symbol `cudnnSetStream'",
                "binding file /c/libcudnn_ops.so.9 [0] to /c/libcudnn_ops.so.9 [0]: normal symbol `cudnnSetStream'",
                "binding file ./a b [0] to /c/libcudnn.so.9 [0]: normal symbol `cudnnSetStream'",
                "binding file ./a b [0] to /lib/libc.so.6 [0]: normal symbol `malloc' [GLIBC_2.2.5]",
                "binding file ./a b [0] to /lib/libx.so [0]: normal symbol `cudnnOfSomeoneElse'",
                "half a line `",
            ],
            None,
        );
        assert_eq!(bindings.ours, ["cudnnCreate", "cudnnDestroy"].map(String::from).into());
        assert_eq!(past(&bindings), [("/c/libcudnn.so.9".into(), vec!["cudnnSetStream"])]);
        assert_eq!(bindings.real, None);
    }

    #[test]
    fn the_library_s_own_search_is_told_from_the_program_s() {
        let version = "binding file /c/libcudnn.so.9 [0] to /c/libcudnn.so.9 [0]: normal symbol `cudnnGetVersion'";
        let create = "binding file /c/libcudnn.so.9 [0] to /c/libcudnn.so.9 [0]: normal symbol `cudnnCreate'";
        let lacks = "/c/libcudnn.so.9: error: symbol lookup error: undefined symbol: ucudnnGetVersion (fatal)";
        let own = [version, lacks, version, create];
        let bindings = read(&own, None);
        assert!(bindings.ours.is_empty() && bindings.past.is_empty(), "{bindings:?}");
        assert_eq!(bindings.real, Some("/c/libcudnn.so.9".into()));
        let file = || "/c/libcudnn.so.9".to_owned();
        assert_eq!(past(&read(&[&own[..], &[create]].concat(), None)), [(file(), vec!["cudnnCreate"])]);
        assert_eq!(past(&read(&[version], None)), [(file(), vec!["cudnnGetVersion"])]);
    }

    #[test]
    fn libtorch_is_looked_into() {
        let own = "binding file /t/libtorch_cpu.so [0] to /t/libtorch_cpu.so [0]: normal symbol";
        let loaded = "binding file ./a [0] to /t/libtorch_cpu.so [0]: normal symbol `x'";
        let taken = format!("{own} `aoti_torch_get_data_ptr'");
        let looked = format!("{own} `aoti_torch_library_init_impl'");
        let lacks =
            |symbol| format!("/t/libtorch_cpu.so: error: symbol lookup error: undefined symbol: {symbol} (fatal)");
        let (needed, optional) = (lacks("torch_list_size"), lacks("_ZN3c1012WarningUtils14get_warnAlwaysEv"));
        let found = |lines: &[&str]| read(lines, None).libtorch;
        assert_eq!(found(&[]), Libtorch::Absent);
        assert_eq!(found(&[loaded, &taken]), Libtorch::Loaded);
        assert_eq!(found(&[&taken, &looked, &optional, loaded]), Libtorch::Complete);
        assert_eq!(found(&[&looked, &needed, &taken]), Libtorch::Lacks("torch_list_size".into()));
        assert_eq!(
            found(&["/t/libother.so: error: symbol lookup error: undefined symbol: torch_list_size (fatal)"]),
            Libtorch::Absent
        );
    }

    #[test]
    fn a_disguised_library_is_ours() {
        let to = "to /l/libucudnn.so [0]: normal symbol `cudnnGetVersion'";
        let disguised = format!("binding file /d/libcudnn.so.9 [0] {to}");
        assert_eq!(read(&[&disguised], Some("/d/libcudnn.so.9")).ours.len(), 1);
        assert!(read(&[&disguised], None).ours.is_empty());
        // Opened by a link of cuDNN's name; once for the library's own look at itself.
        let opened = format!("binding file /l/libucudnn.so [0] {to}");
        let own = "binding file /l/libucudnn.so [0] to /l/libucudnn.so [0]: normal symbol `ucudnnGetVersion'";
        assert_eq!(read(&[&opened], None).ours.len(), 1);
        assert!(read(&[&opened, own], None).ours.is_empty());
    }
}
