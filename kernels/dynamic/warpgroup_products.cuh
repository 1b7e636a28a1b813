// Products of many rows on the tensor cores of warpgroups, which multiply floats in parts of bfloat16.
//
// Two warpgroups have a tile of 128 by 128 sums, 64 rows each, and multiply. Two others read the factors' numbers, split
// floats into their parts, and put all into stages in shared memory, which go round between them.
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

// The sides of a tile, the bytes of a row in a stage, and the stages. Twins of the numbers in
// `crates/dynamic/src/batched/tiles.rs`.
#define WIDE_SIDE 128
#define WIDE_BYTES 128
#define WIDE_STAGES 4
// The depth of a stage, and the stages whose numbers share lines. A thread reads so many numbers together.
constexpr int WIDE_DEPTH = WIDE_BYTES / sizeof(Element), LINE_STAGES = LINE / WIDE_DEPTH, TOGETHER = sizeof(Words) / sizeof(Element);

// The threads that multiply come first, then those that read.
constexpr int MULTIPLIERS = 2 * WARPGROUP, READERS = BLOCK_THREADS - MULTIPLIERS;
// The registers of a thread that reads, and of one that multiplies.
constexpr int READER_REGISTERS = 96, MULTIPLIER_REGISTERS = 2 * 128 - READER_REGISTERS;

__device__ __forceinline__ bool is_multiplier() { return int(threadIdx.x) < MULTIPLIERS; }
__device__ __forceinline__ int reader() { return int(threadIdx.x) - MULTIPLIERS; }

// Numbers that follow each other, of which so many are there. Zeros take the place of others.
template <bool by_words> __device__ __forceinline__ Words words_at(const Element *from, int count) {
    if constexpr (by_words) {
#ifdef EMULATED
        if (count > 0 && size_t(from) % sizeof(Words)) fail("numbers are read together at a place that is not aligned");
#endif
        return count > 0 ? *reinterpret_cast<const Words *>(from) : Words{};
    } else {
        alignas(sizeof(Words)) Element elements[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) elements[i] = i < count ? from[i] : to_element(0.0f);
        return reinterpret_cast<const Words &>(elements);
    }
}

// The place of a thread's numbers in lines of 64, where they have this number.
__device__ __forceinline__ int place_of_words(int line, int words) {
    constexpr int OF_PIECE = PIECE_BYTES / 2 / TOGETHER; // threads that share a piece
    return piece_of(line, words / OF_PIECE) + words % OF_PIECE * 2 * TOGETHER;
}

// A factor's rows [count][depth], which are multiplied with each other along the depth. Of each stage a thread reads numbers
// of two of 64 rows.
template <bool by_words> struct RowsOfFactor {
    static constexpr Way WAY = ALONG;
    static constexpr bool IS_AHEAD = by_words; // single elements take too many registers
    static constexpr int ACROSS_LINE = WIDE_DEPTH / TOGETHER;
    const Element *from[2]; // the thread's rows

    __device__ __forceinline__ RowsOfFactor(const Element *matrix, int first, int count, int depth) {
#pragma unroll
        for (int i = 0; i < 2; ++i) from[i] = matrix + size_t(min(first + line(i), count - 1)) * depth;
    }

    // Threads that store together have lines four apart, whose pieces are in different banks.
    __device__ __forceinline__ static int line(int i) {
        const int number = reader() / ACROSS_LINE;
        return i * 32 + number / 8 * 8 + number % 2 * 4 + number / 2 % 4;
    }
    // Of the stage from `k` on.
    __device__ __forceinline__ Words read(int i, int k, int end) const {
        const int its = k + reader() % ACROSS_LINE * TOGETHER;
        return words_at<by_words>(from[i] + its, end - its);
    }
    // The place among lines of 64 depths.
    __device__ __forceinline__ static int place(int i, int stage) {
        return place_of_words(line(i), stage * ACROSS_LINE + reader() % ACROSS_LINE);
    }
};

// A factor's columns [depth][count]: of each stage a thread reads numbers of 64 columns at two depths.
template <bool by_words> struct ColumnsOfFactor {
    static constexpr Way WAY = ACROSS;
    static constexpr bool IS_AHEAD = by_words;
    static constexpr int ACROSS_LINE = LINE / TOGETHER;
    const Element *from; // the thread's columns of the first row
    int width, count;    // of a row, and of the columns that are there

    __device__ __forceinline__ ColumnsOfFactor(const Element *matrix, int first, int width)
        : from(matrix + first + reader() % ACROSS_LINE * TOGETHER), width(width),
          count(width - first - reader() % ACROSS_LINE * TOGETHER) {}

    __device__ __forceinline__ static int line(int i) { return i * READERS / ACROSS_LINE + reader() / ACROSS_LINE; }
    __device__ __forceinline__ Words read(int i, int k, int end) const {
        const int row = k + line(i);
        return words_at<by_words>(from + size_t(row) * width, row < end ? count : 0);
    }
    // The place among lines of 64 columns.
    __device__ __forceinline__ static int place(int i, int stage) {
        return place_of_words(stage * WIDE_DEPTH + line(i), reader() % ACROSS_LINE);
    }
};

