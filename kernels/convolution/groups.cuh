// Groups of eight neighbouring pixels of NCHW tensors, whatever the alignment of an image's pixels; and their
// neighbours below the places of a filter of FILTER x FILTER, an odd number up to 7, with FILTER / 2 zeros on all
// sides. Pixels of an image count through its rows. The last group of an image may be a part of one. Groups of all
// images follow each other.
//
// ACCESS is the elements of one access to a tensor, and divides an image's pixels: 8, 4, 2, or 1. A tensor has a
// multiple of 8 elements.
#pragma once

#include "common/async_copy.cuh"
#include "common/ops.cuh"
#include "common/tiles.cuh"

constexpr int GROUP = 8, PLACES = FILTER * FILTER, REACH = FILTER / 2;

// The sizes of images.
struct Images {
    int count, height, width;

    __device__ __forceinline__ int pixels() const { return height * width; }
    __device__ __forceinline__ long long elements(int channels) const { return (long long)count * channels * pixels(); }
};

struct Group {
    int image, pixel;
    // Its pixels; none behind the last image.
    int count;

    __device__ __forceinline__ Group(const Images &images, int group) {
        const int pixels = images.pixels(), in_image = tiles_of(pixels, GROUP);
        image = group / in_image;
        pixel = group % in_image * GROUP;
        count = image < images.count ? min(pixels - pixel, GROUP) : 0;
    }

    // The place of its pixels of a channel.
    __device__ __forceinline__ long long place(const Images &images, int channels, int channel) const {
        return ((long long)image * channels + channel) * images.pixels() + pixel;
    }
};

// A row and a column of a filter.
struct Place {
    int row, column;

    __device__ __forceinline__ explicit Place(int place) : row(place / FILTER), column(place % FILTER) {}
    // From a pixel to its neighbour.
    __device__ __forceinline__ int apart(const Images &images) const {
        return (row - REACH) * images.width + column - REACH;
    }
};

// Which pixels of a group have a neighbour inside of the image: a bit for each pixel, eight bits for each row and for
// each column of the filter.
struct Neighbours {
    unsigned long long rows = 0, columns = 0;

    __device__ __forceinline__ Neighbours(const Images &images, const Group &group) {
        int p = group.pixel / images.width, q = group.pixel % images.width;
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
#pragma unroll
            for (int at = 0; at < FILTER; at++) {
                const int row = p + at - REACH, column = q + at - REACH;
                const bool is_in_row = i < group.count && row >= 0 && row < images.height;
                const bool is_in_column = column >= 0 && column < images.width;
                rows |= (unsigned long long)is_in_row << (GROUP * at + i);
                columns |= (unsigned long long)is_in_column << (GROUP * at + i);
            }
            if (++q == images.width) q = 0, p++;
        }
    }

    __device__ __forceinline__ unsigned at(const Place &place) const {
        return unsigned(rows >> GROUP * place.row) & unsigned(columns >> GROUP * place.column) & 0xffu;
    }
};

// A group's pixels of a channel.
union alignas(16) Pixels {
    uint4 all;
    unsigned words[4];
    Element each[GROUP];
    __device__ __forceinline__ Pixels() {}
};

// Eight elements from anywhere in a tensor, by whole reads of 16 bytes; what is beside the tensor is zero.
__device__ __forceinline__ Pixels unaligned(const Element *tensor, long long elements, long long at) {
    const long long begin = at & -GROUP;
    const int by = int(at & (GROUP - 1));
    uint4 low = {0, 0, 0, 0}, high = low;
    if (begin >= 0 && begin < elements) low = *reinterpret_cast<const uint4 *>(tensor + begin);
    if (by > 0 && begin + GROUP >= 0 && begin + GROUP < elements)
        high = *reinterpret_cast<const uint4 *>(tensor + begin + GROUP);
    unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; i++) words[i] = by & 4 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; i++) words[i] = by & 2 ? words[i + 1] : words[i];
    Pixels pixels;
#pragma unroll
    for (int i = 0; i < 4; i++) pixels.words[i] = by & 1 ? words[i] >> 16 | words[i + 1] << 16 : words[i];
    return pixels;
}

// Copies eight elements of a tensor, from `at` on, to shared memory; those without a bit become zero.
__device__ __forceinline__ void copy_some(unsigned char *to, const Element *tensor, long long elements, long long at,
                                          unsigned bits) {
    Pixels pixels;
    pixels.all = {0, 0, 0, 0};
    if (bits) {
        pixels = unaligned(tensor, elements, at);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const unsigned lower = bits >> 2 * i & 1 ? 0xffffu : 0, upper = bits >> 2 * i & 2 ? 0xffff0000u : 0;
            pixels.words[i] &= lower | upper;
        }
    }
    *reinterpret_cast<uint4 *>(to) = pixels.all;
}

// Begins to copy a group of a tensor, from `at` on, to shared memory, and zeros behind `count` pixels.
__device__ __forceinline__ void copy_group(unsigned char *to, const Element *tensor, long long elements, long long at,
                                           int count) {
#if ACCESS == 1
    copy_some(to, tensor, elements, at, (1u << count) - 1);
#else
#pragma unroll
    for (int part = 0; part < GROUP; part += ACCESS)
        copy_async<ACCESS * sizeof(Element)>(to + part * sizeof(Element), tensor + (part < count ? at + part : 0),
                                             part < count);
#endif
}

// Begins to copy the neighbours of a group's pixels at one place of the filter in one channel: number `index` of all
// channels' places. Behind the last channel there are zeros.
__device__ __forceinline__ void copy_neighbours(unsigned char *to, const Element *tensor, const Images &images,
                                                int channels, const Group &group, const Neighbours &neighbours,
                                                int index) {
    const int channel = index / PLACES;
    const long long elements = images.elements(channels), at = group.place(images, channels, channel);
    // At the only place of such a filter, pixels are their own neighbours.
    if constexpr (FILTER == 1) {
        copy_group(to, tensor, elements, at, channel < channels ? group.count : 0);
    } else {
        const Place place(index % PLACES);
        copy_some(to, tensor, elements, at + place.apart(images), channel < channels ? neighbours.at(place) : 0);
    }
}
