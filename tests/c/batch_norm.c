/* Random batch normalizations in training, forward and backward, and in inference, by all five functions: calls that our
 * kernels take, and calls that they leave to cuDNN. Every number that is in memory afterwards is a line; so is every status.
 *
 * batch_norm SEED CALLS */
#include <cudnn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

static uint64_t state;

static unsigned below(unsigned most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % most);
}

static float uniform(void) { return (float)below(1u << 20) / (1u << 19) - 1; }

/* Floats between guards, aligned to 64 bytes; `off` floats further if the call shall be unaligned. */
static float *floats(size_t count, int off) {
    float *memory = aligned_alloc(64, ((count + 2 * GUARD + 32) * sizeof(float) + 63) / 64 * 64);
    if (!memory) exit(2);
    for (size_t i = 0; i < count + 2 * GUARD + 32; i++) memory[i] = 12345;
    return memory + GUARD + off;
}

static void print(const char *name, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) printf("%s %.9g\n", name, values[i]);
    for (size_t i = 1; i <= 8; i++)
        if (values[-(long)i] != 12345 || values[count + i - 1] != 12345) printf("%s is written outside\n", name);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    state = strtoull(arguments[1], NULL, 10);
    const int calls = atoi(arguments[2]);
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t tensor, parameters;
    if (cudnnCreate(&handle) || cudnnCreateTensorDescriptor(&tensor) || cudnnCreateTensorDescriptor(&parameters))
        return 2;
    for (int call = 0; call < calls; call++) {
        /* Channels in fours are whole vectors; others are cuDNN's. Every fifth tensor has its channels last. */
        const int planes[] = {1, 2, 3, 4, 5, 7, 8, 9, 14};
        const int n = 1 + (int)below(5), c = 1 + (int)below(9), h = planes[below(9)], w = planes[below(9)];
        const int is_last = below(5) == 0, is_3d = below(4) == 0, off = below(7) == 0;
        const int dims[] = {n, c, 1, h, w}, of_parameters[] = {1, c, 1, 1, 1};
        const int first[] = {c * h * w, h * w, h * w, w, 1}, last[] = {c * h * w, 1, c * h * w, w * c, c};
        int own_dims[5], own_strides[5], rank = 0;
        for (int axis = 0; axis < 5; axis++) {
            if (axis == 2 && !is_3d) continue;
            own_dims[rank] = dims[axis];
            own_strides[rank++] = (is_last ? last : first)[axis];
        }
        int strides[5];
        for (int axis = rank - 1, stride = 1; axis >= 0; axis--) {
            const int its[] = {1, c, 1, 1, 1};
            strides[axis] = stride;
            stride *= its[axis];
        }
        /* cuDNN refuses parameters that are not packed. */
        if (below(6) == 0) strides[1] *= 2;
        if (cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, rank, own_dims, own_strides) ||
            cudnnSetTensorNdDescriptor(parameters, CUDNN_DATA_FLOAT, rank, of_parameters, strides))
            return 2;
        const size_t size = (size_t)n * c * h * w;
        float *x = floats(size, off), *y = floats(size, off), *dy = floats(size, off), *dx = floats(size, off);
        float *scale = floats(c, 0), *bias = floats(c, 0), *mean = floats(c, 0), *variance = floats(c, 0);
        float *saved_mean = floats(c, 0), *saved_inverse = floats(c, 0), *dscale = floats(c, 0), *dbias = floats(c, 0);
        for (size_t i = 0; i < size; i++) x[i] = 3 + uniform(), dy[i] = uniform() + 0.25f, y[i] = dx[i] = 1;
        for (int i = 0; i < c; i++) {
            scale[i] = 1.5f + uniform(), bias[i] = uniform();
            mean[i] = uniform(), variance[i] = 1 + uniform();
            saved_mean[i] = saved_inverse[i] = dscale[i] = dbias[i] = 7;
        }
        const float one = 1, zero = 0, half = 0.5f;
        const float *alpha = below(6) ? &one : &half, *beta = below(6) ? &zero : &half;
        const int in_place = below(4) == 0, has_running = below(3) != 0, has_saved = below(3) != 0, is_ex = below(2);
        const double epsilon = 1e-3, factor = below(2) ? 0.1 : 1;
        const cudnnBatchNormMode_t mode = below(8) ? CUDNN_BATCHNORM_SPATIAL : CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
        float *to = in_place ? x : y;
        float *now_mean = has_running ? mean : NULL, *now_variance = below(3) ? now_mean ? variance : NULL : NULL;
        float *keep_mean = has_saved ? saved_mean : NULL, *keep_inverse = has_saved ? saved_inverse : NULL;
        size_t bytes = 0;
        void *workspace = NULL;
        cudnnStatus_t status;
        if (is_ex) {
            if (cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                    handle, mode, CUDNN_BATCHNORM_OPS_BN, tensor, NULL, tensor, parameters, NULL, &bytes))
                bytes = 0;
            workspace = malloc(bytes + 1);
            status = cudnnBatchNormalizationForwardTrainingEx(
                handle, mode, CUDNN_BATCHNORM_OPS_BN, alpha, beta, tensor, x, NULL, NULL, tensor, to, parameters, scale,
                bias, factor, now_mean, now_variance, epsilon, keep_mean, keep_inverse, NULL, workspace, bytes, NULL, 0);
        } else {
            status = cudnnBatchNormalizationForwardTraining(handle, mode, alpha, beta, tensor, x, tensor, to, parameters,
                                                            scale, bias, factor, now_mean, now_variance, epsilon,
                                                            keep_mean, keep_inverse);
        }
        printf("forward %d\n", status);
        print("y", to, size);
        print("mean", mean, c), print("variance", variance, c);
        print("saved mean", saved_mean, c), print("saved inverse", saved_inverse, c);
        free(workspace), workspace = NULL;
        to = in_place ? dy : dx;
        if (is_ex) {
            if (cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle, mode, CUDNN_BATCHNORM_OPS_BN, tensor, NULL,
                                                                  tensor, NULL, tensor, parameters, NULL, &bytes))
                bytes = 0;
            workspace = malloc(bytes + 1);
            status = cudnnBatchNormalizationBackwardEx(
                handle, mode, CUDNN_BATCHNORM_OPS_BN, alpha, beta, &one, &zero, tensor, x, NULL, NULL, tensor, dy, NULL,
                NULL, tensor, to, parameters, scale, NULL, dscale, dbias, epsilon, keep_mean, keep_inverse, NULL,
                workspace, bytes, NULL, 0);
        } else {
            status = cudnnBatchNormalizationBackward(handle, mode, alpha, beta, &one, &zero, tensor, x, tensor, dy,
                                                     tensor, to, parameters, scale, dscale, dbias, epsilon, keep_mean,
                                                     keep_inverse);
        }
        printf("backward %d\n", status);
        print("dx", to, size);
        print("dscale", dscale, c), print("dbias", dbias, c);
        free(workspace);
        /* The statistics are those of training, and all channels' variances are positive. */
        for (int i = 0; i < c; i++) variance[i] = 0.5f + fabsf(variance[i]);
        to = in_place ? x : y;
        printf("inference %d\n", cudnnBatchNormalizationForwardInference(handle, mode, alpha, beta, tensor, x, tensor, to,
                                                                        parameters, scale, bias, mean, variance, epsilon));
        print("inference y", to, size);
        float *const all[] = {x, y, dy, dx};
        for (int i = 0; i < 4; i++) free(all[i] - GUARD - off);
        float *const others[] = {scale, bias, mean, variance, saved_mean, saved_inverse, dscale, dbias};
        for (int i = 0; i < 8; i++) free(others[i] - GUARD);
    }
    cudnnDestroyTensorDescriptor(parameters);
    cudnnDestroyTensorDescriptor(tensor);
    cudnnDestroy(handle);
    return 0;
}
