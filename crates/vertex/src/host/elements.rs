//! The types of tensors. Half and bfloat16 are computed in float: a run widens its inputs into the workspace and narrows
//! its results, and states are rounded to the type when they are handed on.

use super::real::Real;
use super::rows::Pull;
use super::{Executor, Gradients, Inputs, Memory, Refused};
use crate::batch::{Batch, Maxima};
use crate::function::{MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};

/// A number of a tensor.
pub trait Element: Copy + Send + Sync + 'static {
    /// The type of the computation.
    type Real: Real;
    /// The same number.
    fn widen(self) -> Self::Real;
    /// The nearest number.
    fn narrow(real: Self::Real) -> Self;
    /// The same memory, if the type is the one of the computation.
    fn as_reals(_numbers: &[Self]) -> Option<&[Self::Real]> {
        None
    }
    /// The same.
    fn as_reals_mut(_numbers: &mut [Self]) -> Option<&mut [Self::Real]> {
        None
    }
}

macro_rules! reals {
    ($($real:ty),*) => {$(
        impl Element for $real {
            type Real = Self;

            fn widen(self) -> Self {
                self
            }

            fn narrow(real: Self) -> Self {
                real
            }

            fn as_reals(numbers: &[Self]) -> Option<&[Self]> {
                Some(numbers)
            }

            fn as_reals_mut(numbers: &mut [Self]) -> Option<&mut [Self]> {
                Some(numbers)
            }
        }
    )*};
}

macro_rules! halves {
    ($($half:ty),*) => {$(
        impl Element for $half {
            type Real = f32;

            fn widen(self) -> f32 {
                self.to_f32()
            }

            fn narrow(real: f32) -> Self {
                Self::from_f32(real)
            }
        }
    )*};
}

reals!(f32, f64);
halves!(half::f16, half::bf16);

/// The most results of one sort.
const MOST_RESULTS: usize = MOST_PARAMETERS;
const _: () = assert!(MOST_PULLS_AND_PUSHES <= MOST_RESULTS);

pub(super) fn round<E: Element>(real: E::Real) -> E::Real {
    E::narrow(real).widen()
}

/// Memory from which tensors of a run are taken.
pub(super) struct Space<'a, C>(pub &'a mut [C]);

impl<'a, C: Real> Space<'a, C> {
    /// So many numbers.
    pub fn take(&mut self, count: usize) -> Result<&'a mut [C], Refused> {
        let all = std::mem::take(&mut self.0);
        if count > all.len() {
            return Err(Refused(format!("the workspace is {} numbers too small", count - all.len())));
        }
        let (taken, rest) = all.split_at_mut(count);
        self.0 = rest;
        Ok(taken)
    }

    /// A tensor in the type that it is computed in.
    pub fn widened<'b, E: Element<Real = C>>(&mut self, numbers: &'b [E]) -> Result<&'b [C], Refused>
    where
        'a: 'b,
    {
        if let Some(same) = E::as_reals(numbers) {
            return Ok(same);
        }
        let wide = self.take(numbers.len())?;
        wide.iter_mut().zip(numbers).for_each(|(wide, number)| *wide = number.widen());
        Ok(wide)
    }
}

/// Runs work with results in the type that they are computed in, and narrows them behind it. Work that adds to results
/// finds the numbers that are there.
pub(super) fn with_results<'a, E: Element, T>(
    mut space: Space<'a, E::Real>,
    results: &mut [Option<&mut [E]>],
    adds: bool,
    work: impl FnOnce(&mut [Option<&mut [E::Real]>], Space<'a, E::Real>) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let mut wide: [Option<&mut [E::Real]>; MOST_RESULTS] = [const { None }; MOST_RESULTS];
    let count = results.len().min(MOST_RESULTS);
    if E::as_reals(&[]).is_some() {
        for (wide, result) in wide.iter_mut().zip(results) {
            *wide = result.as_deref_mut().and_then(E::as_reals_mut);
        }
        return work(&mut wide[..count], space);
    }
    let mut narrow: [Option<&mut [E::Real]>; MOST_RESULTS] = [const { None }; MOST_RESULTS];
    for (narrow, result) in narrow.iter_mut().zip(&*results) {
        let Some(result) = result else { continue };
        let memory = space.take(result.len())?;
        if adds {
            memory.iter_mut().zip(&**result).for_each(|(wide, number)| *wide = number.widen());
        }
        *narrow = Some(memory);
    }
    for (wide, narrow) in wide.iter_mut().zip(&mut narrow) {
        *wide = narrow.as_deref_mut();
    }
    let done = work(&mut wide[..count], space)?;
    for (result, narrow) in results.iter_mut().zip(&narrow) {
        if let (Some(result), Some(narrow)) = (result, narrow) {
            result.iter_mut().zip(&**narrow).for_each(|(to, from)| *to = E::narrow(*from));
        }
    }
    Ok(done)
}

