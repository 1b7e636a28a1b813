// One layer and direction of an RNN: all of its time steps, given W x of all. The kernels' parameters and options.
//
// | option | meaning |
// | --- | --- |
// | -DELEMENT_FLOAT, -DELEMENT_HALF, -DELEMENT_BFLOAT16 | the type of weights, states and outputs |
// | -DCELL_LSTM, -DCELL_GRU, -DCELL_CANONICAL_GRU, -DCELL_TANH, -DCELL_RELU | the cell |
// | -DHIDDEN= | H, the layer's hidden units |
// | -DUNITS= | hidden units that a block computes |
// | -DBATCH_TILE= | rows of the batch that a block computes at once, with each weight that it reads |
// | -DTHREADS= | threads of a block |
// | -DLANES= | threads that share a dot product: a power of two, 32 at most, and a divisor of THREADS |
// | -DREGISTER_WEIGHTS= | weights that a thread keeps in registers, a multiple of 4. The rest is in shared memory |
// | -DFIRST_LOOK= | if blocks exchange h: clocks between a block's send and its first look for the others' packets |
// | -DINPUT_SIZE= | recurrence_cluster, recurrence_grid: each step computes W x, from an x of this many numbers; clusters have as many more threads for it. `input` is null |
// | -DINPUT_REGISTER_WEIGHTS= | with -DINPUT_SIZE: weights of W that a thread keeps in registers, as REGISTER_WEIGHTS |
// | -DLAYERS= | recurrence_wavefront: the most layers that a launch computes |
// | -DSAVE | each step saves what gradients need of it |
// | -DSINGLE_EXCHANGE | recurrence_grid of canonical GRU: blocks exchange once a step. REGISTER_WEIGHTS counts weights of rows first, then of columns |
// | -DTENSOR_CORES | tensor cores multiply, floats as TF32. BATCH_TILE is a multiple of 8. LANES is 4 for each of 1, 2, 4, … warps, which divide the block's warps. REGISTER_WEIGHTS fills whole 16 bytes of elements |
//
// A cell is a struct `Cell` with
//   gates: matrix products with h that a unit needs, in the order of cuDNN's weight space
//   has_cell_state, has_reset_bias: whether `c` and `reset_bias` are used
//   saved_gates: numbers that gradients need of a unit's step, in the place of which their own gradients come
//   step(input, recurrent, reset_bias, h, c, saved): returns the new h, from each gate's two parts and the old states;
//     sets c and the saved numbers
//   gradient(gates, h, h_before, c, c_before, dh, dc): takes the gradients of a step's h and c. Each saved number is a
//     function of a sum; the sum's gradient takes its place. dc becomes the gradient of c before the step. Returns the
//     gradient of h before the step, without the part that comes by R. Not for canonical GRU
#pragma once

// One block uses all of a multiprocessor's registers for its weights.
#define MULTIPROCESSOR_BLOCKS 1
#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/sizes.cuh"

#if defined CELL_LSTM
#include "recurrent/cells/lstm.cuh"
#elif defined CELL_GRU
#include "recurrent/cells/gru.cuh"
#elif defined CELL_CANONICAL_GRU
#include "recurrent/cells/canonical_gru.cuh"
#elif defined CELL_TANH
#include "recurrent/cells/tanh.cuh"
#elif defined CELL_RELU
#include "recurrent/cells/relu.cuh"
#endif

constexpr int GATES = Cell::gates;

// Sums of a pair of a unit and a row: one for each gate. A kernel whose sums include W x (a wavefront's defines
// INPUT_WEIGHTS before) needs one more if a reset gate comes between W x and R h.
#if defined INPUT_WEIGHTS || defined INPUT_SIZE && !defined INPUT_WARPS
constexpr int PAIR_SUMS = GATES + Cell::has_reset_bias;
#elif defined BACKWARD
constexpr int PAIR_SUMS = 1;
#else
constexpr int PAIR_SUMS = GATES;
#endif

// The rows of the matrix that a unit has, and their length.
#if defined BACKWARD
constexpr int PRODUCTS = 1, DEPTH = GATES * HIDDEN;
#elif defined HIDDEN
constexpr int PRODUCTS = GATES, DEPTH = HIDDEN;
#endif

