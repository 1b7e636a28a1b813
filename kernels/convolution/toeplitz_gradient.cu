// The gradient of the filters of a convolution in which each channel has filters of its own, on tensor cores, from
// tensors as NCHW stores them, with dilation of 1 and filters of one slice. What it computes is at the head of
// `depthwise_gradient.cu`.
//
// For a row r of the filter, a warp multiplies 16 rows of neighbouring columns of x, transposed, by 16 rows of 8
// columns of dy, where x has its rows r further down: the sum over the rows, for each column j of x and each column q
// of dy near it. It keeps these sums over all of its tiles, and over all eights of columns. At the end, dw[r][s] is the
// sum of those whose j is q · STRIDE_COLUMNS + s. Rows of x that are STRIDE_ROWS apart are neighbours in shared memory.
//
// A block has some rows of a channel's filter, and goes through the tiles of a part of the channel's planes: it copies
// the next ones while it multiplies. The parts' sums meet in the workspace, and `sum_up` adds them up. Planes of one
// row, with ALONG, are the rows of one plane.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; STRIDE_ROWS and STRIDE_COLUMNS; FILTER_ROWS, the rows of a block;
// DEPTH, the columns of x that 8 columns of dy meet, in eights; PIECE_X and PIECE_DY, the numbers that are copied at
// once; ALONG; WHOLE, if a block has all rows of the filter, and its tiles are as large as a plane; VOLUMES. All other
// sizes are parameters. Grid: a block for each channel, each part and some rows of the filter; of `sum_up`, a thread
// for each element of dw. Dynamic shared memory: twice the lines of dy and of x of `planes` planes; or the sums of each
// warp's products with a row, and those of each warp's places, if that is more.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 2
#include "common/tiles.cuh"
#include "convolution/diagonals.cuh"
#include "convolution/operands.cuh"
#include "convolution/planes.cuh"
#include "convolution/sum_up.cuh"

// The eights of dy's columns in a tile, the products of one with a row of x, and the eights of x's columns.
constexpr int EIGHTS = 2, TILES = (DEPTH + 1) / 2, HALVES = STRIDE_COLUMNS * (EIGHTS - 1) + DEPTH;
#ifdef ALONG
constexpr bool IS_ALONG = true;
#else
constexpr bool IS_ALONG = false;
#endif
#ifdef WHOLE
constexpr bool IS_WHOLE = true;
#else
constexpr bool IS_WHOLE = false;
#endif

struct ToeplitzGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    // The channels of dy and of x, and the filters of each channel of x.
    int channels, x_channels;
    Divisor each;
    // The planes of a channel in all images, and those that a block has at once.
    int count, planes;
    // The slices of a channel.
    Divisor slices;
    int height, width, out_height, out_width;
    // All rows of the filter, its columns, and the zeros before the first row and column of x.
    int filter_rows, filter_columns, padding_rows, padding_columns;
    // The columns of x before the first that a product needs.
    int shift;
    // What a block reads of each plane.
    Lines lines_x, lines_dy;
    // The tiles of 16 rows and of 16 columns that a block has of each plane at once.
    Divisor down, across;
    // A block's parts of a plane along a row and along a column.
    Divisor tiles_across, tiles_along;
    int parts;
    float alpha, beta;
};

typedef float Sums[FILTER_ROWS][TILES][4];

// Adds the products of a tile of dy with the rows of x. `class_lines` is the elements from a class of x's rows to the
// next.
__device__ __forceinline__ void add(const Transposed &dy, const Transposed &x, int pitch_x, int class_lines,
                                    Sums &sums) {
    unsigned its_dy[EIGHTS][2];
    dy.read(0, its_dy[0], its_dy[1]);
    Transposed rows[STRIDE_ROWS];
#pragma unroll
    for (int i = 0; i < STRIDE_ROWS; i++) {
        rows[i] = x;
        rows[i].advance(i * class_lines);
    }
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) {
        Transposed &row = rows[r % STRIDE_ROWS];
        unsigned halves[HALVES][2];
#pragma unroll
        for (int half = 0; half + 1 < HALVES; half += 2) row.read(half * 8, halves[half], halves[half + 1]);
        if constexpr (HALVES % 2) row.read((HALVES - 1) * 8, halves[HALVES - 1]);
        row.advance(pitch_x);
#pragma unroll
        for (int eight = 0; eight < EIGHTS; eight++)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                const int half = eight * STRIDE_COLUMNS + 2 * tile;
                unsigned a[4] = {halves[half][0], 0, halves[half][1], 0};
                if (2 * tile + 1 < DEPTH) a[1] = halves[half + 1][0], a[3] = halves[half + 1][1];
                warp_mma(sums[r][tile], a, its_dy[eight]);
            }
    }
}

