/* Runs convolutions of which no two are alike, like a program with inputs of all sizes: the case in which a library in
 * front of cuDNN only costs, because it learns nothing that it can use again. Knows nothing but cudnn.h.
 *
 *     passing_shapes hardcoded|get|find|findex [COUNT]
 *
 * hardcoded: algorithm 1 with a fixed scratch, and no query. get, find, findex: asks for each shape's algorithm by
 * cudnnGet…_v7, cudnnFind… or cudnnFind…Ex first, and runs the first result that fits the scratch. Prints, as JSON,
 * milliseconds of the clock and of all processors. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../examples/convnet/memory.h"

enum { BATCH = 8, OUTPUTS = 48, LEAST_CHANNELS = 24, LEAST_SIDE = 24, VALUES = 10, MOST = VALUES * VALUES * VALUES };
enum { SCRATCH = 16 << 20, RESULTS = 16 };
enum { HARDCODED, GET, FIND, FINDEX, STYLES };
static const char *const STYLE_NAMES[STYLES] = {"hardcoded", "get", "find", "findex"};

#define CHECK(call)                                                                           \
    do {                                                                                      \
        cudnnStatus_t status_ = (call);                                                       \
        if (status_) {                                                                        \
            fprintf(stderr, "passing_shapes: %s: %s\n", #call, cudnnGetErrorString(status_)); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

struct convolution {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t descriptor;
    struct buffer x_data, w_data, y_data, scratch;
};

static double clock_ms(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static double now(void) { return clock_ms(CLOCK_MONOTONIC); }

static void describe(struct convolution *c, int index) {
    int channels = LEAST_CHANNELS + index % VALUES;
    int height = LEAST_SIDE + index / VALUES % VALUES, width = LEAST_SIDE + index / VALUES / VALUES;
    CHECK(cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, BATCH, channels, height, width));
    CHECK(cudnnSetFilter4dDescriptor(c->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, OUTPUTS, channels, 3, 3));
    CHECK(cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, BATCH, OUTPUTS, height, width));
}

/* Chooses an algorithm, and its workspace. */
static int choose(struct convolution *c, int style, size_t *workspace) {
    cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
    int count = 0;
    *workspace = SCRATCH;
    if (style == HARDCODED) return 1;
    if (style == GET)
        CHECK(cudnnGetConvolutionForwardAlgorithm_v7(c->handle, c->x, c->w, c->descriptor, c->y, RESULTS, &count,
                                                     results));
    else if (style == FIND)
        CHECK(cudnnFindConvolutionForwardAlgorithm(c->handle, c->x, c->w, c->descriptor, c->y, RESULTS, &count,
                                                   results));
    else
        CHECK(cudnnFindConvolutionForwardAlgorithmEx(c->handle, c->x, c->x_data.data, c->w, c->w_data.data,
                                                     c->descriptor, c->y, c->y_data.data, RESULTS, &count, results,
                                                     c->scratch.data, SCRATCH));
    for (int i = 0; i < count; ++i) {
        if (results[i].status || results[i].memory > SCRATCH) continue;
        *workspace = results[i].memory;
        return (int)results[i].algo;
    }
    fputs("passing_shapes: no algorithm fits\n", stderr);
    exit(1);
}

static void run(struct convolution *c, int algorithm, size_t workspace) {
    const float one = 1, zero = 0;
    CHECK(cudnnConvolutionForward(c->handle, &one, c->x, c->x_data.data, c->w, c->w_data.data, c->descriptor,
                                  (cudnnConvolutionFwdAlgo_t)algorithm, c->scratch.data, workspace, &zero, c->y,
                                  c->y_data.data));
    memory_wait();
}

static struct buffer values(size_t count, const char *what) {
    struct buffer buffer = buffer_new(count * sizeof(float), what);
    float *host = malloc(buffer.bytes);
    if (!host) abort();
    unsigned state = 1;
    for (size_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        host[i] = (float)(state >> 8) / (1 << 23) - 1;
    }
    buffer_write(buffer, host);
    free(host);
    return buffer;
}

int main(int argc, char **argv) {
    int style = 0, count = argc > 2 ? atoi(argv[2]) : MOST;
    while (style < STYLES && (argc < 2 || strcmp(argv[1], STYLE_NAMES[style]))) ++style;
    if (style == STYLES || count < 1 || count > MOST) {
        fprintf(stderr, "usage: passing_shapes hardcoded|get|find|findex [1 to %d]\n", MOST);
        return 2;
    }
    struct convolution c;
    memory_open();
    CHECK(cudnnCreate(&c.handle));
    CHECK(cudnnCreateTensorDescriptor(&c.x));
    CHECK(cudnnCreateTensorDescriptor(&c.y));
    CHECK(cudnnCreateFilterDescriptor(&c.w));
    CHECK(cudnnCreateConvolutionDescriptor(&c.descriptor));
    CHECK(cudnnSetConvolution2dDescriptor(c.descriptor, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    size_t side = LEAST_SIDE + VALUES, channels = LEAST_CHANNELS + VALUES;
    c.x_data = values(BATCH * channels * side * side, "x");
    c.w_data = values(OUTPUTS * channels * 9, "w");
    c.y_data = values(BATCH * OUTPUTS * side * side, "y");
    c.scratch = buffer_new(SCRATCH, "the scratch");

    double asking = 0, running = 0, first = 0, start = now(), processors = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; ++i) {
        size_t workspace;
        describe(&c, i);
        double before = now();
        int algorithm = choose(&c, style, &workspace);
        double between = now();
        run(&c, algorithm, workspace);
        asking += between - before;
        running += now() - between;
        if (i == 0) first = between - before;
    }
    printf("{\"style\": \"%s\", \"count\": %d, \"total_ms\": %.3f, \"asking_ms\": %.3f, \"first_asking_ms\": %.3f, "
           "\"running_ms\": %.3f, \"processors_ms\": %.3f}\n",
           STYLE_NAMES[style], count, now() - start, asking, first, running,
           clock_ms(CLOCK_PROCESS_CPUTIME_ID) - processors);
    return buffer_check(c.scratch, "the scratch") ? 1 : 0;
}
