// A block's steps of canonical GRU with one exchange in each: GRNN's variant with a single synchronisation.
//
// A block computes r and z of its own units, and then its part of the sum in n for all units. It sends these parts and
// its z. Each block then has all parts and all z, and computes the new h of all units itself. It adds up parts in the
// blocks' order, so that all blocks get the same bits. The new h needs no exchange.
#pragma once

#include "recurrent/canonical_share.cuh"
#include "recurrent/columns.cuh"

// Packets of an exchange: the parts of each block, [BATCH_TILE][TRIPLES]; behind those of all blocks all z, likewise.
constexpr int TILE_TRIPLES = BATCH_TILE * TRIPLES;
constexpr int SENDERS = BLOCKS + 1;

// The most packets that a thread asks for at once.
constexpr int MOST_AT_ONCE = SENDERS < 9 ? SENDERS : 9;

constexpr int RESET_FLOATS = BATCH_TILE * PADDED_UNITS;
constexpr int UPDATE_FLOATS = divided_up(BATCH_TILE * BLOCK_TRIPLES * TRIPLE, 4) * 4;

// The units and rows whose new h a thread computes: a triple of a row, and every THREADS-th triple behind it.
class NewStates {
    static constexpr int COUNT = divided_up(TILE_TRIPLES, THREADS);
    struct Triple {
        int length;            // the row's steps; 0: there is no such row
        int place, next_place; // the row of x that this step reads, and the next
        float input[TRIPLE];   // n's W x, in this step
        float bias[TRIPLE];
    };
    Triple triples[COUNT];
    const Recurrence &p;
    int first_row = 0;

  public:
    __device__ __forceinline__ explicit NewStates(const Recurrence &parameters) : p(parameters) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int k = 0; k < TRIPLE; k++) {
                const int unit = unit_of(at(i) % TRIPLES, k);
                triples[i].bias[k] = unit >= 0 ? bias_of(p, GATES - 1, unit, HIDDEN) : 0;
            }
    }

    // Begins a tile at batch row `row`. `rows` belongs to the recurrence, here and below.
    __device__ __forceinline__ void begin(int row, const Rows &rows) {
        first_row = row;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const bool is_there = at(i) < TILE_TRIPLES && row_of(i) < p.batch;
            triples[i].length = !is_there ? 0 : p.lengths ? p.lengths[row_of(i)] : p.steps;
            triples[i].place = place(rows, i, 0);
            triples[i].next_place = place(rows, i, 1);
        }
    }

    // Asks for W x of the step. It arrives by the time that the others' parts do.
    __device__ __forceinline__ void fetch(int step, const Rows &rows) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            Triple &triple = triples[i];
            const bool is_wanted = step < triple.length && rows.input;
            const float *source = &rows.input[((long long)triple.place * GATES + GATES - 1) * HIDDEN];
#pragma unroll
            for (int k = 0; k < TRIPLE; k++) {
                const int unit = unit_of(at(i) % TRIPLES, k);
                triple.input[k] = is_wanted && unit >= 0 ? source[unit] : 0;
            }
            triple.place = triple.next_place;
            triple.next_place = place(rows, i, step + 2);
        }
    }

    // Waits for all parts and z, and replaces h, [BATCH_TILE][PADDED_HIDDEN], by the next step's. Rows that have ended
    // keep their h.
    __device__ __forceinline__ void update(int step, const TriplePacket *buffer, unsigned epoch, float *h) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (at(i) >= TILE_TRIPLES) break;
            float sums[TRIPLE] = {}, z[TRIPLE] = {};
#pragma unroll 1
            for (int first = 0; first < SENDERS; first += MOST_AT_ONCE) {
                PacketBits<TriplePacket> packets[MOST_AT_ONCE];
                ask_for(packets, buffer + at(i), first * TILE_TRIPLES, TILE_TRIPLES, SENDERS * TILE_TRIPLES, epoch);
                collect(packets, buffer + at(i), first * TILE_TRIPLES, TILE_TRIPLES, epoch);
#pragma unroll
                for (int sender = 0; sender < MOST_AT_ONCE; sender++)
#pragma unroll
                    for (int k = 0; k < TRIPLE; k++) {
                        if (first + sender < BLOCKS) sums[k] += value_of(packets[sender], k);
                        if (first + sender == BLOCKS) z[k] = value_of(packets[sender], k);
                    }
            }
