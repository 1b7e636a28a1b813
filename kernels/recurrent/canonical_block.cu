// canonical_block: recurrence_block for canonical GRU. A block computes all units of BATCH_TILE rows of the batch.
//
// grid: ceil(batch / BATCH_TILE) × 1 × recurrences. Dynamic shared memory: float h[BATCH_TILE][PADDED_HIDDEN]; r h in
// the same layout; and Quad[Weights::shared_quads][THREADS].
#include "recurrent/canonical_share.cuh"

KERNEL(canonical_block, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(float, h);
    float *const reset = h + TILE_FACTORS;
    const int first_row = in_register(int(blockIdx.x) * BATCH_TILE);
    const Weights weights(recurrence.weights, 0, h + 2 * TILE_FACTORS);
    const Biases biases(recurrence, 0);
    wait_for_last_launch();
    States states(recurrence, biases, Own(), 0, first_row);
    read_h0(recurrence, first_row, h);
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) reset[i] = 0; // stays zero behind H
    barrier();
#pragma unroll 1
    for (int step = 0; step < states.rows.steps; step++) {
        states.write_y(step - 1);
        states.begin_step(step);
        FirstSums sums;
        first_part(weights, h, states, sums,
                   [&](int unit, int row, float value, float) { reset[row * PADDED_HIDDEN + unit] = value; });
        barrier(); // r h is complete, and nobody reads the old h any more
        last_part(weights, reset, states, step, sums);
        states.for_each_h([&](int unit, int row, float value) { h[row * PADDED_HIDDEN + unit] = value; });
        barrier(); // the new h is complete, and nobody reads r h any more
    }
    states.write_y(states.rows.steps - 1);
    states.write_last();
}
