// Tensor cores: PTX's `mma.sync` of shapes m16n8k16 and m16n8k8. device.cuh says which elements each lane has.

#include "products.h"

inline float float_to_tf32(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return __uint_as_float(0x7fffffff); // as the GPU has it
    return __uint_as_float((bits + 0x1000) & ~0x1fffu);
}

#define WARP_MMA(name, multiply)                                                                                       \
    inline void warp_mma_##name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], AT) {                   \
        const emulator::Fragments fragments = {d, a, b};                                                               \
        emulator::meet_warp({"warp_mma_" #name, file, line}, {0, 0, &fragments}, emulator::multiply);                  \
    }
WARP_MMA(half, multiply_halves)
WARP_MMA(bfloat16, multiply_bfloat16s)
WARP_MMA(tf32, multiply_tf32)
#undef WARP_MMA
