// The planes of a channel in a tensor as NCHW stores it, and lines of them in shared memory.
#pragma once

#include "common/async_copy.cuh"
#include "common/ops.cuh"

// A tensor has fewer elements than an int counts.
struct ChannelPlanes {
    const Element *data;
    // The channels of the tensor, and this one; the slices of each channel of an image.
    int channels, channel, slices;
    int height, width;

    // The place of a plane, of this channel's in all images, among the tensor's.
    __device__ __forceinline__ int place(int plane) const {
        const int image = slices == 1 ? plane : plane / slices;
        return (image * channels + channel) * slices + (plane - image * slices);
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
// A thread's pieces are in the same columns.
template <int lines, int columns, int pitch, int piece>
__device__ __forceinline__ void copy_lines(const ChannelPlanes &from, const Window &window, int planes, Element *to) {
    constexpr int PIECES = columns / piece, LINE_THREADS = PIECES < THREADS ? PIECES : THREADS;
    constexpr int AT_ONCE = THREADS / LINE_THREADS;
    const int first = int(threadIdx.x) / LINE_THREADS, number = int(threadIdx.x) % LINE_THREADS;
    if (first >= AT_ONCE) return;
#pragma unroll 1
    for (int column = number * piece; column < columns; column += LINE_THREADS * piece) {
        const int its_column = window.column + column;
        const bool has_column = its_column >= 0 && its_column < from.width;
        // The number in a line, or null beside its plane.
        const auto source = [&](int line) -> const Element * {
            const int plane = line / lines, row = window.row + line % lines;
            if (!has_column || plane >= window.count || row < 0 || row >= from.height) return nullptr;
            return from.data + ((from.place(window.first + plane) * from.height + row) * from.width + its_column);
        };
        if constexpr (piece > 1) {
#pragma unroll 1
            for (int line = first; line < planes * lines; line += AT_ONCE) {
                const Element *const place = source(line);
                copy_async<piece * sizeof(Element)>(to + line * pitch + column, place ? place : from.data, place);
            }
        } else {
            // No copy of 2 bytes is asynchronous: reads go out together.
            constexpr int READS = 4;
#pragma unroll 1
            for (int line = first; line < planes * lines; line += READS * AT_ONCE) {
                Element some[READS];
#pragma unroll
                for (int k = 0; k < READS; k++) {
                    const int at = line + k * AT_ONCE;
                    const Element *const place = at < planes * lines ? source(at) : nullptr;
                    some[k] = place ? *place : Element{};
                }
#pragma unroll
                for (int k = 0; k < READS; k++)
                    if (line + k * AT_ONCE < planes * lines) to[(line + k * AT_ONCE) * pitch + column] = some[k];
            }
        }
    }
}
