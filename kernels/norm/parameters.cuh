// Numbers for each channel that a program owns: the scale and the bias, the running statistics, and gradients. They are
// floats, or with PARAMETERS_AS_ELEMENTS of the tensor's type.
#pragma once

#include "common/ops.cuh"

#ifdef PARAMETERS_AS_ELEMENTS
typedef Element Parameter;
__device__ __forceinline__ float as_float(Parameter number) { return to_float(number); }
__device__ __forceinline__ Parameter as_parameter(float number) { return to_element(number); }
#else
typedef float Parameter;
__device__ __forceinline__ float as_float(Parameter number) { return number; }
__device__ __forceinline__ Parameter as_parameter(float number) { return number; }
#endif

// A channel's number, or another one if there are none.
__device__ __forceinline__ float number(const Parameter *of_channels, int channel, float otherwise) {
    return of_channels ? as_float(of_channels[channel]) : otherwise;
}

// Stores a channel's number if there is a place for it.
__device__ __forceinline__ void keep(Parameter *of_channels, int channel, float value) {
    if (of_channels) of_channels[channel] = as_parameter(value);
}
