// A convolution whose result has the size of its input, or its input's gradient, of tensors as NCHW stores them, on the
// tensor cores of warpgroups, with no workspace:
//
//   out[n][m][p] = alpha * sum over d, t of v[m][d][t] * in[n][d][neighbour of p at t] + beta * out[n][m][p]
//
// over the channels d and the places t of a filter of FILTER x FILTER; neighbours outside of the image are zero. v is
// the filter w[m][d][t], or for an input's gradient w[d][m][PLACES - 1 - t].
//
// Pixels come in groups. A block has ROW_TILE channels m and GROUP_TILE groups. It goes through the depth, which is
// all d and t as w[m] has them, 64 at a time: filters and neighbours stand in shared memory as `common/warpgroup.cuh`
// says, and STAGES of them are there at once.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; GRADIENT for a gradient; ROW_WARPGROUPS, 2, or 1 where two
// warpgroups share out the pixels; STAGES; and ACCESS. The channels d and, of a gradient, m are multiples of 8. Grid: a
// block for each tile. Dynamic shared memory: 1024 bytes, and STAGES of `Stage`.

#define THREADS 256
#define MULTIPROCESSOR_BLOCKS 2
#include "convolution/groups.cuh"
#include "convolution/stages.cuh"

constexpr int COLUMN_WARPGROUPS = THREADS / WARPGROUP / ROW_WARPGROUPS;
constexpr int ROW_TILE = 64 * ROW_WARPGROUPS, COLUMN_TILE = 128 * COLUMN_WARPGROUPS, GROUP_TILE = COLUMN_TILE / GROUP;
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
    Images images;
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
    for (int i = threadIdx.x; i < ROW_TILE * DEPTH / 8; i += THREADS) {
        const int piece = i % (DEPTH / 8), line = i / (DEPTH / 8), m = row + line, at = first + piece * 8;
        const bool is_there = m < of.rows && at < depth;
        copy_async<16>(to + piece_of(line, piece), of.w + (is_there ? (long long)m * depth + at : 0), is_there);
    }
#endif
}

// Likewise for neighbours of a group's pixels.
__device__ __forceinline__ void copy_images(const SameConvolution &of, const Group &group, const Neighbours &neighbours,
                                            int first, unsigned char *to) {
    const int column = threadIdx.x % GROUP_TILE;
#pragma unroll
    for (int i = 0; i < DEPTH * GROUP_TILE / THREADS; i++) {
        const int line = threadIdx.x / GROUP_TILE + i * (THREADS / GROUP_TILE);
        copy_neighbours(to + column / 8 * APART + piece_of(line, column % 8), of.in, of.images, of.channels, group,
                        neighbours, first + line);
    }
}

// The stage's products of a warpgroup.
__device__ __forceinline__ void add_stage(const Stage &stage, WarpgroupSums &sums) {
    const int warpgroup = threadIdx.x / WARPGROUP;
    const int rows = warpgroup % ROW_WARPGROUPS, columns = warpgroup / ROW_WARPGROUPS;
    const unsigned char *const w = stage.w + rows * APART, *const x = stage.x + columns * 2 * APART;
    sums.begin();
#pragma unroll
    for (int d = 0; d < DEPTH; d += DEPTH_OF_PRODUCT) {
        const int along = d * int(sizeof(Element)), across = d * LINE_BYTES;
        sums.add<W_WAY, ACROSS>(factor_at<W_WAY>(w + (W_WAY == ALONG ? along : across), APART),
                                factor_at<ACROSS>(x + across, APART));
    }
    sums.end_group();
}

// Writes a row's pixels of a group.
__device__ __forceinline__ void write_group(const SameConvolution &of, const Group &group, int row,
                                            const Pixels &pixels) {
    struct alignas(ACCESS * sizeof(Element)) Part { Element each[ACCESS]; };
    if (row >= of.rows) return;
    Element *const to = of.out + group.place(of.images, of.rows, row);
#pragma unroll
    for (int part = 0; part < GROUP; part += ACCESS) {
        if (part >= group.count) break;
        Part values;
#pragma unroll
        for (int i = 0; i < ACCESS; i++) values.each[i] = pixels.each[part + i];
        *reinterpret_cast<Part *>(to + part) = values;
    }
}

// Lane l of four has a pair of pixels, number l, of each of four groups. Afterwards it has all pairs of group l.
__device__ __forceinline__ void exchange_pairs(unsigned (&pairs)[4]) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool is_upper = LANE & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            unsigned &lower = pairs[i], &upper = pairs[i | bit];
            const unsigned received = warp_shuffle(is_upper ? lower : upper, int(LANE) ^ bit);
            (is_upper ? lower : upper) = received;
        }
    }
}

// Writes a warpgroup's sums: 64 rows and 16 groups.
__device__ __forceinline__ void write_sums(const SameConvolution &of, int first_row, int first_group,
                                           const float (&sums)[64]) {
    const int row = first_row + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4, lane = LANE % 4;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
        if (of.beta == 0) {
            const Group group(of.images, first_group + j + lane);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                Pixels pixels;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float *const pair = sums + 4 * (j + k) + 2 * i;
                    pixels.words[k] = to_element(of.alpha * pair[0]).bits |
                                     unsigned(to_element(of.alpha * pair[1]).bits) << 16;
                }
                exchange_pairs(pixels.words);
                write_group(of, group, row + 8 * i, pixels);
            }
        } else {
            // Sums onto what is there are rare.
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const Group group(of.images, first_group + j + k);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int m = row + i / 2 * 8, pixel = lane * 2 + i % 2;
                    if (m >= of.rows || pixel >= group.count) continue;
                    Element &to = of.out[group.place(of.images, of.rows, m) + pixel];
                    to = to_element(of.alpha * sums[4 * (j + k) + i] + of.beta * to_float(to));
                }
            }
        }
    }
}

KERNEL(same, SameConvolution) {
    SHARED(unsigned char, memory);
    const SameConvolution &of = parameters;
    // Blocks with the same pixels are neighbours, so they run together.
    const int row_tiles = tiles_of(of.rows, ROW_TILE), row = int(blockIdx.x) % row_tiles * ROW_TILE;
    const int first_group = int(blockIdx.x) / row_tiles * GROUP_TILE;
    const Group group(of.images, first_group + int(threadIdx.x) % GROUP_TILE);
    const Neighbours neighbours(of.images, group);
    const auto copy = [&](int which, Stage &stage) {
        copy_filters(of, row, which * DEPTH, stage.w);
        copy_images(of, group, neighbours, which * DEPTH, stage.x);
    };
    WarpgroupSums sums;
    add_stages(stages_in<Stage>(memory), 0, tiles_of(of.channels * PLACES, DEPTH), sums, copy,
               [&](const Stage &stage) { add_stage(stage, sums); });
    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    write_sums(of, row + warpgroup % ROW_WARPGROUPS * 64, first_group + warpgroup / ROW_WARPGROUPS * 16, sums.of);
}
