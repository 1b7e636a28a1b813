// The packets in which blocks exchange h: a block's numbers of a tile as packets, and the places of their values in h.
#pragma once

#include "recurrent/states.cuh"

#include "common/exchange.cuh"

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

// The place of each value of a packet in h, [BATCH_TILE][PADDED_HIDDEN]; < 0: none. Threads compute the places, which
// are the same in each step, before the packets arrive, and keep them in registers.
struct Places {
    int of[UnitPacket::values];
};

// The places of a block's packet. Packets behind the last, and blocks behind the last, have none.
__device__ __forceinline__ Places places_of(int block, int packet) {
    Places places;
#pragma unroll
    for (int k = 0; k < UnitPacket::values; k++) {
        const int pair = packet * UnitPacket::values + k, unit = block * UNITS + pair % UNITS;
        places.of[k] = in_register(pair < PAIRS && unit < HIDDEN ? pair / UNITS * PADDED_HIDDEN + unit : -1);
    }
    return places;
}

__device__ __forceinline__ void unpack(const UnitPacket &from, const Places &places, Factor *h) {
#pragma unroll
    for (int k = 0; k < UnitPacket::values; k++)
        if (places.of[k] >= 0) h[places.of[k]] = to_factor(from.value[k]);
}
