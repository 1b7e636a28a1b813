// Sums of outer products of rows: the gradients of matrices.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/tf32_products.cuh"
#include "dynamic/level.cuh"
#include "dynamic/replacement.cuh"
#include "dynamic/slices.cuh"

// sums[slice][i][j] = Σ dy[row][i] · x[row][j], over the rows of the slice; added to the old number if `adds`. Zeros are the
// sums of a slice without rows.
struct OuterProducts {
    const Element *dy, *x;
    float *sums;
    // Where the number of rows is; null for `count`.
    const Range *script;
    int count, rows, columns, slices;
    int adds, is_of_children;
};

// A block has a tile of the sums of a slice. Twins of the numbers in `crates/dynamic/src/batched/slices.rs`.
#define OUTER_ROWS 128
#define OUTER_COLUMNS 64
// The rows of dy and x that are copied at once, and how many copies are on their way or in use.
#define OUTER_DEPTH (64 / int(sizeof(Element)))
#define OUTER_STAGES 3
static_assert(SLICE_ROWS % OUTER_DEPTH == 0, "a sum of sums ends with a stage");

// Elements from one row of a stage to the next: threads read elements of neighbouring rows from different banks.
constexpr int OUTER_APART = 8;
constexpr int DY_PITCH = OUTER_ROWS + OUTER_APART, X_PITCH = OUTER_COLUMNS + OUTER_APART;
constexpr int OUTER_STAGE = OUTER_DEPTH * (DY_PITCH + X_PITCH);

// Begins the copies of a stage's rows of a factor, from these on: `Width` columns, `Access` at once. Zeros take the place of
// what is not there.
template <int Access, int Width>
__device__ __forceinline__ void copy_rows(Element *to, const Element *factor, int columns, int first_column, int row, int end) {
    constexpr int across = Width / Access;
    // Unrolled, the addresses would take registers that the sums need.
#pragma unroll 1
    for (int number = threadIdx.x; number < OUTER_DEPTH * across; number += THREADS) {
        const int down = number / across, along = number % across * Access;
        const bool is_there = row + down < end && first_column + along < columns;
        copy_async<Access * sizeof(Element)>(
            to + down * (Width + OUTER_APART) + along,
            factor + (is_there ? size_t(row + down) * columns + first_column + along : 0), is_there);
    }
}

// Calls multiply(stage) for the stages of rows of dy and x, from `begin` to `end`.
template <int Access, typename Multiply>
__device__ __forceinline__ void for_outer_stages_by(const OuterProducts &it, int first_row, int first_column, int begin, int end,
                                                    Element *stages, Multiply multiply) {
    const auto copy = [&](int number, int row) {
        if (row < end) {
            Element *const stage = stages + number * OUTER_STAGE;
            copy_rows<Access, OUTER_ROWS>(stage, it.dy, it.rows, first_row, row, end);
            copy_rows<Access, OUTER_COLUMNS>(stage + OUTER_DEPTH * DY_PITCH, it.x, it.columns, first_column, row, end);
        }
        end_group();
    };
#pragma unroll
    for (int ahead = 0; ahead < OUTER_STAGES - 1; ++ahead) copy(ahead, begin + ahead * OUTER_DEPTH);
    int at_hand = 0, ahead = OUTER_STAGES - 1;
#pragma unroll 1
    for (int row = begin; row < end; row += OUTER_DEPTH) {
        wait_for_groups<OUTER_STAGES - 2>();
        barrier(); // the rows are there, and nobody reads those of the stage before any more
        copy(ahead, row + (OUTER_STAGES - 1) * OUTER_DEPTH);
        multiply(stages + at_hand * OUTER_STAGE);
        at_hand = at_hand == OUTER_STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == OUTER_STAGES - 1 ? 0 : ahead + 1;
    }
}

// Neighbours in a row of sums.
struct alignas(8) Neighbours {
    float number[2];
};

