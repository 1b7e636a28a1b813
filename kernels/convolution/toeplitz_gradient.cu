// The gradient of the filters of a convolution in which each channel has filters of its own, on tensor cores, from
// tensors as NCHW stores them, with strides and dilation of 1 and filters of one slice. What it computes is at the head
// of `depthwise_gradient.cu`.
//
// For a row r of the filter, a warp multiplies 16 rows of 16 neighbouring columns of dy, transposed, by the same rows of
// x, r further down: the sum over the rows, for each column q of dy and each column j of x near it. It keeps these sums
// over all of its tiles. At the end, dw[r][s] is the sum of those that are s apart.
//
// A block has some rows of a channel's filter, and goes through the tiles of a part of the channel's planes: it copies
// the next ones while it multiplies. The parts' sums meet in the workspace, and `sum_up` adds them up. Planes of one row,
// with ALONG, are the rows of one plane.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER_ROWS, the rows of a block, and FILTER_COLUMNS; SHIFT, the
// columns of x before the first that a product needs; DOWN and ACROSS, the tiles of 16 rows and of 16 columns that a
// block has of each plane at once; PIECE_X and PIECE_DY, the numbers that are copied at once; TILES_ACROSS and
// TILES_ALONG, a block's part of a plane along a row and along a column; SLICES, those of each channel of an image;
// WHOLE, HEIGHT, WIDTH, OUT_HEIGHT and OUT_WIDTH, if a block has all rows of the filter, and its tiles are as large as
// a plane. Grid: a block for each channel, each part and some rows of the filter; of `sum_up`, a thread for each
// element of dw. Dynamic shared memory: twice the lines of dy and of x of `planes` planes; or the sums of each warp's
// products with a row, and those of each warp's places, if that is more.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 2
#include "common/sizes.cuh"
#include "common/tiles.cuh"
#include "convolution/operands.cuh"
#include "convolution/planes.cuh"
#include "convolution/sum_up.cuh"

// The tiles of 8 columns of x that 16 columns of dy meet.
constexpr int TILES = divided_up(16 + FILTER_COLUMNS - 1 + SHIFT, 8);
constexpr int LINES = DOWN * 16, LINES_X = LINES + FILTER_ROWS - 1;
constexpr int COLUMNS = ACROSS * 16, COLUMNS_X = COLUMNS - 16 + TILES * 8;
// The rows of a tile begin in different banks.
constexpr int pitch_of_columns(int columns) { return columns % 16 == 8 ? columns : columns + 8; }
constexpr int PITCH = pitch_of_columns(COLUMNS), PITCH_X = pitch_of_columns(COLUMNS_X);
constexpr int PLACES = FILTER_ROWS * FILTER_COLUMNS;
// From a column of dy to the next in a warp's sums.
constexpr int SUM_PITCH = TILES * 8 + 1;
#ifdef ALONG
constexpr bool IS_ALONG = true;
#else
constexpr bool IS_ALONG = false;
#endif
// The lines of a plane that are copied.
constexpr int OF_PLANE = IS_ALONG ? 1 : LINES, OF_PLANE_X = IS_ALONG ? 1 : LINES_X;

struct ToeplitzGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    // The channels of dy, and the filters of each channel of x.
    int channels, each;
    // The planes of a channel in all images, and those that a block has at once.
    int count, planes;
    int height, width, out_height, out_width;
    // All rows of the filter, and the zeros before the first row and column of x.
    int filter_rows, padding_rows, padding_columns;
    int parts;
    float alpha, beta;
};

typedef float Sums[FILTER_ROWS][TILES][4];

// Adds the products of a tile of dy with the rows of x.
__device__ __forceinline__ void add(const Element *dy, const Element *x, Sums &sums) {
    unsigned columns[2][2];
    read_transposed(dy, PITCH, columns);
    const unsigned a[4] = {columns[0][0], columns[1][0], columns[0][1], columns[1][1]};
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) {
#pragma unroll
        for (int tile = 0; tile + 1 < TILES; tile += 2) {
            unsigned b[2][2];
            read_transposed(x + r * PITCH_X + tile * 8, PITCH_X, b);
            warp_mma(sums[r][tile], a, b[0]);
            warp_mma(sums[r][tile + 1], a, b[1]);
        }
        if constexpr (TILES % 2) {
            unsigned b[2];
            read_transposed(x + r * PITCH_X + (TILES - 1) * 8, PITCH_X, b);
            warp_mma(sums[r][TILES - 1], a, b);
        }
    }
}

