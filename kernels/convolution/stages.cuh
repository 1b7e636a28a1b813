// Stages of two factors in shared memory, whose products a warpgroup adds up. STAGES of them are there at once: one is
// multiplied, and the others are on their way.
#pragma once

#include "common/async_copy.cuh"
#include "common/warpgroup.cuh"

// Adds the products of the stages from `begin` up to `end`. copy(which, stage) begins to copy one, and add(stage)
// begins to add its products to the sums. All threads of the block come here.
template <typename Stage, typename Copy, typename Add>
__device__ __forceinline__ void add_stages(Stage *stages, int begin, int end, WarpgroupSums &sums, Copy copy, Add add) {
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (begin + ahead < end) copy(begin + ahead, stages[ahead]);
        end_group();
    }
    int at_hand = 0, ahead = STAGES - 1;
    for (int which = begin; which < end; which++) {
        wait_for_groups<STAGES - 2>();
        show_copies();
        // The products of the stage before have been added, and its memory is free, behind the barrier for all threads.
        sums.wait_for_groups<0>();
        barrier();
        add(stages[at_hand]);
        if (which + STAGES - 1 < end) copy(which + STAGES - 1, stages[ahead]);
        end_group();
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }
    sums.wait_for_groups<0>();
}
