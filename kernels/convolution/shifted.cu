// A convolution whose result has the size of its input, or its input's gradient, by a filter of several places, of
// tensors as NCHW stores them, on the tensor cores of warpgroups:
//
//   out[n][m][p] = alpha * sum over t, d of v[t][m][d] * in[n][d][neighbour of p at t] + beta * out[n][m][p]
//
// over the places t of a filter of FILTER x FILTER and the channels d; neighbours outside of the image are zero.
// `order_filters` makes v from a convolution's filter w[m][d][t], or for an input's gradient from w[d][m][PLACES - 1 -
// t].
//
// In volumes, the filter has SLICES of these places. An image of the result is RESULT_SLICES neighbouring slices of a
// volume. The images read have, in place of channels d, those of each slice that these slices have neighbours in:
// SOURCE_SLICES slices, one after the other. If RESULT_SLICES is 2, the rows are up to 32 channels m of the one slice,
// and those of the next, so that products of 64 rows are not half empty. Each of the two has zeros in v for one of the
// slices read.
//
// Pixels are counted with the zeros behind each row and each image, so a pixel and its neighbour at t are equally far
// apart everywhere. A block has ROW_TILE channels m and COLUMN_TILE pixels. For 64 channels d at a time, it reads these
// pixels and all of their neighbours once, and turns them into lines in shared memory: 64 channels of a pixel, as
// `common/warpgroup.cuh` says. The products of each place have another first line.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; GRADIENT for a gradient; ROW_WARPGROUPS, 2, or 1 where two
// warpgroups share out the pixels; PRODUCT_COLUMNS, 128, or 256 with a block for each multiprocessor; STAGES of
// filters, at least 3; and ACCESS. For volumes, with VOLUMES, SLICES, RESULT_SLICES, and LAST_DEPTH, which is the
// channels d of all slices beyond a multiple of 64. The channels d of a slice are a multiple of 8. Grid: a block for
// each tile, which has pixels of at most MOST_IMAGES images. Dynamic shared memory: `buffers` of `lines` lines, STAGES
// of W_BYTES and `groups` of `Source`; or results and their places, if they are larger. `lines` is a multiple of 8.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#ifdef VOLUMES
// Two blocks would lack registers.
#define MULTIPROCESSOR_BLOCKS 1
#else
#define MULTIPROCESSOR_BLOCKS (256 / PRODUCT_COLUMNS)
#endif
#include "convolution/aligned_results.cuh"
#include "convolution/lines.cuh"
#include "convolution/stages.cuh"

// The depth of a stage.
constexpr int DEPTH = LINE;
#ifndef LAST_DEPTH
#define LAST_DEPTH 0
#endif
// The filters of a line in pieces.
constexpr int OCTETS = DEPTH / 8;
// A stage: the filters of one place.
constexpr int W_BYTES = ROW_TILE * LINE_BYTES;

struct Shifted {
    // The filters of each stage as `order_filters` makes them, by tiles of rows, depths and places.
    const unsigned char *v;
    const Element *in;
    Element *out;
    Images images;
    // d of a slice, and m.
    int channels, rows;
    // The lines of a buffer, and the buffers: 1 if there is one depth, else 2.
    int lines, buffers;
    float alpha, beta;
};

// `channel` counts those of all slices. Slices outside of the volume are zero.
__device__ __forceinline__ void read_piece(const Shifted &of, const Source &source, int channel, Piece &piece) {
    int at = source.place;
#ifdef VOLUMES
    const int slice = channel / of.channels - SLICES / 2;
    if (!of.images.has_slice(source.slice + slice)) return piece.clear();
    at += channel % of.channels * of.images.channel() + slice * of.images.pixels();
#else
    at += channel * of.images.channel();
#endif
    read_channels(of.in, of.images, of.channels, at, source.count, piece);
}

// Begins to copy this thread's part of a stage of filters, from its first piece on.
__device__ __forceinline__ void copy_filters(const unsigned char *from, unsigned char *to) {
#pragma unroll
    for (int i = 0; i < W_BYTES; i += THREADS * PIECE_BYTES) copy_async<PIECE_BYTES>(to + i, from + i, true);
}

