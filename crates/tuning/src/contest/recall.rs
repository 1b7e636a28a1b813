//! The result of a contest in the database: the times of each call, by its own text.

use super::contestant::{self, Contestant, MOST_CALLS, Times};
use super::trial::{Candidate, Made, Trial, weighed};
use super::turns::MARGIN;
use crate::family::Time;

/// A known result.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled<A> {
    pub is_ours: bool,
    /// Our fastest kernel for each call; `None` if our side runs the call without one.
    pub choices: [Option<A>; MOST_CALLS],
    /// The calls whose times are known.
    pub weighs: [bool; MOST_CALLS],
    pub times: Times,
}

impl<A> Recalled<A> {
    /// The name of each call's implementation.
    pub fn names<C: Contestant<Choice = A>>(&self, of: &C) -> Vec<String> {
        contestant::names(of, self.is_ours, self.choices.each_ref().map(Option::as_ref))
    }
}

/// The result in the database, if that suffices.
pub fn of_database<C: Contestant>(contestant: &C) -> Option<Recalled<C::Choice>> {
    let entries = C::FAMILY.entries()?;
    let mut times = Times::default();
    for (call, times) in times.iter_mut().enumerate().take(C::CALLS) {
        *times = entries.times(&contestant.spec(call));
    }
    if times[0].is_empty() { None } else { of_times(contestant, times) }
}

/// The result of these times, if they suffice. They need cuDNN's time, unless our kernels are forced, and an entry for
/// as many of our kernels as are to be tried. Entries with unknown names are ignored.
pub fn of_times<C: Contestant>(contestant: &C, times: Times) -> Option<Recalled<C::Choice>> {
    let mut choices = [const { None }; MOST_CALLS];
    let mut best = [[None; 2]; MOST_CALLS];
    for call in 0..C::CALLS {
        let without = C::RUNS_WITHOUT.then(|| contestant.name(call, None));
        let names: Vec<_> = times[call].iter().map(|time| time.what.as_str()).collect();
        let named = if names.is_empty() { Vec::new() } else { contestant.named(call, &names) };
        for (Time { what, time }, named) in times[call].iter().zip(&named) {
            let side = usize::from(what != contestant.plain());
            if side == 1 && named.is_none() && Some(what) != without.as_ref() {
                continue;
            }
            if let Some(time) = *time
                && best[call][side].is_none_or(|least| time < least)
            {
                best[call][side] = Some(time);
                if side == 1 {
                    choices[call].clone_from(named);
                }
            }
        }
        if named.iter().flatten().count() < contestant.choices(call).len() {
            return None;
        }
    }
    let weighs = times.each_ref().map(|rows| !rows.is_empty());
    let made: Made = weighs.map(u64::from);
    let [cudnn, ours] = [0, 1].map(|side| weighed(&made, |call| best[call][side]));
    let is_ours = match (contestant.is_forced(), cudnn, ours) {
        (true, _, None) if !C::RUNS_WITHOUT => return None,
        (true, ..) => true,
        (false, None, _) => return None,
        (false, Some(cudnn), ours) => ours.is_some_and(|ours| ours < MARGIN * cudnn),
    };
    Some(Recalled { is_ours, choices, weighs, times })
}

/// The times of all candidates by name, for the calls that the program made. Kernels that do not load have no time.
pub(super) fn times<C: Contestant>(
    contestant: &C,
    trial: &Trial<C::Kernel>,
    failed: &[(usize, String)],
    made: &Made,
) -> Times {
    let mut all = Times::default();
    for (call, (entrants, times)) in trial.calls().iter().zip(&mut all).enumerate() {
        if made[call] > 0 {
            let failed = failed.iter().filter(|(of, _)| *of == call).map(|(_, name)| name.clone());
            *times = named_times(contestant, call, &entrants.candidates, &entrants.times(), failed);
        }
    }
    all
}

/// The times of a call's candidates, by name. Those that `failed` to load have no time.
pub(super) fn named_times<C: Contestant>(
    contestant: &C,
    call: usize,
    candidates: &[Candidate<C::Kernel>],
    times: &[Option<f64>],
    failed: impl Iterator<Item = String>,
) -> Vec<Time> {
    let name = |candidate: &Candidate<C::Kernel>| match candidate {
        Candidate::Cudnn => contestant.plain().to_owned(),
        Candidate::Ours(kernel) => contestant.name(call, kernel.as_ref().map(C::choice)),
    };
    let timed = candidates.iter().zip(times).map(|(candidate, &time)| Time { what: name(candidate), time });
    timed.chain(failed.map(|what| Time { what, time: None })).collect()
}

/// Stores times in the database, and lets the family's performance model learn from them.
pub fn keep<C: Contestant>(contestant: &C, times: &Times) {
    let has_failures = times.iter().flatten().any(|time| time.time.is_none());
    if has_failures && !C::KEEPS_FAILURES {
        return;
    }
    if let Some(entries) = C::FAMILY.entries() {
        // The first call comes last: `of_database` looks for it, and must then find the others.
        for (call, times) in times.iter().enumerate().take(C::CALLS).rev() {
            entries.keep(&contestant.spec(call), times);
        }
        C::learn(&entries);
    }
}

