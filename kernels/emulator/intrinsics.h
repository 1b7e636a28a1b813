// The device functions of CUDA that kernels use. Threads of a launch run one at a time, so plain operations serve as
// atomic ones, and fences do nothing.
#pragma once

#include <math.h>
#include <string.h>

namespace emulator {
template <typename To, typename From> inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace emulator

inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline float __int_as_float(int bits) { return emulator::bits_as<float>(bits); }
inline unsigned __float_as_uint(float value) { return emulator::bits_as<unsigned>(value); }
inline int __float_as_int(float value) { return emulator::bits_as<int>(value); }

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

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __expf(float x) { return expf(x); }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

inline int min(int x, int y) { return y < x ? y : x; }
inline int max(int x, int y) { return x < y ? y : x; }
inline unsigned min(unsigned x, unsigned y) { return y < x ? y : x; }
inline unsigned max(unsigned x, unsigned y) { return x < y ? y : x; }
inline long long min(long long x, long long y) { return y < x ? y : x; }
inline long long max(long long x, long long y) { return x < y ? y : x; }
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }

template <typename T> inline T __ldg(const T *place) { return *place; }
template <typename T> inline T __ldcg(const T *place) { return *place; }

template <typename T> inline T atomicAdd(T *place, T by) {
    const T before = *place;
    *place = before + by;
    return before;
}
template <typename T> inline T atomicExch(T *place, T value) {
    const T before = *place;
    *place = value;
    return before;
}
template <typename T> inline T atomicCAS(T *place, T expected, T value) {
    const T before = *place;
    if (before == expected) *place = value;
    return before;
}
template <typename T> inline T atomicMax(T *place, T value) {
    const T before = *place;
    if (before < value) *place = value;
    return before;
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
