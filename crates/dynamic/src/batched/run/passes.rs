//! The passes of a stage: which run, which of them together, and their launches.

use std::ffi::c_void;

use gpu::jit::{Error, Function, Launch};
use vertex::function::MOST_FUNCTIONS;
use vertex::passes::Pass;
use vertex::stages::{Stage, Way};

use super::{At, Run};
use crate::emit::{Kernel, MOST_POINTERS, Pointer, Shape, THREADS, TILE_ROWS, WORDS_OF_RANGE};
use crate::options::Fours;

/// The fewest elements whose threads compute four at once. They are fours for 512 threads of each of 128 multiprocessors; of
/// fewer elements, more threads wait for memory at once.
const LEAST_BY_FOURS: usize = 1 << 18;

/// A kind, the kernel of its pass, and the rows.
type Member<'a> = (usize, &'a Kernel, &'a Function, At);

impl Run<'_> {
    /// The passes of a stage over rows of a kind.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    pub(super) unsafe fn range(&mut self, stage: Stage, kind: usize, at: At) -> Result<(), Error> {
        let mut ranges = vec![None; self.its.passes.len()];
        ranges[kind] = Some(at);
        // SAFETY: the caller's promise.
        unsafe { self.stage(stage, &ranges) }
    }

    /// The passes of a stage over a range of rows of each kind. Kinds need nothing of each other there: what of them may
    /// run beside each other does.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    pub(super) unsafe fn stage(&mut self, stage: Stage, ranges: &[Option<At>]) -> Result<(), Error> {
        let its = self.its;
        // The next passes of each kind whose work a fused kernel has done.
        let mut done = [0; MOST_FUNCTIONS];
        for turn in &its.turns[stage as usize] {
            let (mut fused, mut own, mut fours, mut products) = (vec![], vec![], vec![], vec![]);
            for &(kind, place) in turn {
                let Some(at) = ranges[kind].filter(|at| at.range.row_count > 0) else { continue };
                if done[kind] > 0 {
                    done[kind] -= 1;
                    continue;
                }
                let (passes, kernels) =
                    (&its.passes[kind].stages[stage as usize], &its.kernels[kind][stage as usize][place]);
                let is_wanted = |pass: &Pass| self.way == Way::Forward || pass.purpose.is_met_by(self.wanted);
                if !is_wanted(&passes[place]) {
                    continue;
                }
                let of_all = kernels.fused.as_ref().and_then(|(kernel, function)| {
                    let shape = kernel.fused.filter(|shape| at.expected[0] <= shape.most_rows)?;
                    let wants_all = passes.get(place..place + shape.passes)?.iter().all(is_wanted);
                    (wants_all && self.is_aligned(&shape)).then_some((kernel, function, shape.passes))
                });
                match (of_all, &kernels.own) {
                    (Some((kernel, function, passes)), _) => {
                        fused.push((kind, kernel, function, at));
                        done[kind] = passes - 1;
                    }
                    (None, Some((kernel, function))) => {
                        own.push((kind, kernel, function, at));
                        fours.extend(kernels.fours.as_ref().map(|(kernel, function)| (kind, kernel, function, at)));
                    }
                    (None, None) => products.push((kind, &passes[place], at)),
                }
            }
            // SAFETY: the caller's promise.
            unsafe {
                self.launch(&fused)?;
                self.launch(if self.runs_by_fours(&own, &fours) { &fours } else { &own })?;
                products.into_iter().try_for_each(|(kind, pass, at)| self.product(kind, pass, at))?;
                self.net.library.multiply(self.stream, &std::mem::take(&mut self.products), self.net.tf32)?;
            }
        }
        Ok(())
    }

    /// Passes that run beside each other run by fours: some have many elements, and arrays allow it.
    fn runs_by_fours(&self, own: &[Member], fours: &[Member]) -> bool {
        let elements = own.iter().map(|(_, kernel, _, at)| at.launched(kernel.is_of_children) * kernel.threads_of_row);
        let are_many = match self.net.fours {
            Fours::Many => elements.max().is_some_and(|most| most >= LEAST_BY_FOURS),
            Fours::Always => true,
        };
        let is_aligned = |kind: usize, pointer: &Pointer| {
            let bytes = if pointer.has_floats() { size_of::<f32>() } else { self.element() };
            self.pointer(kind, *pointer).addr().is_multiple_of(4 * bytes)
        };
        let are_aligned = |(kind, kernel, ..): &Member| kernel.arrays_of_fours.iter().all(|its| is_aligned(*kind, its));
        are_many && fours.len() == own.len() && fours.iter().all(are_aligned)
    }

    /// The matrix of a fused kernel is aligned for quads.
    fn is_aligned(&self, shape: &Shape) -> bool {
        let matrix = self.pointer(0, Pointer::Matrix(shape.parameter, shape.is_transposed));
        matrix.addr().is_multiple_of(4 * self.element())
    }

    /// Launches kernels of passes, with others that are parts of the same one beside each other.
    ///
    /// # Safety
    /// As for [`Net::forward`].
    unsafe fn launch(&self, mut members: &[Member]) -> Result<(), Error> {
        let most_blocks = self.net.library.most_blocks;
        while let [(_, first, function, _), ..] = members {
            let (together, others) =
                members.split_at(members.iter().take_while(|(_, kernel, ..)| kernel.name == first.name).count());
            members = others;
            let mut parameters = [std::ptr::null::<c_void>(); MOST_POINTERS + WORDS_OF_RANGE];
            let mut grid = [0, 0, first.parts];
            for &(kind, kernel, _, at) in together {
                let count = at.launched(kernel.is_of_children);
                if count == 0 {
                    continue;
                }
                let its_grid = match kernel.fused {
                    Some(shape) => {
                        let across = shape.units.div_ceil(THREADS as usize / 32);
                        [across, count.div_ceil(TILE_ROWS).min((most_blocks / across).max(1))]
                    }
                    None => [(count * kernel.threads_of_row).div_ceil(THREADS as usize).min(most_blocks), 1],
                };
                (grid[0], grid[1]) = (grid[0].max(its_grid[0]), grid[1].max(its_grid[1]));
                let words = &mut parameters[kernel.first_word..];
                words[..WORDS_OF_RANGE].copy_from_slice(&at.range.words(at.script));
                for (to, pointer) in words[WORDS_OF_RANGE..].iter_mut().zip(&kernel.pointers) {
                    *to = self.pointer(kind, *pointer);
                }
            }
            if grid[0] == 0 {
                continue;
            }
            let launch = Launch {
                grid: grid.map(|blocks| blocks as u32),
                block: [THREADS, 1, 1],
                shared_bytes: first.shared_bytes as u32,
                is_uncaptured: true,
                ..Launch::default()
            };
            // SAFETY: the kernel's parameters are those of its parts: a range, a script and pointers each. Parts without
            // rows have zeros. The caller promises the memory there.
            unsafe { function.launch(self.stream, &launch, &mut [(&raw mut parameters).cast()]) }?;
        }
        Ok(())
    }
}
