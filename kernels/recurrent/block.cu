// recurrence_block: a block computes all units of BATCH_TILE rows of the batch, and waits for no others. UNITS is H.
//
// grid: ceil(batch / BATCH_TILE) × 1 × recurrences. Dynamic shared memory: Factor h[2][BATCH_TILE][PADDED_HIDDEN], this
// step's and the next's, so that one barrier a step is enough; then Weights.
#include "recurrent/states.cuh"

KERNEL(recurrence_block, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Factor, h);
    const int first_row = in_register(int(blockIdx.x) * BATCH_TILE);
    const Weights weights(recurrence.weights, 0, h + 2 * TILE_FACTORS);
    const Biases biases(recurrence, 0);
    wait_for_last_launch();
    States states(recurrence, biases, Own(), 0, first_row);
    read_h0(recurrence, first_row, h);
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS)
        h[TILE_FACTORS + i] = to_factor(to_element(0)); // stays zero behind H
    barrier();
#pragma unroll 1
    for (int step = 0; step < states.rows.steps; step++) {
        states.write_y(step - 1);
        states.begin_step(step);
        Sums sums;
        multiply(weights, h + step % 2 * TILE_FACTORS, sums);
        states.update(step, sums);
        Factor *const next = h + (step + 1) % 2 * TILE_FACTORS;
        states.for_each_h([&](int unit, int row, float h) {
            next[row * PADDED_HIDDEN + unit] = to_factor_of_new(h);
        });
        barrier();
    }
    states.write_y(states.rows.steps - 1);
    states.write_last();
}
