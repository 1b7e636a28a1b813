//! Recurrent networks in the command: timed ahead of time, reported, listed.

use super::{Ended, Installed};
use crate::hostdnn::has_emulator;
use serde_json::{Value, json};

const NETWORKS: &str = r#"[{"cell": "LSTM", "input": 5, "hidden": 16, "steps": 3, "batch": [1, 2]},
                           {"cell": "GRU", "hidden": 8, "steps": 2, "type": "half", "layers": 2, "full": false, "batch": 3}]"#;

impl Installed {
    /// Tunes recurrent networks on hostdnn, whatever a program's settings for them.
    pub fn tune(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let search = self.path("cudnn").to_str().unwrap().to_owned();
        let programs = [("LD_LIBRARY_PATH", &*search), ("UCUDNN_RNN", "off"), ("UCUDNN_RNN_TRAINING", "off")];
        self.end(&[&["tune"], arguments].concat(), &[&programs, variables].concat())
    }
}

/// Tunes into a database in the folder.
fn tune(ucudnn: &Installed, arguments: &[&str]) -> Ended {
    ucudnn.tune(&[&["--database", "t.sqlite"], arguments].concat(), &[])
}

fn networks(ucudnn: &Installed) -> Vec<Value> {
    let listed = ucudnn.json(&["db", "list", "--kernels", "--json", "--database", "t.sqlite"]);
    assert_eq!(listed["environments"].as_array().unwrap().len(), 1);
    listed["environments"][0]["networks"].as_array().unwrap().clone()
}

#[test]
fn networks_are_timed_ahead_and_once() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-rnn");
    ucudnn.file("net.json", NETWORKS);
    let arguments = ["--rnn", "net.json", "--rnn", "tanh hidden=8 steps=2", "--top-k", "2"];
    let first = tune(&ucudnn, &arguments);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    for row in ["LSTM 5→16, float, batch 1,", "LSTM 5→16, float, batch 2,", "GRU 8→8 ×2, half, batch 3,", "tanh 8→8"]
    {
        assert!(first.stdout.contains(row), "{}", first.stdout);
    }
    assert!(first.stdout.contains("The model's first choice took"), "{}", first.stdout);
    assert!(first.stdout.contains("4 networks timed"), "{}", first.stdout);
    assert!(first.stderr.contains("4/4 tanh 8→8"), "{}", first.stderr);
    let known = networks(&ucudnn);
    assert_eq!(known.len(), 4);
    for network in &known {
        let times = network["times"].as_array().unwrap();
        assert!(times.len() == 3 && times.iter().any(|time| time["what"] == "cuDNN"), "{network}");
        assert!(times.iter().all(|time| time["step_ms"].as_f64().is_some_and(|time| time > 0.0)), "{network}");
    }
    let listed = ucudnn.run(&["db", "list", "--kernels", "--database", "t.sqlite"]);
    assert!(listed.contains("RNNs") && listed.contains("GRU 8→8 ×2, half, batch 3"), "{listed}");
    // The command times only networks without a known time, whether a report or an option names them.
    ucudnn.file(
        "run.jsonl",
        &known
            .iter()
            .map(|known| format!("{}\n", json!({ "event": "rnn", "spec": known["spec"] })))
            .collect::<String>(),
    );
    let again = tune(&ucudnn, &["--rnn", "run.jsonl", "--top-k", "2"]);
    assert!(again.code == Some(0) && again.stdout.contains("0 networks timed"), "{}\n{}", again.stdout, again.stderr);
    assert_eq!(again.stdout.matches("known from before").count(), 4, "{}", again.stdout);
    let more = tune(&ucudnn, &["--rnn", "run.jsonl", "--rnn", "ReLU hidden=8 steps=2", "--top-k", "2"]);
    assert!(more.stdout.contains("1 network timed"), "{}", more.stdout);
    // A larger number of configurations is requested.
    let more = tune(&ucudnn, &["--rnn", "tanh hidden=8 steps=2", "--top-k", "3"]);
    assert!(more.stdout.contains("1 network timed"), "{}", more.stdout);
    // A copy through the exported text has the same contents.
    let text = ucudnn.run(&["db", "export", "--database", "t.sqlite"]);
    ucudnn.file("all.jsonl", &text);
    ucudnn.run(&["db", "import", "all.jsonl", "--database", "copy.sqlite"]);
    assert_eq!(ucudnn.run(&["db", "export", "--database", "copy.sqlite"]), text);
}

