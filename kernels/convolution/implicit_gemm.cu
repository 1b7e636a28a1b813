// A convolution, or its input's gradient, of tensors as NCHW stores them, with no transposes and no workspace. Tensor
// cores multiply half, bfloat16, floats as TF32, or floats exactly; all sums are in float.
//
//   out[n][g][m][z][p][q] = Σ over d, t, r, s of v[g][m][d][t][r][s] · in[n][g][d][e][h][w], where
//   e = z · STRIDE_SLICES + t · DILATION_SLICES - PADDING_SLICES, and h and w likewise from p and r, and from q and s,
//   by what is named _ROWS and _COLUMNS
//
// where g counts groups, and v is the filter w[g][m][d][t][r][s]. For an input's gradient v is w[g][d][m] with its axes
// reversed, and the padding is how far the filter reaches beyond the convolution's padding. Strides divide there:
//   e = (z + t · DILATION_SLICES - PADDING_SLICES) / STRIDE_SLICES
// for the places t for which this is a whole number.
//
// The results are counted in cells. For a convolution a cell is one result. For a gradient it is STRIDE neighbours on
// each axis, which read the same pixels of `in`, by other places of the filter. A block has one of a cell's rows (and
// slices) with all its columns: so it writes neighbours.
//
// A block has ROW_TILE channels m, and up to as many cells (n, p, q) as its warps have columns: TILE_ROWS ×
// TILE_COLUMNS cells of each of TILE_IMAGES images or slices, one after the other. It goes through the channels d,
// DEPTH at a time, with their filters and images in shared memory. From there lanes read single elements for tensor
// cores.
//
// A block has channels of one group, or all channels of JOINED small groups: their filters then are the blocks on the
// diagonal of one matrix, with zeros beside them, and DEPTH has all of their d.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16, and EXACT for exact products of floats; with
// FILTER_ROWS, FILTER_COLUMNS, and STRIDE_, DILATION_ and PADDING_ (above and on the left) of both; for volumes with
// all these of slices, too; GRADIENT for a gradient, DEPTH (a multiple of K_MMA) and the tile. ROW_MATRICES is the
// matrices of 16 rows that a warp has. X_ACCESS and W_ACCESS are the elements of one copy of images and of filters, 2
// to 16 bytes: they divide the images' width and the columns at which tiles begin, and the elements of a channel's
// filters. STAGES is the number of DEPTHs in shared memory; all but one are still being copied. It is 1 only if DEPTH
// has all d. TOGETHER is the results that a lane writes at once: it divides the width of `out`, and the results of two
// cells, which are neighbours in tiles of an even width, or else those of one cell. GROUPED is defined if there are
// several groups. With JOINED, GROUP_ROWS and GROUP_DEPTH are a group's channels m and d. With
// SEPARATE_ROWS or SEPARATE_COLUMNS, what each row or column of the filter reads has a place of its own in shared
// memory, because it lies so far apart that what lies between would take more.

#define THREADS 256
#ifdef FILTER_SLICES
#define VOLUMES
#else
#define FILTER_SLICES 1
#endif
#define FILTER (FILTER_SLICES * FILTER_ROWS * FILTER_COLUMNS)
// The columns of a cell, and the matrices of sums that a warp has for each of its matrices of columns.
#ifdef GRADIENT
#define CELL_COLUMNS STRIDE_COLUMNS
#else
#define CELL_COLUMNS 1
#endif
#define SUM_MATRICES (ROW_MATRICES * CELL_COLUMNS)
#if FILTER == 1
#if defined EXACT && SUM_MATRICES > 2
// Registers have no room for two blocks.
#define MULTIPROCESSOR_BLOCKS 1
#else
// A block often waits for its copies; another block then works.
#define MULTIPROCESSOR_BLOCKS 2
#endif
#define ROW_WARPS 2
#else
#if FILTER > 9 || defined EXACT && SUM_MATRICES > 2 && FILTER_ROWS > 5
// Shared memory, or registers, have no room for two blocks.
#define MULTIPROCESSOR_BLOCKS 1
#elif SUM_MATRICES == 1 && !defined EXACT
// A block has little to do, and waits for its copies.
#define MULTIPROCESSOR_BLOCKS 4
#elif SUM_MATRICES == 2 && !defined EXACT || SUM_MATRICES == 1
#define MULTIPROCESSOR_BLOCKS 2
#endif
#define ROW_WARPS 1
#endif
#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tf32_products.cuh"
#include "common/tiles.cuh"
#include "convolution/scale.cuh"

