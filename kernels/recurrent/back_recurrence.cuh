// The gradients of one layer and direction of an RNN: back through all of its time steps. A step is counted as in the
// recurrence: where it goes in reverse, a row's first step is at its end. Rows are packed: those of a step follow each
// other.
#pragma once

#include "recurrent/recurrence.cuh"

struct BackRecurrence {
    Element *gates;        // [rows][saved_gates][H]: what forward saved; a step's gradients take its place
    const Element *cells;  // [rows][H]: the saved cell states; null for cells without one
    const Element *y, *dy; // unit j of row r is y[r * y_stride + j]
    const Element *h0, *c0, *last_dh, *last_dc; // [batch][H]; null: zeros
    Element *first_dh, *first_dc;               // [batch][H]: the gradients of h0 and c0; null: not wanted
    const int *lengths;      // [batch]; null: all have `steps`
    const int *starts;       // [steps]: step t of batch row b is row starts[t] + b; null: it is row t * batch + b
    // Of a persistent kernel, R for each block of units (one block has all, or with SCATTER, UNITS each): element
    // [block][column][gate * units + unit] is R's in the row of the block's unit, or 0 behind the last unit.
    const Element *weights;
    void *exchange; // memory in which blocks of a grid exchange sums, all zero before the first launch; else null
    int y_stride, steps, batch, reverse;
};

// A launch computes one recurrence for each blockIdx.z: both directions of a layer.
constexpr int MOST_BACK_RECURRENCES = 2;
struct BackRecurrences {
    BackRecurrence of[MOST_BACK_RECURRENCES];
};

// The row of memory of a step of a batch row, which has that step.
__device__ __forceinline__ int back_place(const BackRecurrence &p, int row, int length, int step) {
    const int time = p.reverse ? length - 1 - step : step;
    return (p.starts ? p.starts[time] : time * p.batch) + row;
}

// The gate of R's factor that a saved number's gradient is; < 0: none. R_n's factor is the gradient of what r scales,
// the last one, and not that of n.
__device__ __forceinline__ constexpr int factor_gate(int saved) {
    return !Cell::has_reset_bias ? saved : saved == GATES - 1 ? -1 : saved < GATES ? saved : GATES - 1;
}
