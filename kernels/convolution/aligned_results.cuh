// Writing the results of a block's tile through shared memory, so that accesses to the tensor are aligned and whole,
// whatever the alignment of an image's pixels. A tile has results of at most MOST_IMAGES images.
#pragma once

#include "convolution/results.cuh"

constexpr int MOST_IMAGES = 8;
// Elements from one row of a tile's results to the next: rows begin in different banks. Results of each image may begin
// at any of 8 elements.
constexpr int PITCH = COLUMN_TILE + GROUP * (MOST_IMAGES + 1);

// Where the results of a tile stand in shared memory: pixels follow each other without zeros. Accesses of 16 bytes are
// to be aligned both there and in the tensor. So the results of a row and an image begin at the same place modulo 8
// elements as in the tensor.
template <typename Numbering> struct ResultPlaces {
    const Numbering &numbering;
    // The first row of the tile, its first image, and the first pixel in it.
    int row, image, begin;
    int rows, first;

    __device__ __forceinline__ ResultPlaces(const Results &of, const Numbering &numbering, int row, int first)
        : numbering(numbering), row(row), image(first / numbering.pixels),
          begin(numbering.before(first % numbering.pixels)), rows(of.rows), first(first) {}

    // The tile's pixels before those of its image number `k`, or behind the last one's.
    __device__ __forceinline__ int before(int k) const { return max(k * numbering.images.pixels() - begin, 0); }
    // An image's pixels of a channel of the tensor.
    __device__ __forceinline__ long long plane(int k, int m) const {
        return numbering.images.place(image + k, rows, m);
    }
    // The place of the first pixel of an image in the tensor, modulo 8, if `m` is 0. Other channels and slices add to
    // it.
    __device__ __forceinline__ unsigned beyond(int k) const {
        return unsigned(plane(k, 0)) - k * numbering.images.pixels() + begin;
    }
    // A column of the tile as a number: the place of its pixel in a row, and `beyond`. Columns of zeros have a place
    // after all pixels.
    __device__ __forceinline__ unsigned column(int column) const {
        const int at = first + column, its_image = at / numbering.pixels, k = its_image - image;
        const int its = at % numbering.pixels;
        if (its_image >= numbering.images.count || !numbering.is_pixel(its)) return PITCH - GROUP;
        const int pixel = k * numbering.images.pixels() - begin + numbering.before(its);
        return unsigned(pixel + GROUP * k) | beyond(k) % GROUP << 16;
    }
    // The place of a column in a row, from the column's number and the pixels of the image's row before it.
    __device__ __forceinline__ static int place(unsigned column, unsigned before) {
        return int(column & 0xffff) + int((column >> 16) + before) % GROUP;
    }
};

// Puts a warpgroup's sums, from the tile's row and column number `row` and `column` on, where results stand.
template <typename Numbering, int COUNT>
__device__ __forceinline__ void keep_sums(const Results &of, const ResultPlaces<Numbering> &places, int row, int column,
                                          const float (&sums)[COUNT], const unsigned *columns, Element *results) {
    row += int(threadIdx.x) % WARPGROUP / 32 * 16 + int(LANE) / 4;
    column += int(LANE) % 4 * 2;
    // The same for 8 rows further.
    const unsigned channels = unsigned(places.row + row % SLICE_ROWS) * unsigned(of.images.channel());
    const unsigned before = (channels + row / SLICE_ROWS * of.images.pixels()) % GROUP;
    Element *const to = results + row * PITCH;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        const uint2 pair = *reinterpret_cast<const uint2 *>(columns + column + i / 4 * 8);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int place = ResultPlaces<Numbering>::place(k == 0 ? pair.x : pair.y, before);
            to[place] = to_element(of.alpha * sums[i + k]);
            to[place + 8 * PITCH] = to_element(of.alpha * sums[i + 2 + k]);
        }
    }
}

// A lane has a whole access to an image's pixels, or one of the pixels before and behind all whole ones. It is the same
// in every eighth row.
template <typename Numbering>
__device__ __forceinline__ void write_results(const Results &of, const ResultPlaces<Numbering> &places,
                                              const Element *results) {
    const int last = min(places.first + COLUMN_TILE, of.images.count * places.numbering.pixels) - 1;
    const int pixels = of.images.pixels(), channel = of.images.channel();
    for (int k = 0; places.image + k <= last / places.numbering.pixels; k++) {
        const int end = places.numbering.before(min(last + 1 - (places.image + k) * places.numbering.pixels,
                                                 places.numbering.pixels));
        const int begin = k == 0 ? places.begin : 0, count = end - begin, before = places.before(k);
#pragma unroll
        for (int slice = 0; slice < RESULT_SLICES; slice++) {
            const int rows = of.rows_of(places.image + k, slice, places.row);
            const long long first = places.plane(k, places.row + WARP) + slice * pixels + begin;
            const int place = before + GROUP * k + int((unsigned(first) - before) % GROUP);
            // The pixels before whole accesses, and those of whole accesses.
            const int head = min(int(-first & (GROUP - 1)), count), body = (count - head) / GROUP * GROUP;
            const int wholes = body / GROUP, tasks = wholes + count - body;
            for (int task = LANE; task < tasks; task += 32) {
                const int part = task - wholes, at = part < 0 ? head + task * GROUP : part < head ? part : body + part;
                const Element *from = results + (slice * SLICE_ROWS + int(WARP)) * PITCH + place + at;
                Element *to = of.out + first + at;
                for (int row = WARP; row < rows; row += THREADS / 32) {
                    if (part < 0)
                        *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
                    else
                        *to = *from;
                    from += THREADS / 32 * PITCH;
                    to += THREADS / 32 * (long long)channel;
                }
            }
        }
    }
}

// Writes a tile's results: those of this thread's warpgroup begin at the tile's row and column number `row` and
// `column`. All threads of the block come here. The memory, which no product needs any more, has ROW_TILE * PITCH
// elements and COLUMN_TILE words.
template <typename Numbering, int COUNT>
__device__ __forceinline__ void write_tile(const Results &of, const Numbering &numbering, int first_row, int first,
                                           int row, int column, const float (&sums)[COUNT], void *memory) {
    if (of.beta != 0) {
        add_sums(of, numbering, first_row, row, first + column, sums);
        return;
    }
    const ResultPlaces<Numbering> places(of, numbering, first_row, first);
    Element *const results = static_cast<Element *>(memory);
    unsigned *const columns = reinterpret_cast<unsigned *>(results + ROW_TILE * PITCH);
    barrier();
    for (int i = threadIdx.x; i < COLUMN_TILE; i += THREADS) columns[i] = places.column(i);
    barrier();
    keep_sums(of, places, row, column, sums, columns, results);
    barrier();
    write_results(of, places, results);
}
