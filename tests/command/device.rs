//! `ucudnn plan --device`: each problem's engines, on hostdnn, and on the real cuDNN for a GPU that may be absent.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Ended, HEADER, Installed, NETWORK, csv};
use crate::programs::{compile, real_cudnn, source};
use guest::testing::skip;
use serde_json::Value;

const H200: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/devices/h200.json");

fn plan(ucudnn: &Installed, search: &Path, arguments: &[&str]) -> Ended {
    let all = [&["plan", "--device"], arguments].concat();
    ucudnn.end(&all, &[("LD_LIBRARY_PATH", search.to_str().unwrap())])
}

fn succeeds(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    ended.stdout
}

fn json(ended: Ended) -> Value {
    let text = succeeds(ended);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The statements about each limit follow from the candidates: an engine is admitted at the largest micro-batch at
/// which one of its settings fits, and is missing if none fits.
fn limits_follow_from_offers(kernel: &Value) {
    let offers = list(kernel, "offers");
    for at_limit in list(kernel, "limits") {
        let limit = at_limit["limit"].as_u64().unwrap_or(u64::MAX);
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for offer in offers.iter().filter(|offer| number(offer, "workspace") <= limit) {
            let (engine, batch) = (number(offer, "engine"), number(offer, "batch"));
            match expected.iter_mut().find(|(known, _)| *known == engine) {
                Some((_, largest)) => *largest = batch.max(*largest),
                None => expected.push((engine, batch)),
            }
        }
        let told = list(at_limit, "engines").iter().map(|told| (number(told, "engine"), number(told, "batch")));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "limit {limit} of {}", kernel["kernel"]);
    }
}

#[test]
fn engines_and_limits_on_hostdnn() {
    let ucudnn = Installed::new("device");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let cudnn = ucudnn.path("cudnn");
    let all = json(plan(&ucudnn, &cudnn, &[H200, "net.csv", "--limit", "0,100KiB,none", "--json"]));
    assert_eq!(all["device"], "NVIDIA H200");
    let kernels = list(&all, "engines");
    assert_eq!(kernels.len(), 9);
    let mut divided = 0;
    for kernel in kernels {
        limits_follow_from_offers(kernel);
        let sizes = |offer: &Value| number(offer, "batch");
        let mut sizes: Vec<u64> = list(kernel, "offers").iter().map(sizes).collect();
        sizes.dedup();
        assert_eq!(sizes, [8, 4, 2, 1]);
        let limits = list(kernel, "limits");
        assert_eq!(
            (&limits[0]["limit"], &limits[1]["limit"], &limits[2]["limit"]),
            (&0.into(), &(100 << 10).into(), &Value::Null)
        );
        let whole = |at: &Value| list(at, "engines").iter().filter(|told| number(told, "batch") == 8).count();
        assert!(whole(&limits[0]) >= 1 && whole(&limits[0]) < whole(&limits[2]), "{kernel}");
        divided += list(&limits[1], "engines").iter().filter(|told| number(told, "batch") < 8).count();
    }
    assert!(divided > 0, "no limit admits an engine at a part of the batch alone");

    let table = succeeds(plan(&ucudnn, &cudnn, &[H200, "net.csv", "--layers", "conv1", "--directions", "F"]));
    let from = cudnn.join("libcudnn.so.9");
    for part in [
        "NVIDIA H200, cuDNN 9",
        " (hostdnn ",
        from.to_str().unwrap(),
        "conv1 F float 8x3x16x16 * 8x3x5x5",
        "8 images",
        "64 MiB",
        "engines undivided",
    ] {
        assert!(table.contains(part), "no {part:?} in:\n{table}");
    }
    let undivided = json(plan(&ucudnn, &cudnn, &[H200, "net.csv", "--sizes", "undivided", "--json"]));
    assert!(list(&undivided["engines"][0], "offers").iter().all(|offer| offer["batch"] == 8));
}

