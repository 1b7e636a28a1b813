// Gathers the pixels that a strided 1 × 1 convolution reads, from tensors with channels first into smaller ones with
// channels last; and scatters them back, with zeros for all other pixels.
//
// If every second pixel of a row is sampled, a thread handles some samples with 16 bytes of channels each, in
// registers. Otherwise a block takes a tile through shared memory.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. A grid of any height
// works on all images.

#define THREADS 256
#include "common/device.cuh"

#define WARPS (THREADS / 32)
#define PIXELS 32
#define CHANNELS 64

typedef ELEMENT Element;

// Images of `height` × `width` pixels. Every `down`-th row is sampled, and in it every `right`-th pixel.
struct Sampling {
    const Element *from;
    Element *to;
    int images, channels, height, width, down, right;
};

// The block's first sample and first channel, the samples of a row, and all samples of an image.
struct Tile {
    int pixel, channel, across, pixels;
};

__device__ __forceinline__ Tile tile_of(const Sampling &sampling) {
    Tile tile;
    tile.across = (sampling.width + sampling.right - 1) / sampling.right;
    tile.pixels = (sampling.height + sampling.down - 1) / sampling.down * tile.across;
    const int tiles = (tile.pixels + PIXELS - 1) / PIXELS;
    tile.pixel = int(blockIdx.x) % tiles * PIXELS;
    tile.channel = int(blockIdx.x) / tiles * CHANNELS;
    return tile;
}

KERNEL(gather, Sampling) {
    STATIC_SHARED(Element, samples, [CHANNELS][PIXELS + 1]);
    const Sampling &it = parameters;
    const Tile tile = tile_of(it);
    const int pixel = tile.pixel + LANE, row = pixel / tile.across * it.down, column = pixel % tile.across * it.right;
    for (long long image = blockIdx.y; image < it.images; image += gridDim.y) {
        const Element *source = it.from + image * it.channels * it.height * it.width + row * it.width + column;
#pragma unroll
        for (int channel = WARP; channel < CHANNELS; channel += WARPS)
            if (pixel < tile.pixels && tile.channel + channel < it.channels)
                samples[channel][LANE] = source[(long long)(tile.channel + channel) * it.height * it.width];
        barrier();
        for (int sample = WARP; sample < PIXELS && tile.pixel + sample < tile.pixels; sample += WARPS) {
            Element *target = it.to + (image * tile.pixels + tile.pixel + sample) * it.channels + tile.channel;
#pragma unroll
            for (int channel = LANE; channel < CHANNELS; channel += 32)
                if (tile.channel + channel < it.channels) target[channel] = samples[channel][sample];
        }
        barrier();
    }
}

KERNEL(scatter, Sampling) {
    STATIC_SHARED(Element, samples, [CHANNELS][PIXELS + 1]);
    const Sampling &it = parameters;
    const Tile tile = tile_of(it);
    const int pixel = tile.pixel + LANE, row = pixel / tile.across * it.down, column = pixel % tile.across * it.right;
    const int rows = min(it.down, it.height - row), columns = min(it.right, it.width - column);
    for (long long image = blockIdx.y; image < it.images; image += gridDim.y) {
        for (int sample = WARP; sample < PIXELS && tile.pixel + sample < tile.pixels; sample += WARPS) {
            const Element *source = it.from + (image * tile.pixels + tile.pixel + sample) * it.channels + tile.channel;
#pragma unroll
            for (int channel = LANE; channel < CHANNELS; channel += 32)
                if (tile.channel + channel < it.channels) samples[channel][sample] = source[channel];
        }
        barrier();
        for (int channel = WARP; channel < CHANNELS && tile.channel + channel < it.channels; channel += WARPS) {
            if (pixel >= tile.pixels) break;
            Element *target = it.to + ((image * it.channels + tile.channel + channel) * it.height + row) * it.width + column;
            for (int y = 0; y < rows; y++)
                for (int x = 0; x < columns; x++)
                    target[y * it.width + x] = y == 0 && x == 0 ? samples[channel][LANE] : Element(0);
        }
        barrier();
    }
}

// N elements, moved in one access.
template <int N> struct alignas(N * sizeof(Element)) Run {
    Element element[N];
};

#define DEPTH int(16 / sizeof(Element))

// A thread's first channel; the first of its `Samples` samples, which lie in one row; and their pixel in an image.
struct Place {
    int channel, sample, pixels, row, column;
};

template <int Samples> __device__ __forceinline__ Place place_of(const Sampling &it) {
    const int across = it.width / 2, pixels = (it.height + it.down - 1) / it.down * across;
    const int tiles = (pixels / Samples + 3) / 4, tile = blockIdx.x * WARPS + WARP;
    const int sample = (tile % tiles * 4 + LANE % 4) * Samples;
    return {(tile / tiles * 8 + int(LANE) / 4) * DEPTH, sample, pixels, sample / across * it.down, sample % across * 2};
}

template <int Samples> __device__ __forceinline__ void gather_pairs(const Sampling &it) {
    const Place at = place_of<Samples>(it);
    if (at.channel >= it.channels || at.sample >= at.pixels) return;
    for (long long image = blockIdx.y; image < it.images; image += gridDim.y) {
        const Element *source = it.from + ((image * it.channels + at.channel) * it.height + at.row) * it.width + at.column;
        Run<2 * Samples> in[DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++)
            in[i] = *reinterpret_cast<const Run<2 * Samples> *>(source + (long long)i * it.height * it.width);
        Element *target = it.to + (image * at.pixels + at.sample) * it.channels + at.channel;
#pragma unroll
        for (int k = 0; k < Samples; k++) {
            Run<DEPTH> out;
#pragma unroll
            for (int i = 0; i < DEPTH; i++) out.element[i] = in[i].element[2 * k];
            *reinterpret_cast<Run<DEPTH> *>(target + (long long)k * it.channels) = out;
        }
    }
}

template <int Samples> __device__ __forceinline__ void scatter_pairs(const Sampling &it) {
    const Place at = place_of<Samples>(it);
    if (at.channel >= it.channels || at.sample >= at.pixels) return;
    const int rows = min(it.down, it.height - at.row);
    for (long long image = blockIdx.y; image < it.images; image += gridDim.y) {
        const Element *source = it.from + (image * at.pixels + at.sample) * it.channels + at.channel;
        Run<DEPTH> in[Samples];
#pragma unroll
        for (int k = 0; k < Samples; k++)
            in[k] = *reinterpret_cast<const Run<DEPTH> *>(source + (long long)k * it.channels);
        Element *target = it.to + ((image * it.channels + at.channel) * it.height + at.row) * it.width + at.column;
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            Run<2 * Samples> out;
#pragma unroll
            for (int k = 0; k < Samples; k++) {
                out.element[2 * k] = in[k].element[i];
                out.element[2 * k + 1] = 0;
            }
            for (int row = 0; row < rows; row++) {
                *reinterpret_cast<Run<2 * Samples> *>(target + ((long long)i * it.height + row) * it.width) = out;
                out = {};
            }
        }
    }
}

#define PAIRS(S)                                                                                                       \
    KERNEL(gather_pairs_##S, Sampling) { gather_pairs<S>(parameters); }                                                \
    KERNEL(scatter_pairs_##S, Sampling) { scatter_pairs<S>(parameters); }

PAIRS(1)
PAIRS(2)
#if ELEMENT_BYTES == 2
PAIRS(4)
#endif
