// A convolution whose result has the size of its input, or its input's gradient, by a filter of several places, of
// tensors as NCHW stores them, on the tensor cores of warpgroups:
//
//   out[n][m][p] = alpha * sum over t, d of v[t][m][d] * in[n][d][neighbour of p at t] + beta * out[n][m][p]
//
// over the places t of a filter of FILTER x FILTER and the channels d; neighbours outside of the image are zero.
// `order_filters` makes v from a convolution's filter w[m][d][t], or for an input's gradient from w[d][m][PLACES - 1 -
// t].
//
// Pixels are counted with the zeros behind each row and each image, so a pixel and its neighbour at t are equally far
// apart everywhere. A block has ROW_TILE channels m and COLUMN_TILE pixels. For 64 channels d at a time, it reads these
// pixels and all of their neighbours once, and turns them into lines in shared memory: 64 channels of a pixel, as
// `common/warpgroup.cuh` says. The products of each place have another first line.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; FILTER; GRADIENT for a gradient; ROW_WARPGROUPS, 2, or 1 where two
// warpgroups share out the pixels; PRODUCT_COLUMNS, 128, or 256 with a block for each multiprocessor; STAGES of filters,
// at least 3; and ACCESS. The channels d are a multiple of 8. Grid:
// a block for each tile, which has pixels of at most MOST_IMAGES images. Dynamic shared memory: `buffers` of `lines`
// lines, STAGES of W_BYTES and `groups` of `Source`; or results and their places, if they are larger. `lines` is a
// multiple of 8.

#define THREADS 256
#define SHARED_ALIGNMENT 1024
#define MULTIPROCESSOR_BLOCKS (256 / PRODUCT_COLUMNS)
#include "convolution/aligned_results.cuh"
#include "convolution/places.cuh"
#include "convolution/stages.cuh"

// The depth of a stage.
constexpr int DEPTH = LINE;
// A thread reads four channels of a group at a time.
constexpr int CHANNELS = 4, QUADS = DEPTH / CHANNELS;
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
    // d and m.
    int channels, rows;
    // Of a buffer, and the buffers: 1 if there is one depth, else 2.
    int lines, buffers;
    float alpha, beta;
};

// An image with REACH zeros behind each row, and as many rows of zeros behind the last.
struct Padded {
    Images images;
    int width, pixels;

    __device__ __forceinline__ explicit Padded(const Images &images)
        : images(images), width(images.width + REACH), pixels(width * (images.height + REACH)) {}

    // From the first pixel to the first neighbour of any.
    __device__ __forceinline__ int halo() const { return REACH * (width + 1); }
    __device__ __forceinline__ bool is_pixel(int at) const {
        return at / width < images.height && at % width < images.width;
    }
    // The pixels of an image before number `at` with zeros, which may lie behind the image.
    __device__ __forceinline__ int before(int at) const {
        const int row = at / width;
        return row < images.height ? row * images.width + min(at % width, images.width) : images.pixels();
    }
    // The group of the pixel `at` of all images, or of a pixel beside it if it is a zero.
    __device__ __forceinline__ int group(int at) const {
        if (at < 0) return 0;
        const int image = at / pixels, pixel = min(before(at % pixels), images.pixels() - 1);
        const int in_image = tiles_of(images.pixels(), GROUP);
        return min(image * in_image + pixel / GROUP, images.count * in_image - 1);
    }
};

// What a thread needs to know of a group of pixels to copy it: where its pixels' lines begin, its place in the first
// channel, and the number of its pixels.
struct alignas(8) Source {
    static constexpr unsigned NOWHERE = 0xffff;
    // Of each pixel, in pieces of 16 bytes: the first piece of its line, which is mixed already.
    unsigned short lines[GROUP];
    int place, count;

    // `first` is the first line's pixel of all images.
    __device__ __forceinline__ Source(const Padded &padded, const Group &group, int channels, int first, int line_count)
        : place(int(group.place(padded.images, channels, 0))), count(group.count) {
        int row = group.pixel / padded.images.width, column = group.pixel % padded.images.width;
        for (int i = 0; i < GROUP; i++) {
            const int line = group.image * padded.pixels + row * padded.width + column - first;
            const bool is_there = i < count && line >= 0 && line < line_count;
            lines[i] = is_there ? piece_of(line, 0) / PIECE_BYTES : NOWHERE;
            if (++column == padded.images.width) column = 0, row++;
        }
    }
};

// Some channels of a group.
struct Piece {
    Pixels channels[CHANNELS];
};

__device__ __forceinline__ void read_piece(const Shifted &of, const Source &source, int channel, Piece &piece) {
    const int at = source.place + channel * of.images.pixels();
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        const int its = at + k * of.images.pixels();
#if ACCESS < 4
        piece.channels[k] = unaligned(of.in, of.images.elements(of.channels), its);
#else
        struct alignas(ACCESS * sizeof(Element)) Part { unsigned words[ACCESS / 2]; };
#pragma unroll
        for (int part = 0; part < GROUP; part += ACCESS) {
            if (part >= source.count) continue;
            const Part words = *reinterpret_cast<const Part *>(of.in + its + part);
#pragma unroll
            for (int i = 0; i < ACCESS / 2; i++) piece.channels[k].words[part / 2 + i] = words.words[i];
        }
#endif
    }
}