typedef unsigned Word;
// Elements in a word.
#define PER_WORD int(sizeof(Word) / sizeof(Element))
// One product of tensor cores: rows of A, columns of B, and the depth between.
#define M_MMA 16
#define N_MMA 8
#define K_MMA (8 * PER_WORD)
// ROW_WARPS × COLUMN_WARPS warps divide the block's product; and the matrices of columns that each has.
#define COLUMN_WARPS (THREADS / 32 / ROW_WARPS)
#define COLUMN_MATRICES 4
#define ROW_TILE (ROW_WARPS * ROW_MATRICES * M_MMA)

// Copies that a thread begins together: larger filters leave no registers for more.
constexpr int COPIES = FILTER == 1 ? 2 : 1;
constexpr int AREA = TILE_ROWS * TILE_COLUMNS;
// Cells of a tile; columns behind the last cell repeat it.
constexpr int CELLS = TILE_IMAGES * AREA;
static_assert(CELLS <= COLUMN_WARPS * COLUMN_MATRICES * N_MMA, "a column for each cell");
static_assert(DEPTH % K_MMA == 0, "whole products");
#ifdef JOINED
static_assert(JOINED * GROUP_ROWS <= ROW_TILE && JOINED * GROUP_DEPTH <= DEPTH, "all channels at once");
#endif

constexpr int round_up(int value, int to) { return (value + to - 1) / to * to; }

// The rows and slices of a cell, and how far apart the pixels are that neighbouring cells read.
#ifdef GRADIENT
constexpr int CELL_ROWS = STRIDE_ROWS, ROW_OF_CELL = 1, COLUMN_OF_CELL = 1;
#else
constexpr int CELL_ROWS = 1, ROW_OF_CELL = STRIDE_ROWS, COLUMN_OF_CELL = STRIDE_COLUMNS;
#endif
#if defined VOLUMES && defined GRADIENT
constexpr int CELL_SLICES = STRIDE_SLICES, SLICE_OF_CELL = 1;
#elif defined VOLUMES
constexpr int CELL_SLICES = 1, SLICE_OF_CELL = STRIDE_SLICES;
#else
constexpr int CELL_SLICES = 1;
#endif

// Of a place of the filter on an axis: the pixel that it reads, counted from the cell's first, and the result of the
// cell that it is for.
__device__ constexpr int pixel_of_place(int place, int dilation, int padding, int cell) {
    const int at = place * dilation - padding;
    return cell == 1 ? at : at < 0 ? -(-at / cell) : (at + cell - 1) / cell;
}
__device__ constexpr int result_of_place(int place, int dilation, int padding, int cell) {
    return pixel_of_place(place, dilation, padding, cell) * cell - (place * dilation - padding);
}
__device__ constexpr int row_of_place(int r) { return pixel_of_place(r, DILATION_ROWS, PADDING_ROWS, CELL_ROWS); }
__device__ constexpr int column_of_place(int s) {
    return pixel_of_place(s, DILATION_COLUMNS, PADDING_COLUMNS, CELL_COLUMNS);
}
__device__ constexpr int result_row(int r) { return result_of_place(r, DILATION_ROWS, PADDING_ROWS, CELL_ROWS); }
__device__ constexpr int result_column(int s) {
    return result_of_place(s, DILATION_COLUMNS, PADDING_COLUMNS, CELL_COLUMNS);
}
#ifdef VOLUMES
__device__ constexpr int slice_of_place(int t) {
    return pixel_of_place(t, DILATION_SLICES, PADDING_SLICES, CELL_SLICES);
}
__device__ constexpr int result_slice(int t) {
    return result_of_place(t, DILATION_SLICES, PADDING_SLICES, CELL_SLICES);
}
#else
__device__ constexpr int result_slice(int) { return 0; }
#endif

