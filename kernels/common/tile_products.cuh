// Tiles of a product of two matrices whose rows are multiplied with each other.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/quads.cuh"

// products[row][column] = Σ x[row][k] · weights[column][k], all of them row-major and packed.
struct Products {
    const Element *x;
    const Element *weights;
    float *products;
    int rows, columns, depth;
};

// A block computes a tile of products. Tiles are small, so that few rows keep all multiprocessors busy. The sums run
// along k in strips; STAGES strips are in shared memory, all but one still being copied.
#define TILE 32
#define STRIP 64
#define STAGES 3

// Elements from one row of a strip to the next: threads read quads of neighbouring rows from different banks.
constexpr int PITCH = STRIP + 16 / sizeof(Element);
constexpr int STRIP_ELEMENTS = TILE * PITCH;

// A thread's copies of Rows rows of a matrix, Access elements at once. Elements outside of the matrix become zero.
template <int Access, int Rows> class Copies {
    static constexpr int across = STRIP / Access, rows_at_once = THREADS / across;
    const Element *const matrix;
    const long long first;       // element, of the thread's first row
    const int row, at;           // in a strip
    const long long rows, depth; // the matrix' rows from the tile's first on, and their length

  public:
    __device__ __forceinline__ Copies(const Element *matrix, long long tile, int rows, int depth)
        : matrix(matrix), first((tile + threadIdx.x / across) * depth + threadIdx.x % across * Access),
          row(threadIdx.x / across), at(threadIdx.x % across * Access), rows(rows - tile), depth(depth) {}

    // Begins the copies of the strip at k.
    __device__ __forceinline__ void begin(Element *strip, int k) const {
#pragma unroll
        for (int more = 0; more < Rows; more += rows_at_once) {
            const bool is_there = row + more < rows && k + at < depth;
            copy_async<Access * sizeof(Element)>(strip + (row + more) * PITCH + at,
                                                 matrix + (is_there ? first + more * depth + k : 0), is_there);
        }
    }
};

// Calls multiply(strip) for each strip of the depth: TILE rows of x from `row` on, and Columns rows of the weights.
template <int Access, int Columns, typename Multiply>
__device__ __forceinline__ void for_strips_by(const Products &p, long long row, long long column, Element *stages,
                                              Multiply multiply) {
    const Copies<Access, TILE> of_x(p.x, row, p.rows, p.depth);
    const Copies<Access, Columns> of_weights(p.weights, column, p.columns, p.depth);
    const auto copy = [&](Element *stage, int k) {
        if (k < p.depth) of_x.begin(stage, k), of_weights.begin(stage + STRIP_ELEMENTS, k);
        end_group();
    };
    constexpr int stage = (TILE + Columns) * PITCH;
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) copy(stages + ahead * stage, ahead * STRIP);
    int at_hand = 0, ahead = STAGES - 1;
#pragma unroll 1
    for (int k = 0; k < p.depth; k += STRIP) {
        wait_for_groups<STAGES - 2>();
        barrier(); // the strip is there, and nobody reads the one before any more
        copy(stages + ahead * stage, k + (STAGES - 1) * STRIP);
        multiply(stages + at_hand * stage);
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }
}

template <int Columns, typename Multiply>
__device__ __forceinline__ void for_strips(const Products &p, long long row, long long column, Element *stages,
                                           Multiply multiply) {
    constexpr int access = 16 / sizeof(Element);
    const size_t places = reinterpret_cast<size_t>(p.x) | reinterpret_cast<size_t>(p.weights);
    if (p.depth % access == 0 && places % 16 == 0)
        for_strips_by<access, Columns>(p, row, column, stages, multiply);
    else
        for_strips_by<1, Columns>(p, row, column, stages, multiply);
}

// By multiply-adds: SHARERS threads divide the strips of SQUARE × SQUARE products, which are SQUARES_ACROSS apart, and add up
// their sums in the end.
#define SQUARE 4
#define SQUARES_ACROSS (TILE / SQUARE)
#define SQUARES (SQUARES_ACROSS * SQUARES_ACROSS)
#define SHARERS (THREADS / SQUARES)
static_assert(STRIP % (4 * SHARERS) == 0 && SHARERS == SQUARE, "whole quads of a strip, and a row of each square");

// Computes the tile of TILE × TILE products from these on. `stages` is shared: Element[STAGES][2][TILE][PITCH], and then
// float[SHARERS][SQUARE][SQUARE][SQUARES].
__device__ __forceinline__ void multiply_square_tile(const Products &p, long long row, long long column, Element *stages) {
    const int square = threadIdx.x % SQUARES, sharer = threadIdx.x / SQUARES;
    const int left_at = square / SQUARES_ACROSS * PITCH + 4 * sharer;
    const int above_at = STRIP_ELEMENTS + square % SQUARES_ACROSS * PITCH + 4 * sharer;
    float sums[SQUARE][SQUARE] = {};
    for_strips<TILE>(p, row, column, stages, [&](const Element *strip) {
#pragma unroll
        for (int at = 0; at < STRIP; at += 4 * SHARERS) {
            float4 left[SQUARE], above[SQUARE];
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
                left[i] = in_float(*reinterpret_cast<const Quad *>(strip + left_at + i * SQUARES_ACROSS * PITCH + at));
                above[i] = in_float(*reinterpret_cast<const Quad *>(strip + above_at + i * SQUARES_ACROSS * PITCH + at));
            }
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
#pragma unroll
                for (int j = 0; j < SQUARE; j++) {
                    sums[i][j] = fmaf(left[i].x, above[j].x, sums[i][j]);
                    sums[i][j] = fmaf(left[i].y, above[j].y, sums[i][j]);
                    sums[i][j] = fmaf(left[i].z, above[j].z, sums[i][j]);
                    sums[i][j] = fmaf(left[i].w, above[j].w, sums[i][j]);
                }
            }
        }
    });
    barrier(); // nobody reads the strips any more
    float *const parts = reinterpret_cast<float *>(stages);
#pragma unroll
    for (int i = 0; i < SQUARE * SQUARE; i++)
        parts[(sharer * SQUARE * SQUARE + i) * SQUARES + square] = sums[i / SQUARE][i % SQUARE];
    barrier();
    // Each sharer writes a row of the square.
    const long long r = row + square / SQUARES_ACROSS + sharer * SQUARES_ACROSS;
#pragma unroll
    for (int j = 0; j < SQUARE; j++) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < SHARERS; i++) sum += parts[((i * SQUARE + sharer) * SQUARE + j) * SQUARES + square];
        const long long c = column + square % SQUARES_ACROSS + j * SQUARES_ACROSS;
        if (r < p.rows && c < p.columns) p.products[r * p.columns + c] = sum;
    }
}
