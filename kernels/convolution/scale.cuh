// Writing a sum, or adding it to what is there.
#pragma once

#include "common/ops.cuh"

// result = alpha · sum + beta · result, where a beta of 0 leaves the old result out.
__device__ __forceinline__ void scale_into(Element &result, float sum, float alpha, float beta) {
    sum *= alpha;
    result = to_element(beta == 0 ? sum : sum + beta * to_float(result));
}
