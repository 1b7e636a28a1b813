//! Findings about graphs in running programs are reported, kept, and known at the next start.

use std::collections::HashMap;

use serde_json::{Value, json};

use convolution::engines::{ENGINES, Numerics, Row};

use super::program;
use crate::hostdnn::{report, seed};

fn events<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Problems, and the configuration found for each.
fn found(lines: &[Value]) -> HashMap<String, String> {
    let pair = |line: &Value| (text(line, "spec").to_owned(), text(line, "division").to_owned());
    events(lines, "ran").into_iter().map(pair).collect()
}

/// A second process starts with the first one's findings, and measures nothing again.
#[test]
fn what_was_explored_is_known_at_the_next_start() {
    // Eight problems with one plan each.
    let program = program("graph_promises");
    let database = program.file("database");
    let run = |name: &str| {
        let decisions = program.file(name);
        let variables = [
            ("UCUDNN_DATABASE", database.to_str().unwrap()),
            ("UCUDNN_WORKSPACE_LIMIT", "20000"),
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ];
        assert_eq!(program.preloaded(&["elsewhere", "400"], &variables).stderr, "");
        report(&decisions)
    };
    let (first, second) = (run("first"), run("second"));
    let (known, again) = (found(&first), found(&second));
    assert!(known.len() >= 5 && events(&first, "timed").len() > 20, "{known:?}");
    for (kernel, division) in &known {
        assert_eq!(again.get(kernel), Some(division), "{kernel}");
    }
    // Problems that had not settled when the first process ended continue.
    for line in events(&second, "timed") {
        assert!(!known.contains_key(text(line, "spec")), "measured anew: {line}");
    }
}

/// A problem that is executed once is not explored. One that comes again is, also where there is one image, which no
/// micro-batches can share.
#[test]
fn what_comes_again_is_explored() {
    let program = program("graph_half_sums");
    for images in ["1", "3"] {
        let explored = |executions: &str| {
            let decisions = program.file(&format!("of-{images}-{executions}"));
            program.preloaded(&["half", executions, images], &[("UCUDNN_REPORT", decisions.to_str().unwrap())]);
            let is_of_images = |line: &Value| text(line, "kernel").starts_with(&format!("BF half {images}x6x"));
            let lines = report(&decisions);
            let found = events(&lines, "exploring");
            assert!(found.iter().all(|line| is_of_images(line)), "{found:?}");
            found.len()
        };
        assert_eq!([explored("1"), explored("200")], [0, 1], "{images}");
    }
}

