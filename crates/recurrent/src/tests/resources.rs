//! Checks the kernels that NVRTC compiles, with no GPU: registers, no local memory, no fence, and no emptied cache in a
//! step. Needs `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::recurrence::{Kind, kind};
use crate::configuration::{Cell, Configuration, Element, Math, Pass, Problem, Regime};
use crate::kernels::{may_be_early, source};
use crate::model::Model;
use gpu::jit::Source;
use gpu::testing::resources::{ACQBULK, CCTL, LDL, MEMBAR, Resources, STL, compile, nvrtc, share};

/// Calls `each` for all items, on two threads.
fn for_all<T: Sync>(all: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    each(one);
                }
            });
        }
    });
}

/// The kinds that the sample below must contain.
const KINDS: [Kind; 7] = [
    (Regime::Block, Math::Fma, false),
    (Regime::Cluster, Math::Fma, false),
    (Regime::Cluster, Math::Fma, true),
    (Regime::Cluster, Math::TensorCores, false),
    (Regime::Grid, Math::Fma, false),
    (Regime::Grid, Math::Fma, true),
    (Regime::Grid, Math::TensorCores, false),
];

type Kernel = (Problem, Configuration);

/// The model's first choices for common sizes, with and without tensor cores; each kernel once. Those that save have no
/// wavefronts, and no W x within the steps.
fn offered(pass: Pass) -> Vec<Kernel> {
    let mut problems = Vec::new();
    for cell in [Cell::Lstm, Cell::Gru, Cell::Tanh, Cell::Relu] {
        for element in [Element::Float, Element::Half, Element::Bfloat16] {
            for hidden in [64, 128, 256, 512, 1024, 1536] {
                for batch in [1, 4, 10, 20, 32, 64] {
                    let with = Problem::on_an_h200(cell, element, hidden, batch);
                    let with = match pass {
                        Pass::Inference => with,
                        Pass::Forward => with.of_forward(),
                        Pass::Backward => with.of_backward(),
                    };
                    problems.extend([with, Problem { tensor_cores: false, ..with }]);
                }
            }
        }
    }
    let first = |problem| Some((problem, *Model::default().ranked(&problem, 1).first()?));
    let mut all: Vec<_> = problems.into_iter().filter_map(first).collect();
    let mut seen = HashSet::new();
    all.retain(|(problem, configuration)| seen.insert((configuration.regime, configuration.options(problem))));
    all
}

fn is_sound(
    (problem, configuration): (&Problem, &Configuration),
    resources: &Resources,
    capability: u32,
) -> Result<(), String> {
    let most = configuration.most_registers();
    // A cluster's blocks meet once, before all steps. With input warps, each kind of warp meets in its own code.
    let kinds = 1 + usize::from(configuration.has_input_warps());
    let meetings = if configuration.is_in_clusters() { kinds } else { 0 };
    // Nothing before a kernel of backward lets it begin early.
    let waits = may_be_early(configuration) && problem.pass != Pass::Backward;
    let faults = [
        (resources.registers > most, format!("{} registers, of {most}", resources.registers)),
        (resources.frame > 0, format!("{} bytes of local memory", resources.frame)),
        (resources.has(STL) || resources.has(LDL), "local memory is used".into()),
        (resources.has(MEMBAR), "there is a fence".into()),
        (resources.count(CCTL) > meetings, "the cache is emptied".into()),
        (capability >= 90 && waits && !resources.has(ACQBULK), "it does not wait for the launch before".into()),
    ];
    faults.into_iter().find(|(there, _)| *there).map_or(Ok(()), |(_, fault)| Err(fault))
}

/// The checks find spills and fences in a kernel that has them.
#[test]
fn spills_and_fences_show() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = r#"
        extern "C" __global__ void kernel(int *p) {
            int kept[64];
            for (int i = 0; i < 64; i++) kept[i] = p[i];
            __threadfence();
            for (int i = 0; i < 64; i++) p[kept[p[i] & 63] & 63] = kept[p[64 + i] & 63];
        }"#;
    let source = Source { name: "fence.cu".into(), text: text.into(), headers: (&[]).into(), options: vec![] };
    for capability in [80, 89, 90, 100] {
        let resources = compile(nvrtc, &source, capability);
        assert!([MEMBAR, CCTL, STL, LDL].into_iter().all(|one| resources.has(one)), "sm_{capability}");
        assert!(resources.frame >= 256 && (8..=255).contains(&resources.registers), "sm_{capability}");
    }
}

