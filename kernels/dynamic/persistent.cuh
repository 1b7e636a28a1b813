// A batch's path in one launch: blocks own units of all values, and keep the weights of their units in shared memory for
// all levels, after Khorasani et al., "In-Register Parameter Caching for Dynamic Neural Nets with Virtual Persistent
// Processor Specialization" (MICRO 2018).
//
// Values have whole multiples of UNITS elements, and element i belongs to unit i % UNITS. Block b owns the OWN units from
// b * OWN on: it alone computes their elements, for all rows. A value that no product takes never leaves the block. A
// product needs all elements of its factor. Each block publishes its own in packets, with a place for each row of the
// batch: a packet is written once in a launch and holds the launch's epoch, so there are no fences, no barriers over the
// grid, and a block goes on as soon as the packets that it needs are there. The steps of a script are in an order in
// which rows follow all that they depend on; all blocks take the same steps, so none waits for ever.
//
// A group of blocks keeps all weights, and runs the steps of its own graphs: blockIdx.x is a block of a group, and
// blockIdx.y the group.
//
// A source defines before it includes this: THREADS, UNITS, OWN, BLOCKS, the rows of a tile, PATH_ROWS, a multiple of 8, and
// IS_EXACT, 1 for floats that are not rounded to TF32, else 0.
#pragma once

#include "common/exchange.cuh"
#include "common/phased.cuh"
#include "common/tf32_products.cuh"
#include "dynamic/level.cuh"
#include "dynamic/replacement.cuh"

// A step of the script: the rows of a kind in a level, or those of a group, and their edges. They follow each other.
struct Step {
    int row_of_kind, row_count, row, edge_of_kind, edge_count, edge, kind;

    __device__ __forceinline__ Range range() const {
        return {nullptr, nullptr, row_of_kind, row_count, row, edge_of_kind, edge_count, edge};
    }
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

// Likewise, where `each` takes numbers that `read` reads for it: those of the thread's first unit are there already.
template <int reads, typename Read, typename Each>
__device__ __forceinline__ void for_own(int count, float (&ahead)[reads], Read read, Each each) {
    for (int pair = threadIdx.x; pair < count * OWN; pair += THREADS) {
        const int unit = first_unit() + pair % OWN;
        if (UNITS % OWN && unit >= UNITS) continue;
        if (SPAN * OWN > THREADS && pair >= THREADS) read(unsigned(pair / OWN), unit, ahead);
        each(unsigned(pair / OWN), unit, ahead);
    }
    barrier();
}

// Reads the numbers of the thread's first unit, and waits for none.
template <int reads, typename Read>
__device__ __forceinline__ void read_ahead(int count, float (&ahead)[reads], Read read) {
    const int pair = threadIdx.x, unit = first_unit() + pair % OWN;
    if (pair < count * OWN && (UNITS % OWN == 0 || unit < UNITS)) read(unsigned(pair / OWN), unit, ahead);
}

constexpr int quotient_up(int number, int by) { return (number + by - 1) / by; }

// The number of warps that share out the parts: a power of two, up to `most`, since their sums take shared memory.
constexpr int warps_of(int parts, int most) {
    int warps = 1;
    while (2 * warps <= WARPS && 2 * warps <= most && 2 * warps <= parts) warps *= 2;
    return warps;
}

constexpr int lesser(int x, int y) { return x < y ? x : y; }
constexpr int greater(int x, int y) { return x > y ? x : y; }

// The most rows of floats that are multiplied without tensor cores.
#define FEW_ROWS 2

// Adds up a warp's sums, whose number is a power of two: a lane gets that of number LANE / (32 / count).
template <int count> __device__ __forceinline__ float share_out(float (&sums)[count]) {
    // Lanes far apart share out the sums, half of those left at a time: a lane adds up those that it keeps alone.
#pragma unroll
    for (int half = count / 2; half > 0; half /= 2) {
        const int apart = 32 / count * half;
        const bool keeps_upper = LANE & apart;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const float lower = sums[i], upper = sums[i + half];
            sums[i] = (keeps_upper ? upper : lower) + warp_shuffle(keeps_upper ? lower : upper, LANE ^ apart);
        }
    }
    return warp_sum(sums[0], 32 / count);
}

// A factor of a product, as shared memory has it.
__device__ __forceinline__ Element to_factor(Element element) { return IS_EXACT ? element : to_tensor(element); }

