// A block's part of a matrix, kept on chip for products of many vectors by fused multiply-adds.
//
// A matrix has `Gates` gates of [Height][Depth] elements, row-major, one after another. A unit is a row of each gate. A
// block has `Units` neighbouring units, and multiplies them with `Rows` vectors at once, the rows of a tile. All sizes
// are template arguments: a kernel may keep several matrices of different sizes.
//
// Each group of `Lanes` neighbouring threads has its own units. A lane multiplies its part of each vector with its part
// of the weights of all units of the group. The lanes then add up their sums, so that each pair of a unit and a row ends
// on one lane.
//
// THREADS threads divide a matrix. With KINDS_OF_WARPS, the threads behind them divide a matrix of their own.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"
#include "common/quads.cuh"
#include "common/sizes.cuh"

// The thread's number among those that divide a matrix.
#ifdef KINDS_OF_WARPS
__device__ __forceinline__ unsigned sharer() { return threadIdx.x < THREADS ? threadIdx.x : threadIdx.x - THREADS; }
#else
__device__ __forceinline__ unsigned sharer() { return threadIdx.x; }
#endif

// 4 elements from `from` on; behind the first `left` of them, zeros.
template <bool Aligned> __device__ __forceinline__ Quad load_quad(const Element *from, int left) {
    Quad loaded = {};
    if (Aligned) {
        if (left > 0) loaded = *reinterpret_cast<const Quad *>(from);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i < left) loaded.element[i] = from[i];
    }
    return loaded;
}

// A quad as read, kept in whole words: taking it apart early would make the thread wait for the read.
union QuadBits {
    struct alignas(sizeof(Quad)) Words {
        unsigned word[sizeof(Quad) / 4];
    } words;
    Quad quad;

    __device__ __forceinline__ QuadBits() : words{} {}
    __device__ __forceinline__ explicit QuadBits(const Words &words) : words(words) {}

    // Reads what load_quad() reads.
    __device__ __forceinline__ QuadBits(const Element *from, int left, bool is_aligned) : words{} {
        if (!is_aligned)
            quad = load_quad<false>(from, left);
        else if (left > 0)
            words = *reinterpret_cast<const Words *>(from);
    }

    // Takes the quad apart here, and not earlier.
    __device__ __forceinline__ float4 in_float() const {
        QuadBits taken;
#pragma unroll
        for (int i = 0; i < int(sizeof(Quad) / 4); i++) taken.words.word[i] = in_register(words.word[i]);
        return ::in_float(taken.quad);
    }
};

// A thread's quads, the first `Registers` of them in registers.
template <int Registers> class Quads {
    float4 kept[at_least(Registers, 1)];
    Quad *const shared; // [the others][THREADS]

  public:
    __device__ __forceinline__ explicit Quads(void *memory) : shared(static_cast<Quad *>(memory) + sharer()) {}

    __device__ __forceinline__ float4 operator[](int quad) const {
        return quad < Registers ? kept[quad] : in_float(shared[(quad - Registers) * THREADS]);
    }

    __device__ __forceinline__ void set(int quad, const Quad &loaded) {
        if (quad < Registers)
            kept[quad] = in_float(loaded);
        else
            shared[(quad - Registers) * THREADS] = loaded;
    }
};

// The groups of threads that divide a block's units.
template <int Units, int Rows, int Lanes> struct Groups {
    static constexpr int block_units = Units, rows = Rows, lanes = Lanes;
    // Of a group: its units, and its pairs. Pair p is unit p / rows and row p % rows.
    static constexpr int units = divided_up(Units, THREADS / Lanes);
    static constexpr int pairs = units * Rows;
    // The most pairs that end on a lane.
    static constexpr int lane_pairs = halved_up(pairs, Lanes);

    // Lane l has elements 4 (l + Lanes c) … + 3 of a row of `depth` elements, for each chunk c. Zeros follow the row.
    static constexpr int chunks_of(int depth) { return divided_up(depth, 4 * Lanes); }

    // A thread's weights of a matrix with `gates` gates and `depth` columns, in quads: for each chunk, all gates of all
    // units of the group.
    static constexpr int quads_of(int depth, int gates) { return chunks_of(depth) * units * gates; }

    // The thread's group, and its first element of a chunk.
    __device__ static __forceinline__ int index() { return sharer() / Lanes; }
    __device__ static __forceinline__ int first_element(int chunk) {
        return 4 * (chunk * Lanes + int(threadIdx.x % Lanes));
    }
};

