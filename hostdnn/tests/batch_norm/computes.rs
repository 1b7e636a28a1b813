//! Results against formulas in double precision.

use super::call::*;
use crate::operand::*;
use cudnn_abi::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

const TYPES: [cudnnDataType_t; 4] = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];

fn any_layout(dims: &[usize], dice: &mut StdRng) -> Vec<usize> {
    match dice.random_range(0..3) {
        0 => packed(dims),
        1 => channels_last(dims),
        _ => gapped(dims),
    }
}

/// The group of each element, the last dimension fastest.
fn groups_of(p: &Problem) -> Vec<usize> {
    let volume: usize = p.x.dims[2..].iter().product();
    let image = p.x.dims[1] * volume;
    let per_activation = p.mode == CUDNN_BATCHNORM_PER_ACTIVATION;
    (0..p.x.count()).map(|i| if per_activation { i % image } else { i % image / volume }).collect()
}

/// Each group's mean and biased variance.
fn moments_of(p: &Problem) -> Vec<[f64; 2]> {
    let (groups, x) = (groups_of(p), p.x.values());
    let of_group = |group| {
        let values: Vec<f64> = groups.iter().zip(&x).filter(|&(&of, _)| of == group).map(|(_, &x)| x).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        [mean, values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64]
    };
    (0..p.scale.count()).map(of_group).collect()
}

/// scale·x̂ + bias [+ z], by these moments.
fn normalized(p: &Problem, moments: &[[f64; 2]]) -> Vec<f64> {
    let (x, z, scale, bias) = (p.x.values(), p.z.values(), p.scale.values(), p.bias.values());
    let value = |(i, group): (usize, usize)| {
        let [mean, variance] = moments[group];
        let sum = if p.ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION { z[i] } else { 0.0 };
        scale[group] * (x[i] - mean) / (variance + EPSILON).sqrt() + bias[group] + sum
    };
    groups_of(p).into_iter().enumerate().map(value).collect()
}

fn blended(alpha: f64, new: &[f64], beta: f64, old: &[f64]) -> Vec<f64> {
    new.iter().zip(old).map(|(new, old)| alpha * new + if beta == 0.0 { 0.0 } else { beta * old }).collect()
}

fn check(got: &Operand, want: &[f64], slack: f64, case: &str) {
    let error = relative_error(&got.values(), want);
    // Sums in double precision differ by their order.
    assert!(error <= slack * precision(got.data_type) + 1e-13, "{case}: error {error:e}");
    got.check_gaps();
}

/// Problems of plain normalization: every mode, type and layout, of four and five dimensions.
fn problems(test: impl Fn(Problem, &mut StdRng, &str)) {
    for seed in 0..300 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (ty, mode) = (TYPES[seed as usize % 4], dice.random_range(0..3));
        let dims: Vec<usize> = (0..dice.random_range(4..6)).map(|_| dice.random_range(1..6)).collect();
        let mut problem = Problem::new(ty, mode, CUDNN_BATCHNORM_OPS_BN, &dims, any_layout, &mut dice);
        if dice.random_bool(0.5) {
            problem = problem.blended(&mut dice);
        }
        test(problem, &mut dice, &format!("seed {seed}, type {ty}, mode {mode}, {dims:?}"));
    }
}

