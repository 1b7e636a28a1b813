// A convolution of volumes whose result has the size of its input, or its input's gradient, by a filter of 3 x 3 x 3 and
// few channels d, of tensors as NCDHW stores them, on the tensor cores of warpgroups, with no workspace:
//
//   out[n][m][z][p] = alpha * sum over s, t, d of v[s][t][m][d] * in[n][d][z + s - 1][neighbour of p at t]
//                     + beta * out[n][m][z][p]
//
// over the slices s and the places t of the filter and the channels d; neighbours outside of the volume are zero. v is
// the convolution's filter w[m][d][s][t], or for an input's gradient w[d][m] with its places in the opposite order.
//
// A slice of `in` is read once, for the three slices of the result that it has a part in. Products have 64 pixels as
// rows, and TILE_ROWS channels m of each of these three slices as columns. Behind the products of a slice, the sums of
// the first of the three are whole, and are written. Those of the other two become the first and the second, and the
// third begins with zeros: the sums roll through the volume.
//
// A block has TILE_ROWS channels m. Their filters stay in its shared memory. It has strips of TILE neighbouring pixels,
// and goes through the slices of each. Pixels are counted with the zeros behind each row, so a pixel and its neighbour
// at t are equally far apart everywhere. Two warpgroups read a strip's pixels with all neighbours, LINE channels d at a
// time, and turn them into lines of a stage in shared memory: the channels of a pixel, as `common/warpgroup.cuh` says.
// The other two have half of the pixels each, and multiply. Stages go round between them.
//
// The strips' slices of all volumes follow each other, and blocks with the same m share them out in equal parts.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; GRADIENT for a gradient; VOLUMES; SLICES and FILTER of 3; and ACCESS.
// The channels d are a multiple of 8. Grid: for each part a block for each TILE_ROWS of m. Dynamic shared memory: the
// filters of `chunks` of d, V_BYTES each; `stages` of `lines` lines; two Mbarriers for each stage; `WarpSums` for each
// warp that multiplies; and a `Source` for each group of pixels of a strip. `lines` is a multiple of 8.

#define KINDS_OF_WARPS
#define BLOCK_THREADS 512
#define MULTIPROCESSOR_BLOCKS 1
#define SHARED_ALIGNMENT 1024
#define LINE_NUMBERS 32
#include "convolution/rolling.cuh"
#include "convolution/scale.cuh"

constexpr int TILE_ROWS = 32, COLUMNS = SLICES * TILE_ROWS;
// The products that a warpgroup has at once, each of 64 pixels.
constexpr int TILES = 2, PRODUCT_PIXELS = 64, WARPGROUP_PIXELS = TILES * PRODUCT_PIXELS;
static_assert(TILE == MULTIPLIERS / WARPGROUP * WARPGROUP_PIXELS, "the warpgroups share out a strip");
// The filters of one place, and of all places, for one chunk of d.
constexpr int PLACE_BYTES = COLUMNS * LINE_BYTES, V_BYTES = IN_SLICE * PLACE_BYTES;
// The registers of a thread that reads, and of one that multiplies. Four warpgroups have 128 for each of their threads.
constexpr int READER_REGISTERS = ACCESS == GROUP ? 96 : 88, MULTIPLIER_REGISTERS = 2 * 128 - READER_REGISTERS;

struct Rolling {
    const Element *w, *in;
    Element *out;
    Images images;
    // d and m.
    int channels, rows;
    // The pixels of a row with the zeros behind it; the lines of a stage; the stages; and the parts.
    int width, lines, stages, parts;
    float alpha, beta;

    __device__ __forceinline__ int chunks() const { return tiles_of(channels, LINE); }
};

// The sums of a warp's product on their way to the tensor: 16 pixels of half of the channels m. A row has the pixels of
// a channel, and is so long that threads write to different banks.
struct WarpSums {
    float rows[TILE_ROWS / 2][20];
};

// What shared memory has besides the filters.
struct Memory {
    unsigned char *lines;
    int stage_bytes;
    StageRing stages;
    WarpSums *sums;
    Source *sources;

