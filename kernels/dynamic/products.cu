// Products of matrices, and sums over rows, for nets of vertex functions.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16 defined: the type of tensors. Sums are float.
#define THREADS 256
#include "common/tile_products.cuh"
#include "common/transpose.cuh"
#ifdef ELEMENT_FLOAT
#include "dynamic/exact_tiles.cuh"
#endif
#include "dynamic/level.cuh"
#include "dynamic/outer_products.cuh"
#include "dynamic/slices.cuh"
#include "dynamic/together.cuh"

#define WARPS (THREADS / 32)

// The rows and the columns of which a warp computes products at once.
#define ROWS 8
#define COLUMNS 2

// A tile of products. The part of a row that a lane multiplies: quads where all rows are aligned, and else single elements.
template <bool by_quads> __device__ __forceinline__ void multiply_few_rows(const Products &it, int first_row) {
    const int first_column = (blockIdx.x * WARPS + WARP) * COLUMNS;
    float sums[ROWS][COLUMNS] = {};
    const int access = by_quads ? 4 : 1;
    for (int k = LANE * access; k < it.depth; k += 32 * access) {
        float4 weights[COLUMNS];
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            const Element *from = it.weights + size_t(min(first_column + column, it.columns - 1)) * it.depth + k;
            weights[column] = by_quads ? quad_at(from) : make_float4(to_float(*from), 0, 0, 0);
        }
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            if (first_row + row < it.rows) {
                const Element *from = it.x + size_t(first_row + row) * it.depth + k;
                const float4 x = by_quads ? quad_at(from) : make_float4(to_float(*from), 0, 0, 0);
#pragma unroll
                for (int column = 0; column < COLUMNS; ++column) {
                    float sum = fmaf(x.x, weights[column].x, sums[row][column]);
                    if (by_quads) {
                        sum = fmaf(x.y, weights[column].y, sum);
                        sum = fmaf(x.z, weights[column].z, sum);
                        sum = fmaf(x.w, weights[column].w, sum);
                    }
                    sums[row][column] = sum;
                }
            }
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        if (first_row + row < it.rows) {
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
                const float sum = warp_sum(sums[row][column]);
                if (LANE == 0 && first_column + column < it.columns) {
                    it.products[size_t(first_row + row) * it.columns + first_column + column] = sum;
                }
            }
        }
    }
}

__device__ __forceinline__ void multiply_tile_of(const Products &it, int first_row) {
    if (int((blockIdx.x * WARPS + WARP) * COLUMNS) >= it.columns) return;
    const size_t places = size_t(it.x) | size_t(it.weights);
    if (it.depth % 4 == 0 && places % (4 * sizeof(Element)) == 0) {
        multiply_few_rows<true>(it, first_row);
    } else {
        multiply_few_rows<false>(it, first_row);
    }
}

KERNEL(few_rows, Products) { multiply_tile_of(parameters, blockIdx.y * ROWS); }

// Likewise for the rows that a script counts, behind those that are skipped. x and the products have all rows of the kind, or
// those of the level.
struct LevelProduct {
    const Element *x, *weights;
    float *products;
    const Range *script;
    int columns, depth;
    int has_all_x, has_all_products, is_of_children, skipped;
};

// The rows, or edges, that a script counts.
__device__ __forceinline__ int count_of(const Range *script, int is_of_children) {
    return is_of_children ? script->edge_count : script->row_count;
}

__device__ __forceinline__ Products products_of(const LevelProduct &it) {
    const Range at = *it.script;
    const size_t first = it.is_of_children ? at.edge_of_kind : at.row_of_kind, skipped = it.skipped;
    return {it.x + ((it.has_all_x ? first : 0) + skipped) * it.depth, it.weights,
            it.products + ((it.has_all_products ? first : 0) + skipped) * it.columns,
            (it.is_of_children ? at.edge_count : at.row_count) - it.skipped, it.columns, it.depth};
}

KERNEL(level_few_rows, LevelProduct) {
    const Products all = products_of(parameters);
    for (int row = blockIdx.y * ROWS; row < all.rows; row += gridDim.y * ROWS) multiply_tile_of(all, row);
}

// By tiles, for many rows.
template <typename Multiply> __device__ __forceinline__ void for_tiles(const Products &all, Multiply multiply) {
    for (int row = blockIdx.y * TILE; row < all.rows; row += gridDim.y * TILE) {
        multiply(row);
        barrier(); // nobody reads the shared memory of the last tile any more
    }
}

// Elements of 2 bytes have no need of it.
#ifdef ELEMENT_FLOAT
template <int Access> __device__ __forceinline__ void multiply_exact_tiles(const LevelProduct &it, Element *stages) {
    const Products all = products_of(it);
    for_tiles(all, [&](int row) { multiply_exact_tile<Access>(all, row, blockIdx.x * TENSOR_COLUMNS, stages); });
}

