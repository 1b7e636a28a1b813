/* Asks for the algorithms of a network's convolutions, in all three directions, on hostdnn.
 *
 * asked NETWORK.csv BATCH get|findex|after|never
 *
 * get and findex ask first, after asks once a convolution has run. never asks nothing; it runs each convolution until
 * the report (UCUDNN_REPORT) says that one more has settled. Prints a line for each answer (layer, direction, algorithm,
 * bytes of workspace), and how long asking took. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "kernel.h"

/* MOST_RUNS: more than any convolution needs, so that one that never settles fails. */
enum { MOST_RUNS = 10000000, FIXED = 1 << 20 };

typedef struct {
    Operation operation;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    size_t x_bytes, w_bytes, y_bytes;
} Layer;

static Layer layer_open(Operation operation, int batch, const int v[14]) {
    /* v: c h w k r s pad_h pad_w stride_h stride_w dilation_h dilation_w groups */
    Layer layer = {.operation = operation};
    int n, k, h, w;
    CALL(cudnnCreateTensorDescriptor(&layer.x));
    CALL(cudnnCreateTensorDescriptor(&layer.y));
    CALL(cudnnCreateFilterDescriptor(&layer.w));
    CALL(cudnnCreateConvolutionDescriptor(&layer.convolution));
    CALL(cudnnSetTensor4dDescriptor(layer.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, v[0], v[1], v[2]));
    CALL(cudnnSetFilter4dDescriptor(layer.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, v[3], v[0] / v[12], v[4], v[5]));
    CALL(cudnnSetConvolution2dDescriptor(layer.convolution, v[6], v[7], v[8], v[9], v[10], v[11],
                                         CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CALL(cudnnSetConvolutionGroupCount(layer.convolution, v[12]));
    CALL(cudnnGetConvolution2dForwardOutputDim(layer.convolution, layer.x, layer.w, &n, &k, &h, &w));
    CALL(cudnnSetTensor4dDescriptor(layer.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h, w));
    layer.x_bytes = (size_t)batch * (size_t)(v[0] * v[1] * v[2]) * sizeof(float);
    layer.w_bytes = (size_t)(v[3] * (v[0] / v[12]) * v[4] * v[5]) * sizeof(float);
    layer.y_bytes = (size_t)n * (size_t)(k * h * w) * sizeof(float);
    return layer;
}

static void *zeros(size_t bytes) {
    void *data = calloc(bytes, 1);
    REQUIRE(data, "%zu bytes", bytes);
    return data;
}

/* The first result's algorithm and workspace. */
static Perf ask(cudnnHandle_t handle, const Layer *l, int with_data) {
    Perf results[MOST_RESULTS];
    int count = 0;
    void *x = 0, *w = 0, *y = 0, *space = 0;
    if (with_data) {
        x = zeros(l->x_bytes), w = zeros(l->w_bytes), y = zeros(l->y_bytes), space = zeros(FIXED);
    }
    cudnnConvolutionBwdDataAlgoPerf_t *data = (cudnnConvolutionBwdDataAlgoPerf_t *)results;
    cudnnConvolutionBwdFilterAlgoPerf_t *filter = (cudnnConvolutionBwdFilterAlgoPerf_t *)results;
    switch (l->operation) {
        case BACKWARD_DATA:
            if (with_data)
                CALL(cudnnFindConvolutionBackwardDataAlgorithmEx(handle, l->w, w, l->y, y, l->convolution, l->x, x,
                                                                 MOST_RESULTS, &count, data, space, FIXED));
            else
                CALL(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, l->w, l->y, l->convolution, l->x,
                                                                 MOST_RESULTS, &count, data));
            break;
        case BACKWARD_FILTER:
            if (with_data)
                CALL(cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, l->x, x, l->y, y, l->convolution, l->w, w,
                                                                   MOST_RESULTS, &count, filter, space, FIXED));
            else
                CALL(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, l->x, l->y, l->convolution, l->w,
                                                                   MOST_RESULTS, &count, filter));
            break;
        default:
            if (with_data)
                CALL(cudnnFindConvolutionForwardAlgorithmEx(handle, l->x, x, l->w, w, l->convolution, l->y, y,
                                                            MOST_RESULTS, &count, results, space, FIXED));
            else
                CALL(cudnnGetConvolutionForwardAlgorithm_v7(handle, l->x, l->w, l->convolution, l->y, MOST_RESULTS,
                                                            &count, results));
    }
    REQUIRE(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS, "no algorithm");
    free(x), free(w), free(y), free(space);
    return results[0];
}

/* The number of convolutions that have settled, by the report. */
static int settled(void) {
    FILE *report = fopen(getenv("UCUDNN_REPORT"), "r");
    if (!report) return 0;
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, report)) count += strstr(line, "\"event\":\"ran\"") != NULL;
    fclose(report);
    return count;
}

/* Runs algorithm 1, which every direction has and whose workspace does not depend on libucudnn.so: once, or until this
 * many convolutions have settled. */
static void run(cudnnHandle_t handle, const Layer *l, int until) {
    float one = 1, zero = 0;
    void *x = zeros(l->x_bytes), *w = zeros(l->w_bytes), *y = zeros(l->y_bytes), *space = zeros(FIXED);
    for (int i = 0; i == 0 || (until > 0 && settled() < until); i++) {
        REQUIRE(i < MOST_RUNS, "convolution %d never settles", until);
        switch (l->operation) {
            case BACKWARD_DATA:
                CALL(cudnnConvolutionBackwardData(handle, &one, l->w, w, l->y, y, l->convolution, 1, space, FIXED,
                                                  &zero, l->x, x));
                break;
            case BACKWARD_FILTER:
                CALL(cudnnConvolutionBackwardFilter(handle, &one, l->x, x, l->y, y, l->convolution, 1, space, FIXED,
                                                    &zero, l->w, w));
                break;
            default:
                CALL(cudnnConvolutionForward(handle, &one, l->x, x, l->w, w, l->convolution, 1, space, FIXED, &zero,
                                             l->y, y));
        }
    }
    free(x), free(w), free(y), free(space);
}

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

int main(int count, char **arguments) {
    REQUIRE(count == 4, "asked NETWORK.csv BATCH get|findex|after|never");
    const char *how = arguments[3];
    FILE *file = fopen(arguments[1], "r");
    REQUIRE(file, "%s", arguments[1]);
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    if (strcmp(how, "after") == 0) {
        Layer small = layer_open(FORWARD, 2, (const int[14]){2, 4, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1});
        run(handle, &small, 0);
    }
    char line[256];
    int layers = 0;
    double asking = 0;
    while (fgets(line, sizeof line, file)) {
        int v[14];
        if (sscanf(line, "%*[^,],%*[^,],%*d,%*d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", &v[0], &v[1], &v[2], &v[3],
                   &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11], &v[12]) != 13)
            continue;
        for (int direction = 0; direction < 3; direction++) {
            Layer layer = layer_open((Operation)direction, atoi(arguments[2]), v);
            if (strcmp(how, "never") == 0) {
                run(handle, &layer, 3 * layers + direction + 1);
                continue;
            }
            double start = milliseconds();
            Perf first = ask(handle, &layer, strcmp(how, "findex") == 0);
            asking += milliseconds() - start;
            printf("answer %d %d %d %zu\n", layers, direction, (int)first.algo, first.memory);
        }
        layers++;
    }
    REQUIRE(layers > 0, "no layers in %s", arguments[1]);
    fclose(file);
    CALL(cudnnDestroy(handle));
    printf("asking took %.1f ms\n", asking);
    return 0;
}
