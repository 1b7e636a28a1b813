// A convolution in which each channel has filters of its own, and the gradient of its input, on tensor cores, as
// `toeplitz.cu` computes it, of many images: with strides and dilation of 1, filters of one slice, and few rows and
// columns of results.
//
// A product's 16 rows are the same 8 results of 16 images, and its depth is the 16 numbers of a row that these read. So
// what a warp reads once from shared memory is multiplied by the matrices of all rows of the filter, which the warp keeps
// in registers, with the sums of as many rows of results. A row that has been read ends one row of results, and begins
// another.
//
// A block takes strips of IMAGES planes of a channel, one after the other, in steps of ROWS rows. It copies the next
// steps while it multiplies. A step's results pass through shared memory, because those of a plane's neighbouring rows
// are neighbours.
//
// A tile's first column is `lead` to the left of a multiple of 8, where that aligns what it reads.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; PIECE, the numbers that are copied at once; ACCESS, those that are
// written at once; and what `image_rows.cuh` says. All else is a parameter, the columns of the filter too. Grid: a block
// for each channel and part. Dynamic shared memory: STAGES steps; then the results of two, `out_pitch` for each plane.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 3
#include "common/tiles.cuh"
#include "convolution/image_rows.cuh"
#include "convolution/scale.cuh"
#include "convolution/toeplitz_words.cuh"

struct ToeplitzImages {
    const Element *in, *w;
    // Null for none.
    const Element *bias;
    Element *out;
    // The channels of `out` and of `in`, and the filters of each channel of `in`.
    int channels, in_channels;
    Divisor each;
    // The planes of a channel in all images, their strips, the blocks that share these out, and the steps of one.
    int count, strips, parts, steps;
    // The slices of a channel, and the sizes of the planes of `in` and of `out`.
    Divisor slices;
    int height, width, out_height, out_width;
    // The zeros before the first row, and the first column that is read, beside the planes of `in` or in them.
    int before_rows, first_column;
    int filter_columns;
    // Set for the input's gradient.
    int is_turned_round;
    // The columns before the first that a product needs, and before the first result.
    int shift, lead;
    // From the results of a plane to the next one's in shared memory, and those of all planes; the pieces of ACCESS in a
    // plane's, and how many planes' the threads write at once.
    int out_pitch, staged;
    Divisor pieces;
    int at_once;
    float alpha, beta;
};

// The sums of a tile in a row, as warp_mma() has them.
typedef float Sums[4];

// The bits of two neighbouring numbers of a matrix's column: of a row of the filter, from a place on.
__device__ __forceinline__ unsigned matrix_word(const ToeplitzImages &of, const Element *row, int place) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int its = of.is_turned_round ? of.filter_columns - 1 - place - i : place + i;
        if (unsigned(its) < unsigned(of.filter_columns)) word |= bits_of(row[its]) << 16 * i;
    }
    return word;
}

// Where a lane's pair of results of a tile's rows is in shared memory.
struct TileResults {
    // That of a row, in the lane's first plane and 8 planes on, and how many numbers of it are in the plane.
    Element *low, *high;
    int count;

    __device__ __forceinline__ TileResults(const ToeplitzImages &of, Element *staged) {
        const int column = tile_of_warp() * 8 - of.lead + LANE % 4 * 2;
        low = staged + (image_of_warp() + LANE / 4) * of.out_pitch + column;
        high = low + 8 * of.out_pitch;
        count = column < 0 ? 0 : of.out_width - column;
    }

    // Brings the sums of a row into shared memory, or adds them to what is there.
    __device__ __forceinline__ void write(const ToeplitzImages &of, const Sums &sums) const {
        float scaled[4];
#pragma unroll
        for (int i = 0; i < 4; i++) scaled[i] = sums[i] * of.alpha;
        if (of.beta != 0) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (i % 2 < count) scaled[i] += of.beta * to_float((i < 2 ? low : high)[i % 2]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            Element *const to = i == 0 ? low : high;
            const unsigned word = word_of(scaled[2 * i], scaled[2 * i + 1]);
            if (ACCESS > 1) {
                if (count > 0) *reinterpret_cast<unsigned *>(to) = word;
            } else {
                if (count > 0) to[0] = element_of(word);
                if (count > 1) to[1] = element_of(word >> 16);
            }
        }
    }
};

// Calls `move(its place in shared memory, its place in the tensor)` for each piece of ACCESS results of a step, whose
// first row may be above the planes, and the last one below.
template <typename Move>
__device__ __forceinline__ void for_pieces(const ToeplitzImages &of, const ChannelPlanes &to, int first, int row,
                                           Element *staged, const Move &move) {
    typedef Elements<ACCESS> Piece;
    // A thread's pieces are at the same place in several planes.
    int piece = in_register(int(threadIdx.x));
    const int first_image = of.pieces.divide(piece);
    if (first_image >= of.at_once) return;
    const int size = in_register(of.out_height * of.out_width), begin = row * of.out_width;
    const int images = of.count - first < IMAGES ? of.count - first : IMAGES;
#pragma unroll 1
    for (; piece < of.pieces.value; piece += THREADS) {
        const int at = begin + piece * ACCESS;
        if (unsigned(at) >= unsigned(size)) continue;
        Element *its = staged + first_image * of.out_pitch + piece * ACCESS;
        Element *result = of.out + (to.place(first + first_image) * size + at);
#pragma unroll 2
        for (int image = first_image; image < images; image += of.at_once) {
            move(*reinterpret_cast<Piece *>(its), *reinterpret_cast<Piece *>(result));
            its += of.at_once * of.out_pitch;
#ifdef VOLUMES
            result = of.out + (to.place(first + image + of.at_once) * size + at);
#else
            result += of.at_once * static_cast<long long>(of.channels * size);
#endif
        }
    }
}

