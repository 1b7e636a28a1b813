// recurrence_wavefront: several layers, one above the other, in one launch. In wave w layer l computes time step w - l.
// It reads its own h of the step before, and the layer below's h of the same step: blocks exchanged both at the end of
// wave w - 1. T steps of L layers are T + L - 1 waves.
//
// Layer 0 gets its input as other recurrences do. The other layers keep W beside R on chip, and have no `input`.
//
// grid: ceil(H / UNITS) × groups of blocks × layers (LAYERS at most), all of them resident. The groups divide the
// tiles; a group computes its tiles one after the other. Dynamic shared memory: Factor h[2][BATCH_TILE][PADDED_HIDDEN],
// of the layer itself and of the layer below; Element[PACKETS_A_BLOCK][values of a packet], the block's own numbers;
// and Quad[2][Weights::shared_quads][THREADS], of R and of W, each aligned to 16 bytes. Memory at `exchange`: for each
// group, an Exchange and 2 × LAYERS × PACKETS packets, in whole multiples of 128 bytes.
//
// Two buffers are enough, although no block collects all packets. If a block collected only the packets that it
// computes with, its own layer's and the layer below's, it could run ahead of the layer above and overwrite packets
// that the layer above still waits for. So it also waits for the first packet of each block of the layer above, and
// ignores the values. The argument in `exchange.cuh` then holds for neighbouring layers: before a block writes packets
// of e + 1, it has seen a packet of e from each block that reads its packets, and each of those wrote that packet after
// collecting e - 1. All blocks take part in all waves; a layer that has not begun, or has ended, sends its h.
#define INPUT_WEIGHTS
#include "recurrent/unit_packets.cuh"

// For each layer: the blocks' first packets, which the layer below reads; then each block's other packets.
constexpr int OTHERS_A_BLOCK = at_least(PACKETS_A_BLOCK - 1, 1);

// The most packets that a thread asks for at once.
constexpr int MOST_COLLECTED = divided_up(2 * PACKETS + BLOCKS, THREADS);
constexpr int AT_ONCE = MOST_COLLECTED < 4 ? MOST_COLLECTED : 4;

__device__ __forceinline__ void publish_own(const OwnNumbers &own, UnitPacket *layer, unsigned epoch) {
    const int others = BLOCKS + blockIdx.x * (PACKETS_A_BLOCK - 1) - 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < PACKETS_A_BLOCK; i += THREADS)
        publish(&layer[i == 0 ? blockIdx.x : others + i], own.packed(i, epoch));
}

// The places in h of packet `at` of a layer. Packets behind the last have none.
__device__ __forceinline__ Places places_of_layer(int at) {
    const int other = at - BLOCKS;
    return at < BLOCKS ? places_of(at, 0) : places_of(other / OTHERS_A_BLOCK, other % OTHERS_A_BLOCK + 1);
}

// Collects the layer's own packets into h, the layer below's behind that, and drops those of the layer above.
__device__ __forceinline__ void collect_neighbours(const UnitPacket *buffer, int layer, int layers, unsigned epoch,
                                                   const Moment &sent, Factor *h) {
    const int own = layer * PACKETS;
    const int first_packet = layer > 0 ? own - PACKETS : own;
    const int end = own + PACKETS + (layer + 1 < layers ? BLOCKS : 0);
#pragma unroll 1
    for (int first = first_packet + threadIdx.x; first < end; first += AT_ONCE * THREADS) {
        Places places[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int at = first + i * THREADS - own;
            places[i] = places_of_layer(at < 0 ? at + PACKETS : at);
#pragma unroll
            for (int run = 0; run < RUNS; run++)
                if (at < 0 && places[i].of[run] >= 0) places[i].of[run] += TILE_FACTORS;
        }
        if (first == first_packet + int(threadIdx.x)) sent.wait(FIRST_LOOK);
        PacketBits<UnitPacket> packets[AT_ONCE];
        ask_for(packets, buffer, first, THREADS, end, epoch);
        collect(packets, buffer, first, THREADS, epoch);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) unpack(packets[i], places[i], h);
    }
}

KERNEL(recurrence_wavefront, Recurrences) {
    SHARED(Factor, h);
    Factor *const below = h + TILE_FACTORS;
    OwnNumbers own(below + TILE_FACTORS);
    Quad *const quads = reinterpret_cast<Quad *>(reinterpret_cast<char *>(below + TILE_FACTORS) + OWN_BYTES);
    const int layer = blockIdx.z, layers = gridDim.z;
    const Recurrence &recurrence = parameters.of[layer];
    const int first_unit = in_register(int(blockIdx.x) * UNITS);
    const Weights weights(recurrence.weights, first_unit, quads);
    const Weights input_weights(recurrence.input_weights, first_unit, quads + Weights::shared_quads * THREADS);
    Exchanges<UnitPacket, LAYERS * PACKETS> exchanges(recurrence.exchange, blockIdx.y);
    const Biases biases(recurrence, first_unit);
    const Own pairs;
    const int steps = in_register(recurrence.steps), waves = steps + layers - 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) below[i] = to_factor(to_element(0)); // stays zero behind H

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        States states(recurrence, biases, pairs, first_unit, first_row);
        barrier(); // nobody reads the last tile's h any more
        read_h0(recurrence, first_row, h);
        barrier();
        states.begin_step(0);
#pragma unroll 1
        for (int wave = 0; wave < waves; wave++) {
            const int step = wave - layer;
            const bool is_at_work = step >= 0 && step < steps;
            if (is_at_work) {
                Sums sums;
                clear(sums);
                multiply_part<0, GATES>(weights, h, sums);
                if (layer > 0) multiply_part<0, GATES, PAIR_SUMS - 1>(input_weights, below, sums);
                add_up<GROUP_PAIRS, LANES>(sums);
                states.update(step, sums);
            }
            if (wave + 1 == waves) {
                if (is_at_work) states.write_y(step);
                break;
            }
            UnitPacket *const buffer = exchanges.next();
            states.for_each_h([&](int unit, int row, float h) { own.set(unit, row, h); });
            barrier(); // all own h are set, and nobody reads the old h any more
            publish_own(own, buffer + layer * PACKETS, exchanges.epoch);
            const Moment sent;
            if (is_at_work) {
                states.write_y(step);
                states.begin_step(step + 1);
            }
            collect_neighbours(buffer, layer, layers, exchanges.epoch, sent, h);
            barrier(); // the new h is complete, and own packets are sent
        }
        states.write_last();
    }
    // All blocks of the group have published by now: layer l's in the first exchange, before layer 0 collected the
    // l-th. There are layers - 1 exchanges at least.
    if (blockIdx.x == 0 && layer == 0 && threadIdx.x == 0) exchanges.keep_epoch();
}
