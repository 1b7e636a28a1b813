// A convolution in small groups, or its input's gradient, of tensors as NCHW stores them, with no workspace. Tensor cores
// multiply half or bfloat16; sums are in float.
//
//   out[n][g][m][p][q] = Σ over d, r, s of v[g][m][d][r][s] · in[n][g][d][h][w], where
//   h = p · STRIDE_ROWS + r - PADDING_ROWS, and w likewise from q and s by what is named _COLUMNS
//
// where g counts groups, and v is the filter w[g][m][d][r][s]. For an input's gradient v is w[g][d][m] with its axes
// reversed, the padding is how far the filter reaches beyond the convolution's padding, and strides divide:
//   h = (p + r - PADDING_ROWS) / STRIDE_ROWS
// for the places r for which this is a whole number. There, results are counted in cells of STRIDE_ROWS ×
// STRIDE_COLUMNS neighbours, which read the same pixels of `in`.
//
// A block has the channels of JOINED groups, and keeps their filters in registers as matrices of 16 × 16 channels, with
// zeros between channels of different groups. It goes through tiles of TILE_ROWS rows of cells, as wide as the image.
// The channels of a pixel become neighbours in shared memory: a thread reads four pixels of eight channels, and turns
// them in its registers. So each place of the filter reads whole operands, whatever the place.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER_, STRIDE_ and PADDING_ROWS and _COLUMNS; GRADIENT for a
// gradient; DEPTH and ROWS, the channels d and m of a group; JOINED; WIDTH of `in`, and CELLS, those in a row of `out`;
// TILE_ROWS; ACCESS, the elements of `in` that are read at once: 4, 2 or 1, a divisor of WIDTH; and TOGETHER, the results
// that are written at once, which divides the width of `out` and those of two cells, if CELLS is even, or of one. Grid:
// `parts` blocks for each JOINED groups. Dynamic shared memory: XH × PITCH pixels, as unit_of() lays them out; or
// the matrices of filters, M_TILES × K_STEPS × PLACES of 512 bytes, if these are more.

#define THREADS 256
#define M_MMA 16
// The matrices that have all channels d, and all channels m, of a block.
#define K_STEPS ((JOINED * DEPTH + 15) / 16)
#define M_TILES ((JOINED * ROWS + 15) / 16)
#ifdef GRADIENT
#define CELL_ROWS STRIDE_ROWS
#define CELL_COLUMNS STRIDE_COLUMNS
#define ROW_OF_CELL 1
#define COLUMN_OF_CELL 1
#else
#define CELL_ROWS 1
#define CELL_COLUMNS 1
#define ROW_OF_CELL STRIDE_ROWS
#define COLUMN_OF_CELL STRIDE_COLUMNS
#endif
#define PLACES (FILTER_ROWS * FILTER_COLUMNS)
// What stands in registers all along: filters, and the sums of two matrices. Older GPUs' code, single numbers
// that are read or written, convolutions with strides, longer filters, and matrices that are not full need a few
// registers more.
#define IN_REGISTERS (4 * K_STEPS * PLACES + 8 * CELL_ROWS * CELL_COLUMNS)
#define IS_FULL (JOINED * DEPTH == 16 && JOINED * ROWS == 16)
#define IS_EASY                                                                                                        \
    (ROW_OF_CELL * COLUMN_OF_CELL == 1 && FILTER_ROWS <= 3 && FILTER_COLUMNS <= 3 && ACCESS > 1 && TOGETHER > 1)
#if IN_REGISTERS <= 44 && IS_FULL && IS_EASY && !(defined __CUDA_ARCH__ && __CUDA_ARCH__ < 890)
#define MULTIPROCESSOR_BLOCKS 3
#elif IN_REGISTERS <= 80
#define MULTIPROCESSOR_BLOCKS 2
#else
#define MULTIPROCESSOR_BLOCKS 1
#endif
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tiles.cuh"
#include "convolution/operands.cuh"
#include "convolution/scale.cuh"

typedef unsigned Word;

