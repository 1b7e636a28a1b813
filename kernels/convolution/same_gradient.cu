// The gradient of the filter of a convolution whose result has the size of its input, or of a 1x1 filter with strides,
// from tensors as NCHW stores them, on the tensor cores of warpgroups, with no workspace:
//
//   dw[m][d][t] = alpha * sum over n, p of dy[n][m][p] * x[n][d][neighbour of p at t] + beta * dw[m][d][t]
//
// over the images n and their pixels p, for the places t of a filter of FILTER x FILTER; neighbours outside of the
// image are zero. With strides, p's only neighbour is the pixel of the larger x that the filter strides to. A cluster
// of CLUSTER blocks has ROW_TILE channels m of dy, and COLUMN_TILE columns: all d and t, as dw[m] has them. Its blocks
// share out the groups of pixels, eight at a time: dy and x stand in shared memory as `common/warpgroup.cuh` says, and
// STAGES of them are there at once. In the end the blocks' sums meet in shared memory.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; STRIDE if it is not 1; ROW_WARPGROUPS, 2, or 1 where two
// warpgroups share out the columns; CLUSTER, a power of two up to 16; STAGES; and ACCESS. Grid: a cluster for each
// tile. Dynamic shared memory: STAGES of `Stage`, and an Mbarrier.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#define MULTIPROCESSOR_BLOCKS 2
#include "common/cluster.cuh"
#include "convolution/neighbours.cuh"
#include "convolution/stages.cuh"

constexpr int ROW_TILE = 64 * ROW_WARPGROUPS, COLUMN_TILE = 128 * (THREADS / WARPGROUP / ROW_WARPGROUPS);
// The groups of a stage: a line has their pixels of a channel.
constexpr int GROUPS = LINE / GROUP;
constexpr int DY_BYTES = ROW_TILE * LINE_BYTES, X_BYTES = COLUMN_TILE * LINE_BYTES;

struct Stage {
    unsigned char dy[DY_BYTES], x[X_BYTES];
};

// A thread's sums, four at a time.
constexpr int QUADS = 64 / 4;
static_assert(QUADS % CLUSTER == 0, "each block gets as many");
constexpr int RECEIVED_BYTES = QUADS * THREADS * int(sizeof(float4));
static_assert(RECEIVED_BYTES <= STAGES * int(sizeof(Stage)), "stages make room for the sums");

struct SameGradient {
    const Element *x, *dy;
    Element *dw;
    // Those of dy, and those of x.
    Images images, from;
    // Channels m of dy, and channels d of x.
    int rows, channels;
    float alpha, beta;
};

// Begins to copy a group of each row of dy, from `first` on. Rows behind the last are zero.
__device__ __forceinline__ void copy_dy(const SameGradient &of, const Group &group, int first, unsigned char *to) {
    const long long elements = of.images.elements(of.rows);
#pragma unroll
    for (int i = 0; i < ROW_TILE * GROUPS / THREADS; i++) {
        const int line = threadIdx.x / GROUPS + i * (THREADS / GROUPS), m = first + line;
        copy_group(to + piece_of(line, threadIdx.x % GROUPS), of.dy, elements, group.place(of.images, of.rows, m),
                   m < of.rows ? group.count : 0);
    }
}

// Likewise for the neighbours of its pixels, of each column.
__device__ __forceinline__ void copy_x(const SameGradient &of, const Group &group, int first, unsigned char *to) {
#if STRIDE > 1
    const Strides strides(of.images, group, of.from.width);
#else
    const Neighbours neighbours(of.images, group);
#endif
    // More at once would not fit into registers.
#pragma unroll 2
    for (int i = 0; i < COLUMN_TILE * GROUPS / THREADS; i++) {
        const int line = threadIdx.x / GROUPS + i * (THREADS / GROUPS);
        unsigned char *const its = to + piece_of(line, threadIdx.x % GROUPS);
#if STRIDE > 1
        copy_strides(its, of.x, of.from, of.channels, group, strides, first + line);
#else
        copy_neighbours(its, of.x, of.images, of.channels, group, neighbours, first + line);
#endif
    }
}

