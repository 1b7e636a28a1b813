//! The arrows between crates, and between the files of each crate, go one way.

use std::process::Command;

use guest::testing::skip;

#[test]
fn arrows_go_one_way() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("there is no python3");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/check_layers.py");
    let checked = Command::new("python3").args(["-B", script]).env("CARGO", env!("CARGO")).output().unwrap();
    let [said, complained] = [&checked.stdout, &checked.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(checked.status.success(), "\n{said}{complained}");
}