// Of a place of the filter on an axis: the pixel that it reads, counted from the cell's first, and the result of the
// cell that it is for.
__device__ constexpr int pixel_of_place(int place, int padding, int cell) {
    return place < padding ? -((padding - place) / cell) : (place - padding + cell - 1) / cell;
}
__device__ constexpr int row_of_place(int r) { return pixel_of_place(r, PADDING_ROWS, CELL_ROWS); }
__device__ constexpr int column_of_place(int s) { return pixel_of_place(s, PADDING_COLUMNS, CELL_COLUMNS); }
__device__ constexpr int result_of_place(int r, int s) {
    const int row = row_of_place(r) * CELL_ROWS - (r - PADDING_ROWS);
    const int column = column_of_place(s) * CELL_COLUMNS - (s - PADDING_COLUMNS);
    return row * CELL_COLUMNS + column;
}

// In shared memory: the rows and columns that a tile reads, of which `ABOVE` and `LEFT` are in front of its first
// cell's first pixel. Rows begin at multiples of four pixels.
constexpr int ABOVE = -row_of_place(0), LEFT = -column_of_place(0);
constexpr int XH = (TILE_ROWS - 1) * ROW_OF_CELL + row_of_place(FILTER_ROWS - 1) + ABOVE + 1;
constexpr int XW = (CELLS - 1) * COLUMN_OF_CELL + column_of_place(FILTER_COLUMNS - 1) + LEFT + 1;
constexpr int PITCH = (XW + 3) / 4 * 4;
// Units of eight channels, in 16 bytes.
constexpr int UNIT = 8, UNITS = 2 * K_STEPS;
// Where a pixel's unit stands. A gap after some pixels lets lanes that are neighbours, or four pixels apart, use
// different banks.
__device__ __forceinline__ constexpr int unit_of(int pixel, int unit) {
    return (pixel * UNITS + unit + pixel / (4 / K_STEPS)) * UNIT;
}
static_assert(K_STEPS == 1 || K_STEPS == 2, "a gap after whole pixels");
static_assert(JOINED == 1 || K_STEPS == 1 && M_TILES == 1, "small groups are joined to one matrix");

// A tensor has fewer elements than an int counts.
struct InGroups {
    const Element *w, *in;
    Element *out;
    int images, groups;
    // The rows of `in`, and the rows and columns of `out`.
    int height, p, q;
    // The blocks that share out the tiles of all images.
    int parts;
    // out = alpha · sum + beta · out
    float alpha, beta;
};

struct alignas(ACCESS * sizeof(Element)) Read {
    Element of[ACCESS];
};

struct alignas(TOGETHER * sizeof(Element)) Results {
    Element of[TOGETHER];
};
static_assert((CELLS % 2 == 0 ? 2 * CELL_COLUMNS : CELL_COLUMNS) % TOGETHER == 0, "neighbours");

// The filters of a warp's 16 channels m, in the layout of tensor cores: two neighbouring d to a word.
typedef Word Filters[K_STEPS][PLACES][4];

__device__ __forceinline__ unsigned filter_of(const InGroups &of, int group, int m, int d, int place) {
    const int in_group = m / ROWS;
    if (in_group != d / DEPTH || in_group >= JOINED || group + in_group >= of.groups) return 0;
#ifdef GRADIENT
    const int at = (d % DEPTH * ROWS + m % ROWS) * PLACES + PLACES - 1 - place;
#else
    const int at = (m % ROWS * DEPTH + d % DEPTH) * PLACES + place;
#endif
    return bits_of(of.w[(long long)(group + in_group) * ROWS * DEPTH * PLACES + at]);
}

// Brings the filters into registers through shared memory: straight from memory, more would be on their way than
// registers hold.
__device__ __forceinline__ void read_filters(const InGroups &of, int group, Word *shared, Filters &filters) {
    constexpr int of_matrix = M_MMA * M_MMA / 2, of_tile = K_STEPS * PLACES * of_matrix;
#pragma unroll 1
    for (int i = threadIdx.x; i < M_TILES * of_tile; i += THREADS) {
        const int matrix = i % of_tile / of_matrix, place = matrix % PLACES;
        const int m = i / of_tile * M_MMA + i % of_matrix / 8, d = matrix / PLACES * 16 + i % 8 * 2;
        shared[i] = filter_of(of, group, m, d, place) | filter_of(of, group, m, d + 1, place) << 16;
    }
    barrier();
    const Word *const its = shared + WARP % M_TILES * of_tile + LANE / 4 * 8 + LANE % 4;
#pragma unroll
    for (int i = 0; i < K_STEPS * PLACES * 4; i++)
        filters[i / 4 / PLACES][i / 4 % PLACES][i % 4] = its[i / 4 * of_matrix + i % 2 * 64 + i % 4 / 2 * 4];
    barrier();
}