#[test]
fn training_normalizes_and_keeps_statistics() {
    problems(|mut p, dice, case| {
        p.runs = [dice.random(), dice.random()];
        p.saves = [dice.random(); 2];
        let (moments, before) = (moments_of(&p), p.y.values());
        let old = p.running.each_ref().map(Operand::values);
        let status = if dice.random_bool(0.5) { p.train() } else { p.train_ex() };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{case}");
        let want = blended(p.alphas[0], &normalized(&p, &moments), p.betas[0], &before);
        // A factor of alpha or beta has its own rounding to float.
        check(&p.y, &want, 3.0, &format!("{case}, y"));

        let m = (p.x.count() / p.scale.count()) as f64;
        let mean = moments.iter().map(|&[mean, _]| mean).collect::<Vec<_>>();
        let unbiased = moments.iter().map(|&[_, variance]| variance * m / (m - 1.0)).collect::<Vec<_>>();
        for (i, new) in [&mean, &unbiased].into_iter().enumerate() {
            let next: Vec<f64> = old[i].iter().zip(new).map(|(old, new)| 0.75 * old + 0.25 * new).collect();
            let got = p.running[i].values();
            match (p.runs[i], i == 1 && m == 1.0) {
                (false, _) => assert_eq!(got, old[i], "{case}: a running statistic that is not given"),
                (true, true) => assert!(got.iter().all(|v| v.is_nan()), "{case}: the variance of one element"),
                (true, false) => check(&p.running[i], &next, 2.0, &format!("{case}, running {i}")),
            }
        }
        let deviations: Vec<f64> = moments.iter().map(|[_, variance]| 1.0 / (variance + EPSILON).sqrt()).collect();
        for (saved, want) in p.saved.iter().zip([&mean, &deviations]) {
            match p.saves[0] {
                true => check(saved, want, 2.0, &format!("{case}, saved")),
                false => assert!(saved.values().iter().all(|v| v.is_nan()), "{case}: saved without being asked"),
            }
        }
    });
}

#[test]
fn inference_normalizes_by_what_it_is_given() {
    problems(|mut p, _, case| {
        let positive: Vec<f64> = p.running[1].values().iter().map(|v| v.abs()).collect();
        p.running[1].fill(&positive);
        let given: Vec<[f64; 2]> =
            p.running[0].values().into_iter().zip(p.running[1].values()).map(|(mean, var)| [mean, var]).collect();
        let before = p.y.values();
        assert_eq!(p.infer(), CUDNN_STATUS_SUCCESS, "{case}");
        check(&p.y, &blended(p.alphas[0], &normalized(&p, &given), p.betas[0], &before), 3.0, case);
    });
}

/// The gradients by the chain rule, through x̂, the variance and the mean in turn. `mean_and_deviation` are the
/// group's; `g` is the gradient after the ReLU. Returns dx, dScale and dBias.
fn gradients(p: &Problem, centres: &[[f64; 2]], g: &[f64]) -> [Vec<f64>; 3] {
    let (groups, x, scale) = (groups_of(p), p.x.values(), p.scale.values());
    let count = p.scale.count();
    let m = (x.len() / count) as f64;
    let [mut to_scale, mut to_bias, mut to_variance, mut to_mean] = [(); 4].map(|()| vec![0.0; count]);
    for (i, &group) in groups.iter().enumerate() {
        let [mean, deviation] = centres[group];
        to_scale[group] += g[i] * (x[i] - mean) * deviation;
        to_bias[group] += g[i];
        let to_normal = g[i] * scale[group];
        to_variance[group] += to_normal * (x[i] - mean) * -0.5 * deviation.powi(3);
        to_mean[group] -= to_normal * deviation;
    }
    let dx = groups.iter().enumerate().map(|(i, &group)| {
        let [mean, deviation] = centres[group];
        g[i] * scale[group] * deviation + to_variance[group] * 2.0 * (x[i] - mean) / m + to_mean[group] / m
    });
    [dx.collect(), to_scale, to_bias]
}

fn check_gradients(p: &Problem, centres: &[[f64; 2]], g: &[f64], old: [Vec<f64>; 3], case: &str) {
    let [dx, to_scale, to_bias] = gradients(p, centres, g);
    let parameters = [(&p.gradients[0], to_scale), (&p.gradients[1], to_bias)];
    // Sums cancel: errors are measured beside the largest term, which is about 1.
    let near = |got: &Operand, want: &[f64], case: &str| {
        let limit = 4.0 * precision(got.data_type) + 1e-12;
        let largest = want.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
        for (got, want) in got.values().iter().zip(want) {
            assert!((got - want).abs() <= limit * largest, "{case}: {got} in place of {want}");
        }
        got.check_gaps();
    };
    near(&p.dx, &blended(p.alphas[0], &dx, p.betas[0], &old[0]), &format!("{case}, dx"));
    for ((got, want), old) in parameters.into_iter().zip(&old[1..]) {
        near(got, &blended(p.alphas[1], &want, p.betas[1], old), &format!("{case}, parameters"));
    }
}

