// The gradient of the filter of a convolution of volumes whose result has the size of its input, by a filter of
// 3 x 3 x 3, from tensors as NCDHW stores them, on the tensor cores of warpgroups:
//
//   dw[m][c][s][t] = alpha * sum over n, z, p of dy[n][m][z + 1 - s][p] * x[n][c][z][neighbour of p at t]
//                    + beta * dw[m][c][s][t]
//
// over the images n, the slices z of x and their pixels p, for the slices s and the places t of the filter; neighbours
// and slices outside of the volume are zero.
//
// A block has CHANNELS_TILE channels m and as many c, and all places of their filters. It has strips of TILE
// neighbouring pixels, and goes through the slices of each, as in `rolling.cu`. A slice of x meets the slice of dy before
// it, its own and the one behind. Two warpgroups read them and turn them into lines in shared memory: the channels of a
// pixel, as `common/warpgroup.cuh` says. The other two multiply: products have the channels c at two places of the
// filter as rows, and the channels m of three slices of dy as columns. The pixels are their depth. So the sums of all
// places of the filter stay in registers.
//
// The strips' slices of all volumes follow each other, and blocks of the same channels share them out in equal parts.
// The parts' sums meet in the workspace, and `sum_up` adds them up.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; VOLUMES; SLICES and FILTER of 3; and ACCESS. The channels are
// multiples of 8. Grid: for each part a block for each tile; of `sum_up`, a thread for each element of dw. Dynamic shared
// memory: X_STAGES of `lines` lines of x; DY_PLACES of TILE lines of dy; two Mbarriers for each stage; and a `Source` for
// each group of pixels of a strip, of x and of dy. `lines` is a multiple of 8.

#define KINDS_OF_WARPS
#define BLOCK_THREADS 512
#define THREADS BLOCK_THREADS
#define MULTIPROCESSOR_BLOCKS 1
#define SHARED_ALIGNMENT 1024
#define LINE_NUMBERS 32
#include "convolution/rolling.cuh"
#include "convolution/sum_up.cuh"

constexpr int CHANNELS_TILE = LINE, COLUMNS = SLICES * CHANNELS_TILE;
constexpr int X_STAGES = 2;
// The slices of dy that are there at once: three that are multiplied, and the next. The first SLICES - 1 stand behind
// the last again, so that any three that follow each other are as far apart.
constexpr int DY_SLICES = SLICES + 1, DY_PLACES = DY_SLICES + SLICES - 1;
constexpr int DY_BYTES = TILE * LINE_BYTES;
// The registers of a thread in the warpgroup with more places, in the one with fewer, and in those that read.
constexpr int MOST_REGISTERS = 184, FEWER_REGISTERS = 136, READER_REGISTERS = 96;
// The pairs of places in a slice. The last has one place twice.
constexpr int PAIRS = (IN_SLICE + 1) / 2, FIRST_PAIRS = (PAIRS + 1) / 2;

struct RollingGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    Images images;
    // Channels m and c.
    int rows, channels;
    // The pixels of a row with the zeros behind it; the lines of a stage; and the parts.
    int width, lines, parts;
    float alpha, beta;
};

// The shared memory.
struct Memory {
    unsigned char *x, *dy;
    int stage_bytes;
    StageRing stages;
    Source *x_sources, *dy_sources;

    __device__ __forceinline__ Memory(const RollingGradient &of, unsigned char *memory)
        : x(memory), dy(x + X_STAGES * of.lines * LINE_BYTES), stage_bytes(of.lines * LINE_BYTES),
          stages(dy + DY_PLACES * DY_BYTES, X_STAGES), x_sources(static_cast<Source *>(stages.end())),
          dy_sources(x_sources + of.lines / GROUP + 2) {}
    __device__ __forceinline__ unsigned char *stage() const { return x + stages.stage * stage_bytes; }
    // The first place of a slice of dy.
    __device__ __forceinline__ unsigned char *dy_at(int slice) const {
        return dy + (slice + DY_SLICES) % DY_SLICES * DY_BYTES;
    }
};

// What a block has.
struct Tile {
    int m, c, part;

    __device__ __forceinline__ explicit Tile(const RollingGradient &of) {
        const int across = tiles_of(of.channels, CHANNELS_TILE), tiles = across * tiles_of(of.rows, CHANNELS_TILE);
        const int tile = int(blockIdx.x) % tiles;
        m = tile / across * CHANNELS_TILE, c = tile % across * CHANNELS_TILE, part = int(blockIdx.x) / tiles;
    }
};

// Fills the memory with the slices of a run.
__device__ __forceinline__ void fill_stages(const RollingGradient &of, const Tile &tile, const Run &run, int x_groups,
                                            int dy_groups, Memory &memory) {
    StageRing &stages = memory.stages;
    int next = run.begin - 1;
    for (int slice = run.begin; slice < run.end; slice++) {
        const auto wait = [&] { stages.wait_until_empty(); };
        const auto write_x = [&](const Source &source, int quad, const Piece &piece) {
            write_piece(source, quad, piece, memory.stage());
        };
        read_slice(of.x, of.images, of.channels, tile.c, run.volume, slice, memory.x_sources, x_groups, wait, write_x);
        // The products of the slice before the last are done, and so the place of the first slice of dy that it met is
        // free.
        for (; next <= slice + 1; next++) {
            unsigned char *const to = memory.dy_at(next);
            const bool is_twice = to < memory.dy + (SLICES - 1) * DY_BYTES;
            const auto write_dy = [&](const Source &source, int quad, const Piece &piece) {
                write_piece(source, quad, piece, to);
                if (is_twice) write_piece(source, quad, piece, to + DY_SLICES * DY_BYTES);
            };
            read_slice(of.dy, of.images, of.rows, tile.m, run.volume, next, memory.dy_sources, dy_groups, [] {},
                       write_dy);
        }
        stages.pass_full();
    }
}

