// A convolution in which each channel has filters of its own, and the gradient of its input, of tensors as NCHW stores
// them, in float arithmetic, with no workspace:
//
//   out[n][c][p][q] = alpha * (bias[c] +
//   sum over r, s of w[c][r][s] * in[n][c / each][p * stride + r * dilation - padding][…]) + beta * out[n][c][p][q]
//
// where `in` is zero outside of the image, and has `each` filters for each channel. With GRADIENT, `in` is the gradient of
// the convolution's result, and `out` the gradient of its input, in which each channel is a sum over its `each` filters.
// Likewise over slices.
//
// A block reads the part of its planes that its tiles need into shared memory, one slice of the filter after the other,
// and of one filter after the other.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16, and what `by_channel.cuh` wants. Grid: a block for
// each tile of planes. Dynamic shared memory: the floats of `planes` times `rows` rows of `pitch`.

#define THREADS 256
#define MULTIPROCESSOR_BLOCKS 2
#include "convolution/by_channel.cuh"
#include "convolution/scale.cuh"

// A larger filter does not fit into registers.
constexpr bool IS_SMALL = FILTER_ROWS * FILTER_COLUMNS <= 64;
// The numbers that a thread writes at once where rows of `out` are aligned.
constexpr int ACCESS = TILE_COLUMNS % 4 == 0 ? 4 : 1;

struct Depthwise {
    const Element *in, *w;
    // Null for none.
    const Element *bias;
    Element *out;
    // The channels of `out`, and the filters of each channel of the convolution's input.
    int channels, each;
    // The planes of `out` in all images.
    int count;
    Planes from, to;
    // What the padding adds to the rows and the columns that are read.
    int rows_on, columns_on;
    SliceAxis slices;
    Block block;
    // Whether ACCESS divides the width of `out`.
    int is_aligned;
    float alpha, beta;
};

typedef float Sums[TILE_ROWS][TILE_COLUMNS];

// Adds the products of a row in shared memory, with one row of the filter, to a row of the tile.
__device__ __forceinline__ void add_row(const float (&line)[LINE], const float (&filter)[FILTER_COLUMNS],
                                        float (&sums)[TILE_COLUMNS]) {
#pragma unroll
    for (int k = 0; k < TILE_COLUMNS; k++)
#pragma unroll
        for (int s = 0; s < FILTER_COLUMNS; s++)
            if (Columns::reads(k, s)) sums[k] = fmaf(filter[s], line[Columns::place(k, s)], sums[k]);
}

__device__ __forceinline__ void read_filter(const Element *from, float (&filter)[FILTER_COLUMNS]) {
#pragma unroll
    for (int s = 0; s < FILTER_COLUMNS; s++) filter[s] = to_float(from[s]);
}

// All rows of the filter stand in registers, and each row in shared memory is read once.
__device__ __forceinline__ void add_small(const float *from, int pitch, const Element *w, Sums &sums) {
    float filter[FILTER_ROWS][FILTER_COLUMNS];
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) read_filter(w + r * FILTER_COLUMNS, filter[r]);
#pragma unroll
    for (int row = 0; row < Rows::READ; row++) {
        float line[LINE];
        read_line(from + row * pitch, line);
#pragma unroll
        for (int i = 0; i < TILE_ROWS; i++)
            if (Rows::tap(i, row) >= 0) add_row(line, filter[Rows::tap(i, row)], sums[i]);
    }
}

// One row of the filter after the other.
__device__ __forceinline__ void add_large(const float *from, int pitch, const Element *w, Sums &sums) {
#pragma unroll 1
    for (int r = 0; r < FILTER_ROWS; r++) {
        float filter[FILTER_COLUMNS];
        read_filter(w + r * FILTER_COLUMNS, filter);
#pragma unroll
        for (int i = 0; i < TILE_ROWS; i++) {
            if (!Rows::reads(i, r)) continue;
            float line[LINE];
            read_line(from + Rows::place(i, r) * pitch, line);
            add_row(line, filter, sums[i]);
        }
    }
}

template <int COUNT> struct alignas(COUNT * sizeof(Element)) Run {
    Element of[COUNT];
};

template <int COUNT>
__device__ __forceinline__ void write(const Depthwise &of, int plane, int row, int column, const Sums &sums) {
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++) {
        if (row + i >= of.to.height) break;
        Element *const to = of.out + ((long long)plane * of.to.height + row + i) * of.to.width + column;
#pragma unroll
        for (int k = 0; k < TILE_COLUMNS; k += COUNT) {
            if (column + k >= of.to.width) break;
            Run<COUNT> *const place = reinterpret_cast<Run<COUNT> *>(to + k);
            Run<COUNT> run;
            if (of.beta != 0) run = *place;
#pragma unroll
            for (int j = 0; j < COUNT; j++) scale_into(run.of[j], sums[i][k + j], of.alpha, of.beta);
            *place = run;
        }
    }
}

KERNEL(depthwise, Depthwise) {
    SHARED(float, shared);
    const Depthwise &of = parameters;
    const Block &block = of.block;
    const int across = tiles_of(of.to.width, block.right * TILE_COLUMNS);
    const int along = tiles_of(of.to.height, block.down * TILE_ROWS);
    const int column = int(blockIdx.x) % across * block.right * TILE_COLUMNS;
    const int row = int(blockIdx.x) / across % along * block.down * TILE_ROWS;
    const int first = int(blockIdx.x) / across / along * block.planes;
    const TileOfThread tile(block);
    const int plane = first + tile.plane;
    const bool is_there = tile.plane < block.planes && plane < of.count;
    const float *const lines = tile.lines(shared, block);
    Sums sums;
    const float bias = is_there && of.bias ? to_float(of.bias[plane / of.to.slices % of.channels]) : 0;
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++)
#pragma unroll
        for (int k = 0; k < TILE_COLUMNS; k++) sums[i][k] = bias;
    // The filters of a channel whose products are added up.
    const int added = IS_GRADIENT ? of.each : 1;
    for (int step = 0; step < added * of.slices.filter; step++) {
        const int which_filter = step / of.slices.filter, tap = step % of.slices.filter;
        const auto place_of = [&](int which) {
            const int out = first + which;
            const int slice = out < of.count ? of.slices.slice(out % of.to.slices, tap, of.from.slices) : -1;
            const int channel = out / of.to.slices;
            const int in = IS_GRADIENT ? channel * of.each + which_filter : channel / of.each;
            return slice < 0 ? -1 : (in * of.from.slices + slice) * of.from.height * of.from.width;
        };
        const int first_row = Rows::begin(row) + of.rows_on, first_column = Columns::begin(column) + of.columns_on;
        read_planes(block, of.in, of.from, first_row, first_column, place_of, shared);
        barrier();
        if (is_there) {
            const int filter = plane / of.to.slices % of.channels * added + which_filter;
            const Element *const w = of.w + (long long)(filter * of.slices.filter + tap) * FILTER_ROWS * FILTER_COLUMNS;
            if (IS_SMALL) add_small(lines, block.pitch, w, sums);
            else add_large(lines, block.pitch, w, sums);
        }
        barrier();
    }
    if (!is_there) return;
    const int its_row = row + tile.down * TILE_ROWS, its_column = column + tile.right * TILE_COLUMNS;
    if (of.is_aligned) write<ACCESS>(of, plane, its_row, its_column, sums);
    else write<1>(of, plane, its_row, its_column, sums);
}