KERNEL(toeplitz_images, ToeplitzImages) {
    SHARED(Element, shared);
    const ToeplitzImages &of = parameters;
    const int channel = blockIdx.x, part = blockIdx.y;
    Element *const staged = shared + STAGES * STAGE;
    const ChannelPlanes from = {of.in, of.in_channels, of.each.quotient(channel), of.slices, of.height, of.width};
    const ChannelPlanes to = {of.out, of.channels, channel, of.slices, of.out_height, of.out_width};
    Step ahead = {part, 0};
    int stage_ahead = 0;
    const auto copy = [&] {
        if (ahead.strip < of.strips)
            copy_rows<PIECE, READ_COLUMNS>(from, ahead.strip * IMAGES, of.count, ahead.number * ROWS - of.before_rows,
                                           of.first_column, shared + stage_ahead * STAGE);
        end_group();
        ahead.advance(of.steps, of.parts);
        if (++stage_ahead == STAGES) stage_ahead = 0;
    };
#pragma unroll 1
    for (int i = 0; i + 1 < STAGES; i++) copy();
    unsigned matrices[FILTER_ROWS][2];
    const Element *const filter = of.w + channel * FILTER_ROWS * of.filter_columns;
#pragma unroll
    for (int r = 0; r < FILTER_ROWS; r++) {
        const Element *const row = filter + (of.is_turned_round ? FILTER_ROWS - 1 - r : r) * of.filter_columns;
        const int place = LANE % 4 * 2 - LANE / 4 - of.shift;
#pragma unroll
        for (int half = 0; half < 2; half++) matrices[r][half] = matrix_word(of, row, place + half * 8);
    }
    const float bias = of.bias ? to_float(of.bias[channel]) : 0;
    const TileResults tile(of, staged);
    const int begin_of_warp = image_of_warp() * IMAGE_PITCH + tile_of_warp() * 8;
    Sums sums[FILTER_ROWS];
    // Of the last step, whose results are written while the next ones are computed.
    typedef Elements<ACCESS> Piece;
    const auto write_last = [&](const Step &last, int turn) {
        for_pieces(of, to, last.strip * IMAGES, last.number * ROWS - (FILTER_ROWS - 1), staged + turn * of.staged,
                   [](const Piece &its, Piece &to) { to = its; });
    };
    Step last = {-1, 0};
    int stage = 0, turn = 0;
#pragma unroll 1
    for (Step step = {part, 0}; step.strip < of.strips; step.advance(of.steps, of.parts)) {
        wait_for_groups<STAGES - 2>();
        // Behind it all results of the last step are there, and nobody reads those before, or what it has multiplied.
        barrier();
        copy();
        if (last.strip >= 0) write_last(last, turn ^ 1);
        last = step;
        // The sums of a row of results begin when its first row is read. What others add up is never written.
#pragma unroll
        for (int r = 0; r < FILTER_ROWS; r++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (step.number == 0) sums[r][i] = bias;
        if (of.beta != 0) {
            for_pieces(of, to, step.strip * IMAGES, step.number * ROWS - (FILTER_ROWS - 1), staged + turn * of.staged,
                       [](Piece &its, const Piece &from) { its = from; });
            barrier();
        }
        const Element *const lines = shared + stage * STAGE + begin_of_warp;
        TileResults results = tile;
        results.low += turn * of.staged, results.high += turn * of.staged;
        unsigned halves[2][2][2];
        read_halves(lines, IMAGE_PITCH, halves[0][0], halves[0][1]);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            const auto &its = halves[row % 2];
            auto &next = halves[(row + 1) % 2];
            if (row + 1 < ROWS) read_halves(lines + (row + 1) * PITCH, IMAGE_PITCH, next[0], next[1]);
            const unsigned a[4] = {its[0][0], its[0][1], its[1][0], its[1][1]};
#pragma unroll
            for (int r = FILTER_ROWS - 1; r >= 0; r--) warp_mma(sums[(row + ROWS - r) % FILTER_ROWS], a, matrices[r]);
            Sums &ended = sums[(row + 1) % FILTER_ROWS];
            results.write(of, ended);
            results.low += of.out_width, results.high += of.out_width;
#pragma unroll
            for (int i = 0; i < 4; i++) ended[i] = bias;
        }
        if (++stage == STAGES) stage = 0;
        turn ^= 1;
    }
    if (last.strip < 0) return;
    barrier();
    write_last(last, turn ^ 1);
}
