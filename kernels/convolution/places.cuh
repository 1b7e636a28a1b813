// The places of a filter of FILTER x FILTER, an odd number, with FILTER / 2 zeros on all sides of an image.
#pragma once

#include "common/device.cuh"

constexpr int PLACES = FILTER * FILTER, REACH = FILTER / 2;

// A row and a column of a filter.
struct Place {
    int row, column;

    __device__ __forceinline__ explicit Place(int place) : row(place / FILTER), column(place % FILTER) {}
    // From a pixel to its neighbour, in rows of so many pixels.
    __device__ __forceinline__ int apart(int width) const { return (row - REACH) * width + column - REACH; }
};
