// Products of floats of many rows on the tensor cores of warpgroups, in parts of bfloat16.
//
// Two warpgroups have a tile of 128 by 128 sums, 64 rows each, and multiply. Two others read the factors' numbers, split them
// into their parts, and put these into stages in shared memory, which go round between them.
//
// A source defines BLOCK_THREADS, 512, KINDS_OF_WARPS, THREADS and SHARED_ALIGNMENT, 1024, before it includes this.
#pragma once

#include "common/bfloat16_parts.cuh"
#include "common/stage_ring.cuh"
#include "dynamic/level_products.cuh"
#include "dynamic/outer_products.cuh"

template <bool is_it> struct Is {
    static constexpr bool value = is_it;
};

// The sides of a tile, the depth of a stage, and the stages. Twins of the numbers in `crates/dynamic/src/batched/tiles.rs`.
#define WIDE_SIDE 128
#define WIDE_DEPTH 32
#define WIDE_STAGES 4

// The threads that multiply come first, then those that read.
constexpr int MULTIPLIERS = 2 * WARPGROUP, READERS = BLOCK_THREADS - MULTIPLIERS;
// The registers of a thread that reads, and of one that multiplies.
constexpr int READER_REGISTERS = 96, MULTIPLIER_REGISTERS = 2 * 128 - READER_REGISTERS;

__device__ __forceinline__ bool is_multiplier() { return int(threadIdx.x) < MULTIPLIERS; }
__device__ __forceinline__ int reader() { return int(threadIdx.x) - MULTIPLIERS; }

// Four numbers that follow each other, of which so many are there. Zeros take the place of others.
template <bool by_quads> __device__ __forceinline__ float4 four_at(const float *from, int count) {
    if (by_quads) return count > 0 ? *reinterpret_cast<const float4 *>(from) : make_float4(0, 0, 0, 0);
    const auto at = [&](int i) { return i < count ? from[i] : 0; };
    return make_float4(at(0), at(1), at(2), at(3));
}

// A factor's rows [count][depth], which are multiplied with each other along the depth. Of each stage a thread reads four
// numbers of two of 64 rows.
template <bool by_quads> struct RowsOfFactor {
    static constexpr Way WAY = ALONG;
    static constexpr int QUADS = WIDE_DEPTH / 4;
    const float *from[2]; // the thread's rows

    __device__ __forceinline__ RowsOfFactor(const float *matrix, int first, int count, int depth) {
#pragma unroll
        for (int i = 0; i < 2; ++i) from[i] = matrix + size_t(min(first + line(i), count - 1)) * depth;
    }

    // Threads that store together have lines four apart, whose pieces are in different banks.
    __device__ __forceinline__ static int line(int i) {
        const int number = reader() / QUADS;
        return i * 32 + number / 8 * 8 + number % 2 * 4 + number / 2 % 4;
    }
    // Of the stage from `k` on.
    __device__ __forceinline__ float4 read(int i, int k, int end) const {
        const int its = k + reader() % QUADS * 4;
        return four_at<by_quads>(from[i] + its, end - its);
    }
    // The place among lines of 64 depths.
    __device__ __forceinline__ static int place(int i, int half) {
        const int quad = half * QUADS + reader() % QUADS;
        return piece_of(line(i), quad / 2) + quad % 2 * 8;
    }
};

// A factor's columns [depth][count]: of each stage a thread reads four of 64 columns at two depths.
template <bool by_quads> struct ColumnsOfFactor {
    static constexpr Way WAY = ACROSS;
    static constexpr int QUADS = LINE / 4;
    const float *from; // the thread's columns of the first row
    int width, count;  // of a row, and of the columns that are there

    __device__ __forceinline__ ColumnsOfFactor(const float *matrix, int first, int width)
        : from(matrix + first + reader() % QUADS * 4), width(width), count(width - first - reader() % QUADS * 4) {}

    __device__ __forceinline__ static int line(int i) { return i * 16 + reader() / QUADS; }
    __device__ __forceinline__ float4 read(int i, int k, int end) const {
        const int row = k + line(i);
        return four_at<by_quads>(from + size_t(row) * width, row < end ? count : 0);
    }
    // The place among lines of 64 columns.
    __device__ __forceinline__ static int place(int i, int half) {
        const int quad = reader() % QUADS;
        return piece_of(half * WIDE_DEPTH + line(i), quad / 2) + quad % 2 * 8;
    }
};

