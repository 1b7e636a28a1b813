// Writing the results of a block's tile straight from registers, where ACCESS, the pixels of one access, divides an
// image's pixels: 8 or 4.
#pragma once

#include "convolution/results.cuh"

// Writes a row's pixels of a group.
__device__ __forceinline__ void write_group(const Results &of, const Group &group, int row,
                                            const Pixels &pixels) {
    struct alignas(ACCESS * sizeof(Element)) Part { Element each[ACCESS]; };
    if (row >= of.rows) return;
    Element *const to = of.out + group.place(of.images, of.rows, row);
#pragma unroll
    for (int part = 0; part < GROUP; part += ACCESS) {
        if (part >= group.count) break;
        Part values;
#pragma unroll
        for (int i = 0; i < ACCESS; i++) values.each[i] = pixels.each[part + i];
        *reinterpret_cast<Part *>(to + part) = values;
    }
}

// Lane l of four has a pair of pixels, number l, of each of four groups. Afterwards it has all pairs of group l.
__device__ __forceinline__ void exchange_pairs(unsigned (&pairs)[4]) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool is_upper = LANE & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            unsigned &lower = pairs[i], &upper = pairs[i | bit];
            const unsigned received = warp_shuffle(is_upper ? lower : upper, int(LANE) ^ bit);
            (is_upper ? lower : upper) = received;
        }
    }
}

// Writes a tile's results: those of this thread's warpgroup begin at the tile's row and column number `row` and
// `column`.
__device__ __forceinline__ void write_groups(const Results &of, int first_row, int first, int row, int column,
                                             const float (&sums)[64]) {
    if (of.beta != 0) {
        add_sums(of, Grouped(of.images), first_row, row, first + column, sums);
        return;
    }
    const int m = first_row + row + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    const int group_of_lane = (first + column) / GROUP + int(LANE) % 4;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
        const Group group(of.images, group_of_lane + j);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            Pixels pixels;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float *const pair = sums + 4 * (j + k) + 2 * i;
                const unsigned lower = to_element(of.alpha * pair[0]).bits;
                pixels.words[k] = lower | unsigned(to_element(of.alpha * pair[1]).bits) << 16;
            }
            exchange_pairs(pixels.words);
            write_group(of, group, m + 8 * i, pixels);
        }
    }
}
