// A convolution in which each channel has filters of its own, and the gradient of its input, on tensor cores, of
// tensors as NCHW stores them, with dilation of 1 and filters of one slice, with no workspace. What it computes is at
// the head of `depthwise.cu`.
//
// A row of a filter, as a Toeplitz matrix, turns 8 · DEPTH neighbouring numbers of a row into 8 neighbouring results.
// So a warp multiplies a tile of 16 rows by the matrix of each row of the filter, and adds up the products. The
// gradient of the input is the same with the filter turned round. Zeros of the matrix meet numbers beside a result's
// own: one that is infinite, or no number, makes all results NaN of each tile's row that reads it, as other fast
// algorithms do.
//
// With strides, the tiles of a convolution read 8 · STRIDE_COLUMNS numbers from one to the next; and its 16 rows read
// rows that are STRIDE_ROWS apart, which are neighbours in shared memory. In the gradient of the input, STRIDE_COLUMNS
// neighbouring tiles read the same numbers, by matrices of their own; and a tile's 16 rows are STRIDE_ROWS apart, so
// that the same rows of the filter have a part in them.
//
// A block goes through a part of the tiles of one channel's planes: it copies the next ones while it multiplies. Planes
// of one row, with ALONG, are rows of some tiles to the warps, as many as read neighbouring numbers; the numbers that a
// row's products read go on in the next rows.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; STRIDE_ROWS and STRIDE_COLUMNS, and GRADIENT for the input's gradient
// where one of these is more than 1; DEPTH, the numbers of a product's depth, in eights; COLUMN_TILES, the tiles of 8
// columns of a warp; PIECE, the numbers that are copied at once; ACCESS, the most that can be written at once, of 8, or
// of 2 where COLUMN_TILES is less than 3, and with ALONG; with STAGED, of a plane's, or 1 if rows are odd; ALONG;
// WHOLE, if a block's tile is a plane with zeros on all sides; STAGED, if its results are written from shared memory;
// VOLUMES. All else is a parameter, the filter's size too, so convolutions and input gradients of many filters and
// images share a kernel. Grid: a block for each channel and part. Dynamic shared memory: the matrices, by words of
// their lanes; then twice the lines of `planes` planes, and room for those that tiles of 16 rows read beyond; then,
// with STAGED, the results of these planes.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 4
#include "common/tiles.cuh"
#include "convolution/operands.cuh"
#include "convolution/planes.cuh"
#include "convolution/scale.cuh"
#include "convolution/toeplitz_words.cuh"

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
#ifdef STAGED
constexpr bool IS_STAGED = true;
#else
constexpr bool IS_STAGED = false;
#endif
// What strides do: neighbouring results read numbers that are DOWN apart, or UP results read between the same ones.
#ifdef GRADIENT
constexpr int UP_ROWS = STRIDE_ROWS, UP_COLUMNS = STRIDE_COLUMNS, DOWN_ROWS = 1, DOWN_COLUMNS = 1;
#else
constexpr int UP_ROWS = 1, UP_COLUMNS = 1, DOWN_ROWS = STRIDE_ROWS, DOWN_COLUMNS = STRIDE_COLUMNS;
#endif
// A product has a depth of 16.
constexpr int STEPS = (DEPTH + 1) / 2;
// Where the numbers begin that a column of the results reads, or in eights those of a tile.
__device__ __forceinline__ constexpr int source_of(int column) { return column * DOWN_COLUMNS / UP_COLUMNS; }
// The numbers along a tile's rows, in halves of a product's depth, that a warp reads.
constexpr int HALVES = source_of(COLUMN_TILES - 1) + DEPTH;
// The words of a matrix: for each step and word of a lane, one a lane. A row of the filter has UP_COLUMNS matrices.
constexpr int MATRIX_WORDS = STEPS * 2 * 32;
// With ALONG: the results of a row, and the numbers from what it reads to what the next one reads.
constexpr int ALONG_RESULTS = 8 * UP_COLUMNS, ALONG_STEP = 8 * DOWN_COLUMNS;

struct Toeplitz {
    const Element *in, *w;
    // Null for none.
    const Element *bias;
    Element *out;
    // The channels of `out` and of `in`, and the filters of each channel of `in`.
    int channels, in_channels;
    Divisor each;
    // The planes of a channel in all images, and how many a block has at once.
    int count, planes;
    // How often the blocks of a channel copy, in all; and those blocks.
    int turns, parts;
    // The slices of a channel, the sizes of the planes of `in` and of `out`, and the zeros before the first number of a
    // plane of `in`, which may be negative.
    Divisor slices;
    int height, width, out_height, out_width, before_rows, before_columns;
    // Of the input's gradient, the rests of the padding by the strides.
    int rest_rows, rest_columns;
    int filter_rows, filter_columns;
    // Set for the input's gradient.
    int is_turned_round;
    // The columns before the first that a product needs.
    int shift;
    // What a block reads of each plane.
    Lines lines;
    // How many times COLUMN_TILES tiles a block has along a row, and its tiles of 16 rows. UP_ROWS of these take turns
    // in 16 · UP_ROWS neighbouring rows.
    Divisor right, down;
    // A block's tiles along a row and along a column of a plane.
    Divisor tiles_across, tiles_along;
    // With STAGED: where the results begin, in elements behind the matrices, and a plane's in pieces of ACCESS.
    int staged;
    Divisor pieces;
    float alpha, beta;
};