/// Report lines about graphs have the same fields as those about legacy problems.
#[test]
fn reports_tell_of_graphs() {
    let program = program("graph_random");
    let decisions = program.file("report");
    let variables = [("UCUDNN_WORKSPACE_LIMIT", "20000"), ("UCUDNN_REPORT", decisions.to_str().unwrap())];
    program.preloaded(&["6", "12"], &variables);
    let lines = report(&decisions);
    let (timed, ran) = (events(&lines, "timed"), events(&lines, "ran"));
    assert!(timed.len() > 20 && ran.len() >= 3, "{} timed, {} ran", timed.len(), ran.len());
    // The line about the start of exploring comes before the problem's line about the findings.
    let begun = |ran: &Value| {
        let begins = |line: &Value| ["event", "spec", "limit"].map(|name| line[name].clone());
        lines.iter().position(|line| begins(line) == [json!("exploring"), ran["spec"].clone(), ran["limit"].clone()])
    };
    for line in &ran {
        let at = lines.iter().position(|other| std::ptr::eq(other, *line));
        assert!(begun(line).is_some_and(|begun| Some(begun) < at), "{line}");
    }
    for line in timed.iter().chain(&ran) {
        assert!(text(line, "spec").starts_with("graph "), "{line}");
        assert!(!text(line, "kernel").is_empty(), "{line}");
    }
    for line in timed {
        assert!(line["time_ms"].as_f64().unwrap() > 0.0 && line["batch"].as_u64().unwrap() > 0, "{line}");
        assert!(text(line, "algorithm").contains("ENGINE_"), "{line}");
    }
    for line in ran {
        let parts = line["parts"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let images: u64 = parts.iter().map(|part| number(&part["count"]) * number(&part["batch"])).sum();
        // F float 16x4x8x8 * ...
        let batch = text(line, "kernel").split([' ', 'x']).nth(2).unwrap();
        assert_eq!(images, batch.parse::<u64>().unwrap(), "{line}");
        assert!(number(&line["workspace"]) <= number(&line["limit"]) && line["time_ms"].as_f64().unwrap() > 0.0);
    }
}

/// Problems with channels first are also tried on copies with channels last, in every direction and type, and the
/// chosen configuration is right.
#[test]
fn copies_with_channels_last_are_tried() {
    let program = program("graph_random");
    let decisions = program.file("report");
    let variables = [("UCUDNN_REPORT", decisions.to_str().unwrap()), ("UCUDNN_CHECK", "1")];
    program.preloaded(&[&seed().to_string(), "120", "packed"], &variables);
    let lines = report(&decisions);
    let timed = events(&lines, "timed");
    let on_copies: Vec<_> = timed.iter().filter(|line| text(line, "algorithm").starts_with("NHWC_")).collect();
    for kind in [" F ", " BD ", " BF ", " half ", " float "] {
        let tried = on_copies.iter().filter(|line| format!(" {}", text(line, "kernel")).contains(kind)).count();
        assert!(tried > 0, "{kind}: {} of {} on copies", on_copies.len(), timed.len());
    }
    are_right(&lines);
}

/// Checks the comparisons with the program's own engines.
fn are_right(lines: &[Value]) {
    for line in events(lines, "checked") {
        let (error, tolerance) = (line["error"].as_f64().unwrap(), line["tolerance"].as_f64().unwrap());
        assert!(error <= tolerance, "{line}");
    }
}

/// If none of cuDNN's engines on tensor cores fits the limit, a stand-in runs from the first execution on, with right
/// results.
#[test]
fn our_engines_stand_in_until_the_choice() {
    let program = program("graph_random");
    let decisions = program.file("stand-in");
    let variables = [
        ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ("UCUDNN_CHECK", "1"),
        ("UCUDNN_NUMERICS", "any"),
        ("UCUDNN_WORKSPACE_LIMIT", "0"),
        ("UCUDNN_EXPLORE", "0"),
        ("UCUDNN_LOG", "warn,ucudnn_convolution::plans::graph::state=debug"),
    ];
    // Nothing is tried, so each execution is as the first.
    let outcome = program.preloaded(&[&seed().to_string(), "60", "ours", "4"], &variables);
    let lines = report(&decisions);
    assert!(!events(&lines, "checked").is_empty());
    are_right(&lines);
    let said = outcome.stderr.lines().filter(|line| line.contains("runs until the choice is made")).count();
    println!("{said} stand in");
    assert!(said >= 2, "{}", outcome.stderr);
}

/// The names of our engines that a program tried, each with the problem. All results are right. Of 32 cases, each kind
/// occurs.
fn tried(numerics: &str, limit: &str, cases: &str) -> Vec<(String, String)> {
    tried_of(numerics, limit, cases, seed())
}

/// The same of the cases of a seed.
fn tried_of(numerics: &str, limit: &str, cases: &str, seed: u64) -> Vec<(String, String)> {
    let program = program("graph_random");
    let decisions = program.file("report");
    let variables = [
        ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ("UCUDNN_CHECK", "1"),
        ("UCUDNN_NUMERICS", numerics),
        ("UCUDNN_WORKSPACE_LIMIT", limit),
    ];
    program.preloaded(&[&seed.to_string(), cases, "ours"], &variables);
    let lines = report(&decisions);
    are_right(&lines);
    let timed = events(&lines, "timed").into_iter();
    let ours = timed.filter(|line| text(line, "algorithm").starts_with("UCUDNN_ENGINE_"));
    ours.map(|line| (text(line, "algorithm").to_owned(), text(line, "kernel").to_owned())).collect()
}

/// The number of one of our engines.
fn number(engine: &str) -> usize {
    engine["UCUDNN_ENGINE_".len()..].split('[').next().unwrap().parse().unwrap()
}

/// Checks that filter gradients ran on the first engines, and all others on the second.
fn are_of(tried: &[(String, String)], engines: [&[usize]; 2]) {
    for (engine, kernel) in tried {
        let expected = engines[usize::from(!kernel.starts_with("BF "))];
        assert!(expected.contains(&number(engine)), "{engine}: {kernel}");
    }
}

/// Our engines on tensor cores are tried where the numerics allow them, for filter gradients in one part and in several,
/// and the chosen configuration is right.
#[test]
fn our_engines_are_tried() {
    let on_tensor_cores: [&[usize]; 2] = [&[0, 5, 8, 9, 11, 12, 13, 17, 22], &[2, 4, 6, 7, 8, 9, 15, 19, 21]];
    let ours = tried("any", "1GiB", "32");
    are_of(&ours, on_tensor_cores);
    let gradients: Vec<_> =
        ours.iter().filter(|(engine, kernel)| kernel.starts_with("BF ") && number(engine) == 0).collect();
    let in_parts = gradients.iter().filter(|(engine, _)| !engine.contains("[k0=1]")).count();
    println!("{} gradients of filters, {in_parts} in parts", gradients.len());
    assert!(gradients.len() >= 8 && in_parts >= 1, "{gradients:?}");
    for kind in [" float ", " half ", " bfloat16 "] {
        assert!(gradients.iter().any(|(_, kernel)| kernel.contains(kind)), "{kind}: {gradients:?}");
    }
    // Engines that are slower than cuDNN's on tensor cores are tried where none of these fits the limit.
    let without_room = tried("any", "0", "32");
    are_of(&without_room, on_tensor_cores);
    // On warpgroups, for convolutions that keep an image's size, for those with larger filters, and for few channels. Few
    // of one program's cases have the middle ones.
    let mut both = [ours.clone(), without_room.clone()].concat();
    let on_warpgroups = |all: &[(String, String)]| {
        [4, 5, 6, 7, 11].map(|kind| all.iter().filter(|(engine, _)| number(engine) == kind).count())
    };
    for more in 1..4 {
        if on_warpgroups(&both).contains(&0) {
            both.extend(tried_of("any", "1GiB", "32", seed() + more));
        }
    }
    println!("{:?} on warpgroups", on_warpgroups(&both));
    assert!(!on_warpgroups(&both).contains(&0), "{both:?}");
    let without_filters = without_room.iter().filter(|(_, kernel)| !kernel.starts_with("BF ")).count();
    println!("{without_filters} without room");
    assert!(without_filters >= 2, "{without_room:?}");
}

/// No engine of hostdnn uses tensor cores: only our engines that multiply in float are tried, and those that are as exact.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn our_exact_engines_are_tried() {
    let exact = tried("match", "1GiB", "60");
    are_of(&exact, [&[1, 8, 10, 12, 14, 17, 18, 20, 22], &[3, 7, 8, 10, 15, 16, 19, 21]]);
    let numerics = |engine: &str| ENGINES.iter().find(|row| row.number as usize == number(engine)).unwrap().numerics;
    let is_exact = |(engine, kernel): &(String, String)| match numerics(engine) {
        Numerics::OnTensorCores => false,
        Numerics::ExactFloats => kernel.contains(" float "),
        Numerics::ShortSums => !kernel.contains(" float "),
    };
    assert!(exact.iter().all(is_exact), "{exact:?}");
    for direction in ["F ", "BD ", "BF "] {
        let count = exact.iter().filter(|(_, kernel)| kernel.starts_with(direction)).count();
        println!("{count} of {direction}");
        assert!(count >= 1, "{direction}: {exact:?}");
    }
}

