// A batch's path in one launch: blocks own units of all values, and keep the weights of their units in shared memory for
// all levels, after Khorasani et al., "In-Register Parameter Caching for Dynamic Neural Nets with Virtual Persistent
// Processor Specialization" (MICRO 2018).
//
// Values have whole multiples of UNITS elements, and element i belongs to unit i % UNITS. Block b owns the OWN units from
// b * OWN on: it alone computes their elements, of all rows, so that what no product takes never leaves it. A product
// needs all elements of its factor. Each block publishes its own in packets, with a place for each row of the batch: a
// packet is written once in a launch and holds the launch's epoch, so there are no fences, no barriers over the grid, and
// a block goes on as soon as the packets that it needs are there. The steps of a script are in an order in which rows
// follow all that they depend on; all blocks take the same steps, so none waits for ever.
//
// A group of blocks keeps all weights, and runs the steps of its own graphs: blockIdx.x is a block of a group, and
// blockIdx.y the group.
//
// A source defines THREADS, UNITS, OWN and BLOCKS before it includes this.
#pragma once

#include "common/exchange.cuh"
#include "dynamic/level.cuh"

// A step of the script: the rows of a kind in a level, or those of a group.
struct Step {
    Range range;
    int kind, unused;
};

// What all steps share.
struct Path {
    const int *steps; // of each group: how many there are, and from the third number on the steps
    unsigned *epochs; // of each block: that of its last launch
    size_t of_group;  // the numbers of a group's steps

    __device__ __forceinline__ const int *own() const { return steps + blockIdx.y * of_group; }
    __device__ __forceinline__ int count() const { return own()[0]; }
    __device__ __forceinline__ Step step(int number) const { return reinterpret_cast<const Step *>(own() + 2)[number]; }
    __device__ __forceinline__ unsigned *epoch() const { return &epochs[blockIdx.y * BLOCKS + blockIdx.x]; }
};

#define WARPS (THREADS / 32)

__device__ __forceinline__ int first_unit() { return int(blockIdx.x) * OWN; }

// The rows whose products lie in shared memory at once.
#define SPAN 64

// Calls `each` with the number in the range and the unit, for the block's own units of `count` rows or edges. All of the
// block call this, and find all results behind it.
template <typename Each> __device__ __forceinline__ void for_own(int count, Each each) {
    for (int pair = threadIdx.x; pair < count * OWN; pair += THREADS) {
        const int unit = first_unit() + pair % OWN;
        if (UNITS % OWN == 0 || unit < UNITS) each(unsigned(pair / OWN), unit);
    }
    barrier();
}

// Calls `each` with the number of each row. It computes all own units.
template <typename Each> __device__ __forceinline__ void for_rows(int count, Each each) {
    for (int row = threadIdx.x; row < count; row += THREADS) each(unsigned(row));
}

constexpr int quotient_up(int number, int by) { return (number + by - 1) / by; }

// The warps that share the depth of a product: no more than there are chunks of 128 elements, and a power of two.
constexpr int parts_of(int depth) {
    int parts = 1;
    while (2 * parts <= WARPS && 2 * parts <= quotient_up(depth, 128)) parts *= 2;
    return parts;
}

