// Transposes matrices: `images` of them, each of `rows` × `columns` elements, side by side in both memories. What a
// convolution's tensor is in NCHW, rows of channels and columns of pixels, it is in NHWC the other way round. One launch
// may transpose several tensors, and add another to a sum.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. Every kernel has blocks
// of THREADS threads.

#define THREADS 256
#include "device.cuh"

#define WARPS (THREADS / 32)

typedef ELEMENT Element;
typedef unsigned Word;

// A matrix to be transposed. `from` and `to` are apart, and aligned to 16 bytes.
struct Matrix {
    const Element *from;
    Element *to;
    int rows, columns;
};

// Nothing else points to what these do.
#define MEMBERS_OF(matrix)                                                                                             \
    const Element *__restrict__ const from = matrix.from;                                                              \
    Element *__restrict__ const to = matrix.to;                                                                        \
    const int rows = matrix.rows, columns = matrix.columns

// So many elements, moved in one access.
template <int N> struct alignas(N * sizeof(Element)) Run {
    static constexpr int words = N * sizeof(Element) / sizeof(Word);
    Word word[words];
};

// The run of elements that stand at `column` of each of the rows.
template <int Rows, int Columns>
__device__ __forceinline__ Run<Rows> column_of(const Run<Columns> (&rows)[Rows], int column) {
    Run<Rows> run;
    if constexpr (sizeof(Element) == 2) {
        // Two elements a word: the low or the high half of a word of each of two rows.
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

// Each thread transposes Rows × Columns elements in its registers; a warp 8 × 4 of these, so that it reads and writes
// whole sectors. Rows divides `rows`, and Columns `columns`.
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

// Through shared memory, where a strip of 64 rows, or of 64 columns, holds all of them the other way: the long side is
// one piece in both memories.
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

// A column of few rows is one access of the transposed matrix's, filled up with zeros; or an access is a row of few
// columns, of which what is behind them is left out. A thread makes EACH of them.
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

// Any sizes, by squares in shared memory.
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

// Matrices side by side in both memories, and what becomes of them.
struct Job {
    const Element *from;
    // Elements, or floats of a sum.
    void *to;
    int images, rows, columns;
    // Elements from one row to the next, and of the transposed matrices.
    int pitch, transposed_pitch;
    // How many blocks of the launch's work on it.
    int blocks;
    // What is transposed is written, or is added to a sum, or begins one.
    enum : int { WRITES, ADDS, BEGINS } what;
};

// sum = transposed + sum, or what is transposed alone. Each thread has elements of the sum of its own.
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

// Of one launch. None of them reads or writes what another writes. Blocks are theirs in turn; of one that transposes
// equally many are each image's.
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
