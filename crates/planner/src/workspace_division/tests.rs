//! Divisions against brute force.

use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
/// Times this close, as a fraction, count as equal: a division is optimal only to this fraction of its time.
const CLOSE: f64 = 1e-9;

fn group(layers: usize, alternatives: &[(f64, usize)]) -> Group {
    let alternative = |&(time, workspace): &(f64, usize)| Alternative { time, workspace };
    Group { layers, alternatives: alternatives.iter().map(alternative).collect() }
}

/// The least time within `total`, found by trying every alternative for each layer.
fn brute_force(groups: &[Group], total: usize) -> Option<f64> {
    fn least(layers: &[&Group], total: usize, ticks: u128) -> Option<u128> {
        let Some((first, rest)) = layers.split_first() else { return Some(ticks) };
        let fits = first.alternatives.iter().filter(|it| it.workspace <= total);
        fits.filter_map(|it| least(rest, total - it.workspace, ticks + u128::from(time::ticks(it.time)?))).min()
    }
    let layers: Vec<&Group> = groups.iter().flat_map(|group| std::iter::repeat_n(group, group.layers)).collect();
    least(&layers, total, 0).map(time::milliseconds)
}

/// Asserts that the division is one of `groups` within `total`, and that its figures are true.
fn check(groups: &[Group], total: usize, division: &Division) {
    assert_eq!(division.chosen.len(), groups.len());
    let (mut ticks, mut workspace) = (0, 0usize);
    for (group, chosen) in groups.iter().zip(&division.chosen) {
        assert_eq!(chosen.len(), group.layers);
        for &index in chosen {
            ticks += u128::from(time::ticks(group.alternatives[index].time).unwrap());
            workspace = workspace.checked_add(group.alternatives[index].workspace).unwrap();
        }
    }
    assert!(workspace <= total, "{workspace} bytes of {total}");
    assert_eq!(workspace, division.workspace);
    assert_eq!(time::milliseconds(ticks), division.time);
    assert!((0.0..=1.0).contains(&division.gap) && (!division.proven || division.gap == 0.0));
}

/// Asserts that the division is as fast as brute force.
fn assert_optimal(groups: &[Group], total: usize) {
    match (workspace_division(groups, total, MINUTE), brute_force(groups, total)) {
        (Ok(division), Some(least)) => {
            check(groups, total, &division);
            assert!(division.proven);
            assert!(division.time <= least * (1.0 + CLOSE), "{} ms, but {least} is possible", division.time);
        }
        (Err(DivisionError::TooSmall { least }), None) => assert!(least > total),
        (division, least) => panic!("{division:?}, but {least:?} by brute force"),
    }
}

/// Networks of at most 4 layers in groups, with at most 6 alternatives each.
fn networks(alternative: impl Strategy<Value = (f64, usize)>) -> impl Strategy<Value = Vec<Group>> {
    let alternatives = proptest::collection::vec(alternative, 1..=6);
    let groups = proptest::collection::vec((1..=4usize, alternatives), 1..=4);
    groups.prop_map(|groups| {
        let mut layers = 4;
        let mut cut = |(count, alternatives): &(usize, Vec<_>)| {
            let count = (*count).min(layers);
            layers -= count;
            group(count, alternatives)
        };
        groups.iter().map(&mut cut).collect()
    })
}

/// Networks with a tight total: the workspace of one random division, or one byte more or less.
fn tight(alternative: impl Strategy<Value = (f64, usize)>) -> impl Strategy<Value = (Vec<Group>, usize)> {
    (networks(alternative), any::<[u8; 4]>(), 0..=2usize).prop_map(|(groups, picks, off)| {
        let layers = groups.iter().flat_map(|group| std::iter::repeat_n(group, group.layers));
        let pick =
            |(group, pick): (&Group, u8)| group.alternatives[usize::from(pick) % group.alternatives.len()].workspace;
        let total = layers.zip(picks).map(pick).fold(0, usize::saturating_add);
        (groups, total.saturating_add(off).saturating_sub(1))
    })
}

/// Times of all magnitudes, from zero to hours.
fn times() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..10.0, (1u8..10).prop_map(f64::from), (-9.0..7.0).prop_map(|power| 10f64.powf(power))]
}

/// Bytes of all magnitudes, near powers of two, and up to nearly all of memory.
fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        0..10usize,
        (0..62u32, 0..3usize).prop_map(|(power, off)| ((1 << power) + off).saturating_sub(1)),
        (0..62u32, any::<usize>()).prop_map(|(power, bits)| bits >> power >> 1),
    ]
}

