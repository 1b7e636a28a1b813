// Products of a level's rows on tensor cores, of few rows or of many.
//
// Few rows take as long as their matrix is read. So a block copies strips of the matrix that come next while it multiplies,
// and blocks of a cluster share out the depth where there are fewer tiles than fill the device.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tf32_products.cuh"
#include "common/tile_products.cuh"
#include "dynamic/level.cuh"
#include "dynamic/replacement.cuh"

// Where there are no clusters, a product has one part.
#if defined EMULATED || __CUDA_ARCH__ >= 900
#define HAS_CLUSTERS
#include "common/cluster.cuh"
#endif

// products[row][column] = Σ x[row][k] · weights[column][k], for the rows that a script counts, or for `count`, behind those
// that are skipped. x and the products have all rows of the kind, or those of the level. By depth, weights[k][column] take the
// place of weights[column][k]. Twin of the struct in `crates/dynamic/src/batched/level_product.rs`.
struct LevelProduct {
    const Element *x, *weights;
    float *products;
    const Range *script;
    int columns, depth;
    int has_all_x, has_all_products, is_of_children, skipped;
    int count;
    int is_by_depth;
};

struct ProductsOfLevel : Products {
    bool is_by_depth;
};

__device__ __forceinline__ ProductsOfLevel products_of(const LevelProduct &it) {
    const size_t skipped = it.skipped;
    const size_t first = !it.script ? 0 : it.is_of_children ? it.script->edge_of_kind : it.script->row_of_kind;
    return {{it.x + ((it.has_all_x ? first : 0) + skipped) * it.depth, it.weights,
             it.products + ((it.has_all_products ? first : 0) + skipped) * it.columns,
             count_of(it.script, it.count, it.is_of_children) - it.skipped, it.columns, it.depth},
            it.is_by_depth != 0};
}

// A product by multiply-adds in their order.
__device__ __forceinline__ float product_in_order(const ProductsOfLevel &all, int row, int column) {
    const size_t of_column = all.is_by_depth ? 1 : all.depth, along = all.is_by_depth ? all.columns : 1;
    const Element *const x = all.x + size_t(row) * all.depth, *const weights = all.weights + column * of_column;
    return sum_in_order(0, all.depth,
                        [&](int k, float sum) { return fmaf(to_float(x[k]), to_float(weights[k * along]), sum); });
}

// A row of a strip of a factor, in elements; its parts of 16 bytes; and the elements of one.
#define STRIP_BYTES 256
constexpr int LEVEL_STRIP = STRIP_BYTES / sizeof(Element), STRIP_QUADS = STRIP_BYTES / 16, OF_QUAD = 16 / sizeof(Element);
// The quads of a row that a warp reads at once, a lane of four each.
#define GROUP_QUADS 4

struct alignas(16) Words {
    unsigned word[4];
};

// The place of a quad of a strip. Quads of neighbouring rows are in different banks.
__device__ __forceinline__ int quad_place(int row, int quad) {
    return (row * STRIP_QUADS + (quad ^ row % 2 * GROUP_QUADS)) * OF_QUAD;
}

__device__ __forceinline__ Words quad_of(const Element *strip, int row, int quad) {
    return *reinterpret_cast<const Words *>(strip + quad_place(row, quad));
}

// Begins the copies of a strip of a matrix from these rows and from k on, Access elements at once. Zeros take the place of
// what is behind its last row, or behind `end`.
template <int Access, int Rows>
__device__ __forceinline__ void copy_strip(Element *to, const Element *matrix, int first, int rows, int depth, int k, int end) {
    constexpr int across = LEVEL_STRIP / Access;
    // Unrolled, the addresses would take registers that the sums need.
#pragma unroll 1
    for (int number = threadIdx.x; number < Rows * across; number += THREADS) {
        const int row = number / across, along = number % across * Access;
        const bool is_there = first + row < rows && k + along < end;
        copy_async<Access * sizeof(Element)>(to + quad_place(row, along / OF_QUAD) + along % OF_QUAD,
                                             matrix + (is_there ? size_t(first + row) * depth + k + along : 0), is_there);
    }
}