// Zeros on the left of each row and on its right, which stay for all tiles.
__device__ __forceinline__ void clear_sides(Element *x) {
    constexpr int right = PITCH - LEFT - WIDTH > 0 ? PITCH - LEFT - WIDTH : 0, beside = LEFT + right;
    for (int i = threadIdx.x; i < XH * beside * UNITS; i += THREADS) {
        const int unit = i % UNITS, at = i / UNITS % beside, row = i / UNITS / beside;
        const int pixel = row * PITCH + (at < LEFT ? at : at + WIDTH);
        *reinterpret_cast<uint4 *>(x + unit_of(pixel, unit)) = make_uint4(0, 0, 0, 0);
    }
}

// Reads what a tile needs of an image, from row `first` on, and puts each pixel's channels side by side. Rows beside the
// image, and channels behind the last group's, become zero.
__device__ __forceinline__ void read_tile(const InGroups &of, int group, int image, int first, Element *x) {
    constexpr int across = (WIDTH + 3) / 4, of_unit = XH * across;
    const int channels = min(JOINED, of.groups - group) * DEPTH;
    const int plane = of.height * WIDTH, begin = (image * of.groups + group) * DEPTH * plane;
#pragma unroll 1
    for (int i = threadIdx.x; i < UNITS * of_unit; i += THREADS) {
        const int unit = i / of_unit, row = i % of_unit / across, column = i % across * 4, h = first + row;
        // The channels that are there, of the unit's eight.
        const int there = h >= 0 && h < of.height ? channels - unit * 8 : 0;
        const int at = begin + unit * 8 * plane + h * WIDTH + column;
        // The words of eight channels: four pixels each.
        Word words[8][2];
#pragma unroll
        for (int c = 0; c < 8; c++) {
            Element four[4] = {};
#pragma unroll
            for (int k = 0; k < 4; k += ACCESS) {
                if (c >= there || column + k >= WIDTH) continue;
                const Read read = *reinterpret_cast<const Read *>(of.in + (at + c * plane + k));
#pragma unroll
                for (int j = 0; j < ACCESS; j++) four[k + j] = read.of[j];
            }
            words[c][0] = bits_of(four[0]) | bits_of(four[1]) << 16;
            words[c][1] = bits_of(four[2]) | bits_of(four[3]) << 16;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (column + LEFT + k >= PITCH) continue;
            Word pairs[4];
#pragma unroll
            for (int c = 0; c < 4; c++)
                pairs[c] = __byte_perm(words[2 * c][k / 2], words[2 * c + 1][k / 2], k % 2 ? 0x7632 : 0x5410);
            *reinterpret_cast<uint4 *>(x + unit_of(row * PITCH + column + LEFT + k, unit)) =
                make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }
}

// The pixel of a tile's cell that its first place's row and column would be at without padding; cells behind the last
// one repeat it.
__device__ __forceinline__ int pixel_of_cell(int cell) {
    const int its = min(cell, TILE_ROWS * CELLS - 1);
    return its / CELLS * (ROW_OF_CELL * PITCH) + its % CELLS * COLUMN_OF_CELL;
}

// Where a warp reads the pixels of 16 cells, for one column of the filter.
struct Cells {
#ifndef EMULATED
    // The place of the lane's pixel: lanes have eight cells with a half of the channels, then with the other half, then
    // eight further cells.
    unsigned place;

    Cells() = default;
    __device__ __forceinline__ Cells(const Element *x, int first, int column)
        : place(address_of(x + unit_of(pixel_of_cell(first + LANE / 16 * 8 + LANE % 8) + column, LANE / 8 % 2))) {}
#else
    const Element *x;
    int first, column;

    Cells() = default;
    Cells(const Element *x, int first, int column) : x(x), first(first), column(column) {}
#endif

    // Two matrices of 16 channels of eight cells, some rows further. These are whole numbers of gaps.
    __device__ __forceinline__ void read(int rows, int k, Word (&of)[2][2]) const {
#ifndef EMULATED
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(of[0][0]), "=r"(of[0][1]), "=r"(of[1][0]), "=r"(of[1][1])
                     : "r"(place + unit_of(rows * PITCH, 2 * k) * int(sizeof(Element)))
                     : "memory");
#else
        for (int i = 0; i < 4; i++) {
            const int its = pixel_of_cell(first + i / 2 * 8 + int(LANE / 4)) + column + rows * PITCH;
            const Element *const place = x + unit_of(its, 2 * k + i % 2) + LANE % 4 * 2;
            of[i / 2][i % 2] = bits_of(place[0]) | bits_of(place[1]) << 16;
        }
#endif
    }
};

