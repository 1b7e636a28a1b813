// Convolutions in which each channel has filters of its own: the numbers of one tensor that a tile of the other one
// needs, and a block's part of them in shared memory, as floats.
//
// A thread has a tile of TILE_ROWS x TILE_COLUMNS numbers of a plane. A block's threads have `down` x `right` tiles of
// each of some neighbouring planes.
//
// Compiled with FILTER_ROWS and FILTER_COLUMNS; STRIDE_ and DILATION_ROWS and _COLUMNS; TILE_ROWS and TILE_COLUMNS; and
// GRADIENT for the gradient of the convolution's input, where strides divide the tile, with PADDING_ROWS and _COLUMNS,
// the paddings modulo the strides. More padding only moves what is read, and is a parameter. So are all sizes of images.
#pragma once

#define WARPS (THREADS / 32)
#include "common/ops.cuh"
#include "common/tiles.cuh"

#ifdef GRADIENT
constexpr bool IS_GRADIENT = true;
#else
constexpr bool IS_GRADIENT = false;
#define PADDING_ROWS 0
#define PADDING_COLUMNS 0
#endif

constexpr int divided_down(int n, int by) { return n >= 0 ? n / by : -((by - 1 - n) / by); }

// The rows, or the columns. A convolution's number i reads number i · STRIDE + tap · DILATION - PADDING for each tap, a
// number of its filter. The gradient of number i of its input reads number (i + PADDING - tap · DILATION) / STRIDE, if
// that is whole.
template <int FILTER, int STRIDE, int DILATION, int PADDING, int TILE> struct Axis {
    static constexpr int numerator(int i, int tap) {
        return IS_GRADIENT ? i + PADDING - tap * DILATION : i * STRIDE + tap * DILATION - PADDING;
    }
    static constexpr int BY = IS_GRADIENT ? STRIDE : 1;
    // The first and the last number that the tile's numbers from 0 on read.
    static constexpr int LEAST = divided_down(numerator(0, IS_GRADIENT ? FILTER - 1 : 0), BY);
    static constexpr int MOST = divided_down(numerator(TILE - 1, IS_GRADIENT ? 0 : FILTER - 1), BY);
    static constexpr int READ = MOST - LEAST + 1;
    // From what a tile reads to what the next one reads.
    static constexpr int STEP = IS_GRADIENT ? TILE / STRIDE : TILE * STRIDE;

    __device__ __forceinline__ static constexpr bool reads(int i, int tap) {
        return !IS_GRADIENT || (numerator(i, tap) - LEAST * BY) % BY == 0;
    }
    // The place among those that are read.
    __device__ __forceinline__ static constexpr int place(int i, int tap) {
        return (numerator(i, tap) - LEAST * BY) / BY;
    }
    // The tap with which number i reads the one at a place; -1 if there is none.
    __device__ __forceinline__ static constexpr int tap(int i, int place) {
        const int reach = IS_GRADIENT ? i + PADDING - (place + LEAST) * BY : place - i * STRIDE;
        return reach >= 0 && reach % DILATION == 0 && reach / DILATION < FILTER ? reach / DILATION : -1;
    }
    // The first number that is read from the tile on that begins at number i, a multiple of TILE.
    __device__ __forceinline__ static constexpr int begin(int i) { return i / TILE * STEP + LEAST; }
};

typedef Axis<FILTER_ROWS, STRIDE_ROWS, DILATION_ROWS, PADDING_ROWS, TILE_ROWS> Rows;
typedef Axis<FILTER_COLUMNS, STRIDE_COLUMNS, DILATION_COLUMNS, PADDING_COLUMNS, TILE_COLUMNS> Columns;

// Numbers that stand together in shared memory, and how many a thread reads of a row.
constexpr int TOGETHER = Columns::STEP % 4 == 0 ? 4 : Columns::STEP % 2 == 0 ? 2 : 1;
constexpr int LINE = (Columns::READ + TOGETHER - 1) / TOGETHER * TOGETHER;

// A tensor's planes: slices of each channel of each image.
struct Planes {
    int slices, height, width;
};

// The filter's slices and how they move over those of the tensor that is read.
struct SliceAxis {
    int filter, stride, dilation, padding;

    // The slice that slice i reads with a tap; -1 if none.
    __device__ __forceinline__ int slice(int i, int tap, int slices) const {
        int found = IS_GRADIENT ? i + padding - tap * dilation : i * stride + tap * dilation - padding;
        if (IS_GRADIENT) {
            if (found % stride != 0) return -1;
            found /= stride;
        }
        return found >= 0 && found < slices ? found : -1;
    }
};

// How a block's tiles lie.
struct Block {
    // The tiles of a plane, and the planes.
    int down, right, planes;
    // The rows that are read of a plane, and the floats in shared memory from one to the next.
    int rows, pitch;
};

// A thread's tile in its block.
struct TileOfThread {
    int plane, down, right;

    __device__ __forceinline__ explicit TileOfThread(const Block &block) {
        const int of_plane = block.down * block.right, its = int(threadIdx.x) % of_plane;
        plane = int(threadIdx.x) / of_plane, down = its / block.right, right = its % block.right;
    }

    // Where the numbers that it needs begin in shared memory.
    __device__ __forceinline__ const float *lines(const float *shared, const Block &block) const {
        return shared + (plane * block.rows + down * Rows::STEP) * block.pitch + right * Columns::STEP;
    }
};

// Reads a block's part of a tensor's planes into shared memory, from a row and a column on; zeros beside a plane.
// `place_of` returns the place of a plane's first number in the tensor, which an int counts, or -1 where there is no
// plane. A warp reads some lines at once: each read waits for memory.
template <typename PlaceOf>
__device__ __forceinline__ void read_planes(const Block &block, const Element *tensor, const Planes &planes, int row,
                                            int column, const PlaceOf &place_of, float *shared) {
    constexpr int AT_ONCE = 8;
    const int lines = block.planes * block.rows;
    for (int first = WARP; first < lines; first += AT_ONCE * WARPS) {
        // Each lane finds out where one line begins, and tells the others: this takes some divisions.
        const int line = first + LANE % AT_ONCE * WARPS, its = row + line % block.rows;
        const int plane = line < lines && its >= 0 && its < planes.height ? place_of(line / block.rows) : -1;
        const int place = plane < 0 ? -1 : plane + its * planes.width;
        int from[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) from[k] = warp_shuffle(place, k);
        for (int i = LANE; i < block.pitch; i += 32) {
            const int at = column + i;
            const bool is_there = at >= 0 && at < planes.width;
            Element some[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) some[k] = is_there && from[k] >= 0 ? tensor[from[k] + at] : Element{};
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int line = first + k * WARPS;
                if (line < lines) shared[line * block.pitch + i] = to_float(some[k]);
            }
        }
    }
}

struct alignas(TOGETHER * sizeof(float)) Floats {
    float of[TOGETHER];
};

// Reads what a thread's tile needs of a row in shared memory.
__device__ __forceinline__ void read_line(const float *from, float (&line)[LINE]) {
#pragma unroll
    for (int i = 0; i < LINE; i += TOGETHER) {
        const Floats some = *reinterpret_cast<const Floats *>(from + i);
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) line[i + j] = some.of[j];
    }
}