// The sums of a warp's places.
__device__ __forceinline__ void sum_places(const Sums &sums, float *products, float *places) {
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) {
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                products[(LANE / 4 + i / 2 * 8) * SUM_PITCH + tile * 8 + LANE % 4 * 2 + i % 2] = sums[r][tile][i];
        warp_barrier();
        if (LANE < FILTER_COLUMNS) {
            float sum = 0;
#pragma unroll
            for (int q = 0; q < 16; q++) sum += products[q * SUM_PITCH + q + LANE + SHIFT];
            places[r * FILTER_COLUMNS + LANE] = sum;
        }
        warp_barrier();
    }
}

KERNEL(toeplitz_gradient, ToeplitzGradient) {
    SHARED(float, shared);
    const ToeplitzGradient &of = parameters;
    const int channel = blockIdx.x, part = blockIdx.y, first_tap = int(blockIdx.z) * FILTER_ROWS;
    const int all = TILES_ACROSS * TILES_ALONG * tiles_of(of.count, of.planes);
    const int lines = of.planes * OF_PLANE * PITCH, both = lines + of.planes * OF_PLANE_X * PITCH_X;
    const auto buffer = [&](int which) { return reinterpret_cast<Element *>(shared) + which * both; };
    const auto copy = [&](int which, Element *to) {
        const ChannelPlanes x = {of.x, of.channels / of.each, channel / of.each, of.height, of.width};
        const ChannelPlanes dy = {of.dy, of.channels, channel, of.out_height, of.out_width};
        const int column = which % TILES_ACROSS * COLUMNS, row = which / TILES_ACROSS % TILES_ALONG * LINES;
        const int first = which / (TILES_ACROSS * TILES_ALONG) * of.planes, planes = of.count - first;
#ifdef WHOLE
        const Window window = {first, planes, 0, 0};
        copy_lines<OUT_HEIGHT, OUT_WIDTH, PITCH, PIECE_DY, LINES, true>(dy, window, of.planes, to);
        copy_lines<HEIGHT, WIDTH, PITCH_X, PIECE_X, LINES_X, true>(
            x, window, of.planes, to + lines + of.padding_rows * PITCH_X + of.padding_columns + SHIFT);
#else
        copy_lines<OF_PLANE, COLUMNS, PITCH, PIECE_DY>(dy, {first, planes, row, column}, of.planes, to);
        const Window window = {first, planes, row + first_tap - of.padding_rows, column - of.padding_columns - SHIFT};
        copy_lines<OF_PLANE_X, COLUMNS_X, PITCH_X, PIECE_X>(x, window, of.planes, to + lines);
#endif
    };
#ifdef WHOLE
    clear(buffer(0), 2 * both);
    barrier();
#endif
    Sums sums = {};
    if (part < all) copy(part, buffer(0));
    end_group();
    for (int which = part, turn = 0; which < all; which += of.parts, turn ^= 1) {
        if (which + of.parts < all) copy(which + of.parts, buffer(turn ^ 1));
        end_group();
        wait_for_groups<1>();
        barrier();
        const Element *const of_dy = buffer(turn), *const of_x = of_dy + lines;
        // Planes that are not there were left out, or are zeros.
        const int rest = of.count - which / (TILES_ACROSS * TILES_ALONG) * of.planes;
        const int planes = rest < of.planes ? rest : of.planes;
        for (int task = WARP; task < (IS_ALONG ? 1 : planes) * DOWN * ACROSS; task += WARPS) {
            const int right = task % ACROSS * 16, down = task / ACROSS % DOWN * 16, plane = task / ACROSS / DOWN;
            const Element *const its_x = of_x + (plane * LINES_X + down) * PITCH_X + right;
            add(of_dy + (plane * LINES + down) * PITCH + right, its_x, sums);
        }
        barrier();
    }
    float *const places = shared + WARPS * 16 * SUM_PITCH;
    sum_places(sums, shared + WARP * 16 * SUM_PITCH, places + WARP * PLACES);
    barrier();
    for (int i = threadIdx.x; i < PLACES; i += THREADS) {
        if (first_tap + i / FILTER_COLUMNS >= of.filter_rows) break;
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) sum += places[warp * PLACES + i];
        const int elements = of.filter_rows * FILTER_COLUMNS, at = channel * elements + first_tap * FILTER_COLUMNS + i;
        if (of.parts == 1) scale_into(of.dw[at], sum, of.alpha, of.beta);
        else of.sums[part * of.channels * elements + at] = sum;
    }
}
