// A convolution of single places that strides reads only every few-th pixel. Here these are gathered from tensors that
// have their channels first into smaller ones that have them last, and back, with zeros for all others.
//
// Where every second pixel of a row is sampled, a thread takes some of them of a whole 16 bytes of channels in its
// registers; else a block takes a tile through shared memory.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. A grid
// of any height works on all images.

#define THREADS 256
#include "device.cuh"

#define WARPS (THREADS / 32)
#define PIXELS 32
#define CHANNELS 64

typedef ELEMENT Element;

// `height` × `width` pixels of an image, of which every `down`-th row and in it every `right`-th pixel is sampled.
struct Sampling {
    const Element *from;
    Element *to;
    int images, channels, height, width, down, right;
};

// The block's first sample and its first channel, and how many samples there are.
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

// So many elements, moved in one access.
template <int N> struct alignas(N * sizeof(Element)) Run {
    Element element[N];
};

#define DEPTH int(16 / sizeof(Element))

// A thread's first channel and its first sample, of `Samples` that lie in one row; and where these stand in an image.
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
