// The pairs of a unit and a row that a thread owns: their states over time, and what is done per element.
#pragma once

#ifdef TENSOR_CORES
#include "rnn/tensor_share.cuh"
#else
#include "rnn/share.cuh"
#endif

constexpr int BLOCKS = divided_up(HIDDEN, UNITS); // that compute a tile of the batch together

// The block's biases, in shared memory: seen behind a barrier().
class Biases {
    float *sums; // [GATES][UNITS]
    const int first_unit;

  public:
    __device__ __forceinline__ Biases(const Recurrence &p, int first_unit) : first_unit(first_unit) {
        STATIC_SHARED(float, memory, [GATES * UNITS]);
        sums = shared_in_register(memory);
#pragma unroll 1
        for (int i = threadIdx.x; i < GATES * UNITS; i += THREADS) {
            const int unit = first_unit + i % UNITS;
            sums[i] = unit < HIDDEN ? bias_of(p, i / UNITS, unit, HIDDEN) : 0;
        }
    }

    // Of a unit of the layer, which is one of the block's.
    __device__ __forceinline__ float of(int gate, int unit) const { return sums[gate * UNITS + unit - first_unit]; }
};

class States {
    struct Pair {
        int unit, row;         // of the layer, of the batch; row < 0: there is no such pair
        int length;            // the row's steps
        int place, next_place; // the row of x and y that this step reads and writes, and the next; < 0: none
        float h, c, reset_bias;
        float input[GATES], next_input[GATES];
    };
    Pair pairs[LANE_PAIRS];
    const Recurrence &p;
    const Biases &biases;

  public:
    const Rows rows;

    // A block that computes UNITS units from first_unit on, for BATCH_TILE rows from first_row on.
    __device__ __forceinline__ States(const Recurrence &parameters, const Biases &biases, const Own &own, int first_unit,
                                      int first_row)
        : p(parameters), biases(biases), rows(parameters) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            pair.unit = first_unit + own.unit(i);
            pair.row = first_row + own.row(i);
            pair.h = pair.c = pair.reset_bias = 0;
            pair.length = 0;
            pair.place = pair.next_place = -1;
            if (!own.has(i) || pair.unit >= HIDDEN || pair.row >= p.batch) {
                pair.row = -1;
                continue;
            }
            const long long state = (long long)pair.row * HIDDEN + pair.unit;
            if (p.h0) pair.h = to_float(p.h0[state]);
            if (Cell::has_cell_state && p.c0) pair.c = to_float(p.c0[state]);
            pair.reset_bias = reset_bias_of(p, pair.unit, HIDDEN);
            pair.length = p.lengths ? p.lengths[pair.row] : p.steps;
            pair.place = place(pair, 0);
            read_input(pair, 0, pair.place, pair.input);
            pair.next_place = place(pair, 1);
        }
    }

    // Completes the step's input, and asks for the next one's, which is there when this step is done.
    __device__ __forceinline__ void begin_step(int step) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            read_input(pair, step + 1, pair.next_place, pair.next_input);
            if (step >= pair.length) continue;
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) pair.input[gate] += biases.of(gate, pair.unit);
        }
    }

#ifdef CELL_CANONICAL_GRU
    // Calls write(unit of the block, row of the tile, r h, z) for each pair, given R h of r and z.
    template <typename Write>
    __device__ __forceinline__ void reset(int first_unit, int first_row, const float (&sums)[GROUP_PAIRS][2], Write write) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            if (pair.row < 0) continue;
            const float reset = Cell::reset(pair.input[0], sums[i][0], pair.h);
            write(pair.unit - first_unit, pair.row - first_row, reset, Cell::update(pair.input[1], sums[i][1]));
        }
    }

    // Each pair's h is what read(unit of the layer, row of the tile) says.
    template <typename Read> __device__ __forceinline__ void take_over(int first_row, Read read) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++)
            if (pairs[i].row >= 0) pairs[i].h = read(pairs[i].unit, pairs[i].row - first_row);
    }
#endif

    // New states, given R h. Rows that have ended keep theirs.
    __device__ __forceinline__ void update(int step, const Sums &sums) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            float c = pair.c;
            float input[GATES], recurrent[GATES];
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) input[gate] = pair.input[gate], recurrent[gate] = sums[i][gate];
            if (PAIR_SUMS > GATES) input[GATES - 1] += sums[i][PAIR_SUMS - 1];
            const float h = Cell::step(input, recurrent, pair.reset_bias, pair.h, c);
            if (step >= pair.length) continue;
            // What goes into the next step is what y gets.
            pair.h = to_float(to_element(h));
            pair.c = c;
        }
    }

    // Calls write(unit of the block, row of the tile, h) for each pair.
    template <typename Write> __device__ __forceinline__ void hand_over(int first_unit, int first_row, Write write) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++)
            if (pairs[i].row >= 0) write(pairs[i].unit - first_unit, pairs[i].row - first_row, pairs[i].h);
    }

    // Writes y, and goes on to the next step.
    __device__ __forceinline__ void advance(int step) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            if (pair.place >= 0 && rows.y)
                rows.y_of(pair.place, pair.unit) = step < pair.length ? to_element(pair.h) : element_of(rows.fill);
            pair.place = pair.next_place;
            pair.next_place = place(pair, step + 2);
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) pair.input[gate] = pair.next_input[gate];
        }
    }

    __device__ __forceinline__ void write_last() {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            if (pair.row < 0) continue;
            const long long state = (long long)pair.row * HIDDEN + pair.unit;
            if (p.hy) p.hy[state] = to_element(pair.h);
            if (Cell::has_cell_state && p.cy) p.cy[state] = to_element(pair.c);
        }
    }

  private:
    __device__ __forceinline__ int place(const Pair &pair, int step) const {
        return pair.row < 0 ? -1 : rows.place(pair.row, pair.length, step);
    }

    __device__ __forceinline__ void read_input(const Pair &pair, int step, int place, float (&input)[GATES]) const {
        const bool is_wanted = step < pair.length && place >= 0 && rows.input;
        const float *source = &rows.input[(long long)place * (GATES * HIDDEN) + pair.unit];
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) input[gate] = is_wanted ? source[gate * HIDDEN] : 0;
    }
};

// h0 of a tile, as [BATCH_TILE][PADDED_HIDDEN], with zeros for what there is not.
__device__ __forceinline__ void read_h0(const Recurrence &p, int first_row, Factor *h) {
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) {
        const int row = first_row + i / PADDED_HIDDEN, unit = i % PADDED_HIDDEN;
        const bool is_there = p.h0 && row < p.batch && unit < HIDDEN;
        h[i] = to_factor(is_there ? p.h0[(long long)row * HIDDEN + unit] : to_element(0));
    }
}
