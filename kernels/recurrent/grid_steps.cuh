// A block's steps, if blocks exchange h at the end of each step but the last; for canonical GRU, also r h within each.
#pragma once

#ifdef CELL_CANONICAL_GRU
#include "recurrent/canonical_share.cuh"
#endif
#include "recurrent/grid_exchange.cuh"
#include "recurrent/step_input.cuh"

// Shared memory behind h, each part aligned to 16 bytes: Element[PACKETS_A_BLOCK][values of a packet], the block's own
// numbers; and the memory of Weights and StepInput. Memory at `exchange`: GridExchange's, for each group; h and r h
// alternate.
class GridSteps {
    Factor *const h;
    const Recurrence &recurrence;
    const Weights weights;
    StepInput input;
    GridExchange others;

    __device__ static __forceinline__ void *weight_memory(Factor *h) {
        return reinterpret_cast<char *>(h + TILE_FACTORS) + OWN_BYTES;
    }

  public:
    __device__ __forceinline__ GridSteps(const Recurrence &recurrence, int first_unit, Factor *h)
        : h(h), recurrence(recurrence), weights(recurrence.weights, first_unit, weight_memory(h)),
          input(recurrence, first_unit, weight_memory(h)), others(recurrence.exchange, h + TILE_FACTORS) {}

    // Begins the tile whose first row is `first_row`.
    __device__ __forceinline__ void begin(int first_row, const States &states) {
        input.begin(recurrence, states.rows, first_row);
    }

    // Computes a step from h, and replaces h by the new one unless the step is the last.
    __device__ __forceinline__ void compute(int step, States &states) {
#ifdef CELL_CANONICAL_GRU
        FirstSums sums;
        first_part(weights, h, states, sums,
                   [&](int unit, int row, float value, float) { others.set(unit, row, value); });
        others.swap(h, [] {}, [] {});
        last_part(weights, h, states, step, sums);
#else
        Sums sums;
        input.add(weights, h, sums);
        states.update(step, sums);
#endif
        if (step + 1 == states.rows.steps) {
            states.write_y(step);
            return;
        }
        states.for_each_h([&](int unit, int row, float value) { others.set(unit, row, value); });
        input.put(step + 1);
        others.swap(
            h,
            [&] {
                states.write_y(step);
                states.begin_step(step + 1);
                input.begin_step(states.rows, step + 1);
            },
            [&] { input.complete_step(step + 1); });
    }

    // Ends the launch.
    __device__ __forceinline__ void end() { others.keep_epoch(); }
};