// How many of a thread's quads registers keep, if they have room for `room` weights.
constexpr int kept_of(int quads, int room) { return room / 4 < quads ? room / 4 : quads; }

// A thread's part of a matrix, read from memory once for all steps.
template <typename Shape, int Height, int Depth, int Gates, int Room>
class MatrixPart : public Quads<kept_of(Shape::quads_of(Depth, Gates), Room)> {
    static constexpr int quads = Shape::quads_of(Depth, Gates);

  public:
    typedef Shape Groups;
    static constexpr int gates = Gates;
    static constexpr int chunks = Groups::chunks_of(Depth), padded = chunks * 4 * Groups::lanes;
    static constexpr int kept_quads = kept_of(quads, Room);
    static constexpr int shared_quads = quads - kept_quads;

    const int first; // where the thread's part of a vector begins

    // The block's units begin with first_unit. Null: zeros. `memory` is shared, for shared_quads of each thread.
    __device__ __forceinline__ MatrixPart(const Element *weights, int first_unit, void *memory)
        : Quads<kept_quads>(memory), first(in_register(Groups::first_element(0))) {
        // Whole quads can be read if they are aligned.
        if (Depth % 4 == 0 && reinterpret_cast<size_t>(weights) % sizeof(Quad) == 0)
            load<true>(weights, first_unit);
        else
            load<false>(weights, first_unit);
    }

  private:
    template <bool Aligned> __device__ __forceinline__ void load(const Element *weights, int first_unit) {
#pragma unroll
        for (int output = 0; output < Groups::units * Gates; output++) {
            const int gate = output % Gates, unit = Groups::index() * Groups::units + output / Gates;
            const bool is_there = weights && unit < Groups::block_units && first_unit + unit < Height;
            const Element *row = &weights[((long long)gate * Height + first_unit + unit) * Depth];
#pragma unroll
            for (int chunk = 0; chunk < chunks; chunk++) {
                const int first = Groups::first_element(chunk);
                // Only the last chunk reaches beyond the last column.
                const int left = (chunk + 1) * 4 * Groups::lanes <= Depth ? 4 : Depth - first;
                this->set(chunk * Groups::units * Gates + output, load_quad<Aligned>(&row[first], is_there ? left : 0));
            }
        }
    }
};

template <int Pairs, int Count> __device__ __forceinline__ void clear(float (&sums)[Pairs][Count]) {
#pragma unroll
    for (int pair = 0; pair < Pairs; pair++)
#pragma unroll
        for (int sum = 0; sum < Count; sum++) sums[pair][sum] = 0;
}

// Adds the lane's products of read(row of the tile, chunk) with the weights of `Gates` gates from First on. The last of
// these gates adds to sum Last, the others to sums 0, 1, …. Covers all chunks, or those from Begin up to End.
template <int First, int Gates, int Last = Gates - 1, int Begin = 0, int End = 1 << 30, typename Matrix, typename Read,
          int Pairs, int Count>
__device__ __forceinline__ void multiply_read(const Matrix &weights, Read read, float (&sums)[Pairs][Count]) {
    constexpr int rows = Matrix::Groups::rows, units = Matrix::Groups::units;
#pragma unroll
    for (int chunk = Begin; chunk < (End < Matrix::chunks ? End : Matrix::chunks); chunk++) {
        float4 part[rows];
#pragma unroll
        for (int row = 0; row < rows; row++) part[row] = read(row, chunk);
#pragma unroll
        for (int unit = 0; unit < units; unit++) {
#pragma unroll
            for (int gate = 0; gate < Gates; gate++) {
                const float4 weight = weights[(chunk * units + unit) * Matrix::gates + First + gate];
#pragma unroll
                for (int row = 0; row < rows; row++) {
                    float &sum = sums[unit * rows + row][gate + 1 < Gates ? gate : Last];
                    sum = fmaf(weight.x, part[row].x, sum);
                    sum = fmaf(weight.y, part[row].y, sum);
                    sum = fmaf(weight.z, part[row].z, sum);
                    sum = fmaf(weight.w, part[row].w, sum);
                }
            }
        }
    }
}

// Likewise, of a tile in shared memory, [rows][Matrix::padded].
template <int First, int Gates, int Last = Gates - 1, int Begin = 0, int End = 1 << 30, typename Matrix, int Pairs,
          int Count>
