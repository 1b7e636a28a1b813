// A block's part of a matrix, kept on chip for products of many vectors on tensor cores.
//
// A matrix has `Gates` gates of [Height][Depth] elements, row-major, one after another. A unit is a row of each gate. A
// block has `Units` neighbouring units, and multiplies them with `Rows` vectors at once, the rows of a tile: a multiple
// of 8. All sizes are template arguments: a kernel may keep several matrices of different sizes.
//
// The rows of A are the units' rows for all gates: row Gates * unit + gate. The columns of B are the rows of the tile. A
// warp keeps some 16-row tiles of A, for a part of the depth, in registers in warp_mma()'s layout: it multiplies each
// element of the tile that it reads with all of its rows. The sums of the parts of the depth meet in shared memory,
// where each thread adds up its own pairs of a unit and a row.
#pragma once

#include "common/device.cuh"
#include "common/matrix/gate_sums.cuh"
#include "common/ops.cuh"
#include "common/sizes.cuh"

// Four words: a thread's part of a tile of A, or neighbouring elements of a row of the matrix or of the tile.
struct alignas(16) Fragment {
    static constexpr int factors = 16 / sizeof(Element);
    unsigned word[4];
};

// A thread's weights, read from memory once for all steps; and the memory in which sums meet, unless `Meet` is false. Warps
// in fours of `Lanes` divide the depth. Registers have room for `Room` weights, which fill whole fragments.
template <int Units, int Rows, int Lanes, int Height, int Depth, int Gates, int Room, bool Meet = true> class TensorPart {
    static constexpr int ROWS = Units * Gates;

  public:
    static constexpr int gates = Gates, rows = Rows;
    static constexpr int parts = Lanes / 4; // warps that divide the depth
    static constexpr int row_tiles = divided_up(ROWS, 16);
    static constexpr int warp_tiles = divided_up(row_tiles, THREADS / 32 / parts);
    static constexpr int column_tiles = Rows / 8;

    // Part p has chunks p + parts c of the depth, each as deep as two products. Four neighbouring threads have a quarter
    // of a chunk each, in one piece: A and B then have the same order along the depth, which is all that matters. Zeros
    // follow the depth. With an odd number of chunks a row, a quarter of a warp reads from different banks.
    static constexpr int chunk_factors = 4 * Fragment::factors;
    static constexpr int chunks = divided_up(Depth, chunk_factors * parts);
    static constexpr int padded = (chunks * parts | 1) * chunk_factors;

    // The parts' sums: [parts][Rows][sum_rows]. With this pitch a warp writes its columns to different banks.
    static constexpr int sum_rows = row_tiles * 16 + 4;

    // The pairs of a unit and a row that a thread owns.
    static constexpr int pairs = divided_up(Units * Rows, THREADS);
    struct Own {
        // has: whether pair i exists. unit, row: its unit of the block, its row of the tile.
        __device__ __forceinline__ bool has(int i) const { return pair(i) < Units * Rows; }
        __device__ __forceinline__ int unit(int i) const { return pair(i) % Units; }
        __device__ __forceinline__ int row(int i) const { return pair(i) / Units; }

      private:
        __device__ static __forceinline__ int pair(int i) { return threadIdx.x + i * THREADS; }
    };

  private:
    // A thread's fragments, for each chunk, product and tile of rows.
    static constexpr int FRAGMENTS = chunks * 2 * warp_tiles;
    static constexpr int ROOM = Room / Fragment::factors;
    static constexpr int KEPT = ROOM < FRAGMENTS ? ROOM : FRAGMENTS;
    static constexpr int KEPT_CHUNKS = divided_up(KEPT, 2 * warp_tiles); // chunks that registers hold at least partly

    // While weights are loaded, this memory holds a Fragment of each thread instead of sums.
    static constexpr int SUMS_BYTES =
        at_least(Meet ? parts * Rows * sum_rows * sizeof(float) : 0, THREADS * sizeof(Fragment));

    Fragment kept[at_least(KEPT, 1)];
    Fragment *shared; // [FRAGMENTS - KEPT][THREADS]

  public:
    float *const sums;

    // The block's units begin with first_unit. `memory` is shared: for sums, and behind them for the fragments of each
    // thread that registers do not hold.
    __device__ __forceinline__ TensorPart(const Element *weights, int first_unit, void *memory)
        : shared(reinterpret_cast<Fragment *>(static_cast<char *>(memory) + SUMS_BYTES) + threadIdx.x),
          sums(static_cast<float *>(memory)) {
        // Whole fragments can be read if they are aligned.
        if (Depth % Fragment::factors == 0 && reinterpret_cast<size_t>(weights) % sizeof(Fragment) == 0)
            load<true>(weights, first_unit);
        else
            load<false>(weights, first_unit);
    }

    // The warp's part of the depth, its first tile of rows, and the thread's first factor of a chunk.
    __device__ static __forceinline__ int part() { return WARP % parts; }
    __device__ static __forceinline__ int first_tile() { return WARP / parts * warp_tiles; }
    __device__ static __forceinline__ int first_factor(int chunk) {
        return (part() + parts * chunk) * chunk_factors + LANE % 4 * Fragment::factors;
    }

    __device__ __forceinline__ Fragment get(int chunk, int product, int tile) const {
        const int fragment = (chunk * 2 + product) * warp_tiles + tile;
        return fragment < KEPT ? kept[fragment] : shared[(fragment - KEPT) * THREADS];
    }

  private:
    template <bool Aligned> __device__ __forceinline__ void load(const Element *weights, int first_unit) {
#pragma unroll
        for (int chunk = 0; chunk < KEPT_CHUNKS; chunk++) load<Aligned, true>(weights, first_unit, chunk);
        // A longer unrolled loop would need more registers than there are.
#pragma unroll 2
        for (int chunk = KEPT_CHUNKS; chunk < chunks; chunk++) load<Aligned, false>(weights, first_unit, chunk);
    }

    template <bool Aligned, bool IsKept>
    __device__ __forceinline__ void load(const Element *weights, int first_unit, int chunk) {
#pragma unroll
        for (int tile = 0; tile < warp_tiles; tile++) {
            const int row = (first_tile() + tile) * 16 + LANE / 4;
            const Fragment upper = load<Aligned>(weights, first_unit, row, first_factor(chunk));
            const Fragment lower = load<Aligned>(weights, first_unit, row + 8, first_factor(chunk));
#pragma unroll
            for (int product = 0; product < 2; product++) {
                const Fragment loaded = {upper.word[product * 2], lower.word[product * 2], upper.word[product * 2 + 1],
                                         lower.word[product * 2 + 1]};
                const int fragment = (chunk * 2 + product) * warp_tiles + tile;
                if (IsKept && fragment < KEPT)
                    kept[fragment] = loaded;
                else
                    shared[(fragment - KEPT) * THREADS] = loaded;
            }
        }
    }

    // The fragment of A's row `row` from element `from` on.
    template <bool Aligned>
    __device__ __forceinline__ Fragment load(const Element *weights, int first_unit, int row, int from) {
        const int unit = first_unit + row / Gates;
        const int left = row < ROWS && unit < Height ? Depth - from : 0;
        const Element *const source = &weights[((long long)(row % Gates) * Height + unit) * Depth + from];
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
        for (int i = 0; i < Fragment::factors; i++) loaded.element[i] = to_tensor(loaded.element[i]);
        return loaded.fragment;
    }
};

