// The work before a recurrence: the products of W with all time steps' inputs, and the preparation of memory.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of data and weights. Sums are float.
#define THREADS 256
#include "common/tile_products.cuh"

// A block computes a tile. Dynamic shared memory: see multiply_square_tile().
KERNEL(input_products, Products) {
    begin_next_launch();
    SHARED(Element, stages);
    const int across = (parameters.columns + TILE - 1) / TILE;
    multiply_square_tile(parameters, (long long)(blockIdx.x / across) * TILE, (long long)(blockIdx.x % across) * TILE, stages);
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