__device__ __forceinline__ void multiply_part(const Matrix &weights, const float *tile, float (&sums)[Pairs][Count]) {
    const auto read = [&](int row, int chunk) {
        return *reinterpret_cast<const float4 *>(
            &tile[weights.first + row * Matrix::padded + chunk * 4 * Matrix::Groups::lanes]);
    };
    multiply_read<First, Gates, Last, Begin, End>(weights, read, sums);
}

// Adds numbers of a lane and its partner `apart` away: the lower lane gets the sum of `low`, the upper one of `high`.
__device__ __forceinline__ float add_kept(float low, float high, int apart) {
    const bool upper = LANE & apart;
    return (upper ? high : low) + warp_shuffle(upper ? low : high, LANE ^ apart);
}

// Where scatter_sums() leaves each sum: in which lane, and in which element there.
template <int Count> struct SumPlaces {
    int lane[Count], element[Count];
};
template <int Count> constexpr SumPlaces<Count> sum_places(int lanes) {
    SumPlaces<Count> places = {};
    for (int gate = 0; gate < Count; gate++) {
        places.element[gate] = gate;
        int gates = Count;
        for (int apart = lanes / 2; apart > 0 && gates > 1; apart /= 2) {
            const int half = divided_up(gates, 2);
            if (places.element[gate] >= half) {
                places.element[gate] -= half;
                places.lane[gate] += apart;
            }
            gates = half;
        }
    }
    return places;
}

// Adds up one pair over `Lanes` lanes. Each lane ends up with some of its gates.
template <int Count, int Lanes, int All> __device__ __forceinline__ void scatter_sums(float (&sums)[All]) {
    if constexpr (Lanes > 1 && Count > 1) {
        constexpr int half = divided_up(Count, 2);
#pragma unroll
        for (int gate = 0; gate < half; gate++)
            sums[gate] = add_kept(sums[gate], half + gate < Count ? sums[half + gate] : 0, Lanes / 2);
        scatter_sums<half, Lanes / 2>(sums);
    } else if constexpr (Lanes > 1) {
        sums[0] = warp_sum(sums[0], Lanes);
    }
}

// Adds up one pair over `Lanes` lanes. Each lane ends up with all of its gates.
template <int Lanes, int Count> __device__ __forceinline__ void add_up_one(float (&sums)[Count]) {
    scatter_sums<Count, Lanes>(sums);
    if constexpr (Lanes > 1 && Count > 1) {
        constexpr SumPlaces<Count> places = sum_places<Count>(Lanes);
        float all[Count];
#pragma unroll
        for (int gate = 0; gate < Count; gate++)
            all[gate] = warp_shuffle(sums[places.element[gate]], (LANE & ~(Lanes - 1)) + places.lane[gate]);
#pragma unroll
        for (int gate = 0; gate < Count; gate++) sums[gate] = all[gate];
    }
}

// Adds up the lanes' parts: each lane of the group ends up with its own pairs, in front. If several lanes share a pair,
// each gets all of its gates with IsWhole, and some of its gates without.
template <int Pairs, int Lanes, bool IsWhole = true, int All, int Count>
__device__ __forceinline__ void add_up(float (&sums)[All][Count]) {
    if constexpr (Lanes > 1 && Pairs > 1) {
        constexpr int half = divided_up(Pairs, 2);
#pragma unroll
        for (int pair = 0; pair < half; pair++)
#pragma unroll
            for (int gate = 0; gate < Count; gate++)
                sums[pair][gate] =
                    add_kept(sums[pair][gate], half + pair < Pairs ? sums[half + pair][gate] : 0, Lanes / 2);
        add_up<half, Lanes / 2, IsWhole>(sums);
    } else if constexpr (Lanes > 1 && IsWhole) {
        add_up_one<Lanes>(sums[0]);
    } else if constexpr (Lanes > 1) {
        scatter_sums<Count, Lanes>(sums[0]);
    }
}

// The pairs that a lane owns, as add_up() leaves them.
template <int Pairs, int Lanes> struct OwnPairs {
    int first = 0, count = Pairs;

    // `lane` counts the lanes of a warp, or sets of lanes that share their pairs.
    __device__ __forceinline__ explicit OwnPairs(int lane = LANE) {
        int pairs = Pairs;
#pragma unroll
        for (int apart = Lanes / 2; apart > 0; apart /= 2) {
            // Several lanes have one pair: the first of them owns it.
            const int half = divided_up(pairs, 2);
            const bool upper = lane & apart;
            first += upper ? half : 0;
            count = upper ? (count > half && pairs > 1 ? count - half : 0) : (count < half ? count : half);
            pairs = half;
        }
    }
};
