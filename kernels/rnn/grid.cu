// recurrence_grid: ceil(H / UNITS) blocks compute a tile of the batch together, and hand each other in each step what the
// others need of it.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence share out its
// tiles; a group computes its own one after the other. Dynamic shared memory: Factor h[BATCH_TILE][PADDED_HIDDEN], and
// behind it what GridSteps have. Memory at `exchange`: theirs, of each group.
#ifdef SINGLE_EXCHANGE
#include "rnn/single_exchange.cuh"
#else
#include "rnn/grid_steps.cuh"
#endif

KERNEL(recurrence_grid, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Factor, h);
    const int first_unit = in_register(int(blockIdx.x) * UNITS);
    GridSteps steps(recurrence, first_unit, h);
    const Biases biases(recurrence, first_unit);
    const Own pairs;

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        States states(recurrence, biases, pairs, first_unit, first_row);
        barrier(); // the last tile's h is not read any more
        read_h0(recurrence, first_row, h);
        steps.begin(first_row, states);
        barrier();
        states.begin_step(0);
#pragma unroll 1
        for (int step = 0; step < states.rows.steps; step++) steps.compute(step, states);
        states.write_last();
    }
    steps.end();
}
