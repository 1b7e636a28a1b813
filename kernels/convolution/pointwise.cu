// A convolution by filters of 1 x 1, or its input's gradient, of tensors as NCHW stores them, on the tensor cores of
// warpgroups, with no workspace:
//
//   out[n][m][p] = alpha * sum over d of v[m][d] * in[n][d][p] + beta * out[n][m][p]
//
// over the pixels p of an image; v is the filter w[m][d], or for an input's gradient w[d][m].
//
// Pixels come in groups of 8, the last of an image may be a part of one, and groups of all images follow each other. A
// block has ROW_TILE channels m and GROUP_TILE groups. It goes through the channels d, 64 at a time: filters and images
// stand in shared memory as `common/warpgroup.cuh` says, and STAGES of them are there at once.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; GRADIENT for a gradient; ROW_WARPGROUPS, 2, or 1 where two warpgroups
// share out the pixels; STAGES; and ACCESS, the elements of a copy of images, which divides an image's pixels: 8, 4, 2,
// or 1. `depth` and, of a gradient, `rows` are multiples of 8. Grid: a block for each tile. Dynamic shared memory: 1024
// bytes, and STAGES of `Stage`.

#define THREADS 256
#define MULTIPROCESSOR_BLOCKS 2
#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tiles.cuh"
#include "common/warpgroup.cuh"

constexpr int GROUP = 8, COLUMN_WARPGROUPS = THREADS / WARPGROUP / ROW_WARPGROUPS;
constexpr int ROW_TILE = 64 * ROW_WARPGROUPS, COLUMN_TILE = 128 * COLUMN_WARPGROUPS, GROUP_TILE = COLUMN_TILE / GROUP;
// The channels of a stage, and its lines: of filters, and of 64 pixels each.
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

struct Pointwise {
    const Element *w, *in;
    Element *out;
    // Images, channels d, channels m, and pixels.
    int images, depth, rows, pixels;
    float alpha, beta;
};

// Eight neighbouring elements.
union alignas(16) Eight {
    uint4 all;
    unsigned words[4];
    Element each[8];
    __device__ __forceinline__ Eight() {}
};

// A group of pixels: its image, and its first pixel. Behind the last image there are none.
struct Group {
    int image, pixel;

    __device__ __forceinline__ Group(const Pointwise &of, int group) {
        const int in_image = tiles_of(of.pixels, GROUP);
        image = group / in_image;
        pixel = group % in_image * GROUP;
    }
    __device__ __forceinline__ bool is_there(const Pointwise &of) const { return image < of.images; }
};

// Begins to copy filters, from channel `first` of the depth on. Those behind the last channel become zero.
__device__ __forceinline__ void copy_filters(const Pointwise &of, int row, int first, unsigned char *to) {
#ifdef GRADIENT
    // A line has 64 rows at one depth.
    for (int i = threadIdx.x; i < DEPTH * ROW_TILE / 8; i += THREADS) {
        const int piece = i % (ROW_TILE / 8), d = i / (ROW_TILE / 8), m = row + piece * 8;
        const bool is_there = first + d < of.depth && m < of.rows;
        copy_async<16>(to + piece / 8 * APART + piece_of(d, piece % 8),
                       of.w + (is_there ? (long long)(first + d) * of.rows + m : 0), is_there);
    }
#else
    // A line has 64 channels of a row.
    for (int i = threadIdx.x; i < ROW_TILE * DEPTH / 8; i += THREADS) {
        const int piece = i % (DEPTH / 8), line = i / (DEPTH / 8), m = row + line, d = first + piece * 8;
        const bool is_there = m < of.rows && d < of.depth;
        copy_async<16>(to + piece_of(line, piece), of.w + (is_there ? (long long)m * of.depth + d : 0), is_there);
    }
#endif
}

// Eight elements from anywhere in a tensor of a multiple of 8 elements, by whole reads of 16 bytes.
__device__ __forceinline__ uint4 unaligned(const Element *tensor, long long at, long long elements) {
    const long long begin = at / 8 * 8;
    const int by = int(at % 8);
    const uint4 low = *reinterpret_cast<const uint4 *>(tensor + begin);
    uint4 high = {0, 0, 0, 0};
    if (by > 0 && begin + 8 < elements) high = *reinterpret_cast<const uint4 *>(tensor + begin + 8);
    unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; i++) words[i] = by & 4 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; i++) words[i] = by & 2 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = by & 1 ? words[i] >> 16 | words[i + 1] << 16 : words[i];
    return {words[0], words[1], words[2], words[3]};
}

