// Rows of tables, such as embeddings, that inputs name: the gradients of these.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "dynamic/level.cuh"
#include "dynamic/numbers.cuh"
#include "dynamic/together.cuh"

#define WARPS (THREADS / 32)

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

__device__ __forceinline__ void find_indices(const TableIndices &it, unsigned block, unsigned blocks) {
    const int *const rows_of_kind = it.script ? it.script->rows : it.rows_of_kind;
    for_all_of_task(count_of(it.script, it.count), block, blocks, [&](size_t row) {
        const int pulled = it.pulled[rows_of_kind[row]];
        it.indices[row] = pulled < 0 ? -1 : index_in(it.table, it.indices_of_input[pulled]);
    });
}

// Rows that go to those of a table which their indices name.
struct RowsOfTable {
    Numbers rows;
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
__device__ __forceinline__ void for_rows_of_table(const RowsOfTable &it, unsigned block, unsigned blocks, Begin begin_with,
                                                  End end) {
    STATIC_SHARED(unsigned, words, [32]);
    const int count = count_of(it.script, it.count);
    // Neighbouring blocks have the columns of a row.
    const unsigned across = (it.columns + THREADS - 1) / THREADS;
    const int column = block % across * THREADS + threadIdx.x;
    const bool has_column = column < it.columns;
    for (int first = block / across; first < count; first += blocks / across) {
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
                    sum += it.rows.get(size_t(row) * it.columns + column);
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

__device__ __forceinline__ void add_rows(const AddedRows &it, unsigned block, unsigned blocks) {
    for_rows_of_table(it.its, block, blocks, [&](size_t place) { return it.sums[place]; },
                      [&](size_t place, float sum) { it.sums[place] = sum; });
}
