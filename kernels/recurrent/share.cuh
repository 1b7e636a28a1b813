// A block's share of each time step, by fused multiply-adds: the gates of some hidden units, for some rows of the batch.
// The lane on which a pair of a unit and a row ends keeps the pair's states and computes its activations, with no other
// thread.
#pragma once

#include "recurrent/recurrence.cuh"

#include "common/matrix/fma.cuh"

typedef Groups<UNITS, BATCH_TILE, LANES> UnitGroups;

constexpr int GROUP_UNITS = UnitGroups::units;
constexpr int GROUP_PAIRS = UnitGroups::pairs;
constexpr int LANE_PAIRS = UnitGroups::lane_pairs;

// Gates whose rows a block has for its units: all, or all but the last if it has its columns (columns.cuh). On the way
// back a unit has one row of R's transpose, of all gates.
#if defined SINGLE_EXCHANGE
constexpr int ROW_GATES = GATES - 1;
#elif defined BACKWARD
constexpr int ROW_GATES = 1;
#else
constexpr int ROW_GATES = GATES;
#endif

// The factor that h is in a product: an element, in float. A new h is already rounded to an element.
typedef float Factor;
__device__ __forceinline__ Factor to_factor(Element element) { return to_float(element); }
__device__ __forceinline__ Factor to_factor_of_new(float h) { return h; }

// The thread's part of R.
typedef MatrixPart<UnitGroups, HIDDEN, DEPTH, ROW_GATES, REGISTER_WEIGHTS> Weights;

// A tile's h, row by row.
constexpr int PADDED_HIDDEN = Weights::padded;
constexpr int TILE_FACTORS = BATCH_TILE * PADDED_HIDDEN;

// Sums of each pair of a group; and R h of each gate.
template <int Count> using PairSums = float[GROUP_PAIRS][Count];
typedef PairSums<PAIR_SUMS> Sums;

// R h of the thread's own pairs, from h, [BATCH_TILE][PADDED_HIDDEN].
__device__ __forceinline__ void multiply(const Weights &weights, const Factor *h, Sums &sums) {
    clear(sums);
    multiply_part<0, PRODUCTS>(weights, h, sums);
    add_up<GROUP_PAIRS, LANES>(sums);
}

// The pairs that a thread owns.
class Own {
    const OwnPairs<GROUP_PAIRS, LANES> pairs;

  public:
    // has: whether pair i exists. unit, row: its unit of the block, its row of the tile.
    __device__ __forceinline__ bool has(int i) const { return i < pairs.count && unit(i) < UNITS; }
    __device__ __forceinline__ int unit(int i) const {
        return UnitGroups::index() * GROUP_UNITS + (pairs.first + i) / BATCH_TILE;
    }
    __device__ __forceinline__ int row(int i) const { return (pairs.first + i) % BATCH_TILE; }
};
