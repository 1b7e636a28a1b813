// A block's share of each time step, as in share.cuh, on tensor cores.
//
// The rows of a matrix A are R's rows for all gates of the block's units: row GATES * unit + gate. The columns of B are
// the rows of h. A warp keeps some 16-row tiles of A, for a part of H, in registers in warp_mma()'s layout: it
// multiplies each h that it reads with all of its rows. The sums of the parts of H meet in shared memory, where each
// thread adds up its own pairs of a unit and a row.
#pragma once

#include "recurrent/recurrence.cuh"

typedef Element Factor;
__device__ __forceinline__ Factor to_factor(Element element) { return to_tensor(element); }
__device__ __forceinline__ Factor to_factor_of_new(float h) { return to_tensor(to_element(h)); }

// Four words: a thread's part of a tile of A, or neighbouring elements of a row of R or h.
struct alignas(16) Fragment {
    static constexpr int factors = 16 / sizeof(Factor);
    unsigned word[4];
};

constexpr int WARPS = THREADS / 32;
constexpr int PARTS = LANES / 4; // warps that divide H
constexpr int ROWS = UNITS * GATES;
constexpr int ROW_TILES = divided_up(ROWS, 16);
constexpr int WARP_TILES = divided_up(ROW_TILES, WARPS / PARTS);
constexpr int COLUMN_TILES = BATCH_TILE / 8;

// Part p has chunks p + PARTS c of H, each as deep as two products. Four neighbouring threads have a quarter of a chunk
// each, in one piece: A and B then have the same order along the depth, which is all that matters. Zeros follow H. With
// an odd number of chunks a row, a quarter of a warp reads from different banks.
constexpr int CHUNK = 4 * Fragment::factors;
constexpr int CHUNKS = divided_up(HIDDEN, CHUNK * PARTS);
constexpr int PADDED_HIDDEN = (CHUNKS * PARTS | 1) * CHUNK;
constexpr int TILE_FACTORS = BATCH_TILE * PADDED_HIDDEN;

// A thread's weights, for each chunk, product and tile of rows.
constexpr int FRAGMENTS = CHUNKS * 2 * WARP_TILES;
constexpr int KEPT = REGISTER_WEIGHTS / Fragment::factors;
constexpr int REGISTER_FRAGMENTS = KEPT < FRAGMENTS ? KEPT : FRAGMENTS;
constexpr int SHARED_FRAGMENTS = FRAGMENTS - REGISTER_FRAGMENTS;
constexpr int KEPT_CHUNKS = divided_up(REGISTER_FRAGMENTS, 2 * WARP_TILES); // chunks that registers hold at least partly

// The parts' sums: [PARTS][BATCH_TILE][SUM_ROWS]. With this pitch a warp writes its columns to different banks.
constexpr int SUM_ROWS = ROW_TILES * 16 + 4;
constexpr int SUMS = PARTS * BATCH_TILE * SUM_ROWS;
// While weights are loaded, this memory holds a Fragment of each thread instead.
constexpr int SUMS_BYTES = at_least(SUMS * sizeof(float), THREADS * sizeof(Fragment));

__device__ __forceinline__ int part() { return WARP % PARTS; }
__device__ __forceinline__ int first_tile() { return WARP / PARTS * WARP_TILES; }
__device__ __forceinline__ int first_factor(int chunk) {
    return (part() + PARTS * chunk) * CHUNK + LANE % 4 * Fragment::factors;
}

// A thread's weights, read from memory once for all steps; and the memory in which sums meet.
class Weights {
    Fragment kept[at_least(REGISTER_FRAGMENTS, 1)];
    Fragment *shared; // [SHARED_FRAGMENTS][THREADS]

  public:
    float *const sums;

    // The block's units begin with first_unit. `memory` has the sums, and behind them SHARED_FRAGMENTS of each thread.
    __device__ __forceinline__ Weights(const Element *weights, int first_unit, void *memory)
        : shared(reinterpret_cast<Fragment *>(static_cast<char *>(memory) + SUMS_BYTES) + threadIdx.x),
          sums(static_cast<float *>(memory)) {
        // Whole fragments can be read if they are aligned.
        if (HIDDEN % Fragment::factors == 0 && reinterpret_cast<size_t>(weights) % sizeof(Fragment) == 0)
            load<true>(weights, first_unit);
        else
            load<false>(weights, first_unit);
    }

    __device__ __forceinline__ Fragment get(int chunk, int product, int tile) const {
        const int fragment = (chunk * 2 + product) * WARP_TILES + tile;
        return fragment < REGISTER_FRAGMENTS ? kept[fragment] : shared[(fragment - REGISTER_FRAGMENTS) * THREADS];
    }

  private:
    template <bool Aligned> __device__ __forceinline__ void load(const Element *weights, int first_unit) {
#pragma unroll
        for (int chunk = 0; chunk < KEPT_CHUNKS; chunk++) load<Aligned, true>(weights, first_unit, chunk);
        // A longer unrolled loop would need more registers than there are.
#pragma unroll 2
        for (int chunk = KEPT_CHUNKS; chunk < CHUNKS; chunk++) load<Aligned, false>(weights, first_unit, chunk);
    }

