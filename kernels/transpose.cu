// Transposes matrices: `images` of them, each of `rows` × `columns` elements, side by side in both memories. What a
// convolution's tensor is in NCHW, rows of channels and columns of pixels, it is in NHWC the other way round.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. Every kernel has blocks
// of THREADS threads, and works on the images that a grid of any height leaves it.

#define THREADS 256
#include "device.cuh"

#define WARPS (THREADS / 32)

typedef ELEMENT Element;
typedef unsigned Word;

// `from` and `to` are apart, and aligned to 16 bytes.
struct Matrices {
    const Element *from;
    Element *to;
    int images, rows, columns;
};

// Nothing else points to what these do.
#define MEMBERS_OF(matrices)                                                                                           \
    const Element *__restrict__ const from = matrices.from;                                                            \
    Element *__restrict__ const to = matrices.to;                                                                      \
    const int images = matrices.images, rows = matrices.rows, columns = matrices.columns

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
template <int Rows, int Columns>
__device__ __forceinline__ void in_registers(const Matrices &matrices) {
    MEMBERS_OF(matrices);
    const int lane = threadIdx.x % 32, tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const int across = (columns + 4 * Columns - 1) / (4 * Columns);
    const int row = (tile / across * 8 + lane / 4) * Rows, column = (tile % across * 4 + lane % 4) * Columns;
    if (row >= rows || column >= columns) return;
    for (long long image = blockIdx.y; image < images; image += gridDim.y) {
        const Element *source = from + (image * rows + row) * columns + column;
        Run<Columns> in[Rows];
#pragma unroll
        for (int i = 0; i < Rows; i++)
            in[i] = *reinterpret_cast<const Run<Columns> *>(source + (long long)i * columns);
        Element *target = to + (image * columns + column) * rows + row;
#pragma unroll
        for (int i = 0; i < Columns; i++)
            *reinterpret_cast<Run<Rows> *>(target + (long long)i * rows) = column_of(in, i);
    }
}

// Through shared memory, where a strip of 64 rows, or of 64 columns, holds all of them the other way: the long side is
// one piece in both memories.
#define STRIP 64
#define VECTOR int(16 / sizeof(Element))

__device__ __forceinline__ void strip_of_rows(const Matrices &matrices) {
    MEMBERS_OF(matrices);
    SHARED(uint4, memory);
    Element *strip = reinterpret_cast<Element *>(memory);
    for (long long image = blockIdx.y; image < images; image += gridDim.y) {
        const uint4 *source = reinterpret_cast<const uint4 *>(from + (image * rows + blockIdx.x * STRIP) * columns);
        for (int i = threadIdx.x; i < STRIP / VECTOR * columns; i += THREADS) memory[i] = source[i];
        barrier();
        for (int i = threadIdx.x; i < STRIP / VECTOR * columns; i += THREADS) {
            const int row = i % (STRIP / VECTOR) * VECTOR, column = i / (STRIP / VECTOR);
            union { uint4 all; Element each[VECTOR]; } run;
#pragma unroll
            for (int k = 0; k < VECTOR; k++) run.each[k] = strip[(row + k) * columns + column];
            Element *target = to + (image * columns + column) * rows + blockIdx.x * STRIP + row;
            *reinterpret_cast<uint4 *>(target) = run.all;
        }
        barrier();
    }
}

__device__ __forceinline__ void strip_of_columns(const Matrices &matrices) {
    MEMBERS_OF(matrices);
    SHARED(uint4, memory);
    Element *strip = reinterpret_cast<Element *>(memory);
    for (long long image = blockIdx.y; image < images; image += gridDim.y) {
        for (int i = threadIdx.x; i < STRIP / VECTOR * rows; i += THREADS) {
            const int column = i % (STRIP / VECTOR) * VECTOR, row = i / (STRIP / VECTOR);
            union { uint4 all; Element each[VECTOR]; } run;
            const Element *source = from + (image * rows + row) * columns + blockIdx.x * STRIP + column;
            run.all = *reinterpret_cast<const uint4 *>(source);
#pragma unroll
            for (int k = 0; k < VECTOR; k++) strip[(column + k) * rows + row] = run.each[k];
        }
        barrier();
        uint4 *target = reinterpret_cast<uint4 *>(to + (image * columns + blockIdx.x * STRIP) * rows);
        for (int i = threadIdx.x; i < STRIP / VECTOR * rows; i += THREADS) target[i] = memory[i];
        barrier();
    }
}

// Any sizes, by squares in shared memory.
#define SQUARE 32

__device__ __forceinline__ void by_squares(const Matrices &matrices) {
    MEMBERS_OF(matrices);
    STATIC_SHARED(Element, square, [SQUARE][SQUARE + 1]);
    const int across = (columns + SQUARE - 1) / SQUARE;
    const int row = blockIdx.x / across * SQUARE, column = blockIdx.x % across * SQUARE;
    const int x = threadIdx.x % SQUARE;
    for (long long image = blockIdx.y; image < images; image += gridDim.y) {
        for (int y = threadIdx.x / SQUARE; y < SQUARE; y += THREADS / SQUARE)
            if (row + y < rows && column + x < columns)
                square[y][x] = from[(image * rows + row + y) * columns + column + x];
        barrier();
        for (int y = threadIdx.x / SQUARE; y < SQUARE; y += THREADS / SQUARE)
            if (row + x < rows && column + y < columns)
                to[(image * columns + column + y) * rows + row + x] = square[x][y];
        barrier();
    }
}

#define IN_REGISTERS(R, C)                                                                                             \
    KERNEL(transpose_##R##x##C, Matrices) { in_registers<R, C>(parameters); }

IN_REGISTERS(4, 4)
#if ELEMENT_BYTES == 2
IN_REGISTERS(8, 8)
IN_REGISTERS(8, 4)
IN_REGISTERS(4, 8)
#endif

KERNEL(transpose_rows, Matrices) { strip_of_rows(parameters); }
KERNEL(transpose_columns, Matrices) { strip_of_columns(parameters); }
KERNEL(transpose_any, Matrices) { by_squares(parameters); }

// sum = transposed + sum, or what is transposed alone. Each thread has elements of the sum of its own; sums are float.
struct Addition {
    const Element *from;
    float *sum;
    int images, rows, columns, begins;
};

__device__ __forceinline__ float value(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ float value(unsigned short bits) {
#ifdef BFLOAT16
    return bfloat16_to_float(bits);
#else
    return half_to_float(bits);
#endif
}

KERNEL(add_transposed, Addition) {
    const Element *__restrict__ const from = parameters.from;
    float *const sum = parameters.sum;
    const int images = parameters.images, rows = parameters.rows, columns = parameters.columns;
    const long long elements = (long long)images * rows * columns;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < elements; i += (long long)gridDim.x * THREADS) {
        const long long image = i / (rows * columns);
        const int place = int(i - image * (rows * columns)), column = place / rows, row = place % rows;
        const float term = value(from[(image * rows + row) * columns + column]);
        sum[i] = parameters.begins ? term : sum[i] + term;
    }
}
