// The work around a network's recurrences in training. Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16
// defined: the type of data and weights.
//
// | kernel | does |
// | --- | --- |
// | pack_rows, unpack_rows | copies rows between the program's layout and the packed one |
// | copy_rows | copies a matrix to rows that are further or less far apart |
// | previous_states | gathers the state before each row |
// | deal_columns | deals out R to blocks, by its columns |
// | strided_products | a product of any form, for machines without cublasLt |
// | narrow, add | round floats to elements; add elements to others |
// | fill_ones, keep | drop elements in bfloat16, by halves that cuDNN drops |
// | sum_columns, add_sums | adds the sums of columns to biases' gradients |
// | stamp, claim, spoil | write the reserve's header, look at it, and make results NaN where it is wrong |
#define THREADS 256
#include "common/for_all.cuh"
#include "common/ops.cuh"
#include "common/strided_products.cuh"

// Rows of vectors, of each step of each sequence. A sequence has a rank; in packed memory, ranks follow each other.
struct Rows {
    Element *memory; // of the program
    Element *packed;
    const int *lengths; // [batch], by rank; null: all have `steps`
    const int *starts;  // [steps]: step t of rank r is packed row starts[t] + r; null: it is row t * batch + r
    const int *order;   // [batch]: the sequence of each rank; null: it is the rank
    int width, steps, batch;
    int time_stride, batch_stride; // step t of sequence b is row t * time_stride + b * batch_stride of memory
    unsigned fill;                 // bits of the element that unpack_rows writes to the program's padding
};

// Calls each(element of memory, packed element, whether the row is there) for each element of `memory`.
template <typename Each> __device__ __forceinline__ void for_rows(const Rows &p, Each each) {
    for_all((long long)p.steps * p.batch * p.width, [&](long long number) {
        const long long row = number / p.width; // rows fit an int
        const int at = int(number - row * p.width);
        const int step = int(row) / p.batch, rank = int(row) % p.batch;
        const bool is_there = !p.lengths || step < p.lengths[rank];
        const long long sequence = p.order ? p.order[rank] : rank;
        const long long in_memory = step * (long long)p.time_stride + sequence * p.batch_stride;
        const long long packed = is_there ? (p.starts ? p.starts[step] : (long long)step * p.batch) + rank : 0;
        each(in_memory * p.width + at, packed * p.width + at, is_there);
    });
}

KERNEL(pack_rows, Rows) {
    for_rows(parameters, [&](long long in_memory, long long packed, bool is_there) {
        if (is_there) parameters.packed[packed] = parameters.memory[in_memory];
    });
}

KERNEL(unpack_rows, Rows) {
    for_rows(parameters, [&](long long in_memory, long long packed, bool is_there) {
        parameters.memory[in_memory] = is_there ? parameters.packed[packed] : element_of(parameters.fill);
    });
}

// The rows of a matrix, copied to others that are as wide or wider.
struct CopiedRows {
    const void *from;
    void *to;
    int rows, width;
    int from_stride, to_stride; // behind a row of `to` come zeros
    int bytes;                  // of a number: 2 or 4, and all sizes are counted in these
};

template <typename Number> __device__ __forceinline__ void copy_numbers(const CopiedRows &p) {
    constexpr int TOGETHER = 4;
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const Number *const from = static_cast<const Number *>(p.from) + (long long)row * p.from_stride;
        Number *const to = static_cast<Number *>(p.to) + (long long)row * p.to_stride;
        // Several reads are under way at once.
        for (int first = threadIdx.x; first < p.to_stride; first += TOGETHER * THREADS) {
            Number numbers[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) numbers[i] = first + i * THREADS < p.width ? from[first + i * THREADS] : Number(0);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++)
                if (first + i * THREADS < p.to_stride) to[first + i * THREADS] = numbers[i];
        }
    }
}

KERNEL(copy_rows, CopiedRows) {
    if (parameters.bytes == 2) copy_numbers<unsigned short>(parameters);
    else copy_numbers<unsigned>(parameters);
}

// The hidden states before the steps of packed rows.
struct PreviousStates {
    const Element *y;  // unit j of row r is y[r * y_stride + j]
    const Element *h0; // [batch][width], by rank; null: zeros
    Element *to;       // [rows][width]
    const int *lengths, *starts; // as of Rows
    int y_stride, width, steps, batch, reverse;
};