fn assert_sound(all: &[Kernel]) {
    let Some(nvrtc) = nvrtc() else { return };
    let faults = Mutex::new(Vec::new());
    for_all(all, |(problem, configuration)| {
        let resources = compile(nvrtc, &source(problem, configuration), 90);
        if let Err(fault) = is_sound((problem, configuration), &resources, 90) {
            let Problem { cell, element, hidden, .. } = problem;
            faults.lock().unwrap().push(format!("{cell:?} {element:?} {hidden}: {configuration}: {fault}"));
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), all.len(), faults.join("\n"));
}

/// A share of the kernels, and one of each kind.
#[test]
fn what_is_offered_has_no_spills_and_no_fences() {
    // All that is offered takes some seconds to find.
    let Some(_) = nvrtc() else { return };
    let all = offered(Pass::Inference);
    let first = |wanted| {
        let first = all.iter().find(|(_, one)| kind(one) == wanted);
        *first.unwrap_or_else(|| panic!("{wanted:?} is not offered"))
    };
    let sample: Vec<_> = share(all.iter().copied(), 23).chain(KINDS.map(first)).collect();
    assert_sound(&sample);
}

/// A share of the kernels of training.
#[test]
fn what_trains_has_no_spills_and_no_fences() {
    let Some(_) = nvrtc() else { return };
    let all = [Pass::Forward, Pass::Backward].map(offered);
    let sample: Vec<_> = share(all.into_iter().flatten(), 29).collect();
    assert!(sample.len() > 10, "{}", sample.len());
    assert_sound(&sample);
}

/// The kernels of canonical GRU.
#[test]
fn canonical_gru_has_no_spills_and_no_fences() {
    let regimes = [Regime::Block, Regime::Grid, Regime::GridSingle];
    let mut all = Vec::new();
    for (element, hidden, batch) in [
        (Element::Float, 64, 1),
        (Element::Half, 64, 20),
        (Element::Half, 128, 4),
        (Element::Half, 224, 1),
        (Element::Half, 512, 4),
        (Element::Float, 200, 1),
        (Element::Float, 256, 1),
        (Element::Bfloat16, 1024, 10),
    ] {
        let problem = Problem::on_an_h200(Cell::CanonicalGru, element, hidden, batch);
        let ranked = Model::default().ranked(&problem, usize::MAX);
        for regime in regimes {
            let best = ranked.iter().filter(|one| one.regime == regime).take(2);
            all.extend(best.map(|configuration| (problem, *configuration)));
        }
    }
    let of = |regime| all.iter().filter(move |(_, one)| one.regime == regime);
    assert!(regimes.into_iter().all(|regime| of(regime).count() >= 4));
    assert_sound(&share(all.iter().copied(), 3).collect::<Vec<_>>());
    let Some(nvrtc) = nvrtc() else { return };
    for (capability, (problem, configuration)) in [80, 89, 100].into_iter().zip(of(Regime::GridSingle)) {
        let resources = compile(nvrtc, &source(problem, configuration), capability);
        is_sound((problem, configuration), &resources, capability)
            .unwrap_or_else(|fault| panic!("sm_{capability}: {configuration}: {fault}"));
    }
}

/// The model's choices, on each architecture.
#[test]
fn all_architectures_take_them() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut all = Vec::new();
    for (cell, element) in [(Cell::Lstm, Element::Float), (Cell::Gru, Element::Half), (Cell::Relu, Element::Bfloat16)] {
        for (hidden, batch) in [(64, 10), (256, 1), (1024, 10)] {
            for capability in [80, 89, 100] {
                let cluster_blocks = if capability < 90 { 0 } else { 16 };
                let problem = Problem { cluster_blocks, ..Problem::on_an_h200(cell, element, hidden, batch) };
                let ranked = Model::default().ranked(&problem, usize::MAX);
                for wanted in KINDS {
                    let Some(best) = ranked.iter().find(|one| kind(one) == wanted) else { continue };
                    all.push((problem, *best, capability));
                }
            }
        }
    }
    assert!(KINDS.iter().all(|wanted| all.iter().any(|(_, best, _)| kind(best) == *wanted)));
    let sample: Vec<_> = share(all, 5).collect();
    for_all(&sample, |(problem, configuration, capability)| {
        let resources = compile(nvrtc, &source(problem, configuration), *capability);
        let sound = is_sound((problem, configuration), &resources, *capability);
        sound.unwrap_or_else(|fault| {
            panic!("{:?} {}, sm_{capability}: {configuration}: {fault}", problem.cell, problem.hidden)
        });
    });
}

/// Wavefronts: the model's best for common networks, and some of them on all architectures.
#[test]
fn wavefronts_have_no_spills_and_no_fences() {
    let mut all = Vec::new();
    for (cell, element) in [(Cell::Lstm, Element::Float), (Cell::Gru, Element::Half), (Cell::Tanh, Element::Bfloat16)] {
        for (hidden, layers) in [(64, 3), (100, 2), (128, 3), (256, 2), (512, 2)] {
            for batch in [1, 8] {
                let problem = Problem { layers, ..Problem::on_an_h200(cell, element, hidden, batch) };
                let ranked = Model::default().ranked(&problem, usize::MAX);
                let wavefronts = ranked.into_iter().filter(|configuration| configuration.layers() > 1).take(2);
                all.extend(wavefronts.map(|configuration| (problem, configuration)));
            }
        }
    }
    let mut seen = HashSet::new();
    all.retain(|(problem, configuration)| seen.insert(configuration.options(problem)));
    assert!(all.len() > 20, "{}", all.len());
    assert_sound(&share(all.iter().copied(), 3).collect::<Vec<_>>());
    let Some(nvrtc) = nvrtc() else { return };
    for ((problem, configuration), capability) in all.iter().step_by(5).zip([80, 89, 100].into_iter().cycle()) {
        let resources = compile(nvrtc, &source(problem, configuration), capability);
        is_sound((problem, configuration), &resources, capability)
            .unwrap_or_else(|fault| panic!("sm_{capability}: {configuration}: {fault}"));
    }
}
