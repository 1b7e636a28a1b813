//! Random nets.

use std::ffi::c_void;
use std::ptr;

use gpu::jit::Source;
use gpu::testing::emulated;
use gpu::{Device, Element};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_dynamic::{DeviceBatch, Executor, Fours, Gradients, Inputs, Net, Options, Warpgroups, Without};
use vertex::batch::{Batch, Maxima, Policy};
use vertex::function::{self, Declaration, Op, USER_OPERATIONS};
use vertex::graphs::Graphs;
use vertex::oracle;

use super::case::{Arrays, Case, Numbers, arrays, cases, graphs, not_finite_in_empty_slots};
use super::element::{bytes, epsilon, numbers, rounded};
use super::ready::ready;
use super::tree_lstm;

/// Compiling a net takes the machine's C++ compiler a second.
const NETS: usize = 40;

/// Checks those of the nets that `has` chooses by their number and type.
fn random_nets(test: &str, has: impl Fn(usize, Element) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for number in 0..NETS {
        let case = cases().new_tree(&mut runner).unwrap().current();
        let element = [Element::Float, Element::Half, Element::Bfloat16][number % 3];
        if !has(number, element) {
            continue;
        }
        let with_all = [false, true].map(|is_static| options(element, is_static));
        let part = [Without::Fusion, Without::Batching][number / 3 % 2];
        for options in [with_all[0], with_all[1], Options { without: part, ..with_all[0] }] {
            if check(&case, number, options).is_none() {
                return;
            }
        }
    }
}

