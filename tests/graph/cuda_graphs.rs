//! Plans put into CUDA graphs, launched and updated by `tests/c/graph_cuda_graph.c`.

use std::path::PathBuf;

use super::program;
use crate::hostdnn::Program;
use crate::programs;

/// A plan: its number, its workspace in bytes, and the nodes of its graph, 0 if it has none.
struct Put {
    which: [usize; 2],
    bytes: usize,
    nodes: usize,
}

impl Put {
    /// Half filter gradients: sums of their parts cannot be put into graphs.
    fn is_half_filter(&self) -> bool {
        self.which[0] / 8 == 1 && self.which[0] % 4 == 2
    }
}

fn puts(stdout: &str) -> Vec<Put> {
    let (ended, lines): (Vec<_>, Vec<_>) = stdout.lines().partition(|line| *line == "ended");
    assert_eq!(ended.len(), 1, "{stdout}");
    let put = |line: &&str| {
        let numbers: Vec<usize> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [kernel, offer, bytes, nodes] = numbers[..] else { panic!("{line}") };
        Put { which: [kernel, offer], bytes, nodes }
    };
    lines.iter().map(put).collect()
}

/// Makes CUDA graphs on the CPU, which replace the driver and stand in front of hostdnn.
fn graphs(program: &Program) -> PathBuf {
    let [library, other_name] = ["libcuda.so.1", "libcuda.so"].map(|name| program.file(name));
    let source = programs::source("cuda_graphs.c");
    let include = format!("-I{}/hostdnn/include", env!("CARGO_MANIFEST_DIR"));
    let folder = format!("-L{}", library.parent().unwrap().display());
    // Through this dependency, lookups of all other functions find hostdnn's.
    let needed = ["-Wl,--no-as-needed", "-lcudnn", "-ldl"];
    let options =
        ["-shared", "-fPIC", include.as_str(), source.to_str().unwrap(), folder.as_str()].into_iter().chain(needed);
    programs::compile(&library, options);
    let _ = std::fs::remove_file(&other_name);
    std::os::unix::fs::symlink(&library, other_name).unwrap();
    library
}

/// Runs each plan without planning and under a limit; only engines with at least the number `engines` support graphs.
fn under(limit: &str, engines: &str) -> Vec<(Put, Put)> {
    let program = program("graph_cuda_graph");
    let graphs = graphs(&program);
    let (graphs, engines) = (("UCUDNN_CUDNN_LIBRARY", graphs.to_str().unwrap()), ("CUDA_GRAPHS_ENGINES", engines));
    // Preloaded with its policy off, the library forwards to the CUDA graphs in front of hostdnn.
    let plain = puts(&program.preloaded(&[], &[graphs, engines, ("UCUDNN_POLICY", "off")]).stdout);
    // By the default class, an engine without Winograd's transforms would have none with them as its fallback.
    let variables = [graphs, engines, ("UCUDNN_WORKSPACE_LIMIT", limit), ("UCUDNN_NUMERICS", "allowed")];
    let limited = puts(&program.preloaded(&[], &variables).stdout);
    assert!(plain.iter().map(|put| put.which).eq(limited.iter().map(|put| put.which)));
    plain.into_iter().zip(limited).collect()
}

#[test]
fn plans_have_the_form_in_graphs_of_what_is_ready_in_their_place() {
    for limit in ["", "0", "3000"] {
        let mut substituted = 0;
        for (plain, limited) in under(limit, "0") {
            let is_substituted = limited.bytes < plain.bytes;
            substituted += usize::from(is_substituted);
            assert_eq!(plain.nodes, 1);
            match is_substituted {
                false => assert_eq!(limited.nodes, 1, "{:?} under {limit:?}", plain.which),
                true => assert!(limited.nodes > 0 || limited.is_half_filter(), "{:?} under {limit:?}", plain.which),
            }
        }
        assert_eq!(substituted > 0, !limit.is_empty());
    }
}

/// Engines without workspace do not support graphs; otherwise they would be the fallback of all others.
#[test]
fn micro_batches_run_one_after_the_other_where_only_they_have_a_form_in_graphs() {
    let mut divided = Vec::new();
    for (plain, limited) in under("60000", "2") {
        let is_substituted = limited.bytes < plain.bytes;
        let has_form = plain.nodes > 0 && !(is_substituted && limited.is_half_filter());
        assert_eq!(limited.nodes > 0, has_form, "{:?}", plain.which);
        if limited.nodes > 1 {
            assert!(is_substituted, "{:?}", plain.which);
            divided.push(limited.which[0]);
        }
    }
    // Data gradients, filter gradients that start from zero, and filter gradients that add.
    assert!([1, 2, 6].iter().all(|kernel| divided.contains(kernel)), "{divided:?}");
}

#[test]
fn hostdnn_has_no_form_in_graphs() {
    let program = program("graph_cuda_graph");
    for limit in ["", "0", "3000"] {
        let puts = puts(&program.preloaded(&[], &[("UCUDNN_WORKSPACE_LIMIT", limit)]).stdout);
        assert!(!puts.is_empty() && puts.iter().all(|put| put.nodes == 0));
    }
}
