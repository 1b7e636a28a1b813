// back_block: a block computes all units of BATCH_TILE rows of the batch, and waits for no others. UNITS is H.
//
// grid: ceil(batch / BATCH_TILE) × 1 × recurrences. Dynamic shared memory: Factor factors[2][BATCH_TILE][PADDED_HIDDEN],
// the gates' gradients of this step and the next, so that one barrier a step is enough; then Weights.
#include "recurrent/back_states.cuh"

KERNEL(back_block, BackRecurrences) {
    const BackRecurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Factor, factors);
    const int first_row = in_register(int(blockIdx.x) * BATCH_TILE);
    const Weights weights(recurrence.weights, 0, factors + 2 * TILE_FACTORS);
    BackStates states(recurrence, Own(), 0, first_row);
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * TILE_FACTORS; i += THREADS) factors[i] = to_factor(to_element(0));
    barrier();
    Sums sums;
    clear_sums(sums);
#pragma unroll 1
    for (int step = recurrence.steps - 1; step >= 0; step--) {
        Factor *const now = factors + step % 2 * TILE_FACTORS;
        states.update(step, sums);
        states.for_each_factor([&](int unit, int row, int gate, Factor factor) {
            now[row * PADDED_HIDDEN + gate * HIDDEN + unit] = factor;
        });
        barrier();
        states.write(step);
        states.ask_for(step - 1);
        multiply(weights, now, sums);
    }
    states.write_first(sums);
}