// Rows are aligned for quads. Copies of single elements take so many registers that a multiprocessor has one block.
KERNEL(level_exact_tiles, LevelProduct) {
    SHARED(Element, stages);
    multiply_exact_tiles<4>(parameters, stages);
}

KERNEL(level_exact_tiles_of_any_rows, LevelProduct) {
    SHARED(Element, stages);
    multiply_exact_tiles<1>(parameters, stages);
}
#endif

KERNEL(level_tensor_tiles, LevelProduct) {
    SHARED(Element, stages);
    const Products all = products_of(parameters);
    for_tiles(all, [&](int row) { multiply_tensor_tile(all, row, blockIdx.x * TENSOR_COLUMNS, stages); });
}

template <bool is_exact> __device__ __forceinline__ void sum_all(const Together<OuterProducts> &all, Element *stages) {
    all.run([&](const OuterProducts &it, unsigned block, unsigned) {
        const int depth = it.script ? count_of(it.script, it.is_of_children) : it.count;
        sum_outer_products<is_exact>(it, depth, block, stages);
    });
}

KERNEL(outer_products, Together<OuterProducts>) {
    SHARED(Element, stages);
    sum_all<false>(parameters, stages);
}

// Elements of 2 bytes have no need of it.
#ifdef ELEMENT_FLOAT
KERNEL(exact_outer_products, Together<OuterProducts>) {
    SHARED(Element, stages);
    sum_all<true>(parameters, stages);
}
#endif

KERNEL(sum_parts, Together<PartsSum>) {
    parameters.run([](const PartsSum &it, unsigned block, unsigned blocks) { add_up_parts(it, block, blocks); });
}

KERNEL(transpose, Together<Transposed>) {
    parameters.run([](const Transposed &it, unsigned block, unsigned) { transpose_square(it, block); });
}

// sums[slice][column] = Σ rows[row][column], over the rows of the slice; added to the old sum if `adds`.
struct RowSums {
    const Element *rows;
    float *sums;
    // Where the number of rows is; null for `count`.
    const Range *script;
    int count, columns, slices;
    int adds, is_of_children;
};

// The rows that a thread adds up before it adds their sum, and the columns of a block.
#define GROUP 16
#define SUM_COLUMNS 32

// A block sums some columns of a slice: warps sum some rows each, then the first warp the sums of all. The order is always
// the same.
__device__ __forceinline__ void sum_columns(const RowSums &it, int block) {
    STATIC_SHARED(float, parts, [WARPS][SUM_COLUMNS]);
    const int count = it.script ? count_of(it.script, it.is_of_children) : it.count;
    const int across = (it.columns + SUM_COLUMNS - 1) / SUM_COLUMNS, slice = block / across;
    const int column = block % across * SUM_COLUMNS + LANE;
    const int of_slice = rows_of_slice(count, it.slices);
    const int begin = slice * of_slice, end = min(count, begin + of_slice);
    float sum = 0;
    if (column < it.columns) {
        // Sums of sums: a long sum of single numbers would round each to the size of the whole.
        for (int first = begin + WARP; first < end; first += WARPS * GROUP) {
            float its = 0;
#pragma unroll
            for (int i = 0; i < GROUP; ++i) {
                const int row = first + i * WARPS;
                if (row < end) its += to_float(it.rows[size_t(row) * it.columns + column]);
            }
            sum += its;
        }
    }
    parts[WARP][LANE] = sum;
    barrier();
    if (WARP == 0 && column < it.columns) {
        for (int other = 1; other < WARPS; ++other) sum += parts[other][LANE];
        float *const to = it.sums + size_t(slice) * it.columns + column;
        *to = it.adds ? *to + sum : sum;
    }
}

KERNEL(sum_rows, Together<RowSums>) {
    parameters.run([](const RowSums &it, unsigned block, unsigned) { sum_columns(it, block); });
}

// indices[row] = the row of a table that a row of a kind names, indices_of_input[pulled[row]]; -1 if it names none.
struct TableIndices {
    int *indices;
    const int *rows_of_kind;
    // Where the rows are; null for `count` rows of `rows_of_kind`.
    const Range *script;
    const int *pulled;
    const long long *indices_of_input;
    int count, table;
};

KERNEL(find_indices, TableIndices) {
    const TableIndices &it = parameters;
    const int *const rows_of_kind = it.script ? it.script->rows : it.rows_of_kind;
    for_all(it.script ? it.script->row_count : it.count, [&](unsigned row) {
        const int pulled = it.pulled[rows_of_kind[row]];
        it.indices[row] = pulled < 0 ? -1 : index_in(it.table, it.indices_of_input[pulled]);
    });
}

