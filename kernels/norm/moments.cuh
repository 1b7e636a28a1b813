// Means and sums of squared deviations, in float. Values are summed as differences from a value of the same channel, and
// parts are joined as Chan, Golub and LeVeque say ("Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances", 1979, equation 2.1): no large squares are subtracted.
#pragma once

#include "common/device.cuh"

struct alignas(16) Moments {
    float count, mean, squares, unused;

    __device__ __forceinline__ static Moments none() { return {0, 0, 0, 0}; }
};

// Rounding may leave a small negative sum of squares. NaN stays, which fmaxf would drop.
__device__ __forceinline__ float not_negative(float squares) { return squares < 0 ? 0 : squares; }

// If any lane of the warp has values, the first has.
__device__ __forceinline__ Moments joined_by_warp(const Moments &moments) {
    const float origin = warp_broadcast(moments.mean, 0), apart = moments.mean - origin;
    const float part = moments.count * apart;
    const float count = warp_sum(moments.count), sum = warp_sum(part);
    const float squares = warp_sum(fmaf(part, apart, moments.squares));
    const float mean = count > 0 ? sum / count : 0;
    return {count, origin + mean, not_negative(fmaf(-mean, sum, squares)), 0};
}

// Sums of differences from `origin`.
struct Differences {
    float origin = 0, sum = 0, squares = 0;
    int count = 0;

    __device__ __forceinline__ void add(float value) {
        const float difference = value - origin;
        sum += difference;
        squares = fmaf(difference, difference, squares);
    }

    __device__ __forceinline__ Moments moments() const {
        if (count == 0) return Moments::none();
        const float mean = sum / count;
        return {float(count), origin + mean, not_negative(fmaf(-mean, sum, squares)), 0};
    }
};
