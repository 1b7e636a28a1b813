// A recurrence, one time step after the other, for weights that do not fit on chip. R h is a product in memory, as W x
// is, and these kernels work between two such products. Each thread has one element of the states.
//
// | kernel | computes |
// | --- | --- |
// | start_steps | the first states |
// | reset_step | for canonical GRU, between a step's two products: r h |
// | finish_step | the states and outputs of a step from its products |
//
// grid: ceil(batch * H / THREADS).
#define THREADS 256
#include "recurrent/recurrence.cuh"

struct Step {
    Recurrence recurrence;
    const float *products;   // [batch][GATES * H]: R h. For canonical GRU [batch][2 * H]: R h of r and z
    const float *candidates; // [batch][H]: R_n (r h), for canonical GRU
    Element *h;              // [batch][H]: of the step before, then of this step
    Element *reset;          // [batch][H]: r h, for canonical GRU
    float *c;                // [batch][H], for cells with a cell state
    int hidden, step;
};

#ifdef CELL_CANONICAL_GRU
constexpr int PRODUCT_GATES = GATES - 1;
#else
constexpr int PRODUCT_GATES = GATES;
#endif

// The thread's element of the states.
struct Own {
    long long at; // in [batch][H]; < 0: none
    int row, unit, length;
};
__device__ __forceinline__ Own own_element(const Step &p) {
    const Recurrence &r = p.recurrence;
    const long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (long long)r.batch * p.hidden) return {-1, 0, 0, 0};
    const int row = int(at / p.hidden);
    return {at, row, int(at % p.hidden), r.lengths ? r.lengths[row] : r.steps};
}

// The parts of a gate's sum from the input, with biases, and from the state. `place` is a row of x.
__device__ __forceinline__ float input_part(const Step &p, const Own &own, int place, int gate) {
    const float product = p.recurrence.input[((long long)place * GATES + gate) * p.hidden + own.unit];
    return product + bias_of(p.recurrence, gate, own.unit, p.hidden);
}
__device__ __forceinline__ float recurrent_part(const Step &p, const Own &own, int gate) {
    if (gate >= PRODUCT_GATES) return p.candidates[own.at];
    return p.products[((long long)own.row * PRODUCT_GATES + gate) * p.hidden + own.unit];
}

KERNEL(start_steps, Step) {
    const Step &p = parameters;
    const Recurrence &r = p.recurrence;
    const Own own = own_element(p);
    if (own.at < 0) return;
    p.h[own.at] = r.h0 ? r.h0[own.at] : to_element(0);
    if (Cell::has_cell_state) p.c[own.at] = r.c0 ? to_float(r.c0[own.at]) : 0;
}

#ifdef CELL_CANONICAL_GRU
KERNEL(reset_step, Step) {
    const Step &p = parameters;
    const Own own = own_element(p);
    if (own.at < 0) return;
    float reset = 0;
    if (p.step < own.length) {
        const int place = Rows(p.recurrence).place(own.row, own.length, p.step);
        reset = Cell::reset(input_part(p, own, place, 0), recurrent_part(p, own, 0), to_float(p.h[own.at]));
    }
    p.reset[own.at] = to_element(reset);
}
#endif

KERNEL(finish_step, Step) {
    const Step &p = parameters;
    const Recurrence &r = p.recurrence;
    const Own own = own_element(p);
    if (own.at < 0) return;
    const Rows rows(r);
    const int place = rows.place(own.row, own.length, p.step);
    Element h = p.h[own.at];
    float c = Cell::has_cell_state ? p.c[own.at] : 0;
    if (p.step < own.length) {
        float input[GATES], recurrent[GATES], saved[Cell::saved_gates];
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) {
            input[gate] = input_part(p, own, place, gate);
            recurrent[gate] = recurrent_part(p, own, gate);
        }
        h = to_element(Cell::step(input, recurrent, reset_bias_of(r, own.unit, p.hidden), to_float(h), c, saved));
        p.h[own.at] = h;
        if (Cell::has_cell_state) p.c[own.at] = c;
#ifdef SAVE
        Element elements[Cell::saved_gates];
#pragma unroll
        for (int gate = 0; gate < Cell::saved_gates; gate++) elements[gate] = to_element(saved[gate]);
        save_step(r, place, own.unit, p.hidden, elements, c);
#endif
    }
    if (p.step < rows.written(own.length))
        *rows.y_of(place, own.unit) = p.step < own.length ? h : element_of(r.fill);
    if (p.step + 1 == r.steps) {
        if (r.hy) r.hy[own.at] = h;
        if (Cell::has_cell_state && r.cy) r.cy[own.at] = to_element(c);
    }
}