// Images in shared memory: their rows, the row of a cell and of a filter's row behind it, and the image's row.
#ifdef SEPARATE_ROWS
constexpr int X_ROWS = TILE_ROWS * FILTER_ROWS, ROW_IN_TILE = 1;
__device__ constexpr int row_behind(int r) { return r * TILE_ROWS; }
__device__ __forceinline__ int image_row(int row) {
    return row % TILE_ROWS * ROW_OF_CELL + row_of_place(row / TILE_ROWS);
}
#else
constexpr int ROW_IN_TILE = ROW_OF_CELL;
constexpr int X_ROWS = (TILE_ROWS - 1) * ROW_OF_CELL + row_of_place(FILTER_ROWS - 1) - row_of_place(0) + 1;
__device__ constexpr int row_behind(int r) { return row_of_place(r) - row_of_place(0); }
__device__ __forceinline__ int image_row(int row) { return row + row_of_place(0); }
#endif
// Likewise the columns. Each part begins LEAD columns before the first cell's, so that copies are aligned.
#ifdef SEPARATE_COLUMNS
constexpr int X_PART = round_up((TILE_COLUMNS - 1) * COLUMN_OF_CELL + X_ACCESS, X_ACCESS);
constexpr int X_COLUMNS = X_PART * FILTER_COLUMNS;
__device__ constexpr int begin_of_place(int s) {
    const int begin = column_of_place(s), beyond = begin % X_ACCESS;
    return begin - (beyond < 0 ? beyond + X_ACCESS : beyond);
}
__device__ constexpr int column_behind(int s) { return s * X_PART + column_of_place(s) - begin_of_place(s); }
__device__ __forceinline__ int image_column(int column) { return begin_of_place(column / X_PART) + column % X_PART; }
#else
constexpr int LEFT = round_up(-column_of_place(0), X_ACCESS);
constexpr int X_COLUMNS =
    round_up((TILE_COLUMNS - 1) * COLUMN_OF_CELL + LEFT + column_of_place(FILTER_COLUMNS - 1) + 1, X_ACCESS);
__device__ constexpr int column_behind(int s) { return LEFT + column_of_place(s); }
__device__ __forceinline__ int image_column(int column) { return column - LEFT; }
#endif
// An image's slices: those that a filter meets.
constexpr int X_SLICE = X_ROWS * X_COLUMNS, X_IMAGE = FILTER_SLICES * X_SLICE;
// The pitch of a channel's images. Lanes read eight neighbours from each of four channels, and with this pitch all of
// them from different banks; with a stride of 2, two from each bank.
constexpr int X_PITCH = pitch_of(TILE_IMAGES * X_IMAGE, 8);
// Filters keep their stored order. A line has all d of an m (GRADIENT: all m of a d); lanes read eight m and four d, of
// filters with an odd number of places from different banks.
#ifdef GRADIENT
constexpr int W_LINES = DEPTH, W_LINE = ROW_TILE * FILTER, W_PITCH = pitch_of(W_LINE, 8);
constexpr int W_OF_ROW = FILTER, W_OF_DEPTH = W_PITCH, W_OF_PLACE = -1, W_FIRST = FILTER - 1;
#else
constexpr int W_LINES = ROW_TILE, W_LINE = DEPTH * FILTER, W_PITCH = W_LINE + 4 * PER_WORD;
constexpr int W_OF_ROW = W_PITCH, W_OF_DEPTH = FILTER, W_OF_PLACE = 1, W_FIRST = 0;
#endif
// In shared memory, in elements. Each part begins at a multiple of 16 bytes.
constexpr int W_ELEMENTS = W_LINES * W_PITCH, STAGE = W_ELEMENTS + DEPTH * X_PITCH;
static_assert(W_ELEMENTS % (4 * PER_WORD) == 0 && STAGE % (4 * PER_WORD) == 0, "aligned copies");

