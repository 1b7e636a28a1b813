//! Steps of training, emulated, against the oracle.

use std::ptr;

use gpu::testing::emulated;
use gpu::{Device, Element};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_dynamic::{DeviceBatch, Executor, Inputs, Net, Optimizer, Options, Step};
use vertex::batch::Policy;
use vertex::function::{self, Declaration, Op, Operation, ParameterSize};
use vertex::host::Rule;
use vertex::oracle;

use super::case::{Arrays, Case, arrays, graphs};
use super::element::{bytes, epsilon, numbers};
use super::nets::{ROUNDINGS, aligned, batches, compare, options, poisoned, pulled_bytes, read, rounded_numbers, set};
use super::tree_lstm;

/// The words of the Tree-LSTM's embedding.
const WORDS: usize = 7;
/// The scores of the Tree-LSTM.
const SCORES: usize = 1;
const RATE: f32 = 0.5;
/// Without decay, an embedding's gradient is not made as a whole.
const DECAYS: [f32; 2] = [0.0, 0.25];

/// The width, the classes and the number of trees, at most. The last ones have more leaves than a block of an embedding's
/// rows has threads.
const STEPS: [(usize, usize, usize); 5] = [(8, 3, 4), (12, 5, 30), (4, 40, 2), (6, 3, 1), (4, 3, 300)];

