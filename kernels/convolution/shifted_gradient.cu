// The gradient of the filter of a convolution whose result has the size of its input, by a filter of several places,
// from tensors as NCHW stores them, on the tensor cores of warpgroups:
//
//   dw[m][c][t] = alpha * sum over n, p of dy[n][m][p] * x[n][c][neighbour of p at t] + beta * dw[m][c][t]
//
// over the images n and their pixels p, for the places t of a filter of FILTER x FILTER; neighbours outside of the
// image are zero.
//
// Pixels are counted with zeros behind each row, up to a multiple of 8. A block has ROW_TILE channels m, and
// COLUMN_TILE columns, which are the channels c for each row of the filter. It goes through CHUNK pixels at a time, in
// lines of 64 channels of a pixel, as `common/warpgroup.cuh` says. dy's lines have the channels m, and x's lines the
// channels c of the pixel's neighbour in a row of the filter. The places of a row have the same lines from another
// first line on, so a chunk is read once for all of them. A warpgroup has half of the columns. Blocks share out the
// chunks of a tile in parts. The parts' sums meet in the workspace, and `sum_up` adds them up.
//
// In volumes, the filter has SLICES of these places. An image is RESULT_SLICES neighbouring slices of dy, and the
// columns are the channels c for each row of the filter in each of SOURCE_SLICES slices of x. If RESULT_SLICES is 2,
// the rows are up to 32 channels m of the one slice, and those of the next, so that products of 64 rows are not half
// empty. Each of the two has sums of its own, as if they were two parts, and no use for the products with one of the
// slices of x.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; ACCESS, the elements of one access, which divide a row's: 8,
// 4, 2 or 1; for volumes, VOLUMES, SLICES and RESULT_SLICES. The channels are multiples of 8. Grid: for each part a
// block for each tile; of `sum_up`, a thread for each element of dw. Dynamic shared memory: two of `Chunk`.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#include "common/warpgroup.cuh"
#include "convolution/groups.cuh"
#include "convolution/places.cuh"
#include "convolution/quads.cuh"
#include "convolution/sum_up.cuh"

constexpr int ROW_TILE = 64, COLUMN_TILE = 128, SLICE_ROWS = ROW_TILE / RESULT_SLICES;
constexpr int SOURCE_SLICES = SLICES + RESULT_SLICES - 1;
// The groups in the lines of a chunk. Those of the first and the last are only neighbours.
constexpr int GROUPS = THREADS / QUADS, LINES = GROUPS * GROUP, CHUNK = LINES - 2 * GROUP;
// Blocks of lines: two of x, and one of dy.
constexpr int X_BLOCKS = COLUMN_TILE / LINE, BLOCKS = X_BLOCKS + 1;
static_assert(CHUNK % DEPTH_OF_PRODUCT == 0 && REACH <= GROUP, "whole products and all neighbours");

struct Chunk {
    unsigned char lines[BLOCKS][LINES * LINE_BYTES];
};

struct ShiftedGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    Images images;
    // Channels m of dy, and channels c of a slice of x; and the parts.
    int rows, channels, parts;
    float alpha, beta;

    // The groups of a row, with zeros, and those of an image.
    __device__ __forceinline__ int row_groups() const { return tiles_of(images.width + REACH, GROUP); }
    __device__ __forceinline__ int image_groups() const { return images.height * row_groups(); }
    __device__ __forceinline__ int columns() const { return SOURCE_SLICES * FILTER * channels; }
};

// A column: a channel of x in a slice, in a row of the filter.
struct Column {
    int slice, row, channel;

    __device__ __forceinline__ Column(const ShiftedGradient &of, int column)
        : slice(column / (FILTER * of.channels)), row(column / of.channels % FILTER), channel(column % of.channels) {}
};

// Four channels of a pixel's neighbour that a thread copies to a block of lines.
struct Neighbour {
    const Element *tensor;
    // The tensor's channels; how far the neighbour's row and slice are from the pixel's; and the place of its channels.
    int channels, row, slice, place;
    bool are_there;

