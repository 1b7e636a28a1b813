// Products of many rows of floats for nets of vertex functions, for GPUs of compute capability 9.0.
//
// Compiled with ELEMENT_FLOAT defined.
#define KINDS_OF_WARPS
#define BLOCK_THREADS 512
#define THREADS 256
#define MULTIPROCESSOR_BLOCKS 1
#define SHARED_ALIGNMENT 1024
#include "dynamic/warpgroup_products.cuh"
#include "dynamic/together.cuh"

// Products of a level's rows, or of a whole batch's.
KERNEL(exact_wide_level, LevelProduct) {
    SHARED(unsigned char, shared);
    multiply_wide_level<3>(parameters, shared);
}

// Likewise, where floats may be rounded to TF32.
KERNEL(wide_level, LevelProduct) {
    SHARED(unsigned char, shared);
    multiply_wide_level<2>(parameters, shared);
}

// Sums of outer products that need nothing of each other.
KERNEL(exact_wide_outer_products, Together<OuterProducts>) {
    SHARED(unsigned char, shared);
    parameters.run([&](const OuterProducts &it, unsigned block, unsigned) { sum_wide_outer_products<3>(it, block, shared); });
}

// Likewise.
KERNEL(wide_outer_products, Together<OuterProducts>) {
    SHARED(unsigned char, shared);
    parameters.run([&](const OuterProducts &it, unsigned block, unsigned) { sum_wide_outer_products<2>(it, block, shared); });
}
