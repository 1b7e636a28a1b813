// The places of a filter of FILTER x FILTER, an odd number, with FILTER / 2 zeros on all sides of an image; in volumes,
// of SLICES of them, an odd number, with SLICES / 2 slices of zeros before the first and behind the last.
#pragma once

#include "common/device.cuh"

#ifndef SLICES
#define SLICES 1
#endif

constexpr int IN_SLICE = FILTER * FILTER, PLACES = SLICES * IN_SLICE, REACH = FILTER / 2;

// A row and a column of a filter.
struct Place {
    int row, column;

    __device__ __forceinline__ explicit Place(int place) : row(place / FILTER % FILTER), column(place % FILTER) {}
    // From a pixel to its neighbour, in rows of `width` pixels.
    __device__ __forceinline__ int apart(int width) const { return (row - REACH) * width + column - REACH; }
};
