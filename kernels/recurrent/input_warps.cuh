// With -DINPUT_SIZE: input warps of each block compute W x of a step, while the recurrence warps compute the step
// before. This saves a launch, and input warps multiply while recurrence warps wait for h.
//
// As many threads multiply W as R, and divide it as the others divide R: each has a part of W, for the same units. W x
// and biases of a step are in shared memory, in two buffers that steps use in turns, behind the barrier() that ends the
// step before. That barrier() also shows the input warps that nobody reads the other buffer any more. So both kinds of
// warps come to every barrier(), and recurrence warps wait for input warps nowhere else. Input warps start a step only
// after the recurrence warps have sent h; starting earlier would delay that send. They wait for the send alone, and
// recurrence warps come to it whatever input warps do.
#pragma once

#include "recurrent/states.cuh"

#include "common/cluster.cuh"

#ifdef INPUT_WARPS

// Each recurrence warp reports here that it has sent its part of h, once a step except for a tile's last.
class Sent {
    Mbarrier &mbarrier;
    unsigned phase = 0;

  public:
    // Called by all threads of the block, before its cluster_barrier().
    __device__ __forceinline__ explicit Sent(Mbarrier &mbarrier) : mbarrier(mbarrier) {
        if (threadIdx.x == 0) mbarrier.initialize(THREADS / 32);
    }

    __device__ __forceinline__ void say() const {
        if (LANE == 0) mbarrier.expect(0);
    }

    __device__ __forceinline__ void wait() {
        Spin spin;
        while (!mbarrier.has_ended(phase % 2)) spin.again();
        phase++;
    }
};

constexpr int sharers_of(int pairs, int lanes) {
    return pairs > 1 && lanes > 1 ? sharers_of(divided_up(pairs, 2), lanes / 2) : lanes;
}

class InputWarps {
    typedef MatrixPart<UnitGroups, HIDDEN, INPUT_SIZE, GATES, INPUT_REGISTER_WEIGHTS> InputWeights;
    static constexpr int CHUNKS = InputWeights::chunks;
    // Lanes that share their pairs; each ends up with OWN_GATES gates of every pair.
    static constexpr int SHARERS = sharers_of(GROUP_PAIRS, LANES);
    static constexpr int OWN_GATES = halved_up(GATES, SHARERS);

    // The lane's part of an x, kept in whole words: taking it apart early would make the thread wait for the read.
    typedef QuadBits::Words Part[BATCH_TILE][CHUNKS];

    const InputWeights weights;
    const Element *const source;
    const SharedInputs inputs;
    const OwnPairs<GROUP_PAIRS, LANES / SHARERS> own;
    int gates[OWN_GATES]; // below 0: there is no such gate, or another lane has it
    float biases[LANE_PAIRS][OWN_GATES];

    __device__ __forceinline__ int unit(int i) const {
        return UnitGroups::index() * GROUP_UNITS + (own.first + i) / BATCH_TILE;
    }
    __device__ __forceinline__ int row(int i) const { return (own.first + i) % BATCH_TILE; }
    __device__ __forceinline__ bool has(int i, int gate) const {
        return i < own.count && unit(i) < UNITS && gates[gate] >= 0;
    }

  public:
    // `inputs` takes W x. `memory` begins with the memory of Weights.
    __device__ __forceinline__ InputWarps(const Recurrence &p, int first_unit, SharedInputs inputs, void *memory)
        : weights(p.input_weights, first_unit, static_cast<Quad *>(memory) + Weights::shared_quads * THREADS),
          source(in_register(p.x)), inputs(inputs), own(LANE / SHARERS) {
        constexpr SumPlaces<GATES> places = sum_places<GATES>(SHARERS);
#pragma unroll
        for (int own_gate = 0; own_gate < OWN_GATES; own_gate++) {
            int &found = gates[own_gate] = -1;
#pragma unroll
            for (int gate = 0; gate < GATES; gate++)
                if (places.lane[gate] == int(LANE % SHARERS) && places.element[gate] == own_gate) found = gate;
            found = in_register(found);
#pragma unroll
            for (int i = 0; i < LANE_PAIRS; i++) {
                const bool is_there = has(i, own_gate) && first_unit + unit(i) < HIDDEN;
                biases[i][own_gate] = is_there ? bias_of(p, found, first_unit + unit(i), HIDDEN) : 0;
            }
        }
    }