KERNEL(shifted, Shifted) {
    SHARED(unsigned char, lines);
    const Shifted &of = parameters;
    const Padded padded(of.images);
    // Blocks with the same pixels are neighbours, so they run together.
    const int row_tiles = tiles_of(of.rows, SLICE_ROWS), row_tile = int(blockIdx.x) % row_tiles;
    const int first = int(blockIdx.x) / row_tiles * COLUMN_TILE, first_line = first - padded.halo();
    const int depths = tiles_of(of.channels * SOURCE_SLICES, DEPTH), buffer_bytes = of.lines * LINE_BYTES;
    unsigned char *const filters = lines + of.buffers * buffer_bytes;
    Source *const sources = reinterpret_cast<Source *>(filters + STAGES * W_BYTES);

    const int first_group = padded.group(first_line);
    const int groups = padded.group(first_line + of.lines - 1) - first_group + 1;
    for (int i = threadIdx.x; i < groups; i += THREADS)
        sources[i] = Source(padded, Group(of.images, first_group + i), of.channels, first_line, of.lines);
    for (int i = threadIdx.x * PIECE_BYTES; i < of.buffers * buffer_bytes; i += THREADS * PIECE_BYTES)
        *reinterpret_cast<uint4 *>(lines + i) = {0, 0, 0, 0};
    barrier();

    // A thread reads the same channels of every group that it has.
    const Quad its(threadIdx.x);
    constexpr int SOURCES = THREADS / QUADS;
    const int rounds = tiles_of(groups, SOURCES);
    const auto read = [&](int round, int depth, Piece &piece) {
        const int source = round * SOURCES + its.group, channel = depth * DEPTH + its.quad * CHANNELS;
        if (source < groups && channel < of.channels * SOURCE_SLICES) {
            read_piece(of, sources[source], channel, piece);
        } else {
            piece.clear();
        }
    };
    const auto write = [&](int round, int depth, const Piece &piece) {
        const int source = round * SOURCES + its.group;
        if (source < groups) write_piece(sources[source], its.quad, piece, lines + depth % 2 * buffer_bytes);
    };

    // The next stage that is copied, of those from the first depth and place on.
    const int stages = depths * IN_SLICE;
    int next = 0, next_slot = 0;
    const unsigned char *from = of.v + (long long)row_tile * stages * W_BYTES + threadIdx.x * PIECE_BYTES;
    const auto copy_next = [&] {
        if (next < stages) copy_filters(from, filters + next_slot * W_BYTES + threadIdx.x * PIECE_BYTES);
        end_group();
        from += W_BYTES;
        next++;
        next_slot = next_slot == STAGES - 1 ? 0 : next_slot + 1;
    };

    // The first depth's lines. There are registers for several rounds.
    constexpr int TOGETHER = 3;
    for (int round = 0; round < rounds; round += TOGETHER) {
        Piece pieces[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) read(round + i, 0, pieces[i]);
        if (round == 0) {
            wait_for_last_launch();
            for (int ahead = 0; ahead < STAGES - 2; ahead++) copy_next();
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) write(round + i, 0, pieces[i]);
    }

    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    const int row = warpgroup % ROW_WARPGROUPS * 64, column = warpgroup / ROW_WARPGROUPS * PRODUCT_COLUMNS;
    const Factor w = factor_at<ALONG>(filters + row * LINE_BYTES, 0);
    const Factor x = factor_at<ALONG>(lines + (padded.halo() + column) * LINE_BYTES, 0);
    SumsOf<PRODUCT_COLUMNS> sums;
    const auto add = [&](const Factor &its_w, const Factor &its_x, int end) {
#pragma unroll
        for (int d = 0; d < end; d += DEPTH_OF_PRODUCT)
            sums.template add<ALONG, ALONG>(later(its_w, d * sizeof(Element)), later(its_x, d * sizeof(Element)));
    };
    Piece piece;
    int slot = 0;
    for (int depth = 0; depth < depths; depth++) {
        for (int place = 0; place < IN_SLICE; place++) {
            wait_for_groups<STAGES - 3>();
            show_copies();
            // After the barrier, all threads have added all products but those of the last place, and their memory is
            // free.
            barrier();
            const Factor its_w = later(w, slot * W_BYTES);
            const Factor its_x = later(x, depth % 2 * buffer_bytes + Place(place).apart(padded.width) * LINE_BYTES);
            sums.begin();
            // Zeros follow the last channel.
            if (LAST_DEPTH > 0 && depth == depths - 1)
                add(its_w, its_x, LAST_DEPTH);
            else
                add(its_w, its_x, DEPTH);
            sums.end_group();
            slot = slot == STAGES - 1 ? 0 : slot + 1;
            copy_next();
            // Meanwhile the next depth's lines come: the last product of the depth before has been added by place 1.
            if (depth + 1 < depths) {
                if (place > 0 && place <= rounds) write(place - 1, depth + 1, piece);
                if (place < rounds) read(place, depth + 1, piece);
            }
            sums.wait_for_groups<1>();
        }
    }
    sums.wait_for_groups<0>();
    const Results results = {of.out, of.images, of.rows, of.alpha, of.beta};
    write_tile(results, padded, row_tile * SLICE_ROWS, first, row, column, sums.of, lines);
}

struct Filters {
    const Element *w;
    unsigned char *v;
    // d of a slice, and m.
    int channels, rows;
};

// A thread for each octet of d in each line of a stage.
KERNEL(order_filters, Filters) {
    begin_next_launch();
    const Filters &of = parameters;
    const int depths = tiles_of(of.channels * SOURCE_SLICES, DEPTH), octets = depths * OCTETS;
    const int lines = tiles_of(of.rows, SLICE_ROWS) * ROW_TILE;
    int i = int(blockIdx.x) * THREADS + int(threadIdx.x);
    const int place = i / (lines * octets);
    i %= lines * octets;
    if (place >= IN_SLICE) return;
    // Neighbouring threads read neighbouring elements.
#ifdef GRADIENT
    const int line = i % lines, octet = i / lines, apart = of.rows * PLACES;
#else
    const int line = i / octets, octet = i % octets, apart = PLACES;
#endif
    const int m = line / ROW_TILE * SLICE_ROWS + line % SLICE_ROWS;
    // The first channel, the place in the filter of its slice for this line's result, and whether they are there.
    const int d = octet * 8 % of.channels, slice = octet * 8 / of.channels - line % ROW_TILE / SLICE_ROWS;
    const int t = slice * IN_SLICE + place;
    const bool is_there = m < of.rows && slice >= 0 && slice < SLICES;
#ifdef GRADIENT
    const Element *const from = of.w + (is_there ? d * apart + m * PLACES + PLACES - 1 - t : 0);
#else
    const Element *const from = of.w + (is_there ? (m * of.channels + d) * PLACES + t : 0);
#endif
    Pixels channels;
    channels.all = {0, 0, 0, 0};
    if (is_there)
#pragma unroll
        for (int j = 0; j < 8; j++) channels.each[j] = from[j * apart];
    const int stage = (line / ROW_TILE * depths + octet / OCTETS) * IN_SLICE + place;
    unsigned char *const to = of.v + (long long)stage * W_BYTES + piece_of(line % ROW_TILE, octet % OCTETS);
    *reinterpret_cast<uint4 *>(to) = channels.all;
}