// The stages of a tile. In a pair of stages, each of PARTS parts of the factors has four blocks of 64 lines: two of the first
// factor and two of the second. A stage is a half of all lines, ALONG the depth, or half of the lines, ACROSS it.
template <int PARTS> struct WideStages {
    static constexpr int BLOCKS = 2 * WIDE_SIDE / LINE, BLOCK_BYTES = LINE * LINE_BYTES, PART_BYTES = BLOCKS * BLOCK_BYTES;
    static constexpr int PAIR_BYTES = PARTS * PART_BYTES, BYTES = WIDE_STAGES / 2 * PAIR_BYTES;


    unsigned char *shared;
    StageRing ring;

    __device__ __forceinline__ explicit WideStages(unsigned char *shared)
        : shared(shared), ring(shared + BYTES, WIDE_STAGES) {
        if (threadIdx.x == 0) ring.initialize(READERS, MULTIPLIERS / 32);
        barrier();
    }

    __device__ __forceinline__ unsigned char *pair() const { return shared + ring.stage / 2 * PAIR_BYTES; }
    __device__ __forceinline__ int half() const { return ring.stage % 2; }

    // Fills stages with the numbers of the depths from `begin` to `end`: the readers' work.
    template <typename Factor>
    __device__ __forceinline__ void fill(const Factor (&factors)[BLOCKS], int begin, int end) {
        // With two, rows take more registers than there are.
        constexpr int AHEAD = Factor::WAY == ALONG ? 1 : 2;
        float4 next[AHEAD][BLOCKS][2];
        const auto read = [&](float4 (&to)[BLOCKS][2], int k) {
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
                for (int i = 0; i < 2; ++i) to[block][i] = factors[block].read(i, k, end);
        };
#pragma unroll
        for (int stage = 0; stage < AHEAD; ++stage) read(next[stage], begin + stage * WIDE_DEPTH);
#pragma unroll 1
        for (int first = begin; first < end; first += AHEAD * WIDE_DEPTH) {
#pragma unroll
            for (int stage = 0; stage < AHEAD; ++stage) {
                const int k = first + stage * WIDE_DEPTH;
                if (k >= end) break;
                ring.wait_until_empty();
#pragma unroll
                for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        put(pair() + block * BLOCK_BYTES + Factor::place(i, half()), next[stage][block][i]);
                ring.pass_full();
                read(next[stage], k + AHEAD * WIDE_DEPTH);
            }
        }
    }

  private:
    // Puts numbers' parts where tensor cores read them.
    __device__ __forceinline__ static void put(unsigned char *place, const float4 &numbers) {
        unsigned first[PARTS], second[PARTS];
        split_pair(numbers.x, numbers.y, first);
        split_pair(numbers.z, numbers.w, second);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            *reinterpret_cast<uint2 *>(place + part * PART_BYTES) = make_uint2(first[part], second[part]);
    }
};

