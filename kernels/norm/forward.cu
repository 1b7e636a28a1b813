// Batch normalisation in training, forward (Ioffe and Szegedy, ICML 2015, algorithm 1), of a tensor in NCHW: of each
// channel y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with the mean and the variance of its elements.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16; THREADS; MULTIPROCESSOR_BLOCKS; and AHEAD, the vectors
// that a thread reads at once if they are not resident. Grid: a cluster of `shape.blocks` blocks for each
// channel. Dynamic shared memory: `shape.resident` vectors, and an Exchange<Moments>.
#include "norm/moments.cuh"
#include "norm/totals.cuh"

struct Forward {
    Shape shape;
    const uint4 *x;
    uint4 *y;
    const float *scale, *bias;
    // Null, or a number for each channel.
    float *running_mean, *running_variance, *saved_mean, *saved_inverse;
    // Running statistics become old * rest + new * factor.
    float epsilon, factor, rest;
};

// What a channel's elements become: (x - mean) * scale + bias.
struct Channel {
    float mean, scale, bias;

    __device__ __forceinline__ float y(float x) const { return fmaf(x - mean, scale, bias); }
};

__device__ __forceinline__ Channel finished(const Forward &parameters, const Moments &moments) {
    const int channel = parameters.shape.channel();
    const float inverse = 1 / sqrtf(moments.squares / moments.count + parameters.epsilon);
    if (parameters.shape.block() == 0 && threadIdx.x == 0) {
        const float factor = parameters.factor, rest = parameters.rest;
        if (parameters.saved_mean) parameters.saved_mean[channel] = moments.mean;
        if (parameters.saved_inverse) parameters.saved_inverse[channel] = inverse;
        // An old NaN stays even if the factor is 1, as cuDNN's does.
        if (parameters.running_mean) {
            float &mean = parameters.running_mean[channel];
            mean = mean * rest + moments.mean * factor;
        }
        if (parameters.running_variance) {
            float &variance = parameters.running_variance[channel];
            variance = variance * rest + moments.squares / (moments.count - 1) * factor;
        }
    }
    return {moments.mean, parameters.scale[channel] * inverse, parameters.bias[channel]};
}

template <bool IS_WHOLE> __device__ __forceinline__ void normalize(const Forward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<1, IS_WHOLE> sweep(shape, memory, parameters.x);
    auto &exchange = *reinterpret_cast<Exchange<Moments> *>(memory + shape.resident);
    exchange.begin(shape);
    Differences sums;
    sweep.read_all([&](const Vectors<1> &x, const Part &part) {
        if (sums.count == 0) sums.origin = to_float(first(x.of[0], part));
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const float value = to_float(x.of[0].each[i]);
            sums.add(part.has(i) ? value : sums.origin);
        }
        sums.count += part.elements();
    });
    const Channel its = finished(parameters, exchange.channel_total(shape, sums.moments()));
    sweep.write_all(parameters.y, [&](const Vectors<1> &x) {
        Vector y;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) y.each[i] = to_element(its.y(to_float(x.of[0].each[i])));
        return y;
    });
}

// Planes of whole vectors.
KERNEL(normalize_whole, Forward) {
    SHARED(Vector, memory);
    normalize<true>(parameters, memory);
}

// Planes that begin and end anywhere in a vector.
KERNEL(normalize_uneven, Forward) {
    SHARED(Vector, memory);
    normalize<false>(parameters, memory);
}