    template <bool Aligned, bool IsKept>
    __device__ __forceinline__ void load(const Element *weights, int first_unit, int chunk) {
#pragma unroll
        for (int tile = 0; tile < WARP_TILES; tile++) {
            const int row = (first_tile() + tile) * 16 + LANE / 4;
            const Fragment upper = load<Aligned>(weights, first_unit, row, first_factor(chunk));
            const Fragment lower = load<Aligned>(weights, first_unit, row + 8, first_factor(chunk));
#pragma unroll
            for (int product = 0; product < 2; product++) {
                const Fragment loaded = {upper.word[product * 2], lower.word[product * 2], upper.word[product * 2 + 1],
                                         lower.word[product * 2 + 1]};
                const int fragment = (chunk * 2 + product) * WARP_TILES + tile;
                if (IsKept && fragment < REGISTER_FRAGMENTS)
                    kept[fragment] = loaded;
                else
                    shared[(fragment - REGISTER_FRAGMENTS) * THREADS] = loaded;
            }
        }
    }

    // The fragment of A's row `row` from element `from` on.
    template <bool Aligned>
    __device__ __forceinline__ Fragment load(const Element *weights, int first_unit, int row, int from) {
        const int unit = first_unit + row / GATES;
        const int left = row < ROWS && unit < HIDDEN ? HIDDEN - from : 0;
        const Element *const source = &weights[((long long)(row % GATES) * HIDDEN + unit) * HIDDEN + from];
        union {
            Fragment fragment;
            Element element[Fragment::factors];
        } loaded = {};
        if (Aligned) {
            if (left > 0) loaded.fragment = *reinterpret_cast<const Fragment *>(source);
        } else {
            // Through memory, where the elements take no registers.
            Fragment &place = reinterpret_cast<Fragment *>(sums)[threadIdx.x];
#pragma unroll 1
            for (int i = 0; i < Fragment::factors; i++)
                reinterpret_cast<Element *>(&place)[i] = i < left ? source[i] : loaded.element[0];
            loaded.fragment = place;
        }
#pragma unroll
        for (int i = 0; i < Fragment::factors; i++) loaded.element[i] = to_factor(loaded.element[i]);
        return loaded.fragment;
    }
};

// The pairs that a thread owns.
constexpr int LANE_PAIRS = divided_up(UNITS * BATCH_TILE, THREADS);
struct Own {
    // has: whether pair i exists. unit, row: its unit of the block, its row of the tile.
    __device__ __forceinline__ bool has(int i) const { return pair(i) < UNITS * BATCH_TILE; }
    __device__ __forceinline__ int unit(int i) const { return pair(i) % UNITS; }
    __device__ __forceinline__ int row(int i) const { return pair(i) / UNITS; }

  private:
    __device__ static __forceinline__ int pair(int i) { return threadIdx.x + i * THREADS; }
};

typedef float Sums[LANE_PAIRS][GATES];

// R h of the thread's own pairs, from h, [BATCH_TILE][PADDED_HIDDEN].
__device__ __forceinline__ void multiply(const Weights &weights, const Factor *h, Sums &sums) {
    float tiles[WARP_TILES][COLUMN_TILES][4] = {};
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        Fragment b[COLUMN_TILES];
#pragma unroll
        for (int column = 0; column < COLUMN_TILES; column++) {
            const int row = column * 8 + LANE / 4;
            b[column] = *reinterpret_cast<const Fragment *>(&h[row * PADDED_HIDDEN + first_factor(chunk)]);
        }
#pragma unroll
        for (int product = 0; product < 2; product++) {
#pragma unroll
            for (int tile = 0; tile < WARP_TILES; tile++) {
                const Fragment a = weights.get(chunk, product, tile);
#pragma unroll
                for (int column = 0; column < COLUMN_TILES; column++) {
                    const unsigned words[2] = {b[column].word[product * 2], b[column].word[product * 2 + 1]};
                    warp_mma(tiles[tile][column], a.word, words);
                }
            }
        }
    }
    float *const part_sums = &weights.sums[part() * BATCH_TILE * SUM_ROWS];
#pragma unroll
    for (int tile = 0; tile < WARP_TILES; tile++) {
        if (first_tile() + tile >= ROW_TILES) break;
        float *const first = &part_sums[LANE % 4 * 2 * SUM_ROWS + (first_tile() + tile) * 16 + LANE / 4];
#pragma unroll
        for (int column = 0; column < COLUMN_TILES; column++)
#pragma unroll
            for (int i = 0; i < 4; i++) first[(column * 8 + i % 2) * SUM_ROWS + i / 2 * 8] = tiles[tile][column][i];
    }
    barrier(); // the sums of all parts are complete
    const Own own;
#pragma unroll
    for (int i = 0; i < LANE_PAIRS; i++) {
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) sums[i][gate] = 0;
        if (!own.has(i)) continue;
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            const float *const first = &weights.sums[(part * BATCH_TILE + own.row(i)) * SUM_ROWS + own.unit(i) * GATES];
            const GateSums read = *reinterpret_cast<const GateSums *>(first);
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) sums[i][gate] += read.gate[gate];
        }
    }
}
