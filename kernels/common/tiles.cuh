// Counting tiles of tensors, and laying them out in shared memory.
#pragma once

#include "common/device.cuh"

// The tiles of a length; the last one may reach beyond it.
__device__ __forceinline__ int tiles_of(int length, int tile) { return (length + tile - 1) / tile; }

// The least pitch from `least` on that is `beyond` modulo 32: rows this far apart begin in different banks.
constexpr int pitch_of(int least, int beyond) {
    int pitch = least;
    while (pitch % 32 != beyond % 32) pitch++;
    return pitch;
}