typedef SumsOf<COLUMNS> PairSums;

// Multiplies the slices of a run, for COUNT pairs of places from number FIRST on.
template <int FIRST, int COUNT>
__device__ __forceinline__ void multiply_run(const Padded &padded, const Run &run,
                                             Memory &memory, PairSums (&sums)[COUNT]) {
    for (int slice = run.begin; slice < run.end; slice++) {
        memory.stages.wait_until_full();
        const unsigned char *const x = memory.stage() + padded.halo() * LINE_BYTES;
        const Factor dy = factor_at<ACROSS>(memory.dy_at(slice - 1), DY_BYTES);
        Factor pairs[COUNT];
#pragma unroll
        for (int pair = 0; pair < COUNT; pair++) {
            const int place = 2 * (FIRST + pair), other = min(place + 1, IN_SLICE - 1);
            const int apart = Place(place).apart(padded.width);
            pairs[pair] = factor_at<ACROSS>(x + apart * LINE_BYTES,
                                            (Place(other).apart(padded.width) - apart) * LINE_BYTES);
            sums[pair].begin();
        }
#pragma unroll
        for (int p = 0; p < TILE; p += DEPTH_OF_PRODUCT)
#pragma unroll
            for (int pair = 0; pair < COUNT; pair++)
                sums[pair].template add<ACROSS, ACROSS>(later(pairs[pair], p * LINE_BYTES), later(dy, p * LINE_BYTES));
#pragma unroll
        for (int pair = 0; pair < COUNT; pair++) sums[pair].end_group();
#pragma unroll
        for (int pair = 0; pair < COUNT; pair++) sums[pair].template wait_for_groups<0>();
        memory.stages.pass_empty();
    }
}

// Puts the sums of a pair of places where they belong.
__device__ __forceinline__ void write_pair(const RollingGradient &of, const Tile &tile, int pair,
                                           const PairSums &sums) {
    const int row = int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    const long long elements = (long long)of.rows * of.channels * PLACES;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) {
        const int column = i / 4 * 8 + int(LANE) % 4 * 2 + i % 2, its_row = row + i / 2 % 2 * 8;
        const int place = 2 * pair + its_row / CHANNELS_TILE, s = SLICES - 1 - column / CHANNELS_TILE;
        const int m = tile.m + column % CHANNELS_TILE, c = tile.c + its_row % CHANNELS_TILE;
        if (place >= IN_SLICE || m >= of.rows || c >= of.channels) continue;
        const long long at = ((long long)m * of.channels + c) * PLACES + s * IN_SLICE + place;
        if (of.parts == 1)
            scale_into(of.dw[at], sums.of[i], of.alpha, of.beta);
        else
            of.sums[tile.part * elements + at] = sums.of[i];
    }
}

// Clears the memory and makes the sources for each of a block's runs, and calls work(run, groups of x, groups of dy). All
// threads come here.
template <typename Work>
__device__ __forceinline__ void for_runs(const RollingGradient &of, const Tile &tile, const Padded &padded,
                                         const Memory &memory, Work work) {
    for_runs_of(of.images, padded, tile.part, of.parts, [&](const Run &run) {
        clear(memory.x, X_STAGES * of.lines * LINE_BYTES + DY_PLACES * DY_BYTES);
        const int x_groups = make_sources(padded, of.channels, run.first - padded.halo(), of.lines, memory.x_sources);
        const int dy_groups = make_sources(padded, of.rows, run.first, TILE, memory.dy_sources);
        show_copies();
        barrier();
        work(run, x_groups, dy_groups);
        // All of the memory is free.
        barrier();
    });
}

template <int FIRST, int COUNT>
__device__ __forceinline__ void multiply(const RollingGradient &of, const Tile &tile, const Padded &padded,
                                         Memory &memory) {
    PairSums sums[COUNT];
    for_runs(of, tile, padded, memory,
             [&](const Run &run, int, int) { multiply_run<FIRST, COUNT>(padded, run, memory, sums); });
#pragma unroll
    for (int pair = 0; pair < COUNT; pair++) write_pair(of, tile, FIRST + pair, sums[pair]);
}

KERNEL(rolling_gradient, RollingGradient) {
    SHARED(unsigned char, shared);
    const RollingGradient &of = parameters;
    const Tile tile(of);
    const Padded padded = slice_of(of.images, of.width);
    Memory memory(of, shared);
    if (threadIdx.x == 0) memory.stages.initialize(READERS, MULTIPLYING_WARPS);
    barrier();
    if (int(threadIdx.x) < WARPGROUP) {
        more_registers<MOST_REGISTERS>();
        multiply<0, FIRST_PAIRS>(of, tile, padded, memory);
    } else if (int(threadIdx.x) < MULTIPLIERS) {
        more_registers<FEWER_REGISTERS>();
        multiply<FIRST_PAIRS, PAIRS - FIRST_PAIRS>(of, tile, padded, memory);
    } else {
        fewer_registers<READER_REGISTERS>();
        for_runs(of, tile, padded, memory, [&](const Run &run, int x_groups, int dy_groups) {
            fill_stages(of, tile, run, x_groups, dy_groups, memory);
        });
    }
}
