//! The host executor in double precision against the oracle, and against central differences.

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_vertex::batch::{Batch, Policy};
use ucudnn_vertex::function::{Declaration, Net};
use ucudnn_vertex::host::{Executor, Gradients, Inputs, Pull, Threads};
use ucudnn_vertex::oracle;

use super::case::{Case, Numbers, cases, not_finite_in_empty_slots, random};

/// The most that results differ from the oracle's, as a part of the largest number of the tensor, or of 1.
const MOST_ERROR: f64 = 1e-12;
/// Likewise of slopes from central differences.
const MOST_ERROR_OF_SLOPES: f64 = 1e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 2_000 }))]

    #[test]
    fn the_host_computes_what_the_oracle_does(case in cases()) {
        check_case(&case)?;
    }
}

#[test]
fn empty_slots_are_finite() {
    check_case(&not_finite_in_empty_slots()).unwrap();
}

fn check_case(case: &Case) -> Result<(), TestCaseError> {
    let net = Net::new(case.declaration.clone()).unwrap();
    let batch = case.batch(&net, if case.seed.is_multiple_of(2) { Policy::Height } else { Policy::Ratio });
    let numbers = case.numbers(&batch);
    let ids: Vec<_> = case.ids.iter().map(|id| *id as usize).collect();
    let inputs = oracle::Inputs {
        parameters: &numbers.parameters,
        pulls: &numbers.pulls,
        push_gradients: &numbers.push_gradients,
    };
    let expected = oracle::run(&case.declaration, &case.graphs.description(), &ids, inputs);
    check("outputs", &forward(&net, &batch, &numbers, false).0, &expected.pushes, &vec![true; expected.pushes.len()])?;

    let executor = Executor::new(&net, true, Threads::new(1));
    let (pushes, reserve) = forward(&net, &batch, &numbers, true);
    check("outputs in training", &pushes, &expected.pushes, &vec![true; expected.pushes.len()])?;
    let mut rng = StdRng::seed_from_u64(case.seed ^ 1);
    let wants = Wants::random(&case.declaration, &mut rng);
    let found = backward(&executor, &batch, &numbers, reserve, &wants);
    let before = if wants.accumulates { 1.0 } else { 0.0 };
    let mut parameters = expected.parameter_gradients.clone();
    parameters.iter_mut().flatten().for_each(|gradient| *gradient += before);
    check("gradients of inputs", &found.pulls, &expected.pull_gradients, &wants.pulls)?;
    check("gradients of parameters", &found.parameters, &parameters, &wants.parameters)?;
    // Miri, hundreds of times as slow, watches the same runs once.
    if !cfg!(miri) {
        check_slopes(case, &net, &batch, &expected)?;
    }
    Ok(())
}

/// The gradients that a run is asked for.
struct Wants {
    pulls: Vec<bool>,
    parameters: Vec<bool>,
    accumulates: bool,
}

impl Wants {
    fn random(declaration: &Declaration, rng: &mut StdRng) -> Self {
        Self {
            pulls: declaration.pulls.iter().map(|width| *width > 0 && rng.random_range(0..4) > 0).collect(),
            parameters: declaration.parameters.iter().map(|_| rng.random_range(0..4) > 0).collect(),
            accumulates: rng.random(),
        }
    }
}

/// Runs with memory full of NaN, so that an element that is not written shows.
fn forward(net: &Net, batch: &Batch, numbers: &Numbers, is_training: bool) -> (Vec<Vec<f64>>, Vec<f64>) {
    let executor = Executor::new(net, is_training, Threads::new(1));
    let memory = executor.memory::<f64>(batch);
    let (mut workspace, mut reserve) = (vec![f64::NAN; memory.workspace], vec![f64::NAN; memory.reserve]);
    let mut pushes: Vec<_> = numbers.push_gradients.iter().map(|push| vec![f64::NAN; push.len()]).collect();
    let mut to: Vec<_> = pushes.iter_mut().map(|push| Some(push.as_mut_slice())).collect();
    let (parameters, pulls) = views(numbers);
    let inputs = Inputs { parameters: &parameters, pulls: &pulls };
    executor.forward(batch, inputs, &mut to, (&mut workspace, &mut reserve)).unwrap();
    (pushes, reserve)
}

struct Found {
    pulls: Vec<Vec<f64>>,
    parameters: Vec<Vec<f64>>,
}

