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

/* A layer's descriptors and sizes, without memory. */
static Kernel layer_open(Operation operation, int batch, const int v[14]) {
    /* v: c h w k r s pad_h pad_w stride_h stride_w dilation_h dilation_w groups */
    Kernel layer = {.shape.operation = operation};
    int n, k, h, w;
    CALL(cudnnCreateTensorDescriptor(&layer.x_descriptor));
    CALL(cudnnCreateTensorDescriptor(&layer.y_descriptor));
    CALL(cudnnCreateFilterDescriptor(&layer.w_descriptor));
    CALL(cudnnCreateConvolutionDescriptor(&layer.convolution));
    CALL(cudnnSetTensor4dDescriptor(layer.x_descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, v[0], v[1], v[2]));
    CALL(cudnnSetFilter4dDescriptor(layer.w_descriptor, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, v[3], v[0] / v[12], v[4],
                                    v[5]));
    CALL(cudnnSetConvolution2dDescriptor(layer.convolution, v[6], v[7], v[8], v[9], v[10], v[11],
                                         CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CALL(cudnnSetConvolutionGroupCount(layer.convolution, v[12]));
    CALL(cudnnGetConvolution2dForwardOutputDim(layer.convolution, layer.x_descriptor, layer.w_descriptor, &n, &k, &h,
                                               &w));
    CALL(cudnnSetTensor4dDescriptor(layer.y_descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, h, w));
    CALL(cudnnGetTensorSizeInBytes(layer.x_descriptor, &layer.x.bytes));
    CALL(cudnnGetFilterSizeInBytes(layer.w_descriptor, &layer.w.bytes));
    CALL(cudnnGetTensorSizeInBytes(layer.y_descriptor, &layer.y.bytes));
    return layer;
}

static void *zeros(size_t bytes) {
    void *data = calloc(bytes, 1);
    REQUIRE(data, "%zu bytes", bytes);
    return data;
}

/* Gives a layer memory of zeros. Returns a workspace. */
static Guarded data_new(Kernel *layer) {
    layer->x.start = zeros(layer->x.bytes), layer->w.start = zeros(layer->w.bytes);
    layer->y.start = zeros(layer->y.bytes);
    return (Guarded){zeros(FIXED), FIXED};
}

static void data_free(Kernel *layer, Guarded *workspace) {
    free(layer->x.start), free(layer->w.start), free(layer->y.start), free(workspace->start);
}

/* The first result's algorithm and workspace. */
static Perf ask(cudnnHandle_t handle, Kernel *layer, int with_data) {
    Perf results[MOST_RESULTS];
    int count = 0;
    if (with_data) {
        Guarded workspace = data_new(layer);
        CALL(kernel_find_ex(handle, layer, &workspace, MOST_RESULTS, &count, results));
        data_free(layer, &workspace);
    } else {
        CALL(kernel_get(handle, layer, MOST_RESULTS, &count, results));
    }
    REQUIRE(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS, "no algorithm");
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
static void run(cudnnHandle_t handle, Kernel *layer, int until) {
    float one = 1, zero = 0;
    Guarded workspace = data_new(layer);
    for (int i = 0; i == 0 || (until > 0 && settled() < until); i++) {
        REQUIRE(i < MOST_RUNS, "convolution %d never settles", until);
        CALL(kernel_call(handle, layer, &one, &zero, 1, &workspace));
    }
    data_free(layer, &workspace);
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
        Kernel small = layer_open(FORWARD, 2, (const int[14]){2, 4, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1});
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
            Kernel layer = layer_open((Operation)direction, atoi(arguments[2]), v);
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
