// recurrence_cluster: a cluster of ceil(H / UNITS) blocks computes a tile of the batch, and each warp sends its units' h to
// all blocks at the end of each step, to where they multiply it: between its arrival and the products there is no barrier.
//
// grid: ceil(H / UNITS) × groups of blocks × recurrences, in clusters of ceil(H / UNITS). The groups of a recurrence share
// out its tiles; a group computes its own one after the other. Dynamic shared memory: Mbarrier[2]; Factor
// h[2][BATCH_TILE][PADDED_HIDDEN]; and what Weights take. No memory at `exchange`.
//
// Tensor cores' sums meet in shared memory, with a barrier before they are read and none after: they are read before their
// threads send, and written in the next step, behind the wait for what those have sent.
#include "rnn/states.cuh"

#include "cluster_exchange.cuh"

// Units that are sent at once: as many as 16 bytes hold, if they divide all that they are parts of.
constexpr int width(int parts, int most) { return parts % most ? width(parts, most / 2) : most; }
constexpr int WIDTH = width(HIDDEN | UNITS | OWN_RUN, 16 / sizeof(Factor));
struct alignas(WIDTH * sizeof(Factor)) FactorVector {
    Factor factor[WIDTH];
};

// Sends what the warp's threads own, of so many rows of the tile, to all blocks. It stands in h already.
__device__ __forceinline__ void send_own(ClusterExchange &others, Factor *h, int first_unit, int rows) {
    typedef OwnVectors<WIDTH> Vectors;
#pragma unroll 4
    for (int i = LANE; i < BLOCKS * Vectors::count; i += 32) {
        const int block = i / Vectors::count, vector = i % Vectors::count;
        const int unit = Vectors::unit(vector), row = Vectors::row(vector);
        if (row >= rows || unit >= UNITS || first_unit + unit >= HIDDEN) continue;
        FactorVector *const place = reinterpret_cast<FactorVector *>(&h[row * PADDED_HIDDEN + first_unit + unit]);
        others.send(*place, place, block);
    }
}

KERNEL(recurrence_cluster, Recurrences) {
    const Recurrence &recurrence = parameters.of[blockIdx.z];
    SHARED(Mbarrier, arrived);
    Factor *const buffers = reinterpret_cast<Factor *>(arrived + 2);
    const int first_unit = in_register(int(blockIdx.x) * UNITS);
    // What is behind H is never sent, and remains as it is.
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_FACTORS; i += THREADS)
        if (i % PADDED_HIDDEN >= HIDDEN) buffers[i] = to_factor(to_element(0));
    const Weights weights(recurrence.weights, first_unit, buffers + 2 * TILE_FACTORS);
    const Biases biases(recurrence, first_unit);
    ClusterExchange others(arrived);

#pragma unroll 1
    for (int first_row = blockIdx.y * BATCH_TILE; first_row < recurrence.batch; first_row += gridDim.y * BATCH_TILE) {
        const int rows = in_register(min(BATCH_TILE, recurrence.batch - first_row));
        States states(recurrence, biases, Own(), first_unit, first_row);
        barrier(); // the last tile's h is not read any more
        read_h0(recurrence, first_row, buffers + others.last_buffer() * TILE_FACTORS);
        barrier();
        if (!multiplies(first_unit)) {
            others.leave_out(states.rows.steps - 1);
            continue;
        }
        states.begin_step(0);
        int last = others.last_buffer() * TILE_FACTORS; // where in `buffers` h is
#pragma unroll 1
        for (int step = 0; step < states.rows.steps; step++) {
            Sums sums;
            multiply(weights, buffers + last, sums);
            states.update(step, sums);
            if (step + 1 == states.rows.steps) {
                states.write_y(step);
                break;
            }
            last = TILE_FACTORS - last;
            Factor *const next = buffers + last;
            states.hand_over([&](int unit, int row, float h) {
                next[row * PADDED_HIDDEN + first_unit + unit] = to_factor_of_new(h);
            });
            warp_barrier(); // the warp's new h is there, and its lanes do not read the old h any more
            send_own(others, next, first_unit, rows);
            // All else that a step takes is done on the way.
            if (threadIdx.x == 0) others.expect(rows * HIDDEN * sizeof(Factor));
            states.write_y(step);
            states.begin_step(step + 1);
            others.wait();
        }
        states.write_last();
    }
}
