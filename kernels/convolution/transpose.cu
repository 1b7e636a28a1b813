// Transposes matrices: `images` of them, each of `rows` × `columns` elements, one after another in both memories. A
// convolution's tensor has rows of channels and columns of pixels in NCHW, and the other way round in NHWC. One launch
// may transpose several tensors, and add another to a sum.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. All blocks have
// THREADS threads.

#define THREADS 256
#include "common/device.cuh"

#define WARPS (THREADS / 32)

typedef ELEMENT Element;
typedef unsigned Word;

// A matrix to transpose. `from` and `to` do not overlap, and are aligned to 16 bytes.
struct Matrix {
    const Element *from;
    Element *to;
    int rows, columns;
};

// No other pointer reaches the same memory, hence __restrict__.
#define MEMBERS_OF(matrix)                                                                                             \
    const Element *__restrict__ const from = matrix.from;                                                              \
    Element *__restrict__ const to = matrix.to;                                                                        \
    const int rows = matrix.rows, columns = matrix.columns

// N elements, moved in one access.
template <int N> struct alignas(N * sizeof(Element)) Run {
    static constexpr int words = N * sizeof(Element) / sizeof(Word);
    Word word[words];
};

// The elements at `column` of each row, as one run.
template <int Rows, int Columns>
__device__ __forceinline__ Run<Rows> column_of(const Run<Columns> (&rows)[Rows], int column) {
    Run<Rows> run;
    if constexpr (sizeof(Element) == 2) {
        // A word has two elements: take the low or the high half of a word of each of two rows.
        const unsigned halves = column % 2 ? 0x7632 : 0x5410;
#pragma unroll
        for (int i = 0; i < Rows / 2; i++)
            run.word[i] = __byte_perm(rows[2 * i].word[column / 2], rows[2 * i + 1].word[column / 2], halves);
    } else {
#pragma unroll
        for (int i = 0; i < Rows; i++) run.word[i] = rows[i].word[column];
    }
    return run;
}

// Each thread transposes Rows × Columns elements in its registers. A warp has 8 × 4 such pieces, so that it reads and
// writes whole sectors. Rows divides `rows`, and Columns `columns`.
template <int Rows, int Columns> __device__ __forceinline__ void in_registers(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
    const int lane = threadIdx.x % 32, tile = block * WARPS + threadIdx.x / 32;
    const int across = (columns + 4 * Columns - 1) / (4 * Columns);
    const int row = (tile / across * 8 + lane / 4) * Rows, column = (tile % across * 4 + lane % 4) * Columns;
    if (row >= rows || column >= columns) return;
    const Element *source = from + (long long)row * columns + column;
    Run<Columns> in[Rows];
#pragma unroll
    for (int i = 0; i < Rows; i++) in[i] = *reinterpret_cast<const Run<Columns> *>(source + (long long)i * columns);
    Element *target = to + (long long)column * rows + row;
#pragma unroll
    for (int i = 0; i < Columns; i++) *reinterpret_cast<Run<Rows> *>(target + (long long)i * rows) = column_of(in, i);
}

// Through shared memory, which holds a strip of 64 whole rows or 64 whole columns: the strip is contiguous in both
// memories along its long side.
#define STRIP 64
#define VECTOR int(16 / sizeof(Element))

union Access {
    uint4 all;
    Element each[VECTOR];
};

__device__ __forceinline__ void strip_of_rows(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
    SHARED(uint4, memory);
    Element *strip = reinterpret_cast<Element *>(memory);
    const int first = block * STRIP;
    const uint4 *source = reinterpret_cast<const uint4 *>(from + (long long)first * columns);
    for (int i = threadIdx.x; i < STRIP / VECTOR * columns; i += THREADS) memory[i] = source[i];
    barrier();
    for (int i = threadIdx.x; i < STRIP / VECTOR * columns; i += THREADS) {
        const int row = i % (STRIP / VECTOR) * VECTOR, column = i / (STRIP / VECTOR);
        Access run;
#pragma unroll
        for (int k = 0; k < VECTOR; k++) run.each[k] = strip[(row + k) * columns + column];
        *reinterpret_cast<uint4 *>(to + (long long)column * rows + first + row) = run.all;
    }
}

__device__ __forceinline__ void strip_of_columns(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
    SHARED(uint4, memory);
    Element *strip = reinterpret_cast<Element *>(memory);
    const int first = block * STRIP;
    for (int i = threadIdx.x; i < STRIP / VECTOR * rows; i += THREADS) {
        const int column = i % (STRIP / VECTOR) * VECTOR, row = i / (STRIP / VECTOR);
        Access run;
        run.all = *reinterpret_cast<const uint4 *>(from + (long long)row * columns + first + column);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) strip[(column + k) * rows + row] = run.each[k];
    }
    barrier();
    uint4 *target = reinterpret_cast<uint4 *>(to + (long long)first * rows);
    for (int i = threadIdx.x; i < STRIP / VECTOR * rows; i += THREADS) target[i] = memory[i];
}

// few_rows: a column is one access to the transposed matrix, filled up with zeros. few_columns: a row is one access,
// whose rest is dropped. A thread makes EACH accesses.
#define EACH 4