    __device__ __forceinline__ Neighbour() {}
    __device__ __forceinline__ Neighbour(const ShiftedGradient &of, int block, int first_row, int first_column) {
        const int quad = Quad(threadIdx.x).quad * CHANNELS;
        if (block == X_BLOCKS) {
            const int m = first_row + quad % SLICE_ROWS;
            tensor = of.dy, channels = of.rows, row = 0, slice = quad / SLICE_ROWS;
            are_there = m < of.rows, place = are_there ? m * of.images.channel() : 0;
        } else {
            const Column column(of, first_column + block * LINE + quad);
            tensor = of.x, channels = of.channels, row = column.row - REACH, slice = column.slice - SLICES / 2;
            are_there = column.slice < SOURCE_SLICES, place = column.channel * of.images.channel();
        }
    }
};

// A group of pixels in a row.
struct RowGroup {
    int image, row, column;

    __device__ __forceinline__ RowGroup(const ShiftedGradient &of, int group) {
        const int row_groups = of.row_groups(), its_row = group / row_groups;
        image = group < 0 ? of.images.count : its_row / of.images.height;
        row = its_row % of.images.height, column = group % row_groups * GROUP;
    }
};

// Some channels of a group.
struct Piece {
    Pixels channels[CHANNELS];
};

__device__ __forceinline__ void read_piece(const ShiftedGradient &of, const RowGroup &group, const Neighbour &its,
                                           Piece &piece) {
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) piece.channels[k].all = {0, 0, 0, 0};
    const Images &images = of.images;
    const int row = group.row + its.row, slice = images.slice(group.image) + its.slice;
    const int count = min(images.width - group.column, GROUP);
    if (!its.are_there || group.image >= images.count || row < 0 || row >= images.height || !images.has_slice(slice) ||
        count <= 0)
        return;
    int at = images.volume(group.image) * its.channels * images.channel() + slice * images.pixels() + its.place +
             row * images.width + group.column;
#pragma unroll
    for (int k = 0; k < CHANNELS; k++, at += images.channel()) {
#if ACCESS < 4
        piece.channels[k] = unaligned(its.tensor, images.elements(its.channels), at);
#pragma unroll
        for (int i = 0; i < GROUP; i++)
            if (i >= count) piece.channels[k].each[i] = to_element(0);
#else
        struct alignas(ACCESS * sizeof(Element)) Part { unsigned words[ACCESS / 2]; };
#pragma unroll
        for (int part = 0; part < GROUP; part += ACCESS) {
            if (part >= count) continue;
            const Part words = *reinterpret_cast<const Part *>(its.tensor + at + part);
#pragma unroll
            for (int i = 0; i < ACCESS / 2; i++) piece.channels[k].words[part / 2 + i] = words.words[i];
        }
#endif
    }
}

// Writes a piece to its pixels' lines.
__device__ __forceinline__ void write_piece(const Piece &piece, unsigned char *lines) {
    const Quad thread(threadIdx.x);
    const int quad = thread.quad;
    unsigned char *const its = lines + thread.group * GROUP * LINE_BYTES + quad % 2 * sizeof(uint2);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
        uint2 channels;
        const unsigned halves = j % 2 ? 0x7632 : 0x5410;
        channels.x = __byte_perm(piece.channels[0].words[j / 2], piece.channels[1].words[j / 2], halves);
        channels.y = __byte_perm(piece.channels[2].words[j / 2], piece.channels[3].words[j / 2], halves);
        *reinterpret_cast<uint2 *>(its + piece_of(j, quad / 2)) = channels;
    }
}

