// Batch normalisation in inference (Ioffe and Szegedy, ICML 2015, algorithm 2, step 11), of a tensor in NCHW: of each
// channel y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with a mean and a variance that are given.
//
// Compiled as `forward.cu`; AHEAD is the vectors of a thread, which it reads at once. Grid: a block for each
// THREADS * AHEAD vectors of the tensor, and at least one. No dynamic shared memory.
#include "common/pause.cuh"
#include "norm/parameters.cuh"
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
    // A number for each channel. No scale is 1, and no bias is 0.
    const Parameter *scale, *bias, *mean, *variance;
    // Null, or where the mean and 1 / sqrt(variance + epsilon) go, as from a pass of training.
    float *saved_mean, *saved_inverse;
    float epsilon;
};

// What a channel's elements become: (x - mean) * scale + bias.
struct Channel {
    float mean, scale, bias;

    __device__ __forceinline__ static Channel of(const Inference &parameters, int channel) {
        const float deviation = sqrtf(as_float(parameters.variance[channel]) + parameters.epsilon);
        return {as_float(parameters.mean[channel]), number(parameters.scale, channel, 1) / deviation,
                number(parameters.bias, channel, 0)};
    }
    __device__ __forceinline__ Element y(Element x) const { return to_element(fmaf(to_float(x) - mean, scale, bias)); }
};

__device__ __forceinline__ Channel channel_of(const Inference &parameters, int plane) {
    const Divisor &channels = parameters.flat.channels;
    return Channel::of(parameters, plane - channels.quotient(plane) * channels.value);
}

// The elements of a block: from `begin` on, `count` of them, of planes from `first` to `last`.
struct Piece {
    int begin, count, first, last;

    __device__ __forceinline__ explicit Piece(const Flat &flat) {
        constexpr int MOST = AHEAD * THREADS * VECTOR;
        begin = int(blockIdx.x) * MOST;
        count = min(MOST, flat.elements - begin);
        first = flat.plane.quotient(begin);
        last = flat.plane.quotient(begin + count - 1);
    }
    // The thread's vector, of AHEAD; a vector that is not whole is none.
    __device__ __forceinline__ int vector(int i) const { return i * THREADS + int(threadIdx.x); }
    __device__ __forceinline__ bool has(int vector) const { return vector < count / VECTOR; }
    __device__ __forceinline__ int element(int vector) const { return begin + vector * VECTOR; }
};

// Keeps what a pass of training would keep. The threads of all blocks share out the channels.
__device__ __forceinline__ void save(const Inference &parameters) {
    if (!parameters.saved_mean) return;
    const int threads = int(gridDim.x) * THREADS;
    for (int channel = int(blockIdx.x) * THREADS + int(threadIdx.x); channel < parameters.flat.channels.value; channel += threads) {
        parameters.saved_mean[channel] = as_float(parameters.mean[channel]);
        parameters.saved_inverse[channel] = 1 / sqrtf(as_float(parameters.variance[channel]) + parameters.epsilon);
    }
}

// IS_WHOLE: each vector is of one plane.
template <bool IS_WHOLE> __device__ __forceinline__ void infer(const Inference &parameters) {
    STATIC_SHARED(Channel, channels, [THREADS]); // of the piece's planes
    const Flat &flat = parameters.flat;
    const Piece piece(flat);
    const int plane = flat.plane.value, planes = piece.last - piece.first + 1;
    const uint4 *const x = parameters.x + piece.begin / VECTOR;
    uint4 *const y = parameters.y + piece.begin / VECTOR;
    Vector its_x[AHEAD], its_y;
    save(parameters);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (piece.has(piece.vector(i))) its_x[i].all = x[piece.vector(i)];
    if (planes <= THREADS && plane >= VECTOR) {
        // All threads need few channels: each is made once. A vector has elements of one or two.
        if (int(threadIdx.x) < planes) channels[threadIdx.x] = channel_of(parameters, piece.first + int(threadIdx.x));
        barrier();
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int vector = piece.vector(i), element = piece.element(vector);
            if (!piece.has(vector)) continue;
            const int at = flat.plane.quotient(element), rest = plane - (element - at * plane);
            const Channel &first = channels[at - piece.first], &second = channels[min(at + 1, piece.last) - piece.first];
#pragma unroll
            for (int e = 0; e < VECTOR; e++) its_y.each[e] = (IS_WHOLE || e < rest ? first : second).y(its_x[i].each[e]);
            y[vector] = its_y.all;
        }
    } else {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int vector = piece.vector(i), element = piece.element(vector);
            if (!piece.has(vector)) continue;
#pragma unroll
            for (int e = 0; e < VECTOR; e++)
                its_y.each[e] = channel_of(parameters, flat.plane.quotient(element + e)).y(its_x[i].each[e]);
            y[vector] = its_y.all;
        }
    }
    // The elements behind the tensor's last whole vector.
    const int behind = piece.count / VECTOR * VECTOR + int(threadIdx.x);
    if (behind < piece.count) {
        const Channel channel = channel_of(parameters, flat.plane.quotient(piece.begin + behind));
        reinterpret_cast<Element *>(y)[behind] = channel.y(reinterpret_cast<const Element *>(x)[behind]);
    }
}

// Planes of whole vectors.
KERNEL(infer_whole, Inference) { infer<true>(parameters); }

// Planes that begin and end anywhere in a vector.
KERNEL(infer_uneven, Inference) { infer<false>(parameters); }