    __device__ __forceinline__ Memory(const Rolling &of, unsigned char *memory)
        : lines(memory + of.chunks() * V_BYTES), stage_bytes(of.lines * LINE_BYTES),
          stages(lines + of.stages * stage_bytes, of.stages), sums(static_cast<WarpSums *>(stages.end())),
          sources(reinterpret_cast<Source *>(sums + MULTIPLYING_WARPS)) {}
    __device__ __forceinline__ unsigned char *stage() const { return lines + stages.stage * stage_bytes; }
};

// Puts the filters of channels m from `row` on where products find them. Memory for filters that are not there is zero.
__device__ __forceinline__ void order_filters(const Rolling &of, int row, unsigned char *filters) {
    // Neighbouring threads read neighbouring elements.
#pragma unroll 4
    for (int i = threadIdx.x; i < TILE_ROWS * of.channels * PLACES; i += BLOCK_THREADS) {
        const int channel = i / PLACES, its = i % PLACES;
#ifdef GRADIENT
        const int m = channel % TILE_ROWS, d = channel / TILE_ROWS, t = PLACES - 1 - its;
        const long long at = (long long)d * of.rows + row + m;
#else
        const int m = channel / of.channels, d = channel % of.channels, t = its;
        const long long at = (long long)(row + m) * of.channels + d;
#endif
        if (row + m >= of.rows) continue;
        // A slice of `in` has its last filters with the first of the three slices of the result.
        const int column = (SLICES - 1 - t / IN_SLICE) * TILE_ROWS + m;
        unsigned char *const to = filters + d / LINE * V_BYTES + t % IN_SLICE * PLACE_BYTES +
                                  piece_of(column, d % LINE / 8);
        reinterpret_cast<Element *>(to)[d % 8] = of.w[at * PLACES + its];
    }
}

// Fills stages with the lines of each slice that a run's results have neighbours in.
__device__ __forceinline__ void fill_stages(const Rolling &of, const Run &run, int groups, Memory &memory) {
    StageRing &stages = memory.stages;
    const int last = min(run.end, of.images.depth - 1);
    for (int slice = max(run.begin - SLICES / 2, 0); slice <= last; slice++)
        for (int chunk = 0; chunk < of.chunks(); chunk++) {
            const auto wait = [&] { stages.wait_until_empty(); };
            const auto write = [&](const Source &source, int quad, const Piece &piece) {
                write_piece(source, quad, piece, memory.stage());
            };
            read_slice(of.in, of.images, of.channels, chunk * LINE, run.volume, slice, memory.sources, groups, wait,
                       write);
            stages.pass_full();
        }
}

// The first of eight pixels of a product that a thread writes.
__device__ __forceinline__ int first_written(const Run &run, int tile) {
    const int thread = threadIdx.x, of_warp = thread % WARPGROUP / 32 * 16 + thread % 2 * GROUP;
    return run.first + thread / WARPGROUP * WARPGROUP_PIXELS + tile * PRODUCT_PIXELS + of_warp;
}

// Writes a warp's sums of the first of the three slices. A thread writes eight pixels of a channel, from number `first`
// of the strip's slice on. `out` is the place of the slice in channel `row` of the tensor, and `group` that of the pixels
// in the slice if they are an aligned group, or -1 for zeros.
__device__ __forceinline__ void write_sums(const Rolling &of, int row, Element *out, const Padded &padded, int first,
                                           int group, const SumsOf<COLUMNS> &sums, WarpSums &of_warp) {
    const int its_row = LANE % 4 * 2, its_pixel = LANE / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        constexpr int COUNT = TILE_ROWS / 4;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            of_warp.rows[its_row + i / 4 * 8 + i % 2][its_pixel + i / 2 % 2 * 8] = sums.of[half * COUNT + i];
        warp_barrier();
        const int m = half * (TILE_ROWS / 2) + int(LANE) / 2;
        const float *const its = of_warp.rows[LANE / 2] + LANE % 2 * GROUP;
        Element *const to = out + m * (long long)of.images.channel();
        if (row + m < of.rows) {
            if (of.beta != 0 || of.images.width % GROUP != 0) {
                for (int i = 0; i < GROUP; i++)
                    if (padded.is_pixel(first + i))
                        scale_into(to[padded.before(first + i)], its[i], of.alpha, of.beta);
            } else if (group >= 0) {
                Pixels pixels;
#pragma unroll
                for (int i = 0; i < GROUP; i++) pixels.each[i] = to_element(of.alpha * its[i]);
                *reinterpret_cast<uint4 *>(to + group) = pixels.all;
            }
        }
        warp_barrier();
    }
}

