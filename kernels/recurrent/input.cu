// The work before a recurrence: the products of W with all time steps' inputs, and the preparation of memory.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of data and weights. Sums are float.
#include "common/async_copy.cuh"
#include "common/device.cuh"
#include "common/ops.cuh"

#define THREADS 256

// products[row][column] = Σ x[row][k] · weights[column][k], all of them row-major and packed.
struct Products {
    const Element *x;
    const Element *weights;
    float *products;
    int rows, columns, depth;
};

// A block computes a tile of products. Tiles are small, so that the few rows of an RNN's input keep all multiprocessors
// busy. The sums run along k in strips; STAGES strips are in shared memory, all but one still being copied. SHARERS
// threads divide the strips of SQUARE × SQUARE products, which are ACROSS apart, and add up their sums in the end.
#define TILE 32
#define STRIP 64
#define STAGES 3
#define SQUARE 4
#define ACROSS (TILE / SQUARE)
#define SQUARES (ACROSS * ACROSS)
#define SHARERS (THREADS / SQUARES)
static_assert(STRIP % (4 * SHARERS) == 0 && SHARERS == SQUARE, "whole quads of a strip, and a row of each square");

// Elements from one row of a strip to the next: threads read quads of neighbouring rows from different banks.
constexpr int PITCH = STRIP + 16 / sizeof(Element);
constexpr int STRIP_ELEMENTS = TILE * PITCH;

struct alignas(4 * sizeof(Element)) Quad {
    Element element[4];
};

__device__ __forceinline__ float4 in_float(const Quad &quad) {
    return make_float4(to_float(quad.element[0]), to_float(quad.element[1]), to_float(quad.element[2]),
                       to_float(quad.element[3]));
}

// A thread's copies of TILE rows of a matrix, Access elements at once. Elements outside of the matrix become zero.
template <int Access> class Copies {
    static constexpr int across = STRIP / Access, rows_at_once = THREADS / across;
    const Element *const matrix;
    const long long first;       // element, of the thread's first row
    const int row, at;           // in a strip
    const long long rows, depth; // the matrix' rows from the tile's first on, and their length

  public:
    __device__ __forceinline__ Copies(const Element *matrix, long long tile, int rows, int depth)
        : matrix(matrix), first((tile + threadIdx.x / across) * depth + threadIdx.x % across * Access),
          row(threadIdx.x / across), at(threadIdx.x % across * Access), rows(rows - tile), depth(depth) {}

    // Begins the copies of the strip at k.
    __device__ __forceinline__ void begin(Element *strip, int k) const {
#pragma unroll
        for (int more = 0; more < TILE; more += rows_at_once) {
            const bool is_there = row + more < rows && k + at < depth;
            copy_async<Access * sizeof(Element)>(strip + (row + more) * PITCH + at,
                                                 matrix + (is_there ? first + more * depth + k : 0), is_there);
        }
    }
};

template <int Access>
__device__ __forceinline__ void add_products(const Products &p, long long row, long long column, Element *stages,
                                             float (&sums)[SQUARE][SQUARE]) {
    const Copies<Access> of_x(p.x, row, p.rows, p.depth), of_weights(p.weights, column, p.columns, p.depth);
    const auto copy = [&](Element *stage, int k) {
        if (k < p.depth) of_x.begin(stage, k), of_weights.begin(stage + STRIP_ELEMENTS, k);
        end_group();
    };
    constexpr int stage = 2 * STRIP_ELEMENTS;
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) copy(stages + ahead * stage, ahead * STRIP);
    const int square = threadIdx.x % SQUARES, sharer = threadIdx.x / SQUARES;
    const int left_at = square / ACROSS * PITCH + 4 * sharer;
    const int above_at = STRIP_ELEMENTS + square % ACROSS * PITCH + 4 * sharer;
    int at_hand = 0, ahead = STAGES - 1;
