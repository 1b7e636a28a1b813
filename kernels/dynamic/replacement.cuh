// What takes the place of an exact product of floats, or of a sum of such, that is no number: infinity has no parts for tensor
// cores, and neither have the largest numbers (`common/tf32_products.cuh`, `common/bfloat16_parts.cuh`).
#pragma once

#include "common/device.cuh"

// The same sum by multiply-adds in their order: `add(number, sum)` adds the product with this number. A sum that is no
// number stays such, so no more products are added: else a training that has diverged would read all factors of all its
// products one by one.
template <typename Add> __device__ __forceinline__ float sum_in_order(int begin, int end, Add add) {
    float sum = 0;
#pragma unroll 1
    for (int number = begin; number < end && sum == sum; ++number) sum = add(number, sum);
    return sum;
}