// The place of an element of a strip of a matrix by depth: [LEVEL_STRIP][Columns]. Those that a warp reads at once are in
// different banks.
template <int Columns> __device__ __forceinline__ int place_by_depth(int k, int column) {
    const int mixed = sizeof(Element) == 4 ? k / OF_QUAD % 4 * 8 : k / OF_QUAD % 4 * 16 + k % 2 * 8;
    return k * Columns + (column ^ mixed);
}

// Likewise begins the copies of a strip of a matrix [depth][columns]: of the columns from `first` on, from k on.
template <int Access, int Columns>
__device__ __forceinline__ void copy_by_depth(Element *to, const Element *matrix, int first, int columns, int k, int end) {
    constexpr int across = Columns / Access;
#pragma unroll 1
    for (int number = threadIdx.x; number < LEVEL_STRIP * across; number += THREADS) {
        const int down = number / across, along = number % across * Access;
        const bool is_there = k + down < end && first + along < columns;
        copy_async<Access * sizeof(Element)>(to + place_by_depth<Columns>(down, along),
                                             matrix + (is_there ? size_t(k + down) * columns + first + along : 0), is_there);
    }
}

// The lane's quad of a group, of a column of such a strip. All lanes come here. Four have the same column, the next four
// the next column.
template <int Columns> __device__ __forceinline__ Words quad_by_depth(const Element *strip, int column, int group) {
    Words quad;
#ifdef ELEMENT_FLOAT
#pragma unroll
    for (int i = 0; i < 4; ++i)
        quad.word[i] = __float_as_uint(strip[place_by_depth<Columns>((group * GROUP_QUADS + LANE % 4) * OF_QUAD + i, column)]);
#elif defined EMULATED
    for (int i = 0; i < 4; ++i) {
        const int k = (group * GROUP_QUADS + LANE % 4) * OF_QUAD + 2 * i;
        quad.word[i] = bits_of(strip[place_by_depth<Columns>(k, column)]) |
                       bits_of(strip[place_by_depth<Columns>(k + 1, column)]) << 16;
    }
#else
    // Eight lanes have the places of a matrix of 8 × 8: of a word of each lane's quad.
    const int k = (group * GROUP_QUADS + LANE % 8 / 2) * OF_QUAD + LANE / 8 * 2 + LANE % 2;
    const unsigned place = __cvta_generic_to_shared(strip + place_by_depth<Columns>(k, column - LANE / 4));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.word[0]), "=r"(quad.word[1]), "=r"(quad.word[2]), "=r"(quad.word[3])
                 : "r"(place)
                 : "memory");
#endif
    return quad;
}

