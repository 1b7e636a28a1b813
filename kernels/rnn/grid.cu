// recurrence_grid: ceil(H / UNITS) blocks compute a tile of the batch together, and hand each other their units' h at the
// end of each step.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, all of them resident. The groups of a recurrence share out its
// tiles; a group computes its own one after the other. Dynamic shared memory: Factor h[BATCH_TILE][PADDED_HIDDEN];
// Element[PACKETS_A_BLOCK][values of a packet], the block's own; and what Weights take, each aligned to 16 bytes. Memory
// at `exchange`: of each group, an Exchange and 2 × PACKETS packets, in whole multiples of 128 bytes.
#include "rnn/handed.cuh"

constexpr int GROUP_BYTES = sizeof(Exchange) + divided_up(2 * PACKETS * sizeof(UnitPacket), 128) * 128;

// The most packets that a thread asks for at once.
constexpr int AT_ONCE = divided_up(PACKETS, THREADS) < 4 ? divided_up(PACKETS, THREADS) : 4;

__device__ __forceinline__ void publish_own(const Element *own, UnitPacket *buffer, unsigned epoch) {
#pragma unroll 1
    for (int i = threadIdx.x; i < PACKETS_A_BLOCK; i += THREADS)
        publish(&buffer[blockIdx.x * PACKETS_A_BLOCK + i], packed(own, i, epoch));
}

__device__ __forceinline__ void collect_all(const UnitPacket *buffer, unsigned epoch, Factor *h) {
#pragma unroll 1
    for (int first = threadIdx.x; first < PACKETS; first += AT_ONCE * THREADS) {
        UnitPacket packets[AT_ONCE];
        collect(packets, buffer, first, THREADS, PACKETS, epoch);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int at = first + i * THREADS;
            if (at >= PACKETS) break;
            unpack(packets[i], at / PACKETS_A_BLOCK, at % PACKETS_A_BLOCK, h);
        }
    }
}

KERNEL(recurrence_grid, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Factor, h);
    Element *const own = reinterpret_cast<Element *>(h + TILE_FACTORS);
    const int first_unit = blockIdx.x * UNITS;
    const Weights weights(recurrence.weights, first_unit, reinterpret_cast<char *>(own) + OWN_BYTES);
    Exchange &exchange =
        *reinterpret_cast<Exchange *>(static_cast<char *>(recurrence.exchange) + (size_t)blockIdx.y * GROUP_BYTES);
    unsigned epoch = exchange.epoch;
    const Own pairs;
#pragma unroll 1
    for (int i = threadIdx.x; i < OWN_BYTES / int(sizeof(Element)); i += THREADS) own[i] = to_element(0);

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
            epoch++;
            UnitPacket *const buffer = exchange.buffer<Element>(epoch, PACKETS);
            states.hand_over(first_unit, first_row,
                             [&](int unit, int row, float h) { own[row * UNITS + unit] = to_element(h); });
            barrier(); // all own h are there, and the old h is not read any more
            publish_own(own, buffer, epoch);
            states.advance(step);
            collect_all(buffer, epoch, h);
            barrier(); // the new h is there, and own packets are sent
        }
        states.write_last();
    }
    // All blocks of the group have read the epoch, since all have published: without an exchange it does not change.
    if (blockIdx.x == 0 && threadIdx.x == 0) exchange.epoch = epoch;
}
