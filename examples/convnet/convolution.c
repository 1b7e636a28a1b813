#include "convolution.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const DIRECTION_NAMES[DIRECTIONS] = {"F", "BD", "BF"};

static const char *const ALGORITHMS[DIRECTIONS][8] = {
    {"IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD",
     "WINOGRAD_NONFUSED"},
    {"ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"},
    {"ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD", "WINOGRAD_NONFUSED", "FFT_TILING"},
};

const char *algorithm_name(enum direction direction, int algorithm) {
    const char *name = algorithm >= 0 && algorithm < 8 ? ALGORITHMS[direction][algorithm] : NULL;
    return name ? name : "unknown";
}

void cudnn_check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    fprintf(stderr, "convnet: %.*s: %s\n", (int)strcspn(call, "("), call, cudnnGetErrorString(status));
    exit(1);
}

static void fail(const struct layer *l, enum direction d, const char *what, cudnnStatus_t status) {
    fprintf(stderr, "convnet: %s %s: %s: %s\n", l->shape->name, DIRECTION_NAMES[d], what,
            cudnnGetErrorString(status));
    exit(1);
}

static size_t element_size(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static void describe(struct layer *l, cudnnTensorFormat_t format, cudnnMathType_t math) {
    const struct layer_shape *s = l->shape;
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&l->image));
    CUDNN_CHECK(cudnnCreateTensorDescriptor(&l->output));
    CUDNN_CHECK(cudnnCreateFilterDescriptor(&l->filter));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(l->image, format, l->type, s->n, s->c, s->h, s->w));
    CUDNN_CHECK(cudnnSetFilter4dDescriptor(l->filter, l->type, format, s->k, s->c / s->groups, s->r, s->s));
    for (int d = 0; d < DIRECTIONS; ++d) {
        struct kernel *kernel = &l->kernels[d];
        kernel->direction = (enum direction)d;
        CUDNN_CHECK(cudnnCreateConvolutionDescriptor(&kernel->convolution));
        /* Sums of half data are in float, as is usual. */
        CUDNN_CHECK(cudnnSetConvolution2dDescriptor(kernel->convolution, s->pad_h, s->pad_w, s->stride_h, s->stride_w,
                                                    s->dilation_h, s->dilation_w, CUDNN_CROSS_CORRELATION,
                                                    l->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE
                                                                                 : CUDNN_DATA_FLOAT));
        CUDNN_CHECK(cudnnSetConvolutionGroupCount(kernel->convolution, s->groups));
        CUDNN_CHECK(cudnnSetConvolutionMathType(kernel->convolution, math));
    }
    int n, k;
    CUDNN_CHECK(cudnnGetConvolution2dForwardOutputDim(l->kernels[FORWARD].convolution, l->image, l->filter, &n, &k,
                                                      &l->out_h, &l->out_w));
    CUDNN_CHECK(cudnnSetTensor4dDescriptor(l->output, format, l->type, n, k, l->out_h, l->out_w));
}

void layer_create(struct layer *l, const struct layer_shape *shape, cudnnDataType_t type,
                  cudnnTensorFormat_t format, cudnnMathType_t math) {
    memset(l, 0, sizeof *l);
    l->shape = shape;
    l->type = type;
    describe(l, format, math);
    size_t size = element_size(type);
    size_t image = size * (size_t)shape->n * (size_t)shape->c * (size_t)shape->h * (size_t)shape->w;
    size_t filter = size * (size_t)shape->k * (size_t)(shape->c / shape->groups) * (size_t)shape->r * (size_t)shape->s;
    size_t output = size * (size_t)shape->n * (size_t)shape->k * (size_t)l->out_h * (size_t)l->out_w;
    l->x = buffer_new(image, "x");
    l->dx = buffer_new(image, "dx");
    l->w = buffer_new(filter, "w");
    l->dw = buffer_new(filter, "dw");
    l->y = buffer_new(output, "y");
    l->dy = buffer_new(output, "dy");
}

