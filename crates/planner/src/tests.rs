//! Plans against brute force: all small cases, and random ones.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::*;

type Micro = MicroConfiguration<u8>;

/// The planner minimises these in order: time, workspace, parts. Then it prefers greater sizes, descending.
type Key = (f64, usize, usize, Reverse<Vec<usize>>);

fn micro(batch: usize, algorithm: u8, time: f64, workspace: usize) -> Micro {
    MicroConfiguration { batch, algorithm, time, workspace }
}

fn key(configuration: &Configuration<u8>) -> Key {
    let sizes = configuration.micro_batches().map(|micro| micro.batch).collect();
    (configuration.time(), configuration.workspace(), configuration.len(), Reverse(sizes))
}

/// Every configuration of `batch`: each multiset of micro-configurations whose sizes add up, with nothing pruned.
fn every_configuration(batch: usize, micro: &[Micro], limit: usize) -> Vec<Key> {
    fn extend(batch: usize, micro: &[&Micro], key: Key, found: &mut Vec<Key>) {
        if batch == 0 {
            let (time, workspace, parts, Reverse(mut sizes)) = key;
            sizes.sort_by_key(|&size| Reverse(size));
            found.push((time, workspace, parts, Reverse(sizes)));
            return;
        }
        for (i, next) in micro.iter().enumerate().filter(|(_, next)| next.batch <= batch) {
            let (time, workspace, parts, Reverse(mut sizes)) = key.clone();
            sizes.push(next.batch);
            let key = (time + next.time, workspace.max(next.workspace), parts + 1, Reverse(sizes));
            extend(batch - next.batch, &micro[i..], key, found);
        }
    }
    let able =
        |micro: &&Micro| micro.batch > 0 && micro.time.is_finite() && micro.time >= 0.0 && micro.workspace <= limit;
    let mut found = Vec::new();
    let able: Vec<&Micro> = micro.iter().filter(able).collect();
    extend(batch, &able, (0.0, 0, 0, Reverse(Vec::new())), &mut found);
    found
}

fn order(a: &Key, b: &Key) -> std::cmp::Ordering {
    a.partial_cmp(b).expect("times are numbers")
}

fn brute_force_best(batch: usize, micro: &[Micro], limit: usize) -> Option<Key> {
    every_configuration(batch, micro, limit).into_iter().min_by(order)
}

fn brute_force_front(batch: usize, micro: &[Micro]) -> Vec<Key> {
    let mut all = every_configuration(batch, micro, usize::MAX);
    all.sort_by(|a, b| a.1.cmp(&b.1).then(order(a, b)));
    let mut front: Vec<Key> = Vec::new();
    for key in all {
        if front.last().is_none_or(|last| key.0 < last.0) {
            front.push(key);
        }
    }
    front
}

fn check_against_brute_force(batch: usize, micro: &[Micro]) {
    let front: Vec<Key> = desirable_set(batch, micro).iter().map(key).collect();
    assert_eq!(front, brute_force_front(batch, micro), "batch {batch}, {micro:?}");
    let mut limits: Vec<usize> = micro.iter().map(|micro| micro.workspace).chain([0, usize::MAX]).collect();
    limits.sort_unstable();
    limits.dedup();
    let mut last: Option<f64> = None;
    for limit in limits {
        let best = workspace_reuse(batch, micro, limit);
        let best = best.as_ref().map(key);
        assert_eq!(best, brute_force_best(batch, micro, limit), "batch {batch}, limit {limit}, {micro:?}");
        let within = front.iter().rev().find(|key| key.1 <= limit);
        assert_eq!(best.as_ref(), within, "the desirable set under {limit}");
        let time = best.map(|key| key.0);
        assert!(last.is_none_or(|last| time.is_some_and(|time| time <= last)), "slower under a larger limit");
        last = time;
    }
}

