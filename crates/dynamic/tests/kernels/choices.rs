//! The choice of a path's configuration, emulated.

use std::ptr;

use gpu::testing::emulated;
use gpu::{Device, Element};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ucudnn_dynamic::{DeviceBatch, Executor, Inputs, Net, Options};
use vertex::batch::Policy;
use vertex::function;
use vertex::oracle;

use super::element::{bytes, epsilon};
use super::nets::{
    aligned, batches, compare, options, poisoned, pulled_bytes, read, rounded_numbers, set, tree_lstm_case,
};

/// Runs a Tree-LSTM of width `hidden` on two batches in turns: one has at most `trees` trees, the other has one tree. Each
/// batch runs by a configuration of its own, in the same memory.
fn batches_change(test: &str, hidden: usize, trees: usize, turns: usize) {
    if !emulated::is_child(test) {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[14; 32]);
    let many = tree_lstm_case(&mut TestRunner::new_with_rng(Config::default(), rng), 0, hidden, trees);
    let mut one = many.clone();
    let vertices = |id: &i64| many.graphs.first_vertex[*id as usize + 1] - many.graphs.first_vertex[*id as usize];
    one.ids = many.ids.iter().copied().max_by_key(vertices).into_iter().collect();
    let element = Element::Float;
    let net = function::Net::new(many.declaration.clone()).unwrap();
    let made = Net::new(&net, Device::Host, Options { executor: Executor::Auto, ..options(element, false) });
    let Some(made) = emulated::compiled(made.map_err(|why| why.to_string())) else { return };
    let maxima = batches(&many, &net, Policy::Height, 0, 1)[0].maxima();
    let mut arrays = DeviceBatch::new(&made, &maxima).unwrap();
    let memory = made.most_memory(&maxima);
    let mut groups = vec![];
    for case in [&many, &one].into_iter().cycle().take(turns) {
        let [mut batch, _] = batches(case, &net, Policy::Height, 0, 1);
        set(&mut arrays, &made, &mut batch, case, &case.ids);
        groups.push(batch.groups());
        let its = rounded_numbers(case, &batch, element);
        let given =
            oracle::Inputs { parameters: &its.parameters, pulls: &its.pulls, push_gradients: &its.push_gradients };
        let ids: Vec<_> = case.ids.iter().map(|id| *id as usize).collect();
        let expected = oracle::run(&case.declaration, &case.graphs.description(), &ids, given);
        let parameters: Vec<_> = its.parameters.iter().map(|numbers| bytes(element, numbers)).collect();
        let pulls = pulled_bytes(element, &its.pulls);
        let mut pushes: Vec<_> = expected.pushes.iter().map(|push| poisoned(push.len() * element.bytes())).collect();
        let (mut workspace, mut reserve) = (poisoned(memory.workspace), poisoned(memory.reserve));
        let pointers = |all: &[Vec<u8>]| all.iter().map(|bytes| bytes.as_ptr().cast()).collect::<Vec<_>>();
        let (of_parameters, of_pulls) = (pointers(&parameters), pointers(&pulls));
        let of_pushes: Vec<_> = pushes.iter_mut().map(|push| push.as_mut_ptr().cast()).collect();
        let inputs = Inputs {
            parameters: &of_parameters,
            pulls: &of_pulls,
            pushes: &of_pushes,
            workspace: aligned(&mut workspace),
            reserve: aligned(&mut reserve),
        };
        // SAFETY: all arrays are as long as the net and the batch say.
        unsafe { made.forward(&batch, &arrays, inputs, ptr::null_mut()) }.unwrap();
        for (push, expected) in pushes.iter().zip(&expected.pushes) {
            let what = format!("outputs of {} graphs: {groups:?}", case.ids.len());
            compare(&read(push, element, expected.len()), expected, epsilon(element), &what);
        }
    }
    // A configuration whose launch failed would not be chosen again.
    let several = groups[0];
    let expected: Vec<_> = [several, 1].into_iter().cycle().take(turns).collect();
    assert!(several > 1 && groups == expected, "{groups:?}");
}

#[test]
fn a_batch_changes_its_configuration() {
    batches_change("choices::a_batch_changes_its_configuration", 20, 500, 2);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn batches_change_their_configuration() {
    batches_change("choices::batches_change_their_configuration", 100, 200, 3);
}