// The sums of the second and the third slice become those of the first and the second.
__device__ __forceinline__ void roll(SumsOf<COLUMNS> &sums) {
    // The sums of 8 columns are 4 numbers of a thread.
    constexpr int OF_SLICE = TILE_ROWS / 2;
#pragma unroll
    for (int i = 0; i < SLICES * OF_SLICE; i++)
        sums.of[i] = i < (SLICES - 1) * OF_SLICE ? sums.of[i + OF_SLICE] : 0;
}

// Multiplies the lines of stages, and writes a run's results.
__device__ __forceinline__ void multiply_stages(const Rolling &of, const Run &run, const Padded &padded, int row,
                                                const unsigned char *filters, Memory &memory) {
    const int line = padded.halo() + int(threadIdx.x) / WARPGROUP * WARPGROUP_PIXELS;
    int groups[TILES];
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        const int at = first_written(run, tile);
        groups[tile] = padded.is_pixel(at) ? padded.before(at) : -1;
    }
    Element *out = of.out + of.images.place(run.volume * of.images.depth + run.begin, of.rows, row);
    SumsOf<COLUMNS> sums[TILES];
    for (int slice = run.begin - SLICES / 2; slice <= run.end; slice++) {
        for (int chunk = 0; chunk < of.chunks() && of.images.has_slice(slice); chunk++) {
            memory.stages.wait_until_full();
            const Factor x = factor_at<ALONG>(memory.stage() + line * LINE_BYTES, 0);
            const Factor v = factor_at<ALONG>(filters + chunk * V_BYTES, 0);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) sums[tile].begin();
#pragma unroll
            for (int place = 0; place < IN_SLICE; place++)
#pragma unroll
                for (int d = 0; d < LINE; d += DEPTH_OF_PRODUCT)
#pragma unroll
                    for (int tile = 0; tile < TILES; tile++) {
                        const int apart = tile * PRODUCT_PIXELS + Place(place).apart(padded.width);
                        const int along = d * int(sizeof(Element));
                        sums[tile].template add<ALONG, ALONG>(later(x, apart * LINE_BYTES + along),
                                                              later(v, place * PLACE_BYTES + along));
                    }
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) sums[tile].end_group();
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) sums[tile].template wait_for_groups<0>();
            memory.stages.pass_empty();
        }
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            if (slice > run.begin)
                write_sums(of, row, out, padded, first_written(run, tile), groups[tile], sums[tile], memory.sums[WARP]);
            roll(sums[tile]);
        }
        if (slice > run.begin) out += of.images.pixels();
    }
}

// Calls work(run, groups) for each run of a block, with cleared stages and the run's sources. All threads come here.
template <typename Work>
__device__ __forceinline__ void for_runs(const Rolling &of, const Padded &padded, const Memory &memory, Work work) {
    const int part = int(blockIdx.x) / tiles_of(of.rows, TILE_ROWS);
    for_runs_of(of.images, padded, part, of.parts, [&](const Run &run) {
        clear(memory.lines, of.stages * memory.stage_bytes);
        const int groups =
            make_sources(padded, of.channels, run.first - padded.halo(), of.lines, memory.sources);
        show_copies();
        barrier();
        work(run, groups);
        // The stages are free.
        barrier();
    });
}

KERNEL(rolling, Rolling) {
    SHARED(unsigned char, filters);
    const Rolling &of = parameters;
    const Padded padded = slice_of(of.images, of.width);
    const int row = int(blockIdx.x) % tiles_of(of.rows, TILE_ROWS) * TILE_ROWS;
    Memory memory(of, filters);
    if (threadIdx.x == 0) memory.stages.initialize(READERS, MULTIPLYING_WARPS);
    clear(filters, of.chunks() * V_BYTES);
    barrier();
    order_filters(of, row, filters);
    if (int(threadIdx.x) < MULTIPLIERS) {
        more_registers<MULTIPLIER_REGISTERS>();
        for_runs(of, padded, memory,
                 [&](const Run &run, int) { multiply_stages(of, run, padded, row, filters, memory); });
    } else {
        fewer_registers<READER_REGISTERS>();
        for_runs(of, padded, memory, [&](const Run &run, int groups) { fill_stages(of, run, groups, memory); });
    }
}
