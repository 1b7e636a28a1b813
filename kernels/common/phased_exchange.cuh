// Each block of a grid sends floats to the other blocks, again and again, with no fence and no barrier over the grid.
//
// A float validates itself: its last bit is the phase of its exchange. A reader that finds the phase it waits for has read
// the number of that exchange. So floats lose a bit, of the order of their rounding, and an infinity may become NaN.
//
// Exchange e goes through buffer e % 2, whose phase is another each time that it is used; the first is 1, and memory begins
// with zeros. Two buffers are enough if each block publishes its floats of exchange e + 1 after all of its threads have
// collected all floats of exchange e, with a barrier of the block between. The writer of a float of e + 1 has then seen
// every block's floats of e, and each block wrote those after collecting exchange e - 1, which the same buffer held before.
// So no reader still waits for an overwritten float. And a reader that waits for e finds it, because nobody writes e + 2
// before that reader's own floats of e + 1.
#pragma once

#include "common/device.cuh"

// The memory of an exchange: this header, then two buffers. All zero at first.
struct alignas(128) PhasedExchange {
    // The exchanges of all launches so far.
    unsigned count;
};

// A block's exchanges one after the other, with `Floats` floats in a buffer. Each group of blocks exchanges among itself;
// the groups' memory lies one after the other, `bytes` each.
template <long long Floats> class PhasedExchanges {
    PhasedExchange &memory;
    unsigned number; // of the next exchange

  public:
    static constexpr long long bytes = sizeof(PhasedExchange) + (2 * Floats * sizeof(float) + 127) / 128 * 128;

    __device__ __forceinline__ PhasedExchanges(void *all, int group)
        : memory(*reinterpret_cast<PhasedExchange *>(static_cast<char *>(all) + group * bytes)), number(memory.count) {}

    // The buffer of the next exchange, and its phase.
    __device__ __forceinline__ float *buffer() const {
        return reinterpret_cast<float *>(&memory + 1) + (number % 2 ? Floats : 0);
    }
    __device__ __forceinline__ unsigned phase() const { return ~number / 2 % 2; }

    // Ends the next exchange: another is the next.
    __device__ __forceinline__ void end() { number++; }

    // Stores the number for the next launch. One thread of the group calls this after an exchange in which all of the
    // group's blocks have published, which shows that they have read the number.
    __device__ __forceinline__ void keep() { memory.count = number; }
};

__device__ __forceinline__ float with_phase(float value, unsigned phase) {
    return __uint_as_float((__float_as_uint(value) & ~1u) | phase);
}

// Stores 1, 2 or 4 neighbouring floats.
template <typename Floats> __device__ __forceinline__ void publish(Floats *place, const Floats &floats) {
#ifdef EMULATED
    *place = floats;
#else
    constexpr int words = sizeof(Floats) / 4;
    static_assert(words == 1 || words == 2 || words == 4, "4, 8 or 16 bytes");
    const unsigned long long to = __cvta_generic_to_global(place);
    const float *const value = reinterpret_cast<const float *>(&floats);
    if constexpr (words == 4)
        asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value[0]), "f"(value[1]),
                     "f"(value[2]), "f"(value[3])
                     : "memory");
    else if constexpr (words == 2)
        asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(value[0]), "f"(value[1]) : "memory");
    else
        asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(value[0]) : "memory");
#endif
}

// The floats there now, of any exchange.
template <typename Floats> __device__ __forceinline__ Floats peek(const Floats *place) {
#ifdef EMULATED
    return *place;
#else
    constexpr int words = sizeof(Floats) / 4;
    const unsigned long long from = __cvta_generic_to_global(place);
    Floats floats;
    float *const value = reinterpret_cast<float *>(&floats);
    if constexpr (words == 4)
        asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
                     : "l"(from)
                     : "memory");
    else if constexpr (words == 2)
        asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
                     : "=f"(value[0]), "=f"(value[1])
                     : "l"(from)
                     : "memory");
    else
        asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value[0]) : "l"(from) : "memory");
    return floats;
#endif
}