/// Forward and the gradients of data run by cuDNN, by two kernels and by one launch a step; the gradients of weights by
/// cuDNN and by our side.
#[test]
fn training_is_timed_ahead_and_once() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-training");
    let words = "LSTM input=5 hidden=16 steps=3 batch=2 layers=2 directions=2 layout=packed padded=no full=no";
    let arguments = ["--rnn", &format!("{words} training=yes"), "--rnn", words, "--top-k", "2"];
    let first = tune(&ucudnn, &arguments);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert!(first.stdout.starts_with("1 recurrent network\n"), "{}", first.stdout);
    assert!(first.stdout.contains("1 recurrent network in training, "), "{}", first.stdout);
    assert!(first.stdout.contains("2 networks timed"), "{}", first.stdout);
    assert!(first.stderr.contains("1/2 LSTM 5→16") && first.stderr.contains(", training: "), "{}", first.stderr);
    let known = networks(&ucudnn);
    let counts = ["forward-training", "backward-data", "backward-weights"].map(|pass| {
        let of = |known: &&Value| known["spec"].as_str().unwrap().ends_with(&format!(" pass={pass}"));
        let [network] = &known.iter().filter(of).collect::<Vec<_>>()[..] else { panic!("{known:?}") };
        assert!(network["rnn"].as_str().unwrap().ends_with(&format!(", {pass}")), "{network}");
        let times = network["times"].as_array().unwrap();
        assert!(times.iter().all(|time| time["step_ms"].as_f64().is_some_and(|time| time > 0.0)), "{network}");
        times.len()
    });
    assert_eq!((counts, known.len()), ([4, 4, 2], 4));
    let again = tune(&ucudnn, &arguments);
    assert!(again.code == Some(0) && again.stdout.contains("0 networks timed"), "{}\n{}", again.stdout, again.stderr);
    let table = |text: &str| text.lines().filter(|line| line.contains("LSTM")).map(str::to_owned).collect::<Vec<_>>();
    assert!(table(&again.stdout).iter().all(|row| row.contains("known from before")), "{}", again.stdout);
    let cells = |text: &str| -> Vec<String> {
        table(text).iter().map(|row| row.trim_end_matches("known from before").trim_end().to_owned()).collect()
    };
    assert_eq!(cells(&again.stdout), cells(&first.stdout));
    // A copy through the exported text has the same contents.
    let text = ucudnn.run(&["db", "export", "--database", "t.sqlite"]);
    ucudnn.file("all.jsonl", &text);
    ucudnn.run(&["db", "import", "all.jsonl", "--database", "copy.sqlite"]);
    assert_eq!(ucudnn.run(&["db", "export", "--database", "copy.sqlite"]), text);
}

/// cuDNN and one launch a time step are left, in all calls.
#[test]
fn kernels_that_cannot_be_launched_do_not_end_the_timing() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-launch");
    let arguments = ["--rnn", "GRU hidden=8 steps=2 training=yes", "--top-k", "2", "--database", "t.sqlite"];
    let ended = ucudnn.tune(&arguments, &[("UCUDNN_FAULT", "launch")]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let known = networks(&ucudnn);
    assert_eq!(known.len(), 3);
    for (network, fail) in known.iter().zip([2, 0, 2]) {
        let times = network["times"].as_array().unwrap();
        let (timed, failed): (Vec<_>, Vec<_>) = times.iter().partition(|time| time["step_ms"].is_number());
        assert_eq!((timed.len(), failed.len()), (2, fail), "{network}");
    }
}

