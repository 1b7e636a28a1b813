// Numbers that are floats or elements: which of both, the host says.
#pragma once

#include "common/device.cuh"
#include "common/ops.cuh"

struct Numbers {
    void *first;
    int are_floats;

    __device__ __forceinline__ float get(size_t number) const {
        return are_floats ? static_cast<const float *>(first)[number] : to_float(static_cast<const Element *>(first)[number]);
    }
    __device__ __forceinline__ void set(size_t number, float value) const {
        if (are_floats) {
            static_cast<float *>(first)[number] = value;
        } else {
            static_cast<Element *>(first)[number] = to_element(value);
        }
    }
};