fn old_gradients(p: &Problem) -> [Vec<f64>; 3] {
    [p.dx.values(), p.gradients[0].values(), p.gradients[1].values()]
}

fn saved_centres(p: &Problem) -> Vec<[f64; 2]> {
    p.saved[0].values().into_iter().zip(p.saved[1].values()).map(|(mean, deviation)| [mean, deviation]).collect()
}

#[test]
fn gradients_follow_the_chain_rule() {
    problems(|mut p, dice, case| {
        p.saves = [dice.random(); 2];
        let (old, found) = (old_gradients(&p), moments_of(&p));
        if p.saves[0] {
            // Any saved values are used, and not only x's own.
            for saved in &mut p.saved {
                let values: Vec<f64> = (0..saved.count()).map(|_| dice.random_range(0.2..2.0)).collect();
                saved.fill(&values);
            }
        }
        let centres = match p.saves[0] {
            true => saved_centres(&p),
            false => found.iter().map(|&[mean, variance]| [mean, 1.0 / (variance + EPSILON).sqrt()]).collect(),
        };
        let status = if dice.random_bool(0.5) { p.differentiate() } else { p.differentiate_ex() };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{case}");
        if p.saves[0] {
            // No x has these statistics, so there is no chain rule through x: compare by the closed formula.
            let (groups, dy, x) = (groups_of(&p), p.dy.values(), p.x.values());
            let [_, to_scale, to_bias] = gradients(&p, &centres, &dy);
            let m = (x.len() / p.scale.count()) as f64;
            let scale = p.scale.values();
            let dx: Vec<f64> = (0..x.len())
                .map(|i| {
                    let [mean, deviation] = centres[groups[i]];
                    let sums = to_bias[groups[i]] + (x[i] - mean) * deviation * to_scale[groups[i]];
                    scale[groups[i]] * deviation * (dy[i] - sums / m)
                })
                .collect();
            check(&p.dx, &blended(p.alphas[0], &dx, p.betas[0], &old[0]), 4.0, &format!("{case}, dx"));
        } else {
            check_gradients(&p, &centres, &p.dy.values(), old, case);
        }
    });
}

/// The fused operations, forward and back, in the types and layouts that take them.
#[test]
fn fused_operations_and_their_gradients() {
    let mut closed = 0;
    for seed in 0..200 {
        let mut dice = StdRng::seed_from_u64(seed);
        let ty = *[CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16].choose(&mut dice).unwrap();
        let ops = dice.random_range(1..3);
        let mut dims: Vec<usize> = (0..dice.random_range(4..6)).map(|_| dice.random_range(1..5)).collect();
        dims[1] *= if ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION { 4 } else { 1 };
        let last = |dims: &[usize], _: &mut StdRng| channels_last(dims);
        let mut p = Problem::new(ty, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, ops, &dims, last, &mut dice);
        if dice.random_bool(0.5) {
            p = p.blended(&mut dice);
        }
        let case = format!("seed {seed}, type {ty}, operations {ops}, {dims:?}");
        let before = p.y.values();
        assert_eq!(p.train_ex(), CUDNN_STATUS_SUCCESS, "{case}");
        let sums = normalized(&p, &moments_of(&p));
        let rectified: Vec<f64> = sums.iter().map(|sum| sum.max(0.0)).collect();
        check(&p.y, &blended(p.alphas[0], &rectified, p.betas[0], &before), 3.0, &format!("{case}, y"));

        // Values within rounding of 0 may fall on either side once they are computed again.
        if sums.iter().any(|sum| sum.abs() < 1e-5) {
            continue;
        }
        let old = old_gradients(&p);
        let dy = p.dy.values();
        let g: Vec<f64> = sums.iter().zip(&dy).map(|(&sum, &dy)| if sum > 0.0 { dy } else { 0.0 }).collect();
        closed += g.iter().filter(|&&g| g == 0.0).count();
        assert_eq!(p.differentiate_ex(), CUDNN_STATUS_SUCCESS, "{case}");
        check_gradients(&p, &saved_centres(&p), &g, old, &case);
        match ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION {
            true => assert_eq!(p.dz.values(), g, "{case}: dz has no factors"),
            false => assert!(p.dz.values().iter().all(|v| v.is_nan()), "{case}: dz without a sum"),
        }
    }
    assert!(closed > 1000, "{closed} elements are cut off");
}

