// Batch normalisation in training, forward (Ioffe and Szegedy, ICML 2015, algorithm 1), of a tensor in NCHW: of each
// channel y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with the mean and the variance of its elements.
//
// Compiled with ELEMENT_FLOAT, ELEMENT_HALF or ELEMENT_BFLOAT16; PARAMETERS_AS_ELEMENTS or not; THREADS;
// MULTIPROCESSOR_BLOCKS; and AHEAD, the vectors that a thread reads at once if they are not resident. Grid: a cluster of `shape.blocks` blocks for each
// channel. Dynamic shared memory: `shape.resident` vectors, and an Exchange<Sums>.
#include "common/pause.cuh"
#include "norm/moments.cuh"
#include "norm/parameters.cuh"

struct Forward {
    Shape shape;
    const uint4 *x;
    uint4 *y;
    // Null, which is 1 and 0, or a number for each channel.
    const Parameter *scale, *bias;
    // Likewise; null is none.
    Parameter *running_mean, *running_variance;
    float *saved_mean, *saved_inverse;
    // Running statistics become old * (1 - factor) + new * factor.
    double epsilon, factor;
};

// What a channel's elements become: (x - mean) * scale + bias.
struct Channel {
    float mean, scale, bias;

    __device__ __forceinline__ float y(float x) const { return fmaf(x - mean, scale, bias); }
};

__device__ __forceinline__ Channel finished(const Forward &parameters, float origin, const Sums &sums) {
    const Shape &shape = parameters.shape;
    const int channel = shape.channel();
    const auto [mean, squares, inverse] = statistics(shape, origin, sums, parameters.epsilon);
    if (shape.block() == 0 && threadIdx.x == 0) {
        const double factor = parameters.factor, rest = 1 - factor;
        if (parameters.saved_mean) parameters.saved_mean[channel] = float(mean);
        if (parameters.saved_inverse) parameters.saved_inverse[channel] = float(inverse);
        // An old NaN stays even if the factor is 1, as cuDNN's does.
        Parameter *const running_mean = parameters.running_mean, *const running_variance = parameters.running_variance;
        const double unbiased = squares / (double(shape.images) * shape.plane - 1);
        keep(running_mean, channel, float(number(running_mean, channel, 0) * rest + mean * factor));
        keep(running_variance, channel, float(number(running_variance, channel, 0) * rest + unbiased * factor));
    }
    const double scale = number(parameters.scale, channel, 1) * inverse;
    // The bias takes what rounding takes from the mean. Far from 0, it matters to deviations.
    const float its_mean = float(mean);
    return {its_mean, float(scale), float(number(parameters.bias, channel, 0) - (mean - its_mean) * scale)};
}

template <bool IS_WHOLE> __device__ __forceinline__ void normalize(const Forward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<1, IS_WHOLE> sweep(shape, memory, parameters.x);
    auto &exchange = *reinterpret_cast<Exchange<Sums> *>(memory + shape.resident);
    exchange.begin(shape);
    const Element *const x = reinterpret_cast<const Element *>(parameters.x);
    const float origin = to_float(x[(long long)shape.channel() * shape.plane]);
    Sums sums = Sums::none();
    sweep.read_all([&](const Vectors<1> &x, const Part &part) { sums.add(x.of[0], origin, part); });
    const Channel its = finished(parameters, origin, exchange.channel_total(shape, sums));
    sweep.write_all(parameters.y, [&](const Vectors<1> &x, int) {
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
