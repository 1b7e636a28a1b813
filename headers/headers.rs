//! `include/ucudnn.h` and `hostdnn/include/cudnn.h` are up to date with their sources. `make header` writes them anew:
//! it runs these tests with `UCUDNN_UPDATE_HEADERS` set.

use std::collections::HashMap;
use std::path::Path;

#[test]
fn ucudnn_h_is_up_to_date() {
    // And the modules that it names.
    is_up_to_date(".", &["src/ucudnn/mod.rs", "crates/dynamic/src/c/types.rs"], "include/ucudnn.h");
}

/// cbindgen does not look into the table of prototypes, so it gets what hostdnn's macros make of it.
#[test]
fn cudnn_h_is_up_to_date() {
    let prototypes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prototypes.rs");
    std::fs::write(&prototypes, exported_prototypes()).unwrap();
    let sources = ["crates/cudnn-abi/src/lib.rs", prototypes.to_str().unwrap(), "hostdnn/src/abi/mod.rs"];
    is_up_to_date("hostdnn", &sources, "hostdnn/include/cudnn.h");
}

/// The functions of the table in `cudnn-abi`, each below the comment on its implementation in hostdnn.
fn exported_prototypes() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = std::fs::read_to_string(root.join("crates/cudnn-abi/src/prototypes.rs")).unwrap();
    let comments = comments(&root.join("hostdnn/src/abi"));
    let (_, rows) = table.split_once("$callback! {").unwrap();
    let function = |row: &str| {
        let (head, arguments) = row.rsplit_once('{')?;
        let name = head.split_whitespace().find(|word| word.starts_with("cudnn"))?;
        let comment = comments.get(name).map_or("", String::as_str);
        Some(format!("{comment}#[no_mangle]\npub extern \"C\" fn {name}({arguments}) -> cudnnStatus_t {{}}\n"))
    };
    rows.split('}').filter_map(function).collect()
}

/// The comment above each `impl Answer for cudnn…` in a folder.
fn comments(folder: &Path) -> HashMap<String, String> {
    let mut comments = HashMap::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let mut comment = String::new();
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let name = line.strip_prefix("impl Answer for ").and_then(|rest| rest.strip_suffix(" {"));
            match name {
                _ if line.starts_with("///") => comment += &format!("{line}\n"),
                Some(name) => drop(comments.insert(name.to_owned(), std::mem::take(&mut comment))),
                None => comment.clear(),
            }
        }
    }
    comments
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
