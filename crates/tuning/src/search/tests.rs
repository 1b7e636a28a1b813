use std::fmt;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Algorithm {
    id: i32,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

type Candidate = super::Candidate<Algorithm>;
type Search = super::Search<Algorithm>;

fn algorithm(id: i32) -> Algorithm {
    Algorithm { id }
}

fn candidates(batch: usize, workspace: impl Fn(usize, i32) -> usize) -> Vec<Candidate> {
    let sizes = planner::BatchSizePolicy::PowerOfTwo.sizes(batch);
    let pairs = sizes.into_iter().rev().flat_map(|size| (0..2).map(move |id| (size, id)));
    pairs
        .map(|(size, id)| Candidate { batch: size, algorithm: algorithm(id), workspace: workspace(size, id) })
        .collect()
}

fn fastest(batch: usize, limit: usize, candidates: Vec<Candidate>) -> Search {
    Search::new(batch, Goal::Fastest { limit }, candidates, Known::default())
}

/// Runs a search on a machine with the given times. Returns the answer and the number of steps.
fn drive(search: &mut Search, time: impl Fn(usize, i32) -> f64) -> (Configuration<Algorithm>, usize) {
    let mut steps = 0;
    loop {
        steps += 1;
        match search.wants() {
            Next::Time(c) => search.timed(c, time(c.batch, c.algorithm.id)),
            Next::Try(index) => {
                let configuration = search.trial(index).unwrap().clone();
                let took = configuration.micro_batches().map(|m| time(m.batch, m.algorithm.id)).sum();
                search.tried(index, Some(took));
            }
            Next::Nothing => return (search.best().unwrap().0, steps),
        }
    }
}

#[test]
fn a_fast_algorithm_that_fits_only_in_parts_is_divided() {
    // algorithm 1 is three times as fast and needs 10 bytes an image; a launch costs as much as 2 images
    let time = |size: usize, id: i32| 2.0 + size as f64 * if id == 1 { 1.0 } else { 3.0 };
    let mut search = fastest(64, 170, candidates(64, |size, id| size * id as usize * 10));
    let (best, _) = drive(&mut search, time);
    assert_eq!(best.to_string(), "4×16[1]");
    let (undivided, undivided_time) = search.undivided().unwrap();
    assert_eq!((undivided.algorithm.id, undivided_time), (0, 194.0));
}

#[test]
fn of_equal_times_the_least_workspace_wins() {
    let mut search = fastest(64, 1000, candidates(64, |size, id| size * id as usize * 10));
    let (best, _) = drive(&mut search, |size, _| size as f64);
    assert_eq!((best.workspace(), best.is_undivided()), (0, true));
}

#[test]
fn what_cannot_win_is_not_timed() {
    let time = |size: usize, id: i32| size as f64 * if id == 1 { 1.0 } else { 9.0 };
    let mut search = fastest(64, usize::MAX, candidates(64, |_, _| 0));
    drive(&mut search, time);
    let slow: Vec<_> = search.measured().iter().filter(|m| m.algorithm.id == 0).map(|m| m.batch).collect();
    assert!(slow.iter().all(|&size| size == 64 || size <= 2), "{slow:?}");
}

#[test]
fn every_algorithm_is_timed_once_before_any_is_timed_again() {
    let candidates = candidates(64, |size, id| if id == 1 && size > 4 { 101 } else { 0 });
    let mut search = fastest(64, 100, candidates);
    let mut order = Vec::new();
    while let Next::Time(c) = search.wants() {
        order.push((c.batch, c.algorithm.id));
        search.timed(c, if c.algorithm.id == 1 { 1.0 } else { 1000.0 } * c.batch as f64);
    }
    assert_eq!(order[..3], [(64, 0), (4, 1), (2, 1)], "the slow one is ruled out at once: {order:?}");
}

#[test]
fn what_is_known_is_not_timed_again() {
    let time = |size: usize, id: i32| size as f64 * f64::from(id + 1);
    let mut first = fastest(16, 100, candidates(16, |_, _| 0));
    let (best, _) = drive(&mut first, time);
    let known = Known { measured: first.measured().to_vec(), ..Known::default() };
    let mut second = Search::new(16, Goal::Fastest { limit: 100 }, candidates(16, |_, _| 0), known);
    let before = second.measured().len();
    let (again, _) = drive(&mut second, time);
    assert_eq!((second.measured().len(), again), (before, best));
}

#[test]
fn what_fails_in_place_is_not_chosen() {
    let mut search = fastest(4, 100, candidates(4, |_, _| 0));
    loop {
        match search.wants() {
            Next::Time(c) => search.timed(c, c.batch as f64),
            Next::Try(index) => {
                let undivided = search.trial(index).unwrap().is_undivided();
                search.tried(index, undivided.then_some(50.0));
            }
            Next::Nothing => break,
        }
    }
    assert!(search.best().unwrap().0.is_undivided());
}

/// Algorithm 0 is requested, needs 20 bytes an image and takes 104 ms. Algorithm 1 needs 30, and algorithm 2 needs 10.
#[test]
fn what_was_requested_stays_unless_another_is_faster_by_the_margin() {
    let chosen = |limit: usize, of_others: [f64; 2]| {
        let workspaces = (0..).zip([20, 30, 10]);
        let offered = workspaces.map(|(id, workspace)| Candidate { batch: 1, algorithm: algorithm(id), workspace });
        let mut search = fastest(1, limit, offered.collect());
        drive(&mut search, |_, id| [104.0, of_others[0], of_others[1]][id as usize]);
        search.best_beside(Some(algorithm(0))).unwrap().0.to_string()
    };
    assert_eq!(chosen(30, [102.5, 103.0]), "1×1[0]");
    assert_eq!(chosen(30, [101.0, 200.0]), "1×1[1]");
    assert_eq!(chosen(30, [100.0, 102.0]), "1×1[2]", "the smaller of two that are nearly equal");
    assert_eq!(chosen(19, [200.0, 103.0]), "1×1[2]", "it does not fit");
}

#[test]
fn nothing_that_fits_is_no_answer() {
    let mut search = fastest(4, 5, candidates(4, |_, _| 6));
    assert_eq!(search.wants(), Next::Nothing);
    assert_eq!(search.best(), None);
}

/// The times of a machine with a fast algorithm 1, which needs 10 bytes an image, and a slow algorithm 0, which needs
/// none. A launch costs as much as two images.
fn launch_and_rate(size: usize, id: i32) -> f64 {
    2.0 + size as f64 * if id == 1 { 1.0 } else { 3.0 }
}

fn front_candidates() -> Vec<Candidate> {
    candidates(64, |size, id| size * id as usize * 10)
}

fn desirable(limit: usize, candidates: Vec<Candidate>, known: Known<Algorithm>) -> Search {
    Search::new(64, Goal::DesirableSet { limit }, candidates, known)
}

#[test]
fn the_desirable_set_is_that_of_all_measurements() {
    let mut search = desirable(500, front_candidates(), Known::default());
    drive(&mut search, launch_and_rate);
    let all: Vec<_> = front_candidates()
        .into_iter()
        .map(|Candidate { batch, algorithm, workspace }| MicroConfiguration {
            batch,
            algorithm,
            time: launch_and_rate(batch, algorithm.id),
            workspace,
        })
        .collect();
    let mut expected = planner::desirable_set(64, &all);
    let mut last = f64::INFINITY;
    expected.retain(|configuration| {
        let is_in = configuration.workspace() <= 500 && configuration.time() < last * (1.0 - planner::TIE);
        last = if is_in { configuration.time() } else { last };
        is_in
    });
    let lines = |set: Vec<(usize, f64)>| set.iter().map(|(w, t)| format!("{w} {t:.6}")).collect::<Vec<_>>();
    let found = search.desirable_set();
    assert_eq!(
        lines(found.iter().map(|(it, time)| (it.workspace(), *time)).collect()),
        lines(expected.iter().map(|it| (it.workspace(), it.time())).collect())
    );
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[0].0.to_string(), "1×64[0]");
    assert!(search.measured().len() < front_candidates().len(), "nothing was left out");
}

