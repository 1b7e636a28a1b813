// How tiles of tensors are counted, and laid out in shared memory.
#pragma once

#include "device.cuh"

// Tiles that a length takes; the last one may reach beyond it.
__device__ __forceinline__ int tiles_of(int length, int tile) { return (length + tile - 1) / tile; }

// At least so much, and as far behind a multiple of 32 as `beyond`: rows that lie so far apart begin in other banks.
constexpr int pitch_of(int least, int beyond) {
    int pitch = least;
    while (pitch % 32 != beyond % 32) pitch++;
    return pitch;
}
