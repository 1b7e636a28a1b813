// A convolution of single places that strides reads only every few-th pixel. Here these are gathered from tensors that
// have their channels first into smaller ones that have them last, and back, with zeros for all others.
//
// Compiled with ELEMENT defined: unsigned short for elements of 2 bytes, unsigned for those of 4. A block works on a tile
// of pixels and channels, in all the images that a grid of any height leaves it.

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
