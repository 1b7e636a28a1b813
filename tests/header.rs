//! `include/ucudnn.h` is up to date with its source.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let source = root.join("src/ucudnn/mod.rs"); // and the modules that it names
    let builder = cbindgen::Builder::new().with_config(config).with_src(source);
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/ucudnn.h");
    if std::env::var_os("UCUDNN_UPDATE_HEADERS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "{} is out of date: run `make header`", path.display());
}