// The sums of two matrices of a warp, for each result of a cell.
typedef float Sums[CELL_ROWS * CELL_COLUMNS][2][4];

__device__ __forceinline__ void write_sums(const InGroups &of, int group, int first_m, int image, int row, int first,
                                           const Sums &sums) {
    const int begin = (image * of.groups + group) * ROWS;
    const int channels = min(JOINED, of.groups - group) * ROWS;
#pragma unroll
    for (int t = 0; t < 2; t++) {
#pragma unroll
        for (int of_row = 0; of_row < CELL_ROWS; of_row++) {
#pragma unroll
            for (int i = 0; i < 2 * CELL_COLUMNS; i += TOGETHER) {
                const int cell = first + t * 8 + int(LANE % 4) * 2 + i / CELL_COLUMNS;
                const int p = (row + cell / CELLS) * CELL_ROWS + of_row;
                const int q = cell % CELLS * CELL_COLUMNS + i % CELL_COLUMNS;
                if (cell >= TILE_ROWS * CELLS || p >= of.p || q >= of.q) continue;
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int m = first_m + half * 8 + int(LANE / 4);
                    if (m >= channels) break;
                    Results &to =
                        *reinterpret_cast<Results *>(of.out + ((begin + m) * of.p + p) * of.q + q);
                    Results results;
                    if (of.beta != 0) results = to;
#pragma unroll
                    for (int j = 0; j < TOGETHER; j++) {
                        const int result = of_row * CELL_COLUMNS + (i + j) % CELL_COLUMNS;
                        scale_into(results.of[j], sums[result][t][half * 2 + (i + j) / CELL_COLUMNS], of.alpha, of.beta);
                    }
                    to = results;
                }
            }
        }
    }
}

KERNEL(in_groups, InGroups) {
    SHARED(Element, x);
    const InGroups &of = parameters;
    const int tiles = tiles_of(of.groups, JOINED), down = tiles_of(tiles_of(of.p, CELL_ROWS), TILE_ROWS);
    const int group = int(blockIdx.x) % tiles * JOINED, turns = of.images * down;
    const int first_m = WARP % M_TILES * M_MMA;
    Filters filters;
    read_filters(of, group, reinterpret_cast<Word *>(x), filters);
    clear_sides(x);
    for (int turn = int(blockIdx.x) / tiles; turn < turns; turn += of.parts) {
        const int image = turn / down, row = turn % down * TILE_ROWS;
        // Nobody reads the tile before any more.
        barrier();
        read_tile(of, group, image, row * ROW_OF_CELL - ABOVE, x);
        barrier();
#pragma unroll 1
        for (int first = WARP / M_TILES * 16; first < TILE_ROWS * CELLS; first += THREADS / 32 / M_TILES * 16) {
            Sums sums = {};
#pragma unroll
            for (int s = 0; s < FILTER_COLUMNS; s++) {
                const Cells cells(x, first, column_of_place(s) + LEFT);
#pragma unroll
                for (int i = 0; i < K_STEPS * FILTER_ROWS; i++) {
                    const int k = i / FILTER_ROWS, r = i % FILTER_ROWS;
                    Word b[2][2];
                    cells.read(row_of_place(r) + ABOVE, k, b);
#pragma unroll
                    for (int t = 0; t < 2; t++)
                        warp_mma(sums[result_of_place(r, s)][t], filters[k][r * FILTER_COLUMNS + s], b[t]);
                }
            }
            write_sums(of, group, first_m, image, row, first, sums);
        }
    }
}
