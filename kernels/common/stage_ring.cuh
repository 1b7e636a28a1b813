// Stages in shared memory that go round between threads that fill them and warps that multiply them.
#pragma once

#include "common/cluster.cuh"
#include "common/warpgroup.cuh"

// The stages, through which a thread passes in turns.
struct StageRing {
    Mbarrier *full, *empty;
    int count, stage = 0;
    unsigned parity = 0;

    // The memory has two Mbarriers for each.
    __device__ __forceinline__ StageRing(void *memory, int count)
        : full(static_cast<Mbarrier *>(memory)), empty(full + count), count(count) {}
    __device__ __forceinline__ void *end() const { return empty + count; }
    // One thread comes here, before a barrier. So many threads fill a stage, and so many warps multiply it.
    __device__ __forceinline__ void initialize(int readers, int multiplying_warps) {
        for (int i = 0; i < count; i++) {
            full[i].initialize(readers);
            empty[i].initialize(multiplying_warps);
        }
    }
    __device__ __forceinline__ void wait_until_full() const {
        Spin spin;
        while (!full[stage].has_ended(parity)) spin.again();
    }
    // The first time, it is empty.
    __device__ __forceinline__ void wait_until_empty() const {
        Spin spin;
        while (!empty[stage].has_ended(parity ^ 1)) spin.again();
    }
    // A thread that reads has written its part of the stage.
    __device__ __forceinline__ void pass_full() {
        show_copies();
        full[stage].expect(0);
        pass();
    }
    // A warp's products of the stage are done.
    __device__ __forceinline__ void pass_empty() {
        // All threads of the warp have passed their waits.
        warp_barrier();
        if (LANE == 0) empty[stage].expect(0);
        pass();
    }

  private:
    __device__ __forceinline__ void pass() {
        if (++stage == count) stage = 0, parity ^= 1;
    }
};