// The sums of a tile that a multiplier has.
template <int PARTS> struct WideTile {
    using Stages = WideStages<PARTS>;
    float sums[WIDE_SIDE / 2] = {};

    __device__ __forceinline__ static int warpgroup() { return int(threadIdx.x) / WARPGROUP; }

    // Adds the products of the depths from `begin` to `end`, which readers fill in.
    template <Way WAY> __device__ __forceinline__ void multiply(Stages &stages, int begin, int end) {
        constexpr int OF_PRODUCT = DEPTH_OF_PRODUCT * (WAY == ALONG ? 2 : LINE_BYTES), STEPS = WIDE_DEPTH / DEPTH_OF_PRODUCT;
#pragma unroll 1
        for (int k = begin; k < end; k += WIDE_DEPTH) {
            SumsOf<WIDE_SIDE> of_stage;
            stages.ring.wait_until_full();
            const unsigned char *const stage = stages.pair() + stages.half() * STEPS * OF_PRODUCT;
            const auto a = factor_at<WAY>(stage + warpgroup() * Stages::BLOCK_BYTES, Stages::BLOCK_BYTES);
            const auto b = factor_at<WAY>(stage + Stages::BLOCKS / 2 * Stages::BLOCK_BYTES, Stages::BLOCK_BYTES);
            of_stage.begin();
            // Tensor cores round sums towards zero: the smallest products come first, and sums of a stage are added up
            // elsewhere.
#pragma unroll
            for (int product = first_product<PARTS>; product < 6; ++product) {
                const auto &of = products_of_parts[product];
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    of_stage.template add<WAY, WAY>(later(a, of[0] * Stages::PART_BYTES + step * OF_PRODUCT),
                                                    later(b, of[1] * Stages::PART_BYTES + step * OF_PRODUCT));
                }
            }
            of_stage.end_group();
            of_stage.template wait_for_groups<0>();
            stages.ring.pass_empty();
#pragma unroll
            for (int i = 0; i < WIDE_SIDE / 2; ++i) sums[i] += of_stage.of[i];
        }
    }

    // The row and the column, of the tile's, of a thread's sum and the next one: of every second number.
    __device__ __forceinline__ static int row_of(int number) {
        return warpgroup() * 64 + int(WARP) % 4 * 16 + int(LANE) / 4 + number / 2 % 2 * 8;
    }
    __device__ __forceinline__ static int column_of(int number) { return number / 4 * 8 + int(LANE) % 4 * 2; }

    // Calls each(row, column, sums) for the thread's sums, two neighbours at a time.
    template <typename Each> __device__ __forceinline__ void for_each(Each each) const {
#pragma unroll
        for (int i = 0; i < WIDE_SIDE / 2; i += 2) each(row_of(i), column_of(i), Neighbours{{sums[i], sums[i + 1]}});
    }
};

// Sums that the blocks of a cluster have of the same products lie apart so that the threads of a warp write to all banks.
constexpr int WIDE_PITCH = WIDE_SIDE + 8;

// Puts sums of a row from a column on among the products. Returns whether all are numbers.
template <int COUNT>
__device__ __forceinline__ bool put_products(const Products &all, int row, int column, const float (&sums)[COUNT]) {
    struct alignas(4 * COUNT) Together {
        float number[COUNT];
    };
    if (row >= all.rows) return true;
    float *const to = all.products + size_t(row) * all.columns + column;
    if (column + COUNT <= all.columns && size_t(to) % sizeof(Together) == 0) {
        *reinterpret_cast<Together *>(to) = reinterpret_cast<const Together &>(sums);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (column + i < all.columns) to[i] = sums[i];
    }
    bool are_numbers = true;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) are_numbers &= sums[i] == sums[i];
    return are_numbers;
}

// Sums up again what the thread has put there, `count` neighbours, and is no number.
__device__ __forceinline__ void replace_products(const Products &all, int row, int column, int count) {
    if (row >= all.rows) return;
#pragma unroll 1
    for (int c = column; c < min(column + count, all.columns); ++c) {
        float &product = all.products[size_t(row) * all.columns + c];
        if (product == product) continue;
        product = sum_in_order(0, all.depth, [&](int k, float sum) {
            return fmaf(to_float(all.x[size_t(row) * all.depth + k]), to_float(all.weights[size_t(c) * all.depth + k]), sum);
        });
    }
}

