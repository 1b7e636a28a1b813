// What comes before a recurrence: the products of all time steps' inputs with W, the biases that are added to them, and
// where rows of packed sequences begin.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of data and weights. Sums are float.
#include "device.cuh"

#if defined ELEMENT_FLOAT
#include "ops_float.cuh"
#elif defined ELEMENT_HALF
#include "ops_half.cuh"
#elif defined ELEMENT_BFLOAT16
#include "ops_bfloat16.cuh"
#endif

#define THREADS 256

// products[row][column] = Σ x[row][k] · weights[column][k] + biases[column], all of them row-major and packed.
struct Products {
    const Element *x;
    const Element *weights;
    const float *biases; // null: none
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
                p.products[r * p.columns + c] = sums[i][j] + (p.biases ? p.biases[c] : 0.0f);
        }
    }
}

// sums[layer][column] = the biases beside W and R together, of all layers. From column `inside` on the latter stays out:
// GRU adds it inside of the reset gate.
struct Biases {
    const Element *input;     // beside W, of the first layer; null: none
    const Element *recurrent; // beside R; null: none
    long long stride;         // from one layer's to the next's, in elements
    float *sums;
    int layers, columns, inside;
};

KERNEL(sum_biases, Biases) {
    const Biases p = parameters;
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.layers * p.columns) return;
    const int layer = i / p.columns, column = i % p.columns;
    const long long at = layer * p.stride + column;
    float sum = p.input ? to_float(p.input[at]) : 0.0f;
    if (p.recurrent && column < p.inside) sum += to_float(p.recurrent[at]);
    p.sums[i] = sum;
}

// Writes the numbers that the launch brings: so they are the launch's own, also when a CUDA graph repeats it.
struct Numbers {
    int *to;
    int count;
    int values[960];
};

KERNEL(write_numbers, Numbers) {
    for (int i = threadIdx.x; i < parameters.count; i += THREADS) parameters.to[i] = parameters.values[i];
}

// starts[step] = the rows of packed sequences before that step.
struct Starts {
    const int *lengths;
    int *starts;
    int batch, steps;
};

KERNEL(find_starts, Starts) {
    const Starts p = parameters;
    const int step = blockIdx.x * THREADS + threadIdx.x;
    if (step >= p.steps) return;
    int rows = 0;
    for (int b = 0; b < p.batch; b++) rows += p.lengths[b] < step ? p.lengths[b] : step;
    p.starts[step] = rows;
}
