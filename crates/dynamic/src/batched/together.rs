//! Several tasks of one sort in one launch: each launch takes longer than a small task.

use gpu::Stream;
use gpu::jit::{Error, Function};

use super::library::Library;

/// The most tasks of a launch. Twin of the number in `kernels/dynamic/together.cuh`.
const MOST_TOGETHER: usize = 64;

/// Twin of the struct in `kernels/dynamic/together.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Together<T> {
    ends: [u32; MOST_TOGETHER],
    tasks: [T; MOST_TOGETHER],
}

/// Launches the tasks, in as few launches as there can be, with as many blocks for each task as `blocks` says.
///
/// # Safety
/// The kernel takes such tasks together, and their pointers fit it.
pub unsafe fn launch<T: Copy>(
    function: &Function,
    stream: Stream,
    tasks: &[T],
    blocks: impl Fn(&T) -> usize,
) -> Result<(), Error> {
    for tasks in tasks.chunks(MOST_TOGETHER) {
        let mut together = Together { ends: [0; MOST_TOGETHER], tasks: [tasks[0]; MOST_TOGETHER] };
        together.tasks[..tasks.len()].copy_from_slice(tasks);
        let mut end = 0;
        for (to, task) in together.ends.iter_mut().zip(tasks) {
            end += blocks(task);
            *to = end as u32;
        }
        // SAFETY: the caller's promise.
        unsafe { Library::launch(function, stream, [end, 1], together) }?;
    }
    Ok(())
}
