// Sums of outer products of rows: the gradients of matrices.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "dynamic/level.cuh"
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
#define OUTER_DEPTH 16
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
template <int Count> struct alignas(Count * sizeof(float)) Neighbours {
    float number[Count];
};

// The sums of a thread: those of all rows, and those of the last few, which are less than SLICE_ROWS.
template <int Rows, int Columns> struct OuterSums {
    float all[Rows][Columns] = {}, last[Rows][Columns] = {};
    int stages = 0;

    __device__ __forceinline__ void end_stage() {
        if (++stages % (SLICE_ROWS / OUTER_DEPTH) == 0) add_last();
    }

    __device__ __forceinline__ void add_last() {
#pragma unroll
        for (int i = 0; i < Rows; ++i)
#pragma unroll
            for (int j = 0; j < Columns; ++j) all[i][j] += last[i][j], last[i][j] = 0;
    }
};

// By multiply-adds: a thread has 8 rows and 4 columns of the tile.
struct ByMultiplyAdds {
    OuterSums<8, 4> sums;

    __device__ __forceinline__ static int first_row() { return int(threadIdx.x) / 16 * 8; }
    __device__ __forceinline__ static int first_column() { return int(threadIdx.x) % 16 * 4; }

    __device__ __forceinline__ void multiply(const Element *stage) {
        const Element *const dy = stage + first_row(), *const x = stage + OUTER_DEPTH * DY_PITCH + first_column();
#pragma unroll
        for (int k = 0; k < OUTER_DEPTH; ++k) {
            float left[8], right[4];
#pragma unroll
            for (int i = 0; i < 8; i += 4) read_quad(left + i, dy + k * DY_PITCH + i);
            read_quad(right, x + k * X_PITCH);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sums.last[i][j] = fmaf(left[i], right[j], sums.last[i][j]);
        }
        sums.end_stage();
    }

    // Calls each(row, column, sums) for neighbours from this column on.
    template <typename Each> __device__ __forceinline__ void for_each(Each each) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float(&its)[4] = sums.all[i];
            each(first_row() + i, first_column(), Neighbours<4>{{its[0], its[1], its[2], its[3]}});
        }
    }

    __device__ __forceinline__ static void read_quad(float *to, const Element *from) {
        const float4 quad = quad_at(from);
        to[0] = quad.x, to[1] = quad.y, to[2] = quad.z, to[3] = quad.w;
    }
};

// By tensor cores: a warp has 32 rows and 32 columns of the tile. All factors are TF32: floats are rounded to it, and others
// are as they are.
struct ByTensorCores {
    static constexpr int row_tiles = 2, column_tiles = 4;
    // [tile of rows, tile of columns][as warp_mma_tf32 has them]
    OuterSums<row_tiles * column_tiles, 4> sums;

    __device__ __forceinline__ static int first_row() { return int(WARP) % 4 * 32 + int(LANE) / 4; }
    __device__ __forceinline__ static int first_column() { return int(WARP) / 4 * 32; }

    __device__ __forceinline__ void multiply(const Element *stage) {
        const Element *const dy = stage + first_row();
        const Element *const x = stage + OUTER_DEPTH * DY_PITCH + first_column() + LANE / 4;
#pragma unroll
        for (int k = LANE % 4; k < OUTER_DEPTH; k += 8) {
            unsigned left[row_tiles][4], right[column_tiles][2];
#pragma unroll
            for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    left[tile][i] = factor(dy[(k + i / 2 * 4) * DY_PITCH + tile * 16 + i % 2 * 8]);
#pragma unroll
            for (int tile = 0; tile < column_tiles; ++tile)
#pragma unroll
                for (int i = 0; i < 2; ++i) right[tile][i] = factor(x[(k + i * 4) * X_PITCH + tile * 8]);
#pragma unroll
            for (int tile = 0; tile < row_tiles * column_tiles; ++tile)
                warp_mma_tf32(sums.last[tile], left[tile / column_tiles], right[tile % column_tiles]);
        }
        sums.end_stage();
    }

    template <typename Each> __device__ __forceinline__ void for_each(Each each) const {
#pragma unroll
        for (int tile = 0; tile < row_tiles * column_tiles; ++tile)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const int row = first_row() + tile / column_tiles * 16 + i / 2 * 8;
                const int column = first_column() + tile % column_tiles * 8 + int(LANE) % 4 * 2;
                each(row, column, Neighbours<2>{{sums.all[tile][i], sums.all[tile][i + 1]}});
            }
    }

    __device__ __forceinline__ static unsigned factor(Element element) {
        const float value = to_float(element);
        return __float_as_uint(sizeof(Element) == sizeof(float) ? float_to_tf32(value) : value);
    }
};

// Computes the tile of a block. `stages` is shared: Element[OUTER_STAGES][OUTER_STAGE].
template <typename Sums>
__device__ __forceinline__ void sum_outer_products(const OuterProducts &it, int depth, unsigned block, Element *stages) {
    const int across = (it.columns + OUTER_COLUMNS - 1) / OUTER_COLUMNS, down = (it.rows + OUTER_ROWS - 1) / OUTER_ROWS;
    const int slice = int(block) / (across * down), tile = int(block) % (across * down);
    const int first_row = tile / across * OUTER_ROWS, first_column = tile % across * OUTER_COLUMNS;
    const int of_slice = rows_of_slice(depth, it.slices);
    const int begin = slice * of_slice, end = min(depth, begin + of_slice);
    constexpr int access = 16 / sizeof(Element);
    const size_t places = size_t(it.dy) | size_t(it.x);
    Sums own;
    const auto multiply = [&](const Element *stage) { own.multiply(stage); };
    if (it.rows % access == 0 && it.columns % access == 0 && places % 16 == 0)
        for_outer_stages_by<access>(it, first_row, first_column, begin, end, stages, multiply);
    else
        for_outer_stages_by<1>(it, first_row, first_column, begin, end, stages, multiply);
    own.sums.add_last();
    float *const sums = it.sums + size_t(slice) * it.rows * it.columns;
    own.for_each([&](int row, int column, auto neighbours) {
        constexpr int count = sizeof neighbours / sizeof(float);
        row += first_row, column += first_column;
        if (row >= it.rows) return;
        float *const to = sums + size_t(row) * it.columns + column;
        if (column + count <= it.columns && size_t(to) % sizeof neighbours == 0) {
            auto &its = *reinterpret_cast<decltype(neighbours) *>(to);
#pragma unroll
            for (int i = 0; i < count; ++i) neighbours.number[i] += it.adds ? its.number[i] : 0;
            its = neighbours;
        } else {
            for (int i = 0; i < count && column + i < it.columns; ++i) to[i] = neighbours.number[i] + (it.adds ? to[i] : 0);
        }
    });
}
