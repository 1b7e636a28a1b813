// Means and sums of squared deviations, in float. Values are summed as differences from a value of the same channel,
// and parts are joined as Chan, Golub and LeVeque say ("Updating Formulae and a Pairwise Algorithm for Computing Sample
// Variances", 1979, equation 2.1): no large squares are subtracted.
#pragma once

#include "common/device.cuh"

// Rounding may leave a small negative sum of squares. NaN stays, which fmaxf would drop.
__device__ __forceinline__ float not_negative(float squares) { return squares < 0 ? 0 : squares; }

struct alignas(16) Moments {
    float count;
    // The mean is the sum of both: `rest` is what rounding took from `mean`. Far from 0, it matters to deviations.
    float mean, rest;
    float squares;

    __device__ __forceinline__ static Moments none() { return {0, 0, 0, 0}; }

    // Of `count` values, whose differences from `origin` have this sum, and this sum of squares.
    __device__ __forceinline__ static Moments of(float count, float origin, float sum, float squares) {
        if (count == 0) return none();
        const float offset = sum / count, mean = origin + offset;
        // The error of the addition (Knuth, "The Art of Computer Programming", volume 2, 4.2.2, theorem B), and that of
        // the division.
        const float added = mean - origin;
        const float rest = (origin - (mean - added)) + (offset - added) + fmaf(-offset, count, sum) / count;
        return {count, mean, rest, not_negative(fmaf(-offset, sum, squares))};
    }
};

// If any lane of the warp has values, the first has.
__device__ __forceinline__ Moments joined_by_warp(const Moments &moments) {
    const float origin = warp_broadcast(moments.mean, 0), apart = (moments.mean - origin) + moments.rest;
    const float part = moments.count * apart;
    const float count = warp_sum(moments.count), sum = warp_sum(part);
    return Moments::of(count, origin, sum, warp_sum(fmaf(part, apart, moments.squares)));
}
