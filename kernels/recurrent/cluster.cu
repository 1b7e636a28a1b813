// recurrence_cluster: a cluster of ceil(H / UNITS) blocks computes a tile of the batch. At the end of each step, each
// block sends its units' h to all blocks, to where they multiply it: no barrier follows its arrival.
//
// Neighbouring threads send neighbouring values to the same block, and these arrive as one. On an H200, 16 blocks had
// each other's 16 units in float 340 clocks after the send, and 470 clocks if each of four warps sent its own four
// units. h begins with a line of shared memory, so that the values of a block and a row seldom cross a line: where h
// began 16 bytes further, a step of LSTM with H = 256 took 982 clocks, not 914.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, in clusters of ceil(H / UNITS). The groups of a recurrence
// divide its tiles; a group computes its tiles one after the other. Dynamic shared memory: Mbarrier[2], in a line of
// its own; Factor h[2][BATCH_TILE][PADDED_HIDDEN]; with -DINPUT_SIZE the memory of SharedInputs, and an Mbarrier in 16
// bytes; and the memory of Weights and of InputWarps. `exchange` has no memory. With -DINPUT_SIZE blocks have 2
// THREADS; the second half multiplies W.
//
// Tensor cores' sums meet in shared memory: threads read them before the barrier in front of the send, and write them
// in the next step.
#ifdef INPUT_SIZE
#define INPUT_WARPS
#define KINDS_OF_WARPS
#define BLOCK_THREADS (2 * THREADS)
#endif
#include "recurrent/input_warps.cuh"

#include "recurrent/cluster_send.cuh"

KERNEL(recurrence_cluster, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Mbarrier, arrived);
    Factor *const buffers = reinterpret_cast<Factor *>(arrived + LINE / sizeof(Mbarrier));
    const int thread = in_register(int(threadIdx.x)), first_unit = in_register(int(blockIdx.x) * UNITS);
#ifdef INPUT_WARPS
    const Inputs inputs(buffers + 2 * TILE_FACTORS);
    void *const memory = reinterpret_cast<Mbarrier *>(inputs.end()) + 2;
    const Sent sent(*static_cast<Mbarrier *>(inputs.end()));
    if (thread >= THREADS) {
        InputWarps warps(recurrence, first_unit, inputs, memory);
        ClusterExchange others(arrived); // all threads of the cluster meet here
        warps.run(recurrence, sent);
        return;
    }
#else
    void *const memory = buffers + 2 * TILE_FACTORS;
    const Inputs inputs(recurrence, first_unit);
#endif
    // Nobody sends the elements behind H, so they stay zero.
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS)
        if (i % PADDED_HIDDEN >= HIDDEN) buffers[i] = to_factor(to_element(0));
    const Weights weights(recurrence.weights, first_unit, memory);
    ClusterExchange others(arrived);
    wait_for_last_launch();

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        const int rows = in_register(min(BATCH_TILE, recurrence.batch - first_row));
        States states(recurrence, inputs, Own(), first_unit, first_row);
        barrier(); // nobody reads the last tile's h any more
        read_h0(recurrence, first_row, buffers + others.last_buffer() * TILE_FACTORS);
        barrier();
        states.begin_step(0);
        int last = others.last_buffer() * TILE_FACTORS; // offset of h in `buffers`
#pragma unroll 1
        for (int step = 0; step < states.rows.steps; step++) {
            Sums sums;
            multiply(weights, buffers + last, sums);
            states.update(step, sums);
            if (step + 1 == states.rows.steps) {
                states.write_y(step);
                break;
            }
            last = TILE_FACTORS - last;
            Factor *const next = buffers + last;
            states.for_each_h([&](int unit, int row, float h) {
                next[row * PADDED_HIDDEN + first_unit + unit] = to_factor_of_new(h);
            });
            barrier(); // the block's new h is complete, and the block does not read the old h any more
            send_own(others, next, thread, first_unit, rows);
#ifdef INPUT_WARPS
            sent.say();
#endif
            // The rest of a step's work is done while h is on its way.
            if (thread == 0) others.expect(rows * HIDDEN * sizeof(Factor));
            states.write_y(step);
            states.begin_step(step + 1);
            others.wait();
        }
        states.write_last();
    }
}
