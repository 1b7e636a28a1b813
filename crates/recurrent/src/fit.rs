//! Fits the performance model's constants to the times that were measured on a device.
//!
//! The fit assumes that a time step takes `a + s · clocks`: the clocks that the model predicts, s milliseconds a clock,
//! and the time a of a network's steps that no configuration changes (input products). It minimises the sum of squared
//! relative errors over the constants, s, and each network's a. A penalty on leaving the defaults keeps a constant that
//! no time depends on. The method is Levenberg's (1944) and Marquardt's (1963), in the constants' logarithms.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;

use super::configuration::{Configuration, Pass, Problem};
use super::kernels::problem;
use super::model::Model;
use crate::network::inference::Inference;
use crate::network::record::FAMILY;
use crate::network::subject::Subject;
use tuning::family::{Entries, Time};

/// The largest factor between a constant and its default.
const MOST: f64 = 4.0;
/// Doubling a constant costs this times ln² 2 in squared relative errors: as much as five times that are 5% off.
const PENALTY: f64 = 0.026;
/// A fit needs this many more times than networks.
const LEAST: usize = 8;
/// More networks add no information, and take longer to fit.
const MOST_NETWORKS: usize = 256;
const ITERATIONS: usize = 40;

/// The model of the calling thread's device: the defaults, until enough was timed there.
pub fn model() -> Model {
    static MODELS: Mutex<Option<HashMap<i32, Model>>> = Mutex::new(None);
    let ordinal = cudnn::device().ordinal();
    if let Some(&model) = MODELS.lock().get_or_insert_default().get(&ordinal) {
        return model;
    }
    let model = FAMILY.entries().and_then(|entries| entries.model()).map_or_else(Model::default, |text| read(&text));
    MODELS.lock().get_or_insert_default().insert(ordinal, model);
    model
}

/// Fits the model to all known times of the calling thread's device, and stores it for the next process.
pub fn learn(entries: &Entries) {
    let mut known = entries.all_times();
    // A part of them, if there are more: the same part each time, with all passes in it.
    known.sort_by_cached_key(|(subject, _)| hash(subject));
    let networks = known.iter().filter_map(|(subject, times)| timed(subject, times)).take(MOST_NETWORKS);
    let networks: Vec<_> = networks.collect();
    if let Some(model) = fit(&networks) {
        let constants = text(model);
        log::info!("the performance model of RNNs, fitted to {} networks: {constants}", networks.len());
        entries.keep_model(&constants);
    }
}

/// The times of a recurrence by our kernels, in milliseconds a time step.
struct Timed {
    problem: Problem,
    times: Vec<(Configuration, f64)>,
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The times of a subject, by its text. `None`: it has no recurrence that was timed, or its text says nothing to this
/// version.
fn timed(subject: &str, times: &[Time]) -> Option<Timed> {
    let subject = Subject::from_spec(subject).ok()?;
    let Inference { network, batch, steps, .. } = &subject.network;
    // A projection's products are no part of a recurrence.
    if network.projects() {
        return None;
    }
    let (problem, launches) = recurrence(&subject, problem(network, *batch, *steps)?)?;
    let time = |known: &Time| known.time.filter(|&time| time > 0.0).map(|time| time / launches as f64);
    let ours = times.iter().filter_map(|known| Some((known.what.parse().ok()?, time(known)?)));
    let times: Vec<_> = ours.filter(|(configuration, _): &(Configuration, _)| configuration.fits(&problem)).collect();
    Some(Timed { problem, times }).filter(|timed| !timed.times.is_empty())
}

/// The recurrence of a subject, given the one of its network's inference, and how often the subject runs it. The problem of
/// inference has all layers, and one of training a single layer.
fn recurrence(subject: &Subject, inference: Problem) -> Option<(Problem, usize)> {
    match subject.pass()? {
        Pass::Inference => Some((inference, 1)),
        Pass::Forward => Some((inference.of_forward(), inference.layers)),
        Pass::Backward => Some((inference.of_backward(), inference.layers)),
    }
}

/// The constants as text, such as `efficiency=0.8 shuffle=25`.
fn text(mut model: Model) -> String {
    let constants = model.constants().map(|(name, value)| format!("{name}={value}"));
    constants.join(" ")
}

/// Reads the text that [`text`] writes. A missing or malformed constant gets its default; one too far from its default
/// gets the nearest allowed value.
fn read(text: &str) -> Model {
    let mut model = Model::default();
    let value = |name: &str| {
        let mut words = text.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(known, _)| *known == name)?.1.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    for (name, constant) in model.constants() {
        if let Some(value) = value(name) {
            *constant = value.clamp(*constant / MOST, *constant * MOST);
        }
    }
    model.efficiency = model.efficiency.min(1.0);
    model
}

/// Returns the defaults, each multiplied by the exponential of its logarithm here.
fn scaled(logarithms: &[f64]) -> Model {
    let mut model = Model::default();
    for ((_, constant), logarithm) in model.constants().into_iter().zip(logarithms) {
        *constant *= logarithm.clamp(-MOST.ln(), MOST.ln()).exp();
    }
    model.efficiency = model.efficiency.min(1.0);
    model
}

/// Returns the constants that fit the times best. `None`: there are too few times, or the fitted model would choose
/// slower configurations than the defaults for some pass.
fn fit(networks: &[Timed]) -> Option<Model> {
    let times: usize = networks.iter().map(|network| network.times.len()).sum();
    if times < networks.len() + LEAST {
        return None;
    }
    let count = Model::default().constants().len();
    // The logarithms of the constants, and of s.
    let mut unknowns = vec![0.0; count + 1];
    unknowns[count] = slope(networks).ln();
    let mut errors = errors(networks, &unknowns);
    let mut damping = 1e-3;
    for _ in 0..ITERATIONS {
        let step = step(networks, &unknowns, &errors, damping);
        let tried: Vec<f64> = unknowns.iter().zip(&step).map(|(unknown, step)| unknown + step).collect();
        let then = self::errors(networks, &tried);
        if squares(&then) < squares(&errors) {
            (unknowns, errors) = (tried, then);
            damping /= 4.0;
        } else {
            damping *= 4.0;
        }
    }
    let fitted = scaled(&unknowns[..count]);
    let is_no_worse = |pass| {
        let of_pass = || networks.iter().filter(|network| network.problem.pass == pass);
        regret(of_pass(), &fitted) <= regret(of_pass(), &Model::default())
    };
    [Pass::Inference, Pass::Forward, Pass::Backward].into_iter().all(is_no_worse).then_some(fitted)
}

fn squares(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error * error).sum()
}

