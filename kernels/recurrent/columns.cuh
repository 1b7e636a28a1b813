// Input-based tiling of canonical GRU's n, after GRNN: a block multiplies its units' columns of R_n with their r h, a
// part of all units' sums. Output-based tiling, as in share.cuh, would first need r h of all units.
//
// A packet has the parts of a triple: neighbouring units of one block. Each group of COLUMN_LANES neighbouring threads
// has its triples, and each lane a part of the columns.
#pragma once

#include "recurrent/unit_packets.cuh"

typedef Packet<float> TriplePacket;

constexpr int TRIPLE = TriplePacket::values;
constexpr int BLOCK_TRIPLES = divided_up(UNITS, TRIPLE);
constexpr int TRIPLES = BLOCKS * BLOCK_TRIPLES; // in a row

// The most lanes that all have columns, if there is a group for each triple; else one.
constexpr int column_lanes(int lanes) {
    const bool can_double = lanes < 32 && 4 * lanes < UNITS && 2 * lanes * TRIPLES <= THREADS;
    return can_double ? column_lanes(2 * lanes) : lanes;
}
constexpr int COLUMN_LANES = column_lanes(1);
constexpr int GROUPS = THREADS / COLUMN_LANES;
constexpr int GROUP_TRIPLES = divided_up(TRIPLES, GROUPS);

// Lane l has columns 4 (l + COLUMN_LANES c) … + 3 of the block, for each chunk c. Zeros follow the block's units.
constexpr int COLUMN_CHUNKS = divided_up(UNITS, 4 * COLUMN_LANES);
constexpr int PADDED_UNITS = COLUMN_CHUNKS * 4 * COLUMN_LANES;

// A thread's weights, in fours. Registers keep as many as fit behind the rows' weights.
constexpr int COLUMN_QUADS = COLUMN_CHUNKS * GROUP_TRIPLES * TRIPLE;
constexpr int REGISTERS_LEFT = REGISTER_WEIGHTS / 4 - Weights::kept_quads;
constexpr int COLUMN_REGISTER_QUADS = REGISTERS_LEFT < COLUMN_QUADS ? REGISTERS_LEFT : COLUMN_QUADS;

__device__ __forceinline__ int first_column(int chunk) {
    return 4 * (chunk * COLUMN_LANES + int(threadIdx.x) % COLUMN_LANES);
}
__device__ __forceinline__ int triple_of_group(int i) { return int(threadIdx.x) / COLUMN_LANES + i * GROUPS; }

// Unit i of a triple; < 0: there is none.
__device__ __forceinline__ int unit_of(int triple, int i) {
    const int of_block = triple % BLOCK_TRIPLES * TRIPLE + i, unit = triple / BLOCK_TRIPLES * UNITS + of_block;
    return triple < TRIPLES && of_block < UNITS && unit < HIDDEN ? unit : -1;
}

// A thread's weights of columns, read from memory once for all steps.
class ColumnWeights : public Quads<COLUMN_REGISTER_QUADS> {
  public:
    // The block's units begin with first_unit. Null: zeros. `memory` is shared, for weights that registers do not hold.
    __device__ __forceinline__ ColumnWeights(const Element *weights, int first_unit, void *memory) : Quads(memory) {
        // Whole quads can be read if they are aligned, and if no quad reaches into another block's columns.
        if (HIDDEN % 4 == 0 && UNITS % 4 == 0 && reinterpret_cast<size_t>(weights) % sizeof(Quad) == 0)
            load<true>(weights, first_unit);
        else
            load<false>(weights, first_unit);
    }

  private:
    template <bool Aligned> __device__ __forceinline__ void load(const Element *weights, int first_unit) {
#pragma unroll
        for (int quad = 0; quad < COLUMN_REGISTER_QUADS; quad++)
            set(quad, load<Aligned>(weights, first_unit, quad));
        // A longer unrolled loop would need more registers than there are.
#pragma unroll 8
        for (int quad = COLUMN_REGISTER_QUADS; quad < COLUMN_QUADS; quad++)
            set(quad, load<Aligned>(weights, first_unit, quad));
    }

    template <bool Aligned>
    __device__ static __forceinline__ Quad load(const Element *weights, int first_unit, int quad) {
        const int output = quad / COLUMN_CHUNKS, first = first_column(quad % COLUMN_CHUNKS);
        const int unit = unit_of(triple_of_group(output / TRIPLE), output % TRIPLE);
        const int columns = HIDDEN - first_unit < UNITS ? HIDDEN - first_unit : UNITS;
        const Element *row = &weights[((long long)(GATES - 1) * HIDDEN + unit) * HIDDEN + first_unit];
        return load_quad<Aligned>(&row[first], weights && unit >= 0 ? columns - first : 0);
    }
};

// The block's part of all sums, from r h of its units, [BATCH_TILE][PADDED_UNITS]. Each part of a triple goes to
// take(triple, row of the tile, float[TRIPLE]).
template <typename Take>
__device__ __forceinline__ void multiply_columns(const ColumnWeights &weights, const float *reset, Take take) {
    const OwnPairs<BATCH_TILE, COLUMN_LANES> rows;
#pragma unroll
    for (int i = 0; i < GROUP_TRIPLES; i++) {
        float sums[BATCH_TILE][TRIPLE] = {};
#pragma unroll
        for (int chunk = 0; chunk < COLUMN_CHUNKS; chunk++) {
            float4 part[BATCH_TILE];
#pragma unroll
            for (int row = 0; row < BATCH_TILE; row++)
                part[row] = *reinterpret_cast<const float4 *>(&reset[row * PADDED_UNITS + first_column(chunk)]);
#pragma unroll
            for (int unit = 0; unit < TRIPLE; unit++) {
                const float4 weight = weights[(i * TRIPLE + unit) * COLUMN_CHUNKS + chunk];
#pragma unroll
                for (int row = 0; row < BATCH_TILE; row++) {
                    float &sum = sums[row][unit];
                    sum = fmaf(weight.x, part[row].x, sum);
                    sum = fmaf(weight.y, part[row].y, sum);
                    sum = fmaf(weight.z, part[row].z, sum);
                    sum = fmaf(weight.w, part[row].w, sum);
                }
            }
        }
        add_up<BATCH_TILE, COLUMN_LANES>(sums);
#pragma unroll
        for (int row = 0; row < halved_up(BATCH_TILE, COLUMN_LANES); row++)
            if (row < rows.count && triple_of_group(i) < TRIPLES) take(triple_of_group(i), rows.first + row, sums[row]);
    }
}
