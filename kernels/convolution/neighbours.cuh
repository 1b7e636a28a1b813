// Groups of pixels, and their neighbours below the places of a filter of up to 7 x 7, on their way to shared memory. If
// STRIDE is above 1, the filter has one place, and neighbours are the pixels of a larger image that it strides to.
//
// ACCESS is the elements of one access to a tensor, and divides an image's pixels: 8, 4, 2, or 1. A tensor has a
// multiple of 8 elements.
#pragma once

#include "common/async_copy.cuh"
#include "convolution/groups.cuh"
#include "convolution/places.cuh"

#ifndef STRIDE
#define STRIDE 1
#endif

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

#if STRIDE > 1

static_assert(FILTER == 1, "neighbours at other places would be others");

// Where a group's pixels are in a larger image.
struct Strides {
    int at[GROUP];

    __device__ __forceinline__ Strides(const Images &images, const Group &group, int width) {
        int p = group.pixel / images.width, q = group.pixel % images.width;
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            at[i] = (p * width + q) * STRIDE;
            if (++q == images.width) q = 0, p++;
        }
    }
};

// Copies the pixels of a channel of the larger images `from`. Behind the last channel there are zeros.
__device__ __forceinline__ void copy_strides(unsigned char *to, const Element *tensor, const Images &from, int channels,
                                             const Group &group, const Strides &strides, int channel) {
    const int count = channel < channels ? group.count : 0;
    const Element *const its = tensor + ((long long)group.image * channels + channel) * from.pixels();
    Pixels pixels;
    pixels.all = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < GROUP; i++)
        if (i < count) pixels.each[i] = its[strides.at[i]];
    *reinterpret_cast<uint4 *>(to) = pixels.all;
}

#endif

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
        copy_some(to, tensor, elements, at + place.apart(images.width), channel < channels ? neighbours.at(place) : 0);
    }
}