// As multiply_level(), for tiles of many rows. Any number of blocks up to 8 shares out the depth.
template <int PARTS> __device__ __forceinline__ void multiply_wide_level(const LevelProduct &it, unsigned char *shared) {
    const Products all = products_of(it);
    const int part = blockIdx.x, part_count = gridDim.x, column = blockIdx.z * WIDE_SIDE;
    const int strips = (all.depth + WIDE_DEPTH - 1) / WIDE_DEPTH, of_part = (strips + part_count - 1) / part_count;
    const int begin = min(part * of_part * WIDE_DEPTH, all.depth), end = min(begin + of_part * WIDE_DEPTH, all.depth);
    WideStages<PARTS> stages(shared);
    // The parts of the sums take the stages' place, when all have been multiplied.
    float *const parts = reinterpret_cast<float *>(shared);
    const auto for_rows = [&](auto work) {
        for (int row = blockIdx.y * WIDE_SIDE; row < all.rows; row += gridDim.y * WIDE_SIDE) {
            work(row);
            if (part_count == 1) continue;
            cluster_sync(); // all parts are there
            const int own_rows = (WIDE_SIDE + part_count - 1) / part_count;
            for (int number = threadIdx.x; number < own_rows * (WIDE_SIDE / 4); number += BLOCK_THREADS) {
                const int r = part * own_rows + number / (WIDE_SIDE / 4), c = number % (WIDE_SIDE / 4) * 4;
                if (r >= WIDE_SIDE || row + r >= all.rows) continue;
                float sums[4] = {};
                for (int other = 0; other < part_count; ++other) {
                    const float4 its = of_block(reinterpret_cast<const float4 *>(parts + r * WIDE_PITCH + c), other);
                    sums[0] += its.x, sums[1] += its.y, sums[2] += its.z, sums[3] += its.w;
                }
                if (!put_products(all, row + r, column + c, sums)) replace_products(all, row + r, column + c, 4);
            }
            cluster_sync(); // nobody reads the parts any more
        }
    };
    if (is_multiplier()) {
        more_registers<MULTIPLIER_REGISTERS>();
        for_rows([&](int row) {
            WideTile<PARTS> tile;
            tile.template multiply<ALONG>(stages, begin, end);
            if (part_count == 1) {
                bool are_numbers = true;
                tile.for_each([&](int r, int c, const Neighbours &sums) {
                    are_numbers &= put_products(all, row + r, column + c, sums.number);
                });
                if (!are_numbers) {
#pragma unroll 1
                    for (int i = 0; i < WIDE_SIDE / 2; i += 2) {
                        replace_products(all, row + tile.row_of(i), column + tile.column_of(i), 2);
                    }
                }
                return;
            }
            barrier(); // no warp multiplies any more
            tile.for_each([&](int r, int c, const Neighbours &sums) {
                *reinterpret_cast<Neighbours *>(parts + r * WIDE_PITCH + c) = sums;
            });
        });
    } else {
        fewer_registers<READER_REGISTERS>();
        const size_t places = size_t(all.x) | size_t(all.weights);
        const auto fill = [&](auto by) {
            using Factor = RowsOfFactor<decltype(by)::value>;
            for_rows([&](int row) {
                const Factor factors[] = {{all.x, row, all.rows, all.depth},
                                          {all.x, row + LINE, all.rows, all.depth},
                                          {all.weights, column, all.columns, all.depth},
                                          {all.weights, column + LINE, all.columns, all.depth}};
                stages.fill(factors, begin, end);
                if (part_count > 1) barrier();
            });
        };
        if (all.depth % 4 == 0 && places % 16 == 0)
            fill(Is<true>());
        else
            fill(Is<false>());
    }
}

// As sum_outer_products(), for many rows of dy and x.
template <int PARTS>
__device__ __forceinline__ void sum_wide_outer_products(const OuterProducts &it, unsigned block, unsigned char *shared) {
    const OuterTile tile(it, block, WIDE_SIDE, WIDE_SIDE);
    WideStages<PARTS> stages(shared);
    if (is_multiplier()) {
        more_registers<MULTIPLIER_REGISTERS>();
        WideTile<PARTS> own;
        own.template multiply<ACROSS>(stages, tile.begin, tile.end);
        own.for_each([&](int row, int column, const Neighbours &sums) { tile.put<true>(it, row, column, sums); });
    } else {
        fewer_registers<READER_REGISTERS>();
        const size_t places = size_t(it.dy) | size_t(it.x);
        const auto fill = [&](auto by) {
            using Factor = ColumnsOfFactor<decltype(by)::value>;
            const Factor factors[] = {{it.dy, tile.first_row, it.rows},
                                      {it.dy, tile.first_row + LINE, it.rows},
                                      {it.x, tile.first_column, it.columns},
                                      {it.x, tile.first_column + LINE, it.columns}};
            stages.fill(factors, tile.begin, tile.end);
        };
        if (it.rows % 4 == 0 && it.columns % 4 == 0 && places % 16 == 0)
            fill(Is<true>());
        else
            fill(Is<false>());
    }
}