// Rows that go to those of a table which their indices name.
struct RowsOfTable {
    const Element *rows;
    const int *indices;
    const Range *script;
    int count, columns;
};

// The rows whose indices a thread compares at once.
#define COMPARED 4
static_assert(COMPARED * WARPS == 32, "a lane has a word of bits");

// The block of the first row with an index adds all rows with it, in their order: no two blocks write one number. A thread
// has a column. The sum for a place of the table begins with `begin(place)`, and `end(place, sum)` takes it.
template <typename Begin, typename End>
__device__ __forceinline__ void for_rows_of_table(const RowsOfTable &it, Begin begin_with, End end) {
    STATIC_SHARED(unsigned, words, [32]);
    const int count = it.script ? it.script->row_count : it.count;
    const int column = blockIdx.y * THREADS + threadIdx.x;
    const bool has_column = column < it.columns;
    for (int first = blockIdx.x; first < count; first += gridDim.x) {
        const int index = it.indices[first];
        if (index < 0) continue;
        const size_t place = size_t(index) * it.columns + column;
        bool is_first = true;
        float sum = 0;
        for (int from = 0; from < count && is_first; from += COMPARED * THREADS) {
            bool is_same[COMPARED];
#pragma unroll
            for (int i = 0; i < COMPARED; ++i) {
                const int row = from + i * THREADS + threadIdx.x;
                is_same[i] = row < count && it.indices[row] == index;
            }
            barrier(); // nobody reads the last words any more
#pragma unroll
            for (int i = 0; i < COMPARED; ++i) {
                const unsigned bits = warp_any(is_same[i]) ? warp_sum(unsigned(is_same[i]) << LANE) : 0;
                if (LANE == 0) words[i * WARPS + WARP] = bits;
            }
            barrier(); // the words are there
            const unsigned own = words[LANE];
            if (!warp_any(own != 0)) continue;
            for (int word = 0; word < 32 && is_first; ++word) {
                for (unsigned bits = warp_broadcast(own, word); bits && is_first; bits &= bits - 1) {
                    const int row = from + word * 32 + __popc((bits & -bits) - 1);
                    is_first = row >= first;
                    if (!is_first || !has_column) continue;
                    if (row == first) sum = begin_with(place);
                    sum += to_float(it.rows[size_t(row) * it.columns + column]);
                }
            }
        }
        if (is_first && has_column) end(place, sum);
    }
}

// Adds the rows to sums.
struct AddedRows {
    RowsOfTable its;
    float *sums;
};

KERNEL(add_rows, AddedRows) {
    float *const sums = parameters.sums;
    for_rows_of_table(parameters.its, [&](size_t place) { return sums[place]; },
                      [&](size_t place, float sum) { sums[place] = sum; });
}

// to[row] = Σ from[reader], over the batch's rows that read a row of an input. Rows behind the script's are zeros.
struct ReadersSums {
    const float *from;
    Element *to;
    const int *readers, *readers_end;
    const Range *script;
    int count, columns;
};

KERNEL(sum_readers, ReadersSums) {
    const ReadersSums &it = parameters;
    const int rows = it.script ? it.script->row_count : it.count;
    for_all(unsigned(it.count) * it.columns, [&](unsigned number) {
        const int row = number / it.columns, column = number % it.columns;
        float sum = 0;
        for (int at = row ? it.readers_end[row - 1] : 0; row < rows && at < it.readers_end[row]; ++at) {
            sum += it.from[size_t(it.readers[at]) * it.columns + column];
        }
        it.to[number] = to_element(sum);
    });
}

// to = from, added to the old number if `adds`.
struct Narrowed {
    const float *from;
    Element *to;
    size_t count;
    int adds;
};

KERNEL(narrow, Narrowed) {
    const Narrowed &it = parameters;
    const size_t step = size_t(gridDim.x) * THREADS;
    for (size_t number = size_t(blockIdx.x) * THREADS + threadIdx.x; number < it.count; number += step) {
        it.to[number] = to_element(it.adds ? to_float(it.to[number]) + it.from[number] : it.from[number]);
    }
}

// Zeros, in words of 4 bytes where they are aligned.
struct Zeros {
    unsigned char *to;
    size_t bytes;
};

