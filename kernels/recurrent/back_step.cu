// The gradients of a recurrence, back in time, one step after the other. dgates R is a product in memory, and these
// kernels work between two such products. Each thread has one element of the states.
//
// | kernel | computes |
// | --- | --- |
// | start_back_steps | the gradients of the last states |
// | back_step | the gradients of a step's gates, from those of the states behind it |
// | finish_back_steps | the gradients of the first states |
//
// A step is counted as in the recurrence: where it goes in reverse, a row's first step is at its end.
// grid: ceil(batch * H / THREADS).
#define THREADS 256
#include "recurrent/recurrence.cuh"

struct BackStep {
    Element *gates;        // [rows][saved_gates][H]: what forward saved; a step's gradients take its place
    const Element *cells;  // [rows][H]: the saved cell states; null for cells without one
    const Element *y, *dy; // unit j of row r is y[r * y_stride + j]
    const Element *h0, *c0, *last_dh, *last_dc; // [batch][H]; null: zeros
    Element *first_dh, *first_dc;               // [batch][H]: the gradients of h0 and c0; null: not wanted
    const int *lengths;    // [batch]; null: all have `steps`
    const int *starts;     // [steps]: step t of batch row b is row starts[t] + b; null: it is row t * batch + b
    Element *factors;      // [batch][GATES * H]: the step's gradients as factors of R
    const float *products; // [batch][H]: factors R, of the step behind
    float *dh, *dc;        // [batch][H]: what comes to a step's states from behind, but by R; dc for cells with a cell state
    int y_stride, steps, batch, reverse, hidden, step;
};

// The thread's element of the states.
struct Own {
    long long at; // in [batch][H]; < 0: none
    int row, unit, length;
};
__device__ __forceinline__ Own own_element(const BackStep &p) {
    const long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (long long)p.batch * p.hidden) return {-1, 0, 0, 0};
    const int row = int(at / p.hidden);
    return {at, row, int(at % p.hidden), p.lengths ? p.lengths[row] : p.steps};
}

// The row of memory of an element's step.
__device__ __forceinline__ long long place_of(const BackStep &p, const Own &own, int step) {
    const int time = p.reverse ? own.length - 1 - step : step;
    return (p.starts ? p.starts[time] : (long long)time * p.batch) + own.row;
}

KERNEL(start_back_steps, BackStep) {
    const BackStep &p = parameters;
    const Own own = own_element(p);
    if (own.at < 0) return;
    p.dh[own.at] = p.last_dh ? to_float(p.last_dh[own.at]) : 0;
    if (Cell::has_cell_state) p.dc[own.at] = p.last_dc ? to_float(p.last_dc[own.at]) : 0;
}

KERNEL(back_step, BackStep) {
    const BackStep &p = parameters;
    const Own own = own_element(p);
    if (own.at < 0 || p.step >= own.length) return;
    const long long place = place_of(p, own, p.step), state = place * p.hidden + own.unit;
    float dh = p.dh[own.at] + to_float(p.dy[place * p.y_stride + own.unit]);
    if (p.step + 1 < own.length) dh += p.products[own.at];
    const bool is_first = p.step == 0;
    const long long before = is_first ? 0 : place_of(p, own, p.step - 1);
    // The states before the step: the ones from forward, or the first ones.
    const auto state_before = [&](const Element *states, const Element *first, long long stride) {
        if (is_first) return first ? to_float(first[own.at]) : 0.0f;
        return to_float(states[before * stride + own.unit]);
    };
    float h = 0, h_before = 0, c = 0, c_before = 0, dc = 0;
    if (Cell::has_cell_state) {
        c = to_float(p.cells[state]), dc = p.dc[own.at];
        c_before = state_before(p.cells, p.c0, p.hidden);
    } else if (Cell::saved_gates > 1) {
        h_before = state_before(p.y, p.h0, p.y_stride);
    } else {
        h = to_float(p.y[place * p.y_stride + own.unit]);
    }
    float gates[Cell::saved_gates];
    Element *const saved = &p.gates[place * Cell::saved_gates * p.hidden + own.unit];
#pragma unroll
    for (int gate = 0; gate < Cell::saved_gates; gate++)
        gates[gate] = Cell::saved_gates > 1 ? to_float(saved[(long long)gate * p.hidden]) : 0;
    p.dh[own.at] = Cell::gradient(gates, h, h_before, c, c_before, dh, dc);
    if (Cell::has_cell_state) p.dc[own.at] = dc;
    Element *const factors = &p.factors[(long long)own.row * GATES * p.hidden + own.unit];
#pragma unroll
    for (int gate = 0; gate < Cell::saved_gates; gate++) {
        const Element element = to_element(gates[gate]);
        saved[(long long)gate * p.hidden] = element;
        // R_n's factor is the gradient of what r scales, the last one, and not that of n.
        const bool is_factor = !Cell::has_reset_bias || gate != GATES - 1;
        if (is_factor) factors[(long long)min(gate, GATES - 1) * p.hidden] = element;
    }
}

KERNEL(finish_back_steps, BackStep) {
    const BackStep &p = parameters;
    const Own own = own_element(p);
    if (own.at < 0) return;
    if (p.first_dh) p.first_dh[own.at] = to_element(p.dh[own.at] + (own.length > 0 ? p.products[own.at] : 0));
    if (Cell::has_cell_state && p.first_dc) p.first_dc[own.at] = to_element(p.dc[own.at]);
}
