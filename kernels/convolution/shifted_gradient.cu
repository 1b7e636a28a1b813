// The gradient of a 3x3 filter of a convolution whose result has the size of its input, from tensors as NCHW stores
// them, on the tensor cores of warpgroups:
//
//   dw[m][d][r][s] = alpha * sum over n, p, q of dy[n][m][p][q] * x[n][d][p + r - 1][q + s - 1] + beta * dw[m][d][r][s]
//
// over the images n and their rows p and columns q; x is zero outside of the image.
//
// A stage has `rows` rows of `columns` pixels of dy, and of x the same pixels and their neighbours. They stand in
// shared memory in lines: 64 channels of a pixel, as `common/warpgroup.cuh` says. Rows count with one zero behind each,
// or with two if an image is wider than a stage, and images with one row of zeros behind each; so a pixel and its
// neighbour at r and s are equally many lines apart everywhere. (So a NaN or Inf beside a row's end reaches places that
// do not see it.) A block has 64 channels m of dy, 64 channels d of x, and one of `splits` shares of the stages. A
// warpgroup has the places of one row r of the filter. A product has 64 rows, m, and 192 columns, which are three times
// 64 channels d: those of s begin one line behind those of s - 1.
//
// The sums of several shares meet in the workspace, as sums[split][3 r + s][m][d] of whole tiles, and `add_splits` adds
// them up.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16. The channels m and d are multiples of 8, and so are the tensors.
// Grid: a block for each tile and split. Dynamic shared memory: two of a stage's lines, see `Lines`.

#define THREADS 384
#define SHARED_ALIGNMENT 1024
#define MULTIPROCESSOR_BLOCKS 1
#include "common/warpgroup.cuh"
#include "convolution/groups.cuh"

constexpr int SIDE = 3, PLACES = SIDE * SIDE, REACH = 1;
constexpr int TILE = 64;
// A thread reads four channels of a group of pixels at a time.
constexpr int CHANNELS = 4, QUADS = TILE / CHANNELS, SOURCES = THREADS / QUADS;

struct ShiftedGradient {
    const Element *x, *dy;
    Element *dw;
    float *sums;
    Images images;
    // The channels of dy and of x.
    int m, d;
    // The rows and columns of a stage, the stages in all, and the splits. The columns divide an image's.
    int rows, columns, stages, splits;
    float alpha, beta;
};

// The lines of a stage: of dy a whole number of products, and of x as many as these read.
struct Lines {
    // Whether an image is wider than a stage.
    bool is_wide;
    // From one row to the next; those of dy, and those of x.
    int row, dy, x;

    __device__ __forceinline__ explicit Lines(const ShiftedGradient &of)
        : is_wide(of.columns < of.images.width), row(of.columns + (is_wide ? 2 : 1) * REACH),
          dy(tiles_of(of.rows * row, DEPTH_OF_PRODUCT) * DEPTH_OF_PRODUCT),
          x(tiles_of(dy + 2 * row + 2, 8) * 8) {}
    __device__ __forceinline__ int bytes() const { return (dy + x) * LINE_BYTES; }
};

// Some channels of a group of a row.
struct Piece {
    Pixels channels[CHANNELS];
};

// Where a piece comes from, and where it goes.
struct Source {
    const Element *tensor;
    long long elements;
    // The piece's first number, if it is one of the tensor's; otherwise the piece is zero.
    long long at;
    bool is_there;
    // The line of the first pixel, the pixels, and those of them that lie in the image: from `begin` to `end`.
    int line, count, begin, end;
};

// `apart` is from one channel to the next.
__device__ __forceinline__ void read_piece(const Source &source, int apart, Piece &piece) {
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        piece.channels[k].all = {0, 0, 0, 0};
        const long long at = source.at + (long long)k * apart;
        if (source.is_there) piece.channels[k] = unaligned(source.tensor, source.elements, at);
    }
}

// Writes a piece, number `quad` of its lines.
__device__ __forceinline__ void write_piece(const Source &source, int quad, const Piece &piece, unsigned char *lines) {
    unsigned char *const to = lines + quad % 2 * sizeof(uint2);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
        uint2 channels;
        const unsigned halves = j % 2 ? 0x7632 : 0x5410;
        channels.x = __byte_perm(piece.channels[0].words[j / 2], piece.channels[1].words[j / 2], halves);
        channels.y = __byte_perm(piece.channels[2].words[j / 2], piece.channels[3].words[j / 2], halves);
        if (j < source.begin || j >= source.end) channels = {0, 0};
        if (j < source.count) *reinterpret_cast<uint2 *>(to + piece_of(source.line + j, quad / 2)) = channels;
    }
}