#[test]
fn what_turns_out_dominated_leaves_the_desirable_set() {
    let mut search = desirable(usize::MAX, front_candidates(), Known::default());
    loop {
        match search.wants() {
            Next::Time(c) => search.timed(c, launch_and_rate(c.batch, c.algorithm.id)),
            Next::Try(index) => {
                // in place, a division takes far longer than its parts alone
                let trial = search.trial(index).unwrap();
                let time = trial.time() * if trial.is_undivided() { 1.0 } else { 2.5 };
                search.tried(index, Some(time));
            }
            Next::Nothing => break,
        }
    }
    let set = search.desirable_set();
    let names: Vec<_> = set.iter().map(|(it, _)| it.to_string()).collect();
    assert_eq!(names, ["1×64[0]", "4×16[1]", "2×32[1]", "1×64[1]"]);
    assert!(set.is_sorted_by(|a, b| a.0.workspace() < b.0.workspace() && a.1 > b.1));
}

#[test]
fn a_search_that_ended_measures_nothing_again() {
    for goal in [Goal::Fastest { limit: 500 }, Goal::DesirableSet { limit: 500 }] {
        let mut first = Search::new(64, goal, front_candidates(), Known::default());
        let (best, _) = drive(&mut first, launch_and_rate);
        let known = || Known {
            measured: first.measured().to_vec(),
            trials: first.trials().map(|(configuration, time)| (configuration.clone(), Some(time))).collect(),
            ..Known::default()
        };
        assert!(!known().trials.is_empty());
        for known in [known(), Known { ended: true, ..known() }] {
            let mut again = Search::new(64, goal, front_candidates(), known);
            assert_eq!(again.wants(), Next::Nothing);
            assert_eq!(again.best().unwrap().0, best);
            assert_eq!(again.desirable_set(), first.desirable_set());
            assert_eq!(again.trials().count(), 0, "what was known is not found anew");
        }
        // Times in place compare only if they were taken in turns.
        let mut one_missing =
            Search::new(64, goal, front_candidates(), Known { trials: known().trials[1..].to_vec(), ..known() });
        let (_, steps) = drive(&mut one_missing, launch_and_rate);
        assert_eq!(steps, 3 * known().trials.len() + 1);
    }
}

