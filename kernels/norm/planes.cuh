// Tensors in NCHW (or NCDHW) whose channels are reduced, each by the blocks of a cluster. A plane is a channel of an
// image. Memory is read in vectors of 16 bytes, and a row is the vectors that hold a plane: its first and its last may
// hold elements of its neighbours too. An image is whole vectors, so a channel's rows are alike in all images.
//
// The blocks of a cluster share out the vectors of all rows. A block keeps the first `resident` of its vectors in its
// shared memory, and reads the others again.
#pragma once

#include "common/async_copy.cuh"
#include "common/cluster.cuh"
#include "common/divisor.cuh"
#include "common/ops.cuh"

#define WARPS (THREADS / 32)
// The elements of a vector.
#define VECTOR int(16 / sizeof(Element))
#define MOST_BLOCKS 16

union alignas(16) Vector {
    uint4 all;
    Element each[VECTOR];
    __device__ __forceinline__ Vector() {}
};

// A vector of each of several tensors, from one place.
template <int TENSORS> struct Vectors { Vector of[TENSORS]; };

// The elements of a vector that belong to its row: a bit for each.
struct Part {
    unsigned bits;

    static constexpr unsigned WHOLE = (1u << VECTOR) - 1;
    __device__ __forceinline__ int elements() const { return __popc(bits); }
    __device__ __forceinline__ bool is_whole() const { return bits == WHOLE; }
    __device__ __forceinline__ bool has(int element) const { return bits >> element & 1; }
};

// The first element of a vector that belongs to its row.
__device__ __forceinline__ Element first(const Vector &vector, const Part &part) {
    Element its = vector.each[VECTOR - 1];
#pragma unroll
    for (int i = VECTOR - 2; i >= 0; i--)
        if (part.has(i)) its = vector.each[i];
    return its;
}

// The sum of numbers, one for each element of a vector, in pairs: less is lost by rounding than one after the other.
__device__ __forceinline__ float sum_in_pairs(float (&numbers)[VECTOR]) {
#pragma unroll
    for (int pairs = VECTOR / 2; pairs > 0; pairs /= 2)
#pragma unroll
        for (int i = 0; i < pairs; i++) numbers[i] += numbers[i + pairs];
    return numbers[0];
}

// Twin of `Shape` in `crates/norm/src/shape.rs`.
struct Shape {
    int images;
    // The elements of a plane, and the vectors of an image.
    int plane, image;
    // The vectors of a row: of most rows as many as the first says, or one more.
    Divisor lengths[2];
    // The vectors of a block, the last block may have fewer, and those that stay in its shared memory.
    int share, resident;
    // The blocks of a cluster.
    int blocks;

    __device__ __forceinline__ int channel() const { return int(blockIdx.x) / blocks; }
    __device__ __forceinline__ int block() const { return int(blockIdx.x) % blocks; }
};

// The rows of a channel. A block has their vectors from `begin` to `end`. The vectors before `kept` stay in shared
// memory.
struct Rows {
    long long first;
    // The elements of its first vector that are another row's.
    int before;
    Divisor length;
    // The row's elements of its first and of its last vector.
    Part head, tail;
    int begin, end, kept;

    __device__ __forceinline__ explicit Rows(const Shape &shape) {
        const long long element = (long long)shape.channel() * shape.plane;
        first = element / VECTOR;
        before = int(element % VECTOR);
        const int elements = before + shape.plane;
        length = shape.lengths[(elements - 1) / VECTOR + 1 - shape.lengths[0].value];
        head = {Part::WHOLE << before & Part::WHOLE};
        tail = {Part::WHOLE >> (length.value * VECTOR - elements)};
        begin = shape.block() * shape.share;
        end = min(begin + shape.share, shape.images * length.value);
        kept = min(begin + shape.resident, end);
    }

    __device__ __forceinline__ int image(int vector) const {
        return length.quotient(vector);
    }
    // Where a vector lies in a tensor.
    __device__ __forceinline__ long long place(const Shape &shape, int vector) const {
        const int its = image(vector);
        return first + (long long)its * shape.image + (vector - its * length.value);
    }
    __device__ __forceinline__ Part part(int vector) const {
        const int of_row = vector - image(vector) * length.value;
        return {(of_row == 0 ? head.bits : Part::WHOLE) & (of_row == length.value - 1 ? tail.bits : Part::WHOLE)};
    }
};

