// The pairs of a unit and a row that a thread owns: their states over time, and the element-wise part of a step.
#pragma once

#include "common/matrix/gate_sums.cuh"

#ifdef TENSOR_CORES
#include "recurrent/tensor_share.cuh"
#else
#include "recurrent/share.cuh"
#endif

constexpr int BLOCKS = divided_up(HIDDEN, UNITS); // that compute a tile of the batch together

#ifdef INPUT_WARPS

// W x + biases of a step's pairs. The warps that multiply W write them, and the warps that multiply R read them: in
// shared memory, up to `end`, in two buffers that steps use in turns.
class SharedInputs {
    static constexpr int TILE = BATCH_TILE * UNITS * GATES;
    float *const buffers;

    __device__ __forceinline__ GateSums<GATES> *of(int step, int unit, int row) const {
        return reinterpret_cast<GateSums<GATES> *>(&buffers[step % 2 * TILE + (row * UNITS + unit) * GATES]);
    }

  public:
    __device__ __forceinline__ explicit SharedInputs(void *memory) : buffers(static_cast<float *>(memory)) {}

    // `unit` counts in the block, `row` in the tile.
    __device__ __forceinline__ void set(int step, int unit, int row, int gate, float sum) const {
        of(step, unit, row)->gate[gate] = sum;
    }
    __device__ __forceinline__ GateSums<GATES> get(int step, int unit, int row) const { return *of(step, unit, row); }

    __device__ __forceinline__ void *end() const { return buffers + divided_up(2 * TILE, 4) * 4; }
};

// The source of a step's inputs.
typedef SharedInputs Inputs;

#else

// The block's biases, in shared memory. Other threads see them behind a barrier().
class Biases {
    float *sums; // [GATES][UNITS]

  public:
    __device__ __forceinline__ Biases(const Recurrence &p, int first_unit) {
        STATIC_SHARED(float, memory, [GATES * UNITS]);
        sums = shared_in_register(memory);
#pragma unroll 1
        for (int i = threadIdx.x; i < GATES * UNITS; i += THREADS) {
            const int unit = first_unit + i % UNITS;
            sums[i] = unit < HIDDEN ? bias_of(p, i / UNITS, unit, HIDDEN) : 0;
        }
    }

    // `unit` counts in the block.
    __device__ __forceinline__ float of(int gate, int unit) const { return sums[gate * UNITS + unit]; }
};

// The source of a step's inputs, together with W x in memory.
typedef Biases Inputs;

#endif

class States {
    struct Pair {
        int unit, row;         // in the block, in the tile; unit < 0: there is no such pair
        int length;            // the row's steps
        int written;           // steps in which y gets an element
        int place, next_place; // the row of x and y that this step reads and writes, and the next
        float h, c, reset_bias;
        float input[GATES], next_input[GATES];
#ifdef SAVE
        Element saved[Cell::saved_gates]; // of the step that was computed last
#endif
    };
    Pair pairs[LANE_PAIRS];
    const Recurrence &p;
    const Inputs &inputs;
    const int first_unit, first_row;

  public:
    const Rows rows;

    // A block that computes UNITS units from first_unit on, for BATCH_TILE rows from first_row on.
    __device__ __forceinline__ States(const Recurrence &parameters, const Inputs &inputs, const Own &own, int first_unit,
                                      int first_row)
        : p(parameters), inputs(inputs), first_unit(first_unit), first_row(first_row), rows(parameters) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            pair.unit = in_register(own.unit(i));
            pair.row = BATCH_TILE > 1 ? in_register(own.row(i)) : 0;
            pair.h = pair.c = pair.reset_bias = 0;
            pair.length = pair.written = pair.place = 0;
            if (!own.has(i) || unit(pair) >= HIDDEN || row(pair) >= p.batch) {
                pair.unit = -1;
                continue;
            }
            if (p.h0) pair.h = to_float(p.h0[state(pair)]);
            if (Cell::has_cell_state && p.c0) pair.c = to_float(p.c0[state(pair)]);
            pair.reset_bias = reset_bias_of(p, unit(pair), HIDDEN);
            pair.length = p.lengths ? p.lengths[row(pair)] : p.steps;
            pair.written = rows.written(pair.length);
        }
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) ask_for(pairs[i], 0);
    }

    // Goes on to a step: completes its input, and asks for the next step's, which arrives during this step. The first
    // step begins behind the barrier() that shows the biases. If other warps multiply W, the input is already complete.
    __device__ __forceinline__ void begin_step(int step) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            pair.place = pair.next_place;
            const bool goes_on = step < pair.length;
