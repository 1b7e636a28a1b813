//! This crate's graphs, heuristics and plans on the real cuDNN, planned for an H200 that need not be present.
//!
//! Runs if `UCUDNN_TEST_REAL_CUDNN` names the folder of the real `libcudnn.so.9`, which the loader's search path must
//! find too (`scripts/test-real.sh`).

use std::collections::HashMap;
use std::path::Path;

use convolution::problem::graph::{
    EngineConfiguration, ExecutionPlan, Factor, Operation, OperationGraph, Pointwise, Problem,
};
use cudnn::graph::{Target, VariantPack, refusal};
use cudnn::{self, library};
use cudnn_abi::*;

use crate::child::is_child;
use crate::programs::real_cudnn;

/// An H200 in the named test's own process; `None` in the parent, and without the real library.
fn h200(test: &str) -> Option<Target> {
    let folder = real_cudnn()?;
    if !is_child(&format!("real_graph_layer::{test}"), &[]) {
        return None;
    }
    let path = library::path().expect("a cuDNN on the loader's search path");
    assert_eq!(path.parent().map(Path::canonicalize).unwrap().unwrap(), folder.canonicalize().unwrap());
    assert!(!library::is_host());
    let properties = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/devices/h200.json"));
    Some(Target::from_json(&properties.unwrap()).expect("cuDNN takes the H200's properties"))
}

/// `F`, `BD` or `BF` of a square convolution that keeps its extent: batch, channels, filters, extent, filter's extent.
fn kernel(direction: &str, data_type: &str, format: &str, [n, c, k, s, r]: [usize; 5]) -> Problem {
    let strides = |channels: usize| match format {
        "nchw" => format!("{}x{}x{s}x1", channels * s * s, s * s),
        _ => format!("{}x1x{}x{channels}", channels * s * s, channels * s),
    };
    let legacy = format!(
        "{direction} x={data_type}:{n}x{c}x{s}x{s}@{} w={data_type}:{format}:{k}x{c}x{r}x{r} \
         y={data_type}:{n}x{k}x{s}x{s}@{} pad={p}x{p} stride=1x1 dilation=1x1 mode=correlation compute=float \
         math=default groups=1",
        strides(c),
        strides(k),
        p = r / 2,
    );
    Problem::of_convolution(&convolution::problem::Problem::from_spec(&legacy).unwrap())
}

/// All candidates of heuristics, with the plan of each.
fn plans(kernel: &Problem, target: &Target) -> (OperationGraph, Vec<(EngineConfiguration, ExecutionPlan)>) {
    let graph = OperationGraph::new(kernel, target).unwrap_or_else(|status| panic!("{kernel}: {}", refusal(status)));
    let mut plans = Vec::new();
    for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
        for configuration in graph.heuristics(mode).unwrap() {
            let plan = ExecutionPlan::new(&graph, &configuration);
            plans.push((configuration, plan.unwrap_or_else(|s| panic!("{kernel} {configuration}: {}", refusal(s)))));
        }
    }
    (graph, plans)
}

fn on_tensor_cores(configuration: &EngineConfiguration) -> bool {
    configuration.numerics.contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
}

/// The nearest number of MiB.
fn mib(bytes: usize) -> usize {
    (bytes + (1 << 19)) >> 20
}

/// The most frequent workspace of engines on tensor cores, in MiB.
fn usual(plans: &[(EngineConfiguration, ExecutionPlan)]) -> usize {
    let mut counts = HashMap::new();
    for (_, plan) in plans.iter().filter(|(configuration, _)| on_tensor_cores(configuration)) {
        *counts.entry(mib(plan.workspace())).or_insert(0) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).expect("an engine on tensor cores").0
}

#[test]
fn workspaces_are_as_the_design_measured_them() {
    let Some(h200) = h200("workspaces_are_as_the_design_measured_them") else { return };
    let conv2 = kernel("F", "float", "nchw", [256, 64, 192, 27, 5]);
    let (_, of_conv2) = plans(&conv2, &h200);
    assert_eq!(usual(&of_conv2), 183);
    let least = |on_cores| {
        let such = of_conv2.iter().filter(|(configuration, _)| on_tensor_cores(configuration) == on_cores);
        such.map(|(_, plan)| plan.workspace()).min().unwrap()
    };
    assert_eq!((mib(least(true)), least(false)), (47, 0));
    for (kernel, expected) in [
        (conv2.with_batch(32), 24),
        (kernel("F", "half", "nchw", [128, 64, 64, 56, 3]), 98),
        (kernel("F", "half", "nhwc", [128, 64, 64, 56, 3]), 0),
        (kernel("F", "half", "nchw", [256, 64, 64, 224, 3]), 3136),
        (kernel("BD", "half", "nchw", [256, 64, 64, 224, 3]), 3136),
        (kernel("BF", "half", "nchw", [256, 64, 64, 224, 3]), 3136),
        (kernel("F", "half", "nchw", [16, 64, 64, 224, 3]), 196),
    ] {
        assert_eq!(usual(&plans(&kernel, &h200).1), expected, "{kernel}");
    }
}

