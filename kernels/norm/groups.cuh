// Groups of channels. A group of an image is one run of elements, plane after plane: to `Shape` it is a channel of a
// tensor of one image.
#pragma once

#include "norm/parameters.cuh"
#include "norm/planes.cuh"

// Twin of `Groups` in `crates/norm/src/shape.rs`.
struct Groups {
    // The elements of a plane.
    Divisor plane;
    // The channels of a group, and the groups of an image.
    int channels, groups;
    int images;

    // The first channel of the block's group.
    __device__ __forceinline__ int first(const Shape &shape) const { return shape.channel() % groups * channels; }
};

// The channels of a group's elements, by their places in the group. IS_WHOLE: each vector is of one channel.
template <bool IS_WHOLE> struct Channels {
    const Divisor &plane;
    const int first, most, before;

    __device__ __forceinline__ Channels(const Groups &groups, const Shape &shape, int before)
        : plane(groups.plane), first(groups.first(shape)), most(groups.channels - 1), before(before) {}

    // Of an element of a vector. Elements of other groups may be in it: they get some channel of this one.
    __device__ __forceinline__ int of(int vector, int element) const {
        const int place = IS_WHOLE ? vector * VECTOR : max(vector * VECTOR + element - before, 0);
        return first + min(plane.quotient(place), most);
    }
};