struct ImplicitGemm {
    const Element *w, *in;
    Element *out;
    // Images, groups, and the channels d and m of each.
    int images, groups, depth, rows;
    // The sizes of `in`, and of `out`.
    int slices, height, width, z, p, q;
    // out = alpha · sum + beta · out
    float alpha, beta;
};

__device__ __forceinline__ int groups_of(const ImplicitGemm &of) {
#ifdef GROUPED
    return of.groups;
#else
    return 1;
#endif
}

// A slice of an image written, in cells.
struct Slice {
    int image, z;
};

__device__ __forceinline__ Slice slice_of(const ImplicitGemm &of, int index) {
#ifdef VOLUMES
    const int slices = tiles_of(of.z, CELL_SLICES);
    return {index / slices, index % slices};
#else
    return {index, 0};
#endif
}

// A block's first row and first cell, its first group, the channels d and m of the groups that it has, and its slice
// and row of a cell.
struct Tile {
    int row, image, p, q, group, depth, rows, result_slice, result_row;
};

// Whether some place of the filter is for a slice and row of a cell.
__device__ __forceinline__ bool has_places(int slice, int row) {
    bool in_slices = false, in_rows = false;
#pragma unroll
    for (int t = 0; t < FILTER_SLICES; t++) in_slices |= result_slice(t) == slice;
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) in_rows |= result_row(r) == row;
    return in_slices && in_rows;
}

__device__ __forceinline__ Tile tile_of(const ImplicitGemm &of) {
    const int across = tiles_of(tiles_of(of.q, CELL_COLUMNS), TILE_COLUMNS);
    const int down = tiles_of(tiles_of(of.p, CELL_ROWS), TILE_ROWS);
    // Blocks with the same pixels are neighbours, so they run together.
#ifdef JOINED
    const int of_group = 1, in_all = tiles_of(of.groups, JOINED), group = int(blockIdx.x) % in_all * JOINED;
    const int joined = min(JOINED, of.groups - group);
#else
    const int of_group = tiles_of(of.rows, ROW_TILE), in_all = groups_of(of) * of_group, joined = 1;
#ifdef GROUPED
    const int group = int(blockIdx.x) % in_all / of_group;
#else
    const int group = 0;
#endif
#endif
    const int results = int(blockIdx.x) / in_all, cells = results / (CELL_SLICES * CELL_ROWS);
    const int slice = results / CELL_ROWS % CELL_SLICES, row = results % CELL_ROWS;
    return {int(blockIdx.x) % of_group * ROW_TILE,
            cells / (across * down) * TILE_IMAGES,
            cells / across % down * TILE_ROWS,
            cells % across * TILE_COLUMNS,
            group,
            has_places(slice, row) ? joined * of.depth : 0,
            joined * of.rows,
            slice,
            row};
}

