// Products of many rows for nets of vertex functions, for GPUs of compute capability 9.0.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of tensors. Sums are float.
#define KINDS_OF_WARPS
#define BLOCK_THREADS 512
#define THREADS 256 // of the kernels by warps, whose headers are included
#define MULTIPROCESSOR_BLOCKS 1
#define SHARED_ALIGNMENT 1024
#include "dynamic/warpgroup_products.cuh"
#include "dynamic/together.cuh"

// The parts of numbers: of floats that may be rounded to TF32, or of elements of 2 bytes, which have one.
constexpr int PARTS_OF_NUMBERS = sizeof(Element) == 4 ? 2 : 1;

template <int PARTS> __device__ __forceinline__ void sum_all(const Together<OuterProducts> &all, unsigned char *shared) {
    all.run([&](const OuterProducts &it, unsigned block, unsigned) { sum_wide_outer_products<PARTS>(it, block, shared); });
}

// Products of a level's rows, or of a whole batch's.
KERNEL(wide_level, LevelProduct) {
    SHARED(unsigned char, shared);
    multiply_wide_level<PARTS_OF_NUMBERS>(parameters, shared);
}

// Sums of outer products that need nothing of each other.
KERNEL(wide_outer_products, Together<OuterProducts>) {
    SHARED(unsigned char, shared);
    sum_all<PARTS_OF_NUMBERS>(parameters, shared);
}

// Likewise of floats that are not rounded.
#ifdef ELEMENT_FLOAT
KERNEL(exact_wide_level, LevelProduct) {
    SHARED(unsigned char, shared);
    multiply_wide_level<3>(parameters, shared);
}

KERNEL(exact_wide_outer_products, Together<OuterProducts>) {
    SHARED(unsigned char, shared);
    sum_all<3>(parameters, shared);
}
#endif
