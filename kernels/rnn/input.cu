// What comes before a recurrence: the products of all time steps' inputs with W, and what these and the recurrence need.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of data and weights. Sums are float.
#include "device.cuh"
#include "ops.cuh"

#define THREADS 256

// products[row][column] = Σ x[row][k] · weights[column][k], all of them row-major and packed.
struct Products {
    const Element *x;
    const Element *weights;
    float *products;
    int rows, columns, depth;
};

// A block makes a tile of products, each thread a square of it; the sums run along k in strips.
#define TILE 64
#define STRIP 16
#define SQUARE 4
// Rows of a strip in shared memory, apart from each other so that threads store to different banks.
#define PITCH (TILE + 4)

// A strip of TILE rows of a matrix, transposed. What lies outside of the matrix is zero.
__device__ __forceinline__ void load(float (*strip)[PITCH], const Element *matrix, long long first, int rows, int depth,
                                     int k) {
    for (int i = threadIdx.x; i < TILE * STRIP; i += THREADS) {
        const int row = i / STRIP, at = i % STRIP;
        const bool inside = first + row < rows && k + at < depth;
        strip[at][row] = inside ? to_float(matrix[(first + row) * depth + k + at]) : 0.0f;
    }
}

KERNEL(input_products, Products) {
    const Products p = parameters;
    STATIC_SHARED(float, x, [STRIP][PITCH]);
    STATIC_SHARED(float, weights, [STRIP][PITCH]);
    const int across = (p.columns + TILE - 1) / TILE;
    const long long row = (long long)(blockIdx.x / across) * TILE, column = (long long)(blockIdx.x % across) * TILE;
    const int down = threadIdx.x / (TILE / SQUARE) * SQUARE, right = threadIdx.x % (TILE / SQUARE) * SQUARE;
    float sums[SQUARE][SQUARE] = {};
    for (int k = 0; k < p.depth; k += STRIP) {
        load(x, p.x, row, p.rows, p.depth, k);
        load(weights, p.weights, column, p.columns, p.depth, k);
        barrier();
        for (int at = 0; at < STRIP; at++) {
            float left[SQUARE], above[SQUARE];
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
                left[i] = x[at][down + i];
                above[i] = weights[at][right + i];
            }
#pragma unroll
            for (int i = 0; i < SQUARE; i++) {
#pragma unroll
                for (int j = 0; j < SQUARE; j++) sums[i][j] = fmaf(left[i], above[j], sums[i][j]);
            }
        }
        barrier();
    }
#pragma unroll
    for (int i = 0; i < SQUARE; i++) {
#pragma unroll
        for (int j = 0; j < SQUARE; j++) {
            const long long r = row + down + i, c = column + right + j;
            if (r < p.rows && c < p.columns)
                p.products[r * p.columns + c] = sums[i][j];
        }
    }
}

// What a call needs before its products, all in one launch, of however many blocks. Lengths travel in the launch itself:
// they are its own, also when a CUDA graph repeats it. More of them than a launch brings take more launches.
#define LENGTHS 896
struct Preparation {
    uint4 *zeroed;        // memory that becomes zero, of so many quads of 16 bytes
    long long quads;
    int first, count;     // the sequences whose lengths the launch brings: `count` from `first` on
    int *lengths;         // of all sequences
    int *starts;          // [steps]: the rows of packed sequences before each step. Of the sequences so far
    int steps;            // 0: no starts are wanted
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