#ifdef INPUT_WARPS
            const GateSums<GATES> input = goes_on ? inputs.get(step, pair.unit, pair.row) : GateSums<GATES>{};
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) pair.input[gate] = input.gate[gate];
#else
#pragma unroll
            for (int gate = 0; gate < GATES; gate++)
                pair.input[gate] = goes_on ? pair.next_input[gate] + inputs.of(gate, pair.unit) : 0;
#endif
            ask_for(pair, step + 1);
        }
    }

#ifdef CELL_CANONICAL_GRU
    // Calls write(unit of the block, row of the tile, r h, z) for each pair, given R h of r and z.
    template <typename Write>
    __device__ __forceinline__ void reset(const float (&sums)[GROUP_PAIRS][2], Write write) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            if (pair.unit < 0) continue;
            const float reset = Cell::reset(pair.input[0], sums[i][0], pair.h);
            write(pair.unit, pair.row, reset, Cell::update(pair.input[1], sums[i][1]));
        }
    }

    // Sets each pair's h to read(unit of the block, row of the tile).
    template <typename Read> __device__ __forceinline__ void take_over(Read read) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++)
            if (pairs[i].unit >= 0) pairs[i].h = read(pairs[i].unit, pairs[i].row);
    }
#endif

    // Computes new states from R h. Rows that have ended keep their states.
    __device__ __forceinline__ void update(int step, const Sums &sums) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            float c = pair.c;
            float input[GATES], recurrent[GATES], saved[Cell::saved_gates];
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) input[gate] = pair.input[gate], recurrent[gate] = sums[i][gate];
            if (PAIR_SUMS > GATES) input[GATES - 1] += sums[i][PAIR_SUMS - 1];
            const float h = Cell::step(input, recurrent, pair.reset_bias, pair.h, c, saved);
            if (step >= pair.length) continue;
            // The next step uses h as y stores it. A float may be rounded by a bit more on its way to other blocks.
            pair.h = to_float(to_element(h));
            pair.c = c;
#ifdef SAVE
#pragma unroll
            for (int gate = 0; gate < Cell::saved_gates; gate++) pair.saved[gate] = to_element(saved[gate]);
#endif
        }
    }

    // Calls write(unit of the block, row of the tile, h) for each pair.
    template <typename Write> __device__ __forceinline__ void for_each_h(Write write) const {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++)
            if (pairs[i].unit >= 0) write(pairs[i].unit, pairs[i].row, pairs[i].h);
    }

    // Writes y of the step that began last, and what gradients need of it; nothing for step -1.
    __device__ __forceinline__ void write_y(int step) const {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            Element *const y = in_register(rows.y_of(pair.place, unit(pair))); // without a branch around
            const Element h = step < pair.length ? to_element(pair.h) : element_of(rows.fill);
            if (step >= 0 && step < pair.written) *y = h;
#ifdef SAVE
            if (step >= 0 && step < pair.length) save_step(p, pair.place, unit(pair), HIDDEN, pair.saved, pair.c);
#endif
        }
    }

    __device__ __forceinline__ void write_last() {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            if (pair.unit < 0) continue;
            if (p.hy) p.hy[state(pair)] = to_element(pair.h);
            if (Cell::has_cell_state && p.cy) p.cy[state(pair)] = to_element(pair.c);
        }
    }

  private:
    // The pair's unit of the layer, its row of the batch, and its place in h0, c0, hy and cy.
    __device__ __forceinline__ int unit(const Pair &pair) const { return first_unit + pair.unit; }
    __device__ __forceinline__ int row(const Pair &pair) const { return first_row + pair.row; }
    __device__ __forceinline__ long long state(const Pair &pair) const {
        return (long long)row(pair) * HIDDEN + unit(pair);
    }

    __device__ __forceinline__ void ask_for(Pair &pair, int step) const {
        pair.next_place = rows.place(row(pair), pair.length, step);
        // In a register, so that it is computed once for all gates.
        const float *const source =
            in_register(&rows.input[(long long)pair.next_place * (GATES * HIDDEN) + unit(pair)]);
#ifdef INPUT_SIZE
        const bool is_wanted = false; // the input comes from StepInput or SharedInputs
#else
        const bool is_wanted = step < pair.length && rows.input;
#endif
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) pair.next_input[gate] = is_wanted ? source[gate * HIDDEN] : 0;
    }
};

// h0 of a tile, [BATCH_TILE][PADDED_HIDDEN]; zeros for missing rows and units, and if there is no h0.
__device__ __forceinline__ void read_h0(const Recurrence &p, int first_row, Factor *h) {
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS) {
        const int row = first_row + i / PADDED_HIDDEN, unit = i % PADDED_HIDDEN;
        const bool is_there = p.h0 && row < p.batch && unit < HIDDEN;
        h[i] = to_factor(is_there ? p.h0[(long long)row * HIDDEN + unit] : to_element(0));
    }
}
