// Batch normalisation in inference (Ioffe and Szegedy, ICML 2015, algorithm 2, step 11), of a tensor in NCHW: of each
// channel y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with a mean and a variance that are given.
//
// Compiled as `forward.cu`; AHEAD is the vectors of a thread, which it reads at once. Grid: a block for each
// THREADS * AHEAD vectors of the tensor, and at least one. No shared memory.
#include "common/pause.cuh"
#include "norm/planes.cuh"

// Twin of `Flat` in `crates/norm/src/shape.rs`: a tensor without gaps.
struct Flat {
    Divisor plane, channels;
    int elements;
};

struct Inference {
    Flat flat;
    const uint4 *x;
    uint4 *y;
    // A number for each channel.
    const float *scale, *bias, *mean, *variance;
    float epsilon;
};

// What a channel's elements become: (x - mean) * scale + bias.
struct Channel {
    float mean, scale, bias;

    __device__ __forceinline__ Channel(const Inference &parameters, int channel)
        : mean(parameters.mean[channel]),
          scale(parameters.scale[channel] / sqrtf(parameters.variance[channel] + parameters.epsilon)),
          bias(parameters.bias[channel]) {}
    __device__ __forceinline__ Element y(Element x) const { return to_element(fmaf(to_float(x) - mean, scale, bias)); }
};

// Where an element lies: its plane's channel, and how many elements of the plane come before it.
struct Place {
    int channel, before;

    __device__ __forceinline__ Place(const Flat &flat, int element) {
        const int plane = flat.plane.quotient(element);
        before = element - plane * flat.plane.value;
        channel = plane - flat.channels.quotient(plane) * flat.channels.value;
    }
    // Goes to the next element. Returns whether it is of another channel.
    __device__ __forceinline__ bool next(const Flat &flat) {
        if (++before < flat.plane.value) return false;
        before = 0;
        if (++channel == flat.channels.value) channel = 0;
        return true;
    }
};

__device__ __forceinline__ Vector normalized(const Inference &parameters, const Vector &x, int vector) {
    Place place(parameters.flat, vector * VECTOR);
    Channel its(parameters, place.channel);
    Vector y;
#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        y.each[i] = its.y(x.each[i]);
        if (i + 1 < VECTOR && place.next(parameters.flat)) its = Channel(parameters, place.channel);
    }
    return y;
}

KERNEL(infer, Inference) {
    const int vectors = parameters.flat.elements / VECTOR;
    const int first = int(blockIdx.x) * AHEAD * THREADS + int(threadIdx.x);
    Vector x[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (first + i * THREADS < vectors) x[i].all = parameters.x[first + i * THREADS];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        const int vector = first + i * THREADS;
        if (vector < vectors) parameters.y[vector] = normalized(parameters, x[i], vector).all;
    }
    // The elements behind the last whole vector.
    const int whole = vectors * VECTOR;
    if (first < parameters.flat.elements - whole) {
        const Channel its(parameters, Place(parameters.flat, whole + first).channel);
        reinterpret_cast<Element *>(parameters.y)[whole + first] =
            its.y(reinterpret_cast<const Element *>(parameters.x)[whole + first]);
    }
}
