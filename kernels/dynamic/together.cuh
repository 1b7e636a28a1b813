// Several tasks in one launch, since each launch takes longer than a small task. A task has some blocks, which follow those
// of the task before.
#pragma once

#include "common/device.cuh"

// Twin of the number in `crates/dynamic/src/batched/launches.rs`.
#define MOST_TOGETHER 48

template <typename Task> struct Together {
    // The number of the block after the task's last one.
    unsigned ends[MOST_TOGETHER];
    Task tasks[MOST_TOGETHER];

    // Calls `each` with this block's task, the block's number among those of the task, and how many the task has.
    template <typename Each> __device__ __forceinline__ void run(Each each) const {
        int number = 0;
        while (blockIdx.x >= ends[number]) ++number;
        const unsigned first = number > 0 ? ends[number - 1] : 0;
        each(tasks[number], blockIdx.x - first, ends[number] - first);
    }
};

// Calls `each` for the numbers below `count`, shared among all threads of a task.
template <typename Each>
__device__ __forceinline__ void for_all_of_task(size_t count, unsigned block, unsigned blocks, Each each) {
    const size_t step = size_t(blocks) * THREADS;
    for (size_t number = size_t(block) * THREADS + threadIdx.x; number < count; number += step) each(number);
}
