//! A plan as text.

use crate::plans::legacy::plan::Plan;
use cudnn::convolution::Direction;

/// Describes a plan, for `ucudnnGetPlanDescription` and for people.
pub fn describe(plan: &Plan, reported: usize) -> String {
    let problem = plan.problem();
    let what = match problem.direction {
        Direction::Forward => "Forward",
        Direction::BackwardData => "BackwardData",
        Direction::BackwardFilter => "BackwardFilter",
    };
    format!(
        "{what}: {problem}\ndivision: {}\nworkspace: {} bytes needed, {reported} reported\ntime: {:.3} ms predicted\n",
        plan.configuration(),
        plan.workspace(),
        plan.configuration().time(),
    )
}