// Begins to copy filters, from channel `first` of the depth on. Elements behind the last channel become zero, and those
// between channels of different groups.
__device__ __forceinline__ void copy_filters(const ImplicitGemm &of, const Tile &tile, int first, Element *to) {
    constexpr int across = W_LINE / W_ACCESS;
    const Element *const group = of.w + (long long)tile.group * of.rows * of.depth * FILTER;
#ifdef GRADIENT
    const int lines = tile.depth - first, length = (of.rows - tile.row) * FILTER, pitch = of.rows * FILTER;
    const Element *const from = group + (long long)first * pitch + tile.row * FILTER;
#else
    const int lines = tile.rows - tile.row, length = (of.depth - first) * FILTER, pitch = of.depth * FILTER;
    const Element *const from = group + (long long)tile.row * pitch + first * FILTER;
#endif
#pragma unroll COPIES
    for (int i = threadIdx.x; i < W_LINES * across; i += THREADS) {
        const int line = i / across, at = i % across * W_ACCESS;
        int in_line = at;
#if defined JOINED && defined GRADIENT
        in_line -= line / GROUP_DEPTH * GROUP_ROWS * FILTER;
#elif defined JOINED
        in_line -= line / GROUP_ROWS * GROUP_DEPTH * FILTER;
#endif
        const bool is_there = line < lines && in_line >= 0 && in_line < length;
        copy_async<W_ACCESS * sizeof(Element)>(to + line * W_PITCH + at,
                                             from + (is_there ? (long long)line * pitch + in_line : 0), is_there);
    }
}

// Likewise for images, with zeros around them.
__device__ __forceinline__ void copy_images(const ImplicitGemm &of, const Tile &tile, int first, Element *to) {
    constexpr int across = X_COLUMNS / X_ACCESS, of_slice = X_ROWS * across, of_image = FILTER_SLICES * of_slice;
    constexpr int of_channel = TILE_IMAGES * of_image;
    const int begin = tile.group * of.depth + first, pitch = groups_of(of) * of.depth;
#pragma unroll COPIES
    for (int i = threadIdx.x; i < DEPTH * of_channel; i += THREADS) {
        const int d = i / of_channel, image = i % of_channel / of_image;
        const int row = i % of_slice / across, column = i % across * X_ACCESS;
        const int h = tile.p * ROW_OF_CELL + image_row(row), w = tile.q * COLUMN_OF_CELL + image_column(column);
        const Slice slice = slice_of(of, tile.image + image);
        bool is_there =
            slice.image < of.images && first + d < tile.depth && h >= 0 && h < of.height && w >= 0 && w < of.width;
        long long at = (long long)slice.image * pitch + begin + d;
#ifdef VOLUMES
        const int t = i % of_image / of_slice, e = slice.z * SLICE_OF_CELL + slice_of_place(t);
        is_there &= e >= 0 && e < of.slices;
        at = at * of.slices + e;
#else
        constexpr int t = 0;
#endif
        at = (at * of.height + h) * of.width + w;
        copy_async<X_ACCESS * sizeof(Element)>(
            to + d * X_PITCH + image * X_IMAGE + t * X_SLICE + row * X_COLUMNS + column, of.in + (is_there ? at : 0),
            is_there);
    }
}

__device__ __forceinline__ void copy_stage(const ImplicitGemm &of, const Tile &tile, int first, Element *stage) {
    copy_filters(of, tile, first, stage);
    copy_images(of, tile, first, stage + W_ELEMENTS);
}

struct Cell {
    int image, p, q;
};

__device__ __forceinline__ Cell cell_of(int index) {
    return {index / AREA, index % AREA / TILE_COLUMNS, index % TILE_COLUMNS};
}

// The warp's first row, and the first column of one of its matrices.
__device__ __forceinline__ int first_row() { return WARP / COLUMN_WARPS * ROW_MATRICES * M_MMA; }
__device__ __forceinline__ int first_column(int matrix) {
    return (WARP % COLUMN_WARPS * COLUMN_MATRICES + matrix) * N_MMA;
}

// A warp's sums, in the layout of tensor cores.
typedef float Sums[CELL_COLUMNS][ROW_MATRICES][COLUMN_MATRICES][4];

// A lane's word: the elements of neighbouring channels, `pitch` elements apart.
__device__ __forceinline__ Word word_of(const Element *from, int pitch) {
#ifdef ELEMENT_FLOAT
    return __float_as_uint(*from);
#else
    return from[0].bits | unsigned(from[pitch].bits) << 16;
#endif
}

