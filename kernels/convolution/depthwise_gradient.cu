// The gradient of the filters of a convolution in which each channel has filters of its own, from tensors as NCHW
// stores them, in float arithmetic:
//
//   dw[c][r][s] = alpha * sum over n, p, q of dy[n][c][p][q] * x[n][c / each][p * stride + r * dilation -
//   padding][likewise] + beta * dw[c][r][s]
//
// where x is zero outside of the image, and has `each` filters for each channel. Likewise over slices.
//
// A block has some rows of one slice of a channel's filter, and a thread has sums for all of their places. Blocks share
// out the tiles of the channel's planes in parts. The parts' sums meet in the workspace, and `sum_up` adds them up.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16, and what `by_channel.cuh` wants, except that
// FILTER_ROWS is the rows of a block. Grid: for each channel, each slice of the filter and each block's rows of it, a
// block for each part; of `sum_up`, a thread for each element of dw. Dynamic shared memory: as for `depthwise.cu`, or a
// float for each place and warp if that is more.

#define THREADS 256
#define MULTIPROCESSOR_BLOCKS 2
#include "convolution/by_channel.cuh"
#include "convolution/sum_up.cuh"

constexpr int PLACES = FILTER_ROWS * FILTER_COLUMNS;

struct DepthwiseGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    // The channels of dy, and the filters of each channel of x.
    int channels, each;
    // The planes of dy of one channel, in all images.
    int count;
    // All rows of the filter, and the zeros before the first row and column of x.
    int filter_rows, padding_rows, padding_columns;
    Planes from, to;
    SliceAxis slices;
    Block block;
    int parts;
    float alpha, beta;
};

typedef float Sums[FILTER_ROWS][FILTER_COLUMNS];

// A thread's tile of dy, with zeros beside the plane.
__device__ __forceinline__ void read_tile(const DepthwiseGradient &of, const Element *plane, int row, int column,
                                          float (&tile)[TILE_ROWS][TILE_COLUMNS]) {
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++)
#pragma unroll
        for (int k = 0; k < TILE_COLUMNS; k++) {
            const bool is_there = plane && row + i < of.to.height && column + k < of.to.width;
            tile[i][k] = is_there ? to_float(plane[(row + i) * of.to.width + column + k]) : 0.0f;
        }
}

__device__ __forceinline__ void add(const float *from, int pitch, const float (&tile)[TILE_ROWS][TILE_COLUMNS],
                                    Sums &sums) {
#pragma unroll
    for (int row = 0; row < Rows::READ; row++) {
        float line[LINE];
        read_line(from + row * pitch, line);
#pragma unroll
        for (int i = 0; i < TILE_ROWS; i++) {
            const int r = Rows::tap(i, row);
            if (r < 0) continue;
#pragma unroll
            for (int k = 0; k < TILE_COLUMNS; k++)
#pragma unroll
                for (int s = 0; s < FILTER_COLUMNS; s++)
                    sums[r][s] = fmaf(tile[i][k], line[Columns::place(k, s)], sums[r][s]);
        }
    }
}

KERNEL(depthwise_gradient, DepthwiseGradient) {
    SHARED(float, shared);
    const DepthwiseGradient &of = parameters;
    const Block &block = of.block;
    int index = blockIdx.x;
    const int part = index % of.parts;
    index /= of.parts;
    const int windows = tiles_of(of.filter_rows, FILTER_ROWS), first_tap = index % windows * FILTER_ROWS;
    index /= windows;
    const int tap = index % of.slices.filter, channel = index / of.slices.filter;
    const int across = tiles_of(of.to.width, block.right * TILE_COLUMNS);
    const int along = tiles_of(of.to.height, block.down * TILE_ROWS);
    const int all = across * along * tiles_of(of.count, block.planes);
    const TileOfThread its(block);
    const float *const lines = its.lines(shared, block);
    Sums sums = {};
    for (int which = part; which < all; which += of.parts) {
        const int column = which % across * block.right * TILE_COLUMNS;
        const int row = which / across % along * block.down * TILE_ROWS, first = which / across / along * block.planes;
        // How many channels come before the channel of this plane of dy, in all images.
        const auto channels_before = [&](int plane) { return plane / of.to.slices * of.channels + channel; };
        const auto place_of = [&](int plane) {
            plane += first;
            const int slice = plane < of.count ? of.slices.slice(plane % of.to.slices, tap, of.from.slices) : -1;
            const int its = channels_before(plane) / of.each * of.from.slices + slice;
            return slice < 0 ? -1 : its * of.from.height * of.from.width;
        };
        const int first_row = Rows::begin(row) + first_tap * DILATION_ROWS - of.padding_rows;
        const int first_column = Columns::begin(column) - of.padding_columns;
        read_planes(block, of.x, of.from, first_row, first_column, place_of, shared);
        barrier();
        if (its.plane < block.planes) {
            const int plane = first + its.plane;
            const int place = channels_before(plane) * of.to.slices + plane % of.to.slices;
            const Element *const dy = plane < of.count ? of.dy + place * of.to.height * of.to.width : nullptr;
            float tile[TILE_ROWS][TILE_COLUMNS];
            read_tile(of, dy, row + its.down * TILE_ROWS, column + its.right * TILE_COLUMNS, tile);
            add(lines, block.pitch, tile, sums);
        }
        barrier();
    }
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++)
#pragma unroll
        for (int s = 0; s < FILTER_COLUMNS; s++) {
            const float sum = warp_sum(sums[r][s]);
            if (LANE == 0) shared[WARP * PLACES + r * FILTER_COLUMNS + s] = sum;
        }
    barrier();
    for (int i = threadIdx.x; i < PLACES; i += THREADS) {
        if (first_tap + i / FILTER_COLUMNS >= of.filter_rows) break;
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) sum += shared[warp * PLACES + i];
        const int elements = of.slices.filter * of.filter_rows * FILTER_COLUMNS;
        const int at = channel * elements + (tap * of.filter_rows + first_tap) * FILTER_COLUMNS + i;
        if (of.parts == 1) scale_into(of.dw[at], sum, of.alpha, of.beta);
        else of.sums[(long long)part * of.channels * elements + at] = sum;
    }
}
