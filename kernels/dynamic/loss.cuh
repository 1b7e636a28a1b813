// A step's loss.
//
// A source defines THREADS, 256, before it includes this.
#pragma once

#include "dynamic/level.cuh"

#define WARPS (THREADS / 32)

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

__device__ __forceinline__ void cross_entropy(const Scores &it, unsigned block, unsigned blocks) {
    const int vertices = vertices_of(it.kinds, it.kind_count, it.rows);
    for (int row = int(block) * WARPS + WARP; row < it.rows; row += int(blocks) * WARPS) {
        Element *const scores = it.scores + size_t(row) * it.columns;
        const int label = row < vertices ? it.labels[row] : -1;
        if (label < 0 || label >= it.columns) {
            for (int i = LANE; i < it.columns; i += 32) scores[i] = to_element(0.0f);
            if (LANE == 0) it.losses[row] = 0;
            continue;
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
    }
}

// *loss = the mean of the losses of labelled vertices, 0 without any; *share = 1 over their number. One block.
struct Losses {
    const float *losses;
    const int *labels;
    const Range *kinds;
    float *loss, *share;
    int kind_count, rows, columns;
};

__device__ __forceinline__ void sum_losses(const Losses &it) {
    STATIC_SHARED(float, sums, [THREADS]);
    STATIC_SHARED(int, counts, [THREADS]);
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
