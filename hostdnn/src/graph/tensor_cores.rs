//! Engines on tensor cores that are not there, see [`tf32`](crate::tf32).

use std::sync::LazyLock;

use super::program::Program;
use crate::convolution::{Algorithm, Direction, Element, Problem};
use crate::tf32::{FEW_IMAGES, OFFERS, Offers};

/// The index of the engine that rounds.
const TF32: i64 = 30;
/// The index of the engine that only says so.
const CLAIMED: i64 = 31;
/// The index of the engine that rounds up to [`FEW_IMAGES`] images.
const FEW: i64 = 32;

static OFFERED: LazyLock<&[i64]> = LazyLock::new(|| match *OFFERS {
    Offers::Nothing | Offers::Workspace => &[],
    Offers::Tf32 => &[TF32],
    Offers::Claimed => &[CLAIMED, TF32],
    Offers::Few => &[FEW, TF32],
});

/// The end of the indices of all engines of a graph, if it has `others` others.
pub fn end(others: i64) -> i64 {
    OFFERED.iter().map(|engine| engine + 1).fold(others, i64::max)
}

fn convolution_of_floats(program: &Program) -> Option<&Problem> {
    let problem = &program.convolution.as_ref()?.problem;
    (problem.element == Element::Float).then_some(problem)
}

/// The engines on tensor cores for a program, best first. They have no knobs.
pub fn ranked(program: &Program) -> &'static [i64] {
    if convolution_of_floats(program).is_some() { *OFFERED } else { &[] }
}

/// The algorithm of an engine on tensor cores, which takes no workspace; `None` for any other engine.
pub fn algorithm(program: &Program, engine: i64) -> Option<Algorithm> {
    let problem = convolution_of_floats(program).filter(|_| OFFERED.contains(&engine))?;
    Some(match problem.direction {
        Direction::Forward => Algorithm::ImplicitGemm,
        Direction::BackwardData | Direction::BackwardFilter => Algorithm::Algo1,
    })
}

/// Whether an engine rounds the floats that it multiplies.
pub fn rounds(program: &Program, engine: i64) -> bool {
    let images = |problem: &Problem| problem.batch;
    match engine {
        TF32 => algorithm(program, engine).is_some(),
        FEW => convolution_of_floats(program).map(images).is_some_and(|images| images <= FEW_IMAGES),
        _ => false,
    }
}
