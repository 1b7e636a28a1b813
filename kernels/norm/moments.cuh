// The mean and the variance of many elements: of a channel, or of a group of channels.
#pragma once

#include "norm/totals.cuh"

// What a - b, which is `difference` in float, lost by rounding (Knuth, "The Art of Computer Programming", volume 2,
// 4.2.2, theorem B). Over elements of one size, rounding always loses on the same side.
__device__ __forceinline__ float difference_error(float a, float b, float difference) {
    const float subtracted = a - difference;
    return (a - (difference + subtracted)) + (subtracted - b);
}

// Sums of differences from `origin`, an element of the channel, and of their squares. So no large squares are
// subtracted from each other, wherever the mean is.
struct alignas(16) Sums {
    double differences, squares;

    __device__ __forceinline__ static Sums none() { return {0, 0}; }
    __device__ __forceinline__ void add(const Vector &x, float origin, const Part &part) {
        // Differences of shorter numbers lose nothing that counts.
        constexpr bool IS_FLOAT = sizeof(Element) == sizeof(float);
        float its[VECTOR], its_squares[2] = {}, lost = 0, lost_squares = 0;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const float element = part.has(i) ? to_float(x.each[i]) : origin;
            its[i] = element - origin;
            if (IS_FLOAT) {
                // In a group of few elements, roundings of squares would not even out.
                squares += double(its[i]) * its[i];
                const float its_lost = difference_error(element, origin, its[i]);
                lost += its_lost;
                lost_squares = fmaf(2 * its[i], its_lost, lost_squares);
            } else {
                its_squares[i % 2] = fmaf(its[i], its[i], its_squares[i % 2]);
            }
        }
        differences += sum_in_pairs(its);
        squares += its_squares[0] + its_squares[1];
        // The mean of an infinite element is infinite; the sum of the lost parts is NaN then.
        if (IS_FLOAT && !isnan(lost)) {
            differences += lost;
            squares += lost_squares;
        }
    }
};

__device__ __forceinline__ Sums joined_by_warp(const Sums &sums) {
    return {warp_sum(sums.differences), warp_sum(sums.squares)};
}

// The mean, the sum of the squared differences from it, and 1 / sqrt(variance + epsilon).
struct Statistics {
    double mean, squares, inverse;
};

// Of all the elements that the shape's blocks share out.
__device__ __forceinline__ Statistics statistics(const Shape &shape, float origin, const Sums &sums, double epsilon) {
    const double part = part_of(shape), offset = sums.differences * part;
    // Rounding may leave a small negative sum. NaN stays, which fmax would drop.
    const double rounded = sums.squares - offset * sums.differences, squares = rounded < 0 ? 0 : rounded;
    return {origin + offset, squares, reciprocal_root(squares * part + epsilon)};
}