#[test]
fn some_random_nets_emulated_as_the_oracle() {
    random_nets("nets::some_random_nets_emulated_as_the_oracle", |number, _| number == 4);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_nets_of_floats_emulated_as_the_oracle() {
    random_nets("nets::random_nets_of_floats_emulated_as_the_oracle", |_, element| element == Element::Float);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_nets_of_halves_emulated_as_the_oracle() {
    random_nets("nets::random_nets_of_halves_emulated_as_the_oracle", |_, element| element == Element::Half);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn random_nets_of_bfloat16_emulated_as_the_oracle() {
    random_nets("nets::random_nets_of_bfloat16_emulated_as_the_oracle", |_, element| element == Element::Bfloat16);
}

/// Functions of positive numbers alone.
const OF_POSITIVE: [&str; 2] = ["log", "sqrt"];

/// The net of the functions that `names` names. Each takes the input, or its exponential, and is an output.
fn net_of(names: &[&str]) -> Result<Declaration, String> {
    let pushes = " 8".repeat(names.len());
    let function = |(place, name): (usize, &&str)| {
        format!("\n%{} = {name} %{}", place + 2, usize::from(OF_POSITIVE.contains(name)))
    };
    let functions: String = names.iter().enumerate().map(function).collect();
    let outputs: String = (0..names.len()).map(|place| format!("\npush {place}, %{}", place + 2)).collect();
    let text = format!("pulls 8\npushes{pushes}\nfunction 0:\n%0 = pull 0\n%1 = exp %0{functions}{outputs}");
    let declaration: Declaration = text.parse().map_err(|why: String| why)?;
    function::Net::new(declaration.clone()).map(|_| declaration).map_err(|why| format!("{why}"))
}

/// Every operation that is a function of one value, whatever the random nets happen to have.
#[test]
fn each_function_of_a_value_emulated_as_the_oracle() {
    if !emulated::is_child("nets::each_function_of_a_value_emulated_as_the_oracle") {
        return;
    }
    let names = (0..USER_OPERATIONS).filter_map(Op::of_user).map(Op::name);
    let names: Vec<_> = names.filter(|name| net_of(&[name]).is_ok()).collect();
    assert!(["sigmoid", "exp", "softmax"].iter().all(|name| names.contains(name)), "{names:?}");
    let graphs = Arrays { first_vertex: (0..=40).collect(), first_child: vec![0; 41], ..Arrays::default() };
    let case = Case { declaration: net_of(&names).unwrap(), graphs, ids: (0..40).collect(), seed: 1 };
    check(&case, 0, options(Element::Float, false));
}

#[test]
fn empty_slots_emulated_as_the_oracle() {
    if !emulated::is_child("nets::empty_slots_emulated_as_the_oracle") {
        return;
    }
    let case = not_finite_in_empty_slots();
    for (element, is_static) in [(Element::Float, false), (Element::Bfloat16, true)] {
        check(&case, 0, options(element, is_static));
    }
}

/// Tree-LSTMs with those numbers of [`TREES`] that `has` chooses; batched, or as paths in one launch.
fn tree_lstms(test: &str, has: fn(usize) -> bool, options_of: fn(Element, bool) -> Options) {
    if !emulated::is_child(test) {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[8; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for (number, (hidden, most)) in TREES.into_iter().enumerate() {
        let case = tree_lstm_case(&mut runner, number, hidden, most);
        if !has(number) {
            continue;
        }
        let element = [Element::Float, Element::Half, Element::Bfloat16][number % 3];
        let net = function::Net::new(case.declaration.clone()).unwrap();
        for is_static in [false, true] {
            let options = options_of(element, is_static);
            let made = Net::new(&net, Device::Host, options).map_err(|why| why.to_string());
            let Some(made) = emulated::compiled(made) else { return };
            // Levels with few rows are one kernel each: the leaves, and the nodes each way, with the pass before the
            // product and without, where rows are of quads.
            let fused = if hidden % 4 == 0 { 7 } else { 2 };
            let expected = match options.executor {
                Executor::Batched => format!("batched, {fused} fused"),
                _ => "persistent on ".into(),
            };
            assert!(made.configuration().starts_with(&expected), "{}", made.configuration());
            check(&case, number, options);
            if element == Element::Float {
                check(&case, number, Options { tf32: true, ..options });
            }
        }
    }
}

#[test]
fn a_tree_lstm_emulated_as_the_oracle() {
    tree_lstms("nets::a_tree_lstm_emulated_as_the_oracle", |number| number == 1, options);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn tree_lstms_emulated_as_the_oracle() {
    tree_lstms("nets::tree_lstms_emulated_as_the_oracle", |number| TREES[number].1 <= 60, options);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn tree_lstms_on_many_trees_emulated_as_the_oracle() {
    tree_lstms("nets::tree_lstms_on_many_trees_emulated_as_the_oracle", |number| TREES[number].1 > 60, options);
}

// Blocks of many threads take their time here: no paths of many trees.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_a_few_trees_emulated_as_the_oracle() {
    tree_lstms("nets::paths_of_a_few_trees_emulated_as_the_oracle", |number| TREES[number].1 < 60, persistent);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_some_trees_emulated_as_the_oracle() {
    tree_lstms("nets::paths_of_some_trees_emulated_as_the_oracle", |number| number == 3, persistent);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_other_trees_emulated_as_the_oracle() {
    tree_lstms("nets::paths_of_other_trees_emulated_as_the_oracle", |number| number == 6, persistent);
}

/// The weights of one way fit into a group's blocks, and those of the other do not: it has launches for each level.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_one_way_emulated_as_the_oracle() {
    if !emulated::is_child("nets::paths_of_one_way_emulated_as_the_oracle") {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[15; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    // Groups of one block, which holds the weights forward, and of four, which hold those backward.
    for (number, (hidden, groups)) in [(36, 64), (88, 16)].into_iter().enumerate() {
        let case = tree_lstm_case(&mut runner, number, hidden, 6);
        let net = function::Net::new(case.declaration.clone()).unwrap();
        for is_static in [false, true] {
            let options = Options { executor: Executor::Persistent { groups }, ..options(Element::Float, is_static) };
            let made = Net::new(&net, Device::Host, options).map_err(|why| why.to_string());
            let Some(made) = emulated::compiled(made) else { return };
            assert!(made.configuration().starts_with("persistent on 64 blocks, "), "{}", made.configuration());
            check(&case, number, options);
        }
    }
}

/// A Tree-LSTM of width `hidden` on at most `most` random trees.
pub fn tree_lstm_case(runner: &mut TestRunner, number: usize, hidden: usize, most: usize) -> Case {
    let declaration: Declaration = tree_lstm::tree_lstm(hidden, hidden, None).parse().unwrap();
    let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
    let trees = graphs(most, 1..9).new_tree(runner).unwrap().current();
    let graphs = arrays(&trees, &arities);
    let ids = (0..graphs.first_vertex.len() as i64 - 1).collect();
    Case { declaration, graphs, ids, seed: number as u64 }
}

/// The width and the number of trees, at most. Some have wide levels.
const TREES: [(usize, usize); 8] = [(8, 1), (12, 3), (4, 3), (20, 60), (6, 3), (12, 600), (20, 60), (36, 600)];

pub fn options(element: Element, is_static: bool) -> Options {
    Options {
        element,
        is_training: true,
        tf32: false,
        warpgroups: Warpgroups::Many,
        fours: Fours::Many,
        is_static,
        without: Without::Nothing,
        executor: Executor::Batched,
    }
}

/// Blocks of one or two groups.
pub fn persistent(element: Element, is_static: bool) -> Options {
    let groups = 1 + usize::from(is_static);
    Options { executor: Executor::Persistent { groups }, ..options(element, is_static) }
}

/// Memory that holds NaN at first.
pub fn poisoned(count: usize) -> Vec<u64> {
    vec![u64::MAX; count.div_ceil(8) + 32]
}

/// The first byte that is aligned to 256.
pub fn aligned(memory: &mut [u64]) -> *mut c_void {
    let first: *mut c_void = memory.as_mut_ptr().cast();
    first.wrapping_byte_add(first.align_offset(256))
}

pub fn read(memory: &[u64], element: Element, count: usize) -> Vec<f64> {
    read_behind(memory, 0, element, count)
}

/// The numbers behind the first `shift` bytes.
fn read_behind(memory: &[u64], shift: usize, element: Element, count: usize) -> Vec<f64> {
    let bytes = memory.iter().flat_map(|word| word.to_le_bytes()).skip(shift).take(count * element.bytes());
    numbers(element, &bytes.collect::<Vec<_>>())
}

/// The batch of a case, which may be larger by `more`, and one of its first few graphs.
pub fn batches(case: &Case, net: &function::Net, policy: Policy, more: usize, groups: usize) -> [Batch; 2] {
    let its = case.batch(net, policy);
    let maxima = Maxima {
        graphs: its.graphs(),
        vertices: its.vertices() + more,
        children: its.edges() + more,
        levels: its.levels() + more,
    };
    let graphs = Graphs::new(&case.graphs.description()).unwrap();
    [&case.ids[..], &case.ids[..case.ids.len().div_ceil(4)]].map(|ids| {
        let mut batch = Batch::new(maxima, net, policy).unwrap();
        batch.deal_to(groups).unwrap();
        batch.set(net, &graphs, ids).unwrap();
        batch
    })
}

/// A case's random numbers, the parameters and inputs as the type of tensors holds them.
pub fn rounded_numbers(case: &Case, batch: &Batch, element: Element) -> Numbers {
    let mut its = case.numbers(batch);
    its.parameters.iter_mut().for_each(|numbers| rounded(element, numbers));
    for pull in &mut its.pulls {
        if let oracle::Pull::Rows(rows) = pull {
            rounded(element, rows);
        }
    }
    its
}

/// The memory of inputs.
pub fn pulled_bytes(element: Element, pulls: &[oracle::Pull]) -> Vec<Vec<u8>> {
    let of = |pull: &oracle::Pull| match pull {
        oracle::Pull::Rows(rows) => bytes(element, rows),
        oracle::Pull::Indices(indices) => indices.iter().flat_map(|index| index.to_le_bytes()).collect(),
    };
    pulls.iter().map(of).collect()
}

/// Numbers of the user's, some bytes behind a place that is aligned to 16.
struct Given {
    memory: Vec<u128>,
    shift: usize,
}

impl Given {
    fn new(bytes: &[u8], shift: usize) -> Self {
        let mut memory = vec![u128::MAX; bytes.len().div_ceil(16) + 1];
        let to = memory.as_mut_ptr().cast::<u8>().wrapping_add(shift);
        // SAFETY: the memory has 16 bytes more, and the shift is less.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Self { memory, shift }
    }

    fn first(&self) -> *const c_void {
        self.memory.as_ptr().cast::<c_void>().wrapping_byte_add(self.shift)
    }
}

/// Sets the batch of these graphs, distributed to the groups of its path.
pub fn set(arrays: &mut DeviceBatch, net: &Net, batch: &mut Batch, case: &Case, ids: &[i64]) {
    let graphs = Graphs::new(&case.graphs.description()).unwrap();
    assert!(arrays.set(net, batch, &graphs, ids, ptr::null_mut()).unwrap());
}

/// Compares a run with the oracle. `None` where there is no compiler.
pub fn check(case: &Case, number: usize, options: Options) -> Option<()> {
    check_changed(case, number, options, &|source| source)
}

/// Likewise by other kernels.
pub fn check_changed(case: &Case, number: usize, options: Options, change: &dyn Fn(Source) -> Source) -> Option<()> {
    check_of(case, number, options, change, &|_| {})
}

/// Likewise with other numbers: `poison` changes the random ones.
pub fn check_of(
    case: &Case,
    number: usize,
    options: Options,
    change: &dyn Fn(Source) -> Source,
    poison: &dyn Fn(&mut Numbers),
) -> Option<()> {
    let Options { element, is_static, tf32, .. } = options;
    // TF32 has the digits of half.
    let epsilon = epsilon(if tf32 { Element::Half } else { element });
    let net = function::Net::new(case.declaration.clone()).unwrap();
    let policy = if is_static || number.is_multiple_of(2) { Policy::Height } else { Policy::Ratio };
    let more = if is_static { (case.seed % 3) as usize } else { 0 };
    let groups = if let Executor::Persistent { groups } = options.executor { groups } else { 1 };
    let [mut batch, mut other] = batches(case, &net, policy, more, groups);
    let mut its = rounded_numbers(case, &batch, element);
    its.push_gradients.iter_mut().for_each(|numbers| rounded(element, numbers));
    poison(&mut its);
    let inputs = oracle::Inputs { parameters: &its.parameters, pulls: &its.pulls, push_gradients: &its.push_gradients };
    let ids: Vec<_> = case.ids.iter().map(|id| *id as usize).collect();
    let mut expected = oracle::run(&case.declaration, &case.graphs.description(), &ids, inputs);
    if is_static {
        // Zeros after the last row.
        let [outputs, inputs] = [&case.declaration.pushes, &case.declaration.pulls];
        for (results, widths) in [(&mut expected.pushes, outputs), (&mut expected.pull_gradients, inputs)] {
            for (result, width) in results.iter_mut().zip(widths) {
                result.resize((batch.vertices() + more) * width, 0.0);
            }
        }
    }

    let made = Net::changed(&net, Device::Host, options, change).map_err(|why| why.to_string());
    let made = emulated::compiled(made)?;
    // Else levels would have launches.
    assert!(made.load_all(), "no path: {options:?}");
    let mut arrays = DeviceBatch::new(&made, &batch.maxima()).unwrap();
    if is_static && number % 2 == 1 {
        // The launches are made for the batch that was set first.
        set(&mut arrays, &made, &mut other, case, &case.ids[..case.ids.len().div_ceil(4)]);
    }
    set(&mut arrays, &made, &mut batch, case, &case.ids);
    // A static net launches the same whatever the batch has, and the kernels find the batch that was copied last.
    let of_launches = if is_static { &other } else { &batch };
    let memory = made.memory(of_launches);
    let (mut workspace, mut reserve) = (poisoned(memory.workspace), poisoned(memory.reserve));
    // The arrays of some cases are aligned as their numbers are.
    let shift = if case.seed % 2 == 1 { element.bytes() } else { 0 };
    let given = |bytes: &Vec<u8>| Given::new(bytes, shift);
    let of_numbers = |all: &[Vec<f64>]| all.iter().map(|numbers| given(&bytes(element, numbers))).collect::<Vec<_>>();
    let (parameters, push_gradients) = (of_numbers(&its.parameters), of_numbers(&its.push_gradients));
    let pulls = pulled_bytes(element, &its.pulls);
    let of_width = |(bytes, width): (&Vec<u8>, &usize)| if *width > 0 { given(bytes) } else { Given::new(bytes, 0) };
    let pulls: Vec<_> = pulls.iter().zip(&case.declaration.pulls).map(of_width).collect();
    let mut pushes: Vec<_> = expected.pushes.iter().map(|push| poisoned(push.len() * element.bytes())).collect();
    let firsts = |all: &[Given]| all.iter().map(Given::first).collect::<Vec<_>>();
    let (of_parameters, of_pulls) = (firsts(&parameters), firsts(&pulls));
    let first = |push: &mut Vec<u64>| push.as_mut_ptr().cast::<c_void>().wrapping_byte_add(shift);
    let of_pushes: Vec<_> = pushes.iter_mut().map(first).collect();
    let inputs = Inputs {
        parameters: &of_parameters,
        pulls: &of_pulls,
        pushes: &of_pushes,
        workspace: aligned(&mut workspace),
        reserve: aligned(&mut reserve),
    };
    if matches!(options.executor, Executor::Persistent { .. }) {
        // Packets of an earlier run, with other numbers, must not be taken for this run's packets.
        let zeros: Vec<_> = pulls.iter().map(|pull| vec![0_u128; pull.memory.len()]).collect();
        let pulls: Vec<_> = zeros.iter().map(|zeros| zeros.as_ptr().cast()).collect();
        // SAFETY: as below.
        unsafe { made.forward(of_launches, &arrays, Inputs { pulls: &pulls, ..inputs }, ptr::null_mut()) }.unwrap();
    }
    // SAFETY: all arrays are as long as the net and the batch say.
    unsafe { made.forward(of_launches, &arrays, inputs, ptr::null_mut()) }.unwrap();
    let what = format!("{number}, {options:?}: {case:?}");
    for (push, expected) in pushes.iter().zip(&expected.pushes) {
        let found = read_behind(push, shift, element, expected.len());
        compare(&found, expected, epsilon, &format!("outputs of {what}"));
    }

    let mut rng = StdRng::seed_from_u64(case.seed ^ 1);
    workspace.fill(u64::MAX);
    let accumulates = rng.random();
    let before = vec![if accumulates { 1.0 } else { f64::NAN }; 1 << 17];
    let mut results: Vec<Option<Vec<u64>>> = vec![];
    for (gradient, is_pull) in (expected.parameter_gradients.iter().map(|gradient| (gradient, false)))
        .chain(expected.pull_gradients.iter().map(|gradient| (gradient, true)))
    {
        let is_wanted = rng.random_range(0..4) > 0 && !(is_pull && gradient.is_empty());
        results.push(is_wanted.then(|| {
            let mut memory = poisoned(gradient.len() * element.bytes());
            if !is_pull {
                let bytes = bytes(element, &before[..gradient.len()]);
                // SAFETY: the memory has room for the bytes.
                unsafe { memory.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            }
            memory
        }));
    }
    let pointers: Vec<*mut c_void> = results
        .iter_mut()
        .map(|memory| memory.as_mut().map_or(ptr::null_mut(), |memory| memory.as_mut_ptr().cast()))
        .collect();
    let of_gradients = firsts(&push_gradients);
    let gradients = Gradients {
        pushes: &of_gradients,
        parameters: &pointers[..parameters.len()],
        pulls: &pointers[parameters.len()..],
        accumulates,
        are_in_float: false,
    };
    let inputs = Inputs { workspace: aligned(&mut workspace), ..inputs };
    if matches!(options.executor, Executor::Persistent { .. }) {
        let none = [vec![ptr::null(); 64], vec![]];
        let no_gradients = vec![ptr::null_mut(); 64];
        let gradients = Gradients {
            pushes: &none[0][..of_gradients.len()],
            parameters: &no_gradients[..parameters.len()],
            pulls: &no_gradients[..of_pulls.len()],
            accumulates: false,
            are_in_float: false,
        };
        // SAFETY: as below.
        unsafe { made.backward(of_launches, &arrays, inputs, gradients, ptr::null_mut()) }.unwrap();
    }
    // SAFETY: all arrays are as long as the net and the batch say.
    unsafe { made.backward(of_launches, &arrays, inputs, gradients, ptr::null_mut()) }.unwrap();
    let all = expected.parameter_gradients.iter().map(|gradient| (gradient, accumulates));
    let all = all.chain(expected.pull_gradients.iter().map(|gradient| (gradient, false)));
    for (place, (memory, (expected, adds))) in results.iter().zip(all).enumerate() {
        let Some(memory) = memory else { continue };
        let expected: Vec<_> = expected.iter().map(|number| number + if adds { 1.0 } else { 0.0 }).collect();
        let what = format!("gradient {place} (adds: {adds}) of {what}");
        compare(&read(memory, element, expected.len()), &expected, epsilon, &what);
    }
    Some(())
}

/// Numbers differ by at most some roundings of the largest finite one. Others are the same.
pub fn compare(found: &[f64], expected: &[f64], epsilon: f64, what: &str) {
    let finite = expected.iter().filter(|number| number.is_finite());
    let most = finite.fold(1.0_f64, |most, number| most.max(number.abs()));
    let error = found.iter().zip(expected).map(|(found, expected)| match expected.is_finite() {
        false if found == expected || found.is_nan() && expected.is_nan() => 0.0,
        _ => (found - expected).abs(),
    });
    // NaN is no number that is at most anything.
    let worst = error.fold(0.0_f64, |worst, error| if worst.is_nan() || error <= worst { worst } else { error });
    let bound = ROUNDINGS * epsilon * most;
    assert!(worst <= bound, "off by {worst:.1e} of {most:.1e}, {bound:.1e} accepted: {what}\n{found:?}\n{expected:?}");
}

/// Sums are in float, and each value that another kernel reads is rounded: a few of them lie on a way through a net.
pub const ROUNDINGS: f64 = 60.0;

/// The lengths of chains of words, whose rows of a level are few and whose levels are many.
const CHAINS: [&[usize]; 3] = [&[3, 1], &[30, 41, 25], &[70; 3]];

/// An LSTM over those chains.
fn chains(test: &str, number: usize, options: &[Options]) {
    if !emulated::is_child(test) {
        return;
    }
    let mut graphs = Arrays { first_vertex: vec![0], first_child: vec![0], ..Arrays::default() };
    for length in CHAINS[number] {
        for vertex in 0..*length as i32 {
            graphs.children.extend((vertex > 0).then_some(vertex - 1));
            graphs.first_child.push(graphs.children.len() as i64);
        }
        graphs.first_vertex.push(graphs.first_child.len() as i64 - 1);
    }
    let ids = (0..CHAINS[number].len() as i64).collect();
    let case = Case { declaration: lstm(12).parse().unwrap(), graphs, ids, seed: number as u64 };
    for options in options {
        check(&case, number, *options);
    }
}

/// The batched executor's options for floats, not static and static.
fn batched() -> [Options; 2] {
    [false, true].map(|is_static| options(Element::Float, is_static))
}

fn paths_of_floats() -> [Options; 2] {
    [false, true].map(|is_static| persistent(Element::Float, is_static))
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn short_chains_emulated_as_the_oracle() {
    chains("nets::short_chains_emulated_as_the_oracle", 0, &batched());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn chains_emulated_as_the_oracle() {
    chains("nets::chains_emulated_as_the_oracle", 1, &batched());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn long_chains_emulated_as_the_oracle() {
    chains("nets::long_chains_emulated_as_the_oracle", 2, &batched());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_short_chains_emulated_as_the_oracle() {
    chains("nets::paths_of_short_chains_emulated_as_the_oracle", 0, &paths_of_floats());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_chains_emulated_as_the_oracle() {
    chains("nets::paths_of_chains_emulated_as_the_oracle", 1, &paths_of_floats());
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_long_chains_emulated_as_the_oracle() {
    chains("nets::paths_of_long_chains_emulated_as_the_oracle", 2, &paths_of_floats()[..1]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn static_paths_of_long_chains_emulated_as_the_oracle() {
    chains("nets::static_paths_of_long_chains_emulated_as_the_oracle", 2, &paths_of_floats()[1..]);
}

/// Nets of all shapes of paths in one launch: products of edges, reductions, several products in a row; and units that
/// blocks share unevenly. Checks those that `has` chooses by their number and type.
fn paths(test: &str, has: impl Fn(usize, Element) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[10; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let texts = ready(6, 8).into_iter().chain(ready(5, 6)).map(|(_, text)| (text, 12));
    let wide = [(tree_lstm::tree_lstm(65, 65, None), 4), (ready(3, 130)[1].1.clone(), 3), (lstm(66), 9)];
    for (number, (text, most)) in texts.chain(wide).enumerate() {
        let declaration: Declaration = text.parse().unwrap();
        let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
        let graphs = arrays(&graphs(most, 1..9).new_tree(&mut runner).unwrap().current(), &arities);
        let ids = (0..graphs.first_vertex.len() as i64 - 1).collect();
        let case = Case { declaration, graphs, ids, seed: number as u64 };
        let element = Element::ALL[number % 3];
        if !has(number, element) {
            continue;
        }
        let options = persistent(element, number % 2 == 0);
        let net = function::Net::new(case.declaration.clone()).unwrap();
        let made = Net::new(&net, Device::Host, options).map_err(|why| why.to_string());
        let Some(made) = emulated::compiled(made) else { return };
        assert!(made.configuration().starts_with("persistent on "), "{text}: {}", made.configuration());
        check(&case, number, options);
    }
}

#[test]
fn some_paths_emulated_as_the_oracle() {
    paths("nets::some_paths_emulated_as_the_oracle", |number, _| number == 1);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_floats_emulated_as_the_oracle() {
    paths("nets::paths_of_floats_emulated_as_the_oracle", |_, element| element == Element::Float);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_halves_emulated_as_the_oracle() {
    paths("nets::paths_of_halves_emulated_as_the_oracle", |_, element| element == Element::Half);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn paths_of_bfloat16_emulated_as_the_oracle() {
    paths("nets::paths_of_bfloat16_emulated_as_the_oracle", |_, element| element == Element::Bfloat16);
}

/// A pass behind a product that reads what the pass before the product left, which another thread of the block runs: a
/// block has two units.
#[test]
fn a_path_around_a_product_emulated_as_the_oracle() {
    if !emulated::is_child("nets::a_path_around_a_product_emulated_as_the_oracle") {
        return;
    }
    let declaration = "
        states 66 66
        parameters 66x66
        pulls 66
        pushes 66
        function 0:
        %0 = pull 0
        %1 = tanh %0
        scatter 0, %0
        scatter 1, %1
        push 0, %1
        function 2:
        %0 = gather 0, 0
        %1 = gather 1, 0
        %2 = mul %0, %1
        %3 = matmul P0, %2
        %4 = gather 0, 1
        %5 = add %3, %2
        %6 = mul %5, %4
        %7 = tanh %6
        scatter 0, %7
        scatter 1, %5
        push 0, %7";
    let first_child = vec![0, 0, 0, 0, 2, 4, 6, 8];
    let children = vec![0, 1, 1, 2, 3, 4, 5, 4];
    let graphs = Arrays { first_vertex: vec![0, 7], first_child, children, ..Arrays::default() };
    for (ids, seed) in [(1, 1), (2, 2)] {
        let declaration: Declaration = declaration.parse().unwrap();
        let case = Case { declaration, graphs: graphs.clone(), ids: vec![0; ids], seed };
        for is_static in [false, true] {
            if check(&case, 0, persistent(Element::Float, is_static)).is_none() {
                return;
            }
        }
    }
}

/// The canonical text of an LSTM: x and h with h numbers.
fn lstm(h: usize) -> String {
    let gates = |sums: usize| {
        let gate = |number: usize| format!("%{} = slice %{sums}, {}, {h}\n", sums + 1 + number, number * h);
        (0..4).map(gate).collect::<String>()
    };
    format!(
        "states {h} {h}\nparameters {0}x{h} {0} {0} {0}x{h}\npulls {h}\npushes {h}\nfunction 0:\n%0 = pull 0\n\
         %1 = matmul P0, %0\n%2 = bias P1, %1\n%3 = bias P2, %2\n{1}%8 = sigmoid %4\n%9 = tanh %6\n%10 = mul %8, %9\n\
         %11 = sigmoid %7\n%12 = tanh %10\n%13 = mul %11, %12\nscatter 0, %13\nscatter 1, %10\npush 0, %13\n\
         function 1:\n%0 = pull 0\n%1 = matmul P0, %0\n%2 = bias P1, %1\n%3 = gather 0, 0\n%4 = matmul P3, %3\n\
         %5 = add %2, %4\n%6 = bias P2, %5\n{2}%11 = sigmoid %7\n%12 = tanh %9\n%13 = mul %11, %12\n\
         %14 = sigmoid %8\n%15 = gather 0, 1\n%16 = mul %14, %15\n%17 = add %13, %16\n%18 = sigmoid %10\n\
         %19 = tanh %17\n%20 = mul %18, %19\nscatter 0, %20\nscatter 1, %17\npush 0, %20\n",
        4 * h,
        gates(3),
        gates(6)
    )
}
