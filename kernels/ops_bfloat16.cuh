// What is stored is bfloat16, the upper half of a float; arithmetic is in float.
#pragma once

#include "device.cuh"

struct Element {
    unsigned short bits;
};

__device__ __forceinline__ float to_float(Element element) { return bfloat16_to_float(element.bits); }
__device__ __forceinline__ Element to_element(float value) { return {float_to_bfloat16(value)}; }
