/* cuDNN's queries and calls of all directions under one name. */
#include "kernel.h"

#define FWD(results) (results)
#define BWD_DATA(results) ((cudnnConvolutionBwdDataAlgoPerf_t *)(void *)(results))
#define BWD_FILTER(results) ((cudnnConvolutionBwdFilterAlgoPerf_t *)(void *)(results))

cudnnStatus_t kernel_get(cudnnHandle_t handle, const Kernel *k, int requested, int *returned, Perf *results) {
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, k->w_descriptor, k->y_descriptor,
                                                               k->convolution, k->x_descriptor, requested, returned,
                                                               BWD_DATA(results));
        case BACKWARD_FILTER:
            return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, k->x_descriptor, k->y_descriptor,
                                                                 k->convolution, k->w_descriptor, requested, returned,
                                                                 BWD_FILTER(results));
        default:
            return cudnnGetConvolutionForwardAlgorithm_v7(handle, k->x_descriptor, k->w_descriptor, k->convolution,
                                                          k->y_descriptor, requested, returned, FWD(results));
    }
}

cudnnStatus_t kernel_find(cudnnHandle_t handle, const Kernel *k, int requested, int *returned, Perf *results) {
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            return cudnnFindConvolutionBackwardDataAlgorithm(handle, k->w_descriptor, k->y_descriptor, k->convolution,
                                                             k->x_descriptor, requested, returned, BWD_DATA(results));
        case BACKWARD_FILTER:
            return cudnnFindConvolutionBackwardFilterAlgorithm(handle, k->x_descriptor, k->y_descriptor,
                                                               k->convolution, k->w_descriptor, requested, returned,
                                                               BWD_FILTER(results));
        default:
            return cudnnFindConvolutionForwardAlgorithm(handle, k->x_descriptor, k->w_descriptor, k->convolution,
                                                        k->y_descriptor, requested, returned, FWD(results));
    }
}

cudnnStatus_t kernel_find_ex(cudnnHandle_t handle, const Kernel *k, const Guarded *workspace, int requested,
                             int *returned, Perf *results) {
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            return cudnnFindConvolutionBackwardDataAlgorithmEx(
                handle, k->w_descriptor, k->w.start, k->y_descriptor, k->y.start, k->convolution, k->x_descriptor,
                k->x.start, requested, returned, BWD_DATA(results), workspace->start, workspace->bytes);
        case BACKWARD_FILTER:
            return cudnnFindConvolutionBackwardFilterAlgorithmEx(
                handle, k->x_descriptor, k->x.start, k->y_descriptor, k->y.start, k->convolution, k->w_descriptor,
                k->w.start, requested, returned, BWD_FILTER(results), workspace->start, workspace->bytes);
        default:
            return cudnnFindConvolutionForwardAlgorithmEx(
                handle, k->x_descriptor, k->x.start, k->w_descriptor, k->w.start, k->convolution, k->y_descriptor,
                k->y.start, requested, returned, FWD(results), workspace->start, workspace->bytes);
    }
}

cudnnStatus_t kernel_workspace(cudnnHandle_t handle, const Kernel *k, int algorithm, size_t *bytes) {
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, k->w_descriptor, k->y_descriptor,
                                                                k->convolution, k->x_descriptor, algorithm, bytes);
        case BACKWARD_FILTER:
            return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, k->x_descriptor, k->y_descriptor,
                                                                  k->convolution, k->w_descriptor, algorithm, bytes);
        default:
            return cudnnGetConvolutionForwardWorkspaceSize(handle, k->x_descriptor, k->w_descriptor, k->convolution,
                                                           k->y_descriptor, algorithm, bytes);
    }
}

cudnnStatus_t kernel_call(cudnnHandle_t handle, const Kernel *k, const void *alpha, const void *beta, int algorithm,
                          const Guarded *workspace) {
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            return cudnnConvolutionBackwardData(handle, alpha, k->w_descriptor, k->w.start, k->y_descriptor,
                                                k->y.start, k->convolution, algorithm, workspace->start,
                                                workspace->bytes, beta, k->x_descriptor, k->x.start);
        case BACKWARD_FILTER:
            return cudnnConvolutionBackwardFilter(handle, alpha, k->x_descriptor, k->x.start, k->y_descriptor,
                                                  k->y.start, k->convolution, algorithm, workspace->start,
                                                  workspace->bytes, beta, k->w_descriptor, k->w.start);
        case FUSED:
            return cudnnConvolutionBiasActivationForward(
                handle, alpha, k->x_descriptor, k->x.start, k->w_descriptor, k->w.start, k->convolution, algorithm,
                workspace->start, workspace->bytes, beta, k->z_descriptor, k->shape.z_apart ? k->z.start : k->y.start,
                k->bias_descriptor, k->bias.start, k->activation, k->y_descriptor, k->y.start);
        default:
            return cudnnConvolutionForward(handle, alpha, k->x_descriptor, k->x.start, k->w_descriptor, k->w.start,
                                           k->convolution, algorithm, workspace->start, workspace->bytes, beta,
                                           k->y_descriptor, k->y.start);
    }
}

cudnnStatus_t kernel_run(cudnnHandle_t handle, Kernel *k, int algorithm, const Guarded *workspace) {
    float small[2] = {(float)k->shape.alpha, (float)k->shape.beta};
    double large[2] = {k->shape.alpha, k->shape.beta};
    int is_double = k->shape.type == CUDNN_DATA_DOUBLE;
    const void *alpha = is_double ? (void *)&large[0] : (void *)&small[0];
    const void *beta = is_double ? (void *)&large[1] : (void *)&small[1];
    kernel_restore(k);
    return kernel_call(handle, k, alpha, beta, algorithm, workspace);
}
