// The transpose of a matrix.
//
// A source defines THREADS, a multiple of 32, before it includes this.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"

#define SQUARE_SIDE 32

// to[column][row] = from[row][column]
struct Transposed {
    const Element *from;
    Element *to;
    int rows, columns;
};

// Transposes a square; they are numbered row by row.
__device__ __forceinline__ void transpose_square(const Transposed &p, int number) {
    STATIC_SHARED(Element, square, [SQUARE_SIDE][SQUARE_SIDE + 1]);
    const int across = (p.columns + SQUARE_SIDE - 1) / SQUARE_SIDE;
    const int first_row = number / across * SQUARE_SIDE, first_column = number % across * SQUARE_SIDE;
    for (int at = WARP; at < SQUARE_SIDE; at += THREADS / 32) {
        const int row = first_row + at, column = first_column + LANE;
        if (row < p.rows && column < p.columns) square[at][LANE] = p.from[size_t(row) * p.columns + column];
    }
    barrier();
    for (int at = WARP; at < SQUARE_SIDE; at += THREADS / 32) {
        const int row = first_row + LANE, column = first_column + at;
        if (row < p.rows && column < p.columns) p.to[size_t(column) * p.rows + row] = square[LANE][at];
    }
}