/// The root of each constant's penalty, and the relative error of each time.
fn errors(networks: &[Timed], unknowns: &[f64]) -> Vec<f64> {
    let (scale, constants) =
        unknowns.split_last().map(|(scale, constants)| (scale.exp(), constants)).unwrap_or_default();
    let model = scaled(constants);
    let mut errors: Vec<f64> = constants.iter().map(|constant| PENALTY.sqrt() * constant).collect();
    for Timed { problem, times } in networks {
        let rest =
            times.iter().map(|(configuration, time)| (time - scale * model.clocks(problem, configuration), time));
        let rest: Vec<_> = rest.collect();
        let weights: f64 = rest.iter().map(|(_, time)| 1.0 / (*time * *time)).sum();
        let base = rest.iter().map(|(rest, time)| rest / (*time * *time)).sum::<f64>() / weights;
        errors.extend(rest.iter().map(|(rest, time)| (rest - base.max(0.0)) / *time));
    }
    errors
}

/// The initial s, in milliseconds a clock, from the differences between the slowest and the fastest of each network; if
/// these do not give one, from the fastest times.
fn slope(networks: &[Timed]) -> f64 {
    let model = Model::default();
    let (mut clocks, mut time, mut more_clocks, mut more_time) = (0.0, 0.0, 0.0, 0.0);
    for Timed { problem, times } in networks {
        let predicted = |configuration| model.clocks(problem, configuration);
        let by_time = |a: &&(Configuration, f64), b: &&(Configuration, f64)| a.1.total_cmp(&b.1);
        let ends = times.iter().min_by(by_time).zip(times.iter().max_by(by_time));
        let Some(((fast, least), (slow, most))) = ends else { continue };
        more_clocks += predicted(slow) - predicted(fast);
        more_time += most - least;
        clocks += predicted(fast);
        time += least;
    }
    let ratio = if more_clocks > 0.0 && more_time > 0.0 { more_time / more_clocks } else { time / clocks };
    // The predicted part of a network's time is at most all of it.
    ratio.min(time / clocks).max(f64::MIN_POSITIVE)
}

/// Solves the damped normal equations for the next step.
fn step(networks: &[Timed], unknowns: &[f64], errors: &[f64], damping: f64) -> Vec<f64> {
    /// The difference in a logarithm, for numeric derivatives.
    const DIFFERENCE: f64 = 1e-4;
    let columns: Vec<Vec<f64>> = (0..unknowns.len())
        .map(|index| {
            let mut moved = unknowns.to_vec();
            moved[index] += DIFFERENCE;
            let moved = self::errors(networks, &moved);
            moved.iter().zip(errors).map(|(moved, error)| (moved - error) / DIFFERENCE).collect()
        })
        .collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| {
            let row = columns.iter().map(|other| product(column, other));
            row.chain([-product(column, errors)]).collect()
        })
        .collect();
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] = row[index] * (1.0 + damping) + f64::MIN_POSITIVE;
    }
    solve(rows)
}

