// How blocks hand each other h: what a block has of a tile, as packets, and where their values belong.
#pragma once

#include "rnn/states.cuh"

#include "exchange.cuh"

typedef Packet<Element> UnitPacket;

constexpr int PAIRS = UNITS * BATCH_TILE;         // of a block: pair p is unit p % UNITS and row p / UNITS
constexpr int PACKETS_A_BLOCK = divided_up(PAIRS, UnitPacket::values);
constexpr int PACKETS = BLOCKS * PACKETS_A_BLOCK;
constexpr int OWN_BYTES = divided_up(PACKETS_A_BLOCK * UnitPacket::values * sizeof(Element), 16) * 16;

// The block's own numbers, as [PACKETS_A_BLOCK][values of a packet].
class OwnNumbers {
    Element *const numbers;

  public:
    // Zeros, in OWN_BYTES of shared memory.
    __device__ __forceinline__ explicit OwnNumbers(void *memory) : numbers(static_cast<Element *>(memory)) {
#pragma unroll 1
        for (int i = threadIdx.x; i < OWN_BYTES / int(sizeof(Element)); i += THREADS) numbers[i] = to_element(0);
    }

    __device__ __forceinline__ void set(int unit, int row, float value) {
        numbers[row * UNITS + unit] = to_element(value);
    }

    __device__ __forceinline__ UnitPacket packed(int packet, unsigned epoch) const {
        UnitPacket made;
#pragma unroll
        for (int k = 0; k < UnitPacket::values; k++) made.value[k] = numbers[packet * UnitPacket::values + k];
        made.epoch = epoch;
        return made;
    }
};

// A block's packet into h, as [BATCH_TILE][PADDED_HIDDEN].
__device__ __forceinline__ void unpack(const UnitPacket &from, int block, int packet, Factor *h) {
    const int first_unit = block * UNITS, first_pair = packet * UnitPacket::values;
#pragma unroll
    for (int k = 0; k < UnitPacket::values; k++) {
        const int pair = first_pair + k, unit = first_unit + pair % UNITS;
        if (pair < PAIRS && unit < HIDDEN) h[pair / UNITS * PADDED_HIDDEN + unit] = to_factor(from.value[k]);
    }
}