KERNEL(toeplitz_gradient, ToeplitzGradient) {
    SHARED(float, shared);
    const ToeplitzGradient &of = parameters;
    const int channel = blockIdx.x, part = blockIdx.y, first_tap = int(blockIdx.z) * FILTER_ROWS;
    // The planes of a turn, and the first row and column of dy.
    const auto begin_of = [&](int which) {
        int column = IS_WHOLE ? 0 : which, row = IS_WHOLE ? which : of.tiles_across.divide(column);
        const int first = (IS_WHOLE || IS_ALONG ? row : of.tiles_along.divide(row)) * of.planes;
        if (IS_WHOLE || IS_ALONG) row = 0;
        return Window{first, of.count - first, row * of.down.value * 16, column * of.across.value * 16, 0};
    };
    const int all = of.tiles_across.value * of.tiles_along.value * tiles_of(of.count, of.planes);
    const int pitch = of.lines_dy.pitch, pitch_x = of.lines_x.pitch;
    const int plane_lines = of.lines_dy.apart * pitch, class_lines = of.lines_x.apart * pitch_x;
    const int plane_lines_x = STRIDE_ROWS * class_lines;
    const int lines = of.planes * plane_lines, both = lines + of.planes * plane_lines_x;
    const auto buffer = [&](int which) { return reinterpret_cast<Element *>(shared) + which * both; };
    const auto copy = [&](int which, Element *to) {
        const ChannelPlanes x = {of.x, of.x_channels, of.each.quotient(channel), of.slices, of.height, of.width};
        const ChannelPlanes dy = {of.dy, of.channels, channel, of.slices, of.out_height, of.out_width};
        Window window = begin_of(which);
        copy_lines<PIECE_DY, IS_WHOLE, 1>(dy, window, of.lines_dy, of.planes, to);
        to += lines;
        if (IS_WHOLE) {
            to += of.padding_rows / STRIDE_ROWS * pitch_x + of.padding_columns + of.shift;
            window.line = of.padding_rows % STRIDE_ROWS;
        } else {
            window.row = window.row * STRIDE_ROWS + first_tap - of.padding_rows;
            window.column = window.column * STRIDE_COLUMNS - of.padding_columns - of.shift;
        }
        copy_lines<PIECE_X, IS_WHOLE, STRIDE_ROWS>(x, window, of.lines_x, of.planes, to);
    };
    if (IS_WHOLE) {
        clear(buffer(0), 2 * both);
        barrier();
    }
    Sums sums = {};
    // Before its first turn a block copies, too.
#pragma unroll 1
    for (int which = part - of.parts, turn = 1; which < all; which += of.parts, turn ^= 1) {
        if (which + of.parts < all) copy(which + of.parts, buffer(turn ^ 1));
        end_group();
        if (which < 0) continue;
        wait_for_groups<1>();
        barrier();
        const Element *const of_dy = buffer(turn), *const of_x = of_dy + lines;
        // Planes that are not there were left out, or are zeros.
        const int rest = IS_ALONG ? 1 : begin_of(which).count, planes = rest < of.planes ? rest : of.planes;
#pragma unroll 1
        for (int task = WARP; task < planes * of.down.value * of.across.value; task += WARPS) {
            int right = task, down = of.across.divide(right);
            const int plane = IS_ALONG ? 0 : of.down.divide(down);
            right *= 16, down *= 16;
            const Transposed its_dy(of_dy + plane * plane_lines + down * pitch + right, pitch);
            const Element *const begin = of_x + plane * plane_lines_x + down * pitch_x + right * STRIDE_COLUMNS;
            add(its_dy, Transposed(begin, pitch_x), pitch_x, class_lines, sums);
        }
        barrier();
    }
    constexpr int WARP_SUMS = diagonal_words<TILES>();
    float *const places = shared + WARPS * WARP_SUMS;
    const int filter_places = FILTER_ROWS * of.filter_columns;
    sum_diagonals<STRIDE_COLUMNS>(sums, of.filter_columns, of.shift, shared + WARP * WARP_SUMS,
                                  places + WARP * filter_places);
    barrier();
#pragma unroll 1
    for (int i = threadIdx.x; i < filter_places; i += THREADS) {
        if (first_tap + i / of.filter_columns >= of.filter_rows) break;
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) sum += places[warp * filter_places + i];
        const int elements = of.filter_rows * of.filter_columns;
        const int at = channel * elements + first_tap * of.filter_columns + i;
        if (of.parts == 1) scale_into(of.dw[at], sum, of.alpha, of.beta);
        else of.sums[part * of.channels * elements + at] = sum;
    }
}