/// A wheel of cuDNN in the packages of the Python in PATH is found, as the library finds it in that Python.
#[test]
fn a_wheel_in_site_packages_is_found() {
    let ucudnn = Installed::new("device-wheel");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let python = ucudnn.file("env/bin/python3", "#!/bin/sh\n");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let wheel = ucudnn.path("env/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    std::fs::rename(ucudnn.path("cudnn/libcudnn.so.9"), &wheel).unwrap();
    let path = python.parent().unwrap().to_str().unwrap();
    let arguments = ["plan", "--device", H200, "net.csv", "--layers=conv1", "--directions=F"];
    let ended = ucudnn.end(&arguments, &[("PATH", path)]);
    // A library that we choose is loaded by its real path.
    let loaded = wheel.canonicalize().unwrap();
    if ended.code == Some(0) && !ended.stdout.contains(loaded.to_str().unwrap()) {
        return skip("the loader finds a cuDNN");
    }
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let ucudnn = Installed::new("device-errors");
    ucudnn.file("net.csv", &csv(&NETWORK));
    let cudnn = ucudnn.path("cudnn");
    let complains = |code: i32, search: &Path, arguments: &[&str], parts: &[&str]| {
        let ended = plan(&ucudnn, search, arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}\n{}\n{}", ended.stdout, ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?}: no {part:?} in:\n{}", ended.stderr);
        }
    };
    let nowhere = ucudnn.path("empty/x").parent().unwrap().to_owned();
    complains(1, &nowhere, &[H200, "net.csv"], &["there is no cuDNN to ask", "--cudnn-library"]);
    complains(1, &cudnn, &["none.json", "net.csv"], &["none.json: No such file"]);
    ucudnn.file("cut.json", "{\"deviceName\": \"NVIDIA H");
    complains(1, &cudnn, &["cut.json", "net.csv"], &["cut.json: it is not JSON", "line 1"]);
    ucudnn.file("other.json", "{\"name\": \"NVIDIA H200\"}");
    complains(1, &cudnn, &["other.json", "net.csv"], &["other.json: it has no \"deviceName\"", "h200.json"]);
    complains(2, &cudnn, &[H200, "net.csv", "--total", "1MiB"], &["--device", "--total"]);
    complains(2, &cudnn, &[H200, "net.csv", "--limit", "lots"], &["--limit", "lots", "none"]);
    ucudnn.file("bad.csv", &format!("{HEADER}\nnet,a,1,8,3,16,16,8,50,50,0,0,1,1,1,1,1\n"));
    complains(1, &cudnn, &[H200, "bad.csv"], &["bad.csv:2:"]);
    // A library without a graph API, and one of an older major version.
    for (version, why) in [(91_900, "does not take its device properties"), (8_907, "8: 9 is needed")] {
        let fake = ucudnn.path(&format!("{version}/libcudnn.so.9"));
        let options = ["-shared".into(), "-fPIC".into(), format!("-DVERSION={version}")].map(OsString::from);
        compile(&fake, options.into_iter().chain([source("fake_cudnn.c").into()]));
        complains(1, &nowhere, &[H200, "net.csv", "--cudnn-library", fake.to_str().unwrap()], &[why]);
    }
}

#[test]
fn an_h200_on_the_real_library() {
    if real_cudnn().is_none() {
        return;
    }
    let ucudnn = Installed::new("device-real");
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let networks = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/networks");
    let network = |name: &str| networks.join(name).to_str().unwrap().to_owned();
    let asked = |network: &str, arguments: &[&str]| {
        json(plan(&ucudnn, Path::new(&path), &[&[H200, network, "--json"], arguments].concat()))
    };
    let conv2 = asked(&network("alexnet.csv"), &["--batch=256", "--layers=conv2", "--directions=F", "--limit=0,8MiB"]);
    let kernel = &conv2["engines"][0];
    limits_follow_from_offers(kernel);
    let on_cores = |offer: &&Value| list(offer, "notes").contains(&"tensor-core".into());
    let least = |batch: u64| {
        let offers = list(kernel, "offers").iter().filter(on_cores).filter(|offer| number(offer, "batch") == batch);
        offers.map(|offer| number(offer, "workspace") >> 20).min()
    };
    assert_eq!((least(256), least(32)), (Some(46), Some(6)));
    let limits = list(kernel, "limits");
    let engines = |at: &Value| list(at, "engines").len();
    assert!(engines(&limits[0]) > 0 && engines(&limits[0]) < engines(&limits[1]));

    let backward = |only: &[&str]| {
        let all = asked(&network("alexnet.csv"), &[&["--layers=conv2", "--directions=BF"], only].concat());
        let offers = list(&all["engines"][0], "offers").iter();
        let (random, exact): (Vec<_>, Vec<_>) =
            offers.cloned().partition(|offer| list(offer, "notes").contains(&"nondeterministic".into()));
        (random.len(), exact.len())
    };
    let (all, only) = (backward(&[]), backward(&["--deterministic"]));
    assert!(all.0 > 0 && only == (0, all.1), "{all:?} {only:?}");

    // Every problem of a network has engines, and so has BackwardFilter that adds to its result.
    let all = asked(&network("resnet18.csv"), &["--batch=32", "--type=half", "--format=nhwc"]);
    assert_eq!(all["device"], "NVIDIA H200");
    assert_eq!(list(&all, "engines").len(), 33);
    list(&all, "engines").iter().for_each(limits_follow_from_offers);
}
