//! All problems of four networks, planned for an H200 by the real library through libucudnn.so. A plan reports the
//! limit, or its own workspace if that is less. The configuration that replaces it fits into that workspace, or into
//! results that are still to be computed.

use std::collections::HashMap;
use std::path::Path;

use super::children::{Through, h200, run as run_child, told};
use super::graphs::{Builder, Window};
use super::script::{Step, Wants, run};
use convolution::problem::graph::{EngineConfiguration, ExecutionPlan, Factor, OperationGraph, Problem};
use cudnn::graph::Target;
use cudnn_abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const NETWORKS: [&str; 4] = ["alexnet", "resnet18", "resnet50", "vgg16"];

/// One problem of a network: a layer's extents, in a direction, a type and a layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Case {
    x: [i64; 4],
    w: [i64; 4],
    pad: [i64; 2],
    stride: [i64; 2],
    direction: &'static str,
    data_type: cudnnDataType_t,
    channels_last: bool,
}

impl Case {
    fn y(&self) -> [i64; 4] {
        let extent = |i: usize| (self.x[i + 2] + 2 * self.pad[i] - self.w[i + 2]) / self.stride[i] + 1;
        [self.x[0], self.w[0], extent(0), extent(1)]
    }

    /// The problem as the legacy API describes it, in words.
    fn kernel(&self) -> Problem {
        let data_type = if self.data_type == CUDNN_DATA_HALF { "half" } else { "float" };
        let tensor = |[n, c, h, w]: [i64; 4]| match self.channels_last {
            true => format!("{data_type}:{n}x{c}x{h}x{w}@{}x1x{}x{c}", c * h * w, w * c),
            false => format!("{data_type}:{n}x{c}x{h}x{w}@{}x{}x{w}x1", c * h * w, h * w),
        };
        let Self { x, w: [k, c, r, s], pad: [ph, pw], stride: [u, v], direction, .. } = self;
        let format = if self.channels_last { "nhwc" } else { "nchw" };
        let spec = format!(
            "{direction} x={} w={data_type}:{format}:{k}x{c}x{r}x{s} y={} pad={ph}x{pw} stride={u}x{v} dilation=1x1 \
             mode=correlation compute=float math=default groups=1",
            tensor(*x),
            tensor(self.y()),
        );
        Problem::of_convolution(
            &convolution::problem::Problem::from_spec(&spec).unwrap_or_else(|e| panic!("{spec}: {e}")),
        )
    }

    /// Plans the best candidate of heuristics, and reads its workspace.
    fn script(&self, properties: &str) -> Vec<Step> {
        let dice = &mut StdRng::seed_from_u64(0);
        let mut builder = Builder::new(dice);
        let tensors = [self.x, self.w, self.y()].map(|dims| builder.shaped(&dims, self.data_type, self.channels_last));
        let kind = match self.direction {
            "F" => CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            "BD" => CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            _ => CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        };
        let (pad, stride) = (self.pad.to_vec(), self.stride.to_vec());
        let window = Window { pre: pad.clone(), post: pad, stride, dilation: vec![1; 2] };
        let operation = builder.convolution(kind, tensors.each_ref(), &window);
        let graph = builder.graph(&[operation]);
        let device = builder.device(properties);
        let [plan] = builder.plans(graph, device, CUDNN_HEUR_MODE_A, 1)[..] else { panic!("one plan was asked for") };
        let (name, of) = (CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
        builder.script.push(Step::Get { slot: plan, name, of, requested: 1, wants: Wants::BOTH });
        builder.script
    }
}

/// The different problems of all networks. Each layer is in both types and both layouts: of the four pairs in two, which
/// take turns with the other two.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut layers = Vec::new();
    for network in NETWORKS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/networks").join(network).with_extension("csv");
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().skip(1) {
            let numbers: Vec<i64> = line.split(',').skip(3).map(|number| number.parse().unwrap()).collect();
            let [n, c, h, w, k, r, s, pad_h, pad_w, stride_h, stride_w, 1, 1, 1] = numbers[..] else {
                panic!("{}: a layer without dilation and groups was expected: {line}", path.display());
            };
            let (x, w, pad, stride) = ([n, c, h, w], [k, c, r, s], [pad_h, pad_w], [stride_h, stride_w]);
            if layers.contains(&numbers) {
                continue;
            }
            let is_odd = layers.len() % 2 == 1;
            layers.push(numbers);
            for direction in ["F", "BD", "BF"] {
                for (data_type, channels_last) in [(CUDNN_DATA_FLOAT, is_odd), (CUDNN_DATA_HALF, !is_odd)] {
                    cases.push(Case { x, w, pad, stride, direction, data_type, channels_last });
                }
            }
        }
    }
    cases
}