__device__ __forceinline__ void few_rows(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int column = (block * EACH + i) * THREADS + threadIdx.x;
        if (column >= columns) return;
        Access access;
#pragma unroll
        for (int row = 0; row < VECTOR; row++)
            access.each[row] = row < rows ? from[(long long)row * columns + column] : Element(0);
        reinterpret_cast<uint4 *>(to)[column] = access.all;
    }
}

__device__ __forceinline__ void few_columns(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int row = (block * EACH + i) * THREADS + threadIdx.x;
        if (row >= rows) return;
        Access access;
        access.all = reinterpret_cast<const uint4 *>(from)[row];
#pragma unroll
        for (int column = 0; column < VECTOR; column++)
            if (column < columns) to[(long long)column * rows + row] = access.each[column];
    }
}

// For any sizes: 32 × 32 squares in shared memory.
#define SQUARE 32

__device__ __forceinline__ void by_squares(const Matrix &matrix, int block) {
    MEMBERS_OF(matrix);
    STATIC_SHARED(Element, square, [SQUARE][SQUARE + 1]);
    const int across = (columns + SQUARE - 1) / SQUARE;
    const int row = block / across * SQUARE, column = block % across * SQUARE;
    const int x = threadIdx.x % SQUARE;
    for (int y = threadIdx.x / SQUARE; y < SQUARE; y += THREADS / SQUARE)
        if (row + y < rows && column + x < columns) square[y][x] = from[(long long)(row + y) * columns + column + x];
    barrier();
    for (int y = threadIdx.x / SQUARE; y < SQUARE; y += THREADS / SQUARE)
        if (row + x < rows && column + y < columns) to[(long long)(column + y) * rows + row + x] = square[x][y];
}

__device__ __forceinline__ float value(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ float value(unsigned short bits) {
#ifdef BFLOAT16
    return bfloat16_to_float(bits);
#else
    return half_to_float(bits);
#endif
}

// A tensor's matrices, one after another in both memories, and the operation on them.
struct Job {
    const Element *from;
    // Elements, or a sum's floats.
    void *to;
    int images, rows, columns;
    // Elements from one row to the next, here and in the transposed matrices.
    int pitch, transposed_pitch;
    // Blocks of the launch that work on this job.
    int blocks;
    // WRITES the transposed elements, ADDS them to a sum, or BEGINS a sum with them.
    enum : int { WRITES, ADDS, BEGINS } what;
};

// sum = transposed + sum, or the transposed elements alone. Each thread owns its elements of the sum.
__device__ __forceinline__ void add(const Job &job, int block) {
    const int rows = job.rows, columns = job.columns;
    const Element *__restrict__ const from = job.from;
    float *const sum = static_cast<float *>(job.to);
    const bool begins = job.what == Job::BEGINS;
    const long long elements = (long long)job.images * rows * columns, stride = (long long)job.blocks * THREADS;
    for (long long i = (long long)block * THREADS + threadIdx.x; i < elements; i += stride) {
        const long long image = i / (rows * columns);
        const int place = int(i - image * (rows * columns)), column = place / rows, row = place % rows;
        const float term = value(from[(image * rows + row) * job.pitch + column]);
        sum[i] = begins ? term : sum[i] + term;
    }
}

// The jobs of one launch. No job reads or writes another's output. Each job has the next `blocks` blocks; if it
// transposes, its images share them equally.
#define MOST_JOBS 4
struct Jobs {
    Job job[MOST_JOBS];
};

template <void (*TRANSPOSE)(const Matrix &, int)> __device__ __forceinline__ void work_on(const Jobs &jobs) {
    int block = blockIdx.x, which = 0;
    while (block >= jobs.job[which].blocks) block -= jobs.job[which++].blocks;
    const Job &job = jobs.job[which];
    if (job.what != Job::WRITES) {
        add(job, block);
        return;
    }
    const int blocks = job.blocks / job.images, image = block / blocks;
    const Matrix matrix = {
        job.from + (long long)image * job.rows * job.pitch,
        static_cast<Element *>(job.to) + (long long)image * job.columns * job.transposed_pitch,
        job.rows,
        job.columns,
    };
    TRANSPOSE(matrix, block - image * blocks);
}

#define IN_REGISTERS(R, C)                                                                                             \
    KERNEL(transpose_##R##x##C, Jobs) { work_on<in_registers<R, C>>(parameters); }

IN_REGISTERS(4, 4)
#if ELEMENT_BYTES == 2
IN_REGISTERS(8, 8)
IN_REGISTERS(8, 4)
IN_REGISTERS(4, 8)
#endif

KERNEL(transpose_rows, Jobs) { work_on<strip_of_rows>(parameters); }
KERNEL(transpose_columns, Jobs) { work_on<strip_of_columns>(parameters); }
KERNEL(transpose_few_rows, Jobs) { work_on<few_rows>(parameters); }
KERNEL(transpose_few_columns, Jobs) { work_on<few_columns>(parameters); }
KERNEL(transpose_any, Jobs) { work_on<by_squares>(parameters); }
