// Group normalisation, backward (Wu and He, ECCV 2018), of a tensor in NCHW: of each group of an image, over its n
// elements, with x' = (x - mean) * inverse and g = dy * weight,
//
//     dx = inverse * (g - sum g / n - x' * sum g x' / n),
//
// and of each channel, over all images, dbias = sum dy and dweight = sum dy x'.
//
// A cluster has a group, as in `group_forward.cu`. Its warps share out the group's vectors, each a run of them, and
// take the channels in the run one after the other: so a warp adds up a channel's sums in registers, and stores them
// once where they end. A second, small launch adds up each channel's sums, in a fixed order.
//
// Compiled and launched as `group_forward.cu`; shared memory has `shape.resident` vectors of x, as many of dy, and an
// Exchange<Sums>.
#include "common/pause.cuh"
#include "norm/gradient_sums.cuh"
#include "norm/groups.cuh"

struct GroupBackward {
    Shape shape;
    Groups groups;
    const uint4 *x, *dy;
    uint4 *dx;
    // Null, which is 1, or a number for each channel.
    const Parameter *weight;
    // A number for each group of each image.
    const Parameter *saved_mean, *saved_inverse;
    // Null where nobody asks for them.
    Parameter *dweight, *dbias;
    // Of each group of each image, `sums_of_group` sums; null where nobody asks for the gradients of parameters. The
    // sums of a channel by a warp are at the channel's number in the group plus the warp's in the cluster.
    Sums *partial;
};

// How the warps of a cluster share out a group's vectors.
struct Runs {
    // The vectors of a block, and of a warp.
    int of_block, of_warp;

    __device__ __forceinline__ explicit Runs(const Shape &shape)
        : of_block(shape.share), of_warp((shape.share + WARPS - 1) / WARPS) {}

    // The warp's number in the cluster that has a vector.
    __device__ __forceinline__ int warp(int vector) const {
        const int block = vector / of_block;
        return block * WARPS + (vector - block * of_block) / of_warp;
    }
    // The last warps of a block may have no vectors.
    __device__ __forceinline__ bool has_any(int warp) const { return warp % WARPS * of_warp < of_block; }
};

__device__ __forceinline__ long long sums_of_group(const GroupBackward &parameters) {
    return parameters.groups.channels + parameters.shape.blocks * WARPS;
}

// The elements of a channel in its group's run: they begin in vector `begin`, and end before `end`.
struct Row {
    int first, last, begin, end;

    __device__ __forceinline__ Row(const Groups &groups, int before, int channel)
        : first(before + channel * groups.plane.value), last(first + groups.plane.value - 1), begin(first / VECTOR),
          end(last / VECTOR + 1) {}

    __device__ __forceinline__ Part part(int vector) const {
        unsigned bits = Part::WHOLE;
        if (vector == begin) bits &= Part::WHOLE << first % VECTOR;
        if (vector == end - 1) bits &= Part::WHOLE >> (VECTOR - 1 - last % VECTOR);
        return {bits};
    }
};

// What a group's elements become: inverse * (dy * weight - of_dy - (x - mean) * of_difference).
struct Group {
    float mean, inverse, of_dy, of_difference;

    __device__ __forceinline__ float dx(float x, float dy, float weight) const {
        return inverse * (fmaf(mean - x, of_difference, dy * weight) - of_dy);
    }
};

