//! The finished `libucudnn.so`: its exports, its name and the libraries that it needs.

use std::collections::BTreeSet;
use std::path::Path;

use crate::programs::{library, real_cudnn};
use cudnn_abi::symbols::Symbol;
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol, elf};

/// Functions that cuDNN dropped before 9, and that libucudnn.so answers for older programs.
const PRE_V8: [&str; 3] = [
    "cudnnGetConvolutionForwardAlgorithm",
    "cudnnGetConvolutionBackwardDataAlgorithm",
    "cudnnGetConvolutionBackwardFilterAlgorithm",
];

/// Libraries that a C program, and so a process that preloads libucudnn.so, has in any case. The last two are the
/// dynamic linker, for thread-local variables.
const MAY_NEED: [&str; 5] =
    ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

fn exports(file: &Path) -> BTreeSet<String> {
    let data = std::fs::read(file).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    // A version's own name is an absolute symbol.
    let defined = defined.filter(|symbol| symbol.section() != object::SymbolSection::Absolute);
    defined.map(|symbol| symbol.name().unwrap().to_owned()).collect()
}

fn listed() -> BTreeSet<String> {
    Symbol::ALL.iter().map(|symbol| symbol.name().to_str().unwrap().to_owned()).collect()
}

fn difference(one: &BTreeSet<String>, other: &BTreeSet<String>) -> Vec<String> {
    one.difference(other).cloned().collect()
}

#[test]
fn exports_the_list_and_our_own_functions_and_nothing_else() {
    let exports = exports(&library());
    assert_eq!(difference(&listed(), &exports), [""; 0], "not exported");
    let others = difference(&exports, &listed());
    let strays = others.iter().filter(|name| !name.starts_with("ucudnn") && !PRE_V8.contains(&name.as_str()));
    assert_eq!(strays.collect::<Vec<_>>(), [""; 0], "exported, but not in the list");
    for name in PRE_V8 {
        assert!(exports.contains(name), "{name} is not exported");
    }
}

#[test]
fn every_export_is_a_function() {
    let data = std::fs::read(library()).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    for symbol in defined {
        let (name, kind) = (symbol.name().unwrap(), symbol.kind());
        assert_eq!(kind, object::SymbolKind::Text, "{name}");
        assert!(symbol.size() > 0, "{name} has no size: debuggers do not know where it ends");
    }
}

#[test]
fn the_list_holds_each_function_once() {
    assert_eq!(listed().len(), Symbol::ALL.len());
    for (index, symbol) in Symbol::ALL.iter().enumerate() {
        assert_eq!(*symbol as usize, index);
    }
}

#[test]
fn the_list_is_the_real_library_s() {
    if let Some(folder) = real_cudnn() {
        let real = exports(&folder.join("libcudnn.so.9"));
        assert!(real.len() > 200, "that is no cuDNN 9: it exports {} symbols", real.len());
        let missing = difference(&real, &listed());
        assert_eq!(missing, [""; 0], "functions of the real library that we do not know");
        assert_eq!(difference(&real, &exports(&library())), [""; 0]);
    }
}

#[test]
fn is_called_libucudnn_and_needs_only_what_every_process_has() {
    let data = std::fs::read(library()).unwrap();
    let header = elf::FileHeader64::<Endianness>::parse(&*data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*data).unwrap();
    let (entries, strings) = sections.dynamic(endian, &*data).unwrap().unwrap();
    let strings = sections.strings(endian, &*data, strings).unwrap();
    let mut sonames = Vec::new();
    for entry in entries {
        let offset = entry.d_val(endian) as u32;
        let text = || String::from_utf8(strings.get(offset).unwrap().to_vec()).unwrap();
        match entry.d_tag(endian) {
            elf::DT_NEEDED => assert!(MAY_NEED.contains(&text().as_str()), "needs {}", text()),
            elf::DT_SONAME => sonames.push(text()),
            elf::DT_RPATH | elf::DT_RUNPATH => panic!("has a search path of its own: {}", text()),
            elf::DT_TEXTREL => panic!("has relocations in its code"),
            _ => {}
        }
    }
    assert_eq!(sonames, ["libucudnn.so"]);
}
