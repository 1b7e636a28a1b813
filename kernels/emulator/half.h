// Conversions between float and the types of 2 bytes.
#pragma once

inline float bfloat16_to_float(unsigned short bits) { return __uint_as_float(unsigned(bits) << 16); }

inline unsigned short float_to_bfloat16(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return 0x7fff; // as the GPU has it
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline float half_to_float(unsigned short half) {
    const unsigned sign = unsigned(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0x1f) return __uint_as_float(sign | 0x7f800000 | fraction << 13);
    // Subnormal: a multiple of 2⁻²⁴.
    if (exponent == 0) return __uint_as_float(sign | __float_as_uint(fraction * 0x1p-24f));
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
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