/// Large and nearly equal bytes: a double of their sum is too coarse to hold their differences.
fn nearly_equal_bytes() -> impl Strategy<Value = usize> {
    (1..=3usize, 0..8usize).prop_map(|(times, off)| times * ((1 << 55) + 4) + off)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn usual_networks_are_optimal((groups, total) in tight((0.01..10.0, (0..1000usize).prop_map(|units| units << 12)))) {
        assert_optimal(&groups, total);
    }

    #[test]
    fn every_magnitude_is_optimal((groups, total) in tight((times(), bytes()))) {
        assert_optimal(&groups, total);
    }

    #[test]
    fn nearly_equal_networks_are_optimal((groups, total) in tight((1.0..1.001, nearly_equal_bytes()))) {
        assert_optimal(&groups, total);
    }

    #[test]
    fn any_total_is_kept(groups in networks((times(), bytes())), total in bytes()) {
        assert_optimal(&groups, total);
    }

    /// No alternative is pruned here, so that the solver and dynamic programming each find the optimum alone.
    #[test]
    fn the_solver_and_whole_numbers_agree((groups, total) in tight((0.01..10.0, (0..1usize << 20).prop_map(|units| units << 8)))) {
        let (Ok(fronts), Some(least)) = (Fronts::of(&groups, total), brute_force(&groups, total)) else { return Ok(()) };
        let all = fronts.fronts.iter().map(|front| vec![front.layers; front.points.len()]).collect();
        let scaled = Scaled::of(&fronts, &all, &fronts.least());
        let solved = solver::solve(&scaled.programme, MINUTE).unwrap();
        let counts = scaled.counts(&fronts, &solved);
        prop_assert!(solved.optimal && fronts.fits(&counts));
        prop_assert!(scaled.bound(&solved) <= fronts.time(&counts) as f64);
        let exact = exact::fastest(&fronts, 0.0, &all, &fronts.least()).unwrap();
        prop_assert!(fronts.fits(&exact));
        prop_assert_eq!(time::milliseconds(fronts.time(&exact)), least);
        prop_assert!(time::milliseconds(fronts.time(&counts)) <= least * (1.0 + CLOSE));
    }
}