// Writes the piece, number `quad` of a line, to its pixels' lines.
__device__ __forceinline__ void write_piece(const Source &source, int quad, const Piece &piece, unsigned char *lines) {
    const uint2 first = reinterpret_cast<const uint2 *>(source.lines)[0];
    const uint2 second = reinterpret_cast<const uint2 *>(source.lines)[1];
    const unsigned places[4] = {first.x, first.y, second.x, second.y};
    unsigned char *const its = lines + quad % 2 * sizeof(uint2);
#pragma unroll
    for (int j = 0; j < GROUP; j++) {
        uint2 channels;
        const unsigned halves = j % 2 ? 0x7632 : 0x5410;
        channels.x = __byte_perm(piece.channels[0].words[j / 2], piece.channels[1].words[j / 2], halves);
        channels.y = __byte_perm(piece.channels[2].words[j / 2], piece.channels[3].words[j / 2], halves);
        const unsigned place = j % 2 ? places[j / 2] >> 16 : places[j / 2] & 0xffff;
        if (place != Source::NOWHERE) *reinterpret_cast<uint2 *>(its + (place ^ quad / 2) * PIECE_BYTES) = channels;
    }
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
    const int row_tiles = tiles_of(of.rows, ROW_TILE), row_tile = int(blockIdx.x) % row_tiles;
    const int first = int(blockIdx.x) / row_tiles * COLUMN_TILE, first_line = first - padded.halo();
    const int depths = tiles_of(of.channels, DEPTH), buffer_bytes = of.lines * LINE_BYTES;
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
    const int quad = int(threadIdx.x) % QUADS, first_source = int(threadIdx.x) / QUADS;
    constexpr int SOURCES = THREADS / QUADS;
    const int rounds = tiles_of(groups, SOURCES);
    const auto read = [&](int round, int depth, Piece &piece) {
        const int source = round * SOURCES + first_source, channel = depth * DEPTH + quad * CHANNELS;
        if (source < groups && channel < of.channels) {
            read_piece(of, sources[source], channel, piece);
        } else {
#pragma unroll
            for (int k = 0; k < CHANNELS; k++) piece.channels[k].all = {0, 0, 0, 0};
        }
    };
    const auto write = [&](int round, int depth, const Piece &piece) {
        const int source = round * SOURCES + first_source;
        if (source < groups) write_piece(sources[source], quad, piece, lines + depth % 2 * buffer_bytes);
    };

    // The next stage that is copied, of those from the first depth and place on.
    const int stages = depths * PLACES;
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
    Piece piece;
    int slot = 0;
    for (int depth = 0; depth < depths; depth++) {
        for (int place = 0; place < PLACES; place++) {
            wait_for_groups<STAGES - 3>();
            show_copies();
            // Behind the barrier all products but the last place's have been added, by all threads, and their memory is
            // free.
            barrier();
            const Factor its_w = later(w, slot * W_BYTES);
            const Factor its_x = later(x, depth % 2 * buffer_bytes + Place(place).apart(padded.width) * LINE_BYTES);
            sums.begin();
#pragma unroll
            for (int d = 0; d < DEPTH; d += DEPTH_OF_PRODUCT)
                sums.add<ALONG, ALONG>(later(its_w, d * sizeof(Element)), later(its_x, d * sizeof(Element)));
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
    write_tile(results, padded, row_tile * ROW_TILE, first, row, column, sums.of, lines);
}

struct Filters {
    const Element *w;
    unsigned char *v;
    // d and m.
    int channels, rows;
};

// A thread for each octet of d in each line of a stage.
KERNEL(order_filters, Filters) {
    begin_next_launch();
    const Filters &of = parameters;
    const int depths = tiles_of(of.channels, DEPTH), octets = depths * OCTETS;
    const int lines = tiles_of(of.rows, ROW_TILE) * ROW_TILE;
    int i = int(blockIdx.x) * THREADS + int(threadIdx.x);
    const int place = i / (lines * octets);
    i %= lines * octets;
    if (place >= PLACES) return;
    // Neighbours among threads read what is near in memory.
#ifdef GRADIENT
    const int m = i % lines, octet = i / lines, apart = of.rows * PLACES;
    const Element *const from = of.w + octet * 8 * apart + m * PLACES + PLACES - 1 - place;
#else
    const int m = i / octets, octet = i % octets, apart = PLACES;
    const Element *const from = of.w + (m * of.channels + octet * 8) * PLACES + place;
#endif
    Pixels channels;
    channels.all = {0, 0, 0, 0};
    if (m < of.rows && octet * 8 < of.channels)
#pragma unroll
        for (int j = 0; j < 8; j++) channels.each[j] = from[j * apart];
    const int stage = (m / ROW_TILE * depths + octet / OCTETS) * PLACES + place;
    unsigned char *const to = of.v + (long long)stage * W_BYTES + piece_of(m % ROW_TILE, octet % OCTETS);
    *reinterpret_cast<uint4 *>(to) = channels.all;
}
