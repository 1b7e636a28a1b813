//! The loader's own report of the symbols that it bound (`LD_DEBUG=bindings`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_abi::symbols::Symbol;

/// The cuDNN functions of a program, by the library that they were bound to.
#[derive(Debug, Default)]
pub struct Bindings {
    /// Those bound to libucudnn.so.
    pub ours: BTreeSet<String>,
    /// Those bound past it, by the other library's file.
    pub past: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The cuDNN that libucudnn.so itself took functions from.
    pub real: Option<PathBuf>,
}

impl Bindings {
    /// Adds the lines of one process. `library` is libucudnn.so.
    ///
    /// cuDNN's libraries bind functions among themselves, and libucudnn.so takes functions from cuDNN. Both are no calls
    /// of the program.
    pub fn add(&mut self, text: &str, library: &Path) {
        for binding in text.lines().filter_map(Binding::read) {
            if !Symbol::ALL.iter().any(|symbol| symbol.name().to_bytes() == binding.symbol.as_bytes()) {
                continue;
            }
            let (from, to) = (same(binding.from, library), same(binding.to, library));
            let is_past = || !is_cudnn(binding.from);
            match (from, to) {
                (true, true) => {}
                (true, false) => self.real = Some(binding.to.into()),
                (false, true) if is_past() => _ = self.ours.insert(binding.symbol.into()),
                (false, false) if is_past() => {
                    self.past.entry(binding.to.into()).or_default().insert(binding.symbol.into());
                }
                (false, _) => {}
            }
        }
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

fn same(file: &str, library: &Path) -> bool {
    let file = Path::new(file);
    file == library || file.canonicalize().is_ok_and(|file| file == library)
}

/// Returns true for the files of cuDNN: libcudnn.so.9, libcudnn_graph.so.9 and the others.
fn is_cudnn(file: &str) -> bool {
    Path::new(file).file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("libcudnn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_own_calls_are_counted() {
        let text = "\
     7:\tbinding file ./a b [0] to /l/libucudnn.so [0]: normal symbol `cudnnCreate' [libcudnn.so.9]
     7:\tbinding file ./a b [0] to /l/libucudnn.so [0]: normal symbol `cudnnDestroy'
     7:\tbinding file /l/libucudnn.so [0] to /c/libcudnn.so.9 [0]: normal symbol `cudnnCreate'
     7:\tbinding file /l/libucudnn.so [0] to /l/libucudnn.so [0]: normal symbol `cudnnSetStream'
     7:\tbinding file /c/libcudnn_cnn.so.9 [0] to /c/libcudnn_ops.so.9 [0]: normal symbol `cudnnSetStream'
     7:\tbinding file ./a b [0] to /c/libcudnn.so.9 [0]: normal symbol `cudnnSetStream'
     7:\tbinding file ./a b [0] to /lib/libc.so.6 [0]: normal symbol `malloc' [GLIBC_2.2.5]
     7:\tbinding file ./a b [0] to /lib/libx.so [0]: normal symbol `cudnnOfSomeoneElse'
half a line `";
        let mut bindings = Bindings::default();
        bindings.add(text, Path::new("/l/libucudnn.so"));
        assert_eq!(bindings.ours, ["cudnnCreate", "cudnnDestroy"].map(String::from).into());
        let past: Vec<_> = bindings.past.into_iter().collect();
        assert_eq!(past, [("/c/libcudnn.so.9".into(), BTreeSet::from(["cudnnSetStream".to_owned()]))]);
        assert_eq!(bindings.real, Some("/c/libcudnn.so.9".into()));
    }
}
