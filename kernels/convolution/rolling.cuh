// Going through volumes slice by slice, for kernels that read each slice once: strips of neighbouring pixels, whose lines
// two warpgroups read into shared memory while two others multiply. A source defines BLOCK_THREADS of 512, KINDS_OF_WARPS
// and LINE_NUMBERS before it includes this.
#pragma once

#include "common/stage_ring.cuh"
#include "convolution/lines.cuh"

// The threads that multiply come first, then those that read.
constexpr int MULTIPLIERS = 2 * WARPGROUP, READERS = BLOCK_THREADS - MULTIPLIERS, MULTIPLYING_WARPS = MULTIPLIERS / 32;
// The pixels of a strip.
constexpr int TILE = 256;
// The groups that a thread reads at once, as many as fit into registers, and those that all threads read.
constexpr int TOGETHER = ACCESS == GROUP ? 2 : 1, SOURCES = READERS / QUADS;

// The slices of a strip that a block goes through.
struct Run {
    int volume, first, begin, end;

    // Those from number `unit` of all strips' slices on, and before `last`.
    __device__ __forceinline__ Run(const Images &images, int strips, int unit, int last)
        : volume(unit / images.depth / strips), first(unit / images.depth % strips * TILE),
          begin(unit % images.depth), end(min(begin + last - unit, images.depth)) {}
};

// A slice as an image of its own, of rows that have `width` pixels with their zeros.
__device__ __forceinline__ Padded slice_of(const Images &images, int width) {
    return Padded(Images{1, images.height, images.width, images.depth}, width);
}

__device__ __forceinline__ void clear(unsigned char *memory, int bytes) {
    for (int i = int(threadIdx.x) * PIECE_BYTES; i < bytes; i += BLOCK_THREADS * PIECE_BYTES)
        *reinterpret_cast<uint4 *>(memory + i) = {0, 0, 0, 0};
}

// Makes the sources of a slice's pixels that have lines, which begin with the slice's pixel `first`, and returns their
// number. All threads come here.
__device__ __forceinline__ int make_sources(const Padded &padded, int channels, int first, int lines, Source *sources) {
    const int begin = padded.group(first), count = padded.group(first + lines - 1) - begin + 1;
    for (int i = threadIdx.x; i < count; i += BLOCK_THREADS)
        sources[i] = Source(padded, Group(padded.images, begin + i), channels, first, lines);
    return count;
}

// Calls work(run) for the runs of a part of all strips' slices.
template <typename Work>
__device__ __forceinline__ void for_runs_of(const Images &images, const Padded &padded, int part, int parts, Work work) {
    const int strips = tiles_of(images.height * padded.width, TILE), all = images.count * strips;
    const int share = tiles_of(all, parts), begin = min(part * share, all), end = min(begin + share, all);
    for (int unit = begin; unit < end;) {
        const Run run(images, strips, unit, end);
        work(run);
        unit += run.end - run.begin;
    }
}

// A thread reads its part of a slice of a tensor of `channels` channels, from channel `first` on, and calls wait()
// before it calls write(source, quad, piece) for each piece. Zeros are in place of what is not there.
template <typename Wait, typename Write>
__device__ __forceinline__ void read_slice(const Element *tensor, const Images &images, int channels, int first,
                                           int volume, int slice, const Source *sources, int groups, Wait wait,
                                           Write write) {
    const Quad its(int(threadIdx.x) - MULTIPLIERS);
    const int channel = first + its.quad * CHANNELS;
    const int at = (volume * channels + channel) * images.channel() + slice * images.pixels();
    const bool is_there = channel < channels && images.has_slice(slice);
    bool has_waited = false;
    for (int round = its.group; round < groups; round += TOGETHER * SOURCES) {
        Piece pieces[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int source = round + i * SOURCES;
            if (source >= groups || !is_there)
                pieces[i].clear();
            else
                read_channels(tensor, images, channels, at + sources[source].place, sources[source].count, pieces[i]);
        }
        if (!has_waited) wait();
        has_waited = true;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int source = round + i * SOURCES;
            if (source < groups) write(sources[source], its.quad, pieces[i]);
        }
    }
    // A thread with no groups waits, too.
    if (!has_waited) wait();
}