/// Convolutions that keep the size of volumes are right, on whatever engines they are tried.
#[test]
fn volumes_are_right() {
    let program = program("graph_random");
    let decisions = program.file("volumes");
    let variables = [
        ("UCUDNN_REPORT", decisions.to_str().unwrap()),
        ("UCUDNN_CHECK", "1"),
        ("UCUDNN_NUMERICS", "any"),
        ("UCUDNN_EXPLORE", "unbounded"),
    ];
    program.preloaded(&[&seed().to_string(), "12", "volumes"], &variables);
    let lines = report(&decisions);
    assert!(!events(&lines, "checked").is_empty());
    are_right(&lines);
}

/// Convolutions whose strides are the filter's sizes are right, exact or not, also as products of patches; so are those in
/// which each channel has filters of its own, and those with groups and dilation.
#[test]
fn patches_channels_and_groups_are_right() {
    let program = program("graph_random");
    let engines =
        [("patches", &[12, 13, 14][..]), ("depthwise", &[15, 16, 17, 18]), ("grouped", &[0, 1, 2, 3, 19, 20, 25])];
    for (kind, engines) in engines {
        let tried = ["any", "match"].map(|numerics| {
            let decisions = program.file(&format!("{kind}-{numerics}"));
            let variables = [
                ("UCUDNN_REPORT", decisions.to_str().unwrap()),
                ("UCUDNN_CHECK", "1"),
                ("UCUDNN_NUMERICS", numerics),
                ("UCUDNN_EXPLORE", "unbounded"),
            ];
            program.preloaded(&[&seed().to_string(), "18", kind], &variables);
            let lines = report(&decisions);
            are_right(&lines);
            let is_ours = |line: &&Value| {
                let engine = text(line, "algorithm");
                engine.starts_with("UCUDNN_ENGINE_") && engines.contains(&number(engine))
            };
            events(&lines, "timed").into_iter().filter(is_ours).count()
        });
        println!("{tried:?} of {kind}");
        assert!(tried.iter().all(|count| *count > 0), "{kind}: {tried:?}");
    }
}