// The parts into which a word is split for tensor cores, and how many products of parts are added up.
#if defined EXACT
#define PARTS 2
#define PRODUCTS 3
#else
#define PARTS 1
#define PRODUCTS 1
#endif

template <int COUNT> __device__ __forceinline__ void set_factor(Word word, Word (&parts)[PARTS][COUNT], int at) {
#if defined EXACT
    split_float(word, parts[HIGH][at], parts[LOW][at]);
#elif defined ELEMENT_FLOAT
    parts[0][at] = rounded_float(word);
#else
    parts[0][at] = word;
#endif
}

__device__ constexpr int part_of(int product, int factor) {
    return PRODUCTS == 1 ? 0 : exact_parts[product][factor];
}

// Adds the products of K_MMA channels and one row of the filter. `w` and `x` point to the lane's first elements.
__device__ __forceinline__ void add_products(const Element *w, const Element *const (&x)[COLUMN_MATRICES], Sums &sums) {
#pragma unroll
    for (int s = 0; s < FILTER_COLUMNS; s++) {
        Word b[COLUMN_MATRICES][PARTS][2];
#pragma unroll
        for (int i = 0; i < 2 * COLUMN_MATRICES; i++) {
            const Element *const at = x[i / 2] + column_behind(s) + i % 2 * (K_MMA / 2) * X_PITCH;
            set_factor(word_of(at, X_PITCH), b[i / 2], i % 2);
        }
#pragma unroll
        for (int m = 0; m < ROW_MATRICES; m++) {
            Word a[PARTS][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = m * M_MMA + i % 2 * (M_MMA / 2), d = i / 2 * (K_MMA / 2);
                set_factor(word_of(w + row * W_OF_ROW + d * W_OF_DEPTH + s * W_OF_PLACE, W_OF_DEPTH), a, i);
            }
#pragma unroll
            for (int i = 0; i < PRODUCTS * COLUMN_MATRICES; i++) {
                const int product = i / COLUMN_MATRICES, n = i % COLUMN_MATRICES;
                warp_mma(sums[result_column(s)][m][n], a[part_of(product, 0)], b[n][part_of(product, 1)]);
            }
        }
    }
}

// Adds the products of all channels of a stage.
__device__ __forceinline__ void add_stage(const Element *stage, const Tile &tile, Sums &sums) {
    const int d = LANE % 4 * PER_WORD;
    const Element *const w = stage + W_FIRST + (first_row() + LANE / 4) * W_OF_ROW + d * W_OF_DEPTH;
    const Element *x[COLUMN_MATRICES];
#pragma unroll
    for (int n = 0; n < COLUMN_MATRICES; n++) {
        const Cell cell = cell_of(min(first_column(n) + int(LANE / 4), CELLS - 1));
        x[n] = stage + W_ELEMENTS + d * X_PITCH + cell.image * X_IMAGE + cell.p * ROW_IN_TILE * X_COLUMNS +
               cell.q * COLUMN_OF_CELL;
    }
#pragma unroll 1
    for (int first = 0; first < DEPTH; first += K_MMA) {
#pragma unroll 1
        for (int r = 0; r < FILTER_SLICES * FILTER_ROWS; r++) {
            if (result_slice(r / FILTER_ROWS) != tile.result_slice) continue;
            if (result_row(r % FILTER_ROWS) != tile.result_row) continue;
            const int in_image = r / FILTER_ROWS * X_SLICE + row_behind(r % FILTER_ROWS) * X_COLUMNS;
            const Element *of_x[COLUMN_MATRICES];
#pragma unroll
            for (int n = 0; n < COLUMN_MATRICES; n++) of_x[n] = x[n] + first * X_PITCH + in_image;
            const Element *const of_w = w + first * W_OF_DEPTH + r * FILTER_COLUMNS * W_OF_PLACE;
#ifdef EXACT
            // Tensor cores round towards zero, so they add up one row at most.
            Sums row = {};
            add_products(of_w, of_x, row);
#pragma unroll
            for (int i = 0; i < int(sizeof(Sums) / sizeof(float)); i++) (&sums[0][0][0][0])[i] += (&row[0][0][0][0])[i];
#else
            add_products(of_w, of_x, sums);
#endif
        }
    }
}

