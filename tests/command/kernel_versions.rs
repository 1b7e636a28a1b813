//! `ucudnn kernels`, and the notice of `make check`: the families of kernels that have changed since a GPU saw them.

use std::path::Path;
use std::process::Command;

use guest::testing::skip;

use super::Installed;

const FAMILIES: [&str; 4] = ["convolution", "dynamic", "norm", "recurrent"];

/// The notices of a ledger with these versions.
fn notices(ucudnn: &Installed, versions: &[(String, String)]) -> Option<String> {
    let table = |(family, version): &(String, String)| {
        format!(
            "[{family}]\nversion = \"{version}\"\ngpu = \"NVIDIA H200\"\ndate = \"2026-11-27\"\ncases = 9\nseeds = [1]\n"
        )
    };
    ucudnn.file("verified.toml", &versions.iter().map(table).collect::<String>());
    let ledger = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/ledger.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(ledger).args([ucudnn.path("bin/ucudnn"), ucudnn.path("verified.toml")]);
    let Ok(output) = command.output() else {
        skip("there is no python3");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn only_a_family_that_has_changed_since_a_gpu_saw_it_is_named() {
    let ucudnn = Installed::new("kernel-versions");
    let said = ucudnn.run(&["kernels"]);
    let now: Vec<(String, String)> =
        said.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
    assert_eq!(now.iter().map(|(family, _)| &**family).collect::<Vec<_>>(), FAMILIES, "{said}");
    let Some(unchanged) = notices(&ucudnn, &now) else { return };
    assert_eq!(unchanged, "");
    let mut before = now.clone();
    before[1].1 = "0123456789abcdef".into();
    let said = notices(&ucudnn, &before).unwrap();
    assert!(said.starts_with("notice: the kernels of dynamic have changed since 2026-11-27"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(notices(&ucudnn, &[]).unwrap().lines().count(), FAMILIES.len());
}
