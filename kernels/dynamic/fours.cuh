// Four neighbours of a row at once, in the code that is made from vertex functions.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"

// Four neighbours of a row, in float.
struct Four {
    float number[4];

    __device__ __forceinline__ float &operator[](int k) { return number[k]; }
    __device__ __forceinline__ float operator[](int k) const { return number[k]; }
    __device__ __forceinline__ void operator+=(const Four &other);
};

template <typename Each> __device__ __forceinline__ void for_each_of_four(Each each) {
#pragma unroll
    for (int k = 0; k < 4; ++k) each(k);
}

__device__ __forceinline__ void Four::operator+=(const Four &other) {
    for_each_of_four([&](int k) { number[k] += other[k]; });
}

// The same in memory, of elements or of floats.
template <typename Number> struct alignas(4 * sizeof(Number)) FourInMemory {
    Number number[4];
};

// Arrays of floats are there whatever elements are.
template <typename Number> __device__ __forceinline__ float float_of(Number number) { return to_float(number); }
template <> __device__ __forceinline__ float float_of(float number) { return number; }
template <typename Number> __device__ __forceinline__ Number number_of(float value) { return to_element(value); }
template <> __device__ __forceinline__ float number_of(float value) { return value; }

// The host looks at the arrays' places.
template <typename Number> __device__ __forceinline__ void check_place(const Number *place) {
#ifdef EMULATED
    if (size_t(place) % sizeof(FourInMemory<Number>)) fail("four neighbours are read or written at a place that is not aligned");
#endif
}

template <typename Number> __device__ __forceinline__ Four four_at(const Number *from) {
    check_place(from);
    const FourInMemory<Number> its = *reinterpret_cast<const FourInMemory<Number> *>(from);
    Four four;
    for_each_of_four([&](int k) { four[k] = float_of(its.number[k]); });
    return four;
}

template <typename Number> __device__ __forceinline__ void set_four(Number *to, const Four &four) {
    check_place(to);
    FourInMemory<Number> its;
    for_each_of_four([&](int k) { its.number[k] = number_of<Number>(four[k]); });
    *reinterpret_cast<FourInMemory<Number> *>(to) = its;
}

__device__ __forceinline__ void add_four(float *to, const Four &four) {
    Four sum = four_at(to);
    sum += four;
    set_four(to, sum);
}
