// The pairs of a unit and a row that a thread owns, on the way back through time: the gradients of their states, and the
// element-wise part of a step. A block multiplies the gates' gradients of all units with its units' columns of R; with
// SCATTER, those of its own units with all columns.
#pragma once

#define BACKWARD
#include "recurrent/back_recurrence.cuh"

#ifdef SCATTER
#include "recurrent/scatter_share.cuh"
#elif defined TENSOR_CORES
#include "recurrent/tensor_share.cuh"
#else
#include "recurrent/share.cuh"
#endif

constexpr int BLOCKS = divided_up(HIDDEN, UNITS); // that compute a tile of the batch together

class BackStates {
    struct Pair {
        int unit, row; // in the block, in the tile; unit < 0: there is no such pair
        int length;    // the row's steps
        int place, place_before; // the rows of memory of the step whose numbers are here, and of the one before
        float dh, dc;  // what comes to the step's states from behind, but by R
        float c;       // of the step
        // The step's saved numbers, and then their gradients; its dy; the h or c before it, or for cells that save
        // nothing its h.
        Element saved[Cell::saved_gates], dy, before;
    };
    Pair pairs[LANE_PAIRS];
    const BackRecurrence &p;
    const int first_unit, first_row;

  public:
    // A block that computes UNITS units from first_unit on, for BATCH_TILE rows from first_row on.
    __device__ __forceinline__ BackStates(const BackRecurrence &parameters, const Own &own, int first_unit, int first_row)
        : p(parameters), first_unit(first_unit), first_row(first_row) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            pair.unit = in_register(own.unit(i));
            pair.row = BATCH_TILE > 1 ? in_register(own.row(i)) : 0;
            pair.dh = pair.dc = pair.c = 0;
            pair.length = pair.place = pair.place_before = 0;
            if (!own.has(i) || unit(pair) >= HIDDEN || row(pair) >= p.batch) {
                pair.unit = -1;
                continue;
            }
            pair.length = p.lengths ? p.lengths[row(pair)] : p.steps;
            if (p.last_dh) pair.dh = to_float(p.last_dh[state(pair)]);
            if (Cell::has_cell_state && p.last_dc) pair.dc = to_float(p.last_dc[state(pair)]);
            if (pair.length == 0) continue;
            pair.place_before = back_place(p, row(pair), pair.length, pair.length - 1);
            if (Cell::has_cell_state) pair.c = to_float(p.cells[(long long)pair.place_before * HIDDEN + unit(pair)]);
        }
        ask_for(p.steps - 1);
    }

    // Asks for a step's numbers, which arrive during the step behind it. All places are found first: finding one may read
    // memory, and would wait for the reads before it.
    __device__ __forceinline__ void ask_for(int step) {
        const Element *const first = in_register(Cell::has_cell_state ? p.c0 : p.h0);
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            if (step < 0 || step >= pair.length) continue;
            pair.place = pair.place_before;
            if (step > 0) pair.place_before = back_place(p, row(pair), pair.length, step - 1);
        }
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            const bool is_wanted = step >= 0 && step < pair.length;
            const Element *const dy = in_register(&p.dy[(long long)pair.place * p.y_stride + unit(pair)]);
            if (is_wanted) pair.dy = *dy;
            const Element *before = &p.y[(long long)pair.place * p.y_stride + unit(pair)]; // an h, if no gate is saved
            if (Cell::saved_gates > 1) {
#pragma unroll
                for (int gate = 0; gate < Cell::saved_gates; gate++) {
                    const Element *const saved = in_register(saved_gate(pair, gate));
                    if (is_wanted) pair.saved[gate] = *saved;
                }
                before = step <= 0 ? first ? &first[state(pair)] : nullptr
                         : Cell::has_cell_state ? &p.cells[(long long)pair.place_before * HIDDEN + unit(pair)]
                                                : &p.y[(long long)pair.place_before * p.y_stride + unit(pair)];
            }
            before = in_register(before);
            if (is_wanted) pair.before = before ? *before : to_element(0);
        }
    }

    // Computes a step's gradients, from those of the step behind by R. Rows without the step have zeros.
    __device__ __forceinline__ void update(int step, const Sums &sums) {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            Pair &pair = pairs[i];
            const bool is_there = step < pair.length;
            float gates[Cell::saved_gates];
#pragma unroll
            for (int gate = 0; gate < Cell::saved_gates; gate++)
                gates[gate] = Cell::saved_gates > 1 && is_there ? to_float(pair.saved[gate]) : 0;
            if (is_there) {
                const float before = to_float(pair.before);
                float dh = pair.dh + to_float(pair.dy);
                if (step + 1 < pair.length) dh += sums[i][0];
                pair.dh = Cell::gradient(gates, before, before, pair.c, before, dh, pair.dc);
                pair.c = before;
            }
#pragma unroll
            for (int gate = 0; gate < Cell::saved_gates; gate++) pair.saved[gate] = to_element(gates[gate]);
        }
    }

    // Calls write(unit of the block, row of the tile, gate, gradient) for each factor of R.
    template <typename Write> __device__ __forceinline__ void for_each_factor(Write write) const {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            if (pairs[i].unit < 0) continue;
#pragma unroll
            for (int saved = 0; saved < Cell::saved_gates; saved++) {
                if (factor_gate(saved) < 0) continue;
                write(pairs[i].unit, pairs[i].row, factor_gate(saved), to_factor(pairs[i].saved[saved]));
            }
        }
    }

    // Writes the gradients of the step that was computed last to memory.
    __device__ __forceinline__ void write(int step) const {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            if (step >= pairs[i].length) continue;
#pragma unroll
            for (int gate = 0; gate < Cell::saved_gates; gate++) *saved_gate(pairs[i], gate) = pairs[i].saved[gate];
        }
    }

    // Writes the gradients of the first states, given what comes from the first step by R.
    __device__ __forceinline__ void write_first(const Sums &sums) const {
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++) {
            const Pair &pair = pairs[i];
            if (pair.unit < 0) continue;
            const float by_weights = pair.length > 0 ? sums[i][0] : 0;
            if (p.first_dh) p.first_dh[state(pair)] = to_element(pair.dh + by_weights);
            if (Cell::has_cell_state && p.first_dc) p.first_dc[state(pair)] = to_element(pair.dc);
        }
    }

  private:
    __device__ __forceinline__ int unit(const Pair &pair) const { return first_unit + pair.unit; }
    __device__ __forceinline__ int row(const Pair &pair) const { return first_row + pair.row; }
    __device__ __forceinline__ long long state(const Pair &pair) const {
        return (long long)row(pair) * HIDDEN + unit(pair);
    }
    __device__ __forceinline__ Element *saved_gate(const Pair &pair, int gate) const {
        return &p.gates[((long long)pair.place * Cell::saved_gates + gate) * HIDDEN + unit(pair)];
    }
};

// Nothing comes from behind the last step.
__device__ __forceinline__ void clear_sums(Sums &sums) {
    for (auto &pair : sums) pair[0] = 0;
}