/// Printed before each problem, and before its plan's workspace.
const KERNEL: &str = "kernel ";
const TELLS: &str = "tells ";

#[test]
#[ignore = "a part of plans_tell_what_their_micro_batches_need"]
fn told_workspaces() {
    let (backend, properties) = (told(), h200());
    for (index, case) in cases().iter().enumerate() {
        eprintln!("{KERNEL}{index}");
        let script = case.script(&properties);
        let lines = run(&backend, &script);
        let told = &lines[script.len() - 1];
        assert_eq!(told.status, CUDNN_STATUS_SUCCESS, "{case:?}");
        eprintln!("{TELLS}{}", i64::from_ne_bytes(told.array[..8].try_into().unwrap()));
    }
}

/// The workspace of a plan for a problem under a limit, and the fallback configuration that replaces it, if one was
/// needed.
struct Told {
    workspace: usize,
    ready: Option<String>,
}

fn told_by(through: Through, variables: &[(&str, &str)]) -> Option<Vec<Told>> {
    let text = run_child("real_graph::networks::told_workspaces", through, variables)?;
    let kernels = text.split(KERNEL).skip(1).map(|about| {
        let (before, tells) = about.split_once(TELLS).unwrap_or_else(|| panic!("no plan: {about}"));
        let workspace = tells.lines().next().unwrap().parse().unwrap();
        // The last line counts: states for smaller limits come first.
        let mut ready = before.lines().filter_map(|line| Some(line.split_once("ready within ")?.1.split_once(": ")?.1));
        Told { workspace, ready: ready.next_back().map(str::to_owned) }
    });
    Some(kernels.collect())
}

/// The real library, in this process, for an H200.
struct Device(Target);

impl Device {
    fn heuristics(&self, kernel: &Problem) -> Vec<EngineConfiguration> {
        let graph = OperationGraph::new(kernel, &self.0).unwrap();
        let modes = [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK];
        modes.into_iter().flat_map(|mode| graph.heuristics(mode).unwrap_or_default()).collect()
    }

    /// Bytes of workspace of an engine's plan.
    fn workspace(&self, kernel: &Problem, engine: &EngineConfiguration) -> Result<usize, cudnnStatus_t> {
        Ok(ExecutionPlan::new(&OperationGraph::new(kernel, &self.0)?, engine)?.workspace())
    }

    /// The workspace of a divided problem's micro-batches: BackwardFilter adds to the results of earlier ones.
    fn part(&self, kernel: &Problem, size: usize, engine: &EngineConfiguration) -> Result<usize, cudnnStatus_t> {
        let part = kernel.with_batch(size);
        let own = self.workspace(&part, engine)?;
        let adds_up = kernel.convolution().direction == cudnn::Direction::BackwardFilter && size < kernel.batch();
        Ok(if adds_up { own.max(self.workspace(&part.with_beta(Factor::ONE), engine)?) } else { own })
    }
}

