// The results of a block's tile: ROW_TILE channels m, and COLUMN_TILE of a numbering of all images' pixels. Two
// warpgroups share out the rows if ROW_WARPGROUPS is 2, else the columns. A warpgroup has PRODUCT_COLUMNS of these.
//
// A numbering counts some numbers beside pixels. It has `images`, and `pixels`, which is the count of an image's
// numbers; `is_pixel(at)` tells whether a number of an image is a pixel, and `before(at)` how many pixels come before.
#pragma once

#include "common/warpgroup.cuh"
#include "convolution/groups.cuh"

#ifndef PRODUCT_COLUMNS
#define PRODUCT_COLUMNS 128
#endif

constexpr int COLUMN_WARPGROUPS = THREADS / WARPGROUP / ROW_WARPGROUPS;
constexpr int ROW_TILE = 64 * ROW_WARPGROUPS, COLUMN_TILE = PRODUCT_COLUMNS * COLUMN_WARPGROUPS;

struct Results {
    Element *out;
    Images images;
    // Channels.
    int rows;
    float alpha, beta;
};

// Counts pixels in groups, with those that the last group of an image lacks.
struct Grouped {
    Images images;
    int pixels;

    __device__ __forceinline__ explicit Grouped(const Images &images)
        : images(images), pixels(tiles_of(images.pixels(), GROUP) * GROUP) {}
    __device__ __forceinline__ bool is_pixel(int at) const { return at < images.pixels(); }
    __device__ __forceinline__ int before(int at) const { return min(at, images.pixels()); }
};

// Adds sums onto results. This is rare.
template <typename Numbering, int COUNT>
__device__ __forceinline__ void add_sums(const Results &of, const Numbering &numbering, int first_row, int first,
                                         const float (&sums)[COUNT]) {
    const int row = first_row + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4, pixels = of.images.pixels();
#pragma unroll
    for (int i = 0; i < COUNT; i += i % 2 ? 3 : 1) {
        const int at = first + i / 4 * 8 + int(LANE) % 4 * 2 + i % 2;
        const int image = at / numbering.pixels, its = at % numbering.pixels;
        if (image >= of.images.count || !numbering.is_pixel(its)) continue;
        Element *const to = of.out + ((long long)image * of.rows + row) * pixels + numbering.before(its);
#pragma unroll
        for (int k = 0; k < 2; k++)
            if (row + 8 * k < of.rows)
                to[8 * k * pixels] = to_element(of.alpha * sums[i + 2 * k] + of.beta * to_float(to[8 * k * pixels]));
    }
}