// A block's tile of products: Rows × Columns. Warps have 16 columns each, and those with the same ones share out each strip.
template <int Rows, int Columns, int Stages, bool is_exact> struct LevelTile {
    static constexpr int column_warps = Columns / 16, sharers = THREADS / 32 / column_warps, row_tiles = Rows / 8;
    static constexpr int stage = (Rows + Columns) * LEVEL_STRIP;
    // The tiles of 8 rows whose products a warp computes in turns, so that none waits for its last one. There are no registers
    // for more.
    static constexpr int at_once = row_tiles > 4 ? 2 : row_tiles;
    static_assert(Columns % 16 == 0 && THREADS / 32 % column_warps == 0 && Rows % 8 == 0 && row_tiles % at_once == 0);
    // As warp_mma() has them: its rows are columns of the products, and its columns rows.
    float sums[row_tiles][4] = {};

    __device__ __forceinline__ static int first_column() { return int(WARP) % column_warps * 16 + int(LANE) / 4; }
    __device__ __forceinline__ static int sharer() { return int(WARP) / column_warps; }

    // The parts of a word as a factor: those of an exact product, or one.
    __device__ __forceinline__ static void set_factor(unsigned word, unsigned &high, unsigned &low) {
#ifdef ELEMENT_FLOAT
        if (is_exact)
            split_float(word, high, low);
        else
            high = __float_as_uint(float_to_tf32(__uint_as_float(word)));
#else
        high = word;
#endif
    }

    // Adds the products of a strip with so many groups of quads, of which so many rows are there. Which numbers of the depth a
    // lane has is all the same, if both factors have the same ones: four neighbouring words, which it reads at once.
    __device__ __forceinline__ void multiply(const Element *strip, int groups, int rows, bool is_by_depth) {
        const Element *const weights = strip + Rows * LEVEL_STRIP;
#pragma unroll 1
        for (int group = sharer(); group < groups; group += sharers) {
            const int quad = group * GROUP_QUADS + LANE % 4;
            Words of_columns[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int column = first_column() + 8 * i;
                of_columns[i] =
                    is_by_depth ? quad_by_depth<Columns>(weights, column, group) : quad_of(weights, column, quad);
            }
            unsigned a[2][2][4];
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    set_factor(of_columns[i % 2].word[2 * step + i / 2], a[step][HIGH][i], a[step][LOW][i]);
#pragma unroll
            for (int first = 0; first < row_tiles; first += at_once) {
                if (first * 8 >= rows) break;
                Words of_rows[at_once];
#pragma unroll
                for (int tile = 0; tile < at_once; ++tile)
                    of_rows[tile] = quad_of(strip, (first + tile) * 8 + LANE / 4, quad);
                // Tensor cores round sums towards zero, so they add up exact products of a group at most.
                float some[at_once][4] = {};
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    unsigned b[at_once][2][2];
#pragma unroll
                    for (int tile = 0; tile < at_once; ++tile)
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            set_factor(of_rows[tile].word[2 * step + i], b[tile][HIGH][i], b[tile][LOW][i]);
#pragma unroll
                    for (int product = is_exact ? 0 : 2; product < 3; ++product) {
                        const auto &of = exact_parts[product];
#pragma unroll
                        for (int tile = 0; tile < at_once; ++tile)
                            warp_mma(is_exact ? some[tile] : sums[first + tile], a[step][of[0]], b[tile][of[1]]);
                    }
                }
#pragma unroll
                for (int i = 0; i < at_once * 4; ++i)
                    if (is_exact) sums[first + i / 4][i % 4] += some[i / 4][i % 4];
            }
        }
    }

    // Calls multiply for the strips from `begin` to `end`.
    __device__ __forceinline__ void multiply_strips(const ProductsOfLevel &p, int row, int column, int begin, int end,
                                                    Element *stages) {
        const auto are_of_quads = [](const Element *factor, int across) {
            return across % OF_QUAD == 0 && size_t(factor) % 16 == 0;
        };
        const bool x_by_quads = are_of_quads(p.x, p.depth);
        const bool weights_by_quads = are_of_quads(p.weights, p.is_by_depth ? p.columns : p.depth);
        const auto copy = [&](int number, int k) {
            if (k < end) {
                Element *const of_x = stages + number * stage, *const of_weights = of_x + Rows * LEVEL_STRIP;
                if (x_by_quads)
                    copy_strip<OF_QUAD, Rows>(of_x, p.x, row, p.rows, p.depth, k, end);
                else
                    copy_strip<1, Rows>(of_x, p.x, row, p.rows, p.depth, k, end);
                if (p.is_by_depth && weights_by_quads)
                    copy_by_depth<OF_QUAD, Columns>(of_weights, p.weights, column, p.columns, k, end);
                else if (p.is_by_depth)
                    copy_by_depth<1, Columns>(of_weights, p.weights, column, p.columns, k, end);
                else if (weights_by_quads)
                    copy_strip<OF_QUAD, Columns>(of_weights, p.weights, column, p.columns, p.depth, k, end);
                else
                    copy_strip<1, Columns>(of_weights, p.weights, column, p.columns, p.depth, k, end);
            }
            end_group();
        };
#pragma unroll
        for (int ahead = 0; ahead < Stages - 1; ++ahead) copy(ahead, begin + ahead * LEVEL_STRIP);
        int at_hand = 0, ahead = Stages - 1;
        constexpr int of_group = GROUP_QUADS * OF_QUAD;
#pragma unroll 1
        for (int k = begin; k < end; k += LEVEL_STRIP) {
            wait_for_groups<Stages - 2>();
            barrier(); // the strip is there, and nobody reads the one before any more
            copy(ahead, k + (Stages - 1) * LEVEL_STRIP);
            const int groups = (min(end - k, LEVEL_STRIP) + of_group - 1) / of_group;
            multiply(stages + at_hand * stage, groups, p.rows - row, p.is_by_depth);
            at_hand = at_hand == Stages - 1 ? 0 : at_hand + 1;
            ahead = ahead == Stages - 1 ? 0 : ahead + 1;
        }
    }

    // Calls each(row, column, sum) for the sums of a thread, of the tile's.
    template <typename Each> __device__ __forceinline__ void for_each(Each each) const {
#pragma unroll
        for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                each(tile * 8 + int(LANE) % 4 * 2 + i % 2, first_column() + i / 2 * 8, sums[tile][i]);
    }
};

