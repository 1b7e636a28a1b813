// The device functions of CUDA that kernels use. Threads of a launch run one at a time, so plain operations serve as
// atomic ones.
#pragma once

#include <string.h>

// C's functions by their builtins: C++'s <math.h> takes longer to compile than many a kernel.
#define UNARY(name)                                                                                                    \
    inline float name(float x) { return __builtin_##name(x); }
UNARY(exp2f)
UNARY(expf)
UNARY(fabsf)
UNARY(logf)
UNARY(sqrtf)
#undef UNARY
inline float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
inline float powf(float x, float y) { return __builtin_powf(x, y); }
inline float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
template <typename T> inline bool isnan(T x) { return __builtin_isnan(x); }
template <typename T> inline bool isinf(T x) { return __builtin_isinf(x); }

namespace emulator {
template <typename To, typename From> inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace emulator

inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline unsigned __float_as_uint(float value) { return emulator::bits_as<unsigned>(value); }

// Four of the eight bytes of y and x, by the selector's four digits; a digit's highest bit repeats its byte's sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned digit = selector >> 4 * i & 0xf;
        unsigned byte = bytes >> 8 * (digit & 7) & 0xff;
        if (digit & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

// The upper half of a product.
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned long long)x * y >> 32; }
// The number of bits that are 1.
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

inline int min(int x, int y) { return y < x ? y : x; }
inline int max(int x, int y) { return x < y ? y : x; }

template <typename T> inline T atomicAdd(T *place, T by) {
    const T before = *place;
    *place = before + by;
    return before;
}