/// Times in multiples of 2⁻¹⁰ ms, so that the brute force's sums are exact too. Few values, so that many tie.
fn tying() -> BoxedStrategy<(f64, usize)> {
    (0u32..12, 0usize..5).prop_map(|(units, workspace)| (f64::from(units) / 1024.0, workspace)).boxed()
}

/// Times as in `tying`, but with few ties.
fn spread() -> BoxedStrategy<(f64, usize)> {
    (1u32..4_000_000, 0usize..1_000).prop_map(|(units, workspace)| (f64::from(units) / 1024.0, workspace)).boxed()
}

/// A mini-batch of up to `largest`, up to three algorithms per size, and some unusable micro-configurations, shuffled.
fn case(largest: usize, cost: BoxedStrategy<(f64, usize)>) -> impl Strategy<Value = (usize, Vec<Micro>)> {
    (1..=largest)
        .prop_flat_map(move |batch| {
            let sizes = prop::collection::vec(prop::collection::vec(cost.clone(), 0..=3), batch);
            let odd = prop::sample::select(vec![f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY]);
            (Just(batch), sizes, prop::collection::vec((0..=batch, odd), 0..3), cost.clone())
        })
        .prop_flat_map(|(batch, sizes, odd, (time, workspace))| {
            let mut all = vec![micro(0, 9, time, workspace), micro(batch + 1, 9, time, workspace)];
            for (i, costs) in sizes.into_iter().enumerate() {
                all.extend((0u8..).zip(costs).map(|(algorithm, (time, bytes))| micro(i + 1, algorithm, time, bytes)));
            }
            all.extend(odd.into_iter().map(|(size, time)| micro(size, 9, time, 0)));
            (Just(batch), Just(all).prop_shuffle())
        })
}

/// The micro-configurations whose sizes `policy` tries.
fn tried(policy: BatchSizePolicy, batch: usize, micro: &[Micro]) -> Vec<Micro> {
    let sizes = policy.sizes(batch);
    micro.iter().filter(|micro| sizes.contains(&micro.batch)).copied().collect()
}

