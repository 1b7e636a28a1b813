// The tasks of a run that need nothing of each other go together in one launch, whatever they do.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "common/transpose.cuh"
#include "dynamic/level.cuh"
#include "dynamic/loss.cuh"
#include "dynamic/outer_products.cuh"
#include "dynamic/row_sums.cuh"
#include "dynamic/slices.cuh"
#include "dynamic/tables.cuh"
#include "dynamic/together.cuh"
#include "dynamic/updates.cuh"

// Zeros, in words of 4 bytes where they are aligned.
struct Zeros {
    unsigned char *to;
    size_t bytes;
};

__device__ __forceinline__ void fill_zeros(const Zeros &it, unsigned block, unsigned blocks) {
    const size_t words = size_t(it.to) % 4 ? 0 : it.bytes / 4;
    for_all_of_task(words, block, blocks, [&](size_t word) { reinterpret_cast<unsigned *>(it.to)[word] = 0; });
    for_all_of_task(it.bytes - 4 * words, block, blocks, [&](size_t byte) { it.to[4 * words + byte] = 0; });
}

// to[row] = Σ from[reader], over the batch's rows that read a row of an input. Rows behind the script's are zeros.
struct ReadersSums {
    const float *from;
    Element *to;
    const int *readers, *readers_end;
    const Range *script;
    int count, columns;
};

template <typename Numbers, typename Sums>
__device__ __forceinline__ void sum_readers_by(const ReadersSums &it, unsigned block, unsigned blocks) {
    constexpr int together = sizeof(Numbers) / sizeof(float);
    const int rows = count_of(it.script, it.count), across = it.columns / together;
    for_all_of_task(size_t(it.count) * across, block, blocks, [&](size_t number) {
        const int row = int(number / across), column = int(number % across) * together;
        float sums[together] = {};
        const int end = row < rows ? it.readers_end[row] : 0;
        for (int at = row ? it.readers_end[row - 1] : 0; at < end; ++at) {
            const Numbers its = *reinterpret_cast<const Numbers *>(it.from + size_t(it.readers[at]) * it.columns + column);
#pragma unroll
            for (int i = 0; i < together; ++i) sums[i] += reinterpret_cast<const float(&)[together]>(its)[i];
        }
        Sums to;
#pragma unroll
        for (int i = 0; i < together; ++i) reinterpret_cast<Element(&)[together]>(to)[i] = to_element(sums[i]);
        *reinterpret_cast<Sums *>(it.to + size_t(row) * it.columns + column) = to;
    });
}

__device__ __forceinline__ void sum_readers(const ReadersSums &it, unsigned block, unsigned blocks) {
    const bool by_quads = it.columns % 4 == 0 && size_t(it.from) % sizeof(float4) == 0 && size_t(it.to) % sizeof(Quad) == 0;
    if (by_quads)
        sum_readers_by<float4, Quad>(it, block, blocks);
    else
        sum_readers_by<float, Element>(it, block, blocks);
}

// Twin of the enum in `crates/dynamic/src/batched/tasks.rs`.
struct Task {
    enum Sort : unsigned {
        ZEROS,
        TRANSPOSED,
        TABLE_INDICES,
        SCORES,
        OUTER_PRODUCTS,
        ROW_SUMS,
        LOSSES,
        ADDED_ROWS,
        PARTS_SUM,
        READERS_SUMS,
        DESCENT,
        DESCENT_OF_ROWS,
        RULE_OF_STEP,
        UPDATE
    } sort;
    union {
        Zeros zeros;
        Transposed transposed;
        TableIndices table_indices;
        Scores scores;
        OuterProducts outer_products;
        RowSums row_sums;
        Losses losses;
        AddedRows added_rows;
        PartsSum parts_sum;
        ReadersSums readers_sums;
        Descent descent;
        DescentOfRows descent_of_rows;
        RuleOfStep rule_of_step;
        Update update;
    };
};

// Runs tasks. `sum(task, block)` computes a block's part of outer products, which take more registers than all others.
template <typename Sum> __device__ __forceinline__ void run_tasks(const Together<Task> &tasks, Sum sum) {
    tasks.run([&](const Task &task, unsigned block, unsigned blocks) {
        switch (task.sort) {
        case Task::ZEROS: return fill_zeros(task.zeros, block, blocks);
        case Task::TRANSPOSED: return transpose_square(task.transposed, block);
        case Task::TABLE_INDICES: return find_indices(task.table_indices, block, blocks);
        case Task::SCORES: return cross_entropy(task.scores, block, blocks);
        case Task::OUTER_PRODUCTS: return sum(task, block);
        case Task::ROW_SUMS: return sum_columns(task.row_sums, block);
        case Task::LOSSES: return sum_losses(task.losses);
        case Task::ADDED_ROWS: return add_rows(task.added_rows, block, blocks);
        case Task::PARTS_SUM: return add_up_parts(task.parts_sum, block, blocks);
        case Task::READERS_SUMS: return sum_readers(task.readers_sums, block, blocks);
        case Task::DESCENT: return descend(task.descent, block, blocks);
        case Task::DESCENT_OF_ROWS: return descend_rows(task.descent_of_rows, block, blocks);
        case Task::RULE_OF_STEP: return make_rule(task.rule_of_step);
        case Task::UPDATE: return update(task.update, block, blocks);
        }
    });
}
