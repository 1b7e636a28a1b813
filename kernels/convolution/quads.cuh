// How threads share out the groups of pixels that they read, and the channels of a line: a thread reads four channels of a
// group at a time.
#pragma once

#include "common/warpgroup.cuh"

constexpr int CHANNELS = 4, QUADS = LINE / CHANNELS;

// A warp has eight quads of channels of four groups. Four neighbouring lanes read the pixels of neighbouring groups of a
// channel: an access to memory has two lines of the cache for eight lanes, where it had eight if these read eight
// channels. More groups in place of quads would be written to the same banks of shared memory.
struct Quad {
    // The four channels in a line, and the group, of a round in which all threads have one.
    int quad, group;

    __device__ __forceinline__ explicit Quad(int thread) {
        constexpr int LANES = 4, WARP_QUADS = 32 / LANES, WARPS = QUADS / WARP_QUADS;
        const int warp = thread / 32;
        quad = warp % WARPS * WARP_QUADS + thread % 32 / LANES;
        group = warp / WARPS * LANES + thread % LANES;
    }
};