// Puts the sums of a warpgroup where they belong, those of columns from `first_column` on.
__device__ __forceinline__ void write_sums(const ShiftedGradient &of, int part, int first_row, int first_column,
                                           const SumsOf<LINE> (&sums)[FILTER]) {
    const long long elements = (long long)of.rows * of.channels * PLACES;
    const int row = int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
#pragma unroll
    for (int i = 0; i < LINE / 2; i++) {
        const Column column(of, first_column + i / 4 * 8 + int(LANE) % 4 * 2 + i % 2);
        const int its = row + i / 2 % 2 * 8, slice = its / SLICE_ROWS, m = first_row + its % SLICE_ROWS;
        const int of_filter = column.slice - slice;
        if (m >= of.rows || column.slice >= SOURCE_SLICES || of_filter < 0 || of_filter >= SLICES) continue;
        const long long first = ((long long)m * of.channels + column.channel) * PLACES + of_filter * IN_SLICE;
#pragma unroll
        for (int t = 0; t < FILTER; t++) {
            const long long at = first + column.row * FILTER + t;
            if (of.parts * RESULT_SLICES == 1)
                scale_into(of.dw[at], sums[t].of[i], of.alpha, of.beta);
            else
                of.sums[(part * RESULT_SLICES + slice) * elements + at] = sums[t].of[i];
        }
    }
}

KERNEL(shifted_gradient, ShiftedGradient) {
    SHARED(Chunk, chunks);
    const ShiftedGradient &of = parameters;
    // Blocks of the same part are neighbours, so they read the same pixels together.
    const int column_tiles = tiles_of(of.columns(), COLUMN_TILE), tiles = tiles_of(of.rows, SLICE_ROWS) * column_tiles;
    const int tile = int(blockIdx.x) % tiles, part = int(blockIdx.x) / tiles;
    const int row = tile / column_tiles * SLICE_ROWS, column = tile % column_tiles * COLUMN_TILE;
    const int all = tiles_of(of.images.count * of.image_groups(), CHUNK / GROUP), share = tiles_of(all, of.parts);
    const int begin = min(part * share, all), end = min(begin + share, all);

    Neighbour neighbours[BLOCKS];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) neighbours[block] = Neighbour(of, block, row, column);
    Piece pieces[BLOCKS];
    const auto read = [&](int chunk) {
        const RowGroup group(of, chunk * (CHUNK / GROUP) - 1 + Quad(threadIdx.x).group);
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) read_piece(of, group, neighbours[block], pieces[block]);
    };
    const auto write = [&](Chunk &to) {
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) write_piece(pieces[block], to.lines[block]);
    };
    if (begin < end) {
        read(begin);
        write(chunks[begin % 2]);
    }
    if (begin + 1 < end) read(begin + 1);

    const int warpgroup = int(threadIdx.x) / WARPGROUP;
    SumsOf<LINE> sums[FILTER];
    for (int chunk = begin; chunk < end; chunk++) {
        show_copies();
        // After the barrier, all threads have added the products of the chunk before, and its memory is free.
        barrier();
        Chunk &its = chunks[chunk % 2];
        const Factor dy = factor_at<ACROSS>(its.lines[X_BLOCKS] + GROUP * LINE_BYTES, 0);
        const Factor x = factor_at<ACROSS>(its.lines[warpgroup] + (GROUP - REACH) * LINE_BYTES, 0);
#pragma unroll
        for (int t = 0; t < FILTER; t++) {
            sums[t].begin();
#pragma unroll
            for (int p = 0; p < CHUNK; p += DEPTH_OF_PRODUCT)
                sums[t].add<ACROSS, ACROSS>(later(dy, p * LINE_BYTES), later(x, (p + t) * LINE_BYTES));
            sums[t].end_group();
        }
        // Meanwhile the next chunk, which has been read, is written, and the one behind it is read.
        if (chunk + 1 < end) write(chunks[(chunk + 1) % 2]);
        if (chunk + 2 < end) read(chunk + 2);
#pragma unroll
        for (int t = 0; t < FILTER; t++) sums[t].wait_for_groups<0>();
    }
    write_sums(of, part, row, column + warpgroup * LINE, sums);
}
