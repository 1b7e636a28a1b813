// What is stored is float: nothing is rounded.
#pragma once

#include "device.cuh"

typedef float Element;

__device__ __forceinline__ float to_float(Element element) { return element; }
__device__ __forceinline__ Element to_element(float value) { return value; }
