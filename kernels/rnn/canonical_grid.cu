// canonical_grid: as recurrence_grid, of canonical GRU: the blocks of a tile hand each other their units' r h in each step,
// and h at its end.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence share out its
// tiles; a group computes its own one after the other. Dynamic shared memory and memory at `exchange`: as recurrence_grid's;
// where that has h, r h and h take turns.
#include "rnn/canonical_share.cuh"
#include "rnn/hand_over.cuh"

KERNEL(canonical_grid, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(float, h);
    Element *const own = reinterpret_cast<Element *>(h + TILE_FACTORS);
    const int first_unit = blockIdx.x * UNITS;
    const Weights weights(recurrence.weights, first_unit, reinterpret_cast<char *>(own) + OWN_BYTES);
    HandOver others(recurrence.exchange, own);
    const Own pairs;

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        States states(recurrence, pairs, first_unit, first_row);
        barrier(); // the last tile's r h is not read any more
        read_h0(recurrence, first_row, h);
        barrier();
#pragma unroll 1
        for (int step = 0; step < recurrence.steps; step++) {
            states.prefetch(step);
            const auto set = [&](int unit, int row, float value) { others.set(unit, row, value); };
            FirstSums sums;
            first_part(weights, h, states, first_unit, first_row, sums, set);
            others.swap(h, [] {});
            last_part(weights, h, states, step, sums);
            if (step + 1 == recurrence.steps) {
                states.advance(step);
                break;
            }
            states.hand_over(first_unit, first_row, set);
            others.swap(h, [&] { states.advance(step); });
        }
        states.write_last();
    }
    others.keep_epoch();
}