/// These networks are enough for the performance model to learn from.
#[test]
fn the_model_learns_from_what_was_timed() {
    if !has_emulator() {
        return;
    }
    let ucudnn = Installed::new("tune-rnn-model");
    let ended = tune(&ucudnn, &["--rnn", "LSTM hidden=16 steps=2 batch=1,2,4", "--top-k", "5"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let database = rusqlite::Connection::open(ucudnn.path("t.sqlite")).unwrap();
    let constants = |query: &str| database.query_row(query, [], |row| row.get::<_, String>(0));
    // The model keeps new constants only if they choose no worse; with another machine's times they would.
    let fitted = constants("SELECT constants FROM models");
    if let Ok(constants) = &fitted {
        assert!(constants.starts_with("efficiency=") && constants.split(' ').count() > 5, "{constants}");
    }
    // The next process runs whatever the database contains.
    database
        .execute_batch(
            "DELETE FROM timings; DELETE FROM models;
             INSERT INTO models SELECT id, 'recurrent', 'x', 'efficiency=nonsense', 1 FROM environments",
        )
        .unwrap();
    let ended = tune(&ucudnn, &["--rnn", "LSTM hidden=16 steps=2", "--top-k", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let ucudnn = Installed::new("tune-rnn-errors");
    for (arguments, code, why) in [
        (&["--rnn", "LSTM hidden=8"][..], 2, "--rnn: steps is missing"),
        (&["--rnn", "no-such.json"], 2, "no-such.json"),
        (&["--rnn", "LSTM hidden=8 steps=2", "--batch", "4"], 2, "options of a CSV file's layers"),
        (&["--rnn", "LSTM hidden=8 steps=2", "net.csv"], 2, "cannot be used with"),
        (&["--rnn", "LSTM hidden=8 steps=2", "--top-k", "0"], 2, "--top-k"),
        (&["--top-k", "3", "net.csv"], 2, "--rnn"),
        (&[], 2, "required"),
        (&["--rnn", "LSTM hidden=8 steps=2 type=double"], 1, "its type is double"),
        (&["--rnn", "LSTM hidden=9999 steps=2 type=half"], 1, "nothing fits on the device"),
    ] {
        let ended = tune(&ucudnn, arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}\n{}", ended.stderr);
        assert!(ended.stderr.contains(why), "{arguments:?}\n{}", ended.stderr);
    }
}

fn line(network: &str, chosen: &str, why: &str, times: &[(&str, Option<f64>)]) -> String {
    let times: Vec<_> = times.iter().map(|(what, time)| json!({ "what": what, "step_ms": time })).collect();
    let line = json!({
        "event": "rnn", "rnn": network, "spec": network, "chosen": chosen, "why": why, "first": "grid u8",
        "times": times,
    });
    format!("{line}\n")
}

#[test]
fn a_report_shows_networks_that_train() {
    let ucudnn = Installed::new("report-trained");
    let line = |forward| {
        let times = |what: &str, time| json!([{ "what": "cuDNN", "step_ms": 0.01 }, { "what": what, "step_ms": time }]);
        json!({
            "event": "rnn-training", "rnn": "LSTM 5→64", "spec": "LSTM 5→64", "forward": forward,
            "backward": "cluster u8", "why": "timed in place",
            "times": { "forward": times(forward, 0.002), "data": times("cluster u8", 0.003), "weights": [] },
        })
    };
    ucudnn
        .file("r.jsonl", &format!("{}\n{}\n{{\"event\":\"rnn-training\",\"rnn\":3}}\n", line("step"), line("grid u4")));
    let Ended { stdout, stderr, code, .. } = ucudnn.end(&["report", "r.jsonl"], &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("r.jsonl:3: ") && stderr.contains("left out"), "{stderr}");
    assert!(stdout.starts_with("1 recurrent network in training, 1 on kernels of ours\n"), "{stdout}");
    let row = stdout.lines().find(|line| line.starts_with("LSTM 5→64")).unwrap();
    let cells = ["grid u4", "cluster u8", " 5.00", "20.0", "4.00×", "timed in place"];
    assert!(cells.iter().all(|cell| row.contains(cell)), "{row}");
    let json = &ucudnn.json(&["report", "r.jsonl", "--json"])["trained"][0];
    assert_eq!((&json["forward"], &json["times"]["data"][1]["step_ms"]), (&"grid u4".into(), &0.003.into()));
    assert_eq!((&json["step_ms"], &json["cudnn_step_ms"]), (&0.005.into(), &0.02.into()));
}

#[test]
fn a_report_shows_networks() {
    let ucudnn = Installed::new("report-rnn");
    let times = [("cuDNN", Some(0.003)), ("grid u8", Some(0.0015)), ("grid u4", Some(0.001)), ("block", None)];
    let lines = line("LSTM 5→64", "cuDNN", "no compiler", &[])
        + &line("LSTM 5→64", "grid u4", "timed in place", &times)
        + &line("GRU 5→64", "cuDNN", "known from before", &times[..2]);
    ucudnn.file("r.jsonl", &(lines.clone() + "{\"event\":\"of a version to come\"}\n{\"event\":\"rnn\",\"rnn\":3}\n"));
    let Ended { stdout, stderr, code, .. } = ucudnn.end(&["report", "r.jsonl"], &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("r.jsonl:5: ") && stderr.contains("left out"), "{stderr}");
    assert!(stdout.starts_with("2 recurrent networks\n"), "{stdout}");
    let row = stdout.lines().find(|line| line.starts_with("LSTM 5→64")).unwrap();
    assert!(
        ["grid u4", "1.00", "3.00", "3.00×", "1.50×", "timed in place"].iter().all(|cell| row.contains(cell)),
        "{row}"
    );
    assert!(stdout.contains("1 of 2 run on kernels of ours") && stdout.contains("known from before"), "{stdout}");
    assert!(stdout.contains("1 line of events that this version does not know"), "{stdout}");
    ucudnn.file("r.jsonl", &lines);
    let json = ucudnn.json(&["report", "r.jsonl", "--json"]);
    assert_eq!((json["rnns"].as_array().unwrap().len(), &json["unknown"]), (2, &0.into()));
    assert_eq!((&json["rnns"][0]["chosen"], &json["rnns"][0]["first_over_best"]), (&"grid u4".into(), &1.5.into()));
}
