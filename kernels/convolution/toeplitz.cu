// A convolution in which each channel has filters of its own, and the gradient of its input, on tensor cores, of tensors
// as NCHW stores them, with strides and dilation of 1 and filters of one slice, with no workspace. What it computes is
// at the head of `depthwise.cu`.
//
// A row of a filter, as a Toeplitz matrix, turns 16 · STEPS neighbouring numbers of a row into 8 neighbouring results.
// So a warp multiplies a tile of 16 rows by the matrix of each row of the filter, and adds up the products. The gradient
// of the input is the same with the filter turned round. Zeros of the matrix meet numbers beside a result's own: one
// that is infinite, or no number, makes all 8 results of its row NaN, as other fast algorithms do.
//
// A block goes through a part of the tiles of one channel's planes: it copies the next ones while it multiplies. Planes
// of one row, with ALONG, are rows of 8 numbers each to the warps; the numbers that a row's products read go on in the
// next rows.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER_ROWS and FILTER_COLUMNS; GRADIENT for the input's gradient;
// SHIFT, the columns before the first that a product needs; STEPS; COLUMN_TILES, the tiles of 8 columns of a warp, RIGHT,
// how many times as many a block has, and DOWN, its tiles of 16 rows; TILES_ACROSS and TILES_ALONG, a block's tiles along
// a row and along a column of a plane; LINES and COLUMNS, what a block reads of each plane, and PITCH, from a line to the
// next in shared memory; WHOLE, HEIGHT and WIDTH, if that is a plane with zeros on all sides; SLICES, those of each
// channel of an image; PIECE, the numbers that are copied at once, and ACCESS, the most of 8 that can be written at once.
// Grid: a block for each channel and part. Dynamic shared memory: the matrices, by words of their lanes; then twice the
// lines of `planes` planes, and room for those that tiles of 16 rows read beyond.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 4
#include "common/tiles.cuh"
#include "convolution/operands.cuh"
#include "convolution/planes.cuh"
#include "convolution/scale.cuh"

#ifdef GRADIENT
constexpr bool IS_GRADIENT = true;
#else
constexpr bool IS_GRADIENT = false;
#endif
#ifdef ALONG
constexpr bool IS_ALONG = true;
#else
constexpr bool IS_ALONG = false;
#endif
// From a tile's row to the next.
constexpr int ROW_STEP = IS_ALONG ? 8 : PITCH;

// The numbers along a tile's rows, in halves of a product's depth, that a warp reads.
constexpr int HALVES = COLUMN_TILES + 2 * STEPS - 1;
// The words of the matrices: for each row of the filter, step and word of a lane, one a lane.
constexpr int MATRIX_WORDS = FILTER_ROWS * STEPS * 2 * 32;

struct Toeplitz {
    const Element *in, *w;
    // Null for none.
    const Element *bias;
    Element *out;
    // The channels of `out`, and the filters of each channel of `in`.
    int channels, each;
    // The planes of a channel in all images, and how many a block has at once.
    int count, planes;
    // How often the blocks of a channel copy, in all; and those blocks.
    int turns, parts;
    // The sizes of the planes of `in` and of `out`, and the zeros before the first number of a plane of `in`, which may
    // be negative.
    int height, width, out_height, out_width, padding_rows, padding_columns;
    float alpha, beta;
};

template <int COUNT> struct alignas(COUNT * sizeof(Element)) Elements {
    Element of[COUNT];
};

// The bits of the filter's number in a row that a matrix has in a row and a column.
__device__ __forceinline__ unsigned matrix_bits(const Element *row, int depth, int column) {
    const int tap = depth - column - SHIFT;
    if (tap < 0 || tap >= FILTER_COLUMNS) return 0;
    return bits_of(row[IS_GRADIENT ? FILTER_COLUMNS - 1 - tap : tap]);
}

// Makes the matrices of a channel, in warp_mma()'s layout.
__device__ __forceinline__ void make_matrices(const Element *filter, unsigned *matrices) {
    for (int i = threadIdx.x; i < MATRIX_WORDS; i += THREADS) {
        const int lane = i % 32, word = i / 32 % 2, step = i / 64 % STEPS, row = i / 64 / STEPS;
        const Element *const from = filter + (IS_GRADIENT ? FILTER_ROWS - 1 - row : row) * FILTER_COLUMNS;
        const int depth = step * 16 + word * 8 + lane % 4 * 2;
        matrices[i] = matrix_bits(from, depth, lane / 4) | matrix_bits(from, depth + 1, lane / 4) << 16;
    }
}

typedef float Sums[COLUMN_TILES][4];