void layer_destroy(struct layer *l) {
    struct buffer *buffers[] = {&l->x, &l->dx, &l->w, &l->dw, &l->y, &l->dy};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i) buffer_free(buffers[i]);
    for (int d = 0; d < DIRECTIONS; ++d) CUDNN_CHECK(cudnnDestroyConvolutionDescriptor(l->kernels[d].convolution));
    CUDNN_CHECK(cudnnDestroyFilterDescriptor(l->filter));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(l->output));
    CUDNN_CHECK(cudnnDestroyTensorDescriptor(l->image));
}

struct buffer layer_result(const struct layer *l, enum direction direction) {
    return direction == FORWARD ? l->y : direction == BACKWARD_DATA ? l->dx : l->dw;
}

/* cuDNN's result types for the directions are all alike; this is one type for all of them. */
struct candidate {
    int algorithm;
    cudnnStatus_t status;
    size_t memory;
    cudnnMathType_t math;
};
/* More than any cuDNN has: its longest list is 8 algorithms times the math types. */
enum { MOST_CANDIDATES = 64 };

/* Defines `ask_<Direction>`, which puts cuDNN's list of a direction's algorithms into `list`, best first. `A`, `B` and
 * `C` are the direction's operands in cuDNN's order, each a descriptor and a buffer: first the two inputs, with the
 * convolution between their descriptors, then the output. */
#define DEFINE_ASK(Direction, perf_t, DIRECTION, a_descriptor, a, b_descriptor, b, c_descriptor, c)                   \
    static cudnnStatus_t ask_##Direction(cudnnHandle_t handle, struct layer *l, enum query query, size_t limit,       \
                                         struct candidate *list, int *count) {                                        \
        perf_t results[MOST_CANDIDATES];                                                                              \
        int most;                                                                                                     \
        cudnnConvolutionDescriptor_t convolution = l->kernels[DIRECTION].convolution;                                 \
        cudnnStatus_t status = cudnnGetConvolution##Direction##AlgorithmMaxCount(handle, &most);                      \
        if (status != CUDNN_STATUS_SUCCESS) return status;                                                            \
        if (most > MOST_CANDIDATES) most = MOST_CANDIDATES;                                                           \
        if (query == QUERY_GET) {                                                                                     \
            status = cudnnGetConvolution##Direction##Algorithm_v7(handle, l->a_descriptor, l->b_descriptor,           \
                                                                  convolution, l->c_descriptor, most, count, results); \
        } else if (query == QUERY_FIND) {                                                                             \
            status = cudnnFindConvolution##Direction##Algorithm(handle, l->a_descriptor, l->b_descriptor,             \
                                                                convolution, l->c_descriptor, most, count, results);  \
        } else {                                                                                                      \
            struct buffer scratch = buffer_new(limit, "the search's workspace");                                      \
            status = cudnnFindConvolution##Direction##AlgorithmEx(                                                    \
                handle, l->a_descriptor, l->a.data, l->b_descriptor, l->b.data, convolution, l->c_descriptor,         \
                l->c.data, most, count, results, scratch.data, scratch.bytes);                                        \
            memory_wait();                                                                                            \
            if (buffer_check(scratch, "the search's workspace")) exit(1);                                             \
            buffer_free(&scratch);                                                                                    \
        }                                                                                                             \
        for (int i = 0; status == CUDNN_STATUS_SUCCESS && i < *count; ++i)                                            \
            list[i] = (struct candidate){(int)results[i].algo, results[i].status, results[i].memory,                  \
                                         results[i].mathType};                                                        \
        return status;                                                                                                \
    }
DEFINE_ASK(Forward, cudnnConvolutionFwdAlgoPerf_t, FORWARD, image, x, filter, w, output, y)
DEFINE_ASK(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, BACKWARD_DATA, filter, w, output, dy, image, dx)
DEFINE_ASK(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, BACKWARD_FILTER, image, x, output, dy, filter, dw)