// The stages of a tile. Each of PARTS parts of the factors has four blocks of 64 lines: two of the first factor and two of the
// second. Of floats, two stages share the lines. ALONG the depth, a stage has one half of each line. ACROSS the depth, it has
// half of the lines.
template <int PARTS> struct WideStages {
    static constexpr int BLOCKS = 2 * WIDE_SIDE / LINE, BLOCK_BYTES = LINE * LINE_BYTES, PART_BYTES = BLOCKS * BLOCK_BYTES;
    static constexpr int LINES_BYTES = PARTS * PART_BYTES, BYTES = WIDE_STAGES / LINE_STAGES * LINES_BYTES;

    unsigned char *shared;
    StageRing ring;

    __device__ __forceinline__ explicit WideStages(unsigned char *shared)
        : shared(shared), ring(shared + BYTES, WIDE_STAGES) {
        if (threadIdx.x == 0) ring.initialize(READERS, MULTIPLIERS / 32);
        barrier();
    }

    // The lines of the thread's stage, and its number among the stages there.
    __device__ __forceinline__ unsigned char *lines() const { return shared + ring.stage / LINE_STAGES * LINES_BYTES; }
    __device__ __forceinline__ int stage() const { return ring.stage % LINE_STAGES; }

    // Fills stages with the numbers of two factors of the depths from `begin` to `end`: the readers' work. Each factor has two
    // blocks, of 64 rows or columns.
    template <typename A, typename B>
    __device__ __forceinline__ void fill(const A (&a)[BLOCKS / 2], const B (&b)[BLOCKS / 2], int begin, int end) {
        static_assert(A::IS_AHEAD == B::IS_AHEAD, "both factors' numbers are read ahead, or none's");
        // With two, rows take more registers than there are.
        constexpr int AHEAD = A::IS_AHEAD && A::WAY == ACROSS && B::WAY == ACROSS ? 2 : 1;
        Words next[AHEAD][BLOCKS][2];
        const auto read = [&](Words (&to)[BLOCKS][2], int k) {
#pragma unroll
            for (int block = 0; block < BLOCKS / 2; ++block)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    to[block][i] = a[block].read(i, k, end);
                    to[BLOCKS / 2 + block][i] = b[block].read(i, k, end);
                }
        };
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead)
            if (A::IS_AHEAD) read(next[ahead], begin + ahead * WIDE_DEPTH);
#pragma unroll 1
        for (int first = begin; first < end; first += AHEAD * WIDE_DEPTH) {
#pragma unroll
            for (int ahead = 0; ahead < AHEAD; ++ahead) {
                const int k = first + ahead * WIDE_DEPTH;
                if (k >= end) break;
                ring.wait_until_empty();
                const auto put_all = [&](const auto &factor, int first) {
#pragma unroll
                    for (int block = 0; block < BLOCKS / 2; ++block)
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            put(lines() + (first + block) * BLOCK_BYTES + factor[block].place(i, stage()),
                                A::IS_AHEAD ? next[ahead][first + block][i] : factor[block].read(i, k, end));
                };
                put_all(a, 0);
                put_all(b, BLOCKS / 2);
                ring.pass_full();
                if (A::IS_AHEAD) read(next[ahead], k + AHEAD * WIDE_DEPTH);
            }
        }
    }

  private:
    // Puts numbers, or their parts, where tensor cores read them.
    __device__ __forceinline__ static void put(unsigned char *place, const Words &numbers) {
#ifdef ELEMENT_FLOAT
        unsigned first[PARTS], second[PARTS];
        split_pair(__uint_as_float(numbers.word[0]), __uint_as_float(numbers.word[1]), first);
        split_pair(__uint_as_float(numbers.word[2]), __uint_as_float(numbers.word[3]), second);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            *reinterpret_cast<uint2 *>(place + part * PART_BYTES) = make_uint2(first[part], second[part]);
#else
        *reinterpret_cast<Words *>(place) = numbers;
#endif
    }
};

