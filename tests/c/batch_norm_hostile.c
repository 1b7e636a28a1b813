/* Calls of the functions of batch normalization, each with one or two arguments that are wrong or unusual.
 * Every status is a line, and so is every number in memory afterwards: cuDNN alone gives the same lines.
 *
 * batch_norm_hostile SEED CALLS */
#include <cudnn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { IMAGES = 3, CHANNELS = 8, HEIGHT = 3, WIDTH = 2, PART = 512, PARTS = 12 };

static uint64_t state;

static unsigned below(unsigned most) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % most);
}

static cudnnTensorDescriptor_t tensor(cudnnDataType_t type, int rank, const int *dims, const int *strides) {
    cudnnTensorDescriptor_t descriptor;
    if (cudnnCreateTensorDescriptor(&descriptor)) exit(2);
    /* If cuDNN refuses to set the descriptor, it stays unset, as with no dimensions. */
    if (dims) cudnnSetTensorNdDescriptor(descriptor, type, rank, dims, strides);
    return descriptor;
}

static void print(const char *name, const float *memory) {
    for (int i = 0; i < PART * PARTS; i++) printf("%s %.9g\n", name, memory[i]);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    state = strtoull(arguments[1], NULL, 10);
    const int calls = atoi(arguments[2]), plane = HEIGHT * WIDTH, image = CHANNELS * plane;
    cudnnHandle_t own;
    if (cudnnCreate(&own)) return 2;
    const int dims[] = {IMAGES, CHANNELS, HEIGHT, WIDTH}, packed[] = {image, plane, WIDTH, 1};
    const int apart[] = {2 * image, plane, WIDTH, 1}, dims5[] = {IMAGES, CHANNELS, 1, HEIGHT, WIDTH};
    const int packed5[] = {image, plane, plane, WIDTH, 1};
    const cudnnTensorDescriptor_t plain = tensor(CUDNN_DATA_FLOAT, 4, dims, packed);
    const cudnnTensorDescriptor_t others[] = {tensor(CUDNN_DATA_FLOAT, 0, NULL, NULL), tensor(CUDNN_DATA_FLOAT, 4, dims, apart),
                                              tensor(CUDNN_DATA_FLOAT, 5, dims5, packed5), tensor(CUDNN_DATA_DOUBLE, 4, dims, packed)};
    const int of[] = {1, CHANNELS, 1, 1}, of5[] = {1, CHANNELS, 1, 1, 1}, row[] = {CHANNELS, 1, 1, 1};
    const int row5[] = {CHANNELS, 1, 1, 1, 1}, gaps[] = {2 * CHANNELS, 2, 2, 2}, last[] = {CHANNELS, 1, CHANNELS, CHANNELS};
    const int zeros[] = {0, 0, 0, 0};
    const cudnnTensorDescriptor_t parameters = tensor(CUDNN_DATA_FLOAT, 4, of, row);
    const cudnnTensorDescriptor_t odd[] = {tensor(CUDNN_DATA_FLOAT, 0, NULL, NULL), tensor(CUDNN_DATA_FLOAT, 4, of, gaps),
                                           tensor(CUDNN_DATA_FLOAT, 4, of, last), tensor(CUDNN_DATA_FLOAT, 4, of, zeros),
                                           tensor(CUDNN_DATA_FLOAT, 5, of5, row5), tensor(CUDNN_DATA_DOUBLE, 4, of, row)};
    float *memory = aligned_alloc(64, PART * PARTS * sizeof(float));
    if (!memory) return 2;
    for (int call = 0; call < calls; call++) {
        for (int i = 0; i < PART * PARTS; i++) memory[i] = (float)below(1u << 20) / (1u << 19) - 1;
        float *part[PARTS];
        for (int i = 0; i < PARTS; i++) part[i] = memory + i * PART;
        float *x = part[0], *y = part[1], *dy = part[2], *dx = part[3], *scale = part[4], *bias = part[5];
        float *mean = part[6], *variance = part[7], *saved = part[8], *inverse = part[9], *dscale = part[10];
        float *dbias = part[11];
        for (int i = 0; i < CHANNELS; i++) variance[i] = fabsf(variance[i]), inverse[i] = fabsf(inverse[i]);
        const float one = 1, zero = 0, two = 2;
        const void *alpha = &one, *beta = &zero, *of_parameters = &one;
        double epsilon = 1e-3, factor = 0.1;
        int mode = 1 + (int)below(2), ops = 0;
        cudnnHandle_t handle = own;
        cudnnTensorDescriptor_t of_x = plain, of_y = plain, its = parameters;
        for (unsigned wrong = 1 + below(2); wrong > 0; wrong--) {
            switch (below(34)) {
            case 0: handle = NULL; break;
            case 1: mode = (int)below(6) - 1; break;
            case 2: alpha = NULL; break;
            case 3: beta = NULL; break;
            case 4: alpha = &two; break;
            case 5: beta = &one; break;
            case 6: of_x = NULL; break;
            case 7: of_x = of_y = others[below(4)]; break;
            case 8: of_y = others[below(4)]; break;
            case 9: its = NULL; break;
            case 10:
            case 11: its = odd[below(6)]; break;
            case 12: x = NULL; break;
            case 13: y = dx = NULL; break;
            case 14: scale = NULL; break;
            case 15: bias = NULL; break;
            case 16: mean = NULL; break;
            case 17: variance = NULL; break;
            case 18: saved = NULL; break;
            case 19: inverse = NULL; break;
            case 20: epsilon = -1e-9; break;
            case 21: epsilon = (const double[]){NAN, INFINITY, 1e39}[below(3)]; break;
            case 22: epsilon = 0; break;
            case 23: factor = below(2) ? -1 : 2; break;
            case 24: factor = NAN; break;
            case 25: ops = (int)below(5) - 1; break;
            case 26: y = x, dx = dy; break;
            case 27: x = x ? x + 1 : x; break;
            case 28: mean = saved; break;
            case 29: bias = scale; break;
            case 30: dscale = dbias; break;
            case 31: dx = x; break;
            case 32: of_parameters = below(2) ? NULL : &two; break;
            case 33: dy = NULL; break;
            }
        }
        char name[32];
        snprintf(name, sizeof name, "call %d", call);
        const int is_ex = below(2);
        cudnnStatus_t status;
        if (is_ex)
            status = cudnnBatchNormalizationForwardTrainingEx(handle, mode, ops, alpha, beta, of_x, x, NULL, NULL, of_y, y,
                                                              its, scale, bias, factor, mean, variance, epsilon, saved,
                                                              inverse, NULL, NULL, 0, NULL, 0);
        else
            status = cudnnBatchNormalizationForwardTraining(handle, mode, alpha, beta, of_x, x, of_y, y, its, scale, bias,
                                                            factor, mean, variance, epsilon, saved, inverse);
        printf("%s, forward %d\n", name, status);
        print(name, memory);
        if (is_ex)
            status = cudnnBatchNormalizationBackwardEx(handle, mode, ops, alpha, beta, of_parameters, &zero, of_x, x, NULL,
                                                       NULL, of_y, dy, NULL, NULL, of_y, dx, its, scale, NULL, dscale,
                                                       dbias, epsilon, saved, inverse, NULL, NULL, 0, NULL, 0);
        else
            status = cudnnBatchNormalizationBackward(handle, mode, alpha, beta, of_parameters, &zero, of_x, x, of_y, dy,
                                                     of_y, dx, its, scale, dscale, dbias, epsilon, saved, inverse);
        printf("%s, backward %d\n", name, status);
        print(name, memory);
        status = cudnnBatchNormalizationForwardInference(handle, mode, alpha, beta, of_x, x, of_y, y, its, scale, bias, mean,
                                                         variance, epsilon);
        printf("%s, inference %d\n", name, status);
        print(name, memory);
    }
    free(memory);
    cudnnDestroy(own);
    return 0;
}
