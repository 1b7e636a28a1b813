// Conversions between float and the types of 2 bytes.
#pragma once

namespace emulator {
// Eight numbers, which compilers convert at once. A conversion of one vector type to another keeps the bits.
typedef unsigned short Halves __attribute__((vector_size(16)));
typedef unsigned Words __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));

inline void bfloat16s_to_floats(Halves bits, Floats &to) { to = Floats(__builtin_convertvector(bits, Words) << 16); }

// As half_to_float does.
inline void halves_to_floats(Halves bits, Floats &to) {
    const Words halves = __builtin_convertvector(bits, Words);
    const Words magnitude = (halves & 0x7fff) << 13, sign = (halves & 0x8000) << 16;
    const Words infinite = Words((halves & 0x7c00) == 0x7c00) & 0x7f800000;
    to = Floats(Words(Floats(magnitude) * 0x1p112f) | infinite | sign);
}
} // namespace emulator

inline float bfloat16_to_float(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }

inline unsigned short float_to_bfloat16(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return 0x7fff; // as the GPU has it
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Without a branch: each product of the emulated tensor cores converts 384 halves.
inline float half_to_float(unsigned short half) {
    // The exponent's bias is 112 less than a float's, which the product mends, also where the half is subnormal.
    const unsigned magnitude = unsigned(half & 0x7fff) << 13, sign = unsigned(half & 0x8000) << 16;
    const unsigned infinite = (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    return __uint_as_float(__float_as_uint(__uint_as_float(magnitude) * 0x1p112f) | infinite | sign);
}

inline unsigned short float_to_half(float value) {
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fff;                  // as the GPU has it
    if (magnitude >= 0x477ff000) return sign | 0x7c00;          // 65520, half way past the largest, and above
    if (magnitude < 0x38800000)                                 // below 2⁻¹⁴: units of 2⁻²⁴, which adding 1/2 rounds to
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000);
    const unsigned rebased = magnitude - (112u << 23);
    return sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13;
}

inline unsigned short lower_half(unsigned bits) { return bits; }
