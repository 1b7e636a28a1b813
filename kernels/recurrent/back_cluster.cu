// back_cluster: a cluster of ceil(H / UNITS) blocks computes a tile of the batch. In each step, each block sends its
// units' gradients of gates to all blocks, to where they multiply them: no barrier follows their arrival.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, in clusters of ceil(H / UNITS). The groups of a recurrence
// divide its tiles; a group computes its tiles one after the other. Dynamic shared memory: Mbarrier[2], in a line of
// its own; Factor factors[2][BATCH_TILE][PADDED_HIDDEN]; and the memory of Weights.
#include "recurrent/back_states.cuh"

#include "recurrent/cluster_send.cuh"

KERNEL(back_cluster, BackRecurrences) {
    const BackRecurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Mbarrier, arrived);
    Factor *const buffers = reinterpret_cast<Factor *>(arrived + LINE / sizeof(Mbarrier));
    const int first_unit = in_register(int(blockIdx.x) * UNITS);
    // Nobody sends the elements behind the gates, so they stay zero.
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * TILE_FACTORS; i += THREADS)
        if (i % PADDED_HIDDEN >= DEPTH) buffers[i] = to_factor(to_element(0));
    const Weights weights(recurrence.weights, first_unit, buffers + 2 * TILE_FACTORS);
    ClusterExchange others(arrived);

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        const int rows = in_register(min(BATCH_TILE, recurrence.batch - first_row));
        BackStates states(recurrence, Own(), first_unit, first_row);
        Sums sums;
        clear_sums(sums);
#pragma unroll 1
        for (int step = recurrence.steps - 1; step >= 0; step--) {
            Factor *const now = buffers + others.next_buffer() * TILE_FACTORS;
            states.update(step, sums);
            states.for_each_factor([&](int unit, int row, int gate, Factor factor) {
                now[row * PADDED_HIDDEN + gate * HIDDEN + first_unit + unit] = factor;
            });
            barrier(); // the block's gradients are complete, and the block does not read the step behind any more
            send_own(others, now, threadIdx.x, first_unit, rows);
            // The rest of a step's work is done while gradients are on their way.
            if (threadIdx.x == 0) others.expect(rows * GATES * HIDDEN * sizeof(Factor));
            states.write(step);
            states.ask_for(step - 1);
            others.wait();
            multiply(weights, now, sums);
        }
        states.write_first(sums);
        barrier(); // nobody reads sums any more
    }
}