// Begins to copy images, from channel `first` of the depth on. What is behind the last channel or image becomes zero;
// what is behind the last pixel of an image is arbitrary, and nobody uses it.
__device__ __forceinline__ void copy_images(const Pointwise &of, const Group &group, int first, unsigned char *to) {
    const int column = threadIdx.x % GROUP_TILE;
    unsigned char *const lines = to + column / 8 * APART;
    const long long elements = (long long)of.images * of.depth * of.pixels;
#pragma unroll
    for (int i = 0; i < DEPTH * GROUP_TILE / THREADS; i++) {
        const int d = threadIdx.x / GROUP_TILE + i * (THREADS / GROUP_TILE);
        const bool is_there = group.is_there(of) && first + d < of.depth;
        const long long at = ((long long)group.image * of.depth + first + d) * of.pixels + group.pixel;
        unsigned char *const piece = lines + piece_of(d, column % 8);
#if ACCESS == 1
        uint4 eight = {0, 0, 0, 0};
        if (is_there) eight = unaligned(of.in, at, elements);
        *reinterpret_cast<uint4 *>(piece) = eight;
#else
#pragma unroll
        for (int part = 0; part < GROUP; part += ACCESS) {
            // Behind the last pixel of the last image, the tensor may end.
            const bool is_inside = is_there && (ACCESS == GROUP || at + part < elements);
            copy_async<ACCESS * sizeof(Element)>(piece + part * sizeof(Element), of.in + (is_inside ? at + part : 0),
                                                 is_inside);
        }
#endif
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

// Where a row's pixels of a group go.
__device__ __forceinline__ Element *place_of(const Pointwise &of, const Group &group, int row) {
    return of.out + ((long long)group.image * of.rows + row) * of.pixels + group.pixel;
}

// Writes a row's pixels of a group.
__device__ __forceinline__ void write_group(const Pointwise &of, const Group &group, int row, const Eight &eight) {
    struct alignas(ACCESS * sizeof(Element)) Part { Element each[ACCESS]; };
    if (!group.is_there(of) || row >= of.rows) return;
    Element *const to = place_of(of, group, row);
#pragma unroll
    for (int part = 0; part < GROUP; part += ACCESS) {
        if (group.pixel + part >= of.pixels) break;
        Part values;
#pragma unroll
        for (int i = 0; i < ACCESS; i++) values.each[i] = eight.each[part + i];
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
__device__ __forceinline__ void write_sums(const Pointwise &of, int first_row, int first_group, const float (&sums)[64]) {
    const int row = first_row + int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4, lane = LANE % 4;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
        if (of.beta == 0) {
            const Group group(of, first_group + j + lane);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                Eight eight;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float *const pair = sums + 4 * (j + k) + 2 * i;
                    eight.words[k] = to_element(of.alpha * pair[0]).bits |
                                     unsigned(to_element(of.alpha * pair[1]).bits) << 16;
                }
                exchange_pairs(eight.words);
                write_group(of, group, row + 8 * i, eight);
            }
        } else {
            // Sums onto what is there are rare.
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const Group group(of, first_group + j + k);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int m = row + i / 2 * 8, pixel = lane * 2 + i % 2;
                    if (!group.is_there(of) || m >= of.rows || group.pixel + pixel >= of.pixels) continue;
                    Element &to = place_of(of, group, m)[pixel];
                    to = to_element(of.alpha * sums[4 * (j + k) + i] + of.beta * to_float(to));
                }
            }
        }
    }
}

KERNEL(pointwise, Pointwise) {
    SHARED(unsigned char, memory);
    // Lines are mixed by their addresses.
    Stage *const stages = reinterpret_cast<Stage *>((reinterpret_cast<size_t>(memory) + 1023) / 1024 * 1024);
    const Pointwise &of = parameters;
    // Blocks with the same pixels are neighbours, so they run together.
    const int row_tiles = tiles_of(of.rows, ROW_TILE), row = int(blockIdx.x) % row_tiles * ROW_TILE;
    const int first_group = int(blockIdx.x) / row_tiles * GROUP_TILE;
    const Group group(of, first_group + int(threadIdx.x) % GROUP_TILE);
    const auto copy = [&](int first, Stage &stage) {
        copy_filters(of, row, first, stage.w);
        copy_images(of, group, first, stage.x);
    };
    WarpgroupSums sums;
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead * DEPTH < of.depth) copy(ahead * DEPTH, stages[ahead]);
        end_group();
    }
    int at_hand = 0, ahead = STAGES - 1;
    for (int first = 0; first < of.depth; first += DEPTH) {
        wait_for_groups<STAGES - 2>();
        show_copies();
        // The products of the stage before have been added, and its memory is free, behind the barrier for all threads.
        sums.wait_for_groups<0>();
        barrier();
        add_stage(stages[at_hand], sums);
        const int next = first + (STAGES - 1) * DEPTH;
        if (next < of.depth) copy(next, stages[ahead]);
        end_group();
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }
    sums.wait_for_groups<0>();
    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    write_sums(of, row + warpgroup % ROW_WARPGROUPS * 64, first_group + warpgroup / ROW_WARPGROUPS * 16, sums.of);
}