/// Inputs in the type that they are computed in, for as long as a run lasts.
pub(super) struct Widened<'a, C> {
    parameters: [&'a [C]; MOST_PARAMETERS],
    pulls: [Pull<'a, C>; MOST_PULLS_AND_PUSHES],
    counts: (usize, usize),
}

impl<'a, C: Real> Widened<'a, C> {
    pub fn new<'s: 'a, E: Element<Real = C>>(inputs: Inputs<'a, E>, space: &mut Space<'s, C>) -> Result<Self, Refused> {
        let mut made = Self {
            parameters: [&[]; MOST_PARAMETERS],
            pulls: [Pull::Rows(&[]); MOST_PULLS_AND_PUSHES],
            counts: (inputs.parameters.len(), inputs.pulls.len()),
        };
        for (to, parameter) in made.parameters.iter_mut().zip(inputs.parameters) {
            *to = space.widened(parameter)?;
        }
        for (to, pull) in made.pulls.iter_mut().zip(inputs.pulls) {
            *to = match pull {
                Pull::Rows(rows) => Pull::Rows(space.widened(rows)?),
                Pull::Indices(indices) => Pull::Indices(indices),
            };
        }
        Ok(made)
    }

    pub fn inputs(&self) -> Inputs<'_, C> {
        Inputs { parameters: &self.parameters[..self.counts.0], pulls: &self.pulls[..self.counts.1] }
    }
}

impl Executor {
    /// The memory that a run of a batch takes with tensors of this type, in numbers of the type that they are computed
    /// in.
    pub fn memory<E: Element>(&self, batch: &Batch) -> Memory {
        self.with_tensors::<E>(self.memory_of_batch(batch), batch.vertices(), batch.pulled_rows())
    }

    /// The memory that a run of any batch within these maxima takes.
    pub fn most_memory<E: Element>(&self, maxima: &Maxima) -> Memory {
        self.with_tensors::<E>(self.memory_of_maxima(maxima), maxima.vertices, maxima.vertices)
    }

    fn with_tensors<E: Element>(&self, of_run: Memory, vertices: usize, rows: usize) -> Memory {
        let of_tensors = if E::as_reals(&[]).is_some() { 0 } else { self.tensors(vertices, rows) };
        Memory { workspace: of_run.workspace.saturating_add(of_tensors), ..of_run }
    }

    /// The numbers of all tensors and their gradients.
    fn tensors(&self, vertices: usize, rows: usize) -> usize {
        let declaration = self.net().declaration();
        let parameters: usize = declaration.parameters.iter().map(|size| size.elements()).sum();
        let [pulls, pushes] = [&declaration.pulls, &declaration.pushes].map(|widths| widths.iter().sum::<usize>());
        (2 * parameters)
            .saturating_add((2 * pulls).saturating_mul(rows))
            .saturating_add(pushes.saturating_mul(vertices))
    }

    /// Runs a batch forward. `pushes` are the outputs that are wanted, `[vertices][width]` each.
    pub fn forward<E: Element>(
        &self,
        batch: &Batch,
        inputs: Inputs<E>,
        pushes: &mut [Option<&mut [E]>],
        (workspace, reserve): (&mut [E::Real], &mut [E::Real]),
    ) -> Result<(), Refused> {
        let mut space = Space(workspace);
        let widened = Widened::new(inputs, &mut space)?;
        with_results(space, pushes, false, |pushes, space| {
            self.run_forward(batch, widened.inputs(), pushes, (space.0, reserve), round::<E>)
        })
    }

    /// Runs a batch backward, behind its run forward with the same inputs and reserve.
    pub fn backward<E: Element>(
        &self,
        batch: &Batch,
        inputs: Inputs<E>,
        gradients: Gradients<E>,
        (workspace, reserve): (&mut [E::Real], &mut [E::Real]),
    ) -> Result<(), Refused> {
        let mut space = Space(workspace);
        let widened = Widened::new(inputs, &mut space)?;
        let Gradients { pushes, pulls, parameters, accumulates } = gradients;
        let mut wide: [&[E::Real]; MOST_RESULTS] = [&[]; MOST_RESULTS];
        for (wide, push) in wide.iter_mut().zip(pushes) {
            *wide = space.widened(push)?;
        }
        let pushes = &wide[..pushes.len().min(MOST_RESULTS)];
        with_results(space, pulls, false, |pulls, space| {
            with_results(space, parameters, accumulates, |parameters, space| {
                let gradients = Gradients { pushes, pulls, parameters, accumulates };
                self.run_backward(batch, widened.inputs(), gradients, (space.0, reserve))
            })
        })
    }
}