#pragma unroll
            for (int k = 0; k < TRIPLE; k++) {
                const int unit = unit_of(at(i) % TRIPLES, k);
                if (unit < 0 || step >= triples[i].length) continue;
                float &state = h[at(i) / TRIPLES * PADDED_HIDDEN + unit];
                state = to_float(to_element(Cell::next(z[k], triples[i].input[k] + triples[i].bias[k] + sums[k], state)));
            }
        }
    }

  private:
    __device__ static __forceinline__ int at(int i) { return threadIdx.x + i * THREADS; }
    __device__ __forceinline__ int row_of(int i) const { return first_row + at(i) / TRIPLES; }
    __device__ __forceinline__ int place(const Rows &rows, int i, int step) const {
        return rows.place(row_of(i), triples[i].length, step);
    }
};

// Shared memory behind h, each part aligned to 16 bytes: float r h [BATCH_TILE][PADDED_UNITS]; float z
// [BATCH_TILE][BLOCK_TRIPLES][TRIPLE]; the memory of Weights and of ColumnWeights. Memory at `exchange`: for each
// group, an Exchange and 2 × SENDERS × TILE_TRIPLES packets, in whole multiples of 128 bytes.
class GridSteps {
    const int first_unit;
    float *const h, *const reset, *const update;
    const Weights weights;
    const ColumnWeights column_weights;
    Exchanges<TriplePacket, SENDERS * TILE_TRIPLES> exchanges;
    NewStates next;

  public:
    __device__ __forceinline__ GridSteps(const Recurrence &recurrence, int first_unit, float *h)
        : first_unit(first_unit), h(h), reset(h + TILE_FACTORS), update(reset + RESET_FLOATS),
          weights(recurrence.weights, first_unit, update + UPDATE_FLOATS),
          column_weights(recurrence.weights, first_unit,
                         reinterpret_cast<Quad *>(update + UPDATE_FLOATS) + Weights::shared_quads * THREADS),
          exchanges(recurrence.exchange, blockIdx.y), next(recurrence) {
        // Elements behind the block's units stay zero.
#pragma unroll 1
        for (int i = threadIdx.x; i < RESET_FLOATS + UPDATE_FLOATS; i += THREADS) reset[i] = 0;
    }

    // Begins the tile whose first row is `first_row`.
    __device__ __forceinline__ void begin(int first_row, const States &states) { next.begin(first_row, states.rows); }

    // Computes a step: replaces h by the new h.
    __device__ __forceinline__ void compute(int step, States &states) {
        next.fetch(step, states.rows);
        FirstSums sums;
        first_part(weights, h, states, sums, [&](int unit, int row, float value, float z) {
            reset[row * PADDED_UNITS + unit] = value;
            update[row * BLOCK_TRIPLES * TRIPLE + unit] = z;
        });
        TriplePacket *const buffer = exchanges.next();
        barrier(); // r h and z are complete, and nobody multiplies the old h any more
        publish_updates(&buffer[BLOCKS * TILE_TRIPLES + blockIdx.x * BLOCK_TRIPLES]);
        TriplePacket *const own = &buffer[blockIdx.x * TILE_TRIPLES];
        multiply_columns(column_weights, reset, [&](int triple, int row, const float(&part)[TRIPLE]) {
            publish(&own[row * TRIPLES + triple], packed(part));
        });
        const Moment sent;
        sent.wait(FIRST_LOOK);
        next.update(step, buffer, exchanges.epoch, h);
        barrier(); // the new h is complete, nobody reads r h and z any more, and own packets are sent
        states.take_over([&](int unit, int row) { return h[row * PADDED_HIDDEN + first_unit + unit]; });
        states.write_y(step);
        states.begin_step(step + 1);
    }

    // Ends the launch.
    __device__ __forceinline__ void end() {
        if (blockIdx.x == 0 && threadIdx.x == 0) exchanges.keep_epoch();
    }

  private:
    // Publishes the block's z. `first` is the place of the block's first z in the tile's first row.
    __device__ __forceinline__ void publish_updates(TriplePacket *first) {
#pragma unroll 1
        for (int i = threadIdx.x; i < BATCH_TILE * BLOCK_TRIPLES; i += THREADS)
            publish(&first[i / BLOCK_TRIPLES * TRIPLES + i % BLOCK_TRIPLES], packed(&update[i * TRIPLE]));
    }

    __device__ __forceinline__ TriplePacket packed(const float *values) const {
        TriplePacket made;
#pragma unroll
        for (int k = 0; k < TRIPLE; k++) made.value[k] = values[k];
        made.epoch = exchanges.epoch;
        return made;
    }
};