fn backward(executor: &Executor, batch: &Batch, numbers: &Numbers, mut reserve: Vec<f64>, wants: &Wants) -> Found {
    let mut workspace = vec![f64::NAN; executor.memory::<f64>(batch).workspace];
    let before = if wants.accumulates { 1.0 } else { f64::NAN };
    let mut found = Found {
        pulls: numbers.pulls.iter().map(|pull| vec![f64::NAN; length(pull)]).collect(),
        parameters: numbers.parameters.iter().map(|parameter| vec![before; parameter.len()]).collect(),
    };
    let mut pulls_to = wanted(&mut found.pulls, &wants.pulls);
    let mut parameters_to = wanted(&mut found.parameters, &wants.parameters);
    let push_gradients: Vec<_> = numbers.push_gradients.iter().map(Vec::as_slice).collect();
    let gradients = Gradients {
        pushes: &push_gradients,
        pulls: &mut pulls_to,
        parameters: &mut parameters_to,
        accumulates: wants.accumulates,
    };
    let (parameters, pulls) = views(numbers);
    let inputs = Inputs { parameters: &parameters, pulls: &pulls };
    executor.backward(batch, inputs, gradients, (&mut workspace, &mut reserve)).unwrap();
    found
}

fn length(pull: &oracle::Pull) -> usize {
    if let oracle::Pull::Rows(rows) = pull { rows.len() } else { 0 }
}

fn wanted<'a>(found: &'a mut [Vec<f64>], wants: &[bool]) -> Vec<Option<&'a mut [f64]>> {
    found.iter_mut().zip(wants).map(|(found, is_wanted)| is_wanted.then_some(found.as_mut_slice())).collect()
}

fn views(numbers: &Numbers) -> (Vec<&[f64]>, Vec<Pull<'_, f64>>) {
    let pulls = numbers.pulls.iter().map(|pull| match pull {
        oracle::Pull::Rows(rows) => Pull::Rows(rows.as_slice()),
        oracle::Pull::Indices(indices) => Pull::Indices(indices.as_slice()),
    });
    (numbers.parameters.iter().map(Vec::as_slice).collect(), pulls.collect())
}

fn check(what: &str, found: &[Vec<f64>], expected: &[Vec<f64>], wants: &[bool]) -> Result<(), TestCaseError> {
    for (number, ((found, expected), is_wanted)) in found.iter().zip(expected).zip(wants).enumerate() {
        if !is_wanted {
            continue;
        }
        let largest = expected.iter().fold(1.0_f64, |largest, number| largest.max(number.abs()));
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let is_right = (found - expected).abs() <= MOST_ERROR * largest;
            prop_assert!(is_right, "{what} {number}, element {place}: {found:e}, not {expected:e}");
        }
    }
    Ok(())
}

/// Holds the gradients of each tensor against the slope of the loss in a random direction. Where a step of half the
/// size gives another slope, a kink of relu or of a greatest lies on the way, and nothing is known.
fn check_slopes(case: &Case, net: &Net, batch: &Batch, expected: &oracle::Outputs) -> Result<(), TestCaseError> {
    let mut rng = StdRng::seed_from_u64(case.seed ^ 2);
    let loss = |numbers: &Numbers| -> f64 {
        let (pushes, _) = forward(net, batch, numbers, false);
        let products = pushes.iter().flatten().zip(numbers.push_gradients.iter().flatten());
        products.map(|(push, gradient)| push * gradient).sum()
    };
    let gradients = expected.parameter_gradients.iter().chain(&expected.pull_gradients);
    for (tensor, gradient) in gradients.enumerate().filter(|(_, gradient)| !gradient.is_empty()) {
        let direction = random(&mut rng, gradient.len());
        let mut slope = |step: f64| {
            let moved = |by: f64| {
                let mut moved = case.numbers(batch);
                let to = match tensor.checked_sub(moved.parameters.len()) {
                    None => &mut moved.parameters[tensor],
                    Some(pull) => match &mut moved.pulls[pull] {
                        oracle::Pull::Rows(rows) => rows,
                        oracle::Pull::Indices(_) => unreachable!("indices have no gradient"),
                    },
                };
                to.iter_mut().zip(&direction).for_each(|(number, direction)| *number += by * direction);
                loss(&moved)
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        };
        let expected: f64 = gradient.iter().zip(&direction).map(|(gradient, direction)| gradient * direction).sum();
        let [coarse, fine] = [2e-5, 1e-5].map(&mut slope);
        let most = MOST_ERROR_OF_SLOPES * gradient.iter().fold(1.0_f64, |largest, number| largest.max(number.abs()));
        if (coarse - fine).abs() <= most {
            prop_assert!(
                (fine - expected).abs() <= 2.0 * most,
                "tensor {tensor}: a slope of {fine:e}, not {expected:e}"
            );
        }
    }
    Ok(())
}
