// A block's share of each step back through time, if blocks scatter sums: it multiplies its own units' gradients of gates
// with all columns of R, and sends each block the sums of that block's units.
#pragma once

#include "recurrent/recurrence.cuh"

#include "common/phased.cuh"

constexpr int OWN_DEPTH = GATES * UNITS; // the block's gates: gate * UNITS + unit

#ifdef TENSOR_CORES

#include "common/matrix/tensor.cuh"

typedef Element Factor;
__device__ __forceinline__ Factor to_factor(Element element) { return to_tensor(element); }

typedef TensorPart<HIDDEN, BATCH_TILE, LANES, HIDDEN, OWN_DEPTH, 1, REGISTER_WEIGHTS, false> Weights;
static_assert(Weights::parts == 1, "a warp has the whole depth of its columns");

constexpr int TOGETHER = 4;

#else

#include "common/matrix/fma.cuh"

typedef float Factor;
__device__ __forceinline__ Factor to_factor(Element element) { return to_float(element); }

typedef Groups<HIDDEN, BATCH_TILE, LANES> ColumnGroups;
typedef MatrixPart<ColumnGroups, HIDDEN, OWN_DEPTH, 1, REGISTER_WEIGHTS> Weights;

// Rows of one column whose sums end on the same lane: as many as divide a tile and a lane's pairs, 4 at most.
constexpr int LANE_SUMS = ColumnGroups::pairs % LANES ? 1 : ColumnGroups::pairs / LANES;
constexpr int TOGETHER = together(BATCH_TILE | LANE_SUMS, 4);

#endif

constexpr int SENT = UNITS * BATCH_TILE; // sums from one block to another
constexpr int PADDED_DEPTH = Weights::padded;
constexpr int TILE_FACTORS = BATCH_TILE * PADDED_DEPTH;

// A column's sums for neighbouring rows, which are sent together. They are sent as elements: sums of two-byte data are
// rounded to two bytes, as gradients are. On the grid the first sum of a packet is rounded to a bit less. A packet has 4
// bytes at least, so a sum that is sent alone is a float.
template <int Together> struct SumOf {
    typedef Element Type;
};
template <> struct SumOf<1> {
    typedef float Type;
};
typedef SumOf<TOGETHER>::Type Sum;
typedef PhasedPacket<Sum, TOGETHER> RowSums;

template <typename T> __device__ __forceinline__ float float_of(T sum) {
    if constexpr (sizeof(T) == sizeof(float))
        return sum;
    else
        return to_float(sum);
}
template <typename T> __device__ __forceinline__ T rounded(float sum) {
    if constexpr (sizeof(T) == sizeof(float))
        return sum;
    else
        return to_element(sum);
}

// The place of a sum among those from one block to another, [rows / 8][unit][8 rows]: a warp of tensor cores has eight rows
// of neighbouring units, and fills whole lines.
constexpr int EIGHT = BATCH_TILE % 8 ? BATCH_TILE : 8;
__device__ __forceinline__ int place_of_sum(int unit, int row) {
    return (row / EIGHT * UNITS + unit) * EIGHT + row % EIGHT;
}

// The pairs of the block's units and the tile's rows that a thread owns. Neighbouring threads have neighbouring units,
// whose numbers are neighbours in memory.
constexpr int LANE_PAIRS = divided_up(SENT, THREADS);
struct Own {
    __device__ __forceinline__ bool has(int i) const { return pair(i) < SENT; }
    __device__ __forceinline__ int unit(int i) const { return pair(i) % UNITS; }
    __device__ __forceinline__ int row(int i) const { return pair(i) / UNITS; }

  private:
    __device__ static __forceinline__ int pair(int i) { return threadIdx.x + i * THREADS; }
};
typedef float Sums[LANE_PAIRS][1];

// Adds up `Parts` parts of the own pairs' sums, each of SENT, in their order.
template <int Parts, typename T> __device__ __forceinline__ void add_parts(const T *parts, const Own &own, Sums &sums) {
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
        sums[i][0] = 0;
        if (!own.has(i)) continue;
        const T *const first = &parts[place_of_sum(own.unit(i), own.row(i))];
#pragma unroll
        for (int part = 0; part < Parts; part++) sums[i][0] += float_of(first[part * SENT]);
    }
}

// Multiplies a tile of the block's own factors, [BATCH_TILE][PADDED_DEPTH]. Calls send(column, first row, sums) for all
// columns and rows.
template <typename Send>
__device__ __forceinline__ void multiply_and_send(const Weights &weights, const Factor *factors, Send send) {
#ifdef TENSOR_CORES
    TileSums<Weights> tiles = {};
    multiply_tiles(weights, factors, tiles);
    // A lane has two rows of two columns. It swaps with its neighbour, so that each has four rows of one column.
    const bool is_odd = LANE & 1;
#pragma unroll
    for (int tile = 0; tile < Weights::warp_tiles; tile++) {
        if (Weights::first_tile() + tile >= Weights::row_tiles) break;
        const int column = (Weights::first_tile() + tile) * 16 + LANE / 4 + (is_odd ? 8 : 0);
#pragma unroll
        for (int part = 0; part < Weights::column_tiles; part++) {
            const float(&own)[4] = tiles[tile][part];
            float theirs[2];
#pragma unroll
            for (int i = 0; i < 2; i++) theirs[i] = warp_shuffle(is_odd ? own[i] : own[2 + i], LANE ^ 1);
            RowSums sums;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                sums.value[i] = rounded<Sum>(is_odd ? theirs[i] : own[i]);
                sums.value[2 + i] = rounded<Sum>(is_odd ? own[2 + i] : theirs[i]);
            }
            if (column < HIDDEN) send(column, part * 8 + LANE % 4 / 2 * 4, sums);
        }
    }
#else
    float sums[ColumnGroups::pairs][1];
    clear(sums);
    multiply_part<0, 1>(weights, factors, sums);
    add_up<ColumnGroups::pairs, LANES>(sums);
    const OwnPairs<ColumnGroups::pairs, LANES> own;
#pragma unroll
    for (int i = 0; i < ColumnGroups::lane_pairs; i += TOGETHER) {
        const int pair = own.first + i, column = ColumnGroups::index() * ColumnGroups::units + pair / BATCH_TILE;
        if (i >= own.count || column >= HIDDEN) continue;
        RowSums together;
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) together.value[k] = rounded<Sum>(sums[i + k][0]);
        send(column, pair % BATCH_TILE, together);
    }
#endif
}
