// recurrence_grid: ceil(H / UNITS) blocks compute a tile of the batch together, and hand each other their units' h at the
// end of each step.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence share out its
// tiles; a group computes its own one after the other. Dynamic shared memory: Factor h[BATCH_TILE][PADDED_HIDDEN];
// Element[PACKETS_A_BLOCK][values of a packet], the block's own; and what Weights take, each aligned to 16 bytes. Memory
// at `exchange`: of each group, an Exchange and 2 × PACKETS packets, in whole multiples of 128 bytes.
#include "rnn/hand_over.cuh"

KERNEL(recurrence_grid, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Factor, h);
    Element *const own = reinterpret_cast<Element *>(h + TILE_FACTORS);
    const int first_unit = blockIdx.x * UNITS;
    const Weights weights(recurrence.weights, first_unit, reinterpret_cast<char *>(own) + OWN_BYTES);
    HandOver others(recurrence.exchange, own);
    const Own pairs;

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        States states(recurrence, pairs, first_unit, first_row);
        barrier(); // the last tile's h is not read any more
        read_h0(recurrence, first_row, h);
        barrier();
#pragma unroll 1
        for (int step = 0; step < recurrence.steps; step++) {
            states.prefetch(step);
            Sums sums;
            multiply(weights, h, sums);
            states.update(step, sums);
            if (step + 1 == recurrence.steps) {
                states.advance(step);
                break;
            }
            states.hand_over(first_unit, first_row,
                             [&](int unit, int row, float value) { others.set(unit, row, value); });
            others.swap(h, [&] { states.advance(step); });
        }
        states.write_last();
    }
    others.keep_epoch();
}
