// Rows of a channel's planes in many images, for tiles on tensor cores whose 16 rows, or whose depth, are images. A block
// goes through steps of ROWS rows of IMAGES planes each, from the top down. Its warps share out the columns in tiles of
// 8, and the planes in 16 each.
//
// In shared memory a plane's rows of a step are neighbours. An odd number of eights lies between planes, so that the same
// places of 8 planes are in different banks.
//
// Compiled with FILTER_ROWS, the rows of the filter; ROUNDS, how many times as many a step has; TILES, the tiles along a
// row, a power of two from 2 to 8; STAGES, the steps that are copied or in use at once; VOLUMES if a channel of an image
// has several slices.
#pragma once

#include "common/async_copy.cuh"
#include "convolution/operands.cuh"
#include "convolution/planes.cuh"

constexpr int ROWS = FILTER_ROWS * ROUNDS, IMAGES = 16 * (WARPS / TILES);
// Eights that are read for each tile, which are two, lie in the columns of the tile and of the next.
constexpr int READ_COLUMNS = (TILES + 1) * 8, PITCH = READ_COLUMNS;
constexpr int IMAGE_PITCH = (ROWS | 1) * PITCH, STAGE = IMAGES * IMAGE_PITCH;
static_assert(TILES % 2 == 0 && WARPS % TILES == 0, "the eights of a row are an odd number");

// The first plane of a block's step, and its rows, from the first row that any result reads.
struct Step {
    int strip, number;

    // To the next one, where a strip of planes has `steps`, and the block has every `apart`th strip.
    __device__ __forceinline__ void advance(int steps, int apart) {
        if (++number == steps) number = 0, strip += apart;
    }
};

// The tile of a warp, and the first of its planes.
__device__ __forceinline__ int tile_of_warp() { return WARP % TILES; }
__device__ __forceinline__ int image_of_warp() { return WARP / TILES * 16; }

// Begins to copy `columns` columns of ROWS rows of IMAGES planes, from a row and a column on, with zeros where there is
// nothing. Copies `piece` numbers at once: these are all in a plane, or all beside it.
template <int piece, int columns>
__device__ __forceinline__ void copy_rows(const ChannelPlanes &from, int first, int count, int row, int column,
                                          Element *to) {
    // A thread's pieces are at the same place in several planes.
    constexpr int ACROSS = columns / piece, PIECES = ROWS * ACROSS;
    constexpr int AT_ONCE = PIECES < THREADS ? THREADS / PIECES : 1;
    // Its places are computed for each step, since registers are scarce.
    const int thread = in_register(int(threadIdx.x));
    const int first_image = PIECES < THREADS ? thread / PIECES : 0;
    if (first_image >= AT_ONCE) return;
#pragma unroll 1
    for (int i = thread - first_image * PIECES; i < PIECES; i += THREADS) {
        const int its_row = i / ACROSS, its_column = i % ACROSS * piece;
        const bool is_inside = unsigned(row + its_row) < unsigned(from.height) &&
                               unsigned(column + its_column) < unsigned(from.width);
        const int size = in_register(from.height * from.width);
        const int offset = (row + its_row) * from.width + column + its_column;
        Element *place = to + its_row * PITCH + its_column + first_image * IMAGE_PITCH;
        int plane = first + first_image;
        // What is not there is not read.
        const Element *source = from.data + (from.place(plane) * size + offset);
        const auto copy = [&] {
            copy_async<piece * sizeof(Element)>(place, source, is_inside && plane < count);
            plane += AT_ONCE, place += AT_ONCE * IMAGE_PITCH;
#ifdef VOLUMES
            source = from.data + (from.place(plane) * size + offset);
#else
            source += AT_ONCE * static_cast<long long>(from.channels * size);
#endif
        };
#pragma unroll 4
        for (int n = 0; n < IMAGES / AT_ONCE; n++) copy();
        // Where this number does not divide the images, some threads have one more.
        if (IMAGES % AT_ONCE && first_image < IMAGES % AT_ONCE) copy();
    }
}