#[cfg(test)]
mod tests {
    use super::super::contestant::CUDNN;
    use super::super::testing::Toy;
    use super::*;

    type Known<'a> = &'a [(&'a str, Option<f64>)];

    fn times(known: [Known; 3]) -> Times {
        known.map(|rows| rows.iter().map(|&(what, time)| Time { what: what.into(), time }).collect())
    }

    /// The choice by known times of one call, with these kernels to be tried; `Some(None)` stands for cuDNN.
    fn chosen<const F: bool>(known: Known, choices: &[&'static str]) -> Option<Option<&'static str>> {
        let toy = Toy::<F, false> { choices: [choices.to_vec(), vec![], vec![]] };
        let recalled = of_times(&toy, times([known, &[], &[]]))?;
        Some(recalled.choices[0].filter(|_| recalled.is_ours))
    }

    #[test]
    fn the_faster_is_chosen_of_what_is_known() {
        let one = &["grid"];
        assert_eq!(chosen::<false>(&[(CUDNN, Some(1.0)), ("grid", Some(0.97))], one), Some(Some("grid")));
        assert_eq!(chosen::<false>(&[("grid", Some(0.99)), (CUDNN, Some(1.0))], one), Some(None), "not beyond doubt");
        assert_eq!(chosen::<false>(&[("grid", None), (CUDNN, Some(1.0))], one), Some(None), "ours does not run");
        assert_eq!(chosen::<true>(&[(CUDNN, Some(1.0)), ("grid", Some(2.0))], one), Some(Some("grid")), "it is forced");
        assert_eq!(chosen::<true>(&[("grid", None)], one), None, "nothing runs");
    }

    #[test]
    fn one_call_that_is_not_known_well_enough_is_as_nothing() {
        let one = &["grid"];
        for known in [&[] as Known, &[("grid", Some(0.5))], &[(CUDNN, None), ("grid", Some(0.5))]] {
            assert_eq!(chosen::<false>(known, one), None, "cuDNN is not known: {known:?}");
        }
        assert_eq!(chosen::<false>(&[(CUDNN, Some(1.0)), ("grid", Some(0.5))], &["grid", "block"]), None, "one more");
        assert_eq!(chosen::<false>(&[(CUDNN, Some(1.0)), ("tree", Some(0.5))], one), None, "another name");
        let both: Known = &[(CUDNN, Some(1.0)), ("tree", Some(0.1)), ("grid", Some(0.5))];
        assert_eq!(chosen::<false>(both, one), Some(Some("grid")));
    }

    /// Kernels forward and back, and our side without them.
    fn of_three<const F: bool>(known: [Known; 3]) -> Option<Recalled<&'static str>> {
        of_times(&Toy::<F, true> { choices: [vec!["forward"], vec!["back"], vec![]] }, times(known))
    }

    #[test]
    fn the_sum_of_all_calls_decides() {
        let forward: Known = &[(CUDNN, Some(1.0)), ("forward", Some(0.5)), ("steps", Some(2.0))];
        let data: Known = &[("back", Some(1.8)), (CUDNN, Some(2.0)), ("steps", Some(1.5))];
        for (weights, is_ours) in [(0.4, true), (0.8, true), (1.0, false), (5.0, false)] {
            let weights: Known = &[(CUDNN, Some(0.0)), ("steps", Some(weights))];
            let recalled = of_three::<false>([forward, data, weights]).unwrap();
            assert_eq!(recalled.is_ours, is_ours, "{weights:?}");
            assert_eq!(recalled.choices, [Some("forward"), None, None]);
            assert_eq!(recalled.weighs, [true; 3]);
        }
        assert_eq!(of_three::<false>([forward, data, &[]]).unwrap().weighs, [true, true, false]);
        let failed: Known = &[(CUDNN, Some(1.0)), ("forward", None)];
        assert!(!of_three::<false>([failed, data, &[]]).unwrap().is_ours, "nothing of ours runs");
        assert!(of_three::<true>([failed, data, &[]]).unwrap().is_ours, "ours are forced");
    }

    #[test]
    fn calls_that_are_not_known_well_enough_are_as_nothing() {
        let forward: Known = &[(CUDNN, Some(1.0)), ("forward", Some(0.5))];
        let without_cudnn: Known = &[("back", Some(0.5))];
        let of_other: Known = &[(CUDNN, Some(1.0)), ("forward", Some(0.5)), ("tree", Some(0.1))];
        for data in [&[] as Known, without_cudnn, of_other] {
            assert_eq!(of_three::<false>([forward, data, &[]]), None, "{data:?}");
        }
        assert!(of_three::<true>([forward, without_cudnn, &[]]).is_some());
    }
}