// A product of a matrix [HEIGHT][DEPTH] with rows of DEPTH elements, in tiles of rows.
//
// Shared memory: the weights of the block's columns, Element[COLUMNS][PADDED], of each product; and for all products
// together the tile, float[TILE_ROWS][PADDED], behind it the sums of the parts of the depth,
// float[PARTS][TILE_ROWS][COLUMNS], the products of a span, float[SPAN][COLUMNS], and where threads share a row's own
// units, their elements, Element[SPAN][OWN_ELEMENTS].
template <int HEIGHT, int DEPTH> class PathProduct {
  public:
    static constexpr int COLUMNS = HEIGHT / UNITS * OWN, PADDED = quotient_up(DEPTH, 4) * 4;
    // The block's own elements of a row, and the packets that they and those of all blocks take.
    static constexpr int OWN_ELEMENTS = DEPTH / UNITS * OWN;
    static constexpr int RUN = quotient_up(OWN_ELEMENTS, Packet<Element>::values), PACKETS = BLOCKS * RUN;
    static constexpr int PARTS = parts_of(DEPTH), GROUPS = WARPS / PARTS;
    // Of a warp, and those of them that it multiplies at once: more would need more registers than there are.
    static constexpr int WARP_COLUMNS = quotient_up(COLUMNS, GROUPS);
    static constexpr int AT_A_TIME = WARP_COLUMNS <= 5 ? WARP_COLUMNS : 4;
    // A thread collects the packets at the same positions of all rows, or of some: where a row has few packets, groups of
    // threads share out the rows. And the packets that a thread asks for at once.
    static constexpr int ROW_GROUPS = 2 * PACKETS <= THREADS ? THREADS / PACKETS : 1;
    static constexpr int POSITIONS = quotient_up(PACKETS, THREADS), POSITIONS_AT_ONCE = POSITIONS < 4 ? POSITIONS : 4;
    static constexpr int GROUP_ROWS = quotient_up(TILE_ROWS, ROW_GROUPS);
    static constexpr int ROWS_AT_ONCE = GROUP_ROWS * POSITIONS_AT_ONCE <= 16 ? GROUP_ROWS : 16 / POSITIONS_AT_ONCE;

    // Loads the weights of the block's columns.
    __device__ static __forceinline__ void load(Element *weights, const Element *matrix) {
        for (int number = threadIdx.x; number < COLUMNS * PADDED; number += THREADS) {
            const int column = number / PADDED, k = number % PADDED, unit = first_unit() + column % OWN;
            const bool is_there = k < DEPTH && unit < UNITS;
            weights[number] = is_there ? matrix[size_t(column / OWN * UNITS + unit) * DEPTH + k] : to_element(0.0f);
        }
    }

    // Publishes the block's own elements of `rows` rows of x.
    __device__ static __forceinline__ void publish_rows(const Element *x, Packet<Element> *packets, int rows,
                                                        unsigned epoch) {
        for (int number = threadIdx.x; number < rows * RUN; number += THREADS) {
            const int row = number / RUN;
            publish_run(packets + size_t(row) * PACKETS, number % RUN, epoch, [&](int element) {
                const int at = place(blockIdx.x, element);
                return at < 0 ? to_element(0.0f) : x[size_t(row) * DEPTH + at];
            });
        }
    }

    // Publishes the block's own elements of a row, by one thread.
    __device__ static __forceinline__ void publish_own(const Element (&own)[OWN_ELEMENTS], Packet<Element> *of_row,
                                                       unsigned epoch) {
#pragma unroll
        for (int run = 0; run < RUN; ++run) publish_run(of_row, run, epoch, [&](int element) { return own[element]; });
    }

    // Publishes the block's own elements of some rows, which are in shared memory.
    __device__ static __forceinline__ void publish_staged(const Element *staged, Packet<Element> *packets, int rows,
                                                          unsigned epoch) {
        for (int number = threadIdx.x; number < rows * RUN; number += THREADS) {
            const int row = number / RUN;
            publish_run(packets + size_t(row) * PACKETS, number % RUN, epoch,
                        [&](int element) { return staged[row * OWN_ELEMENTS + element]; });
        }
        barrier(); // nobody reads the elements any more
    }

    // The own elements of a span.
    __device__ static __forceinline__ Element *staged(float *tile) {
        return reinterpret_cast<Element *>(products(tile) + SPAN * COLUMNS);
    }

    // The products of a span.
    __device__ static __forceinline__ float *products(float *tile) {
        return tile + TILE_ROWS * PADDED + PARTS * TILE_ROWS * COLUMNS;
    }

    // Computes the block's columns of the products of a span, whose packets these are.
    __device__ static __forceinline__ void multiply_span(const Element *weights, float *tile,
                                                         const Packet<Element> *packets, int rows, unsigned epoch) {
        float *const parts = tile + TILE_ROWS * PADDED, *const to = products(tile);
        for (int first = 0; first < rows; first += TILE_ROWS) {
            const int count = min(TILE_ROWS, rows - first);
            collect_tile(tile, packets + size_t(first) * PACKETS, count, epoch);
            barrier(); // the tile is there
            add_parts(weights, tile, parts, count);
            barrier(); // all parts are there, and nobody reads the tile any more
            for (int number = threadIdx.x; number < count * COLUMNS; number += THREADS) {
                float sum = 0;
#pragma unroll
                for (int part = 0; part < PARTS; ++part) sum += parts[part * TILE_ROWS * COLUMNS + number];
                to[first * COLUMNS + number] = sum;
            }
        }
        barrier(); // the products are there
    }

    // Likewise of all rows. x, y and the packets begin at the first of them.
    __device__ static __forceinline__ void multiply(const Element *weights, float *tile, const Element *x, float *y,
                                                    Packet<Element> *packets, int rows, unsigned epoch) {
        publish_rows(x, packets, rows, epoch);
        for (int first = 0; first < rows; first += SPAN) {
            const int count = min(SPAN, rows - first);
            multiply_span(weights, tile, packets + size_t(first) * PACKETS, count, epoch);
            for (int number = threadIdx.x; number < count * COLUMNS; number += THREADS) {
                const int row = number / COLUMNS, column = number % COLUMNS, unit = first_unit() + column % OWN;
                if (unit < UNITS) {
                    y[size_t(first + row) * HEIGHT + column / OWN * UNITS + unit] = products(tile)[number];
                }
            }
            barrier(); // y is there, and nobody reads the products any more
        }
    }

  private:
    // Publishes a packet of a row. `own` returns one of the block's elements.
    template <typename Own>
    __device__ static __forceinline__ void publish_run(Packet<Element> *of_row, int run, unsigned epoch, Own own) {
        Packet<Element> packet;
#pragma unroll
        for (int i = 0; i < Packet<Element>::values; ++i) {
            const int element = run * Packet<Element>::values + i;
            packet.value[i] = element < OWN_ELEMENTS ? own(element < OWN_ELEMENTS ? element : 0) : to_element(0.0f);
        }
        packet.epoch = epoch;
        publish(&of_row[blockIdx.x * RUN + run], packet);
    }

    // The place of one of a block's own elements in a row; -1 if it is none.
    __device__ static __forceinline__ int place(int block, int element) {
        const int unit = block * OWN + element % OWN;
        return element < OWN_ELEMENTS && unit < UNITS ? element / OWN * UNITS + unit : -1;
    }

    // Waits for the packets of some rows, and puts their elements in the tile. Zeros follow each row.
    __device__ static __forceinline__ void collect_tile(float *tile, const Packet<Element> *packets, int count,
                                                        unsigned epoch) {
        const int group = ROW_GROUPS > 1 ? threadIdx.x / PACKETS : 0;
        const int of_thread = ROW_GROUPS > 1 ? threadIdx.x % PACKETS : threadIdx.x;
        if (group < ROW_GROUPS) {
            for (int position = of_thread; position < PACKETS; position += POSITIONS_AT_ONCE * THREADS) {
                collect_positions(tile, packets, position, group, count, epoch);
            }
        }
        if (PADDED > DEPTH) {
            for (int number = threadIdx.x; number < count * (PADDED - DEPTH); number += THREADS) {
                tile[number / (PADDED - DEPTH) * PADDED + DEPTH + number % (PADDED - DEPTH)] = 0;
            }
        }
    }

    // Likewise the packets at some positions of a group's rows. The places of their elements are the same in each row.
    __device__ static __forceinline__ void collect_positions(float *tile, const Packet<Element> *packets, int position,
                                                             int group, int count, unsigned epoch) {
        constexpr int values = Packet<Element>::values, stride = ROW_GROUPS * PACKETS;
        int places[POSITIONS_AT_ONCE][values];
#pragma unroll
        for (int j = 0; j < POSITIONS_AT_ONCE; ++j) {
            const int block = (position + j * THREADS) / RUN, run = (position + j * THREADS) % RUN;
#pragma unroll
            for (int k = 0; k < values; ++k) places[j][k] = place(block, run * values + k);
        }
        for (int first = group; first < count; first += ROWS_AT_ONCE * ROW_GROUPS) {
            PacketBits<Element> bits[POSITIONS_AT_ONCE][ROWS_AT_ONCE];
#pragma unroll
            for (int j = 0; j < POSITIONS_AT_ONCE; ++j) {
                if (position + j * THREADS < PACKETS) {
                    ask_for(bits[j], packets + position + j * THREADS, first * PACKETS, stride, count * PACKETS, epoch);
                }
            }
#pragma unroll
            for (int j = 0; j < POSITIONS_AT_ONCE; ++j) {
                if (position + j * THREADS >= PACKETS) break;
                collect(bits[j], packets + position + j * THREADS, first * PACKETS, stride, epoch);
#pragma unroll
                for (int i = 0; i < ROWS_AT_ONCE; ++i) {
                    const int row = first + i * ROW_GROUPS;
                    if (row >= count) break;
#pragma unroll
                    for (int k = 0; k < values; ++k) {
                        if (places[j][k] >= 0) tile[row * PADDED + places[j][k]] = to_float(bits[j][i].packet.value[k]);
                    }
                }
            }
        }
    }

    // A warp's part of the depth, of its columns.
    __device__ static __forceinline__ void add_parts(const Element *weights, const float *tile, float *parts, int count) {
        const int part = WARP % PARTS, first_column = WARP / PARTS * WARP_COLUMNS;
        const int end = min(first_column + WARP_COLUMNS, COLUMNS);
#pragma unroll 1
        for (int column = first_column; column < end; column += AT_A_TIME) {
            float sums[TILE_ROWS][AT_A_TIME] = {};
#pragma unroll 1
            for (int k = (part * 32 + LANE) * 4; k < PADDED; k += PARTS * 128) {
                float4 its[AT_A_TIME];
#pragma unroll
                for (int i = 0; i < AT_A_TIME; ++i) its[i] = quad_at(weights + min(column + i, COLUMNS - 1) * PADDED + k);
#pragma unroll
                for (int row = 0; row < TILE_ROWS; ++row) {
                    if (row < count) {
                        const float4 x = *reinterpret_cast<const float4 *>(tile + row * PADDED + k);
#pragma unroll
                        for (int i = 0; i < AT_A_TIME; ++i) sums[row][i] = add_products(x, its[i], sums[row][i]);
                    }
                }
            }
            float of_row[AT_A_TIME];
            share_out_rows(of_row, sums);
            if (IS_FIRST_OF_ROW) {
#pragma unroll
                for (int i = 0; i < AT_A_TIME; ++i) {
                    if (column + i < end) parts[(part * TILE_ROWS + LANE_ROW) * COLUMNS + column + i] = of_row[i];
                }
            }
        }
    }
};
