// The contents of a grid block's sums before R h is added (for clusters: input_warps.cuh): nothing, if W x of all steps
// was computed ahead; with -DINPUT_SIZE, W x. The block computes W x while h is on its way, so that a step of one row
// takes hardly longer, and a launch is saved.
#pragma once

#include "recurrent/states.cuh"

#ifdef INPUT_SIZE

// Shared memory behind that of Weights, each part aligned to 16 bytes: float x[2][BATCH_TILE][padded], of a step and of
// the next; then the memory of W.
class StepInput {
    typedef MatrixPart<UnitGroups, HIDDEN, INPUT_SIZE, GATES, INPUT_REGISTER_WEIGHTS> InputWeights;
    static constexpr int TILE = BATCH_TILE * InputWeights::padded;
    static constexpr int PIECES = divided_up(TILE / 4, THREADS);
    static constexpr int HALF = InputWeights::chunks / 2;

    // Four numbers of a row, which a thread reads from memory.
    struct Piece {
        int row, length; // row of the batch, and its steps; 0: there is no such row
        QuadBits::Words words;
    };

    const int thread = in_register(int(threadIdx.x));
    float *const x;
    const InputWeights weights;
    const Element *const source;
    const bool is_aligned; // whether a piece is one access
    Piece pieces[PIECES];
    Sums sums;

  public:
    // `memory` begins with the memory of Weights.
    __device__ __forceinline__ StepInput(const Recurrence &p, int first_unit, void *memory)
        : x(reinterpret_cast<float *>(static_cast<Quad *>(memory) + Weights::shared_quads * THREADS)),
          weights(p.input_weights, first_unit, x + 2 * TILE), source(in_register(p.x)),
          is_aligned(INPUT_SIZE % 4 == 0 && reinterpret_cast<size_t>(p.x) % sizeof(Quad) == 0) {}

    // Begins the tile at first_row, up to W x of its first step. Call it behind a barrier() after the last tile.
    __device__ __forceinline__ void begin(const Recurrence &p, const Rows &rows, int first_row) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            Piece &piece = pieces[i];
            piece.row = first_row + at(i) / InputWeights::padded;
            const bool is_there = at(i) < TILE && piece.row < p.batch;
            piece.length = !is_there ? 0 : p.lengths ? p.lengths[piece.row] : p.steps;
        }
        ask_for(rows, 0);
        put(0);
        barrier(); // x is complete
        begin_step(rows, 0);
        complete_step(0);
    }

    // Stores x of a step, for all threads behind the next barrier(). They read the old x before the last barrier().
    __device__ __forceinline__ void put(int step) const {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const float4 numbers = QuadBits(pieces[i].words).in_float();
            if (at(i) < TILE) *reinterpret_cast<float4 *>(&of(step)[at(i)]) = numbers;
        }
    }

    // After that barrier(): computes the first half of the step's W x, and asks for the next step's x.
    __device__ __forceinline__ void begin_step(const Rows &rows, int step) {
        ask_for(rows, step + 1);
        clear(sums);
        multiply_part<0, GATES, PAIR_SUMS - 1, 0, HALF>(weights, of(step), sums);
    }

    // Computes the other half of the step's W x.
    __device__ __forceinline__ void complete_step(int step) {
        multiply_part<0, GATES, PAIR_SUMS - 1, HALF>(weights, of(step), sums);
    }

    // Sets `all` to W x + R h of the thread's own pairs.
    __device__ __forceinline__ void add(const Weights &recurrent, const Factor *h, Sums &all) const {
#pragma unroll
        for (int pair = 0; pair < GROUP_PAIRS; pair++)
#pragma unroll
            for (int sum = 0; sum < PAIR_SUMS; sum++) all[pair][sum] = sums[pair][sum];
        multiply_part<0, GATES>(recurrent, h, all);
        add_up<GROUP_PAIRS, LANES>(all);
    }

  private:
    __device__ __forceinline__ float *of(int step) const { return x + step % 2 * TILE; }

    __device__ __forceinline__ int at(int piece) const { return 4 * (thread + piece * THREADS); }

    __device__ __forceinline__ void ask_for(const Rows &rows, int step) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            Piece &piece = pieces[i];
            const int first = at(i) % InputWeights::padded;
            const Element *const from = &source[(long long)rows.place(piece.row, piece.length, step) * INPUT_SIZE + first];
            const int left = step < piece.length ? INPUT_SIZE - first : 0;
            piece.words = QuadBits(from, left, is_aligned).words;
        }
    }
};

#else

class StepInput {
  public:
    __device__ __forceinline__ StepInput(const Recurrence &, int, void *) {}
    __device__ __forceinline__ void begin(const Recurrence &, const Rows &, int) {}
    __device__ __forceinline__ void put(int) const {}
    __device__ __forceinline__ void begin_step(const Rows &, int) {}
    __device__ __forceinline__ void complete_step(int) {}
    __device__ __forceinline__ void add(const Weights &weights, const Factor *h, Sums &sums) const {
        multiply(weights, h, sums);
    }
};

#endif