/// The best configuration's time, or infinity without one.
fn time_by(policy: BatchSizePolicy, batch: usize, micro: &[Micro], limit: usize) -> f64 {
    workspace_reuse(batch, &tried(policy, batch, micro), limit).map_or(f64::INFINITY, |best| best.time())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 2_000 }))]

    #[test]
    fn equals_brute_force_where_costs_tie((batch, micro) in case(12, tying())) {
        check_against_brute_force(batch, &micro);
    }

    #[test]
    fn equals_brute_force_where_costs_differ((batch, micro) in case(12, spread())) {
        check_against_brute_force(batch, &micro);
    }

    #[test]
    fn finer_policies_are_never_slower(
        (batch, micro) in case(200, spread()), limit in 0usize..1_000, irregular in 0.0f64..1.0,
    ) {
        // times without a finite binary fraction, so that rounding would show
        let scale = |mut micro: Micro| { micro.time *= irregular; micro };
        let micro: Vec<Micro> = micro.into_iter().map(scale).collect();
        let [power, all, undivided] = BatchSizePolicy::EVERY.map(|policy| time_by(policy, batch, &micro, limit));
        prop_assert!(all <= power && power <= undivided, "{all} {power} {undivided}");
    }

    #[test]
    fn the_order_of_measurements_does_not_matter((batch, micro) in case(40, tying()), limit in 0usize..5) {
        let reversed: Vec<Micro> = micro.iter().rev().copied().collect();
        let [a, b] = [&micro, &reversed].map(|micro| workspace_reuse(batch, micro, limit).as_ref().map(key));
        prop_assert_eq!(a, b);
    }

    #[test]
    fn any_times_are_summed_to_a_tick_a_part(
        batch in 1usize..=12, times in prop::collection::vec(0.0f64..1e6, 12), limit in 0usize..3,
    ) {
        let micro: Vec<Micro> = (1usize..).zip(times).map(|(size, time)| micro(size, 0, time, size % 4)).collect();
        let best = workspace_reuse(batch, &micro, limit).map(|best| best.time());
        let brute = brute_force_best(batch, &micro, limit).map(|key| key.0);
        match (best, brute) {
            // half a tick of rounding for each part, and the brute force's own rounding
            (Some(best), Some(brute)) => prop_assert!((best - brute).abs() <= 12.0 / (1u64 << 31) as f64 + 1e-15 * brute),
            (best, brute) => prop_assert_eq!(best, brute),
        }
    }

    #[test]
    fn candidates_are_the_best_of_each_largest_size((batch, micro) in case(9, spread()), limit in 0usize..1_000) {
        let candidates = best_configurations(batch, &micro, limit, usize::MAX);
        let mut expected: Vec<(f64, usize)> = (1..=batch).filter_map(|size| {
            let with_largest = |key: &Key| (key.3.0[0] == size).then_some(key.0);
            let all = every_configuration(batch, &micro, limit);
            Some((all.iter().filter_map(with_largest).min_by(f64::total_cmp)?, size))
        }).collect();
        expected.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let times: Vec<f64> = candidates.iter().map(Configuration::time).collect();
        prop_assert_eq!(&times, &expected.iter().map(|&(time, _)| time).collect::<Vec<_>>());
        prop_assert_eq!(candidates.first().cloned(), workspace_reuse(batch, &micro, limit));
        prop_assert!(candidates.iter().all(|it| it.batch() == batch && it.workspace() <= limit));

        let few = best_configurations(batch, &micro, limit, 3);
        prop_assert_eq!(few.len(), candidates.len().min(3));
        prop_assert!(few.iter().all(|it| candidates.contains(it)) && few.is_sorted_by_key(Configuration::time));
        let undivided = |list: &[Configuration<u8>]| list.iter().any(Configuration::is_undivided);
        prop_assert_eq!(undivided(&few), undivided(&candidates));
        prop_assert!(best_configurations(batch, &micro, limit, 0).is_empty());
    }

    #[test]
    fn dropping_what_cannot_win_keeps_the_optimum(
        batch in 1usize..=32, slack in 0.5f64..=1.0, limit in 0usize..600, now in 0.0f64..1.0,
        algorithms in algorithms(), seed in any::<u64>(),
    ) {
        let (timed, rest) = partly_timed(batch, slack, limit, now, &algorithms, seed);
        let untimed: Vec<(usize, u8)> = rest.iter().map(|micro| (micro.batch, micro.algorithm)).collect();
        let kept = can_win(batch, &timed, limit, &untimed, slack * (1.0 - 1e-9));
        let time = |micro: &[Micro]| workspace_reuse(batch, micro, limit).map(|best| best.time());
        prop_assert_eq!(time(&with_kept(&timed, &rest, &kept)), time(&[&timed[..], &rest].concat()));
    }

    #[test]
    fn dropping_what_cannot_be_desirable_keeps_the_desirable_set(
        batch in 1usize..=32, slack in 0.5f64..=1.0, limit in 0usize..2000, now in 0.0f64..1.0,
        algorithms in algorithms(), seed in any::<u64>(),
    ) {
        let (timed, rest) = partly_timed(batch, slack, limit, now, &algorithms, seed);
        let untimed: Vec<_> = rest.iter().map(|micro| (micro.batch, micro.algorithm, micro.workspace)).collect();
        let kept = can_be_desirable(batch, &timed, limit, &untimed, slack * (1.0 - 1e-9));
        let set = |micro: &[Micro]| -> Vec<_> {
            desirable_set(batch, micro).iter().map(|it| (it.workspace(), it.time())).collect()
        };
        prop_assert_eq!(set(&with_kept(&timed, &rest, &kept)), set(&[&timed[..], &rest].concat()));
        // under the largest limit it drops no more than `can_win` does under that limit
        let pairs: Vec<_> = untimed.iter().map(|(size, algorithm, _)| (*size, *algorithm)).collect();
        let wins = can_win(batch, &timed, limit, &pairs, slack * (1.0 - 1e-9));
        prop_assert!(wins.iter().zip(&kept).all(|(wins, kept)| !wins || *kept));
    }
}

