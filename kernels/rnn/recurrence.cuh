// One layer and direction of an RNN: all of its time steps, given the input's part of all of them. What the kernels take,
// and what they are compiled for.
//
// | option | what it says |
// | --- | --- |
// | -DELEMENT_FLOAT, -DELEMENT_HALF, -DELEMENT_BFLOAT16 | what weights, states and outputs are stored as |
// | -DCELL_LSTM, -DCELL_GRU, -DCELL_CANONICAL_GRU, -DCELL_TANH, -DCELL_RELU | the cell |
// | -DHIDDEN= | H, the layer's hidden units |
// | -DUNITS= | hidden units that a block computes |
// | -DBATCH_TILE= | rows of the batch that a block computes at once, with each weight that it reads |
// | -DTHREADS= | of a block |
// | -DLANES= | threads that share a dot product: a power of two, 32 at most, and a divisor of THREADS |
// | -DREGISTER_WEIGHTS= | weights that a thread keeps in registers, a multiple of 4. The rest is in shared memory |
// | -DFIRST_LOOK= | where blocks hand each other h: clocks from when a block has sent its own to when it first looks for the others' |
// | -DINPUT_SIZE= | recurrence_cluster, recurrence_grid: W x is computed in each step, of an x of so many numbers, in clusters by as many more threads; `input` is null |
// | -DINPUT_REGISTER_WEIGHTS= | with it: weights of W that a thread keeps in registers, likewise |
// | -DLAYERS= | recurrence_wavefront: the most layers that a launch computes |
// | -DSINGLE_EXCHANGE | recurrence_grid of canonical GRU: blocks exchange once a step. REGISTER_WEIGHTS are those of rows, and then those of columns |
// | -DTENSOR_CORES | tensor cores multiply, floats as TF32. BATCH_TILE is a multiple of 8, LANES 4 of each of 1, 2, 4, … warps, which are a divisor of the block's, and REGISTER_WEIGHTS whole 16 bytes of elements |
//
// A cell is a struct `Cell` of
//   gates: matrix products with h that a unit needs, in the order of cuDNN's weight space
//   has_cell_state, has_reset_bias: whether `c` and `reset_bias` mean anything
//   step(input, recurrent, reset_bias, h, c): the new h from the two parts of each gate and the old states; changes c
#pragma once

// All of a multiprocessor's registers are for one block's weights.
#define MULTIPROCESSOR_BLOCKS 1
#include "device.cuh"
#include "ops.cuh"

#if defined CELL_LSTM
#include "rnn/cells/lstm.cuh"
#elif defined CELL_GRU
#include "rnn/cells/gru.cuh"
#elif defined CELL_CANONICAL_GRU
#include "rnn/cells/canonical_gru.cuh"
#elif defined CELL_TANH
#include "rnn/cells/tanh.cuh"
#elif defined CELL_RELU
#include "rnn/cells/relu.cuh"
#endif

constexpr int at_least(int n, int least) { return n > least ? n : least; }
constexpr int divided_up(int n, int by) { return (n + by - 1) / by; }

constexpr int GATES = Cell::gates;

// Sums of a pair of a unit and a row: of its gates. A kernel that multiplies the layer's input too (a wavefront's defines
// INPUT_WEIGHTS before) has one more if a reset gate comes between W x and R h.
#if defined INPUT_WEIGHTS || defined INPUT_SIZE && !defined INPUT_WARPS
constexpr int PAIR_SUMS = GATES + Cell::has_reset_bias;
#else
constexpr int PAIR_SUMS = GATES;
#endif

// The gates of one pair, as shared memory has them.
struct alignas(GATES % 4 ? sizeof(float) : 4 * sizeof(float)) GateSums {
    float gate[GATES];
};

struct Recurrence {
    const float *input;          // [rows][GATES * H]: W x; rows as of `x`. Null: zeros
    const Element *weights;      // R: GATES matrices [H][H], row-major, one after another
    const Element *x;            // with -DINPUT_SIZE: [rows][INPUT_SIZE], and not y: its first rows may be written before all
                                 // blocks have read x's; else null
    const Element *input_weights; // W, likewise: with -DINPUT_SIZE, and of a wavefront's layer above another; else null
    const Element *input_biases, *recurrent_biases; // beside W and R: [GATES * H] each; null: zeros
    const Element *h0, *c0;      // [batch][H]; null: zeros
    Element *y;                  // unit j of row r is y[r * y_stride + j]; null: not wanted
    Element *hy, *cy;            // [batch][H]; null: not wanted. Not h0 or c0 themselves
    const int *lengths;          // [batch]: the steps of each row of the batch; null: all have `steps`
    const int *starts;           // [steps], of packed rows: step t of batch row b is row starts[t] + b; null: it is row
    long long y_stride;          //
    long long time_stride;       //   t * time_stride + b * batch_stride
    long long batch_stride;      //
    unsigned fill;               // the bits of what y gets behind a row's end, where rows are not packed
    int steps, batch;            // both 1 at least
    int reverse;                 // each batch row begins at its own end
    void *exchange;              // where blocks exchange h: memory of its own, all zero before the first launch; one launch at a time
};

// What a launch computes: a recurrence for each blockIdx.z, such as both directions of a layer.
constexpr int MOST_RECURRENCES = 8;
struct Recurrences {
    Recurrence of[MOST_RECURRENCES];
};

// What is added to W x + R h of a gate's unit: both biases, but of GRU's last gate not the one inside of the reset gate.
__device__ __forceinline__ float bias_of(const Recurrence &p, int gate, int unit, int hidden) {
    const int at = gate * hidden + unit;
    const bool is_apart = Cell::has_reset_bias && gate == GATES - 1;
    return (p.input_biases ? to_float(p.input_biases[at]) : 0) +
           (p.recurrent_biases && !is_apart ? to_float(p.recurrent_biases[at]) : 0);
}

// That one; 0 of other cells.
__device__ __forceinline__ float reset_bias_of(const Recurrence &p, int unit, int hidden) {
    return Cell::has_reset_bias && p.recurrent_biases ? to_float(p.recurrent_biases[(GATES - 1) * hidden + unit]) : 0;
}

// Where a recurrence's steps find their rows of x and y: what each step needs of the parameters. Strides fit an int, as
// numbers of rows and of a row's elements do.
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

    // The row of x and y that belongs to a step of a row of the batch. Behind that row's end it is one that y has to fill,
    // but where rows are packed, and behind the last step: there it means nothing.
    __device__ __forceinline__ int place(int row, int length, int step) const {
        const int time = min(reverse && step < length ? length - 1 - step : step, steps - 1);
        return starts ? starts[time] + row : time * time_stride + row * batch_stride;
    }

    // The steps in which y gets something of such a row.
    __device__ __forceinline__ int written(int length) const { return !y ? 0 : starts ? length : steps; }

    // Of a unit, in such a row.
    __device__ __forceinline__ Element *y_of(int place, int unit) const {
        return &y[(unsigned long long)unsigned(place) * unsigned(y_stride) + unit];
    }
};
