// Packets of nothing but values, in the exchanges of exchange.cuh: the lowest bit of a packet is the phase of its
// exchange, another one each time that a buffer is used. A reader that finds the phase it waits for has read the values of
// that exchange, since the buffer holds values of that exchange or of the one before it. The first phase is 1, and memory
// begins with zeros. The first value of a packet is rounded to a bit less, and readers see 0 in the place of the phase, so
// that no result depends on how many exchanges came before.
#pragma once

#include "common/exchange.cuh"
#include "common/ops.cuh"

__device__ __forceinline__ unsigned phase_of(unsigned epoch) { return (epoch + 1) / 2 % 2; }

__device__ __forceinline__ unsigned bits_of(float value) { return __float_as_uint(value); }
template <typename Value> __device__ __forceinline__ Value value_of(unsigned bits) {
    if constexpr (sizeof(Value) == 4)
        return __uint_as_float(bits);
    else
        return element_of(bits);
}

// The bits of an element or a float, rounded to an even last bit: to the nearest, ties to a multiple of 4. Cutting the bit
// off would make all sums smaller. The largest, infinity and NaN are cut off.
template <typename Value> __device__ __forceinline__ unsigned even_bits_of(Value value) {
    constexpr unsigned magnitude = sizeof(Value) == 4 ? 0x7fffffff : 0x7fff;
    constexpr unsigned largest = sizeof(Value) == 4 ? 0x7f7fffff : 0x7bff; // of half; in bfloat16 it is 2.7e36
    const unsigned bits = bits_of(value);
    return (bits % 4 == 3 && (bits & magnitude) < largest ? bits + 1 : bits) & ~1u;
}

// `Count` neighbouring elements or floats: 4, 8 or 16 bytes.
template <typename T, int Count> struct alignas(Count * sizeof(T)) PhasedPacket {
    typedef T Value;
    static constexpr int values = Count;
    Value value[Count];

    __device__ __forceinline__ void set_epoch(unsigned epoch) {
        value[0] = value_of<Value>(even_bits_of(value[0]) | phase_of(epoch));
    }

    // As of a Packet.
    __device__ static __forceinline__ bool has_epoch(const unsigned long long (&half)[2], unsigned epoch) {
        return unsigned(half[0]) % 2 == phase_of(epoch);
    }
    __device__ static __forceinline__ void set_epoch(unsigned long long (&half)[2], unsigned epoch) {
        half[0] = phase_of(epoch), half[1] = 0;
    }
    __device__ static __forceinline__ unsigned word(const unsigned long long (&half)[2], int i) {
        return unsigned(half[i / 2] >> i % 2 * 32) & (i == 0 ? ~1u : ~0u);
    }
};

// Value i of a packet.
template <typename AnyPacket>
__device__ __forceinline__ typename AnyPacket::Value value_of(const PacketBits<AnyPacket> &packet, int i) {
    typedef typename AnyPacket::Value Value;
    constexpr int in_a_word = 4 / sizeof(Value);
    return value_of<Value>(packet.word(i / in_a_word) >> i % in_a_word * 16);
}