/// `2×16[ENGINE_1[k2=4]]+…`: the images of each part, the size of its micro-batches, and their engine.
fn parts(configuration: &str) -> Vec<(usize, usize, &str)> {
    fn part(text: &str) -> Option<(usize, usize, &str)> {
        let (count, rest) = text.split_once('×')?;
        let (size, engine) = rest.split_once('[')?;
        let (count, size): (usize, usize) = (count.parse().ok()?, size.parse().ok()?);
        Some((count * size, size, engine))
    }
    let parts = configuration.trim_end().strip_suffix(']').unwrap().split("]+");
    parts.map(|text| part(text).unwrap_or_else(|| panic!("no configuration: {configuration}"))).collect()
}

#[test]
fn plans_tell_what_their_micro_batches_need() {
    // In its own process: the first candidate of heuristics may depend on earlier plans.
    let Some(owns) = told_by(Through::Real, &[]) else { return };
    let device = Device(Target::from_json(&h200()).unwrap());
    let cases = cases();
    let limits = [("0", 0), ("8MiB", 8 << 20)];
    let under = |name| told_by(Through::Ours, &[("UCUDNN_WORKSPACE_LIMIT", name), ("UCUDNN_LOG", "debug")]).unwrap();
    let told: Vec<_> = limits.iter().map(|(name, limit)| (*limit, under(name))).collect();
    let (mut finalized, mut divided) = (0, 0);
    for (index, case) in cases.iter().enumerate() {
        let kernel = case.kernel();
        let engines = device.heuristics(&kernel);
        let own = owns[index].workspace;
        for size in (0..).map(|power| 1 << power).take_while(|size| *size <= kernel.batch()) {
            // The engine that is fastest for the mini-batch may split it into too many parts for few images.
            let runs = |engine: &EngineConfiguration| device.part(&kernel, size, engine).is_ok();
            let found = runs(&engines[0]) || device.heuristics(&kernel.with_batch(size)).iter().any(runs);
            assert!(found, "{kernel} in micro-batches of {size}: nothing finalizes");
            finalized += 1;
        }
        for (limit, told) in &told {
            let Told { workspace, ready } = &told[index];
            if own <= *limit {
                assert_eq!(*workspace, own, "{kernel} within {limit}");
                continue;
            }
            assert!(*workspace <= own, "{kernel} within {limit}: {workspace} told, and its own plan needs {own}");
            let Some(ready) = ready.as_deref() else {
                assert_eq!(*workspace, own, "{kernel} within {limit}: nothing is ready, and its own plan does not fit");
                continue;
            };
            let mut offered: HashMap<usize, Vec<EngineConfiguration>> = HashMap::new();
            let mut needs: Vec<(usize, usize)> = parts(ready)
                .into_iter()
                .map(|(images, size, engine)| {
                    let more = offered.entry(size).or_insert_with(|| device.heuristics(&kernel.with_batch(size)));
                    let engine = engines.iter().chain(more.iter()).find(|known| known.to_string() == engine);
                    let engine = engine.unwrap_or_else(|| panic!("{kernel} within {limit}: who offered {ready}?"));
                    (device.part(&kernel, size, engine).unwrap(), images)
                })
                .collect();
            // The replacement fits into the reported workspace, or into results still to be computed: the part with the
            // largest workspace runs first.
            needs.sort_by_key(|(needed, _)| std::cmp::Reverse(*needed));
            let mut rest = kernel.batch();
            for (needed, images) in needs {
                rest -= images;
                // The alignment of a workspace costs the results of one image.
                let free = rest.saturating_sub(1) * kernel.unwritten_per_image();
                assert!(needed <= (*workspace).max(free), "{kernel} within {limit}: {ready} needs {needed}");
            }
            assert_eq!(rest, 0, "{kernel} within {limit}: {ready}");
            assert_eq!(*workspace, *limit, "{kernel}: what is found later may need it");
            divided += usize::from(parts(ready).len() > 1 || parts(ready)[0].1 < kernel.batch());
        }
    }
    eprintln!("{} kernels: {finalized} micro-batches finalized; {divided} plans divided under a limit", cases.len());
    assert!(divided > 0);
}
