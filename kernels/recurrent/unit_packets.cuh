// The packets in which blocks exchange h: a block's numbers of a tile as packets, and the places of their values in h.
#pragma once

#include "recurrent/states.cuh"

#include "common/phased.cuh"

// A packet of two-byte elements has an epoch: h is exactly what y stores. A float may be rounded by a bit more, in products.
#ifdef ELEMENT_FLOAT
typedef PhasedPacket<float, 4> UnitPacket;
#else
typedef Packet<Element> UnitPacket;
#endif

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
        made.set_epoch(epoch);
        return made;
    }
};

// Values of a packet that are neighbours in h: a run.
constexpr int RUN = together(UNITS | HIDDEN | UnitPacket::values, 4), RUNS = UnitPacket::values / RUN;
struct alignas(RUN * sizeof(Factor)) FactorRun {
    Factor factor[RUN];
};

// The place of each run of a packet in h, [BATCH_TILE][PADDED_HIDDEN]; < 0: none. Threads compute the places, which
// are the same in each step, before the packets arrive, and keep them in registers.
struct Places {
    int of[RUNS];
};

// The places of a block's packet. Packets behind the last, and blocks behind the last, have none.
__device__ __forceinline__ Places places_of(int block, int packet) {
    Places places;
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        const int pair = packet * UnitPacket::values + run * RUN, unit = block * UNITS + pair % UNITS;
        places.of[run] = in_register(pair < PAIRS && unit < HIDDEN ? pair / UNITS * PADDED_HIDDEN + unit : -1);
    }
    return places;
}

__device__ __forceinline__ void unpack(const PacketBits<UnitPacket> &from, const Places &places, Factor *h) {
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        if (places.of[run] < 0) continue;
        Factor *const place = &h[places.of[run]];
        if constexpr (sizeof(Factor) == 2 && RUN == 2) {
            *reinterpret_cast<unsigned *>(place) = from.word(run);
        } else {
            FactorRun factors;
#pragma unroll
            for (int k = 0; k < RUN; k++) factors.factor[k] = to_factor(value_of(from, run * RUN + k));
            *reinterpret_cast<FactorRun *>(place) = factors;
        }
    }
}