// The warp's part of a group's sums of g and of g * (x - mean). It stores those of channels, without their weights.
template <bool IS_WHOLE>
__device__ __forceinline__ Sums add_up(const GroupBackward &parameters, const Sweep<2, IS_WHOLE> &sweep, float mean) {
    const Shape &shape = parameters.shape;
    const Groups &groups = parameters.groups;
    const Runs runs(shape);
    const int before = IS_WHOLE ? 0 : sweep.rows.before, warp = shape.block() * WARPS + WARP, of_tensor = groups.first(shape);
    const int begin = sweep.rows.begin + int(WARP) * runs.of_warp, end = min(begin + runs.of_warp, sweep.rows.end);
    Sums total = Sums::none();
    if (begin >= end) return total;
    for (int channel = groups.plane.quotient(max(begin * VECTOR - before, 0)); channel < groups.channels; channel++) {
        const Row row(groups, before, channel);
        if (row.begin >= end) break;
        Sums sums = Sums::none();
        sweep.template read<32>(
            max(row.begin, begin) + int(LANE), min(row.end, end), [&](const Vectors<2> &pair, int vector) {
                sums.add(pair.of[0], pair.of[1], mean, IS_WHOLE ? Part{Part::WHOLE} : row.part(vector));
            });
        const double weight = number(parameters.weight, of_tensor + channel, 1);
        total.dy += weight * sums.dy;
        total.product += weight * sums.product;
        if (parameters.partial) {
            sums = joined_by_warp(sums);
            const long long first = shape.channel() * sums_of_group(parameters);
            if (LANE == 0) parameters.partial[first + channel + warp] = sums;
        }
    }
    return total;
}

template <bool IS_WHOLE> __device__ __forceinline__ void differentiate(const GroupBackward &parameters, Vector *memory) {
    const Shape &shape = parameters.shape;
    const Sweep<2, IS_WHOLE> sweep(shape, memory, parameters.x, parameters.dy);
    auto &exchange = *reinterpret_cast<Exchange<Sums> *>(memory + 2 * shape.resident);
    exchange.begin(shape);
    const float mean = as_float(parameters.saved_mean[shape.channel()]);
    const float inverse = as_float(parameters.saved_inverse[shape.channel()]);
    // A warp reads what other threads have copied.
    sweep.wait_for_all();
    const Sums sums = exchange.channel_total(shape, add_up(parameters, sweep, mean));
    const double part = part_of(shape), square = double(inverse) * inverse;
    const Group its{mean, inverse, float(sums.dy * part), float(sums.product * square * part)};
    const Channels<IS_WHOLE> channels(parameters.groups, shape, sweep.rows.before);
    sweep.write_all(parameters.dx, [&](const Vectors<2> &pair, int vector) {
        Vector dx;
        float weight;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            if (i == 0 || !IS_WHOLE) weight = number(parameters.weight, channels.of(vector, i), 1);
            dx.each[i] = to_element(its.dx(to_float(pair.of[0].each[i]), to_float(pair.of[1].each[i]), weight));
        }
        return dx;
    });
}

// Planes of whole vectors.
KERNEL(differentiate_groups_whole, GroupBackward) {
    SHARED(Vector, memory);
    differentiate<true>(parameters, memory);
}

// Planes that begin and end anywhere in a vector.
KERNEL(differentiate_groups_uneven, GroupBackward) {
    SHARED(Vector, memory);
    differentiate<false>(parameters, memory);
}

// The gradients of parameters. Grid: a warp for each channel.
KERNEL(differentiate_parameters, GroupBackward) {
    const Shape &shape = parameters.shape;
    const Groups &groups = parameters.groups;
    const Runs runs(shape);
    const int channel = int(blockIdx.x) * WARPS + int(WARP), of_group = channel % groups.channels;
    if (channel >= groups.groups * groups.channels) return;
    // The warps that may have elements of the channel, wherever in a vector the group begins.
    const int first = runs.warp(Row(groups, 0, of_group).begin);
    const int count = runs.warp(Row(groups, VECTOR - 1, of_group).end - 1) - first + 1;
    Sums total = Sums::none();
    for (int item = LANE; item < groups.images * count; item += 32) {
        const int image = item / count, warp = first + (item - image * count);
        const long long group = (long long)image * groups.groups + channel / groups.channels;
        const Row row(groups, int(group * shape.plane % VECTOR), of_group);
        if (warp < runs.warp(row.begin) || warp > runs.warp(row.end - 1) || !runs.has_any(warp)) continue;
        const Sums sums = parameters.partial[group * sums_of_group(parameters) + of_group + warp];
        total.dy += sums.dy;
        total.product += sums.product * as_float(parameters.saved_inverse[group]);
    }
    total = joined_by_warp(total);
    if (LANE != 0) return;
    keep(parameters.dweight, channel, float(total.product));
    keep(parameters.dbias, channel, float(total.dy));
}