/// An engine that runs undivided also runs at every micro-batch and as a summand, up to 9.19 without exception, and only
/// BackwardFilter may need more workspace for that.
#[test]
fn engines_run_micro_batches_and_add_to_results() {
    let Some(h200) = h200("engines_run_micro_batches_and_add_to_results") else { return };
    // Newer engines may refuse few images. The library asks for each size, and takes another engine there.
    let may_refuse = library::version() > Some(91900);
    let (mut tried, mut refused) = (0, 0);
    for direction in ["F", "BD", "BF"] {
        for data_type in ["float", "half", "bfloat16"] {
            for format in ["nchw", "nhwc"] {
                let kernel = kernel(direction, data_type, format, [64, 64, 96, 28, 3]);
                let (_, whole) = plans(&kernel, &h200);
                for size in [64, 32, 7, 1] {
                    let part = kernel.with_batch(size);
                    let [graph, adding] = [&part, &part.with_beta(Factor::ONE)].map(|k| OperationGraph::new(k, &h200));
                    let (graph, adding) = (graph.unwrap(), adding.unwrap());
                    for (configuration, _) in &whole {
                        let [own, added] = [&graph, &adding].map(|graph| ExecutionPlan::new(graph, configuration));
                        let workspaces = own.and_then(|own| Ok((own.workspace(), added?.workspace())));
                        let (own, added) = match workspaces {
                            Ok(both) => both,
                            Err(CUDNN_STATUS_NOT_SUPPORTED) if may_refuse => {
                                refused += 1;
                                continue;
                            }
                            Err(status) => panic!("{part} {configuration}: {}", refusal(status)),
                        };
                        let grows = if direction == "BF" { added >= own } else { added == own };
                        assert!(grows, "{part} {configuration}: {own} bytes, {added} to add");
                        tried += 1;
                    }
                }
            }
        }
    }
    eprintln!("{tried} tried, {refused} refused");
    assert!(tried > 1000 && refused * 20 < tried, "{tried} tried, {refused} refused");
}

#[test]
fn a_fused_graph_is_planned() {
    let Some(h200) = h200("a_fused_graph_is_planned") else { return };
    let mut fused = kernel("F", "half", "nhwc", [32, 64, 64, 56, 3]);
    let relu = Pointwise {
        mode: CUDNN_POINTWISE_RELU_FWD,
        compute_type: CUDNN_DATA_FLOAT,
        operands: vec![(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 2), (CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 3)],
        alpha1: Factor::ONE,
        alpha2: Factor::ONE,
        parameters: vec![(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, Factor::ZERO)],
    };
    fused.tensors.push(fused.tensors[2].clone());
    fused.tensors[2].is_virtual = true;
    fused.operations.push(Operation::Pointwise(relu));
    let graph = OperationGraph::new(&fused, &h200).unwrap_or_else(|status| panic!("{}", refusal(status)));
    assert!(graph.engines().unwrap() > 0);
    // Engines for this graph are compiled at run time, so that there may be no candidates without a GPU's driver.
    let offered = graph.heuristics(CUDNN_HEUR_MODE_A).unwrap();
    assert!(offered.iter().all(|configuration| ExecutionPlan::new(&graph, configuration).is_ok()));
}

#[test]
fn what_cudnn_refuses_is_an_error_in_words() {
    let Some(h200) = h200("what_cudnn_refuses_is_an_error_in_words") else { return };
    let status = Target::from_json("{}").err().expect("no properties at all");
    assert_eq!(refusal(status), r#"CUDNN_STATUS_BAD_PARAM (!json_object.HasMember("maxGridSize"))"#);
    let mut wrong = kernel("F", "float", "nchw", [8, 4, 4, 9, 3]);
    wrong.tensors[2].dims[2] = 77;
    assert!(OperationGraph::new(&wrong, &h200).is_err());
    let (graph, plans) = plans(&kernel("F", "float", "nchw", [8, 4, 4, 9, 3]), &h200);
    let EngineConfiguration { numerics, behavior, .. } = plans[0].0;
    let no_such = EngineConfiguration::new(graph.engines().unwrap(), Vec::new(), numerics, behavior);
    assert!(ExecutionPlan::new(&graph, &no_such).is_err());
    let ids = [1, 2, 3];
    assert!(VariantPack::new(&ids, &[16 as *mut _, 32 as *mut _, 48 as *mut _], std::ptr::null_mut()).is_ok());
}
