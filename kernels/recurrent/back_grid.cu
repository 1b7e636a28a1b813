// back_grid: ceil(H / UNITS) blocks of the whole grid compute a tile of the batch. In each step, each block multiplies its
// own units' gradients of gates with all columns of R, and sends each block the sums of that block's units through the L2
// cache.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence divide its
// tiles; a group computes its tiles one after the other. Dynamic shared memory: float received[SETS][SENT], in whole 16
// bytes; Factor factors[BATCH_TILE][PADDED_DEPTH]; and the memory of Weights. `exchange` points to the memory of
// SumExchanges, for each group.
#define SCATTER
#include "recurrent/back_states.cuh"

constexpr int PIECES = SENT / TOGETHER; // packets from one block to another
typedef Exchanges<RowSums, (long long)BLOCKS * BLOCKS * PIECES> SumExchanges; // [to][from][PIECES]

// Sets of threads share out the blocks that send. A thread of a set has a piece, or if there are more pieces than threads
// several ones, and asks for it from some blocks at once.
constexpr int SETS = PIECES < THREADS ? THREADS / PIECES : 1;
constexpr int SENDERS = divided_up(BLOCKS, SETS);
constexpr int AT_ONCE = SENDERS < 8 ? SENDERS : 8;
constexpr int RECEIVED = divided_up(SETS * SENT, 4) * 4;

struct alignas(TOGETHER * sizeof(float)) FloatSums {
    float row[TOGETHER];
};

// Adds up what each set's blocks have sent for this one's first `units` units, in an order that is always the same.
__device__ __forceinline__ void collect(const RowSums *from, int units, unsigned epoch, float *received) {
    const int set = int(threadIdx.x) / PIECES;
    if (set >= SETS) return;
#pragma unroll 1
    for (int piece = int(threadIdx.x) % PIECES; piece < PIECES; piece += THREADS) {
        if (piece * TOGETHER / EIGHT % UNITS >= units) continue;
        FloatSums all = {};
#pragma unroll 1
        for (int first = set; first < BLOCKS; first += SETS * AT_ONCE) {
            PacketBits<RowSums> sums[AT_ONCE];
            ask_for(sums, from, first * PIECES + piece, SETS * PIECES, BLOCKS * PIECES, epoch);
            collect(sums, from, first * PIECES + piece, SETS * PIECES, epoch);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) all.row[k] += float_of(value_of(sums[i], k));
        }
        *reinterpret_cast<FloatSums *>(&received[set * SENT + piece * TOGETHER]) = all;
    }
}

KERNEL(back_grid, BackRecurrences) {
    const BackRecurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(float, received);
    Factor *const factors = reinterpret_cast<Factor *>(received + RECEIVED);
    const int block = in_register(int(blockIdx.x)), first_unit = block * UNITS;
    const int own_units = in_register(min(UNITS, HIDDEN - first_unit));
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) factors[i] = to_factor(to_element(0));
#pragma unroll 1
    for (int i = threadIdx.x; i < RECEIVED; i += THREADS) received[i] = 0; // of units behind the last nothing comes
    const Weights weights(&recurrence.weights[(long long)block * HIDDEN * OWN_DEPTH], 0, factors + TILE_FACTORS);
    SumExchanges exchanges(recurrence.exchange, blockIdx.y);
    const Own own;
    barrier(); // the zeros are there

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        BackStates states(recurrence, own, first_unit, first_row);
        Sums sums;
        clear_sums(sums);
#pragma unroll 1
        for (int step = recurrence.steps - 1; step >= 0; step--) {
            states.update(step, sums);
            states.for_each_factor([&](int unit, int row, int gate, Factor factor) {
                factors[row * PADDED_DEPTH + gate * UNITS + unit] = factor;
            });
            barrier(); // the block's gradients are complete, and the block has read the sums of the step behind
            RowSums *const buffer = exchanges.next();
            multiply_and_send(weights, factors, [&](int column, int row, RowSums sent) {
                sent.set_epoch(exchanges.epoch);
                const int place = place_of_sum(column % UNITS, row) / TOGETHER;
                publish(&buffer[(column / UNITS * BLOCKS + block) * PIECES + place], sent);
            });
            const Moment sent;
            // The rest of a step's work is done while sums are on their way.
            states.write(step);
            states.ask_for(step - 1);
            sent.wait(FIRST_LOOK);
            collect(&buffer[block * BLOCKS * PIECES], own_units, exchanges.epoch, received);
            barrier(); // all sums are there, and nobody multiplies factors any more
            add_parts<SETS>(received, own, sums);
        }
        states.write_first(sums);
    }
    if (block == 0 && threadIdx.x == 0) exchanges.keep_epoch();
}
