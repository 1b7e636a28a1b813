//! The engines of a program: the convolution's algorithms under their ids in the legacy API, with their settings
//! (knobs) and their effects on numbers (notes). A program without a convolution has one engine.

use super::program::Program;
use super::tensor_cores;
use super::*;
use crate::convolution::{self, Algorithm, Direction};
use crate::select;

/// A setting of an engine: a whole number from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The kind of setting.
    pub kind: cudnnBackendKnobType_t,
    /// Its least value.
    pub least: i64,
    /// Its largest value.
    pub most: i64,
}

/// Tiles of 16, 32 or 64 points each way. The default is the legacy API's tile of 32.
const FFT_TILE: Knob = Knob { kind: CUDNN_KNOB_TYPE_TILE_SIZE, least: 0, most: 2 };
const FFT_TILES: [Algorithm; 3] = [Algorithm::FftTiling16, Algorithm::FftTiling, Algorithm::FftTiling64];

/// An engine by its global index, with a value for each of its knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The global index.
    pub engine: i64,
    /// Each knob's value.
    pub knobs: Vec<(cudnnBackendKnobType_t, i64)>,
}

/// The direction of a program's convolution.
fn direction(program: &Program) -> Option<Direction> {
    program.convolution.as_ref().map(|convolve| convolve.problem.direction)
}

/// The knobs of an engine.
pub fn knobs(program: &Program, engine: i64) -> &'static [Knob] {
    let algorithm = direction(program).and_then(|direction| Algorithm::from_id(direction, engine as i32));
    if algorithm == Some(Algorithm::FftTiling) { &[FFT_TILE] } else { &[] }
}

/// The algorithm that a choice runs, and its workspace in bytes; CUDNN_STATUS_NOT_SUPPORTED if it does not compute the
/// program. Programs without a convolution run no algorithm.
pub fn workspace(program: &Program, choice: &Choice) -> Result<(Option<Algorithm>, usize)> {
    let Some(convolve) = &program.convolution else { return Ok((None, 0)) };
    if let Some(algorithm) = tensor_cores::algorithm(program, choice.engine) {
        return Ok((Some(algorithm), 0));
    }
    let unsupported = |reason: String| Error::new(CUDNN_STATUS_NOT_SUPPORTED, reason);
    let named = i32::try_from(choice.engine).ok();
    let named = named.and_then(|id| Algorithm::from_id(convolve.problem.direction, id));
    let mut algorithm = named.ok_or_else(|| unsupported(format!("there is no engine {}", choice.engine)))?;
    for &(kind, value) in &choice.knobs {
        let knob = knobs(program, choice.engine).iter().find(|knob| knob.kind == kind);
        let known = knob.is_some_and(|knob| (knob.least..=knob.most).contains(&value));
        if !known {
            return Err(unsupported(format!("engine {} has no knob {kind} that stands at {value}", choice.engine)));
        }
        algorithm = FFT_TILES[value as usize];
    }
    let size = convolution::workspace_size(&convolve.problem, algorithm);
    let size = size.map_err(|error| unsupported(format!("engine {}: {error}", choice.engine)))?;
    Ok((Some(algorithm), size))
}

/// The candidates of heuristics, best first by operation counts.
pub fn ranked(program: &Program) -> Vec<Choice> {
    let Some(convolve) = &program.convolution else { return vec![fallback(program)] };
    let direction = convolve.problem.direction;
    let legacy = Algorithm::all(direction).iter().copied();
    let order = select::order(&convolve.problem, legacy.chain([Algorithm::FftTiling16, Algorithm::FftTiling64]));
    let others = order.into_iter().filter_map(|algorithm| choice(direction, algorithm));
    let on_tensor_cores = tensor_cores::ranked(program).iter().map(|&engine| Choice { engine, knobs: Vec::new() });
    on_tensor_cores.chain(others).collect()
}

/// The choice that runs for any geometry and takes no workspace.
pub fn fallback(program: &Program) -> Choice {
    let always = program.convolution.as_ref().and_then(|convolve| match convolve.problem.direction {
        Direction::Forward => choice(Direction::Forward, Algorithm::ImplicitGemm),
        other => choice(other, Algorithm::Algo1),
    });
    always.unwrap_or(Choice { engine: 0, knobs: Vec::new() })
}

/// The engine and knobs that run an algorithm.
fn choice(direction: Direction, algorithm: Algorithm) -> Option<Choice> {
    let tile = FFT_TILES.iter().position(|&tiles| tiles == algorithm);
    let named = if tile.is_some() { Algorithm::FftTiling } else { algorithm };
    let knobs = tile.map(|tile| (FFT_TILE.kind, tile as i64)).into_iter().collect();
    Some(Choice { engine: named.id(direction)?.into(), knobs })
}

/// An engine's effects on numbers.
pub fn numerical_notes(program: &Program, engine: i64) -> Vec<cudnnBackendNumericalNote_t> {
    let Some(convolve) = &program.convolution else { return Vec::new() };
    if tensor_cores::algorithm(program, engine).is_some() {
        return vec![CUDNN_NUMERICAL_NOTE_TENSOR_CORE];
    }
    let Some(algorithm) = Algorithm::from_id(convolve.problem.direction, engine as i32) else { return Vec::new() };
    let mut notes = match algorithm {
        Algorithm::Fft | Algorithm::FftTiling => vec![CUDNN_NUMERICAL_NOTE_FFT],
        Algorithm::Winograd => vec![CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4],
        Algorithm::WinogradNonfused => vec![CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6],
        _ => Vec::new(),
    };
    if !algorithm.deterministic() {
        notes.push(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    }
    notes
}
