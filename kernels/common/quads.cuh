// Four neighbouring elements, which are read at once.
#pragma once

#include "common/ops.cuh"

struct alignas(4 * sizeof(Element)) Quad {
    Element element[4];
};

__device__ __forceinline__ float4 in_float(const Quad &quad) {
    return make_float4(to_float(quad.element[0]), to_float(quad.element[1]), to_float(quad.element[2]),
                       to_float(quad.element[3]));
}