/// Solves positive definite equations by elimination. Each row has its right side behind its coefficients.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for pivot in 0..count {
        let (above, below) = rows.split_at_mut(pivot + 1);
        for row in below {
            let factor = row[pivot] / above[pivot][pivot];
            row.iter_mut().zip(&above[pivot]).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; count];
    for index in (0..count).rev() {
        let known: f64 = (index + 1..count).map(|other| rows[index][other] * solution[other]).sum();
        solution[index] = (rows[index][count] - known) / rows[index][index];
    }
    solution
}

/// The mean over the networks of chosen time / shortest time, among the configurations that were timed. The chosen time
/// is the time of the configuration with the fewest clocks in the model.
fn regret<'a>(networks: impl IntoIterator<Item = &'a Timed>, model: &Model) -> f64 {
    let of = |Timed { problem, times, .. }: &Timed| {
        let clocks = |configuration| model.clocks(problem, configuration);
        let chosen = times.iter().min_by(|(a, _), (b, _)| clocks(a).total_cmp(&clocks(b)))?;
        let best = times.iter().map(|(_, time)| *time).min_by(f64::total_cmp)?;
        Some(chosen.1 / best)
    };
    let regrets: Vec<f64> = networks.into_iter().filter_map(of).collect();
    regrets.iter().sum::<f64>() / regrets.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::configuration::{Cell, Element};
    use super::*;

    fn problem(cell: Cell, hidden: usize, batch: usize, layers: usize) -> Problem {
        Problem { layers, tensor_cores: false, ..Problem::on_an_h200(cell, Element::Float, hidden, batch) }
    }

    /// Simulates the times of some configurations of each network on a device with these constants, with 1% of noise.
    fn measured(truth: &Model, seed: u64) -> Vec<Timed> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut networks = Vec::new();
        for cell in [Cell::Lstm, Cell::Gru] {
            for (hidden, batch, layers) in
                [(64, 1, 1), (64, 20, 2), (96, 4, 1), (256, 1, 2), (256, 10, 1), (512, 10, 1), (1024, 1, 1)]
            {
                let problem = problem(cell, hidden, batch, layers);
                let base = random.random_range(0.0..0.003);
                let ranked = Model::default().ranked(&problem, 40);
                let times = ranked.into_iter().step_by(3).map(|configuration| {
                    let clocks = truth.clocks(&problem, &configuration);
                    (configuration, (base + clocks * 5.7e-7) * random.random_range(0.99..1.01))
                });
                networks.push(Timed { problem, times: times.collect() });
            }
        }
        networks
    }

    #[test]
    fn a_device_s_constants_are_found() {
        let default = Model::default();
        let truth = Model {
            efficiency: 0.6 * default.efficiency,
            shuffle: 1.8 * default.shuffle,
            grid_exchange: 1.7 * default.grid_exchange,
            block_exchange: 1.3 * default.block_exchange,
            cluster_exchange: 2.9 * default.cluster_exchange,
            l2_bytes: 1.1 * default.l2_bytes,
            ..default
        };
        let fitted = fit(&measured(&truth, 1)).unwrap();
        let others = measured(&truth, 2);
        let (before, after) = (regret(&others, &default), regret(&others, &fitted));
        assert!(after < 1.02 && after <= before, "{before} {after}: {fitted:?}");
        // The times show only ratios of constants: s is not known.
        let proportion = |model: &Model| model.grid_exchange / model.shuffle;
        let off = proportion(&fitted) / proportion(&truth);
        assert!((0.7..1.4).contains(&off), "{off}: {fitted:?}");
        // Over the whole space, which was not timed, the fit chooses no worse than the defaults do.
        for (hidden, batch) in [(128, 1), (256, 20), (768, 4)] {
            let problem = problem(Cell::Lstm, hidden, batch, 1);
            let time = |model: &Model| truth.clocks(&problem, &model.ranked(&problem, 1)[0]);
            let best = truth.clocks(&problem, &truth.ranked(&problem, 1)[0]);
            let ratios = [time(&fitted) / best, time(&fitted) / time(&default)];
            assert!(ratios[0] <= 1.1 && ratios[1] <= 1.001, "{hidden} {batch}: {ratios:?}");
        }
    }

    #[test]
    fn the_defaults_stay_where_they_are_right_or_nothing_says_otherwise() {
        let default = Model::default();
        let mut fitted = fit(&measured(&default, 3)).unwrap();
        for ((name, fitted), (_, default)) in fitted.constants().into_iter().zip(default.clone().constants()) {
            assert!((0.5..2.0).contains(&(*fitted / *default)), "{name}: {fitted}");
        }
        assert!(fit(&[]).is_none());
        assert!(fit(&measured(&default, 3)[..0]).is_none());
        let few =
            Timed { times: measured(&default, 3).remove(0).times[..5].to_vec(), ..measured(&default, 3).remove(0) };
        assert!(fit(&[few]).is_none());
    }

    /// Times on an H200 by `ucudnn tune --rnn … --top-k 20`: LSTM and GRU, one layer, 100 steps; in float without tensor
    /// cores (kernels of commit b7b77b8).
    fn timed_on_an_h200() -> Vec<Timed> {
        let mut networks: Vec<Timed> = Vec::new();
        for line in include_str!("h200.csv").lines().skip(1) {
            let [cell, element, hidden, batch, configuration, step_us] =
                line.split(',').collect::<Vec<_>>().try_into().unwrap();
            let cell = if cell == "LSTM" { Cell::Lstm } else { Cell::Gru };
            let element = if element == "float" { Element::Float } else { Element::Half };
            let problem = Problem {
                tensor_cores: element == Element::Half,
                ..Problem::on_an_h200(cell, element, hidden.parse().unwrap(), batch.parse().unwrap())
            };
            if networks.last().is_none_or(|last| last.problem != problem) {
                networks.push(Timed { problem, times: Vec::new() });
            }
            let time = (configuration.parse().unwrap(), step_us.parse::<f64>().unwrap() / 1e3);
            networks.last_mut().unwrap().times.push(time);
        }
        networks
    }

    /// GRNN's first choice took 3% longer than the best configuration.
    #[test]
    fn the_defaults_choose_well_on_an_h200() {
        let networks = timed_on_an_h200();
        let regrets = networks.iter().map(|network| regret([network], &Model::default()));
        let worst = regrets.fold(0.0, f64::max);
        let mean = regret(&networks, &Model::default());
        assert!(networks.len() > 20 && mean < 1.03 && worst < 1.15, "{mean} {worst}");
    }

    #[test]
    fn each_pass_has_its_recurrence() {
        const NETWORK: &str = "LSTM input=64 hidden=64 layers=3 directions=1 bias=double type=float math=default \
                               algorithm=standard layout=packed padded=no batch=4 steps=16 full=yes";
        let inference = Problem { layers: 3, ..Problem::on_an_h200(Cell::Lstm, Element::Float, 64, 4) };
        let of = |pass: &str| recurrence(&Subject::from_spec(&format!("{NETWORK}{pass}")).unwrap(), inference);
        assert_eq!(of(""), Some((inference, 1)));
        assert_eq!(of(" pass=forward-training"), Some((inference.of_forward(), 3)));
        assert_eq!(of(" pass=backward-data"), Some((inference.of_backward(), 3)));
        assert_eq!(of(" pass=backward-weights"), None);
    }

    /// Constants stay within bounds, whatever the times are.
    #[test]
    fn nonsense_is_bounded() {
        let mut random = StdRng::seed_from_u64(4);
        for _ in 0..5 {
            let mut networks = measured(&Model::default(), 5);
            for (_, time) in networks.iter_mut().flat_map(|network| &mut network.times) {
                *time = 10_f64.powf(random.random_range(-9.0..3.0));
            }
            if let Some(mut model) = fit(&networks) {
                for ((name, value), (_, default)) in model.constants().into_iter().zip(Model::default().constants()) {
                    let factor = *value / *default;
                    assert!((0.999 / MOST..1.001 * MOST).contains(&factor), "{name}: {factor}");
                }
                assert!(model.efficiency <= 1.0);
            }
        }
    }

    #[test]
    fn constants_are_read_back() {
        let model = Model { efficiency: 0.625, grid_exchange: 500.5, ..Model::default() };
        assert_eq!(read(&text(model)), model);
        assert_eq!(read(""), Model::default());
        assert_eq!(read("efficiency=x shuffle=NaN nothing=5 shuffle"), Model::default());
        let bounded = read("efficiency=1000 shuffle=1e-9");
        assert_eq!((bounded.efficiency, bounded.shuffle), (1.0, Model::default().shuffle / MOST));
    }
}
