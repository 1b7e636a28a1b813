//! Makes a Rust module for each family of kernels.

mod families;
mod hash;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use families::{FAMILIES, Family, text};

fn main() {
    println!("cargo::rerun-if-changed=.");
    let mut code = String::new();
    for (name, host_code) in FAMILIES {
        for path in host_code {
            println!("cargo::rerun-if-changed={path}");
        }
        let family = Family::new(name, host_code, &text);
        let sources: String = family.sources.iter().map(|(source, headers)| constant(source, headers)).collect();
        writeln!(
            code,
            "/// The family `{name}`.\npub mod {name} {{\nuse super::KernelSource;\n/// Its version.\n\
             pub const VERSION: &str = \"{:016x}\";\n{sources}}}",
            family.version
        )
        .expect("a string takes all that is written");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names OUT_DIR"));
    fs::write(out.join("families.rs"), code).expect("OUT_DIR can be written");
}

/// The constant that stands for a source: `BACKWARD_FILTER` for `convolution/backward_filter.cu`.
fn constant<'a>(source: &Path, headers: impl IntoIterator<Item = &'a PathBuf>) -> String {
    let (name, headers): (_, String) = (source.display(), headers.into_iter().map(|header| entry(header)).collect());
    let constant = source.file_stem().expect("a file").to_string_lossy().to_uppercase();
    format!(
        "/// `{name}`.\npub const {constant}: KernelSource = \
         KernelSource {{ name: \"{name}\", text: include_str!({:?}), headers: &[{headers}] }};\n",
        absolute(source)
    )
}

fn entry(header: &Path) -> String {
    format!("({:?}, include_str!({:?})),", header.display().to_string(), absolute(header))
}

fn absolute(file: &Path) -> PathBuf {
    file.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
