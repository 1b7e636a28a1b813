//! Operation graphs are stored like convolutions of the legacy API, and apart from them.

use super::*;
use planner::{Configuration, MicroConfiguration};
use ucudnn_convolution::problem::graph::{self, EngineConfiguration, OUR_ENGINES, Route};

fn graph(kernel: &Problem) -> graph::Problem {
    graph::Problem::of_convolution(kernel)
}

/// An engine configuration whose knobs and notes differ for each index.
fn engine(index: i64) -> EngineConfiguration {
    let notes = |notes: &[i32]| notes.iter().copied().collect();
    EngineConfiguration::new(index, vec![(14, -1), (2, index)], notes(&[0, index as i32]), notes(&[]))
}

fn of_engine(batch: usize, index: i64, time: impl Into<Option<f64>>) -> Outcome<EngineConfiguration> {
    Outcome { batch, algorithm: engine(index), workspace: batch * 1000, time: time.into() }
}

fn divided(parts: &[(usize, Outcome<EngineConfiguration>)]) -> Configuration<EngineConfiguration> {
    let part = |(count, outcome): &(usize, Outcome<_>)| -> (usize, MicroConfiguration<_>) {
        (*count, outcome.micro_configuration().unwrap())
    };
    Configuration::new(parts.iter().map(part))
}

#[test]
fn graphs_are_found_again_and_are_no_convolutions() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), forward(20));
    let stored = [of_engine(4, 3, 0.7), of_engine(8, 11, 1.0 / 3.0), of_engine(20, 3, None)];
    let parts = divided(&[(2, stored[1]), (1, stored[0])]);
    let database = open(&path);
    database.store_measured(&here, &graph(&kernel), &stored);
    database.store_trial(&here, &graph(&kernel), &parts, Some(1.5));
    database.store_search_ended(&here, &graph(&kernel), "all");
    drop(database);
    let database = open(&path);
    let mut found = database.measured(&here, &graph(&kernel));
    found.sort_by_key(|outcome| outcome.batch);
    assert_eq!(found, stored);
    assert_eq!(database.trials(&here, &graph(&kernel)), [(parts, Some(1.5))]);
    assert!(database.search_ended(&here, &graph(&kernel), "all"));

    assert_eq!(database.measured(&here, &kernel), [], "the convolution itself has not been measured");
    assert!(!database.search_ended(&here, &kernel, "all"));
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)]);
    assert_eq!(database.measured(&here, &graph(&kernel)).len(), 3);
    assert_eq!(database.contents().unwrap()[0].problems, 2);
}

#[test]
fn a_part_of_a_graph_that_is_summed_in_float_is_another_thing() {
    let folder = Folder::new();
    let (database, here) = (open(&folder.file("d")), environment("A"));
    let [small, large] = [16, 64].map(|batch| graph(&half_filter(batch)));
    database.store_measured(&here, &small, &[of_engine(16, 3, 1.0)]);
    assert_eq!(database.measured(&here, &large), []);
    database.store_measured(&here, &large, &[of_engine(16, 3, 1.5)]);
    assert_eq!(database.measured(&here, &small), [of_engine(16, 3, 1.0)]);
}

#[test]
fn what_says_nothing_to_this_version_is_passed_over() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), graph(&forward(8)));
    let database = open(&path);
    let known = [of_engine(8, 3, 1.0), of_engine(4, 3, 0.5), of_engine(4, 11, 0.6)];
    database.store_measured(&here, &kernel, &known);
    database.store_trial(&here, &kernel, &divided(&[(1, known[0])]), Some(1.0));
    database.store_trial(&here, &kernel, &divided(&[(2, known[2])]), Some(1.2));
    let rename = "UPDATE outcomes SET algorithm = replace(algorithm, 'ENGINE_11', 'TURBINE_11')";
    rusqlite::Connection::open(&path).unwrap().execute_batch(rename).unwrap();
    let mut found = database.measured(&here, &kernel);
    found.sort_by_key(|outcome| outcome.batch);
    assert_eq!(found, [known[1], known[0]]);
    assert_eq!(database.trials(&here, &kernel), [(divided(&[(1, known[0])]), Some(1.0))]);
}

