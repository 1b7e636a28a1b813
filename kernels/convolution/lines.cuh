// Pixels as lines of some of their channels, as `common/warpgroup.cuh` says, from tensors as NCHW stores them. Pixels
// are counted with the zeros behind each row and each image, so a pixel and its neighbour at a place of the filter are
// equally far apart everywhere.
//
// Compiled with FILTER, ACCESS, and for volumes with SLICES.
#pragma once

#include "common/warpgroup.cuh"
#include "convolution/groups.cuh"
#include "convolution/places.cuh"
#include "convolution/quads.cuh"

constexpr int SOURCE_SLICES = SLICES + RESULT_SLICES - 1;

// An image with zeros behind each row, and REACH rows of zeros behind the last. A row with its zeros has `width`
// pixels.
struct Padded {
    Images images;
    int width, pixels;

    __device__ __forceinline__ explicit Padded(const Images &images) : Padded(images, images.width + REACH) {}
    __device__ __forceinline__ Padded(const Images &images, int width)
        : images(images), width(width), pixels(width * (images.height + REACH)) {}

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
    // The first piece of each pixel's line, which is mixed already, counted in pieces of 16 bytes.
    unsigned short lines[GROUP];
    int place;
    short count, slice;

    // `first` is the first line's pixel of all images.
    __device__ __forceinline__ Source(const Padded &padded, const Group &group, int channels, int first, int line_count)
        : place(int(group.place(padded.images, channels, 0))), count(short(group.count)),
          slice(short(padded.images.slice(group.image))) {
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

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int k = 0; k < CHANNELS; k++) channels[k].all = {0, 0, 0, 0};
    }
};

// Reads a group's pixels of four channels, from a place of a tensor of `channels` channels on.
__device__ __forceinline__ void read_channels(const Element *tensor, const Images &images, int channels, int at,
                                              int count, Piece &piece) {
#pragma unroll
    for (int k = 0; k < CHANNELS; k++) {
        const int its = at + k * images.channel();
#if ACCESS < 4
        piece.channels[k] = unaligned(tensor, images.elements(channels), its);
#else
        struct alignas(ACCESS * sizeof(Element)) Part { unsigned words[ACCESS / 2]; };
#pragma unroll
        for (int part = 0; part < GROUP; part += ACCESS) {
            if (part >= count) continue;
            const Part words = *reinterpret_cast<const Part *>(tensor + its + part);
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
