// Adding up sums of parts of the pixels, which stand one after the other in the workspace, in the parts' order.
#pragma once

#include "convolution/scale.cuh"

struct Sum {
    const float *sums;
    Element *dw;
    int elements, count;
    float alpha, beta;
};

// Adds up all `count` sums into dw.
KERNEL(sum_up, Sum) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= parameters.elements) return;
    float sum = 0;
#pragma unroll 8
    for (int which = 0; which < parameters.count; which++)
        sum += parameters.sums[(long long)which * parameters.elements + i];
    scale_into(parameters.dw[i], sum, parameters.alpha, parameters.beta);
}