#pragma unroll 1
    for (int k = 0; k < p.depth; k += STRIP) {
        wait_for_groups<STAGES - 2>();
        barrier(); // the strip is there, and nobody reads the one before any more
        copy(stages + ahead * stage, k + (STAGES - 1) * STRIP);
        const Element *const strip = stages + at_hand * stage;
#pragma unroll
        for (int at = 0; at < STRIP; at += 4 * SHARERS) {
            float4 left[SQUARE], above[SQUARE];
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
                left[i] = in_float(*reinterpret_cast<const Quad *>(strip + left_at + i * ACROSS * PITCH + at));
                above[i] = in_float(*reinterpret_cast<const Quad *>(strip + above_at + i * ACROSS * PITCH + at));
            }
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
#pragma unroll
                for (int j = 0; j < SQUARE; j++) {
                    sums[i][j] = fmaf(left[i].x, above[j].x, sums[i][j]);
                    sums[i][j] = fmaf(left[i].y, above[j].y, sums[i][j]);
                    sums[i][j] = fmaf(left[i].z, above[j].z, sums[i][j]);
                    sums[i][j] = fmaf(left[i].w, above[j].w, sums[i][j]);
                }
            }
        }
        at_hand = at_hand == STAGES - 1 ? 0 : at_hand + 1;
        ahead = ahead == STAGES - 1 ? 0 : ahead + 1;
    }
}

// Dynamic shared memory: Element[STAGES][2][TILE][PITCH], and then float[SHARERS][SQUARE][SQUARE][SQUARES].
KERNEL(input_products, Products) {
    begin_next_launch();
    const Products &p = parameters;
    SHARED(Element, stages);
    const int across = (p.columns + TILE - 1) / TILE;
    const long long row = (long long)(blockIdx.x / across) * TILE, column = (long long)(blockIdx.x % across) * TILE;
    float sums[SQUARE][SQUARE] = {};
    constexpr int access = 16 / sizeof(Element);
    const size_t places = reinterpret_cast<size_t>(p.x) | reinterpret_cast<size_t>(p.weights);
    if (p.depth % access == 0 && places % 16 == 0)
        add_products<access>(p, row, column, stages, sums);
    else
        add_products<1>(p, row, column, stages, sums);
    barrier(); // nobody reads the strips any more
    float *const parts = reinterpret_cast<float *>(stages);
    const int square = threadIdx.x % SQUARES, sharer = threadIdx.x / SQUARES;
#pragma unroll
    for (int i = 0; i < SQUARE * SQUARE; i++)
        parts[(sharer * SQUARE * SQUARE + i) * SQUARES + square] = sums[i / SQUARE][i % SQUARE];
    barrier();
    // Each sharer writes a row of the square.
    const long long r = row + square / ACROSS + sharer * ACROSS;
#pragma unroll
    for (int j = 0; j < SQUARE; j++) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < SHARERS; i++) sum += parts[((i * SQUARE + sharer) * SQUARE + j) * SQUARES + square];
        const long long c = column + square % ACROSS + j * ACROSS;
        if (r < p.rows && c < p.columns) p.products[r * p.columns + c] = sum;
    }
}

// A call's preparation before its products, in one launch of any number of blocks. The launch's parameters carry the
// lengths, so that a CUDA graph which repeats the launch has them. More than LENGTHS sequences take several launches.
#define LENGTHS 896
struct Preparation {
    uint4 *zeroed;        // memory to clear, `quads` × 16 bytes
    long long quads;
    int first, count;     // the sequences whose lengths this launch carries: `count` from `first` on
    int *lengths;         // of all sequences
    int *starts;          // [steps]: the packed rows before each step, of the sequences so far
    int steps;            // 0: starts are not wanted
    int values[LENGTHS];
};

KERNEL(prepare, Preparation) {
    const int begin = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    for (long long i = begin; i < parameters.quads; i += stride) parameters.zeroed[i] = make_uint4(0, 0, 0, 0);
    for (int i = begin; i < parameters.count; i += stride)
        parameters.lengths[parameters.first + i] = parameters.values[i];
    for (int step = begin; step < parameters.steps; step += stride) {
        int rows = parameters.first ? parameters.starts[step] : 0;
        for (int i = 0; i < parameters.count; i++)
            rows += parameters.values[i] < step ? parameters.values[i] : step;
        parameters.starts[step] = rows;
    }
}
