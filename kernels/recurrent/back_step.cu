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
#include "recurrent/back_recurrence.cuh"

struct BackStep {
    BackRecurrence recurrence;
    Element *factors;      // [batch][GATES * H]: the step's gradients as factors of R
    const float *products; // [batch][H]: factors R, of the step behind
    float *dh, *dc;        // [batch][H]: what comes to a step's states from behind, but by R; dc for cells with a cell state
    int hidden, step;
};

// The thread's element of the states.
struct Own {
    long long at; // in [batch][H]; < 0: none
    int row, unit, length;
};
__device__ __forceinline__ Own own_element(const BackStep &p) {
    const long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    const BackRecurrence &r = p.recurrence;
    if (at >= (long long)r.batch * p.hidden) return {-1, 0, 0, 0};
    const int row = int(at / p.hidden);
    return {at, row, int(at % p.hidden), r.lengths ? r.lengths[row] : r.steps};
}

KERNEL(start_back_steps, BackStep) {
    const BackStep &p = parameters;
    const BackRecurrence &r = p.recurrence;
    const Own own = own_element(p);
    if (own.at < 0) return;
    p.dh[own.at] = r.last_dh ? to_float(r.last_dh[own.at]) : 0;
    if (Cell::has_cell_state) p.dc[own.at] = r.last_dc ? to_float(r.last_dc[own.at]) : 0;
}

KERNEL(back_step, BackStep) {
    const BackStep &p = parameters;
    const BackRecurrence &r = p.recurrence;
    const Own own = own_element(p);
    if (own.at < 0 || p.step >= own.length) return;
    const long long place = back_place(r, own.row, own.length, p.step), state = place * p.hidden + own.unit;
    float dh = p.dh[own.at] + to_float(r.dy[place * r.y_stride + own.unit]);
    if (p.step + 1 < own.length) dh += p.products[own.at];
    const bool is_first = p.step == 0;
    const long long before = is_first ? 0 : back_place(r, own.row, own.length, p.step - 1);
    // The states before the step: the ones from forward, or the first ones.
    const auto state_before = [&](const Element *states, const Element *first, long long stride) {
        if (is_first) return first ? to_float(first[own.at]) : 0.0f;
        return to_float(states[before * stride + own.unit]);
    };
    float h = 0, h_before = 0, c = 0, c_before = 0, dc = 0;
    if (Cell::has_cell_state) {
        c = to_float(r.cells[state]), dc = p.dc[own.at];
        c_before = state_before(r.cells, r.c0, p.hidden);
    } else if (Cell::saved_gates > 1) {
        h_before = state_before(r.y, r.h0, r.y_stride);
    } else {
        h = to_float(r.y[place * r.y_stride + own.unit]);
    }
    float gates[Cell::saved_gates];
    Element *const saved = &r.gates[place * Cell::saved_gates * p.hidden + own.unit];
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
        if (factor_gate(gate) >= 0) factors[(long long)factor_gate(gate) * p.hidden] = element;
    }
}

KERNEL(finish_back_steps, BackStep) {
    const BackStep &p = parameters;
    const BackRecurrence &r = p.recurrence;
    const Own own = own_element(p);
    if (own.at < 0) return;
    if (r.first_dh) r.first_dh[own.at] = to_element(p.dh[own.at] + (own.length > 0 ? p.products[own.at] : 0));
    if (Cell::has_cell_state && r.first_dc) r.first_dc[own.at] = to_element(p.dc[own.at]);
}