KERNEL(shifted_gradient, ShiftedGradient) {
    SHARED(unsigned char, memory);
    const ShiftedGradient &of = parameters;
    const Lines lines(of);
    // Blocks with the same pixels are neighbours, so they run together.
    const int d_tiles = tiles_of(of.d, TILE), tiles = tiles_of(of.m, TILE) * d_tiles;
    const int tile = int(blockIdx.x) % tiles, split = int(blockIdx.x) / tiles;
    const int first_m = tile / d_tiles * TILE, first_d = tile % d_tiles * TILE;
    const int share = tiles_of(of.stages, of.splits);
    const int begin = min(split * share, of.stages), end = min(begin + share, of.stages);
    const int pixels = of.images.pixels();
    for (int i = threadIdx.x * PIECE_BYTES; i < 2 * lines.bytes(); i += THREADS * PIECE_BYTES)
        *reinterpret_cast<uint4 *>(memory + i) = {0, 0, 0, 0};
    barrier();

    // A thread reads the same channels of every group that it has. Groups of x come first.
    const int quad = int(threadIdx.x) % QUADS, first_source = int(threadIdx.x) / QUADS;
    // In a wide image, pixels of x beside the columns are neighbours too.
    const int beside = lines.is_wide ? REACH : 0, x_columns = of.columns + 2 * beside;
    const int x_in_row = tiles_of(x_columns, GROUP), dy_in_row = tiles_of(of.columns, GROUP);
    const int x_groups = (of.rows + 2 * REACH) * x_in_row, groups = x_groups + of.rows * dy_in_row;
    const int strips = of.images.width / of.columns;
    const auto source_of = [&](int stage, int round) {
        const int index = round * SOURCES + first_source;
        const bool is_x = index < x_groups;
        const int group = index - (is_x ? 0 : x_groups), in_row = is_x ? x_in_row : dy_in_row;
        // From the first column.
        const int row = group / in_row, first = group % in_row * GROUP, column = first - (is_x ? beside : 0);
        const int its_column = stage % strips * of.columns + column;
        const int channels = is_x ? of.d : of.m, channel = (is_x ? first_d : first_m) + quad * CHANNELS;
        // The row of all images.
        const int at = stage / strips * of.rows + row - (is_x ? REACH : 0);
        const int image = at / (of.images.height + REACH), p = at % (of.images.height + REACH);
        Source source;
        source.tensor = is_x ? of.x : of.dy;
        source.elements = of.images.elements(channels);
        source.is_there = index < groups && at >= 0 && image < of.images.count && p < of.images.height &&
                          channel < channels;
        source.at = ((long long)image * channels + channel) * pixels + p * of.images.width + its_column;
        source.line = (is_x ? lines.dy + 1 : 0) + row * lines.row + column;
        source.count = index < groups ? min((is_x ? x_columns : of.columns) - first, GROUP) : 0;
        source.begin = -its_column;
        source.end = of.images.width - its_column;
        return source;
    };
    const auto read = [&](int stage, int round, Piece &piece) { read_piece(source_of(stage, round), pixels, piece); };
    const auto write = [&](int stage, int round, const Piece &piece) {
        write_piece(source_of(stage, round), quad, piece, memory + stage % 2 * lines.bytes());
    };
    constexpr int TOGETHER = 2;
    const auto copy = [&](int stage) {
        for (int round = 0; round * SOURCES < groups; round += TOGETHER) {
            Piece pieces[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) read(stage, round + i, pieces[i]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) write(stage, round + i, pieces[i]);
        }
    };

    const int r = int(threadIdx.x) / WARPGROUP;
    const Factor dy = factor_at<ACROSS>(memory, LINE_BYTES);
    const Factor x = factor_at<ACROSS>(memory + (lines.dy + r * lines.row) * LINE_BYTES, LINE_BYTES);
    SumsOf<SIDE * TILE> sums;
    if (begin < end) copy(begin);
    for (int stage = begin; stage < end; stage++) {
        show_copies();
        barrier();
        const int bytes = stage % 2 * lines.bytes();
        for (int line = 0; line < lines.dy; line += DEPTH_OF_PRODUCT) {
            sums.begin();
            sums.add<ACROSS, ACROSS>(later(dy, bytes + line * LINE_BYTES), later(x, bytes + line * LINE_BYTES));
        }
        sums.end_group();
        // Meanwhile the next stage's lines come, where nobody has read since the barrier.
        if (stage + 1 < end) copy(stage + 1);
        sums.wait_for_groups<0>();
    }

    const int row = first_m + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    const int m_lines = tiles_of(of.m, TILE) * TILE, d_lines = d_tiles * TILE;
#pragma unroll
    for (int j = 0; j < SIDE * TILE / 8; j++) {
        const int s = j * 8 / TILE, column = first_d + j * 8 % TILE + int(LANE) % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int m = row + 8 * i;
            const float2 pair = {sums.of[4 * j + 2 * i], sums.of[4 * j + 2 * i + 1]};
            if (of.splits > 1) {
                const long long place = ((long long)split * PLACES + r * SIDE + s) * m_lines + m;
                *reinterpret_cast<float2 *>(of.sums + place * d_lines + column) = pair;
            } else if (m < of.m && column < of.d) {
                Element *const to = of.dw + ((long long)m * of.d + column) * PLACES + r * SIDE + s;
                to[0] = to_element(of.alpha * pair.x + (of.beta == 0 ? 0 : of.beta * to_float(to[0])));
                to[PLACES] = to_element(of.alpha * pair.y + (of.beta == 0 ? 0 : of.beta * to_float(to[PLACES])));
            }
        }
    }
}

// A thread for each sum in a split, in whose order it adds them up.
KERNEL(add_splits, ShiftedGradient) {
    const ShiftedGradient &of = parameters;
    const int m_lines = tiles_of(of.m, TILE) * TILE, d_lines = tiles_of(of.d, TILE) * TILE;
    const int sums = PLACES * m_lines * d_lines, i = int(blockIdx.x) * THREADS + int(threadIdx.x);
    const int d = i % d_lines, m = i / d_lines % m_lines, place = i / (d_lines * m_lines);
    if (i >= sums || m >= of.m || d >= of.d) return;
    float sum = 0;
#pragma unroll 8
    for (int split = 0; split < of.splits; split++) sum += of.sums[(long long)split * sums + i];
    Element &to = of.dw[((long long)m * of.d + d) * PLACES + place];
    to = to_element(of.alpha * sum + (of.beta == 0 ? 0 : of.beta * to_float(to)));
}