/// A fixed time, a time per image and bytes per image for each of some algorithms.
fn algorithms() -> impl Strategy<Value = Vec<(u32, u32, usize)>> {
    prop::collection::vec((1u32..400, 1u32..100, 0usize..60), 1..=3)
}

/// The micro-configurations of `algorithms` at every size within `limit`: about the fraction `now` as timed, and the
/// rest. A fixed cost plus a cost per image meets the assumption of pruning, and so do errors of up to `slack` on top.
fn partly_timed(
    batch: usize,
    slack: f64,
    limit: usize,
    now: f64,
    algorithms: &[(u32, u32, usize)],
    seed: u64,
) -> (Vec<Micro>, Vec<Micro>) {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut all = Vec::new();
    for (algorithm, &(fixed, each, bytes)) in (0u8..).zip(algorithms) {
        for size in 1..=batch {
            let time = f64::from(fixed) + f64::from(each) * size as f64;
            // just inside the assumption, so that rounding to ticks cannot violate it
            let error = slack + (1.0 - slack) * random();
            all.push(micro(size, algorithm, time * error, bytes * size));
        }
    }
    all.retain(|micro| micro.workspace <= limit);
    all.iter().partition(|_| random() < now)
}

fn with_kept(timed: &[Micro], rest: &[Micro], kept: &[bool]) -> Vec<Micro> {
    timed.iter().copied().chain(rest.iter().zip(kept).filter(|(_, kept)| **kept).map(|(micro, _)| *micro)).collect()
}

/// Every case with B ≤ 4, in which each size has one of nine costs or none.
#[test]
fn equals_brute_force_on_all_small_cases() {
    let costs: Vec<Option<(f64, usize)>> =
        std::iter::once(None).chain((1..=3).flat_map(|t| (0..3).map(move |w| Some((f64::from(t), w))))).collect();
    for batch in 1..=4usize {
        for case in 0..costs.len().pow(batch as u32) {
            let cost = |size: usize| costs[case / costs.len().pow(size as u32 - 1) % costs.len()];
            let of = |size| cost(size).map(|(time, workspace)| micro(size, 0, time, workspace));
            check_against_brute_force(batch, &(1..=batch).filter_map(of).collect::<Vec<_>>());
        }
    }
}

#[test]
fn splits_to_let_the_fast_algorithm_fit() {
    // an FFT that is fast but grows with the batch, a GEMM that needs little
    let sizes = BatchSizePolicy::PowerOfTwo.sizes(256);
    let of = |&size: &usize| {
        [micro(size, 1, 0.2 + 0.05 * size as f64, 3 << 20), micro(size, 2, 0.1 + 0.01 * size as f64, size << 20)]
    };
    let micro: Vec<Micro> = sizes.iter().flat_map(of).collect();
    let plan = |limit| workspace_reuse(256, &micro, limit).map(|plan| plan.to_string());
    assert_eq!(plan(usize::MAX).as_deref(), Some("1×256[2]"));
    assert_eq!(plan(64 << 20).as_deref(), Some("4×64[2]"));
    assert_eq!(plan((64 << 20) - 1).as_deref(), Some("8×32[2]"));
    assert_eq!(plan(3 << 20).as_deref(), Some("1×256[1]"));
    assert_eq!(plan(0), None);
    // 4×64 takes 2.96 ms, 8×32 3.36: the margin is 2%
    let close = prefer_small(&desirable_set(256, &micro), Configuration::time, Configuration::workspace).cloned();
    assert_eq!(close.map(|it| it.to_string()).as_deref(), Some("1×256[2]"));
}