/// A convolution whose filter covers the image is one product, and a patch embedding one of patches. A large one runs as
/// such from the first execution on, without trials, even where nothing may be explored.
#[test]
fn what_is_a_product_runs_as_one_at_once() {
    let program = program("graph_random");
    // All directions, and types for the covered ones; and then with trials of the small ones.
    for (kind, cases, explore, least) in
        [("covered", "18", "0", 9), ("embeddings", "3", "0", 3), ("covered", "6", "unbounded", 3)]
    {
        let decisions = program.file(&format!("{kind}{explore}"));
        let variables =
            [("UCUDNN_REPORT", decisions.to_str().unwrap()), ("UCUDNN_CHECK", "1"), ("UCUDNN_EXPLORE", explore)];
        program.preloaded(&["5", cases, kind], &variables);
        let lines = report(&decisions);
        are_right(&lines);
        let explored = events(&lines, "exploring").into_iter().filter(is_large).count();
        let at_once: Vec<_> = events(&lines, "ran").into_iter().filter(is_large).collect();
        let mut kinds: Vec<_> = at_once.iter().map(|line| text(line, "kernel").split_once(" 65x").unwrap().0).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert!(explored == 0 && at_once.iter().all(|line| product(line).is_some()), "{kind}: {explored}, {kinds:?}");
        assert_eq!(kinds.len(), least, "{kind}: {kinds:?}");
    }
}

/// Where the note of plain's engine does not tell whether it rounds floats, it runs first, and the product rounds as it
/// does. Where nothing may be explored, plain's engine stays.
#[test]
fn a_product_at_once_rounds_as_the_engine_of_the_program() {
    let program = program("graph_random");
    let mut found = vec![];
    for (tensor_cores, explore) in [("tf32", "5%"), ("claimed", "5%"), ("tf32", "0")] {
        let decisions = program.file(&format!("{tensor_cores}{explore}"));
        let variables = [
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
            ("UCUDNN_EXPLORE", explore),
            ("UCUDNN_LOG", "debug"),
            ("HOSTDNN_TENSOR_CORES", tensor_cores),
        ];
        // The program takes results in TF32 for wrong ones.
        let log = program.end(&["5", "12", "covered"], &variables, true).outcome.stderr;
        let lines = report(&decisions);
        let is_of_floats = |line: &&Value| is_large(line) && text(line, "kernel").contains(" float ");
        assert!(events(&lines, "exploring").into_iter().filter(is_of_floats).count() == 0, "{tensor_cores}, {explore}");
        // "F float …: ENGINE_31[] does not round floats to TF32"
        let answers = log.lines().filter_map(|line| line.split_once("rounding] ")?.1.split_once(": "));
        for (kernel, answer) in answers.filter(|(kernel, _)| kernel.contains(" * 520x")) {
            let rounds = answer.contains(" rounds floats");
            let expected = if rounds { Numerics::OnTensorCores } else { Numerics::ExactFloats };
            let ran = events(&lines, "ran").into_iter().find(|line| text(line, "kernel") == kernel).and_then(product);
            assert_eq!(ran.map(|row| row.numerics), Some(expected), "{tensor_cores}, {explore}: {kernel}");
            found.push((explore, rounds));
        }
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [("5%", false), ("5%", true)]);
}

/// Whether there is time to find out how plain's engine rounds is chance. So nothing comes of it for a program that asks for
/// determinism: it gets the products that it gets where nothing may be explored.
#[test]
fn no_product_at_once_depends_on_time_where_determinism_is_asked() {
    let program = program("graph_random");
    let products = |numerics, explore| {
        let decisions = program.file(&format!("{numerics}{explore}"));
        let variables = [
            ("UCUDNN_REPORT", decisions.to_str().unwrap()),
            ("UCUDNN_EXPLORE", explore),
            ("UCUDNN_NUMERICS", numerics),
            ("HOSTDNN_TENSOR_CORES", "claimed"),
        ];
        program.end(&["5", "12", "covered"], &variables, true);
        let lines = report(&decisions);
        let ran = events(&lines, "ran").into_iter().filter(is_large).filter(|line| product(line).is_some());
        let mut kernels: Vec<_> = ran.map(|line| text(line, "kernel").to_owned()).collect();
        kernels.sort();
        kernels.dedup();
        kernels
    };
    let without_time = products("deterministic", "0");
    assert_eq!(products("deterministic", "unbounded"), without_time);
    assert!(!without_time.is_empty() && products("match", "unbounded").len() > without_time.len());
}

/// The engine of ours that ran as a product.
fn product(line: &Value) -> Option<&'static Row> {
    let engine = line["parts"][0]["algorithm"].as_str().filter(|name| name.starts_with("UCUDNN_ENGINE_"))?;
    ENGINES.iter().find(|row| row.number as usize == number(engine) && row.is_product)
}

/// Whether the problem is one of the large ones among those of a filter that covers the image, and of embeddings.
fn is_large(line: &&Value) -> bool {
    text(line, "kernel").contains(" * 520x")
}
