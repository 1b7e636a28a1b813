// Products of matrices, and other tasks, for nets of vertex functions.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of tensors. Sums are float.
#define THREADS 256
// The compiler would make room for more blocks by spilling registers.
#define MULTIPROCESSOR_BLOCKS 2
#include "common/tile_products.cuh"
#include "dynamic/level.cuh"
#include "dynamic/level_products.cuh"
#include "dynamic/tasks.cuh"

// The rows and the columns of which a warp computes products at once.
#define ROWS 8
#define COLUMNS 2

// A tile of products. The part of a row that a lane multiplies: quads where all rows are aligned, and else single elements.
template <bool by_quads>
__device__ __forceinline__ void multiply_few_rows(const Products &it, int first_row, int first_column) {
    float sums[ROWS][COLUMNS] = {};
    const int access = by_quads ? 4 : 1;
    for (int k = LANE * access; k < it.depth; k += 32 * access) {
        float4 weights[COLUMNS];
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            const Element *from = it.weights + size_t(min(first_column + column, it.columns - 1)) * it.depth + k;
            weights[column] = by_quads ? quad_at(from) : make_float4(to_float(*from), 0, 0, 0);
        }
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (first_row + row < it.rows) {
                const Element *from = it.x + size_t(first_row + row) * it.depth + k;
                const float4 x = by_quads ? quad_at(from) : make_float4(to_float(*from), 0, 0, 0);
#pragma unroll
                for (int column = 0; column < COLUMNS; ++column) {
                    float sum = fmaf(x.x, weights[column].x, sums[row][column]);
                    if (by_quads) {
                        sum = fmaf(x.y, weights[column].y, sum);
                        sum = fmaf(x.z, weights[column].z, sum);
                        sum = fmaf(x.w, weights[column].w, sum);
                    }
                    sums[row][column] = sum;
                }
            }
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        if (first_row + row < it.rows) {
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
                const float sum = warp_sum(sums[row][column]);
                if (LANE == 0 && first_column + column < it.columns) {
                    it.products[size_t(first_row + row) * it.columns + first_column + column] = sum;
                }
            }
        }
    }
}

// `columns` is the number of the block's columns among those of other blocks.
__device__ __forceinline__ void multiply_tile_of(const Products &it, int first_row, unsigned columns) {
    const int first_column = int(columns * WARPS + WARP) * COLUMNS;
    if (first_column >= it.columns) return;
    const size_t places = size_t(it.x) | size_t(it.weights);
    if (it.depth % 4 == 0 && places % (4 * sizeof(Element)) == 0) {
        multiply_few_rows<true>(it, first_row, first_column);
    } else {
        multiply_few_rows<false>(it, first_row, first_column);
    }
}

// Products that need nothing of each other, of few rows.
KERNEL(few_rows, Together<Products>) {
    parameters.run([](const Products &it, unsigned block, unsigned) {
        const unsigned across = (it.columns + WARPS * COLUMNS - 1) / (WARPS * COLUMNS);
        multiply_tile_of(it, block / across * ROWS, block % across);
    });
}

// Likewise of more rows.
KERNEL(square_tiles, Together<Products>) {
    SHARED(Element, stages);
    parameters.run([&](const Products &it, unsigned block, unsigned) {
        const unsigned across = (it.columns + TILE - 1) / TILE;
        multiply_square_tile(it, block / across * TILE, block % across * TILE, stages);
    });
}

// Products of a level's rows. Each has a launch, by the rows that it is made for.
KERNEL(level_few_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<8, 64, 3, false>(parameters, shared);
}

KERNEL(level_some_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<32, 64, 3, false>(parameters, shared);
}

KERNEL(level_many_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<64, 128, 2, false>(parameters, shared);
}

// Likewise. Elements of 2 bytes have no need of them.
#ifdef ELEMENT_FLOAT
KERNEL(exact_level_few_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<8, 64, 3, true>(parameters, shared);
}

KERNEL(exact_level_some_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<32, 64, 3, true>(parameters, shared);
}

KERNEL(exact_level_many_rows, LevelProduct) {
    SHARED(Element, shared);
    multiply_level<64, 128, 2, true>(parameters, shared);
}
#endif

// Tasks without outer products.
KERNEL(tasks, Together<Task>) {
    run_tasks(parameters, [](const Task &, unsigned) {});
}

template <bool is_exact> __device__ __forceinline__ void run_all(const Together<Task> &tasks, Element *stages) {
    run_tasks(tasks, [&](const Task &task, unsigned block) {
        sum_outer_products<is_exact>(task.outer_products, block, stages);
    });
}

// Any tasks.
KERNEL(outer_products, Together<Task>) {
    SHARED(Element, stages);
    run_all<false>(parameters, stages);
}

// Likewise. Elements of 2 bytes have no need of it.
#ifdef ELEMENT_FLOAT
KERNEL(exact_outer_products, Together<Task>) {
    SHARED(Element, stages);
    run_all<true>(parameters, stages);
}
#endif