// Adds the products of a tile with all matrices.
__device__ __forceinline__ void add(const Element *lines, const unsigned *matrices, Sums &sums) {
    matrices += LANE;
#pragma unroll 1
    for (int r = 0; r < FILTER_ROWS; r++) {
        unsigned halves[HALVES][2];
#pragma unroll
        for (int half = 0; half + 1 < HALVES; half += 2)
            read_halves(lines + r * PITCH + half * 8, ROW_STEP, halves[half], halves[half + 1]);
        if constexpr (HALVES % 2) read_half(lines + r * PITCH + (HALVES - 1) * 8, ROW_STEP, halves[HALVES - 1]);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const unsigned *const words = matrices + (r * STEPS + step) * 64;
            const unsigned b[2] = {words[0], words[32]};
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; tile++) {
                const unsigned(&low)[2] = halves[tile + 2 * step], (&high)[2] = halves[tile + 2 * step + 1];
                const unsigned a[4] = {low[0], low[1], high[0], high[1]};
                warp_mma(sums[tile], a, b);
            }
        }
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
        const int its_row = row + LANE / 4 + i * 8;
#pragma unroll
        for (int tile = 0; tile < COLUMN_TILES; tile++) {
            const int its_column = column + tile * 8 + LANE % 4 * 2;
            // A row of 8 numbers along a plane of one row, or a plane's row.
            const int count = IS_ALONG ? of.out_width - its_row * 8 : its_row < of.out_height ? of.out_width : 0;
            Element *const to = plane + its_row * (IS_ALONG ? 8 : of.out_width) + its_column;
            write(of, to, sums[tile] + 2 * i, count - its_column);
        }
    }
}

// Two elements as a word.
__device__ __forceinline__ unsigned word_of(float low, float high) {
#ifdef EMULATED
    return bits_of(to_element(low)) | bits_of(to_element(high)) << 16;
#else
    unsigned word;
#ifdef ELEMENT_HALF
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
#endif
    return word;
#endif
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
        const int its_row = row + LANE / 4 + i * 8;
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
    const auto buffer = [&](int which) {
        return reinterpret_cast<Element *>(shared + MATRIX_WORDS) + which * of.planes * LINES * PITCH;
    };
    // The first row and column of results, and the first plane.
    const auto row_of = [&](int which) { return which / TILES_ACROSS % TILES_ALONG * DOWN * 16; };
    const auto column_of = [&](int which) { return which % TILES_ACROSS * RIGHT * COLUMN_TILES * 8; };
    const auto first_of = [&](int which) { return which / (TILES_ACROSS * TILES_ALONG) * of.planes; };
    const auto copy = [&](int which, Element *lines) {
        const ChannelPlanes from = {of.in, of.channels / of.each, channel / of.each, of.height, of.width};
        const int first = first_of(which), row = row_of(which), column = IS_ALONG ? row * 8 : column_of(which);
#ifdef WHOLE
        copy_lines<HEIGHT, WIDTH, PITCH, PIECE, LINES, true>(
            from, {first, of.count - first, 0, 0}, of.planes,
            lines + of.padding_rows * PITCH + of.padding_columns + SHIFT);
#else
        const Window window = {first, of.count - first, (IS_ALONG ? 0 : row) - of.padding_rows,
                               column - of.padding_columns - SHIFT};
        copy_lines<LINES, COLUMNS, PITCH, PIECE>(from, window, of.planes, lines);
#endif
    };
#ifdef WHOLE
    clear(buffer(0), 2 * of.planes * LINES * PITCH);
    barrier();
#endif
    if (part < of.turns) copy(part, buffer(0));
    end_group();
    make_matrices(of.w + channel * FILTER_ROWS * FILTER_COLUMNS, shared);
    for (int which = part, turn = 0; which < of.turns; which += of.parts, turn ^= 1) {
        if (which + of.parts < of.turns) copy(which + of.parts, buffer(turn ^ 1));
        end_group();
        wait_for_groups<1>();
        barrier();
        const int rest = of.count - first_of(which), planes = rest < of.planes ? rest : of.planes;
        for (int task = WARP; task < planes * DOWN * RIGHT; task += WARPS) {
            const int right = task % RIGHT * COLUMN_TILES * 8, down = task / RIGHT % DOWN * 16;
            const int plane = task / RIGHT / DOWN;
            const float bias = of.bias ? to_float(of.bias[channel]) : 0;
            Sums sums;
#pragma unroll
            for (int tile = 0; tile < COLUMN_TILES; tile++)
#pragma unroll
                for (int i = 0; i < 4; i++) sums[tile][i] = bias;
            add(buffer(turn) + plane * LINES * PITCH + down * ROW_STEP + right, shared, sums);
            const ChannelPlanes to = {of.out, of.channels, channel, of.out_height, of.out_width};
            const int row = row_of(which) + down, column = column_of(which) + right;
            Element *const result = of.out + to.place(first_of(which) + plane) * of.out_height * of.out_width;
            if (COLUMN_TILES >= 3 && of.beta == 0) write_together(of, result, row, column, sums);
            else write(of, result, row, column, sums);
        }
        barrier();
    }
}
