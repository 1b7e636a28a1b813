//! Launches of kernels, each of which has one struct of parameters.

use gpu::Stream;
use gpu::jit::{Error, Function, Launch};

/// The most tasks of a launch. Twin of the number in `kernels/dynamic/together.cuh`.
const MOST_TOGETHER: usize = 48;

/// Twin of the struct in `kernels/dynamic/together.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Together<T> {
    ends: [u32; MOST_TOGETHER],
    tasks: [T; MOST_TOGETHER],
}

/// Launches a kernel with dynamic shared memory.
///
/// # Safety
/// `parameters` is the kernel's struct, and its pointers fit it.
unsafe fn launch_sharing<P: Copy>(
    function: &Function,
    stream: Stream,
    blocks: usize,
    threads: u32,
    shared_bytes: u32,
    mut parameters: P,
) -> Result<(), Error> {
    let grid = [blocks as u32, 1, 1];
    let launch = Launch { grid, block: [threads, 1, 1], shared_bytes, is_uncaptured: true, ..Launch::default() };
    // SAFETY: the caller's promise.
    unsafe { function.launch(stream, &launch, &mut [(&raw mut parameters).cast()]) }
}

/// Launches several tasks in as few launches as there can be, since each launch takes longer than a small task.
/// A task has as many blocks as `blocks` says, and each has `threads` threads and `shared_bytes` of dynamic shared memory.
///
/// # Safety
/// The kernel takes such tasks together, and their pointers fit it.
pub unsafe fn launch_together<T: Copy>(
    function: &Function,
    stream: Stream,
    tasks: &[T],
    threads: u32,
    shared_bytes: u32,
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
        unsafe { launch_sharing(function, stream, end, threads, shared_bytes, together) }?;
    }
    Ok(())
}
