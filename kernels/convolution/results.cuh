// The results of a block's tile: ROW_TILE channels m, and COLUMN_TILE of a numbering of all images' pixels. Two
// warpgroups share out the rows if ROW_WARPGROUPS is 2, else the columns. A warpgroup has PRODUCT_COLUMNS of these. With
// RESULT_SLICES, rows are SLICE_ROWS channels of an image's first slice, then those of the next.
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
constexpr int SLICE_ROWS = ROW_TILE / RESULT_SLICES;

struct Results {
    Element *out;
    Images images;
    // Channels.
    int rows;
    float alpha, beta;

    // The rows of a tile that are there, of an image's slice number `slice`, from channel `first` on.
    __device__ __forceinline__ int rows_of(int image, int slice, int first) const {
        const bool is_there = RESULT_SLICES == 1 || images.has_slice(images.slice(image) + slice);
        return is_there ? min(SLICE_ROWS, rows - first) : 0;
    }
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

// Adds sums onto results: those of the tile that begins at channel `first_row`, from the tile's row `row` on. This is
// rare.
template <typename Numbering, int COUNT>
__device__ __forceinline__ void add_sums(const Results &of, const Numbering &numbering, int first_row, int row,
                                         int first, const float (&sums)[COUNT]) {
    row += int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    const int slice = RESULT_SLICES == 1 ? 0 : row / SLICE_ROWS, m = first_row + row - slice * SLICE_ROWS;
    const long long apart = 8ll * of.images.channel();
#pragma unroll
    for (int i = 0; i < COUNT; i += i % 2 ? 3 : 1) {
        const int at = first + i / 4 * 8 + int(LANE) % 4 * 2 + i % 2;
        const int image = at / numbering.pixels, its = at % numbering.pixels;
        if (image >= of.images.count || !numbering.is_pixel(its)) continue;
        if (RESULT_SLICES > 1 && !of.images.has_slice(of.images.slice(image) + slice)) continue;
        Element *const to = of.out + of.images.place(image, of.rows, m) + slice * of.images.pixels() +
                            numbering.before(its);
#pragma unroll
        for (int k = 0; k < 2; k++)
            if (m + 8 * k < of.rows)
                to[k * apart] = to_element(of.alpha * sums[i + 2 * k] + of.beta * to_float(to[k * apart]));
    }
}