#ifndef ELEMENT_FLOAT
// Of 16 rows, 8 columns and the next 8, as warp_mma() has them: each word has two neighbouring rows' elements of a column.
__device__ __forceinline__ void read_columns(const Element *from, int pitch, unsigned (&first)[2], unsigned (&second)[2]) {
#ifndef EMULATED
    const unsigned place = __cvta_generic_to_shared(from + LANE % 16 * pitch + LANE / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
                 : "r"(place)
                 : "memory");
#else
    for (int i = 0; i < 2; ++i) {
        const Element *const place = from + (LANE % 4 * 2 + i * 8) * pitch + LANE / 4;
        first[i] = bits_of(place[0]) | bits_of(place[pitch]) << 16;
        second[i] = bits_of(place[8]) | bits_of(place[pitch + 8]) << 16;
    }
#endif
}
#endif

// The sums of a thread, on tensor cores: a warp has 32 rows and 32 columns of the tile. Factors are elements of 2 bytes as
// they are, or TF32: floats are rounded to it, or have exact products.
template <bool is_exact> struct OuterSums {
    static constexpr int row_tiles = 2, column_tiles = 4, tiles = row_tiles * column_tiles;
    // Tensor cores round sums towards zero, which makes each a bit smaller. So they add up 8 rows of exact products at most.
    static constexpr int most_stages = SLICE_ROWS / OUTER_DEPTH;
    // Those of all rows, and those of the last stages: [tile of rows, tile of columns][as warp_mma_tf32 has them].
    float all[tiles][4] = {}, last[tiles][4] = {};
    int stages = 0;

    __device__ __forceinline__ static int first_row() { return int(WARP) % 4 * 32 + int(LANE) / 4; }
    __device__ __forceinline__ static int first_column() { return int(WARP) / 4 * 32; }

#ifndef ELEMENT_FLOAT
    __device__ __forceinline__ void multiply(const Element *stage) {
        const Element *const dy = stage + int(WARP) % 4 * 32, *const x = stage + OUTER_DEPTH * DY_PITCH + first_column();
#pragma unroll
        for (int k = 0; k < OUTER_DEPTH; k += 16) {
            unsigned left[row_tiles][4], right[column_tiles][2];
#pragma unroll
            for (int tile = 0; tile < row_tiles; ++tile) {
                unsigned first[2], second[2];
                read_columns(dy + k * DY_PITCH + tile * 16, DY_PITCH, first, second);
#pragma unroll
                for (int i = 0; i < 2; ++i) left[tile][2 * i] = first[i], left[tile][2 * i + 1] = second[i];
            }
#pragma unroll
            for (int tile = 0; tile < column_tiles; tile += 2)
                read_columns(x + k * X_PITCH + tile * 8, X_PITCH, right[tile], right[tile + 1]);
#pragma unroll
            for (int tile = 0; tile < tiles; ++tile)
                warp_mma(last[tile], left[tile / column_tiles], right[tile % column_tiles]);
        }
        if (++stages % most_stages == 0) add_last();
    }
#else
    __device__ __forceinline__ void multiply(const Element *stage) {
        const Element *const dy = stage + first_row();
        const Element *const x = stage + OUTER_DEPTH * DY_PITCH + first_column() + LANE / 4;
        constexpr int at_once = is_exact ? 1 : 2; // with 2, exact products spill registers
#pragma unroll at_once
        for (int k = LANE % 4; k < OUTER_DEPTH; k += 8) {
            unsigned left[row_tiles][2][4], right[column_tiles][2][2];
#pragma unroll
            for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    set_factor(left[tile], i, dy[(k + i / 2 * 4) * DY_PITCH + tile * 16 + i % 2 * 8]);
#pragma unroll
            for (int tile = 0; tile < column_tiles; ++tile)
#pragma unroll
                for (int i = 0; i < 2; ++i) set_factor(right[tile], i, x[(k + i * 4) * X_PITCH + tile * 8]);
#pragma unroll
            for (int product = is_exact ? 0 : 2; product < 3; ++product) {
                const auto &of = exact_parts[product];
#pragma unroll
                for (int tile = 0; tile < tiles; ++tile)
                    warp_mma_tf32(last[tile], left[tile / column_tiles][of[0]], right[tile % column_tiles][of[1]]);
            }
            if (is_exact) add_last();
        }
        if (!is_exact && ++stages % most_stages == 0) add_last();
    }

    template <int count>
    __device__ __forceinline__ static void set_factor(unsigned (&parts)[2][count], int i, Element element) {
        if (is_exact)
            split_float(__float_as_uint(element), parts[HIGH][i], parts[LOW][i]);
        else
            parts[HIGH][i] = __float_as_uint(float_to_tf32(element));
    }
#endif

    __device__ __forceinline__ void add_last() {
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
            for (int i = 0; i < 4; ++i) all[tile][i] += last[tile][i], last[tile][i] = 0;
    }

    template <typename Each> __device__ __forceinline__ void for_each(Each each) const {
#pragma unroll
        for (int tile = 0; tile < row_tiles * column_tiles; ++tile)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const int row = first_row() + tile / column_tiles * 16 + i / 2 * 8;
                const int column = first_column() + tile % column_tiles * 8 + int(LANE) % 4 * 2;
                each(row, column, Neighbours{{all[tile][i], all[tile][i + 1]}});
            }
    }
};

