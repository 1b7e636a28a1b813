//! `include/ucudnn.h` and `hostdnn/include/cudnn.h` are up to date with their sources. `make header` writes them anew:
//! it runs these tests with `UCUDNN_UPDATE_HEADERS` set.

use std::path::Path;

#[test]
fn ucudnn_h_is_up_to_date() {
    // And the modules that it names.
    is_up_to_date(".", &["src/ucudnn/mod.rs", "crates/dynamic/src/c/types.rs"], "include/ucudnn.h");
}

#[test]
fn cudnn_h_is_up_to_date() {
    is_up_to_date("hostdnn", &["crates/cudnn-abi/src/lib.rs", "hostdnn/src/abi/mod.rs"], "hostdnn/include/cudnn.h");
}

/// Compares the header with what cbindgen makes of the sources, by the `cbindgen.toml` of `package`. All paths begin at
/// the repository's root.
fn is_up_to_date(package: &str, sources: &[&str], header: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let config = cbindgen::Config::from_file(root.join(package).join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.iter().fold(builder, |builder, source| builder.with_src(root.join(source)));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join(header);
    if std::env::var_os("UCUDNN_UPDATE_HEADERS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{header} is out of date: run `make header`");
}