/// Different problems with unbeaten alternatives of up to 10⁹ bytes, one of 0; the total has 2²⁸ bytes per problem.
fn large_network(kernels: usize, alternatives: usize, seed: u64) -> (Vec<Group>, usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut ascending = |largest: f64| {
        let mut numbers: Vec<f64> = (0..alternatives).map(|_| random.random_range(0.0..largest)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let mut kernel = || {
        let (times, mut workspaces) = (ascending(10.0), ascending(1e9));
        workspaces[0] = 0.0;
        let both = times.into_iter().rev().zip(workspaces.into_iter().map(|bytes| bytes as usize & !255));
        group(1, &both.collect::<Vec<_>>())
    };
    ((0..kernels).map(|_| kernel()).collect(), kernels * (1 << 28))
}

#[test]
fn what_is_too_large_for_whole_numbers_the_solver_divides_best() {
    for seed in 0..4 {
        let (groups, total) = large_network(400, 20, seed);
        let fronts = Fronts::of(&groups, total).unwrap();
        let Relaxation { price, bound, rounded } = Relaxation::of(&fronts);
        let most = relaxation::most(&fronts, price, bound, &rounded);
        assert_eq!(exact::fastest(&fronts, price, &most, &rounded), None, "small enough for whole numbers");

        let at_once = divide(&groups, total, MINUTE, |_, _| Err("there is none".into())).unwrap();
        let division = workspace_division(&groups, total, MINUTE).unwrap();
        check(&groups, total, &at_once);
        check(&groups, total, &division);
        assert!(division.proven && !at_once.proven);
        assert!(division.time <= at_once.time && at_once.time * (1.0 - at_once.gap) <= division.time);
        assert!(at_once.gap < 1e-4, "{}", at_once.gap);
        let shares = fronts.time(&fronts.equal_shares().unwrap());
        assert!(at_once.time <= time::milliseconds(shares));
    }
}

/// Different problems whose workspaces differ by orders of magnitude, and a total of which a few large ones fit.
fn uneven_network(kernels: usize, seed: u64) -> (Vec<Group>, usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut normal = || (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>();
    let mut kernel = || {
        let scale = (2.0 * normal()).exp();
        let mut alternatives: Vec<_> =
            (0..20).map(|_| (10.0 * scale * normal().exp(), (1e6 * scale * (2.0 * normal()).exp()) as usize)).collect();
        alternatives[0] = (100.0 * scale, 0);
        group(1, &alternatives)
    };
    let groups: Vec<_> = (0..kernels).map(|_| kernel()).collect();
    let most = groups.iter().map(|group| group.alternatives.iter().map(|it| it.workspace).max().unwrap());
    let total = most.sum::<usize>() / [50, 20, 10, 4][seed as usize % 4];
    (groups, total)
}

/// Nearly all are divided exactly, and the others lose next to nothing.
#[test]
fn uneven_networks_need_no_solver() {
    let mut unproven = 0;
    for seed in 0..60 {
        let (groups, total) = uneven_network([20, 30, 60, 90][seed as usize / 4 % 4], seed);
        let without = divide(&groups, total, MINUTE, |_, _| Err("there is none".into())).unwrap();
        check(&groups, total, &without);
        if !without.proven {
            unproven += 1;
            let best = workspace_division(&groups, total, MINUTE).unwrap();
            println!("{} kernels: {} ms without the solver, {} with it", groups.len(), without.time, best.time);
            assert!(best.proven && without.time <= best.time * 1.001, "{without:?}, {best:?}");
        }
    }
    assert!(unproven <= 6, "{unproven} of 60 without a proof");
}

#[test]
fn what_is_too_large_for_rounded_numbers_is_left() {
    let alternatives: Vec<_> = (0..1 << 14).map(|step| (f64::from((1 << 14) - step), step as usize)).collect();
    let fronts = Fronts::of(&[group(1 << 14, &alternatives)], 1 << 27).unwrap();
    assert_eq!(rounded::fastest(&fronts), None);
}

#[test]
fn what_cannot_be_divided_is_said() {
    let two = group(2, &[(2.0, 10), (1.0, 20)]);
    let divide = |groups: &[Group], total| workspace_division(groups, total, MINUTE);
    assert_eq!(divide(std::slice::from_ref(&two), 19), Err(DivisionError::TooSmall { least: 20 }));
    assert_eq!(divide(&[two.clone(), group(1, &[])], 99), Err(DivisionError::NoAlternative { group: 1 }));
    assert_eq!(divide(&[group(3, &[(0.0, usize::MAX)])], 99), Err(DivisionError::TooSmall { least: usize::MAX }));
    assert_eq!(divide(&[group(MOST_DIVIDED_LAYERS + 1, &[(1.0, 0)])], 99), Err(DivisionError::TooMany));
    for time in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let error = divide(&[two.clone(), group(1, &[(1.0, 0), (time, 5)])], 99).unwrap_err();
        assert!(matches!(error, DivisionError::BadTime { group: 1, alternative: 1, .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("{time} ms")), "{error}");
    }
}

#[test]
fn nothing_to_divide_is_divided() {
    let none = Division { chosen: vec![], time: 0.0, workspace: 0, proven: true, gap: 0.0 };
    assert_eq!(workspace_division(&[], 0, MINUTE), Ok(none.clone()));
    let no_layers = [group(0, &[])];
    assert_eq!(workspace_division(&no_layers, 0, MINUTE), Ok(Division { chosen: vec![vec![]], ..none }));
}

#[test]
fn equal_kernels_may_run_differently() {
    let groups = [group(3, &[(4.0, 0), (1.0, 10)]), group(1, &[(5.0, 1), (4.0, 2)])];
    let division = workspace_division(&groups, 22, MINUTE).unwrap();
    assert_eq!(division.chosen, [vec![0, 1, 1], vec![1]]);
    assert_eq!((division.time, division.workspace, division.proven), (10.0, 22, true));
}

#[test]
fn threads_solve_at_once() {
    let divide = |seed| {
        let (groups, total) = large_network(20, 6, seed);
        let fronts = Fronts::of(&groups, total).unwrap();
        let all = fronts.fronts.iter().map(|front| vec![front.layers; front.points.len()]).collect();
        let scaled = Scaled::of(&fronts, &all, &fronts.least());
        let solved = solver::solve(&scaled.programme, MINUTE).unwrap();
        assert!(solved.optimal);
        let found = time::milliseconds(fronts.time(&scaled.counts(&fronts, &solved)));
        let least = workspace_division(&groups, total, MINUTE).unwrap().time;
        assert!((found - least).abs() <= CLOSE * least, "{found} ms, but {least} is the least");
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..10).for_each(|seed| divide(4 * seed + thread)));
        }
    });
}