// The first plane of a turn, and the first row and column of its results.
struct Begin {
    int plane, row, column;
};

// The bits of the filter's number in a row that a matrix has in a row and a column.
__device__ __forceinline__ unsigned matrix_bits(const Toeplitz &of, const Element *row, int depth, int column) {
    const int rest = UP_COLUMNS > 1 ? of.rest_columns : 0;
    const int tap = UP_COLUMNS * (depth - of.shift) + rest - DOWN_COLUMNS * column;
    if (tap < 0 || tap >= of.filter_columns) return 0;
    return bits_of(row[of.is_turned_round ? of.filter_columns - 1 - tap : tap]);
}

// Makes the matrices of a channel, in warp_mma()'s layout.
__device__ __forceinline__ void make_matrices(const Toeplitz &of, const Element *filter, unsigned *matrices) {
#pragma unroll 1
    for (int i = threadIdx.x; i < of.filter_rows * UP_COLUMNS * MATRIX_WORDS; i += THREADS) {
        const int lane = i % 32, word = i / 32 % 2, step = i / 64 % STEPS, which = i / MATRIX_WORDS;
        const int row = which / UP_COLUMNS, tile = which % UP_COLUMNS;
        const Element *const from = filter + (of.is_turned_round ? of.filter_rows - 1 - row : row) * of.filter_columns;
        const int depth = step * 16 + word * 8 + lane % 4 * 2, column = tile * 8 + lane / 4;
        matrices[i] = matrix_bits(of, from, depth, column) | matrix_bits(of, from, depth + 1, column) << 16;
    }
}

typedef float Sums[COLUMN_TILES][4];

// The line that a tile's first row reads by a row of the filter, from the first line that the tile reads.
__device__ __forceinline__ int line_of(const Toeplitz &of, int filter_row) {
    if (UP_ROWS > 1) return (filter_row + UP_ROWS - 1 - of.rest_rows) / UP_ROWS;
    return filter_row / DOWN_ROWS + filter_row % DOWN_ROWS * of.lines.apart;
}

// Adds the products of a tile with the matrices of the rows of the filter from `first` on.
__device__ __forceinline__ void add(const Toeplitz &of, const Element *lines, const unsigned *matrices, int first,
                                    Sums &sums) {
    const int pitch = of.lines.pitch, row_step = IS_ALONG ? ALONG_STEP : pitch;
    lines += line_of(of, first) * pitch, matrices += first * UP_COLUMNS * MATRIX_WORDS + LANE;
#pragma unroll 1
    for (int r = first; r < (IS_ALONG ? 1 : of.filter_rows); r += UP_ROWS) {
        const Element *const from = DOWN_ROWS == 1 ? lines : lines + line_of(of, r) * pitch;
        unsigned halves[HALVES][2];
#pragma unroll
        for (int half = 0; half + 1 < HALVES; half += 2)
            read_halves(from + half * 8, row_step, halves[half], halves[half + 1]);
        if constexpr (HALVES % 2) read_half(from + (HALVES - 1) * 8, row_step, halves[HALVES - 1]);
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int of_several = 0; of_several < UP_COLUMNS; of_several++) {
                const unsigned *const words = matrices + of_several * MATRIX_WORDS + step * 64;
                const unsigned b[2] = {words[0], words[32]};
#pragma unroll
                for (int tile = of_several; tile < COLUMN_TILES; tile += UP_COLUMNS) {
                    const int half = source_of(tile) + 2 * step;
                    const unsigned(&low)[2] = halves[half];
                    unsigned a[4] = {low[0], low[1], 0, 0};
                    if (2 * step + 1 < DEPTH) a[2] = halves[half + 1][0], a[3] = halves[half + 1][1];
                    warp_mma(sums[tile], a, b);
                }
            }
        if (DOWN_ROWS == 1) lines += pitch;
        matrices += UP_ROWS * UP_COLUMNS * MATRIX_WORDS;
    }
}