/// A sum's gradient reads the reserve and not the bias; without a sum it is the other way round.
#[test]
fn each_gradient_reads_its_own_source_of_the_relu() {
    let mut dice = StdRng::seed_from_u64(3);
    for ops in [CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION] {
        let mut p = Problem::fused(ops, &[2, 8, 3, 4], &mut dice);
        assert_eq!(p.train_ex(), CUDNN_STATUS_SUCCESS);
        assert_eq!(p.differentiate_ex(), CUDNN_STATUS_SUCCESS);
        let first = p.dx.values();
        let changes_by = |p: &mut Problem| {
            assert_eq!(p.differentiate_ex(), CUDNN_STATUS_SUCCESS);
            p.dx.values() != first
        };
        let (bias, reserve) = (p.bias.values(), p.reserve.clone());
        p.bias.fill(&vec![-100.0; bias.len()]);
        assert_eq!(changes_by(&mut p), ops == CUDNN_BATCHNORM_OPS_BN_ACTIVATION, "the bias");
        p.bias.fill(&bias);
        p.reserve.fill(0);
        assert_eq!(changes_by(&mut p), ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, "the reserve");
        p.reserve = reserve;
        assert!(!changes_by(&mut p), "what was changed is back");
    }
}

/// The variance and the result are right if the mean is this many deviations from 0.
#[test]
fn statistics_are_right_however_far_the_mean_is() {
    for (seed, deviations) in [0.0, 1000.0, 1e5].into_iter().enumerate() {
        let mut dice = StdRng::seed_from_u64(seed as u64);
        for ty in [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE] {
            let dims = [8, 3, 16, 16];
            let mut p = Problem::new(ty, CUDNN_BATCHNORM_SPATIAL, 0, &dims, any_layout, &mut dice);
            // On a grid that floats have there, so that the wanted statistics are exact.
            let near: Vec<f64> = p.x.values().iter().map(|x| (x * 64.0).round() / 64.0).collect();
            p.x.fill(&near);
            let mut moments = moments_of(&p);
            p.x.fill(&near.iter().map(|x| x + deviations).collect::<Vec<_>>());
            moments.iter_mut().for_each(|moments| moments[0] += deviations);
            assert_eq!(p.train(), CUDNN_STATUS_SUCCESS);
            let case = format!("{deviations} deviations, type {ty}");
            let slack = if ty == CUDNN_DATA_DOUBLE { 1e6 } else { 2.0 };
            check(&p.y, &normalized(&p, &moments), slack, &case);
            let want: Vec<f64> = moments.iter().map(|[_, variance]| 1.0 / (variance + EPSILON).sqrt()).collect();
            check(&p.saved[1], &want, slack, &case);
        }
    }
}

/// Training into x, and the gradient into dy, give the same results.
#[test]
fn results_may_replace_their_operands() {
    let mut dice = StdRng::seed_from_u64(5);
    let mut p = Problem::new(CUDNN_DATA_FLOAT, 1, 0, &[3, 4, 5, 6], |dims, _| gapped(dims), &mut dice);
    p.saves = [false; 2];
    assert_eq!([p.train(), p.differentiate()], [CUDNN_STATUS_SUCCESS; 2]);
    let (y, dx, x) = (p.y.values(), p.dx.values(), p.x.values());
    std::mem::swap(&mut p.x, &mut p.y);
    p.x.fill(&x);
    let status = p.in_place(p.x.desc);
    assert_eq!(status, [CUDNN_STATUS_SUCCESS; 2]);
    assert!(p.x.values() == y && p.dy.values() == dx, "the same results in place");
}
