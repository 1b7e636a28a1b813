// Batch normalisation in training, backward (Ioffe and Szegedy, ICML 2015, section 3), of a tensor in NCHW: of each
// channel, over its n elements, with x' = (x - mean) * inverse,
//
//     dbias = sum dy,  dscale = sum dy x',  dx = scale * inverse * (dy - dbias / n - x' * dscale / n).
//
// Compiled and launched as `forward.cu`; shared memory has `shape.resident` vectors of x, as many of dy, and an
// Exchange<Sums>.
#include "common/pause.cuh"
#include "norm/gradient_sums.cuh"
#include "norm/parameters.cuh"

struct Backward {
    Shape shape;
    const uint4 *x, *dy;
    uint4 *dx;
    // Null, which is 1, or a number for each channel.
    const Parameter *scale;
    const float *saved_mean, *saved_inverse;
    // Null where nobody asks for them.
    Parameter *dscale, *dbias;
};

// What a channel's elements become: scale * (dy - of_dy - (x - mean) * of_difference).
struct Channel {
    float mean, scale, of_dy, of_difference;

    __device__ __forceinline__ float dx(float x, float dy) const {
        return scale * (fmaf(mean - x, of_difference, dy) - of_dy);
    }
};

__device__ __forceinline__ Channel finished(const Backward &parameters, const Sums &sums) {
    const Shape &shape = parameters.shape;
    const int channel = shape.channel();
    const double inverse = parameters.saved_inverse[channel], part = part_of(shape);
    const double dscale = sums.product * inverse;
    if (shape.block() == 0 && threadIdx.x == 0) {
        keep(parameters.dscale, channel, float(dscale));
        keep(parameters.dbias, channel, float(sums.dy));
    }
    return {parameters.saved_mean[channel], float(number(parameters.scale, channel, 1) * inverse), float(sums.dy * part),
            float(dscale * inverse * part)};
}

template <bool IS_WHOLE> __device__ __forceinline__ void differentiate(const Backward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<2, IS_WHOLE> sweep(shape, memory, parameters.x, parameters.dy);
    auto &exchange = *reinterpret_cast<Exchange<Sums> *>(memory + 2 * shape.resident);
    exchange.begin(shape);
    const float mean = parameters.saved_mean[shape.channel()];
    Sums sums = Sums::none();
    sweep.read_all([&](const Vectors<2> &pair, const Part &part) { sums.add(pair.of[0], pair.of[1], mean, part); });
    const Channel its = finished(parameters, exchange.channel_total(shape, sums));
    sweep.write_all(parameters.dx, [&](const Vectors<2> &pair, int) {
        Vector dx;
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            dx.each[i] = to_element(its.dx(to_float(pair.of[0].each[i]), to_float(pair.of[1].each[i])));
        return dx;
    });
}

// Planes of whole vectors.
KERNEL(differentiate_whole, Backward) {
    SHARED(Vector, memory);
    differentiate<true>(parameters, memory);
}

// Planes that begin and end anywhere in a vector.
KERNEL(differentiate_uneven, Backward) {
    SHARED(Vector, memory);
    differentiate<false>(parameters, memory);
}