// Writes two neighbouring results, of which `count` are in the plane.
__device__ __forceinline__ void write(const Toeplitz &of, Element *to, const float *sums, int count) {
    constexpr int AT_ONCE = ACCESS < 2 ? ACCESS : 2;
#pragma unroll
    for (int i = 0; i < 2; i += AT_ONCE) {
        if (i >= count) break;
        Elements<AT_ONCE> *const place = reinterpret_cast<Elements<AT_ONCE> *>(to + i);
        Elements<AT_ONCE> some;
        if (of.beta != 0) some = *place;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) scale_into(some.of[j], sums[i + j], of.alpha, of.beta);
        *place = some;
    }
}

// Writes a tile of a plane from a row and a column on.
__device__ __forceinline__ void write(const Toeplitz &of, Element *plane, int row, int column, const Sums &sums) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int its_row = row + (LANE / 4 + i * 8) * UP_ROWS;
#pragma unroll
        for (int tile = 0; tile < COLUMN_TILES; tile++) {
            const int its_column = column + tile * 8 + LANE % 4 * 2;
            // A part of a plane of one row, or a plane's row.
            const int before = its_row * (IS_ALONG ? ALONG_RESULTS : of.out_width);
            const int count = IS_ALONG ? of.out_width - before : its_row < of.out_height ? of.out_width : 0;
            write(of, plane + before + its_column, sums[tile] + 2 * i, count - its_column);
        }
    }
}

// Brings a tile of a plane into shared memory, from a row and a column on, with a beta of 0.
__device__ __forceinline__ void stage(const Toeplitz &of, Element *plane, int row, int column, const Sums &sums) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int its_row = row + (LANE / 4 + i * 8) * UP_ROWS;
#pragma unroll
        for (int tile = 0; tile < COLUMN_TILES; tile++) {
            const int its_column = column + tile * 8 + LANE % 4 * 2;
            const int count = its_row < of.out_height ? of.out_width - its_column : 0;
            Element *const to = plane + its_row * of.out_width + its_column;
            const unsigned word = word_of(sums[tile][2 * i] * of.alpha, sums[tile][2 * i + 1] * of.alpha);
            if (ACCESS > 1) {
                if (count > 0) *reinterpret_cast<unsigned *>(to) = word;
            } else {
                if (count > 0) to[0] = element_of(word);
                if (count > 1) to[1] = element_of(word >> 16);
            }
        }
    }
}

// Writes the results of some planes from shared memory. There is nothing between the rows of a plane.
__device__ __forceinline__ void write_staged(const Toeplitz &of, const ChannelPlanes &to, int first, int planes,
                                             const Element *staged) {
    typedef Elements<ACCESS> Piece;
    const int elements = of.out_height * of.out_width;
#pragma unroll 1
    for (int i = threadIdx.x; i < planes * of.pieces.value; i += THREADS) {
        int piece = i;
        const int plane = of.pieces.divide(piece);
        Piece *const its = reinterpret_cast<Piece *>(of.out + to.place(first + plane) * elements) + piece;
        *its = reinterpret_cast<const Piece *>(staged)[i];
    }
}

// Of four lanes with four words each: word i of all four goes to lane i.
__device__ __forceinline__ void turn_round(unsigned (&words)[4]) {
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
        const bool is_high = LANE & apart;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            // Those whose numbers differ from the lane's in this bit change places.
            unsigned &low = words[apart == 1 ? 2 * i : i], &high = words[apart == 1 ? 2 * i + 1 : i + 2];
            const unsigned other = warp_shuffle(is_high ? low : high, LANE ^ apart);
            if (is_high) low = other;
            else high = other;
        }
    }
}

// Writes ACCESS elements of words, from one on.
__device__ __forceinline__ void write_from(const unsigned (&words)[4], int first, Element *to) {
#if ACCESS == 8
    *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
#elif ACCESS == 4
    *reinterpret_cast<uint2 *>(to) = make_uint2(words[first / 2], words[first / 2 + 1]);
#elif ACCESS == 2
    *reinterpret_cast<unsigned *>(to) = words[first / 2];
#else
    *to = element_of(words[first / 2] >> first % 2 * 16);
#endif
}

// Writes a tile of a plane with a beta of 0: a lane writes 8 neighbouring numbers of four tiles.
__device__ __forceinline__ void write_together(const Toeplitz &of, Element *plane, int row, int column,
                                               const Sums &sums) {
    column += LANE % 4 * 8;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int its_row = row + (LANE / 4 + i * 8) * UP_ROWS;
        Element *const to = plane + its_row * of.out_width + column;
#pragma unroll
        for (int first = 0; first < COLUMN_TILES; first += 4) {
            unsigned words[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const int tile = first + k < COLUMN_TILES ? first + k : COLUMN_TILES - 1;
                words[k] = word_of(sums[tile][2 * i] * of.alpha, sums[tile][2 * i + 1] * of.alpha);
            }
            turn_round(words);
            const bool is_there = its_row < of.out_height && first + LANE % 4 < COLUMN_TILES;
#pragma unroll
            for (int k = 0; k < 8; k += ACCESS)
                if (is_there && column + first * 8 + k < of.out_width) write_from(words, k, to + first * 8 + k);
        }
    }
}

