// The planes of a channel in a tensor as NCHW stores it, and lines of them in shared memory.
//
// Compiled with SLICES, those of each channel of an image.
#pragma once

#include "common/async_copy.cuh"
#include "common/ops.cuh"

// A tensor has fewer elements than an int counts.
struct ChannelPlanes {
    const Element *data;
    // The channels of the tensor, and this one.
    int channels, channel;
    int height, width;

    // The place of a plane, of this channel's in all images, among the tensor's.
    __device__ __forceinline__ int place(int plane) const {
        return (plane / SLICES * channels + channel) * SLICES + plane % SLICES;
    }
};

// What a block reads of some planes.
struct Window {
    // The first plane, and the planes that are there: the others are zeros.
    int first, count;
    // The first row and column, which may be beside the planes.
    int row, column;
};

// One of `lines` lines of each plane.
template <int lines> struct Line {
    int plane, row;

    // To the line so many further on.
    template <int count> __device__ __forceinline__ void advance() {
        plane += count / lines, row += count % lines;
        if (row >= lines) plane++, row -= lines;
    }
};

// Begins to copy lines of `planes` planes into shared memory, `lines` of `columns` numbers of each, with zeros beside
// a plane. There are `pitch` numbers from a line to the next, and `apart` lines from a plane to the next. Copies `piece`
// numbers at once: these are all in a plane, or all beside it. With `is_whole` no line has anything beside a plane, and
// planes that are not there are left out. A thread's pieces are in the same columns.
template <int lines, int columns, int pitch, int piece, int apart = lines, bool is_whole = false>
__device__ __forceinline__ void copy_lines(const ChannelPlanes &from, const Window &window, int planes, Element *to) {
    constexpr int PIECES = columns / piece, LINE_THREADS = PIECES < THREADS ? PIECES : THREADS;
    constexpr int AT_ONCE = THREADS / LINE_THREADS;
    const int number = int(threadIdx.x) % LINE_THREADS;
    Line<lines> first = {int(threadIdx.x) / LINE_THREADS / lines, int(threadIdx.x) / LINE_THREADS % lines};
    if (int(threadIdx.x) / LINE_THREADS >= AT_ONCE) return;
    if (is_whole && window.count < planes) planes = window.count;
#pragma unroll 1
    for (int column = number * piece; column < columns; column += LINE_THREADS * piece) {
        const int its_column = window.column + column;
        const bool has_column = unsigned(its_column) < unsigned(from.width);
        const auto is_there = [&](const Line<lines> &line) {
            if (is_whole) return true;
            return has_column && line.plane < window.count && unsigned(window.row + line.row) < unsigned(from.height);
        };
        const auto source = [&](const Line<lines> &line) {
            if (!is_there(line)) return from.data;
            const int place = from.place(window.first + line.plane) * from.height + window.row + line.row;
            return from.data + (place * from.width + its_column);
        };
        Line<lines> line = first;
        const auto place = [&](const Line<lines> &line) { return to + (line.plane * apart + line.row) * pitch + column; };
        if constexpr (piece > 1) {
#pragma unroll 1
            while (line.plane < planes) {
                copy_async<piece * sizeof(Element)>(place(line), source(line), is_there(line));
                line.template advance<AT_ONCE>();
            }
        } else {
            // No copy of 2 bytes is asynchronous: reads go out together.
            constexpr int READS = 4;
#pragma unroll 1
            while (line.plane < planes) {
                Element some[READS];
                Line<lines> its = line;
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    some[k] = its.plane < planes && is_there(its) ? *source(its) : Element{};
                    its.template advance<AT_ONCE>();
                }
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    if (line.plane < planes) *place(line) = some[k];
                    line.template advance<AT_ONCE>();
                }
            }
        }
    }
}

// Writes zeros into shared memory, in words.
__device__ __forceinline__ void clear(Element *from, int elements) {
    unsigned *const words = reinterpret_cast<unsigned *>(from);
    for (int i = threadIdx.x; i < elements / 2; i += THREADS) words[i] = 0;
}