// Neighbouring results that a lane writes at once, of those that it has: two cells.
struct alignas(TOGETHER * sizeof(Element)) Results {
    Element of[TOGETHER];
};
static_assert((TILE_COLUMNS % 2 == 0 ? 2 * CELL_COLUMNS : CELL_COLUMNS) % TOGETHER == 0, "neighbours");

__device__ __forceinline__ void write_sums(const ImplicitGemm &of, const Tile &tile, const Sums &sums) {
#ifdef VOLUMES
    const long long slice = (long long)of.p * of.q, area = of.z * slice;
#else
    const long long slice = 0, area = (long long)of.p * of.q;
#endif
    const long long begin = (long long)tile.group * of.rows, pitch = (long long)groups_of(of) * of.rows;
#pragma unroll
    for (int n = 0; n < COLUMN_MATRICES; n++) {
#pragma unroll
        for (int i = 0; i < 2 * CELL_COLUMNS; i += TOGETHER) {
            const int index = first_column(n) + int(LANE % 4) * 2 + i / CELL_COLUMNS;
            const Cell cell = cell_of(index);
            const Slice of_cell = slice_of(of, tile.image + cell.image);
            const int z = of_cell.z * CELL_SLICES + tile.result_slice;
            const int p = (tile.p + cell.p) * CELL_ROWS + tile.result_row;
            const int q = (tile.q + cell.q) * CELL_COLUMNS + i % CELL_COLUMNS;
            if (index >= CELLS || of_cell.image >= of.images || p >= of.p || q >= of.q) continue;
            if (CELL_SLICES > 1 && z >= of.z) continue;
            Element *const out = of.out + (of_cell.image * pitch + begin) * area + z * slice + p * of.q + q;
#pragma unroll
            for (int half = 0; half < 2 * ROW_MATRICES; half++) {
                const int row = tile.row + first_row() + half * (M_MMA / 2) + int(LANE / 4);
                if (row >= tile.rows) break;
                Results &to = *reinterpret_cast<Results *>(out + row * area);
                Results results;
                if (of.beta != 0) results = to;
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) {
                    const int result = (i + j) % CELL_COLUMNS, cell = (i + j) / CELL_COLUMNS;
                    scale_into(results.of[j], sums[result][half / 2][n][half % 2 * 2 + cell], of.alpha, of.beta);
                }
                to = results;
            }
        }
    }
}

KERNEL(implicit_gemm, ImplicitGemm) {
    SHARED(Element, stages);
    const ImplicitGemm &of = parameters;
    const Tile tile = tile_of(of);
    Sums sums = {};
#if STAGES == 1
    copy_stage(of, tile, 0, stages);
    end_group();
    wait_for_groups<0>();
    barrier();
    add_stage(stages, tile, sums);
#else
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead * DEPTH < tile.depth) copy_stage(of, tile, ahead * DEPTH, stages + ahead * STAGE);
        end_group();
    }
    int at_hand = 0, ahead = STAGES - 1;
    for (int first = 0; first < tile.depth; first += DEPTH) {
        wait_for_groups<STAGES - 2>();
        // All threads' copies to the current stage have arrived, and nobody reads the stage before any more.
        barrier();
        const int next = first + (STAGES - 1) * DEPTH;
        if (next < tile.depth) copy_stage(of, tile, next, stages + ahead * STAGE);
        end_group();
        add_stage(stages + at_hand * STAGE, tile, sums);
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }
#endif
    write_sums(of, tile, sums);
}