KERNEL(previous_states, PreviousStates) {
    const PreviousStates &p = parameters;
    for_all((long long)p.steps * p.batch * p.width, [&](long long number) {
        const long long row_of_all = number / p.width; // they fit an int
        const int unit = int(number - row_of_all * p.width);
        const int step = int(row_of_all) / p.batch, rank = int(row_of_all) % p.batch;
        const int length = p.lengths ? p.lengths[rank] : p.steps;
        if (step >= length) return;
        const auto row = [&](int time) { return (p.starts ? p.starts[time] : (long long)time * p.batch) + rank; };
        const bool is_first = step == (p.reverse ? length - 1 : 0);
        Element before = p.h0 ? p.h0[(long long)rank * p.width + unit] : to_element(0.0f);
        if (!is_first) before = p.y[row(p.reverse ? step + 1 : step - 1) * p.y_stride + unit];
        p.to[row(step) * p.width + unit] = before;
    });
}

// R by its columns, for blocks of units (back_recurrence.cuh).
struct Dealt {
    const Element *from; // [gates][hidden][hidden]
    Element *to;         // [blocks][hidden][gates * units]
    int gates, hidden, units;
};

// Each block of threads deals out a square of R: some units of a gate, and some columns.
KERNEL(deal_columns, Dealt) {
    constexpr int SIDE = 32;
    STATIC_SHARED(Element, square, [SIDE][SIDE + 1]);
    const Dealt &p = parameters;
    const int all_units = (p.hidden + p.units - 1) / p.units * p.units; // with those behind the last
    const int down = (all_units + SIDE - 1) / SIDE, across = (p.hidden + SIDE - 1) / SIDE;
    const int number = blockIdx.x, gate = number / (down * across);
    const int first_unit = number / across % down * SIDE, first_column = number % across * SIDE;
    for (int at = WARP; at < SIDE; at += THREADS / 32) {
        const int unit = first_unit + at, column = first_column + LANE;
        const bool is_there = unit < p.hidden && column < p.hidden;
        square[at][LANE] = is_there ? p.from[((size_t)gate * p.hidden + unit) * p.hidden + column] : to_element(0);
    }
    barrier();
    for (int at = WARP; at < SIDE; at += THREADS / 32) {
        const int unit = first_unit + LANE, column = first_column + at;
        if (unit >= all_units || column >= p.hidden) continue;
        const size_t row = (size_t)(unit / p.units) * p.hidden + column;
        p.to[(row * p.gates + gate) * p.units + unit % p.units] = square[LANE][at];
    }
}

// products[row][column] = Σ left(row, k) · right(k, column), added to the old product if `adds`.
struct AnyProducts {
    StridedProducts factors;
    void *products; // floats if `is_float`, else elements
    int is_float, adds;
};

KERNEL(strided_products, AnyProducts) {
    const AnyProducts &p = parameters;
    multiply_strided_tile(p.factors, p.factors.depth, [&](int row, int column, float sum) {
        const long long at = (long long)row * p.factors.columns + column;
        float *const floats = static_cast<float *>(p.products);
        Element *const elements = static_cast<Element *>(p.products);
        if (p.adds) sum += p.is_float ? floats[at] : to_float(elements[at]);
        if (p.is_float) floats[at] = sum;
        else elements[at] = to_element(sum);
    });
}

struct Narrowed {
    const float *from;
    Element *to;
    long long count;
};

KERNEL(narrow, Narrowed) {
    for_all(parameters.count, [&](long long at) { parameters.to[at] = to_element(parameters.from[at]); });
}

struct Added {
    Element *to;
    const Element *from;
    long long count;
};

KERNEL(add, Added) {
    for_all(parameters.count, [&](long long at) {
        parameters.to[at] = to_element(to_float(parameters.to[at]) + to_float(parameters.from[at]));
    });
}

struct Ones {
    unsigned short *to;
    long long count;
};

// Writes halves of 1.
KERNEL(fill_ones, Ones) {
    for_all(parameters.count, [&](long long at) { parameters.to[at] = 0x3C00; });
}

struct Kept {
    const Element *from;
    Element *to; // a half each, in the place of an element of 2 bytes
    long long count;
    float scale;
};

