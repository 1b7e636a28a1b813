// A convolution whose result has the size of its input, or its input's gradient; or a convolution by a 1x1 filter with
// strides, of tensors as NCHW stores them, on the tensor cores of warpgroups, with no workspace:
//
//   out[n][m][p] = alpha * sum over d, t of v[m][d][t] * in[n][d][neighbour of p at t] + beta * out[n][m][p]
//
// over the channels d and the places t of a filter of FILTER x FILTER; neighbours outside of the image are zero. v is
// the filter w[m][d][t], or for an input's gradient w[d][m][PLACES - 1 - t]. With strides, p's only neighbour is the
// pixel of the larger input that the filter strides to.
//
// Pixels come in groups. A block has ROW_TILE channels m and GROUP_TILE groups. It goes through the depth, which is
// all d and t as w[m] has them, 64 at a time: filters and neighbours stand in shared memory as `common/warpgroup.cuh`
// says, and STAGES of them are there at once.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; STRIDE if it is not 1; GRADIENT for a gradient;
// ROW_WARPGROUPS, 2, or 1 where two warpgroups share out the pixels; STAGES; and ACCESS, of the result. The channels d
// and, of a gradient, m are multiples of 8. Grid: a block for each tile. Dynamic shared memory: STAGES of `Stage`, or
// results and their places if they are larger.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#define MULTIPROCESSOR_BLOCKS 2
#include "convolution/neighbours.cuh"
#if ACCESS < 4
#include "convolution/aligned_results.cuh"
#else
#include "convolution/group_results.cuh"
#endif
#include "convolution/stages.cuh"

constexpr int GROUP_TILE = COLUMN_TILE / GROUP;
// The depth of a stage, and its lines: of filters, and of 64 pixels each.
constexpr int DEPTH = 64;
constexpr int W_BYTES = ROW_TILE * DEPTH * int(sizeof(Element)), X_BYTES = COLUMN_TILE * DEPTH * int(sizeof(Element));
// From the lines of 64 pixels, or 64 rows, to those of the next 64.
constexpr int APART = DEPTH * LINE_BYTES;
#ifdef GRADIENT
constexpr Way W_WAY = ACROSS;
#else
constexpr Way W_WAY = ALONG;
#endif

struct Stage {
    unsigned char w[W_BYTES], x[X_BYTES];
};

struct SameConvolution {
    const Element *w, *in;
    Element *out;
    // Those of the result, and those of `in`.
    Images images, from;
    // d and m.
    int channels, rows;
    float alpha, beta;
};

// Begins to copy filters, from `first` of the depth on. Those behind the last become zero.
__device__ __forceinline__ void copy_filters(const SameConvolution &of, int row, int first, unsigned char *to) {
    const int depth = of.channels * PLACES;
#ifdef GRADIENT
    // A line has 64 rows at one depth. Neighbours in a line are PLACES apart in the filter, and neighbours in depth
    // one.
    for (int i = threadIdx.x; i < DEPTH * ROW_TILE / 8; i += THREADS) {
#if FILTER == 1
        const int piece = i % (ROW_TILE / 8), line = i / (ROW_TILE / 8);
#else
        const int piece = i / DEPTH, line = i % DEPTH;
#endif
        const int d = (first + line) / PLACES, place = (first + line) % PLACES, m = row + piece * 8;
        const bool is_there = d < of.channels && m < of.rows;
        unsigned char *const its = to + piece / 8 * APART + piece_of(line, piece % 8);
        const Element *const from = of.w + (is_there ? ((long long)d * of.rows + m) * PLACES + PLACES - 1 - place : 0);
#if FILTER == 1
        copy_async<16>(its, from, is_there);
#else
        Pixels rows;
        rows.all = {0, 0, 0, 0};
        if (is_there)
#pragma unroll
            for (int j = 0; j < 8; j++) rows.each[j] = from[j * PLACES];
        *reinterpret_cast<uint4 *>(its) = rows.all;
#endif
    }
#else
    // A line has 64 of the depth of a row.
    constexpr int PIECES = DEPTH / 8, LINES = THREADS / PIECES;
    const int piece = threadIdx.x % PIECES, line = threadIdx.x / PIECES, at = first + piece * 8;
    const Element *from = of.w + (long long)(row + line) * depth + at;
#pragma unroll
    for (int i = 0; i < ROW_TILE; i += LINES) {
        const bool is_there = row + line + i < of.rows && at < depth;
        copy_async<16>(to + piece_of(line, piece) + i * LINE_BYTES, is_there ? from : of.w, is_there);
        from += LINES * depth;
    }
#endif
}

