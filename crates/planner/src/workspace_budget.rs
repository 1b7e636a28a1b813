//! A workspace budget that depends on the position: a micro-batch may use the caller's workspace, or the memory of
//! results still to be computed, whose present contents do not matter.

use std::cmp::Reverse;

use super::division::{Cost, configuration, grain, usable};
use super::{Configuration, MicroConfiguration};

/// The budget of a micro-batch. It must be one region: the caller's workspace and unwritten results do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceBudget {
    /// Bytes of the caller's workspace.
    pub limit: usize,
    /// Bytes of one image's result, if all results are overwritten and lie one after another; else 0.
    pub per_image: usize,
}

impl WorkspaceBudget {
    /// Bytes for a micro-batch after which `rest` images are still to be computed. One image's memory is set aside for
    /// the alignment of the workspace's start.
    pub fn before(&self, rest: usize) -> usize {
        self.limit.max(rest.saturating_sub(1).saturating_mul(self.per_image))
    }
}

impl<A> Configuration<A> {
    /// The micro-batches in running order, with results of `per_image` bytes as workspace. The largest workspaces come
    /// first, while most results are unwritten; no other order needs less of the caller's workspace.
    pub fn running_order(&self, per_image: usize) -> Vec<&(usize, MicroConfiguration<A>)> {
        let mut order: Vec<_> = self.parts().iter().collect();
        if per_image > 0 {
            order.sort_by_key(|(_, micro)| Reverse(micro.workspace));
        }
        order
    }

    /// The workspace that the caller must bring, in bytes: that of micro-batches too large for unwritten results.
    pub fn needs(&self, per_image: usize) -> usize {
        let (mut rest, mut needed) = (self.batch(), 0);
        for (count, micro) in self.running_order(per_image) {
            // The last of these micro-batches has the smallest budget.
            rest = rest.saturating_sub(count.saturating_mul(micro.batch));
            if micro.workspace > (WorkspaceBudget { limit: 0, per_image }).before(rest) {
                needed = needed.max(micro.workspace);
            }
        }
        needed
    }
}

/// At most `count` configurations of `batch` images within `room`, predicted times ascending. The candidates are the
/// fastest configuration for each size of the first micro-batch.
///
/// Workspace Reuse with a budget that depends on the number of images left: T(0) = 0, T(r) = min of T_μ(b) + T(r − b)
/// over b ≤ r with M(b) ≤ the budget before the last r − b images.
pub fn best_within<A: Clone>(
    batch: usize,
    micro: &[MicroConfiguration<A>],
    room: WorkspaceBudget,
    count: usize,
) -> Vec<Configuration<A>> {
    let grain = grain(batch);
    let whole = batch / grain;
    let parts = usable(batch, micro, room.before(batch));
    let mut least = vec![(Cost::UNREACHABLE, usize::MAX); whole + 1];
    least[0].0 = Cost::ZERO;
    let step = |least: &[(Cost, usize)], from: usize, part: usize| {
        let part = &parts[part];
        let rest = from.checked_sub(part.size)?;
        let fits = part.workspace <= room.before(rest * grain) && least[rest].0.is_reachable();
        fits.then(|| Cost::part(part.time).plus(least[rest].0))
    };
    for from in 1..=whole {
        for part in 0..parts.len() {
            if let Some(cost) = step(&least, from, part)
                && cost < least[from].0
            {
                least[from] = (cost, part);
            }
        }
    }
    // The best continuation of each first micro-batch.
    let mut first: Vec<(Cost, usize)> = (0..parts.len()).filter_map(|i| Some((step(&least, whole, i)?, i))).collect();
    first.sort_unstable();
    let mut sizes = Vec::new();
    first.retain(|(_, part)| {
        let size = parts[*part].size;
        !sizes.contains(&size) && {
            sizes.push(size);
            true
        }
    });
    let mut found: Vec<Configuration<A>> = Vec::new();
    for (_, part) in first {
        let (mut rest, mut next, mut used) = (whole, part, Vec::<(usize, usize)>::new());
        while rest > 0 {
            match used.iter_mut().find(|(_, index)| *index == parts[next].index) {
                Some((count, _)) => *count += 1,
                None => used.push((1, parts[next].index)),
            }
            rest -= parts[next].size;
            next = least[rest].1;
        }
        let one = configuration(&used, micro);
        if !found.iter().any(|known| same_parts(known, &one)) {
            found.push(one);
        }
    }
    if count >= 2
        && let Some(at) = found.iter().position(Configuration::is_undivided).filter(|&at| at >= count)
    {
        found.swap(at, count - 1);
    }
    found.truncate(count);
    found
}

