// A convolution of images with few channels, such as a network's first layer, of tensors as NCHW stores them, on the
// tensor cores of warpgroups, with no workspace:
//
//   out[n][m][p][q] = alpha * sum over c, r, s of w[m][c][r][s] * in[n][c][p * STRIDE + r - PADDING][q * STRIDE + s -
//   PADDING] + beta * out[n][m][p][q]
//
// where `in` is zero outside of the image.
//
// Pixels of `out` come in groups. A block has ROW_TILE channels m and GROUP_TILE groups. A pixel needs FILTER
// neighbouring numbers of a row of `in`, for each c and r. PIECES pieces of 8 numbers hold them, and the filter has
// zeros for the numbers beside. With WORDS, the first piece begins SHIFT numbers earlier, at an even number, so it is
// read in words of two. 8 pieces at a time stand in shared memory, as `common/warpgroup.cuh` says, and STAGES times as
// many are there at once. A NaN or Inf beside a pixel's own numbers makes a NaN of its result.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER, STRIDE and PADDING; WORDS if the width and STRIDE are even;
// ROW_WARPGROUPS, 2, or 1 where two warpgroups share out the pixels; STAGES; and ACCESS, which divides an image's
// pixels of `out`: 8, 4, 2 or 1. Grid: a block for each tile. Dynamic shared memory: STAGES of `Stage`, or results and
// their places if they are larger.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#define MULTIPROCESSOR_BLOCKS 2
#if ACCESS < 4
#include "convolution/aligned_results.cuh"
#else
#include "convolution/group_results.cuh"
#endif
#include "convolution/stages.cuh"

constexpr int GROUP_TILE = COLUMN_TILE / GROUP;
#ifdef WORDS
constexpr int SHIFT = PADDING % 2;
#else
constexpr int SHIFT = 0;
#endif
constexpr int PIECES = (FILTER + SHIFT + 7) / 8;
// The pieces of a line.
constexpr int LINE_PIECES = LINE_BYTES / PIECE_BYTES;

struct Stage {
    unsigned char w[ROW_TILE * LINE_BYTES], x[COLUMN_TILE * LINE_BYTES];
};

struct FewChannels {
    const Element *w, *in;
    Element *out;
    // The images of `out`, and the size of those of `in`.
    Images images;
    int height, width;
    // c and m.
    int channels, rows;
    float alpha, beta;
};

// Where a piece's numbers come from.
struct Origin {
    int channel, row, column;

    __device__ __forceinline__ explicit Origin(int piece)
        : channel(piece / (FILTER * PIECES)), row(piece / PIECES % FILTER), column(piece % PIECES * 8 - SHIFT) {}
};

__device__ __forceinline__ void copy_filters(const FewChannels &of, int first_row, int first, unsigned char *to) {
#pragma unroll
    for (int i = 0; i < ROW_TILE * LINE_PIECES / THREADS; i++) {
        const int piece = threadIdx.x % LINE_PIECES, line = threadIdx.x / LINE_PIECES + i * (THREADS / LINE_PIECES);
        const Origin origin(first + piece);
        const int m = first_row + line;
        const bool is_there = m < of.rows && origin.channel < of.channels;
        const Element *const from = of.w + ((m * of.channels + origin.channel) * FILTER + origin.row) * FILTER;
        Pixels numbers;
        numbers.all = {0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int s = origin.column + j;
            if (is_there && s >= 0 && s < FILTER) numbers.each[j] = from[s];
        }
        *reinterpret_cast<uint4 *>(to + piece_of(line, piece)) = numbers.all;
    }
}

// A pixel of `out`: its place in `in`, where the filter begins.
struct Corner {
    // The image's first number in `in`; the pixel's first row and column, which may lie outside.
    const Element *image;
    int row, column;