    // Computes W x for all tiles of the block.
    __device__ __forceinline__ void run(const Recurrence &p, Sent sent) const {
        const Rows rows(p);
        // Whole quads can be read if they are aligned.
        const bool is_aligned = INPUT_SIZE % 4 == 0 && reinterpret_cast<size_t>(p.x) % sizeof(Quad) == 0;
#pragma unroll 1
        for (int first_row = blockIdx.y * BATCH_TILE; first_row < p.batch; first_row += gridDim.y * BATCH_TILE) {
            barrier(); // nobody reads the last tile's inputs any more
            if (is_aligned)
                steps<true>(p, rows, first_row, sent);
            else
                steps<false>(p, rows, first_row, sent);
        }
    }

  private:
    // Computes W x for a tile's steps, each before a barrier().
    template <bool Aligned>
    __device__ __forceinline__ void steps(const Recurrence &p, const Rows &rows, int first_row, Sent &sent) const {
        int lengths[BATCH_TILE]; // 0: there is no such row
#pragma unroll
        for (int i = 0; i < BATCH_TILE; i++)
            lengths[i] = first_row + i >= p.batch ? 0 : p.lengths ? p.lengths[first_row + i] : p.steps;
        // Two steps' x in turns, each requested as soon as the other has arrived: x takes longer to arrive than h.
        Part x, next;
        ask_for<Aligned>(rows, first_row, lengths, 0, x);
        ask_for<Aligned>(rows, first_row, lengths, 1, next);
#pragma unroll 1
        for (int step = 0;; step += 2) {
            multiply(step, x);
            ask_for<Aligned>(rows, first_row, lengths, step + 2, x);
            barrier();
            if (step > 0) sent.wait();
            if (step + 1 == rows.steps) break;
            multiply(step + 1, next);
            ask_for<Aligned>(rows, first_row, lengths, step + 3, next);
            barrier();
            sent.wait();
            if (step + 2 == rows.steps) break;
        }
    }

    // Computes a step's W x from x, and stores it with the biases.
    __device__ __forceinline__ void multiply(int step, const Part &x) const {
        PairSums<GATES> sums;
        clear(sums);
        multiply_read<0, GATES>(weights, [&](int row, int chunk) { return QuadBits(x[row][chunk]).in_float(); }, sums);
        add_up<GROUP_PAIRS, LANES, false>(sums);
#pragma unroll
        for (int i = 0; i < LANE_PAIRS; i++)
#pragma unroll
            for (int gate = 0; gate < OWN_GATES; gate++)
                if (has(i, gate)) inputs.set(step, unit(i), row(i), gates[gate], sums[i][gate] + biases[i][gate]);
    }

    template <bool Aligned>
    __device__ __forceinline__ void ask_for(const Rows &rows, int first_row, const int (&lengths)[BATCH_TILE], int step,
                                            Part &x) const {
#pragma unroll
        for (int row = 0; row < BATCH_TILE; row++) {
            const int place = rows.place(first_row + row, lengths[row], step);
            const Element *const from = &source[(long long)place * INPUT_SIZE + UnitGroups::first_element(0)];
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                // Only the last chunk reaches beyond the last column.
                const int left = (chunk + 1) * 4 * LANES <= INPUT_SIZE ? 4 : INPUT_SIZE - UnitGroups::first_element(chunk);
                x[row][chunk] = QuadBits(from + chunk * 4 * LANES, step < lengths[row] ? left : 0, Aligned).words;
            }
        }
    }
};

#endif