#[test]
fn an_ended_search_keeps_to_what_was_measured() {
    let known = Known {
        measured: vec![MicroConfiguration { batch: 64, algorithm: algorithm(0), time: 9.0, workspace: 0 }],
        ended: true,
        ..Known::default()
    };
    let mut search = Search::new(64, Goal::Fastest { limit: 500 }, front_candidates(), known);
    assert_eq!(search.wants(), Next::Nothing);
    assert_eq!(search.best().unwrap().0.to_string(), "1×64[0]");
}

/// The order of two equally fast parts decides the choice, but trials that ran still count.
#[test]
fn an_ended_search_finds_its_trials_again_whatever_order_its_parts_come_in() {
    let time = |batch: usize, _: i32| if batch == 64 { 64.0 } else { 3.0 };
    let micro = |batch, of: i32| MicroConfiguration {
        batch,
        algorithm: algorithm(of),
        time: time(batch, of),
        workspace: if batch == 64 { 0 } else { 90 },
    };
    let mut measured = vec![micro(64, 0), micro(32, 1), micro(32, 2)];
    let candidate = |micro: &MicroConfiguration<Algorithm>| Candidate {
        batch: micro.batch,
        algorithm: micro.algorithm,
        workspace: micro.workspace,
    };
    let room = WorkspaceBudget { limit: 100, per_image: 20 };
    for goal in [Goal::Fastest { limit: 500 }, Goal::FastestWithin(room), Goal::DesirableSet { limit: 500 }] {
        let known = Known { measured: measured.clone(), ..Known::default() };
        let mut first = Search::new(64, goal, measured.iter().map(candidate).collect(), known);
        let (best, _) = drive(&mut first, time);
        assert!(!best.is_undivided(), "{best}");
        let trials: Vec<_> = first.trials().map(|(configuration, time)| (configuration.clone(), Some(time))).collect();
        measured.reverse();
        let known = Known { measured: measured.clone(), trials, ended: true, ..Known::default() };
        let mut again = Search::new(64, goal, measured.iter().map(candidate).collect(), known);
        assert_eq!(again.wants(), Next::Nothing);
        assert_eq!(again.best().unwrap().0, best);
        assert_eq!(again.desirable_set(), first.desirable_set());
    }
}

#[test]
fn what_is_known_to_fail_is_not_tried_and_what_is_no_candidate_is_not_used() {
    let known = Known {
        measured: vec![MicroConfiguration { batch: 8, algorithm: algorithm(7), time: 0.001, workspace: 0 }],
        failed: vec![(64, algorithm(1))],
        ..Known::default()
    };
    let mut search = Search::new(64, Goal::Fastest { limit: usize::MAX }, front_candidates(), known);
    let (best, _) = drive(&mut search, launch_and_rate);
    assert_eq!(best.to_string(), "2×32[1]");
    assert!(search.whole(algorithm(1)).is_none());
}

#[test]
fn others_time_what_is_not_taken() {
    let mut search = fastest(8, 100, candidates(8, |_, _| 0));
    let mut taken = Vec::new();
    while let Some(Next::Time(candidate)) = search.wants_besides(&taken) {
        assert!(!taken.contains(&candidate));
        taken.push(candidate);
    }
    assert_eq!(taken.len(), 8);
    assert_eq!(search.wants_besides(&taken), None, "trials wait for what is being timed");
}