fn steps(test: &str, all: &[(usize, usize, usize)]) {
    if !emulated::is_child(test) {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[12; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for (number, &(hidden, classes, most)) in all.iter().enumerate() {
        let declaration = with_embedding(tree_lstm::tree_lstm(hidden, hidden, Some(classes)).parse().unwrap());
        let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
        let graphs = arrays(&graphs(most, 1..9).new_tree(&mut runner).unwrap().current(), &arities);
        let ids = (0..graphs.first_vertex.len() as i64 - 1).collect();
        let case = Case { declaration, graphs, ids, seed: number as u64 };
        for (place, executor) in [Executor::Batched, Executor::Auto].into_iter().enumerate() {
            for is_static in [false, true] {
                let element = Element::ALL[(number + place) % 3];
                let options = Options { executor, ..options(element, is_static) };
                // Without labels nothing else than decay changes a parameter.
                let has_no_labels = number == 3;
                let decay = if has_no_labels { DECAYS[1] } else { DECAYS[(number + usize::from(is_static)) % 2] };
                if check(&case, classes, options, has_no_labels, (decay, None)).is_none() {
                    return;
                }
            }
        }
    }
}

#[test]
fn some_steps_emulated_as_the_oracle() {
    steps("steps::some_steps_emulated_as_the_oracle", &STEPS[..1]);
}

#[test]
#[ignore = "long: make test-kernels runs it"]
fn steps_emulated_as_the_oracle() {
    steps("steps::steps_emulated_as_the_oracle", &STEPS);
}

/// The launches of a captured step of a Tree-LSTM by a path. Forward: the words' rows, their product and what follows it;
/// the path; the scores of all vertices. The loss with what comes before the run backward. Backward: the scores' gradients,
/// and their products; the path; what is left of all kinds, and the words' gradients; all sums. All parameters' descent.
const LAUNCHES: usize = 13;

#[test]
fn a_step_has_few_launches() {
    if !emulated::is_child("steps::a_step_has_few_launches") {
        return;
    }
    let declaration = with_embedding(tree_lstm::tree_lstm(20, 16, Some(5)).parse().unwrap());
    // More trees of two leaves than rows that are worth one kernel with their product.
    let graphs =
        Arrays { first_vertex: vec![0, 3], first_child: vec![0, 0, 0, 2], children: vec![0, 1], ..Arrays::default() };
    let case = Case { declaration, graphs, ids: vec![0; 40], seed: 7 };
    for element in [Element::Float, Element::Bfloat16] {
        let options = Options { executor: Executor::Auto, ..options(element, true) };
        let Some(launches) = check(&case, 5, options, false, (0.0, None)) else { return };
        assert_eq!(launches, LAUNCHES, "{element:?}");
    }
}

/// Numbers that tell each of a rule's places from the others.
const RULES: [Rule; 4] = [
    Rule::Momentum { momentum: 0.75, is_nesterov: false },
    Rule::Momentum { momentum: 0.75, is_nesterov: true },
    Rule::Adam { betas: [0.9, 0.99], epsilon: 0.125, is_decoupled: false },
    Rule::Adam { betas: [0.9, 0.99], epsilon: 0.125, is_decoupled: true },
];
/// The steps before one by a rule.
const STEPS_BEFORE: i32 = 3;

#[test]
fn steps_by_rules_emulated_as_in_double() {
    if !emulated::is_child("steps::steps_by_rules_emulated_as_in_double") {
        return;
    }
    let case = of_three_levels();
    // A rule takes no launch of its own.
    let Some(expected) = check(&case, 5, by_a_path(), false, (DECAYS[1], None)) else { return };
    for (number, rule) in RULES.into_iter().enumerate() {
        for (place, weight_decay) in DECAYS.into_iter().enumerate() {
            // In float with decay: narrow types would hide a rule's mistake.
            let element = [Element::ALL[1 + number % 2], Element::Float][place];
            let options = Options { element, ..by_a_path() };
            // Without any gradient, numbers change by their moments.
            let has_no_labels = place == 0 && number % 2 == 0;
            let launches = check(&case, 5, options, has_no_labels, (weight_decay, Some(rule))).unwrap();
            assert_eq!(launches, expected, "{rule:?}");
        }
    }
}

/// A device may refuse a path, as beside other programs. Then levels have launches, and results are the same.
#[test]
fn a_step_whose_paths_are_refused() {
    if !emulated::is_child_with("steps::a_step_whose_paths_are_refused", &[("UCUDNN_FAULT", "launch")]) {
        return;
    }
    let Some(launches) = check(&of_three_levels(), 5, by_a_path(), false, (0.0, None)) else { return };
    assert!(launches > LAUNCHES, "{launches}");
}

/// A report has the weights that a static batch's runs load: on the path those of U once each way, where launches for each
/// level would load them for each of three levels.
#[test]
fn a_static_batch_reports_its_weights() {
    let report = std::env::temp_dir().join(format!("ucudnn-weights-{}.jsonl", std::process::id()));
    let variables = [("UCUDNN_REPORT", report.to_str().unwrap())];
    if !emulated::is_child_with("steps::a_static_batch_reports_its_weights", &variables) {
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        let _ = std::fs::remove_file(&report);
        let its = format!("\"path\":{}", 2 * BYTES_OF_U);
        let lines: Vec<_> = text.lines().filter(|line| line.contains("dynamic-batch")).collect();
        let is_right = |line: &&str| line.contains(&its) && line.contains(&format!("\"levels\":{}", 6 * BYTES_OF_U));
        assert!(lines.iter().all(is_right), "{text}");
        assert!(text.contains("dynamic-path") != lines.is_empty(), "{text}");
        return;
    }
    check(&of_three_levels(), 5, by_a_path(), false, (0.0, None));
}

/// Of the Tree-LSTM of [`of_three_levels`], whose h has 16 numbers.
const BYTES_OF_U: usize = 5 * 16 * 2 * 16 * size_of::<f32>();

fn by_a_path() -> Options {
    Options { executor: Executor::Persistent { groups: 1 }, ..options(Element::Float, true) }
}

/// Trees with three levels above the leaves.
fn of_three_levels() -> Case {
    let declaration = with_embedding(tree_lstm::tree_lstm(20, 16, Some(5)).parse().unwrap());
    let graphs = Arrays {
        first_vertex: vec![0, 7],
        first_child: vec![0, 0, 0, 2, 2, 4, 4, 6],
        children: vec![0, 1, 2, 3, 4, 5],
        ..Arrays::default()
    };
    Case { declaration, graphs, ids: vec![0; 5], seed: 8 }
}

/// The Tree-LSTM with an embedding of words, so few that some of them come more than once, in place of pulled rows.
fn with_embedding(mut declaration: Declaration) -> Declaration {
    let (table, columns) = (declaration.parameters.len(), std::mem::take(&mut declaration.pulls[0]));
    declaration.parameters.push(ParameterSize { rows: WORDS, columns });
    let leaf = &mut declaration.functions[0].operations;
    assert_eq!(leaf[0].op, Op::Pull);
    for operation in &mut *leaf {
        let taken = operation.inputs().len();
        operation.inputs[..taken].iter_mut().for_each(|input| *input += 1);
    }
    leaf[0] = Operation::new(Op::Lookup, &[0], &[table]);
    leaf.insert(0, Operation::new(Op::PullIndex, &[], &[0]));
    declaration
}

/// What a step by a rule makes of a number p, with its two moments, and the gradient of the loss.
fn by_rule(rule: Rule, decay: f64, [p, first, second]: [f64; 3], gradient: f64) -> [f64; 3] {
    let (rate, steps) = (f64::from(RATE), STEPS_BEFORE + 1);
    match rule {
        Rule::Momentum { momentum, is_nesterov } => {
            let g = gradient + decay * p;
            let v = momentum * first + g;
            [p - rate * if is_nesterov { g + momentum * v } else { v }, v, second]
        }
        Rule::Adam { betas: [beta1, beta2], epsilon, is_decoupled } => {
            let (p, g) = if is_decoupled { (p - rate * decay * p, gradient) } else { (p, gradient + decay * p) };
            let (m, v) = (beta1 * first + (1.0 - beta1) * g, beta2 * second + (1.0 - beta2) * g * g);
            let [m_hat, v_hat] = [m / (1.0 - beta1.powi(steps)), v / (1.0 - beta2.powi(steps))];
            [p - rate * m_hat / (v_hat.sqrt() + epsilon), m, v]
        }
    }
}

/// Compares a step with one by the oracle, with a decay of weights, and by a rule or by gradient descent. Returns its launches;
/// `None` where there is no compiler.
fn check(
    case: &Case,
    classes: usize,
    options: Options,
    has_no_labels: bool,
    (weight_decay, rule): (f32, Option<Rule>),
) -> Option<usize> {
    let Options { element, is_static, .. } = options;
    let net = function::Net::new(case.declaration.clone()).unwrap();
    let more = if is_static { 2 } else { 0 };
    let [mut batch, _] = batches(case, &net, Policy::Height, more, 1);
    let its = rounded_numbers(case, &batch, element);
    let mut rng = StdRng::seed_from_u64(case.seed);
    let vertices = batch.vertices();
    // Some labels are no classes, and labels after the last vertex do not count.
    let label = |rng: &mut StdRng| rng.random_range(-1..=classes as i32);
    let mut labels: Vec<i32> = (0..vertices).map(|_| if has_no_labels { -1 } else { label(&mut rng) }).collect();
    labels.extend(std::iter::repeat_n(0, more));

    // By the oracle: forward for the scores, backward by the loss's gradient, and the update.
    let ids: Vec<_> = case.ids.iter().map(|id| *id as usize).collect();
    let mut of_scores = its.push_gradients.clone();
    of_scores.iter_mut().for_each(|gradient| gradient.fill(0.0));
    let run = |gradients: &[Vec<f64>]| {
        let inputs = oracle::Inputs { parameters: &its.parameters, pulls: &its.pulls, push_gradients: gradients };
        oracle::run(&case.declaration, &case.graphs.description(), &ids, inputs)
    };
    let scores = run(&of_scores).pushes.swap_remove(SCORES);
    let is_class = |label: &&i32| (0..classes as i32).contains(*label);
    let count = labels[..vertices].iter().filter(is_class).count().max(1) as f64;
    let mut loss = 0.0;
    let rows = scores.chunks_exact(classes).zip(of_scores[SCORES].chunks_exact_mut(classes));
    for ((scores, gradient), label) in rows.zip(&labels).filter(|(_, label)| is_class(label)) {
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        loss += (sum.ln() - scores[*label as usize]) / count;
        gradient.iter_mut().zip(scores).for_each(|(gradient, score)| *gradient = score.exp() / sum / count);
        gradient[*label as usize] -= 1.0 / count;
    }
    let gradients = run(&of_scores).parameter_gradients;
    let [rate, decay] = [RATE, weight_decay].map(f64::from);

    let made = Net::new(&net, Device::Host, options).map_err(|why| why.to_string());
    let made = emulated::compiled(made)?;
    let mut arrays = DeviceBatch::new(&made, &batch.maxima()).unwrap();
    set(&mut arrays, &made, &mut batch, case, &case.ids);
    let memory = made.with_step(made.memory(&batch), SCORES, labels.len());
    let (mut workspace, mut reserve) = (poisoned(memory.workspace), poisoned(memory.reserve));
    let mut parameters: Vec<Vec<u64>> = its
        .parameters
        .iter()
        .map(|numbers| {
            let mut words = vec![0_u64; numbers.len() * element.bytes() / 8 + 1];
            let bytes = bytes(element, numbers);
            // SAFETY: the words have room for the bytes.
            unsafe { words.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            words
        })
        .collect();
    let pulls = pulled_bytes(element, &its.pulls);
    let of_parameters: Vec<_> = parameters.iter_mut().map(|words| words.as_mut_ptr().cast_const().cast()).collect();
    let of_pulls: Vec<_> = pulls.iter().map(|bytes| bytes.as_ptr().cast()).collect();
    let inputs = Inputs {
        parameters: &of_parameters,
        pulls: &of_pulls,
        pushes: &[],
        workspace: aligned(&mut workspace),
        reserve: aligned(&mut reserve),
    };
    let mut found = f32::NAN;
    let before = emulated::launches();
    // The first moments of all parameters, and then the second ones, which no gradient makes small.
    let mut moment = |of: &Vec<f64>| of.iter().map(|_| rng.random_range(0.25..1.0)).collect::<Vec<f32>>();
    let first_moments: [Vec<_>; 2] = std::array::from_fn(|_| its.parameters.iter().map(&mut moment).collect());
    let mut moments = first_moments.clone();
    let betas = if let Some(Rule::Adam { betas, .. }) = rule { betas } else { [1.0; 2] };
    let mut powers = betas.map(|beta: f64| beta.powi(STEPS_BEFORE));
    let of_moments =
        moments.each_mut().map(|all| all.iter_mut().map(|its| its.as_mut_ptr().cast()).collect::<Vec<_>>());
    let [first, second] = of_moments.each_ref().map(|all| &all[..]);
    let optimizer = rule.map(|rule| Optimizer { rule, first, second, powers: powers.as_mut_ptr() });
    let (labels, loss_at) = (labels.as_ptr(), &raw mut found);
    let step = Step { push: SCORES, labels, loss: loss_at, learning_rate: RATE, weight_decay, optimizer };
    // SAFETY: all arrays are as long as the net and the batch say.
    unsafe { made.step(&batch, &arrays, inputs, step, ptr::null_mut()) }.unwrap();
    let launched = emulated::launches() - before;
    let what = format!("{options:?}: {case:?}");
    let bound = ROUNDINGS * epsilon(element) * loss.max(1.0);
    assert!((f64::from(found) - loss).abs() <= bound, "a loss of {found} in place of {loss}: {what}");
    let expected_powers = betas.map(|beta: f64| beta.powi(STEPS_BEFORE + i32::from(rule.is_some())));
    compare(&powers, &expected_powers, f64::EPSILON, "powers");
    for (number, (words, (before, gradient))) in
        parameters.iter().zip(its.parameters.iter().zip(&gradients)).enumerate()
    {
        let expected = before.iter().zip(gradient).enumerate().map(|(place, (p, gradient))| {
            let moments = first_moments.each_ref().map(|all| f64::from(all[number][place]));
            match rule {
                None => [p - rate * (gradient + decay * p), moments[0], moments[1]],
                Some(rule) => by_rule(rule, decay, [*p, moments[0], moments[1]], *gradient),
            }
        });
        let expected: Vec<_> = expected.collect();
        let of = |which: usize| expected.iter().map(|its| its[which]).collect::<Vec<_>>();
        let found = read(words, element, expected.len());
        compare(&found, &of(0), epsilon(element), &format!("parameter {number} of {what}"));
        for (which, all) in moments.iter().enumerate() {
            let found: Vec<_> = all[number].iter().copied().map(f64::from).collect();
            compare(
                &found,
                &of(1 + which),
                epsilon(element),
                &format!("moment {which} of parameter {number} of {what}"),
            );
        }
        // A number that has no part in the step stays as it is. Of the others some change.
        let before = numbers(element, &bytes(element, before));
        let has_part = |place: usize| gradient[place] != 0.0 || decay != 0.0 || rule.is_some();
        let (with_part, without): (Vec<_>, Vec<_>) = (0..before.len()).partition(|place| has_part(*place));
        let is_changed = |place: &usize| found[*place] != before[*place];
        assert!(!without.iter().any(is_changed), "parameter {number} where it has no part in the step: {what}");
        assert!(with_part.is_empty() || with_part.iter().any(is_changed), "parameter {number} is as before: {what}");
    }
    Some(launched)
}
