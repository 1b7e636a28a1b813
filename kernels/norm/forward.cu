// Batch normalisation in training, forward (Ioffe and Szegedy, ICML 2015, algorithm 1), of a tensor in NCHW: of each
// channel y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with the mean and the variance of its elements.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16; THREADS; MULTIPROCESSOR_BLOCKS; and AHEAD, the vectors
// that a thread reads at once if they are not resident. Grid: a cluster of `shape.blocks` blocks for each
// channel. Dynamic shared memory: `shape.resident` vectors, and an Exchange<Moments>.
#include "common/pause.cuh"
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

// Sums over a thread's elements of their differences from `origin`, one of them.
struct Differences {
    float origin = 0, sum = 0, squares = 0;
    int count = 0;

    __device__ __forceinline__ void add(const Vector &x, const Part &part) {
        if (count == 0) origin = to_float(first(x, part));
        float differences[VECTOR], its_squares = 0;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            differences[i] = part.has(i) ? to_float(x.each[i]) - origin : 0;
            its_squares = fmaf(differences[i], differences[i], its_squares);
        }
        sum += sum_in_pairs(differences);
        squares += its_squares;
        count += part.elements();
    }
};

// What a channel's elements become: (x - mean) * scale + bias.
struct Channel {
    float mean, scale, bias;

    __device__ __forceinline__ float y(float x) const { return fmaf(x - mean, scale, bias); }
};

__device__ __forceinline__ Channel finished(const Forward &parameters, const Moments &moments) {
    const int channel = parameters.shape.channel();
    const float inverse = 1 / sqrtf(moments.squares / moments.count + parameters.epsilon);
    const float mean = moments.mean + moments.rest;
    if (parameters.shape.block() == 0 && threadIdx.x == 0) {
        const float factor = parameters.factor, rest = parameters.rest;
        if (parameters.saved_mean) parameters.saved_mean[channel] = mean;
        if (parameters.saved_inverse) parameters.saved_inverse[channel] = inverse;
        // An old NaN stays even if the factor is 1, as cuDNN's does.
        if (parameters.running_mean) {
            float &old = parameters.running_mean[channel];
            old = old * rest + mean * factor;
        }
        if (parameters.running_variance) {
            float &old = parameters.running_variance[channel];
            old = old * rest + moments.squares / (moments.count - 1) * factor;
        }
    }
    const float scale = parameters.scale[channel] * inverse;
    return {moments.mean, scale, fmaf(-moments.rest, scale, parameters.bias[channel])};
}

template <bool IS_WHOLE> __device__ __forceinline__ void normalize(const Forward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<1, IS_WHOLE> sweep(shape, memory, parameters.x);
    auto &exchange = *reinterpret_cast<Exchange<Moments> *>(memory + shape.resident);
    exchange.begin(shape);
    Differences sums;
    sweep.read_all([&](const Vectors<1> &x, const Part &part) { sums.add(x.of[0], part); });
    const Moments moments = Moments::of(float(sums.count), sums.origin, sums.sum, sums.squares);
    const Channel its = finished(parameters, exchange.channel_total(shape, moments));
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