// The stage's products of a warpgroup.
__device__ __forceinline__ void add_stage(const Stage &stage, int rows, int columns, WarpgroupSums &sums) {
    const unsigned char *const dy = stage.dy + rows * LINE_BYTES, *const x = stage.x + columns * LINE_BYTES;
    sums.begin();
#pragma unroll
    for (int p = 0; p < LINE; p += DEPTH_OF_PRODUCT) {
        const int along = p * int(sizeof(Element));
        sums.add<ALONG, ALONG>(factor_at<ALONG>(dy + along, 0), factor_at<ALONG>(x + along, 0));
    }
    sums.end_group();
}

// dw = alpha * sum + beta * dw, of the sums of a quad: a thread's two columns in two rows.
__device__ __forceinline__ void write_quad(const SameGradient &of, int row, int column, const float4 &quad) {
    const float sums[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int m = row + i / 2 * 8, its = column + i % 2, columns = of.channels * PLACES;
        if (m >= of.rows || its >= columns) continue;
        Element &dw = of.dw[(long long)m * columns + its];
        const float sum = of.alpha * sums[i];
        dw = to_element(of.beta == 0 ? sum : sum + of.beta * to_float(dw));
    }
}

KERNEL(same_gradient, SameGradient) {
    SHARED(Stage, stages);
    const SameGradient &of = parameters;
    const int rank = int(blockIdx.x) % CLUSTER, tile = int(blockIdx.x) / CLUSTER;
    // Clusters with the same rows of dy are neighbours, so they run together.
    const int column_tiles = tiles_of(of.channels * PLACES, COLUMN_TILE);
    const int first_row = tile / column_tiles * ROW_TILE, first_column = tile % column_tiles * COLUMN_TILE;
    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    const int rows = warpgroup % ROW_WARPGROUPS * 64, columns = warpgroup / ROW_WARPGROUPS * 128;
#if CLUSTER > 1
    Mbarrier &arrived = *reinterpret_cast<Mbarrier *>(stages + STAGES);
    if (threadIdx.x == 0) arrived.initialize(1);
#endif
    // The block's stages, of all.
    const int all = tiles_of(of.images.count * tiles_of(of.images.pixels(), GROUP), GROUPS);
    const int share = tiles_of(all, CLUSTER);
    const int begin = min(rank * share, all), end = min(begin + share, all);
    const auto copy = [&](int which, Stage &stage) {
        const Group group(of.images, which * GROUPS + int(threadIdx.x) % GROUPS);
        copy_dy(of, group, first_row, stage.dy);
        copy_x(of, group, first_column, stage.x);
    };
    WarpgroupSums sums;
    add_stages(stages, begin, end, sums, copy, [&](const Stage &stage) { add_stage(stage, rows, columns, sums); });
    const int row = first_row + rows + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    const int column = first_column + columns + int(LANE) % 4 * 2;
    const auto quad_of = [&](int j) {
        return make_float4(sums.of[4 * j], sums.of[4 * j + 1], sums.of[4 * j + 2], sums.of[4 * j + 3]);
    };
#if CLUSTER > 1
    // Each quad goes to one of the blocks, which adds up the blocks' quads in the blocks' order. No block needs its
    // stages any more, whose memory receives the quads.
    float4 *const received = reinterpret_cast<float4 *>(stages);
    cluster_sync();
    if (threadIdx.x == 0) arrived.expect(RECEIVED_BYTES);
#pragma unroll
    for (int j = 0; j < QUADS; j++)
        send(quad_of(j), received + (j / CLUSTER * CLUSTER + rank) * THREADS + threadIdx.x, arrived, j % CLUSTER);
    Spin spin;
    while (!arrived.has_ended(0)) spin.again();
#pragma unroll 1
    for (int i = 0; i < QUADS / CLUSTER; i++) {
        float4 sum = {0, 0, 0, 0};
        for (int block = 0; block < CLUSTER; block++) {
            const float4 part = received[(i * CLUSTER + block) * THREADS + threadIdx.x];
            sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
        write_quad(of, row, column + 8 * (i * CLUSTER + rank), sum);
    }
#else
#pragma unroll
    for (int j = 0; j < QUADS; j++) write_quad(of, row, column + 8 * j, quad_of(j));
#endif
}
