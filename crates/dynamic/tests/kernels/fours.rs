//! Code for four elements at once, which only large batches run: here, all run it whose rows are of fours.

use gpu::Element;
use gpu::testing::emulated;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ucudnn_dynamic::{Fours, Options};
use vertex::function::Declaration;

use super::case::{Case, arrays, graphs};
use super::nets::{check, options, tree_lstm_case};
use super::ready::ready;

/// A net that gives its state's gradient in two ways, to the first child and to all; that looks up rows, some of which no
/// vertex names; and whose scalars scale rows.
const TWO_WAYS: &str = "states 8
    parameters 8x8 8 7x8
    pulls 8 0
    pushes 8 1
    function any:
    %0 = pull 0
    %1 = pullIndex 1
    %2 = lookup P2, %1
    %3 = children 0
    %4 = sumChildren %3
    %5 = add %0, %2
    %6 = add %5, %4
    %7 = bias P1, %6
    %8 = sum %7
    %9 = sigmoid %8
    %10 = mul %7, %9
    scatter 0, %10
    push 0, %10
    push 1, %9
    function 2:
    %0 = gather 0, 0
    %1 = children 0
    %2 = sumChildren %1
    %3 = add %0, %2
    %4 = matmul P0, %3
    scatter 0, %4
    push 0, %4";

/// The reductions over children that no ready net has, and their gradients.
const REDUCTIONS: &str = "states 8
    pulls 8
    pushes 8
    function any:
    %0 = children 0
    %1 = softmaxChildren %0
    %2 = mul %1, %0
    %3 = meanChildren %2
    %4 = maxChildren %0
    %5 = pull 0
    %6 = add %3, %4
    %7 = sub %5, %6
    %8 = tanh %7
    scatter 0, %8
    push 0, %8";

/// Nets of all kinds over random graphs. With odd seeds, the user's arrays are not aligned to fours: passes that read them
/// compute one element.
pub fn cases() -> Vec<Case> {
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[21; 32]));
    let mut cases = vec![tree_lstm_case(&mut runner, 0, 12, 20), tree_lstm_case(&mut runner, 1, 8, 20)];
    let texts = ready(8, 12).into_iter().map(|(_, text)| text).chain([TWO_WAYS, REDUCTIONS].map(str::to_owned));
    for (number, text) in texts.enumerate() {
        let declaration: Declaration = text.parse().unwrap();
        let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
        let graphs = arrays(&graphs(12, 1..9).new_tree(&mut runner).unwrap().current(), &arities);
        let ids = (0..graphs.first_vertex.len() as i64 - 1).collect();
        cases.push(Case { declaration, graphs, ids, seed: number as u64 });
    }
    cases
}

/// Checks those cases that `has` chooses by their number.
fn nets(test: &str, types: &[Element], has: impl Fn(usize) -> bool) {
    if !emulated::is_child(test) {
        return;
    }
    for (number, case) in cases().iter().enumerate().filter(|(number, _)| has(*number)) {
        for &element in types {
            for is_static in [false, true] {
                let options = Options { fours: Fours::Always, ..options(element, is_static) };
                if check(case, number, options).is_none() {
                    return;
                }
            }
        }
    }
}

#[test]
fn a_net_by_fours_emulated_as_the_oracle() {
    nets("fours::a_net_by_fours_emulated_as_the_oracle", &[Element::Half], |number| number == 5);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn nets_by_fours_emulated_as_the_oracle() {
    nets("fours::nets_by_fours_emulated_as_the_oracle", &[Element::Float, Element::Half, Element::Bfloat16], |_| true);
}
