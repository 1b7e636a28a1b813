// The planes of a channel in a tensor as NCHW stores it, and lines of them in shared memory.
#pragma once

#include "common/async_copy.cuh"
#include "common/ops.cuh"

struct ChannelPlanes {
    const Element *data;
    // The channels of the tensor, and this one; the slices of each channel of an image.
    int channels, channel, slices;
    int height, width;

    // The place of a plane, of this channel's in all images, among the tensor's.
    __device__ __forceinline__ long long place(int plane) const {
        const int image = slices == 1 ? plane : plane / slices;
        return ((long long)image * channels + channel) * slices + (plane - image * slices);
    }
    // Null beside a plane.
    __device__ __forceinline__ const Element *at(int plane, int row, int column) const {
        if (row < 0 || row >= height || column < 0 || column >= width) return nullptr;
        return data + (place(plane) * height + row) * width + column;
    }
};

// What a block reads of some planes.
struct Window {
    // The first plane, and the planes that are there: the others are zeros.
    int first, count;
    // The first row and column, which may be beside the planes.
    int row, column;
};

// Begins to copy lines of `planes` planes into shared memory, `lines` of `columns` numbers of each, with zeros beside
// a plane; `pitch` from a line to the next. Copies `piece` numbers at once: these are all in a plane, or all beside it.
template <int lines, int columns, int pitch, int piece>
__device__ __forceinline__ void copy_lines(const ChannelPlanes &from, const Window &window, int planes, Element *to) {
    constexpr int PIECES = columns / piece;
    const int pieces = planes * lines * PIECES;
    const auto place = [&](int i) { return to + i / PIECES * pitch + i % PIECES * piece; };
    const auto source = [&](int i) -> const Element * {
        const int line = i / PIECES, plane = line / lines;
        if (plane >= window.count) return nullptr;
        return from.at(window.first + plane, window.row + line % lines, window.column + i % PIECES * piece);
    };
    if constexpr (piece > 1) {
#pragma unroll 1
        for (int i = threadIdx.x; i < pieces; i += THREADS) {
            const Element *const its = source(i);
            copy_async<piece * sizeof(Element)>(place(i), its ? its : from.data, its);
        }
    } else {
        // No copy of 2 bytes is asynchronous: reads go out together.
        constexpr int AT_ONCE = 4;
        for (int begin = threadIdx.x; begin < pieces; begin += AT_ONCE * THREADS) {
            Element some[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                const int i = begin + k * THREADS;
                const Element *const its = i < pieces ? source(i) : nullptr;
                some[k] = its ? *its : Element{};
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (begin + k * THREADS < pieces) *place(begin + k * THREADS) = some[k];
        }
    }
}