struct Recurrence {
    const float *input;          // [rows][GATES * H]: W x; rows as of `x`. Null: zeros
    const Element *weights;      // R: GATES matrices [H][H], row-major, one after another
    const Element *x;            // with -DINPUT_SIZE: [rows][INPUT_SIZE]; not y, because a block may write y's first rows
                                 // before all blocks have read x's; else null
    const Element *input_weights; // W, laid out as R: with -DINPUT_SIZE, and for a wavefront's layer above another; else null
    const Element *input_biases, *recurrent_biases; // of W and of R: [GATES * H] each; null: zeros
    const Element *h0, *c0;      // [batch][H]; null: zeros
    Element *y;                  // unit j of row r is y[r * y_stride + j]; null: not wanted
    Element *hy, *cy;            // [batch][H]; null: not wanted. Not the same memory as h0 or c0
    Element *gates, *cells;      // with -DSAVE: [rows][saved_gates][H] and, for cells with a cell state, [rows][H]; else null
    const int *lengths;          // [batch]: the steps of each row of the batch; null: all have `steps`
    const int *starts;           // [steps], for packed rows: step t of batch row b is row starts[t] + b; null: it is row
    long long y_stride;          //
    long long time_stride;       //   t * time_stride + b * batch_stride
    long long batch_stride;      //
    unsigned fill;               // bits of the element that fills y behind a row's end, if rows are not packed
    int steps, batch;            // both 1 at least
    int reverse;                 // each batch row begins at its own end
    void *exchange;              // memory in which blocks exchange h, all zero before the first launch; for one launch at a time
};

// A launch computes one recurrence for each blockIdx.z, such as both directions of a layer.
constexpr int MOST_RECURRENCES = 8;
struct Recurrences {
    Recurrence of[MOST_RECURRENCES];
};

// b_W + b_R of a gate's unit, except for GRU's n gate: its b_R is applied inside the reset product.
__device__ __forceinline__ float bias_of(const Recurrence &p, int gate, int unit, int hidden) {
    const int at = gate * hidden + unit;
    const bool is_apart = Cell::has_reset_bias && gate == GATES - 1;
    return (p.input_biases ? to_float(p.input_biases[at]) : 0) +
           (p.recurrent_biases && !is_apart ? to_float(p.recurrent_biases[at]) : 0);
}

// b_R of GRU's n gate; 0 for other cells.
__device__ __forceinline__ float reset_bias_of(const Recurrence &p, int unit, int hidden) {
    return Cell::has_reset_bias && p.recurrent_biases ? to_float(p.recurrent_biases[(GATES - 1) * hidden + unit]) : 0;
}

// The rows of x and y for a recurrence's steps: the parameters that each step needs. Strides fit an int, as the numbers
// of rows and of elements in a row do.
struct Rows {
    const float *const input;
    Element *const y;
    const int *const starts;
    const int y_stride, time_stride, batch_stride;
    const unsigned fill;
    const int steps, reverse;

    __device__ __forceinline__ explicit Rows(const Recurrence &p)
        : input(in_register(p.input)), y(in_register(p.y)), starts(in_register(p.starts)),
          y_stride(in_register(int(p.y_stride))), time_stride(in_register(int(p.time_stride))),
          batch_stride(in_register(int(p.batch_stride))),
          fill(in_register(p.fill)), steps(in_register(p.steps)), reverse(in_register(p.reverse)) {}

    // The row of x and y for a step of a batch row. Behind the batch row's end it is a row of y to fill. It is
    // meaningless there if rows are packed, and behind the last step.
    __device__ __forceinline__ int place(int row, int length, int step) const {
        const int time = min(reverse && step < length ? length - 1 - step : step, steps - 1);
        return starts ? starts[time] + row : time * time_stride + row * batch_stride;
    }

    // The number of steps in which y gets an element of such a batch row.
    __device__ __forceinline__ int written(int length) const { return !y ? 0 : starts ? length : steps; }

    // A unit's element of y in such a row.
    __device__ __forceinline__ Element *y_of(int place, int unit) const {
        return &y[(unsigned long long)unsigned(place) * unsigned(y_stride) + unit];
    }
};

#ifdef SAVE
// Saves a unit's step in a row of x.
__device__ __forceinline__ void save_step(const Recurrence &p, int place, int unit, int hidden,
                                          const Element (&saved)[Cell::saved_gates], float c) {
    if (Cell::saved_gates > 1) {
#pragma unroll
        for (int gate = 0; gate < Cell::saved_gates; gate++)
            p.gates[((long long)place * Cell::saved_gates + gate) * hidden + unit] = saved[gate];
    }
    if (Cell::has_cell_state) p.cells[(long long)place * hidden + unit] = to_element(c);
}
#endif