fn same_parts<A>(a: &Configuration<A>, b: &Configuration<A>) -> bool {
    let parts = |it: &Configuration<A>| -> Vec<(usize, usize, usize)> {
        it.parts().iter().map(|(count, micro)| (*count, micro.batch, micro.workspace)).collect()
    };
    parts(a) == parts(b) && a.time() == b.time()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::workspace_reuse;
    use super::*;

    fn micro() -> impl Strategy<Value = Vec<MicroConfiguration<usize>>> {
        let one = (1..8_usize, 0..40_u32, 0..60_usize);
        vec(one, 1..7).prop_map(|list| {
            let micro = |(algorithm, (batch, time, workspace))| MicroConfiguration {
                batch,
                algorithm,
                time: f64::from(time),
                workspace,
            };
            list.into_iter().enumerate().map(micro).collect()
        })
    }

    /// Tries all sequences of micro-batches, each where it fits.
    fn brute(rest: usize, micro: &[MicroConfiguration<usize>], room: WorkspaceBudget) -> Option<f64> {
        if rest == 0 {
            return Some(0.0);
        }
        let fits = |m: &&MicroConfiguration<usize>| m.batch <= rest && m.workspace <= room.before(rest - m.batch);
        let all = micro.iter().filter(fits).filter_map(|m| Some(m.time + brute(rest - m.batch, micro, room)?));
        all.min_by(f64::total_cmp)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn equal_to_brute_force(batch in 1..9_usize, micro in micro(), limit in 0..50_usize, per_image in 0..12_usize) {
            let room = WorkspaceBudget { limit, per_image };
            let found = best_within(batch, &micro, room, 3);
            prop_assert_eq!(found.first().map(Configuration::time), brute(batch, &micro, room));
            for configuration in &found {
                prop_assert_eq!(configuration.batch(), batch);
                prop_assert!(configuration.needs(per_image) <= limit, "{:?}", configuration);
            }
            prop_assert!(found.is_sorted_by(|a, b| a.time() <= b.time()) || found.iter().any(Configuration::is_undivided));
        }

        #[test]
        fn without_unwritten_results_it_is_workspace_reuse(batch in 1..30_usize, micro in micro(), limit in 0..50_usize) {
            let found = best_within(batch, &micro, WorkspaceBudget { limit, per_image: 0 }, 1);
            let reuse = workspace_reuse(batch, &micro, limit);
            prop_assert_eq!(found.first().map(Configuration::time), reuse.map(|reuse| reuse.time()));
        }
    }

    #[test]
    fn large_micro_batches_run_while_much_is_unwritten() {
        let micro = |batch: usize| MicroConfiguration { batch, algorithm: (), time: 1.0, workspace: 2 * batch };
        let known: Vec<_> = [1, 2, 4, 8, 16].map(micro).into();
        let room = WorkspaceBudget { limit: 2, per_image: 1 };
        let best = &best_within(16, &known, room, 1)[0];
        let sizes: Vec<_> = best.running_order(1).iter().map(|(count, micro)| (*count, micro.batch)).collect();
        assert!(sizes.is_sorted_by(|a, b| a.1 >= b.1), "{sizes:?}");
        assert!(best.len() < 16 && best.needs(1) <= 2 && best.workspace() > 2, "{sizes:?}");
    }
}