// The sums of a warp's tiles of rows and columns, over its part of the depth, in warp_mma()'s layout.
template <typename Matrix> using TileSums = float[Matrix::warp_tiles][Matrix::column_tiles][4];

// Adds products of the warp's weights with a tile of factors in shared memory, [rows][Matrix::padded].
template <typename Matrix>
__device__ __forceinline__ void multiply_tiles(const Matrix &weights, const Element *tile_factors,
                                               TileSums<Matrix> &tiles) {
    constexpr int warp_tiles = Matrix::warp_tiles, column_tiles = Matrix::column_tiles;
#pragma unroll
    for (int chunk = 0; chunk < Matrix::chunks; chunk++) {
        Fragment b[column_tiles];
#pragma unroll
        for (int column = 0; column < column_tiles; column++) {
            const int row = column * 8 + LANE / 4;
            b[column] = *reinterpret_cast<const Fragment *>(
                &tile_factors[row * Matrix::padded + Matrix::first_factor(chunk)]);
        }
#pragma unroll
        for (int product = 0; product < 2; product++) {
#pragma unroll
            for (int tile = 0; tile < warp_tiles; tile++) {
                const Fragment a = weights.get(chunk, product, tile);
#pragma unroll
                for (int column = 0; column < column_tiles; column++) {
                    const unsigned words[2] = {b[column].word[product * 2], b[column].word[product * 2 + 1]};
                    warp_mma(tiles[tile][column], a.word, words);
                }
            }
        }
    }
}

// The sums of the thread's own pairs, from a tile of factors in shared memory, [rows][Matrix::padded].
template <typename Matrix>
__device__ __forceinline__ void multiply(const Matrix &weights, const Element *tile_factors,
                                         float (&sums)[Matrix::pairs][Matrix::gates]) {
    constexpr int warp_tiles = Matrix::warp_tiles, column_tiles = Matrix::column_tiles, sum_rows = Matrix::sum_rows;
    TileSums<Matrix> tiles = {};
    multiply_tiles(weights, tile_factors, tiles);
    float *const part_sums = &weights.sums[Matrix::part() * Matrix::rows * sum_rows];
#pragma unroll
    for (int tile = 0; tile < warp_tiles; tile++) {
        if (Matrix::first_tile() + tile >= Matrix::row_tiles) break;
        float *const first = &part_sums[LANE % 4 * 2 * sum_rows + (Matrix::first_tile() + tile) * 16 + LANE / 4];
#pragma unroll
        for (int column = 0; column < column_tiles; column++)
#pragma unroll
            for (int i = 0; i < 4; i++) first[(column * 8 + i % 2) * sum_rows + i / 2 * 8] = tiles[tile][column][i];
    }
    barrier(); // the sums of all parts are complete
    const typename Matrix::Own own;
#pragma unroll
    for (int i = 0; i < Matrix::pairs; i++) {
#pragma unroll
        for (int gate = 0; gate < Matrix::gates; gate++) sums[i][gate] = 0;
        if (!own.has(i)) continue;
#pragma unroll
        for (int part = 0; part < Matrix::parts; part++) {
            const float *const first =
                &weights.sums[(part * Matrix::rows + own.row(i)) * sum_rows + own.unit(i) * Matrix::gates];
            const GateSums<Matrix::gates> read = *reinterpret_cast<const GateSums<Matrix::gates> *>(first);
#pragma unroll
            for (int gate = 0; gate < Matrix::gates; gate++) sums[i][gate] += read.gate[gate];
        }
    }
}
