// Groups of eight neighbouring pixels of NCHW tensors, whatever the alignment of an image's pixels. Pixels of an image
// count through its rows. The last group of an image may be a part of one. Groups of all images follow each other.
//
// Compiled with VOLUMES, an image is RESULT_SLICES neighbouring slices of a volume of an NCDHW tensor, and is counted as
// the first of these. Behind the last slice of a volume, some of an image's may lack. Images of all volumes follow each
// other.
#pragma once

#include "common/ops.cuh"
#include "common/tiles.cuh"

#ifndef RESULT_SLICES
#define RESULT_SLICES 1
#endif

constexpr int GROUP = 8;

// The sizes of images.
struct Images {
    int count, height, width;
    // The slices of a volume: 1 if images are no slices.
    int depth;

    __device__ __forceinline__ int pixels() const { return height * width; }
#ifdef VOLUMES
    // A channel's pixels.
    __device__ __forceinline__ int channel() const { return depth * pixels(); }
    // The volume of an image, and its first slice there.
    __device__ __forceinline__ int volume(int image) const { return image / tiles_of(depth, RESULT_SLICES); }
    __device__ __forceinline__ int slice(int image) const {
        return image % tiles_of(depth, RESULT_SLICES) * RESULT_SLICES;
    }
#else
    __device__ __forceinline__ int channel() const { return pixels(); }
    __device__ __forceinline__ int volume(int image) const { return image; }
    __device__ __forceinline__ int slice(int) const { return 0; }
#endif
    __device__ __forceinline__ bool has_slice(int slice) const { return slice >= 0 && slice < depth; }
    __device__ __forceinline__ long long elements(int channels) const {
        return (long long)volume(count) * channels * channel();
    }
    // The place of an image's first pixel of a channel.
    __device__ __forceinline__ long long place(int image, int channels, int its) const {
        return ((long long)volume(image) * channels + its) * channel() + slice(image) * pixels();
    }
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
        return images.place(image, channels, channel) + pixel;
    }
};

// A group's pixels of a channel.
union alignas(16) Pixels {
    uint4 all;
    unsigned words[4];
    Element each[GROUP];
    __device__ __forceinline__ Pixels() {}
};

// Eight elements from anywhere in a tensor of a multiple of 8 elements, by whole reads of 16 bytes. Elements beside the
// tensor are zero.
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