// What an exact sum of some rows that is no number should be.
__device__ __forceinline__ float replaced(const OuterProducts &it, int i, int j, int begin, int end) {
    return sum_in_order(begin, end, [&](int row, float sum) {
        return fmaf(to_float(it.dy[size_t(row) * it.rows + i]), to_float(it.x[size_t(row) * it.columns + j]), sum);
    });
}

// A block's tile of the sums of a slice.
struct OuterTile {
    int first_row, first_column;
    int begin, end; // of the slice's rows of dy and x
    float *sums;    // the slice's

    // The tile of a block, where tiles have so many rows and columns.
    __device__ __forceinline__ OuterTile(const OuterProducts &it, unsigned block, int rows, int columns) {
        const int depth = count_of(it.script, it.count, it.is_of_children);
        const int across = (it.columns + columns - 1) / columns, down = (it.rows + rows - 1) / rows;
        const int slice = int(block) / (across * down), tile = int(block) % (across * down);
        const int of_slice = rows_of_slice(depth, it.slices);
        first_row = tile / across * rows, first_column = tile % across * columns;
        begin = slice * of_slice, end = min(depth, begin + of_slice);
        sums = it.sums + size_t(slice) * it.rows * it.columns;
    }

    // Puts two neighbouring sums of the tile among those of the slice. What is no number is summed up again, if products of
    // parts of floats may have made it such.
    template <bool has_parts>
    __device__ __forceinline__ void put(const OuterProducts &it, int row, int column, Neighbours neighbours) const {
        row += first_row, column += first_column;
        if (row >= it.rows) return;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float &number = neighbours.number[i];
            if (has_parts && number != number && column + i < it.columns)
                number = replaced(it, row, column + i, begin, end);
        }
        float *const to = sums + size_t(row) * it.columns + column;
        if (column + 2 <= it.columns && size_t(to) % sizeof neighbours == 0) {
            auto &its = *reinterpret_cast<Neighbours *>(to);
#pragma unroll
            for (int i = 0; i < 2; ++i) neighbours.number[i] += it.adds ? its.number[i] : 0;
            its = neighbours;
        } else {
            for (int i = 0; i < 2 && column + i < it.columns; ++i) to[i] = neighbours.number[i] + (it.adds ? to[i] : 0);
        }
    }
};

// Computes the tile of a block. `stages` is shared: Element[OUTER_STAGES][OUTER_STAGE].
template <bool is_exact>
__device__ __forceinline__ void sum_outer_products(const OuterProducts &it, unsigned block, Element *stages) {
    const OuterTile tile(it, block, OUTER_ROWS, OUTER_COLUMNS);
    constexpr int access = 16 / sizeof(Element);
    const size_t places = size_t(it.dy) | size_t(it.x);
    OuterSums<is_exact> own;
    const auto multiply = [&](const Element *stage) { own.multiply(stage); };
    if (it.rows % access == 0 && it.columns % access == 0 && places % 16 == 0)
        for_outer_stages_by<access>(it, tile.first_row, tile.first_column, tile.begin, tile.end, stages, multiply);
    else
        for_outer_stages_by<1>(it, tile.first_row, tile.first_column, tile.begin, tile.end, stages, multiply);
    own.add_last();
    own.for_each([&](int row, int column, const Neighbours &sums) { tile.put<is_exact>(it, row, column, sums); });
}
