//! Networks as sets of choices, from a database or a report: the choices for each convolution problem's layers, and the
//! results of Workspace Reuse and Workspace Division over them.

use std::time::Duration;

use planner::{Alternative, DivisionError};

use crate::decisions::{Choice, Decision, Decisions, Division, Policy};

/// Layers with equal problems.
#[derive(Clone, Debug)]
pub struct Group {
    pub layer: String,
    pub direction: String,
    pub problem: String,
    pub spec: String,
    /// The number of layers.
    pub count: usize,
    /// The desirable set: workspace ascending, time descending.
    pub choices: Vec<Choice>,
    /// The desirable set of the choices that do not divide the mini-batch.
    pub undivided: Vec<Choice>,
}

/// The fastest choice within a limit.
pub fn within(choices: &[Choice], limit: usize) -> Option<&Choice> {
    choices.iter().rev().find(|choice| choice.workspace <= limit)
}

/// The choices that no other beats in both time and workspace, workspace ascending.
pub fn front(mut choices: Vec<Choice>) -> Vec<Choice> {
    choices.sort_by(|a, b| a.workspace.cmp(&b.workspace).then(a.time.total_cmp(&b.time)));
    let mut best = f64::INFINITY;
    choices.retain(|choice| {
        let better = choice.time < best;
        best = best.min(choice.time);
        better
    });
    choices
}

impl Group {
    /// The layer with its direction.
    pub fn name(&self) -> String {
        format!("{} {}", self.layer, self.direction)
    }

    fn decision(&self, choice: &Choice, count: usize) -> Decision {
        let undivided = within(&self.undivided, choice.workspace.max(self.least_undivided()));
        Decision {
            layer: self.layer.clone(),
            direction: self.direction.clone(),
            problem: self.problem.clone(),
            spec: self.spec.clone(),
            count,
            division: choice.division.clone(),
            workspace: choice.workspace,
            time: choice.time,
            undivided: undivided.cloned(),
            plain: None,
            plain_workspace: None,
            offset: None,
        }
    }

    fn least_undivided(&self) -> usize {
        self.undivided.first().map_or(0, |choice| choice.workspace)
    }
}

/// Workspace Reuse: each problem's fastest choice within `limit` bytes. `Err` names a problem without such a choice.
pub fn reuse(groups: &[Group], limit: usize) -> Result<Decisions, String> {
    let row = |group: &Group| {
        let choice = within(&group.choices, limit).ok_or_else(|| nothing_within(group, limit))?;
        let mut row = group.decision(choice, group.count);
        // The row compares with cuDNN's best within the limit, not within our choice's workspace.
        row.undivided = within(&group.undivided, limit).cloned();
        Ok::<_, String>(row)
    };
    let rows = groups.iter().map(row).collect::<Result<_, _>>()?;
    Ok(Decisions { policy: Policy::Reuse { limit: Some(limit) }, rows })
}

fn nothing_within(group: &Group, limit: usize) -> String {
    let least = group.choices.first().map_or_else(String::new, |choice| format!("; the least is {}", choice.workspace));
    format!("{} {}: nothing runs within {limit} bytes{least}", group.layer, group.direction)
}

/// The time of all layers under one limit for every problem: the largest limit at which their workspaces add up to at
/// most `total` bytes. `of` selects the choices of a group. `None` if no limit is small enough.
pub fn reuse_time_within(groups: &[Group], total: usize, of: impl Fn(&Group) -> &[Choice]) -> Option<f64> {
    let mut limits: Vec<usize> = groups.iter().flat_map(&of).map(|choice| choice.workspace).collect();
    limits.sort_unstable();
    limits.dedup();
    let under = |limit: usize| -> Option<(usize, f64)> {
        groups.iter().try_fold((0_usize, 0.0), |(workspace, time), group| {
            let choice = within(of(group), limit)?;
            Some((workspace.saturating_add(choice.workspace * group.count), time + choice.time * group.count as f64))
        })
    };
    // The sum grows with the limit. Where a problem has no choice within a limit, no smaller limit helps either.
    let fits = limits.partition_point(|&limit| under(limit).is_none_or(|(workspace, _)| workspace <= total));
    under(*limits.get(fits.checked_sub(1)?)?).map(|(_, time)| time)
}

