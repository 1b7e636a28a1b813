// back_scatter: a cluster of ceil(H / UNITS) blocks computes a tile of the batch. In each step, each block multiplies its
// own units' gradients of gates with all columns of R, and sends each block the sums of that block's units: for LSTM a
// quarter of the bytes of all gradients, as back_cluster sends them.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, in clusters of ceil(H / UNITS). The groups of a recurrence
// divide its tiles; a group computes its tiles one after the other. Dynamic shared memory: Mbarrier[2], in a line of its
// own; Sum received[2][blocks][SENT], each buffer in whole 16 bytes; Factor factors[2][BATCH_TILE][PADDED_DEPTH]; and the
// memory of Weights. Two buffers of factors, since a warp may still multiply while the sums of others have arrived.
#define SCATTER
#include "recurrent/back_states.cuh"

#include "common/cluster_exchange.cuh"

constexpr int RECEIVED = divided_up(BLOCKS * SENT, 8) * 8;

KERNEL(back_scatter, BackRecurrences) {
    const BackRecurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Mbarrier, arrived);
    Sum *const received = reinterpret_cast<Sum *>(arrived + LINE / sizeof(Mbarrier));
    Factor *const factors = reinterpret_cast<Factor *>(received + 2 * RECEIVED);
    const int block = in_register(int(blockIdx.x)), first_unit = block * UNITS;
    const unsigned bytes = BLOCKS * min(UNITS, HIDDEN - first_unit) * BATCH_TILE * sizeof(Sum);
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * TILE_FACTORS; i += THREADS) factors[i] = to_factor(to_element(0));
    const Weights weights(&recurrence.weights[(long long)block * HIDDEN * OWN_DEPTH], 0, factors + 2 * TILE_FACTORS);
    ClusterExchange others(arrived);
    const Own own;

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        BackStates states(recurrence, own, first_unit, first_row);
        Sums sums;
        clear_sums(sums);
#pragma unroll 1
        for (int step = recurrence.steps - 1; step >= 0; step--) {
            Factor *const now = factors + step % 2 * TILE_FACTORS;
            states.update(step, sums);
            states.for_each_factor([&](int unit, int row, int gate, Factor factor) {
                now[row * PADDED_DEPTH + gate * UNITS + unit] = factor;
            });
            barrier(); // the block's gradients are complete, and the block has read the sums of the step behind
            Sum *const to = received + others.next_buffer() * RECEIVED + block * SENT;
            multiply_and_send(weights, now, [&](int column, int row, const RowSums &sent) {
                Sum *const place = &to[place_of_sum(column % UNITS, row)];
                others.send(sent, reinterpret_cast<RowSums *>(place), column / UNITS);
            });
            // The rest of a step's work is done while sums are on their way.
            if (threadIdx.x == 0) others.expect(bytes);
            states.write(step);
            states.ask_for(step - 1);
            others.wait();
            add_parts<BLOCKS>(received + others.last_buffer() * RECEIVED, own, sums);
        }
        states.write_first(sums);
        barrier(); // nobody multiplies factors any more
    }
}
