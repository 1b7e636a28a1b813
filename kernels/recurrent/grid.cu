// recurrence_grid: ceil(H / UNITS) blocks compute a tile of the batch together, and exchange results in each step.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence divide its
// tiles; a group computes its tiles one after the other. Dynamic shared memory: Factor h[BATCH_TILE][PADDED_HIDDEN],
// then the memory of GridSteps. Memory at `exchange`: of GridSteps, for each group.
#ifdef SINGLE_EXCHANGE
#include "recurrent/single_exchange.cuh"
#else
#include "recurrent/grid_steps.cuh"
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
        barrier(); // nobody reads the last tile's h any more
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