// A block multiplies its part of the depth for a tile, and then for the next one that no other block has. The blocks of a
// cluster, at most 8 and a power of two, have a part each. Each of them adds up some rows of the tile: the parts in their
// order, whoever comes first. `shared` has the stages, in which the parts of the sums lie in the end, and an Mbarrier.
template <int Rows, int Columns, int Stages, bool is_exact>
__device__ __forceinline__ void multiply_level(const LevelProduct &it, Element *shared) {
    using Tile = LevelTile<Rows, Columns, Stages, is_exact>;
    const ProductsOfLevel all = products_of(it);
    const int part = blockIdx.x, part_count = gridDim.x, column = blockIdx.z * Columns, own_rows = Rows / part_count;
    const int strips = (all.depth + LEVEL_STRIP - 1) / LEVEL_STRIP, of_part = (strips + part_count - 1) / part_count;
    const int begin = min(part * of_part * LEVEL_STRIP, all.depth), end = min(begin + of_part * LEVEL_STRIP, all.depth);
    float *const parts = reinterpret_cast<float *>(shared);
#ifdef HAS_CLUSTERS
    Mbarrier &arrived = *reinterpret_cast<Mbarrier *>(shared + Stages * Tile::stage);
    if (part_count > 1 && threadIdx.x == 0) arrived.initialize(1);
    unsigned parity = 0;
#endif
    for (int row = blockIdx.y * Rows; row < all.rows; row += gridDim.y * Rows) {
        Tile tile;
        tile.multiply_strips(all, row, column, begin, end, shared);
        // Computed here: in front of the loop, all places would take registers that the sums need.
        const int own = in_register(own_rows);
        const auto place = [&](int r, int c) {
            return ((part * Tile::sharers + Tile::sharer()) * own + (r & (own - 1))) * Columns + c;
        };
        if (part_count == 1) {
            barrier(); // nobody reads the strips any more
            tile.for_each([&](int r, int c, float sum) { parts[place(r, c)] = sum; });
            barrier(); // all parts are there
        }
#ifdef HAS_CLUSTERS
        else {
            cluster_sync(); // no block reads its strips any more
            if (threadIdx.x == 0) arrived.expect(Tile::sharers * Rows * Columns * sizeof(float));
            tile.for_each([&](int r, int c, float sum) { send(sum, parts + place(r, c), arrived, r * part_count / Rows); });
            Spin spin;
            while (!arrived.has_ended(parity)) spin.again();
            parity ^= 1;
        }
#endif
        for (int number = threadIdx.x; number < own_rows * Columns; number += THREADS) {
            const int r = row + part * own_rows + number / Columns, c = column + number % Columns;
            if (r >= all.rows || c >= all.columns) continue;
            float sum = 0;
            for (int other = 0; other < part_count * Tile::sharers; ++other) sum += parts[other * own_rows * Columns + number];
            if (is_exact && sum != sum) sum = product_in_order(all, r, c);
            all.products[size_t(r) * all.columns + c] = sum;
        }
        barrier(); // nobody reads the parts any more
    }
}