// The sums of a tile that a multiplier has.
template <int PARTS> struct WideTile {
    using Stages = WideStages<PARTS>;
    float sums[WIDE_SIDE / 2] = {};

    __device__ __forceinline__ static int warpgroup() { return int(threadIdx.x) / WARPGROUP; }

    // Adds the products of the depths from `begin` to `end`, which readers fill in.
    template <Way A, Way B> __device__ __forceinline__ void multiply(Stages &stages, int begin, int end) {
        constexpr int ALONG_BYTES = 2 * DEPTH_OF_PRODUCT, ACROSS_BYTES = LINE_BYTES * DEPTH_OF_PRODUCT;
        constexpr int OF_A = A == ALONG ? ALONG_BYTES : ACROSS_BYTES, OF_B = B == ALONG ? ALONG_BYTES : ACROSS_BYTES;
        constexpr int STEPS = WIDE_DEPTH / DEPTH_OF_PRODUCT;
#pragma unroll 1
        for (int k = begin; k < end; k += WIDE_DEPTH) {
            SumsOf<WIDE_SIDE> of_stage;
            stages.ring.wait_until_full();
            const unsigned char *const of_a = stages.lines() + warpgroup() * Stages::BLOCK_BYTES;
            const unsigned char *const of_b = stages.lines() + Stages::BLOCKS / 2 * Stages::BLOCK_BYTES;
            const auto a = factor_at<A>(of_a + stages.stage() * STEPS * OF_A, Stages::BLOCK_BYTES);
            const auto b = factor_at<B>(of_b + stages.stage() * STEPS * OF_B, Stages::BLOCK_BYTES);
            of_stage.begin();
            // Tensor cores round sums towards zero: the smallest products come first, and sums of a stage are added up
            // elsewhere.
#pragma unroll
            for (int product = first_product<PARTS>; product < 6; ++product) {
                const auto &of = products_of_parts[product];
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
                    of_stage.template add<A, B>(later(a, of[0] * Stages::PART_BYTES + step * OF_A),
                                                later(b, of[1] * Stages::PART_BYTES + step * OF_B));
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
    struct alignas(4 * COUNT) Vector {
        float number[COUNT];
    };
    if (row >= all.rows) return true;
    float *const to = all.products + size_t(row) * all.columns + column;
    if (column + COUNT <= all.columns && size_t(to) % sizeof(Vector) == 0) {
        *reinterpret_cast<Vector *>(to) = reinterpret_cast<const Vector &>(sums);
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
__device__ __forceinline__ void replace_products(const ProductsOfLevel &all, int row, int column, int count) {
    if (row >= all.rows) return;
#pragma unroll 1
    for (int c = column; c < min(column + count, all.columns); ++c) {
        float &product = all.products[size_t(row) * all.columns + c];
        if (product != product) product = product_in_order(all, row, c);
    }
}

// As multiply_level(), for tiles of many rows. Any number of blocks up to 8 shares out the depth.
template <int PARTS> __device__ __forceinline__ void multiply_wide_level(const LevelProduct &it, unsigned char *shared) {
    const ProductsOfLevel all = products_of(it);
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
                const bool are_numbers = put_products(all, row + r, column + c, sums);
                if (PARTS > 1 && !are_numbers) replace_products(all, row + r, column + c, 4);
            }
            cluster_sync(); // nobody reads the parts any more
        }
    };
    if (is_multiplier()) {
        more_registers<MULTIPLIER_REGISTERS>();
        for_rows([&](int row) {
            WideTile<PARTS> tile;
            if (all.is_by_depth)
                tile.template multiply<ALONG, ACROSS>(stages, begin, end);
            else
                tile.template multiply<ALONG, ALONG>(stages, begin, end);
            if (part_count == 1) {
                bool are_numbers = true;
                tile.for_each([&](int r, int c, const Neighbours &sums) {
                    are_numbers &= put_products(all, row + r, column + c, sums.number);
                });
                if (PARTS > 1 && !are_numbers) {
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
        const auto fill = [&](auto by, const auto (&weights)[2]) {
            for_rows([&](int row) {
                const RowsOfFactor<decltype(by)::value> x[] = {{all.x, row, all.rows, all.depth},
                                                               {all.x, row + LINE, all.rows, all.depth}};
                stages.fill(x, weights, begin, end);
                if (part_count > 1) barrier();
            });
        };
        const auto fill_by = [&](auto by) {
            constexpr bool by_words = decltype(by)::value;
            if (all.is_by_depth) {
                const ColumnsOfFactor<by_words> weights[] = {{all.weights, column, all.columns},
                                                             {all.weights, column + LINE, all.columns}};
                fill(by, weights);
            } else {
                const RowsOfFactor<by_words> weights[] = {{all.weights, column, all.columns, all.depth},
                                                          {all.weights, column + LINE, all.columns, all.depth}};
                fill(by, weights);
            }
        };
        const bool are_of_words = all.depth % TOGETHER == 0 && (!all.is_by_depth || all.columns % TOGETHER == 0);
        if (are_of_words && places % sizeof(Words) == 0)
            fill_by(Is<true>());
        else
            fill_by(Is<false>());
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
        own.template multiply<ACROSS, ACROSS>(stages, tile.begin, tile.end);
        own.for_each([&](int row, int column, const Neighbours &sums) { tile.put<(PARTS > 1)>(it, row, column, sums); });
    } else {
        fewer_registers<READER_REGISTERS>();
        const size_t places = size_t(it.dy) | size_t(it.x);
        const auto fill = [&](auto by) {
            using Factor = ColumnsOfFactor<decltype(by)::value>;
            const Factor dy[] = {{it.dy, tile.first_row, it.rows}, {it.dy, tile.first_row + LINE, it.rows}};
            const Factor x[] = {{it.x, tile.first_column, it.columns}, {it.x, tile.first_column + LINE, it.columns}};
            stages.fill(dy, x, tile.begin, tile.end);
        };
        if (it.rows % TOGETHER == 0 && it.columns % TOGETHER == 0 && places % sizeof(Words) == 0)
            fill(Is<true>());
        else
            fill(Is<false>());
    }
}