// A product of a matrix [HEIGHT][DEPTH] with rows of DEPTH elements, in tiles of rows.
//
// Rows of the tile and of the weights have their elements in the order of the blocks that own them: all parts of the sums
// are there in another order than in memory. Zeros follow.
//
// Shared memory: the weights of the block's columns, Element[COLUMNS][PITCH], of each product; and for all products
// together the tile, Element[PATH_ROWS][PITCH], behind it the sums of the parts of the depth,
// float[PARTS][PATH_ROWS / 8][COLUMNS][8], and the products of a span, float[SPAN][COLUMNS]. The own elements of a span,
// Element[SPAN][OWN_ELEMENTS], are in the tile's place until they are published.
//
// No warp asks for packets before all of the block have published. It would read them again and again, and so keep the L2
// cache busy and the packets longer on their way: levels of 1 to 8 rows took 10 to 21% less time with this barrier.
template <int HEIGHT, int DEPTH> class PathProduct {
  public:
    static constexpr int COLUMNS = HEIGHT / UNITS * OWN;
    // The block's own elements of a row, and the packets that they and those of all blocks take.
    static constexpr int OWN_ELEMENTS = DEPTH / UNITS * OWN;
    static constexpr int RUN = quotient_up(OWN_ELEMENTS, Packet<Element>::values), PACKETS = BLOCKS * RUN;
    // What tensor cores multiply at once, the length of a row, and that from a row to the next: lanes read neighbouring
    // rows from different banks.
    static constexpr int CHUNK = 32 / sizeof(Element);
    static constexpr int PADDED = quotient_up(BLOCKS * OWN_ELEMENTS, CHUNK) * CHUNK;
    static constexpr int PITCH = PADDED + 16 / sizeof(Element);

    // By tensor cores, floats as exact products: 16 columns are a tile of the weights. Warps share out the chunks, and the
    // tiles if there are more warps; a warp multiplies some tiles at once.
    static constexpr int CHUNKS = PADDED / CHUNK;
    static constexpr int CHUNK_WARPS = warps_of(CHUNKS, IS_EXACT ? lesser(16, greater(640 / COLUMNS, 1)) : 8);
    static constexpr int TILES = quotient_up(COLUMNS, 16), TILE_WARPS = WARPS / CHUNK_WARPS;
    static constexpr int TILES_AT_ONCE = lesser(quotient_up(TILES, TILE_WARPS), IS_EXACT ? 3 : 4);
    // Lanes read what is behind the weights for columns that are not there, unless that may be no shared memory.
    static constexpr bool IS_CLAMPED = TILES * 16 - COLUMNS > PATH_ROWS;
    // By multiply-adds of few rows of floats: lanes share out the depth, and warps it and the columns. A warp multiplies
    // some columns at once, a power of two.
    static constexpr int FEW_PARTS = warps_of(quotient_up(PADDED, 128), 8), COLUMN_WARPS = WARPS / FEW_PARTS;
    static constexpr int WARP_COLUMNS = quotient_up(COLUMNS, COLUMN_WARPS);
    static constexpr int AT_A_TIME = WARP_COLUMNS > 2 ? 4 : WARP_COLUMNS, SHARED_OUT = FEW_ROWS * AT_A_TIME;
    // The most parts of a sum.
    static constexpr int PARTS = IS_EXACT ? greater(CHUNK_WARPS, FEW_PARTS) : CHUNK_WARPS;
    // The tile, or in its place the own elements of a span.
    static constexpr int TILE_ELEMENTS = greater(PATH_ROWS * PITCH, SPAN * OWN_ELEMENTS);

    // A thread collects the packets at the same positions of all rows, or of some: where a row has few packets, groups of
    // threads share out the rows. And the packets that a thread asks for at once.
    static constexpr int ROW_GROUPS = 2 * PACKETS <= THREADS ? THREADS / PACKETS : 1;
    static constexpr int POSITIONS = quotient_up(PACKETS, THREADS), POSITIONS_AT_ONCE = lesser(POSITIONS, 4);
    static constexpr int GROUP_ROWS = quotient_up(PATH_ROWS, ROW_GROUPS);
    static constexpr int ROWS_AT_ONCE = lesser(GROUP_ROWS, 16 / POSITIONS_AT_ONCE);
    // It asks for all of a tile at once, so it can ask for those of the next tile before it multiplies this one.
    static constexpr bool IS_AHEAD = POSITIONS_AT_ONCE == POSITIONS && ROWS_AT_ONCE == GROUP_ROWS;

    // Loads the weights of the block's columns.
    __device__ static __forceinline__ void load(Element *weights, const Element *matrix) {
        // What is behind the rows, or all where the last block has fewer units.
        constexpr int first = UNITS % OWN ? 0 : BLOCKS * OWN_ELEMENTS, across = greater(PADDED - first, 1);
        for (int number = threadIdx.x; number < COLUMNS * (PADDED - first); number += THREADS) {
            weights[number / across * PITCH + first + number % across] = to_element(0.0f);
        }
        if (UNITS % OWN) barrier(); // nobody writes zeros any more
        if (UNITS % 4 == 0 && reinterpret_cast<size_t>(matrix) % sizeof(Quad) == 0) {
            load_by<4>(weights, matrix);
        } else {
            load_by<1>(weights, matrix);
        }
    }

    // Publishes the block's own elements of `rows` rows of x.
    __device__ static __forceinline__ void publish_rows(const Element *x, Packet<Element> *packets, int rows,
                                                        unsigned epoch) {
        for (int number = threadIdx.x; number < rows * RUN; number += THREADS) {
            const int row = number / RUN;
            publish_run(packets + size_t(row) * PACKETS, number % RUN, epoch, [&](int element) {
                const int unit = first_unit() + element % OWN;
                return is_there(element) ? x[size_t(row) * DEPTH + element / OWN * UNITS + unit] : to_element(0.0f);
            });
        }
    }

    // Publishes the block's own elements of some rows, which are in shared memory.
    __device__ static __forceinline__ void publish_staged(const Element *staged, Packet<Element> *packets, int rows,
                                                          unsigned epoch) {
        for (int number = threadIdx.x; number < rows * RUN; number += THREADS) {
            const int row = number / RUN;
            publish_run(packets + size_t(row) * PACKETS, number % RUN, epoch,
                        [&](int element) {
                            return is_there(element) ? staged[row * OWN_ELEMENTS + element] : to_element(0.0f);
                        });
        }
        barrier(); // nobody reads the elements any more, and all have published
    }

    // The products of a span.
    __device__ static __forceinline__ float *products(Element *tile) {
        return parts(tile) + PARTS * PATH_ROWS * COLUMNS;
    }

    // Computes the block's columns of the products of a span, whose packets these are.
    __device__ static __forceinline__ void multiply_span(const Element *weights, Element *tile,
                                                         const Packet<Element> *packets, int rows, unsigned epoch) {
        Asked asked;
        if (IS_AHEAD) ask_for_rows(asked, packets, first_position(), row_group(), min(PATH_ROWS, rows), epoch);
        for (int first = 0; first < rows; first += PATH_ROWS) {
            const int count = min(PATH_ROWS, rows - first);
            const Packet<Element> *const its = packets + size_t(first) * PACKETS;
            collect_tile(asked, tile, its, count, epoch);
            barrier(); // the tile is there
            float *const to = products(tile) + first * COLUMNS;
            if (IS_EXACT && count <= FEW_ROWS) {
                add_few(weights, tile, count);
                add_up<FEW_PARTS>(to, parts(tile), weights, its, count);
                break; // no tile follows, for whose packets registers would have to be kept
            }
            if (IS_AHEAD) {
                const int next = min(PATH_ROWS, rows - first - PATH_ROWS);
                ask_for_rows(asked, its + PATH_ROWS * PACKETS, first_position(), row_group(), next, epoch);
            }
            if (PATH_ROWS > 8 && count > 8) {
                add_by_tensor_cores<PATH_ROWS / 8>(weights, tile);
            } else {
                add_by_tensor_cores<1>(weights, tile);
            }
            add_up<CHUNK_WARPS>(to, parts(tile), weights, its, count);
        }
        barrier(); // the products are there
    }

    // Likewise of all rows. x, y and the packets begin at the first of them.
    __device__ static __forceinline__ void multiply(const Element *weights, Element *tile, const Element *x, float *y,
                                                    Packet<Element> *packets, int rows, unsigned epoch) {
        publish_rows(x, packets, rows, epoch);
        barrier(); // all have published
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
    // The block has this one of its own elements: the last block may have fewer units.
    __device__ static __forceinline__ bool is_there(int element) {
        return UNITS % OWN == 0 || first_unit() + element % OWN < UNITS;
    }

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

    __device__ static __forceinline__ float *parts(Element *tile) {
        return reinterpret_cast<float *>(tile + TILE_ELEMENTS);
    }

    // Loads the weights in accesses of some elements. A thread asks for several before it waits for one.
    template <int access> __device__ static __forceinline__ void load_by(Element *weights, const Element *matrix) {
        struct alignas(access * sizeof(Element)) Vector {
            Element element[access];
        };
        constexpr int across = DEPTH / access, count = COLUMNS * across, at_once = 8;
#pragma unroll 1
        for (int first = threadIdx.x; first < count; first += at_once * THREADS) {
            Vector loaded[at_once];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int number = first + i * THREADS, column = number / across, unit = first_unit() + column % OWN;
                if (number < count && unit < UNITS) {
                    const Element *const row = matrix + size_t(column / OWN * UNITS + unit) * DEPTH;
                    loaded[i] = *reinterpret_cast<const Vector *>(row + number % across * access);
                }
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int number = first + i * THREADS, column = number / across;
                if (number >= count || first_unit() + column % OWN >= UNITS) continue;
#pragma unroll
                for (int k = 0; k < access; ++k) {
                    const int place = number % across * access + k, unit = place % UNITS;
                    weights[column * PITCH + unit / OWN * OWN_ELEMENTS + place / UNITS * OWN + unit % OWN] =
                        to_factor(loaded[i].element[k]);
                }
            }
        }
    }

    // The packets that a thread asks for at once, at some positions of some rows.
    typedef PacketBits<Packet<Element>> Asked[POSITIONS_AT_ONCE][ROWS_AT_ONCE];

    __device__ static __forceinline__ int first_position() {
        return ROW_GROUPS > 1 ? threadIdx.x % PACKETS : threadIdx.x;
    }
    __device__ static __forceinline__ int row_group() { return ROW_GROUPS > 1 ? threadIdx.x / PACKETS : 0; }

    // Waits for the packets of some rows, which were asked for if IS_AHEAD, and puts their elements in the tile. Zeros
    // follow each row.
    __device__ static __forceinline__ void collect_tile(Asked &asked, Element *tile, const Packet<Element> *packets,
                                                        int count, unsigned epoch) {
        if constexpr (IS_AHEAD) {
            collect_rows(asked, tile, packets, first_position(), row_group(), count, epoch);
        } else {
            for (int position = first_position(); position < PACKETS; position += POSITIONS_AT_ONCE * THREADS) {
                for (int first = 0; first < count; first += ROWS_AT_ONCE) {
                    ask_for_rows(asked, packets, position, first, count, epoch);
                    collect_rows(asked, tile, packets, position, first, count, epoch);
                }
            }
        }
        constexpr int length = BLOCKS * OWN_ELEMENTS, zeros = PADDED - length;
        if (zeros > 0) {
            for (int number = threadIdx.x; number < count * zeros; number += THREADS) {
                tile[number / zeros * PITCH + length + number % zeros] = to_element(0.0f);
            }
        }
    }

    // Asks for the packets at some positions of a group's rows, from these on.
    __device__ static __forceinline__ void ask_for_rows(Asked &asked, const Packet<Element> *packets, int position,
                                                        int first, int count, unsigned epoch) {
        if (row_group() >= ROW_GROUPS) return;
#pragma unroll
        for (int j = 0; j < POSITIONS_AT_ONCE; ++j) {
            if (position + j * THREADS >= PACKETS) break;
            ask_for(asked[j], packets + position + j * THREADS, first * PACKETS, ROW_GROUPS * PACKETS, count * PACKETS,
                    epoch);
        }
    }

    // Waits for them, and puts their elements in the tile.
    __device__ static __forceinline__ void collect_rows(Asked &asked, Element *tile, const Packet<Element> *packets,
                                                        int position, int first, int count, unsigned epoch) {
        if (row_group() >= ROW_GROUPS) return;
#pragma unroll
        for (int j = 0; j < POSITIONS_AT_ONCE; ++j) {
            if (position + j * THREADS >= PACKETS) break;
            collect(asked[j], packets + position + j * THREADS, first * PACKETS, ROW_GROUPS * PACKETS, epoch);
            const int block = (position + j * THREADS) / RUN, run = (position + j * THREADS) % RUN;
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; ++i) {
                const int row = first + i * ROW_GROUPS;
                if (row < count) unpack(tile + row * PITCH + block * OWN_ELEMENTS, run, asked[j][i]);
            }
        }
    }

    // Puts a packet's elements among those of its block, two of 2 bytes at once.
    __device__ static __forceinline__ void unpack(Element *of_block, int run,
                                                  const PacketBits<Packet<Element>> &packet) {
        constexpr int values = Packet<Element>::values, access = OWN_ELEMENTS % 2 ? 1 : quotient_up(4, sizeof(Element));
        struct alignas(access * sizeof(Element)) Vector {
            Element element[access];
        };
#pragma unroll
        for (int k = 0; k < values; k += access) {
            if (OWN_ELEMENTS % values && run * values + k >= OWN_ELEMENTS) break;
            Vector vector;
#pragma unroll
            for (int i = 0; i < access; ++i) vector.element[i] = to_factor(value_of(packet, k + i));
            *reinterpret_cast<Vector *>(of_block + run * values + k) = vector;
        }
    }

    // Where a part of a sum is: eight rows are neighbours, as tensor cores have them.
    __device__ static __forceinline__ int place_of(int part, int row, int column) {
        return (part * PATH_ROWS + row / 8 * 8) * COLUMNS + column * 8 + row % 8;
    }

    // Adds up the parts of the sums of some rows, whose packets these are.
    template <int count>
    __device__ static __forceinline__ void add_up(float *to, const float *parts, const Element *weights,
                                                  const Packet<Element> *packets, int rows) {
        barrier(); // all parts are there, and nobody reads the tile any more
        for (int number = threadIdx.x; number < quotient_up(rows, 8) * 8 * COLUMNS; number += THREADS) {
            const int row = number / (8 * COLUMNS) * 8 + number % 8, column = number / 8 % COLUMNS;
            if (row >= rows) continue;
            float sum = 0;
#pragma unroll
            for (int part = 0; part < count; ++part) sum += parts[part * PATH_ROWS * COLUMNS + number];
            if (IS_EXACT && sum != sum) sum = replaced(weights + column * PITCH, packets + row * PACKETS);
            to[row * COLUMNS + column] = sum;
        }
    }

    // What a product of a row that is no number should be. The tile may be another's already, but the packets are there.
    __device__ static __forceinline__ float replaced(const Element *weights, const Packet<Element> *packets) {
        return sum_in_order(0, PACKETS, [&](int position, float sum) {
            const PacketBits<Packet<Element>> packet = peek(packets + position);
#pragma unroll
            for (int i = 0; i < Packet<Element>::values; ++i) {
                const int element = position % RUN * Packet<Element>::values + i;
                const int place = position / RUN * OWN_ELEMENTS + element;
                if (element < OWN_ELEMENTS) sum = fmaf(to_float(value_of(packet, i)), to_float(weights[place]), sum);
            }
            return sum;
        });
    }

    // 4 bytes of a row of the tile or of the weights.
    __device__ static __forceinline__ unsigned word(const Element *rows, int row, int at) {
        return reinterpret_cast<const unsigned *>(rows + row * PITCH)[at];
    }

    // A warp's sums of its tiles and of some times eight rows.
    template <int rows> using Sums = float[TILES_AT_ONCE][rows][4];

    // A warp's chunks of these sums.
    template <int rows> __device__ static __forceinline__ void add_by_tensor_cores(const Element *weights, Element *tile) {
        const int part = WARP % CHUNK_WARPS;
#pragma unroll 1
        for (int first = WARP / CHUNK_WARPS; first < TILES; first += TILE_WARPS * TILES_AT_ONCE) {
            Sums<rows> sums = {};
            if constexpr (IS_EXACT) {
                // Tensor cores round towards zero, so they add up two chunks at most.
#pragma unroll 1
                for (int chunk = part; chunk < CHUNKS; chunk += 2 * CHUNK_WARPS) {
                    Sums<rows> of_two = {};
                    add_chunk<rows>(of_two, weights, tile, first, chunk);
                    if (chunk + CHUNK_WARPS < CHUNKS) {
                        add_chunk<rows>(of_two, weights, tile, first, chunk + CHUNK_WARPS);
                    }
#pragma unroll
                    for (int i = 0; i < TILES_AT_ONCE * rows * 4; ++i) (&sums[0][0][0])[i] += (&of_two[0][0][0])[i];
                }
            } else {
#pragma unroll 2
                for (int chunk = part; chunk < CHUNKS; chunk += CHUNK_WARPS) {
                    add_chunk<rows>(sums, weights, tile, first, chunk);
                }
            }
#pragma unroll
            for (int number = 0; number < TILES_AT_ONCE; ++number) {
#pragma unroll
                for (int i = 0; i < rows * 2; ++i) {
                    const int column = (first + number * TILE_WARPS) * 16 + LANE / 4 + i % 2 * 8;
                    if (column < COLUMNS) {
                        const float *const its = &sums[number][i / 2][i % 2 * 2];
                        *reinterpret_cast<float2 *>(parts(tile) + place_of(part, i / 2 * 8 + LANE % 4 * 2, column)) =
                            make_float2(its[0], its[1]);
                    }
                }
            }
        }
    }

    // A factor's word for tensor cores, floats in two parts.
    template <int count>
    __device__ static __forceinline__ void set_factor(unsigned (&parts)[2][count], int i, unsigned word) {
        if (IS_EXACT) {
            split_float(word, parts[HIGH][i], parts[LOW][i]);
        } else {
            parts[HIGH][i] = word;
        }
    }

    // Adds a chunk's products to the sums of a warp's tiles, from `first` on.
    template <int rows>
    __device__ static __forceinline__ void add_chunk(Sums<rows> &sums, const Element *weights, const Element *tile,
                                                     int first, int chunk) {
        const int at = chunk * 8 + LANE % 4;
        unsigned b[rows][2][2];
#pragma unroll
        for (int j = 0; j < rows; ++j) {
#pragma unroll
            for (int i = 0; i < 2; ++i) set_factor(b[j], i, word(tile, j * 8 + LANE / 4, at + i * 4));
        }
#pragma unroll
        for (int number = 0; number < TILES_AT_ONCE; ++number) {
            const int its = first + number * TILE_WARPS;
            if ((TILES > TILE_WARPS * TILES_AT_ONCE || TILES < TILE_WARPS * (number + 1)) && its >= TILES) break;
            const int column = its * 16 + LANE / 4;
            unsigned a[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int here = column + i % 2 * 8;
                set_factor(a, i, word(weights, IS_CLAMPED ? min(here, COLUMNS - 1) : here, at + i / 2 * 4));
            }
#pragma unroll
            for (int product = IS_EXACT ? 0 : 2; product < 3; ++product) {
                const auto &of = exact_parts[product];
#pragma unroll
                for (int j = 0; j < rows; ++j) warp_mma(sums[number][j], a[of[0]], b[j][of[1]]);
            }
        }
    }

    // A warp's part of the depth, of its columns, for few rows.
    __device__ static __forceinline__ void add_few(const Element *weights, Element *tile, int count) {
        const int part = WARP % FEW_PARTS, first_column = WARP / FEW_PARTS * WARP_COLUMNS;
        const int end = min(first_column + WARP_COLUMNS, COLUMNS);
#pragma unroll 1
        for (int column = first_column; column < end; column += AT_A_TIME) {
            float sums[SHARED_OUT] = {};
#pragma unroll 1
            for (int k = (part * 32 + LANE) * 4; k < PADDED; k += FEW_PARTS * 128) {
                float4 its[AT_A_TIME];
#pragma unroll
                for (int i = 0; i < AT_A_TIME; ++i) its[i] = quad_at(weights + min(column + i, COLUMNS - 1) * PITCH + k);
#pragma unroll
                for (int row = 0; row < FEW_ROWS; ++row) {
                    if (row >= count) break;
                    const float4 x = quad_at(tile + row * PITCH + k);
#pragma unroll
                    for (int i = row * AT_A_TIME; i < (row + 1) * AT_A_TIME; ++i) {
                        sums[i] = add_products(x, its[i % AT_A_TIME], sums[i]);
                    }
                }
            }
            const float sum = share_out(sums);
            const int number = LANE / (32 / SHARED_OUT), its_column = column + number % AT_A_TIME;
            if (LANE % (32 / SHARED_OUT) == 0 && its_column < end) {
                parts(tile)[place_of(part, number / AT_A_TIME, its_column)] = sum;
            }
        }
    }
};