// A thread's vectors of several tensors, THREADS apart. IS_WHOLE: all planes are whole vectors.
template <int TENSORS, bool IS_WHOLE> class Sweep {
  public:
    const Rows rows;

  private:
    const Shape &shape;
    const uint4 *tensors[TENSORS];
    Vector *const resident; // [TENSORS][shape.resident]
    const int first;

    __device__ __forceinline__ Vector &kept(int tensor, int vector) const {
        return resident[tensor * shape.resident + vector - rows.begin];
    }

    __device__ __forceinline__ Part part(int vector) const {
        return IS_WHOLE ? Part{Part::WHOLE} : rows.part(vector);
    }

    __device__ __forceinline__ Vectors<TENSORS> read_kept(int vector) const {
        Vectors<TENSORS> vectors;
#pragma unroll
        for (int t = 0; t < TENSORS; t++) vectors.of[t] = kept(t, vector);
        return vectors;
    }

    // Calls use(vectors, vector) for AHEAD vectors from `vector` on, STEP apart, which are not resident. They
    // are read at once.
    template <int STEP, typename Use> __device__ __forceinline__ void read_ahead(int vector, int end, Use use) const {
        Vectors<TENSORS> ahead[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int its = vector + i * STEP;
            if (its >= end) break;
            const long long place = rows.place(shape, its);
#pragma unroll
            for (int t = 0; t < TENSORS; t++) ahead[i].of[t].all = tensors[t][place];
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int its = vector + i * STEP;
            if (its >= end) break;
            use(ahead[i], its);
        }
    }

    __device__ __forceinline__ static void write(uint4 *to, long long place, const Vector &vector, const Part &part) {
        if (IS_WHOLE || part.is_whole())
            to[place] = vector.all;
        else
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                if (part.has(i)) reinterpret_cast<Element *>(to + place)[i] = vector.each[i];
    }

  public:
    // The resident vectors are on their way from here on.
    template <typename... Tensors>
    __device__ __forceinline__ Sweep(const Shape &shape, Vector *resident, Tensors... tensors)
        : rows(shape), shape(shape), tensors{tensors...}, resident(resident), first(rows.begin + int(threadIdx.x)) {
        for (int vector = first; vector < rows.kept; vector += THREADS) {
            const long long place = rows.place(shape, vector);
#pragma unroll
            for (int t = 0; t < TENSORS; t++) copy_async<16>(&kept(t, vector), this->tensors[t] + place, true);
        }
        end_group();
    }

    // All threads of the block come: then the resident vectors of all of them are there.
    __device__ __forceinline__ void wait_for_all() const {
        wait_for_groups<0>();
        barrier();
    }

    // Calls use(vectors, vector) for the vectors from `vector` to `end`, STEP apart, once the resident ones are there.
    template <int STEP, typename Use> __device__ __forceinline__ void read(int vector, int end, Use use) const {
        const int kept_end = min(end, rows.kept);
        for (; vector < kept_end; vector += STEP) use(read_kept(vector), vector);
        for (; vector < end; vector += AHEAD * STEP) read_ahead<STEP>(vector, end, use);
    }

    // Calls use(vectors, part) for each of the thread's vectors.
    template <typename Use> __device__ __forceinline__ void read_all(Use use) const {
        wait_for_groups<0>();
        read<THREADS>(first, rows.end,
                      [&](const Vectors<TENSORS> &vectors, int vector) { use(vectors, part(vector)); });
    }

    // Writes change(vectors, vector) to each place of a tensor, which may be one of those that are read. Comes after all
    // have been read. What was read last comes first: it may still be in the L2 cache.
    template <typename Change> __device__ __forceinline__ void write_all(uint4 *to, Change change) const {
        const auto write_changed = [&](const Vectors<TENSORS> &vectors, int vector) {
            write(to, rows.place(shape, vector), change(vectors, vector), part(vector));
        };
        const int other = first + max(rows.kept - first + THREADS - 1, 0) / THREADS * THREADS;
        const int batches = max(rows.end - other + AHEAD * THREADS - 1, 0) / (AHEAD * THREADS);
        for (int batch = batches - 1; batch >= 0; batch--)
            read_ahead<THREADS>(other + batch * AHEAD * THREADS, rows.end, write_changed);
        for (int vector = first; vector < rows.kept; vector += THREADS) write_changed(read_kept(vector), vector);
    }
};
