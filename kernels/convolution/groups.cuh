// Groups of eight neighbouring pixels of NCHW tensors, whatever the alignment of an image's pixels. The last group of an
// image may be a part of one. Groups of all images follow each other.
//
// ACCESS is the elements of one access to a tensor, and divides an image's pixels: 8, 4, 2, or 1. A tensor has a multiple
// of 8 elements.
#pragma once

#include "common/async_copy.cuh"
#include "common/ops.cuh"
#include "common/tiles.cuh"

constexpr int GROUP = 8;

struct Group {
    int image, pixel;
    // Its pixels; none behind the last image.
    int count;

    // Of images of so many pixels.
    __device__ __forceinline__ Group(int images, int pixels, int group) {
        const int in_image = tiles_of(pixels, GROUP);
        image = group / in_image;
        pixel = group % in_image * GROUP;
        count = image < images ? min(pixels - pixel, GROUP) : 0;
    }

    // The place of its pixels of a channel.
    __device__ __forceinline__ long long place(int channels, int channel, int pixels) const {
        return ((long long)image * channels + channel) * pixels + pixel;
    }
};

// A group's pixels of a channel.
union alignas(16) Pixels {
    uint4 all;
    unsigned words[4];
    Element each[GROUP];
    __device__ __forceinline__ Pixels() {}
};

// Eight elements from anywhere in a tensor, by whole reads of 16 bytes; what is behind the tensor's end is zero.
__device__ __forceinline__ Pixels unaligned(const Element *tensor, long long elements, long long at) {
    const long long begin = at / GROUP * GROUP;
    const int by = int(at % GROUP);
    const uint4 low = *reinterpret_cast<const uint4 *>(tensor + begin);
    uint4 high = {0, 0, 0, 0};
    if (by > 0 && begin + GROUP < elements) high = *reinterpret_cast<const uint4 *>(tensor + begin + GROUP);
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

// Begins to copy `count` elements of a tensor, from `at` on, to shared memory, and zeros behind them up to eight.
__device__ __forceinline__ void copy_group(unsigned char *to, const Element *tensor, long long elements, long long at,
                                           int count) {
#if ACCESS == 1
    Pixels pixels;
    pixels.all = {0, 0, 0, 0};
    if (count > 0) {
        pixels = unaligned(tensor, elements, at);
#pragma unroll
        for (int i = 0; i < 4; i++)
            pixels.words[i] = 2 * i + 1 < count ? pixels.words[i] : 2 * i < count ? pixels.words[i] & 0xffffu : 0;
    }
    *reinterpret_cast<uint4 *>(to) = pixels.all;
#else
#pragma unroll
    for (int part = 0; part < GROUP; part += ACCESS)
        copy_async<ACCESS * sizeof(Element)>(to + part * sizeof(Element), tensor + (part < count ? at + part : 0),
                                             part < count);
#endif
}
