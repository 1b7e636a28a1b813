// The sums that a normalisation's gradient needs.
#pragma once

#include "norm/totals.cuh"

// The sum of dy, and the sum of dy * (x - mean).
struct alignas(16) Sums {
    double dy, product;

    __device__ __forceinline__ static Sums none() { return {0, 0}; }
    __device__ __forceinline__ void add(const Vector &x, const Vector &its_dy, float mean, const Part &part) {
        float gradients[VECTOR], its_product = 0;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const bool is_its = part.has(i);
            gradients[i] = is_its ? to_float(its_dy.each[i]) : 0;
            its_product = fmaf(gradients[i], is_its ? to_float(x.each[i]) - mean : 0, its_product);
        }
        dy += sum_in_pairs(gradients);
        product += its_product;
    }
};

__device__ __forceinline__ Sums joined_by_warp(const Sums &sums) { return {warp_sum(sums.dy), warp_sum(sums.product)}; }
