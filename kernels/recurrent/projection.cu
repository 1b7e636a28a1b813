// The work around the recurrences of LSTM with a projection, h = W_p m with m = o tanh(c). A recurrence takes R W_p for
// its R, and m for its h: R h = (R W_p) m. So W_p m of all steps is one product, as are all its gradients. These kernels
// work between products and recurrences. Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type
// of data and weights.
//
// | kernel | does |
// | --- | --- |
// | add_first_states | adds R h0 to the input's products of each sequence's first step: no m leads to h0 |
// | write_projected | rounds W_p m to y and the last states |
// | write_gradients | writes the gradients of h, given those by R |
// | write_first_gradients | writes the gradients of h0 |
#define THREADS 256
#include "common/for_all.cuh"
#include "common/ops.cuh"

// The rows of sequences.
struct Sequences {
    const int *lengths; // [batch]; null: all have `steps`
    const int *starts;  // [steps]: time t of sequence b is row starts[t] + b; null: t * time_stride + b * batch_stride
    int steps, batch, time_stride, batch_stride, reverse;

    __device__ __forceinline__ int length(int sequence) const { return lengths ? lengths[sequence] : steps; }
    __device__ __forceinline__ long long row(int time, int sequence) const {
        if (starts) return (long long)starts[time] + sequence;
        return (long long)time * time_stride + (long long)sequence * batch_stride;
    }
    // The times of the first and the last step of a sequence that has any, and of the step behind one.
    __device__ __forceinline__ int first(int length) const { return reverse ? length - 1 : 0; }
    __device__ __forceinline__ int last(int length) const { return reverse ? 0 : length - 1; }
    __device__ __forceinline__ int behind(int time) const { return reverse ? time - 1 : time + 1; }
};

struct FirstStates {
    Sequences sequences;
    const float *from; // [batch][columns]: R h0
    float *to;         // [rows][columns]: W x
    int columns;
};

KERNEL(add_first_states, FirstStates) {
    const FirstStates &p = parameters;
    for_all((long long)p.sequences.batch * p.columns, [&](long long number) {
        const int sequence = int(number / p.columns), column = int(number % p.columns);
        const int length = p.sequences.length(sequence);
        if (length > 0) p.to[p.sequences.row(p.sequences.first(length), sequence) * p.columns + column] += p.from[number];
    });
}

struct Projected {
    Sequences sequences;
    const float *products; // [rows][width]: W_p m; for gradients R^T dgates
    Element *rows;         // unit j of row r is rows[r * stride + j]: y; for gradients dy, which is only read
    Element *gradients;    // [rows][width]: of h
    const Element *given;  // [batch][width]: h0; for gradients those of the last states; null: zeros
    Element *states;       // [batch][width]: the last states; for gradients those of h0; null: not wanted
    int width, stride;
    unsigned fill;         // bits of the element that write_projected writes to y's rows behind the ends of sequences
};

// Calls each(number among states, time, sequence, its length, unit) for each unit of all times of all sequences, also of
// those behind their ends.
template <typename Each> __device__ __forceinline__ void for_units(const Projected &p, Each each) {
    for_all((long long)p.sequences.steps * p.sequences.batch * p.width, [&](long long number) {
        const long long states = (long long)p.sequences.batch * p.width, state = number % states;
        const int sequence = int(state / p.width);
        each(state, int(number / states), sequence, p.sequences.length(sequence), int(state % p.width));
    });
}

// What is given for a state.
__device__ __forceinline__ Element given(const Projected &p, long long state) {
    return p.given ? p.given[state] : to_element(0.0f);
}

KERNEL(write_projected, Projected) {
    const Projected &p = parameters;
    for_units(p, [&](long long state, int time, int sequence, int length, int unit) {
        if (p.states && length == 0 && time == 0) p.states[state] = given(p, state);
        const bool is_there = time < length;
        if (!is_there && p.sequences.starts) return; // there is no such row
        const long long row = p.sequences.row(time, sequence);
        const Element h = is_there ? to_element(p.products[row * p.width + unit]) : element_of(p.fill);
        p.rows[row * p.stride + unit] = h;
        if (p.states && is_there && time == p.sequences.last(length)) p.states[state] = h;
    });
}

KERNEL(write_gradients, Projected) {
    const Projected &p = parameters;
    for_units(p, [&](long long state, int time, int sequence, int length, int unit) {
        if (time >= length) return;
        const long long row = p.sequences.row(time, sequence);
        const bool is_last = time == p.sequences.last(length);
        const float from_behind = is_last
                                      ? to_float(given(p, state))
                                      : p.products[p.sequences.row(p.sequences.behind(time), sequence) * p.width + unit];
        p.gradients[row * p.width + unit] = to_element(to_float(p.rows[row * p.stride + unit]) + from_behind);
    });
}

// In a launch of its own: the last states' gradients may lie in the same memory.
KERNEL(write_first_gradients, Projected) {
    const Projected &p = parameters;
    for_units(p, [&](long long state, int time, int sequence, int length, int unit) {
        if (length == 0 && time == 0) p.states[state] = given(p, state);
        if (time >= length || time != p.sequences.first(length)) return;
        p.states[state] = to_element(p.products[p.sequences.row(time, sequence) * p.width + unit]);
    });
}