    __device__ __forceinline__ Corner(const FewChannels &of, int index) {
        const Group group(of.images, index / GROUP);
        const int pixel = group.pixel + index % GROUP;
        image = of.in + (long long)min(group.image, of.images.count - 1) * of.channels * of.height * of.width;
        row = pixel / of.images.width * STRIDE - PADDING;
        column = pixel % of.images.width * STRIDE - PADDING;
        // A pixel that is not there sees zeros only.
        if (index % GROUP >= group.count) row = -FILTER - 1;
    }
};

__device__ __forceinline__ Pixels read_piece(const FewChannels &of, const Corner &corner, const Origin &origin) {
    const int row = corner.row + origin.row, column = corner.column + origin.column;
    const bool is_there = origin.channel < of.channels && row >= 0 && row < of.height;
    const Element *const from = corner.image + (is_there ? (origin.channel * of.height + row) * of.width : 0);
    Pixels numbers;
    numbers.all = {0, 0, 0, 0};
#ifdef WORDS
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (is_there && unsigned(column + 2 * j) < unsigned(of.width))
            numbers.words[j] = *reinterpret_cast<const unsigned *>(from + column + 2 * j);
#else
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (is_there && unsigned(column + j) < unsigned(of.width)) numbers.each[j] = from[column + j];
#endif
    return numbers;
}

__device__ __forceinline__ void copy_images(const FewChannels &of, const Corner &corner, int first, unsigned char *to) {
    constexpr int TOGETHER = THREADS / COLUMN_TILE;
    const int line = threadIdx.x % COLUMN_TILE;
    // More at once would not fit into registers.
#pragma unroll 4 / TOGETHER
    for (int i = 0; i < LINE_PIECES; i += TOGETHER) {
        const int piece = i + int(threadIdx.x) / COLUMN_TILE;
        *reinterpret_cast<uint4 *>(to + piece_of(line, piece)) = read_piece(of, corner, Origin(first + piece)).all;
    }
}

// The stage's products of a warpgroup.
__device__ __forceinline__ void add_stage(const Stage &stage, int row, int column, WarpgroupSums &sums) {
    const Factor w = factor_at<ALONG>(stage.w + row * LINE_BYTES, 0);
    const Factor x = factor_at<ALONG>(stage.x + column * LINE_BYTES, 0);
    sums.begin();
#pragma unroll
    for (int at = 0; at < LINE_BYTES; at += DEPTH_OF_PRODUCT * int(sizeof(Element)))
        sums.add<ALONG, ALONG>(later(w, at), later(x, at));
    sums.end_group();
}

KERNEL(few_channels, FewChannels) {
    SHARED(Stage, stages);
    const FewChannels &of = parameters;
    // Blocks with the same pixels are neighbours, so they run together.
    const int row_tiles = tiles_of(of.rows, ROW_TILE), first_row = int(blockIdx.x) % row_tiles * ROW_TILE;
    const int first_group = int(blockIdx.x) / row_tiles * GROUP_TILE;
    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    const int row = warpgroup % ROW_WARPGROUPS * 64, column = warpgroup / ROW_WARPGROUPS * 128;
    const Corner corner(of, first_group * GROUP + int(threadIdx.x) % COLUMN_TILE);
    const auto copy = [&](int which, Stage &stage) {
        copy_filters(of, first_row, which * LINE_PIECES, stage.w);
        copy_images(of, corner, which * LINE_PIECES, stage.x);
    };
    WarpgroupSums sums;
    add_stages(stages, 0, tiles_of(of.channels * FILTER * PIECES, LINE_PIECES), sums, copy,
               [&](const Stage &stage) { add_stage(stage, row, column, sums); });
    const Results results = {of.out, of.images, of.rows, of.alpha, of.beta};
#if ACCESS < 4
    write_tile(results, Grouped(of.images), first_row, first_group * GROUP, row, column, sums.of, stages);
#else
    write_groups(results, first_row, first_group * GROUP, row, column, sums.of);
#endif
}
