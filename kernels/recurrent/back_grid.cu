// back_grid: ceil(H / UNITS) blocks of the whole grid compute a tile of the batch. In each step, each block multiplies its
// own units' gradients of gates with all columns of R, and sends each block the sums of that block's units through the L2
// cache.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence divide its
// tiles; a group computes its tiles one after the other. Dynamic shared memory: float received[SETS][UNITS][BATCH_TILE],
// in whole lines of 16 bytes; Factor factors[BATCH_TILE][PADDED_DEPTH]; and the memory of Weights. Memory at `exchange`:
// that of Exchanges, for each group.
#define SCATTER
#include "recurrent/back_states.cuh"

#include "common/phased_exchange.cuh"

constexpr int PIECES = SENT / TOGETHER;   // that are sent together
typedef PhasedExchanges<(long long)BLOCKS * BLOCKS * SENT> Exchanges; // [to][from][UNITS][BATCH_TILE]

// Sets of threads share out the blocks that send. A thread of a set has a piece, or if there are more pieces than threads
// several ones, and asks for it from some blocks at once.
constexpr int SETS = PIECES < THREADS ? THREADS / PIECES : 1;
constexpr int SENDERS = divided_up(BLOCKS, SETS);
constexpr int AT_ONCE = SENDERS < 8 ? SENDERS : 8;
constexpr int RECEIVED = divided_up(SETS * SENT, 4) * 4;

// Adds up what each set's blocks have sent for the first `count` sums of this one, in an order that is always the same.
__device__ __forceinline__ void collect(const float *from, int count, unsigned phase, float *received) {
    const int set = int(threadIdx.x) / PIECES;
    if (set >= SETS) return;
#pragma unroll 1
    for (int piece = int(threadIdx.x) % PIECES; piece * TOGETHER < count; piece += THREADS) {
        RowSums all = {};
#pragma unroll 1
        for (int first = set; first < BLOCKS; first += SETS * AT_ONCE) {
            const RowSums *const places = reinterpret_cast<const RowSums *>(&from[first * SENT + piece * TOGETHER]);
            RowSums sums[AT_ONCE];
            Spin spin;
            bool has_arrived = false;
            while (!has_arrived) {
                has_arrived = true;
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    if (first + i * SETS < BLOCKS) sums[i] = peek(&places[i * SETS * PIECES]);
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) {
                    if (first + i * SETS >= BLOCKS) continue;
#pragma unroll
                    for (int k = 0; k < TOGETHER; k++) has_arrived &= __float_as_uint(sums[i].row[k]) % 2 == phase;
                }
                if (!has_arrived) spin.again();
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (first + i * SETS >= BLOCKS) continue;
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) all.row[k] += sums[i].row[k];
            }
        }
        *reinterpret_cast<RowSums *>(&received[set * SENT + piece * TOGETHER]) = all;
    }
}

KERNEL(back_grid, BackRecurrences) {
    const BackRecurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(float, received);
    Factor *const factors = reinterpret_cast<Factor *>(received + RECEIVED);
    const int block = in_register(int(blockIdx.x)), first_unit = block * UNITS;
    const int own_sums = in_register(min(UNITS, HIDDEN - first_unit) * BATCH_TILE);
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) factors[i] = to_factor(to_element(0));
#pragma unroll 1
    for (int i = threadIdx.x; i < RECEIVED; i += THREADS) received[i] = 0; // of units behind the last nothing comes
    const Weights weights(&recurrence.weights[(long long)block * HIDDEN * OWN_DEPTH], 0, factors + TILE_FACTORS);
    Exchanges exchanges(recurrence.exchange, blockIdx.y);
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
            float *const buffer = exchanges.buffer();
            const unsigned phase = exchanges.phase();
            multiply_and_send(weights, factors, [&](int column, int row, RowSums sent) {
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) sent.row[k] = with_phase(sent.row[k], phase);
                float *const there = &buffer[(long long)(column / UNITS * BLOCKS + block) * SENT];
                publish(reinterpret_cast<RowSums *>(&there[column % UNITS * BATCH_TILE + row]), sent);
            });
            const Moment sent;
            // The rest of a step's work is done while sums are on their way.
            states.write(step);
            states.ask_for(step - 1);
            sent.wait(FIRST_LOOK);
            collect(&buffer[(long long)block * BLOCKS * SENT], own_sums, phase, received);
            exchanges.end();
            barrier(); // all sums are there, and nobody multiplies factors any more
            add_parts<SETS>(received, own, sums);
        }
        states.write_first(sums);
    }
    if (block == 0 && threadIdx.x == 0) exchanges.keep();
}