KERNEL(toeplitz, Toeplitz) {
    SHARED(unsigned, shared);
    const Toeplitz &of = parameters;
    const int channel = blockIdx.x, part = blockIdx.y;
    Element *const buffers = reinterpret_cast<Element *>(shared + of.filter_rows * UP_COLUMNS * MATRIX_WORDS);
    const int plane_lines = DOWN_ROWS * of.lines.apart * of.lines.pitch;
    const auto buffer = [&](int which) { return buffers + which * of.planes * plane_lines; };
    const auto begin_of = [&](int which) {
        if (IS_WHOLE) return Begin{which * of.planes, 0, 0};
        int column = which, row = IS_ALONG ? column : of.tiles_across.divide(column);
        const int plane = of.tiles_along.divide(row) * of.planes;
        return Begin{plane, row * of.down.value * 16, IS_ALONG ? 0 : column * of.right.value * COLUMN_TILES * 8};
    };
    const auto copy = [&](int which, Element *lines) {
        const ChannelPlanes from = {of.in, of.in_channels, of.each.quotient(channel), of.slices, of.height, of.width};
        const Begin begin = begin_of(which);
        Window window = {begin.plane, of.count - begin.plane, 0, 0, 0};
        if (IS_WHOLE) {
            lines += of.before_rows / DOWN_ROWS * of.lines.pitch + of.before_columns + of.shift;
            window.line = of.before_rows % DOWN_ROWS;
        } else {
            const int column = IS_ALONG ? begin.row * ALONG_STEP : source_of(begin.column);
            window.row = (IS_ALONG ? 0 : begin.row / UP_ROWS * DOWN_ROWS) - of.before_rows;
            window.column = column - of.before_columns - of.shift;
        }
        copy_lines<PIECE, IS_WHOLE, DOWN_ROWS>(from, window, of.lines, of.planes, lines);
    };
    const ChannelPlanes to = {of.out, of.channels, channel, of.slices, of.out_height, of.out_width};
    const bool is_staged = IS_STAGED && of.beta == 0;
    Element *const staged = buffers + of.staged;
    if (IS_WHOLE) {
        clear(buffer(0), 2 * of.planes * plane_lines);
        barrier();
    }
    // Before its first turn a block copies, too.
#pragma unroll 1
    for (int which = part - of.parts, turn = 1; which < of.turns; which += of.parts, turn ^= 1) {
        if (which + of.parts < of.turns) copy(which + of.parts, buffer(turn ^ 1));
        end_group();
        if (which < 0) {
            make_matrices(of, of.w + channel * of.filter_rows * of.filter_columns, shared);
            continue;
        }
        wait_for_groups<1>();
        barrier();
        const Begin begin = begin_of(which);
        const int rest = of.count - begin.plane, planes = rest < of.planes ? rest : of.planes;
#pragma unroll 1
        for (int task = WARP; task < planes * of.down.value * of.right.value; task += WARPS) {
            int right = IS_ALONG ? 0 : task, down = IS_ALONG ? task : of.right.divide(right);
            const int plane = of.down.divide(down), residue = down % UP_ROWS;
            right *= COLUMN_TILES * 8, down = down / UP_ROWS * 16;
            const float bias = of.bias ? to_float(of.bias[channel]) : 0;
            Sums sums;
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; tile++)
#pragma unroll
                for (int i = 0; i < 4; i++) sums[tile][i] = bias;
            const Element *const lines = buffer(turn) + plane * plane_lines;
            const int first = (of.rest_rows + UP_ROWS - residue) % UP_ROWS;
            const int begin_of_tile = down * (IS_ALONG ? ALONG_STEP : of.lines.pitch) + source_of(right);
            add(of, lines + begin_of_tile, shared, first, sums);
            const int row = begin.row + down * UP_ROWS + residue, column = begin.column + right;
            if (is_staged) {
                stage(of, staged + plane * of.out_height * of.out_width, row, column, sums);
                continue;
            }
            Element *const result = of.out + to.place(begin.plane + plane) * of.out_height * of.out_width;
            constexpr bool HAS_FOURS = COLUMN_TILES >= 3 && !IS_STAGED && !IS_ALONG;
            if (HAS_FOURS && of.beta == 0) write_together(of, result, row, column, sums);
            else write(of, result, row, column, sums);
        }
        barrier();
        // The next turn's results come behind its first barrier.
        if (is_staged) write_staged(of, to, begin.plane, planes, staged);
    }
}
