//! `include/cudnn.h` is up to date with the sources, and C and C++ compilers accept it.

use crate::built;
use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config).with_src(root.join("../crates/cudnn-abi/src/lib.rs"));
    let builder = builder.with_src(root.join("src/abi/mod.rs")); // and the modules that it names
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/cudnn.h");
    if std::env::var_os("UCUDNN_UPDATE_HEADERS").is_some() {
        // Atomically: the test beside this one reads the file.
        let new = path.with_extension("new");
        std::fs::write(&new, made).unwrap();
        std::fs::rename(new, &path).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{} is out of date: run this test with UCUDNN_UPDATE_HEADERS=1", path.display());
}

#[test]
fn compilers_take_the_header() {
    let directory = built::scratch("header");
    for (compiler, source, standards) in
        [("gcc", "header.c", ["c99", "c11", "gnu17"]), ("g++", "header.cpp", ["c++11", "c++17", "gnu++20"])]
    {
        let source = directory.join(source);
        let text = "#include <cudnn.h>\n#include <cudnn.h>\nint main(void) { return CUDNN_VERSION != 91900; }\n";
        std::fs::write(&source, text).unwrap();
        for standard in standards {
            let mut command = Command::new(compiler);
            command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
            command.arg("-I").arg(built::include()).arg(&source);
            built::succeed(&mut command);
        }
    }
}
