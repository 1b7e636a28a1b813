// The planes of a channel in a tensor as NCHW stores it, and lines of them in shared memory. The sizes are parameters,
// so that images of many sizes share a kernel; what a thread divides by is a `Divisor`.
//
// With strides, rows form classes by the rest of their number by the stride. The lines of a plane's first class stand
// before those of its second. So the rows that neighbouring results read are neighbours, and begin in different banks.
//
// Compiled with VOLUMES if a channel of an image has several slices.
#pragma once

#include "common/async_copy.cuh"
#include "common/divisor.cuh"
#include "common/ops.cuh"

// A tensor has fewer elements than an int counts.
struct ChannelPlanes {
    const Element *data;
    // The channels of the tensor, and this one.
    int channels, channel;
    // The slices of each channel of an image.
    Divisor slices;
    int height, width;

    // The place of a plane, of this channel's in all images, among the tensor's.
    __device__ __forceinline__ int place(int plane) const {
#ifdef VOLUMES
        const int image = slices.divide(plane);
        return (image * channels + channel) * slices.value + plane;
#else
        return plane * channels + channel;
#endif
    }
};

// What a block reads of some planes.
struct Window {
    // The first plane, and the planes that are there: the others are zeros.
    int first, count;
    // The first row and column, which may be beside the planes.
    int row, column;
    // The number of the first row's line in the first class, among those of all classes.
    int line;
};

// How a block's threads share out lines of planes. Twin of the struct in `crates/convolution/src/engines/planes.rs`.
struct Lines {
    // The lines of a plane, and the numbers of a line.
    Divisor rows;
    int columns;
    // The numbers from a line to the next in shared memory, and the lines from a class to the next.
    int pitch, apart;
    // The threads that copy a line together, and the lines that a block copies at once.
    Divisor threads;
    int at_once;
    // From a thread's line to its next one: whole planes, and further lines.
    int planes_on, rows_on;
};

// A line of a plane.
struct Line {
    int plane, row;

    // To the thread's next line.
    __device__ __forceinline__ void advance(const Lines &lines) {
        plane += lines.planes_on, row += lines.rows_on;
        if (row >= lines.rows.value) plane++, row -= lines.rows.value;
    }
};

// Begins to copy lines of `planes` planes into shared memory, with zeros beside a plane, in `classes` classes each.
// Copies `piece` numbers at once: these are all in a plane, or all beside it. With `is_whole` no line has anything
// beside a plane, and planes that are not there are left out. A thread's pieces are in the same columns.
template <int piece, bool is_whole, int classes>
__device__ __forceinline__ void copy_lines(const ChannelPlanes &from, const Window &window, const Lines &lines,
                                           int planes, Element *to) {
    int number = threadIdx.x, row = lines.threads.divide(number);
    if (row >= lines.at_once) return;
    const int plane = lines.rows.divide(row);
    const Line first = {plane, row};
    if (is_whole && window.count < planes) planes = window.count;
#pragma unroll 1
    for (int column = number * piece; column < lines.columns; column += lines.threads.value * piece) {
        const int its_column = window.column + column;
        const bool has_column = unsigned(its_column) < unsigned(from.width);
        const auto is_there = [&](const Line &line) {
            if (is_whole) return true;
            const bool has_row = unsigned(window.row + line.row) < unsigned(from.height);
            return has_column && line.plane < window.count && has_row;
        };
        const auto source = [&](const Line &line) {
            if (!is_there(line)) return from.data;
            const int place = from.place(window.first + line.plane) * from.height + window.row + line.row;
            return from.data + (place * from.width + its_column);
        };
        Line line = first;
        const auto place = [&](const Line &line) {
            const unsigned row = line.row + window.line;
            const int its_class = line.plane * classes + row % classes;
            return to + (its_class * lines.apart + int(row / classes)) * lines.pitch + column;
        };
        if constexpr (piece > 1) {
#pragma unroll 1
            while (line.plane < planes) {
                copy_async<piece * sizeof(Element)>(place(line), source(line), is_there(line));
                line.advance(lines);
            }
        } else {
            // No copy of 2 bytes is asynchronous: reads go out together.
            constexpr int READS = 4;
#pragma unroll 1
            while (line.plane < planes) {
                Element some[READS];
                Line its = line;
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    some[k] = its.plane < planes && is_there(its) ? *source(its) : Element{};
                    its.advance(lines);
                }
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    if (line.plane < planes) *place(line) = some[k];
                    line.advance(lines);
                }
            }
        }
    }
}

// Writes zeros into shared memory, in words.
__device__ __forceinline__ void clear(Element *from, int elements) {
    unsigned *const words = reinterpret_cast<unsigned *>(from);
#pragma unroll 1
    for (int i = threadIdx.x; i < elements / 2; i += THREADS) words[i] = 0;
}
