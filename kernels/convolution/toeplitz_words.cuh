// Results of the Toeplitz kernels as words, and as several elements that are written at once.
#pragma once

#include "common/ops.cuh"

template <int COUNT> struct alignas(COUNT * sizeof(Element)) Elements {
    Element of[COUNT];
};

// Two elements as a word.
__device__ __forceinline__ unsigned word_of(float low, float high) {
#ifdef EMULATED
    return bits_of(to_element(low)) | bits_of(to_element(high)) << 16;
#else
    unsigned word;
#ifdef ELEMENT_HALF
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
    return word;
#endif
}