/// Workspace Division of `total` bytes: the best division found in `time_limit`. `Err` says why there is none.
pub fn divide(groups: &[Group], total: usize, time_limit: Duration) -> Result<Decisions, DivisionError> {
    let alternatives = |group: &Group| {
        let alternative = |choice: &Choice| Alternative { time: choice.time, workspace: choice.workspace };
        planner::Group { layers: group.count, alternatives: group.choices.iter().map(alternative).collect() }
    };
    let begin = std::time::Instant::now();
    let division =
        planner::workspace_division(&groups.iter().map(alternatives).collect::<Vec<_>>(), total, time_limit)?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    let mut rows = Vec::new();
    let mut offset = 0;
    for (group, chosen) in groups.iter().zip(&division.chosen) {
        // Layers with equal problems may run differently; those that run alike share a row.
        let mut chosen = chosen.clone();
        chosen.sort_unstable();
        for alike in chosen.chunk_by(|a, b| a == b) {
            let choice = &group.choices[alike[0]];
            rows.push(Decision { offset: Some(offset), ..group.decision(choice, alike.len()) });
            offset += choice.workspace * alike.len();
        }
    }
    let layers: usize = groups.iter().map(|group| group.count).sum();
    let share = total / layers.max(1);
    let equal_shares: Option<f64> =
        groups.iter().map(|group| Some(within(&group.choices, share)?.time * group.count as f64)).sum();
    let policy = Policy::Division(Division {
        total,
        shared: false,
        proven: division.proven,
        gap: division.gap,
        solve_ms: Some(took),
        equal_shares_ms: equal_shares,
    });
    Ok(Decisions { policy, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(layer: &str, count: usize, points: &[(usize, f64)]) -> Group {
        let choices = points.iter().map(|&(workspace, time)| Choice { division: "1×4[A]".into(), workspace, time });
        let choices: Vec<_> = choices.collect();
        Group {
            layer: layer.into(),
            direction: "F".into(),
            problem: format!("F {layer}"),
            spec: layer.into(),
            count,
            undivided: choices[..1].to_vec(),
            choices,
        }
    }

    #[test]
    fn a_front_keeps_what_nothing_beats() {
        let choice = |workspace, time| Choice { division: String::new(), workspace, time };
        let kept = front(vec![choice(5, 1.0), choice(0, 3.0), choice(5, 2.0), choice(7, 1.0), choice(2, 4.0)]);
        assert_eq!(kept, [choice(0, 3.0), choice(5, 1.0)]);
    }

    #[test]
    fn reuse_takes_the_largest_limit_whose_sum_fits() {
        let groups = [group("a", 2, &[(0, 10.0), (10, 5.0), (100, 1.0)]), group("b", 1, &[(0, 20.0), (30, 2.0)])];
        let within = |total| reuse_time_within(&groups, total, |group| &group.choices);
        assert_eq!(within(0), Some(40.0));
        assert_eq!(within(20), Some(30.0));
        assert_eq!(within(50), Some(12.0));
        assert_eq!(within(229), Some(12.0));
        assert_eq!(within(230), Some(4.0));
        assert_eq!(reuse(&groups, 10).unwrap().time(), 30.0);
        assert_eq!(
            reuse(&[group("c", 1, &[(8, 1.0)])], 7).unwrap_err(),
            "c F: nothing runs within 7 bytes; the least is 8"
        );
        let needy = [group("a", 1, &[(0, 1.0)]), group("c", 1, &[(8, 1.0)])];
        assert_eq!(reuse_time_within(&needy, 7, |group| &group.choices), None);
        assert_eq!(reuse_time_within(&needy, 8, |group| &group.choices), Some(2.0));
    }
}