// Replaces halves by elements, scaled, or by 0 where the half is 0.
KERNEL(keep, Kept) {
    for_all(parameters.count, [&](long long at) {
        const bool is_kept = reinterpret_cast<const unsigned short *>(parameters.to)[at] != 0;
        parameters.to[at] = to_element(is_kept ? to_float(parameters.from[at]) * parameters.scale : 0);
    });
}

// The sums of columns, part of the rows by part: the order of additions is fixed. grid: parts × blocks of 32 columns.
#define PART_ROWS 64
struct ColumnSums {
    const Element *rows; // [count][columns]
    float *sums;         // [parts][columns]; a part has PART_ROWS rows
    int count, columns, parts;
    // Of gate g's unit u, at g * hidden + u: [input_gates * hidden] of W's bias; null: not wanted. R's has as many: its
    // last gate is the last of the columns, and the others are the first ones.
    Element *input_bias, *recurrent_bias;
    int hidden, input_gates;
};

KERNEL(sum_columns, ColumnSums) {
    STATIC_SHARED(float, parts, [THREADS / 32][32]);
    const ColumnSums &p = parameters;
    const int column = int(blockIdx.y) * 32 + LANE, first = int(blockIdx.x) * PART_ROWS;
    float sum = 0;
    for (int row = WARP; column < p.columns && row < PART_ROWS && first + row < p.count; row += THREADS / 32)
        sum += to_float(p.rows[(long long)(first + row) * p.columns + column]);
    parts[WARP][LANE] = sum;
    barrier();
    if (WARP > 0 || column >= p.columns) return;
    for (int other = 1; other < THREADS / 32; other++) sum += parts[other][LANE];
    p.sums[(long long)blockIdx.x * p.columns + column] = sum;
}

KERNEL(add_sums, ColumnSums) {
    const ColumnSums &p = parameters;
    for_all(p.columns, [&](long long column) {
        float sum = 0;
        for (int part = 0; part < p.parts; part++) sum += p.sums[(long long)part * p.columns + column];
        const int gate = int(column / p.hidden), unit = int(column % p.hidden), last = p.columns / p.hidden - 1;
        const bool is_of_input = gate < p.input_gates;
        const bool is_of_recurrent = gate == last || gate < p.input_gates - 1;
        const auto add = [&](Element *bias, int to_gate) {
            Element &to = bias[to_gate * p.hidden + unit];
            to = to_element(to_float(to) + sum);
        };
        if (p.input_bias && is_of_input) add(p.input_bias, gate);
        if (p.recurrent_bias && is_of_recurrent) add(p.recurrent_bias, min(gate, p.input_gates - 1));
    });
}

// The header of a reserve.
struct Header {
    unsigned magic, layout, hash, state;
};

struct Claim {
    Header *header;
    Header expected;     // stamp: the new one
    unsigned next_state; // of the header, if it is as expected; else its state becomes 0
    int is_found_wrong;  // what `is_wrong` means: 0: that the header differs; 1: that one is there, of any network and state
    int *is_wrong;
    int *alarm;          // memory of the host; becomes 1 where something is wrong
};

KERNEL(stamp, Claim) {
    if (threadIdx.x == 0) *parameters.header = parameters.expected;
}

KERNEL(claim, Claim) {
    if (threadIdx.x > 0) return;
    const Claim &p = parameters;
    const Header found = *p.header;
    const bool is_header = found.magic == p.expected.magic && found.layout == p.expected.layout;
    const bool is_ours = is_header && found.hash == p.expected.hash;
    const bool is_wrong = p.is_found_wrong ? is_header : !is_ours || found.state != p.expected.state;
    *p.is_wrong = is_wrong;
    if (is_wrong) *p.alarm = 1;
    if (is_ours) p.header->state = is_wrong ? 0 : p.next_state;
}

struct Spoiled {
    const int *is_wrong;
    Element *results[3];
    long long counts[3];
};

KERNEL(spoil, Spoiled) {
    if (!*parameters.is_wrong) return;
#pragma unroll
    for (int i = 0; i < 3; i++)
        for_all(parameters.counts[i], [&](long long at) { parameters.results[i][at] = to_element(__uint_as_float(0x7fc00000u)); });
}