#[test]
fn nearly_as_fast_and_smaller_is_preferred() {
    let prefer = |candidates: &[(f64, usize)]| prefer_small(candidates, |it| it.0, |it| it.1).copied();
    assert_eq!(prefer(&[(1.0, 100), (1.019, 50), (1.021, 0)]), Some((1.019, 50)));
    assert_eq!(prefer(&[(1.01, 50), (1.0, 50)]), Some((1.0, 50)));
    assert_eq!(prefer(&[(f64::NAN, 0), (-1.0, 0), (f64::INFINITY, 0), (2.0, 7)]), Some((2.0, 7)));
    assert_eq!(prefer(&[(f64::NAN, 0)]), None);
    assert_eq!(prefer(&[(0.0, 9), (0.0, 8)]), Some((0.0, 8)));
}

#[test]
fn slow_algorithms_need_no_timing_at_smaller_sizes() {
    // GEMM fits everywhere and is slow; FFT fits from size 8 down and is three times as fast there
    let timed = [micro(32, 1, 96.0, 0), micro(8, 2, 8.0, 80)];
    let untimed = [(16, 1), (8, 1), (4, 1), (4, 2), (64, 2), (0, 2)];
    assert_eq!(can_win(32, &timed, 80, &untimed, 1.0), [false; 6]);
    assert_eq!(can_win(32, &timed, 80, &untimed, 0.9), [false, false, false, true, false, false]);
    // two parts of 16 take at least 2 × 12 ms by the time of 32, but 2 × 30 by the time of 8; the time to beat is 40
    let timed_too = [micro(32, 2, 40.0, 0), micro(32, 1, 24.0, 81), micro(8, 1, 30.0, 0)];
    assert_eq!(can_win(32, &timed_too[..2], 80, &[(16, 1)], 1.0), [true]);
    assert_eq!(can_win(32, &timed_too, 80, &[(16, 1)], 1.0), [false]);
    // an algorithm that was never timed may always win
    assert_eq!(can_win(32, &timed, 80, &[(4, 3)], 1.0), [true]);
    assert_eq!(can_win(32, &timed, 80, &[(4, 2)], f64::NAN), [true]);
    // without a plan yet, a part that completes one is worth timing, and others are not
    assert_eq!(can_win(32, &[], 80, &[(32, 1), (20, 1)], 1.0), [true, false]);
    // a size that is useful only beside another untimed one is kept
    assert_eq!(can_win(12, &[micro(12, 1, 100.0, 0)], 0, &[(5, 2), (7, 3)], 1.0), [true, true]);
}

#[test]
fn extremes_do_not_panic() {
    let huge = 1 << 31;
    let all = [micro(huge, 1, 5.0, 10), micro(huge / 2, 1, 1.0, 10), micro(usize::MAX, 1, 1.0, 1)];
    assert_eq!(workspace_reuse(huge, &all, 10).map(|it| it.to_string()).as_deref(), Some("1×2147483648[1]"));
    assert_eq!(workspace_reuse(usize::MAX, &all, 10).map(|it| it.len()), Some(1));
    assert_eq!(can_win(huge, &all, 10, &[(huge, 2), (1, 2)], 1.0), [true, false]);
    assert_eq!(best_configurations(huge, &all, 10, 5).len(), 1);

    let large = LARGEST_DIVIDED_BATCH;
    let slow = [micro(1, 1, 20_000.0, 0), micro(1, 1, f64::MAX, 0), micro(2, 1, 20_000.0, 0)];
    // a million parts of 20 s: with two images each they add up to 121 days, with one each they overflow
    assert_eq!(workspace_reuse(large, &slow, 0).map(|it| it.len()), Some(large / 2));
    assert!(workspace_reuse(large, &slow[..2], 0).is_none());

    assert_eq!(workspace_reuse::<u8>(0, &[], 0).map(|it| (it.len(), it.time(), it.workspace())), Some((0, 0.0, 0)));
    assert_eq!(desirable_set(0, &all).len(), 1);
    assert_eq!(best_configurations(0, &all, 0, 3).len(), 1);
    assert!(workspace_reuse::<u8>(7, &[], usize::MAX).is_none() && desirable_set::<u8>(7, &[]).is_empty());
}