/// A search that ended with other versions of our kernels continues, and does not use their times.
#[test]
fn other_versions_of_our_kernels_are_others() {
    let folder = Folder::new();
    let (path, here, kernel) = (folder.file("d"), environment("A"), graph(&forward(8)));
    let database = open(&path);
    let of_cudnn = of_engine(8, 3, 1.0);
    let routed = |route| Outcome { algorithm: EngineConfiguration { route, ..of_cudnn.algorithm }, ..of_cudnn };
    let ours = [routed(Route::OnCopies), routed(Route::Ours)];
    database.store_measured(&here, &kernel, &[of_cudnn, ours[0], ours[1]]);
    assert_eq!(database.measured(&here, &kernel).len(), 3);
    let age = format!("UPDATE outcomes SET algorithm = replace(algorithm, '{OUR_ENGINES}', '0123456789abcdef')");
    rusqlite::Connection::open(&path).unwrap().execute_batch(&age).unwrap();
    assert_eq!(database.measured(&here, &kernel), [of_cudnn]);
    let mut text = Vec::new();
    assert_eq!(database.export(&mut text).unwrap(), 3);
    let imported = open(&folder.file("to")).import(&text[..], "some.jsonl", &TEXTS).unwrap();
    assert_eq!((imported.merged, imported.of_other_kernels), (1, 2), "{imported:#?}");
    assert!(imported.refused.is_empty(), "{imported:#?}");
}

#[test]
fn an_export_holds_graphs_too() {
    let folder = Folder::new();
    let (from, to) = (open(&folder.file("from")), open(&folder.file("to")));
    let (here, kernel) = (environment("A"), forward(8));
    let stored = of_engine(8, 11, 1.5);
    from.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 2.5)]);
    from.store_measured(&here, &graph(&kernel), &[stored]);
    from.store_trial(&here, &graph(&kernel), &divided(&[(1, stored)]), Some(1.25));
    let mut text = Vec::new();
    assert_eq!(from.export(&mut text).unwrap(), 3);
    let text = String::from_utf8(text).unwrap();
    let of_graph: Vec<_> = text.lines().filter(|line| line.contains("ENGINE_11")).collect();
    assert_eq!(of_graph.len(), 2);
    let wrong = [
        (of_graph[0].replace("ENGINE_11", "TURBINE_11"), "its algorithm is \"TURBINE_11[k2=11,k14=-1]:n0,11:b\""),
        (of_graph[0].replace("ENGINE_11[k2=11,k14=-1]:n0,11:b", "1:0:deterministic"), "which is none of such a kernel"),
        (of_graph[0].replace("graph float:1x", "graph float:2x"), "is not over one image"),
        (of_graph[0].replace("| F x=0", "| F x=7"), "its kernel: x is \"7\""),
        (of_graph[1].replace("1x8 ENGINE", "1x8:ENGINE"), "its division is \"1x8:ENGINE_11"),
    ];
    let mut all = text.clone();
    for (line, _) in &wrong {
        assert!(!of_graph.contains(&line.as_str()), "the replacement must replace: {line}");
        all += &format!("{line}\n");
    }
    let imported = to.import(all.as_bytes(), "some.jsonl", &TEXTS).unwrap();
    assert_eq!((imported.merged, imported.kept, imported.refused.len()), (3, 0, wrong.len()), "{imported:#?}");
    for ((line, why), refused) in wrong.iter().zip(&imported.refused) {
        assert!(refused.contains(why), "{line}\n{refused}");
    }
    assert_eq!(to.measured(&here, &graph(&kernel)), [stored]);
    assert_eq!(to.trials(&here, &graph(&kernel)), [(divided(&[(1, stored)]), Some(1.25))]);
    assert_eq!(to.measured(&here, &kernel), [outcome(&kernel, 8, 1, 2.5)]);
}