KERNEL(fill_zeros, Together<Zeros>) {
    parameters.run([](const Zeros &it, unsigned block, unsigned blocks) {
        const size_t words = size_t(it.to) % 4 ? 0 : it.bytes / 4, step = size_t(blocks) * THREADS;
        const size_t first = size_t(block) * THREADS + threadIdx.x;
        for (size_t word = first; word < words; word += step) reinterpret_cast<unsigned *>(it.to)[word] = 0;
        for (size_t byte = words * 4 + first; byte < it.bytes; byte += step) it.to[byte] = 0;
    });
}

// The vertices of a batch: of a static one, those of all kinds in its script.
__device__ __forceinline__ int vertices_of(const Range *kinds, int kind_count, int rows) {
    if (!kinds) return rows;
    int vertices = 0;
    for (int kind = 0; kind < kind_count; ++kind) vertices += kinds[kind].row_count;
    return vertices;
}

// scores[row] becomes softmax(scores[row]) less 1 at the label, and losses[row] the cross-entropy; both are zeros for a
// vertex whose label is no class, and behind the last vertex.
struct Scores {
    Element *scores;
    const int *labels;
    float *losses;
    const Range *kinds;
    int kind_count, rows, columns;
};

KERNEL(cross_entropy, Scores) {
    const Scores &it = parameters;
    const int vertices = vertices_of(it.kinds, it.kind_count, it.rows);
    for_all_by_warps(it.rows, [&](unsigned row) {
        Element *const scores = it.scores + size_t(row) * it.columns;
        const int label = int(row) < vertices ? it.labels[row] : -1;
        if (label < 0 || label >= it.columns) {
            for (int i = LANE; i < it.columns; i += 32) scores[i] = to_element(0.0f);
            if (LANE == 0) it.losses[row] = 0;
            return;
        }
        float greatest = to_float(scores[0]);
        for (int i = LANE; i < it.columns; i += 32) greatest = fmaxf(greatest, to_float(scores[i]));
        greatest = warp_max(greatest);
        float sum = 0;
        for (int i = LANE; i < it.columns; i += 32) sum += expf(to_float(scores[i]) - greatest);
        sum = warp_sum(sum);
        const float of_label = to_float(scores[label]) - greatest;
        warp_barrier(); // all have read the label's score
        for (int i = LANE; i < it.columns; i += 32) {
            scores[i] = to_element(expf(to_float(scores[i]) - greatest) / sum - (i == label ? 1.0f : 0.0f));
        }
        if (LANE == 0) it.losses[row] = logf(sum) - of_label;
    });
}

// *loss = the mean of the losses of labelled vertices, 0 without any; *share = 1 over their number. One block.
struct Losses {
    const float *losses;
    const int *labels;
    const Range *kinds;
    float *loss, *share;
    int kind_count, rows, columns;
};

KERNEL(sum_losses, Losses) {
    STATIC_SHARED(float, sums, [THREADS]);
    STATIC_SHARED(int, counts, [THREADS]);
    const Losses &it = parameters;
    const int vertices = vertices_of(it.kinds, it.kind_count, it.rows);
    float sum = 0;
    int count = 0;
    for (int row = threadIdx.x; row < vertices; row += THREADS) {
        sum += it.losses[row];
        count += it.labels[row] >= 0 && it.labels[row] < it.columns;
    }
    sums[threadIdx.x] = sum;
    counts[threadIdx.x] = count;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        barrier();
        if (int(threadIdx.x) < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            counts[threadIdx.x] += counts[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        const float share = 1.0f / float(max(counts[0], 1));
        *it.share = share;
        if (it.loss) *it.loss = sums[0] * share;
    }
}

// A number p becomes p - rate (share gradient + decay p).
__device__ __forceinline__ void descend_by(Element &p, float gradient, float share, float rate, float decay) {
    const float before = to_float(p);
    p = to_element(before - rate * (share * gradient + decay * before));
}

struct Descent {
    Element *to;
    const float *gradient, *share;
    float rate, decay;
    size_t count;
};

KERNEL(descend, Together<Descent>) {
    parameters.run([](const Descent &it, unsigned block, unsigned blocks) {
        const float share = *it.share;
        const size_t step = size_t(blocks) * THREADS;
        for (size_t number = size_t(block) * THREADS + threadIdx.x; number < it.count; number += step) {
            descend_by(it.to[number], it.gradient[number], share, it.rate, it.decay);
        }
    });
}

// Likewise without decay, of a table whose gradient is the sum of rows: other rows of the table stay as they are.
struct DescentOfRows {
    RowsOfTable its;
    Element *to;
    const float *share;
    float rate;
};

KERNEL(descend_rows, DescentOfRows) {
    const DescentOfRows &it = parameters;
    const float share = *it.share;
    for_rows_of_table(it.its, [](size_t) { return 0.0f; },
                      [&](size_t place, float sum) { descend_by(it.to[place], sum, share, it.rate, 0.0f); });
}