#if STRIDE > 1
typedef Strides Sources;
#else
typedef Neighbours Sources;
#endif

// Likewise for neighbours of a group's pixels.
__device__ __forceinline__ void copy_images(const SameConvolution &of, const Group &group, const Sources &sources,
                                            int first, unsigned char *to) {
    constexpr int LINES = THREADS / GROUP_TILE;
    const int column = threadIdx.x % GROUP_TILE, line = threadIdx.x / GROUP_TILE;
    unsigned char *const its = to + column / 8 * APART + piece_of(line, column % 8);
#if FILTER == 1 && STRIDE == 1
    // At the only place of such a filter, pixels are their own neighbours.
    const long long elements = of.images.elements(of.channels);
    long long at = group.place(of.images, of.channels, first + line);
#endif
    // More at once would not fit into registers.
    constexpr int AT_ONCE = STRIDE > 1 ? 2 : DEPTH / LINES;
#pragma unroll AT_ONCE
    for (int i = 0; i < DEPTH; i += LINES) {
        static_assert(LINES % 8 == 0, "lines are mixed alike");
#if STRIDE > 1
        copy_strides(its + i * LINE_BYTES, of.in, of.from, of.channels, group, sources, first + line + i);
#elif FILTER == 1
        copy_group(its + i * LINE_BYTES, of.in, elements, at, first + line + i < of.channels ? group.count : 0);
        at += LINES * of.images.pixels();
#else
        copy_neighbours(its + i * LINE_BYTES, of.in, of.images, of.channels, group, sources, first + line + i);
#endif
    }
}

// The stage's products of a warpgroup.
__device__ __forceinline__ void add_stage(const Stage &stage, WarpgroupSums &sums) {
    const int warpgroup = threadIdx.x / WARPGROUP;
    const int rows = warpgroup % ROW_WARPGROUPS, columns = warpgroup / ROW_WARPGROUPS;
    const Factor w = factor_at<W_WAY>(stage.w + rows * APART, APART);
    const Factor x = factor_at<ACROSS>(stage.x + columns * 2 * APART, APART);
    sums.begin();
#pragma unroll
    for (int d = 0; d < DEPTH; d += DEPTH_OF_PRODUCT) {
        const int along = d * int(sizeof(Element)), across = d * LINE_BYTES;
        sums.add<W_WAY, ACROSS>(later(w, W_WAY == ALONG ? along : across), later(x, across));
    }
    sums.end_group();
}

KERNEL(same, SameConvolution) {
    SHARED(Stage, stages);
    const SameConvolution &of = parameters;
    // Blocks with the same pixels are neighbours, so they run together.
    const int row_tiles = tiles_of(of.rows, ROW_TILE), row = int(blockIdx.x) % row_tiles * ROW_TILE;
    const int first_group = int(blockIdx.x) / row_tiles * GROUP_TILE;
    const Group group(of.images, first_group + int(threadIdx.x) % GROUP_TILE);
#if STRIDE > 1
    const Sources sources(of.images, group, of.from.width);
#else
    const Sources sources(of.images, group);
#endif
    const auto copy = [&](int which, Stage &stage) {
        copy_filters(of, row, which * DEPTH, stage.w);
        copy_images(of, group, sources, which * DEPTH, stage.x);
    };
    WarpgroupSums sums;
    add_stages(stages, 0, tiles_of(of.channels * PLACES, DEPTH), sums, copy,
               [&](const Stage &stage) { add_stage(stage, sums); });
    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    const Results results = {of.out, of.images, of.rows, of.alpha, of.beta};
    const int rows = warpgroup % ROW_WARPGROUPS * 64, columns = warpgroup / ROW_WARPGROUPS * 128;
#if ACCESS < 4
    write_tile(results, Grouped(of.images), row, first_group * GROUP, rows, columns, sums.of, stages);
#else
    write_groups(results, row, first_group * GROUP, rows, columns, sums.of);
#endif
}
