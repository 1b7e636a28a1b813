// Group normalisation, forward (Wu and He, ECCV 2018, section 3.1), of a tensor in NCHW: of each group of an image
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and the variance of the group's elements, and
// with a weight and a bias for each channel.
//
// A cluster has a group, as it has a channel in `forward.cu`, and reads it once where it fits into the shared memory of
// 16 blocks; what does not fit is read again, often from the L2 cache. Two launches, one for the moments and one for the
// result, would read all groups twice, and gain only where the clusters of a tensor's few groups do not fill the device.
//
// Compiled as `forward.cu`. Grid: a cluster of `shape.blocks` blocks for each group of each image. Dynamic shared memory:
// `shape.resident` vectors, and an Exchange<Sums>.
#include "common/pause.cuh"
#include "norm/groups.cuh"
#include "norm/moments.cuh"

struct GroupForward {
    Shape shape;
    Groups groups;
    const uint4 *x;
    uint4 *y;
    // Null, which is 1 and 0, or a number for each channel.
    const Parameter *weight, *bias;
    // A number for each group of each image.
    Parameter *saved_mean, *saved_inverse;
    double epsilon;
};

// What a group's elements become: (x - mean) * inverse * weight + bias.
struct Group {
    // The mean in float, and what rounding took from it. Far from 0, it matters to deviations.
    float mean, rest, inverse;
    const Parameter *weight, *bias;

    __device__ __forceinline__ float scale(int channel) const { return number(weight, channel, 1) * inverse; }
    __device__ __forceinline__ float shift(int channel, float scale) const {
        return fmaf(-rest, scale, number(bias, channel, 0));
    }
    __device__ __forceinline__ float y(float x, float scale, float shift) const { return fmaf(x - mean, scale, shift); }
};

__device__ __forceinline__ Group finished(const GroupForward &parameters, float origin, const Sums &sums) {
    const Shape &shape = parameters.shape;
    const auto [mean, squares, inverse] = statistics(shape, origin, sums, parameters.epsilon);
    if (shape.block() == 0 && threadIdx.x == 0) {
        keep(parameters.saved_mean, shape.channel(), float(mean));
        keep(parameters.saved_inverse, shape.channel(), float(inverse));
    }
    const float its_mean = float(mean);
    return {its_mean, float(mean - its_mean), float(inverse), parameters.weight, parameters.bias};
}

template <bool IS_WHOLE> __device__ __forceinline__ void normalize(const GroupForward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<1, IS_WHOLE> sweep(shape, memory, parameters.x);
    auto &exchange = *reinterpret_cast<Exchange<Sums> *>(memory + shape.resident);
    exchange.begin(shape);
    const Element *const x = reinterpret_cast<const Element *>(parameters.x);
    const float origin = to_float(x[(long long)shape.channel() * shape.plane]);
    Sums sums = Sums::none();
    sweep.read_all([&](const Vectors<1> &x, const Part &part) { sums.add(x.of[0], origin, part); });
    const Group its = finished(parameters, origin, exchange.channel_total(shape, sums));
    const Channels<IS_WHOLE> channels(parameters.groups, shape, sweep.rows.before);
    sweep.write_all(parameters.y, [&](const Vectors<1> &x, int vector) {
        Vector y;
        float scale, shift;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            if (i == 0 || !IS_WHOLE) {
                const int channel = channels.of(vector, i);
                scale = its.scale(channel);
                shift = its.shift(channel, scale);
            }
            y.each[i] = to_element(its.y(to_float(x.of[0].each[i]), scale, shift));
        }
        return y;
    });
}

// Planes of whole vectors.
KERNEL(normalize_groups_whole, GroupForward) {
    SHARED(Vector, memory);
    normalize<true>(parameters, memory);
}

// Planes that begin and end anywhere in a vector.
KERNEL(normalize_groups_uneven, GroupForward) {
    SHARED(Vector, memory);
    normalize<false>(parameters, memory);
}
