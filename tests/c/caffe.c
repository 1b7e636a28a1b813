/* Asks for algorithms as Caffe 1.0 does, by the functions that cuDNN dropped in version 8. Built with `-include
 * ucudnn.h` and `-lucudnn`, and otherwise unchanged.
 *
 * caffe LIMIT    prints the workspace of each layer and direction: with none allowed, without a limit, within LIMIT
 * bytes */
#include "kernel.h"

#ifdef __cplusplus
#error "compiled as C"
#endif

enum { LAYERS = 3 };
static cudnnHandle_t handle;

static int ask(const Kernel *k, int preference, size_t limit) {
    int algorithm = -1;
    switch (k->shape.operation) {
        case BACKWARD_DATA:
            CALL(cudnnGetConvolutionBackwardDataAlgorithm(
                handle, k->w_descriptor, k->y_descriptor, k->convolution, k->x_descriptor,
                (cudnnConvolutionBwdDataPreference_t)preference, limit, &algorithm));
            break;
        case BACKWARD_FILTER:
            CALL(cudnnGetConvolutionBackwardFilterAlgorithm(
                handle, k->x_descriptor, k->y_descriptor, k->convolution, k->w_descriptor,
                (cudnnConvolutionBwdFilterPreference_t)preference, limit, &algorithm));
            break;
        default:
            CALL(cudnnGetConvolutionForwardAlgorithm(handle, k->x_descriptor, k->w_descriptor, k->convolution,
                                                     k->y_descriptor, (cudnnConvolutionFwdPreference_t)preference,
                                                     limit, &algorithm));
            break;
    }
    return algorithm;
}

int main(int count, char **arguments) {
    REQUIRE(count > 1, "caffe LIMIT");
    size_t limit = strtoull(arguments[1], NULL, 10);
    static const int preferences[] = {CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, CUDNN_CONVOLUTION_FWD_PREFER_FASTEST,
                                      CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT};
    CALL(cudnnCreate(&handle));
    for (int p = 0; p < 3; p++) {
        Kernel kernels[3 * LAYERS];
        int algorithms[3 * LAYERS];
        Guarded workspaces[3 * LAYERS];
        size_t most = preferences[p] == CUDNN_CONVOLUTION_FWD_NO_WORKSPACE             ? 0
                      : preferences[p] == CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT ? limit
                                                                                        : SIZE_MAX;
        for (int i = 0; i < 3 * LAYERS; i++) {
            Random random = {(uint64_t)i};
            /* A shape differs with the preference, so that all queries come before any of their problems has run. */
            Shape shape = shape_square((Operation)(i % 3), 12 + p, 8, 8 + i / 3, 8, 3, 1);
            kernel_open(&kernels[i], &shape, &random);
            algorithms[i] = ask(&kernels[i], preferences[p], limit);
            size_t bytes;
            CALL(kernel_workspace(handle, &kernels[i], algorithms[i], &bytes));
            REQUIRE(bytes <= most, "%zu bytes over %zu", bytes, most);
            printf("layer %d %d %zu\n", p, i, bytes);
            workspaces[i] = guarded_new(bytes);
        }
        for (int i = 0; i < 3 * LAYERS; i++) {
            for (int run = 0; run < 6; run++) {
                CALL(kernel_run(handle, &kernels[i], algorithms[i], &workspaces[i]));
                guarded_check(&workspaces[i], "the workspace");
                double error = kernel_error(&kernels[i]);
                REQUIRE(error <= kernel_tolerance(&kernels[i]), "layer %d is off by %g", i, error);
            }
            kernel_close(&kernels[i]);
            guarded_free(&workspaces[i]);
        }
    }
    int algorithm = -1;
    REQUIRE(cudnnGetConvolutionForwardAlgorithm(NULL, NULL, NULL, NULL, NULL, CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0,
                                                &algorithm) != CUDNN_STATUS_SUCCESS,
            "a null handle");
    REQUIRE(cudnnGetConvolutionForwardAlgorithm(handle, NULL, NULL, NULL, NULL, 7, 0, &algorithm) ==
                CUDNN_STATUS_BAD_PARAM,
            "an unknown preference");
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