void kernel_choose(cudnnHandle_t handle, struct layer *l, enum direction d, enum query query, size_t limit) {
    static cudnnStatus_t (*const ask[])(cudnnHandle_t, struct layer *, enum query, size_t, struct candidate *,
                                        int *) = {ask_Forward, ask_BackwardData, ask_BackwardFilter};
    struct kernel *kernel = &l->kernels[d];
    struct candidate list[MOST_CANDIDATES];
    int count = 0;
    cudnnStatus_t status = ask[d](handle, l, query, limit, list, &count);
    if (status != CUDNN_STATUS_SUCCESS) fail(l, d, "asking for algorithms", status);
    for (int i = 0; i < count; ++i) {
        if (list[i].status != CUDNN_STATUS_SUCCESS || list[i].memory > limit) continue;
        kernel->algorithm = list[i].algorithm;
        CUDNN_CHECK(cudnnSetConvolutionMathType(kernel->convolution, list[i].math));
        return;
    }
    fprintf(stderr, "convnet: %s %s: none of cuDNN's %d algorithms runs in %zu bytes\n", l->shape->name,
            DIRECTION_NAMES[d], count, limit);
    exit(1);
}

void kernel_size(cudnnHandle_t handle, struct layer *l, enum direction d) {
    struct kernel *kernel = &l->kernels[d];
    size_t *bytes = &kernel->workspace_bytes;
    cudnnStatus_t status;
    if (d == FORWARD)
        status = cudnnGetConvolutionForwardWorkspaceSize(handle, l->image, l->filter, kernel->convolution, l->output,
                                                         (cudnnConvolutionFwdAlgo_t)kernel->algorithm, bytes);
    else if (d == BACKWARD_DATA)
        status = cudnnGetConvolutionBackwardDataWorkspaceSize(handle, l->filter, l->output, kernel->convolution,
                                                              l->image, (cudnnConvolutionBwdDataAlgo_t)kernel->algorithm,
                                                              bytes);
    else
        status = cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle, l->image, l->output, kernel->convolution, l->filter,
            (cudnnConvolutionBwdFilterAlgo_t)kernel->algorithm, bytes);
    if (status != CUDNN_STATUS_SUCCESS) fail(l, d, "asking for the workspace size", status);
}

cudnnStatus_t kernel_run(cudnnHandle_t handle, struct layer *l, enum direction d, struct buffer workspace) {
    const struct kernel *kernel = &l->kernels[d];
    static const double one_double = 1, zero_double = 0;
    static const float one_float = 1, zero_float = 0;
    int wide = l->type == CUDNN_DATA_DOUBLE;
    const void *alpha = wide ? (const void *)&one_double : &one_float;
    const void *beta = wide ? (const void *)&zero_double : &zero_float;
    if (d == FORWARD)
        return cudnnConvolutionForward(handle, alpha, l->image, l->x.data, l->filter, l->w.data, kernel->convolution,
                                       (cudnnConvolutionFwdAlgo_t)kernel->algorithm, workspace.data, workspace.bytes,
                                       beta, l->output, l->y.data);
    if (d == BACKWARD_DATA)
        return cudnnConvolutionBackwardData(handle, alpha, l->filter, l->w.data, l->output, l->dy.data,
                                            kernel->convolution, (cudnnConvolutionBwdDataAlgo_t)kernel->algorithm,
                                            workspace.data, workspace.bytes, beta, l->image, l->dx.data);
    return cudnnConvolutionBackwardFilter(handle, alpha, l->image, l->x.data, l->output, l->dy.data,
                                          kernel->convolution, (cudnnConvolutionBwdFilterAlgo_t)kernel->algorithm,
                                          workspace.data, workspace.bytes, beta, l->filter, l->dw.data);
}
