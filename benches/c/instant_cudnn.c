/* A cuDNN for benches/overridden.rs in which nothing takes time, so that only the library in front of it does.
 * It computes nothing. Descriptors keep their settings. There are two forward algorithms: 0 needs no workspace, 1 needs
 * WORKSPACE_PER_IMAGE. While `instant_waits` is not 0, each convolution takes some time, so that plans can be made: the
 * fastest plan has the fewest parts by algorithm 1 that fit. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <cudnn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORKSPACE_PER_IMAGE ((size_t)1 << 20)
#define ALGORITHMS 2
#define RANK CUDNN_DIM_MAX

struct cudnnContext {
    cudaStream_t stream;
};
struct cudnnTensorStruct {
    cudnnDataType_t type;
    int rank, dims[RANK], strides[RANK];
};
struct cudnnFilterStruct {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int rank, dims[RANK];
};
struct cudnnConvolutionStruct {
    int rank, pad[RANK], stride[RANK], dilation[RANK], groups;
    cudnnConvolutionMode_t mode;
    cudnnDataType_t type;
    cudnnMathType_t math;
};

int instant_waits;
unsigned long instant_convolutions; /* that have run */

/* Tells the library in front that pointers are the host's, as hostdnn does. */
const char *hostdnnGetVersion(void) { return "0"; }
size_t cudnnGetVersion(void) { return 91900; }

static cudnnStatus_t create(void **created, size_t size) {
    *created = calloc(1, size);
    return *created ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_ALLOC_FAILED;
}

static cudnnStatus_t destroy(void *created) {
    free(created);
    return CUDNN_STATUS_SUCCESS;
}

static void copy(int *to, const int *from, int count) { memcpy(to, from, (size_t)count * sizeof *to); }

static int least(int a, int b) { return a < b ? a : b; }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return create((void **)handle, sizeof **handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy(handle); }

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t) { return create((void **)t, sizeof **t); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { return destroy(t); }

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int rank, const int *dims,
                                         const int *strides) {
    t->type = type;
    t->rank = rank;
    copy(t->dims, dims, rank);
    copy(t->strides, strides, rank);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t t, int asked, cudnnDataType_t *type, int *rank,
                                         int *dims, int *strides) {
    *type = t->type;
    *rank = t->rank;
    copy(dims, t->dims, least(asked, t->rank));
    copy(strides, t->strides, least(asked, t->rank));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f) { return create((void **)f, sizeof **f); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) { return destroy(f); }

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int rank, const int *dims) {
    f->type = type;
    f->format = format;
    f->rank = rank;
    copy(f->dims, dims, rank);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t f, int asked, cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *rank, int *dims) {
    *type = f->type;
    *format = f->format;
    *rank = f->rank;
    copy(dims, f->dims, least(asked, f->rank));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c) {
    return create((void **)c, sizeof **c);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) { return destroy(c); }

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int rank, const int *pad,
                                              const int *stride, const int *dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
    c->rank = rank;
    copy(c->pad, pad, rank);
    copy(c->stride, stride, rank);
    copy(c->dilation, dilation, rank);
    c->mode = mode;
    c->type = type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t c, int asked, int *rank, int *pad,
                                              int *stride, int *dilation, cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *type) {
    int count = least(asked, c->rank);
    *rank = c->rank;
    copy(pad, c->pad, count);
    copy(stride, c->stride, count);
    copy(dilation, c->dilation, count);
    *mode = c->mode;
    *type = c->type;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    c->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionGroupCount(const cudnnConvolutionDescriptor_t c, int *groups) {
    *groups = c->groups;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
    c->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionMathType(const cudnnConvolutionDescriptor_t c, cudnnMathType_t *math) {
    *math = c->math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int *count) {
    (void)handle;
    *count = ALGORITHMS;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t c,
                                                      const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algo,
                                                      size_t *size) {
    (void)handle, (void)w, (void)c, (void)y;
    if (algo >= ALGORITHMS) return CUDNN_STATUS_NOT_SUPPORTED;
    *size = algo ? (size_t)x->dims[0] * WORKSPACE_PER_IMAGE : 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                     const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t c,
                                                     const cudnnTensorDescriptor_t y, const int asked, int *returned,
                                                     cudnnConvolutionFwdAlgoPerf_t *results) {
    *returned = least(asked, ALGORITHMS);
    for (int i = 0; i < *returned; ++i) {
        int algo = ALGORITHMS - 1 - i;
        results[i] = (cudnnConvolutionFwdAlgoPerf_t){.algo = algo, .time = -1, .determinism = CUDNN_DETERMINISTIC};
        results[i].mathType = c->math;
        cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, c, y, algo, &results[i].memory);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The descriptors of a padded 3x3 convolution of packed floats. Null if there is no memory. */
struct instant_descriptors {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
};

struct instant_descriptors *instant_describe(int batch, int channels) {
    struct instant_descriptors *d = calloc(1, sizeof *d);
    if (!d || cudnnCreateTensorDescriptor(&d->x) || cudnnCreateTensorDescriptor(&d->y) ||
        cudnnCreateFilterDescriptor(&d->w) || cudnnCreateConvolutionDescriptor(&d->convolution))
        return NULL;
    int dims[] = {batch, channels, 8, 8}, strides[] = {channels * 64, 64, 8, 1}, filter[] = {channels, channels, 3, 3};
    int ones[] = {1, 1};
    cudnnSetTensorNdDescriptor(d->x, CUDNN_DATA_FLOAT, 4, dims, strides);
    cudnnSetTensorNdDescriptor(d->y, CUDNN_DATA_FLOAT, 4, dims, strides);
    cudnnSetFilterNdDescriptor(d->w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter);
    cudnnSetConvolutionNdDescriptor(d->convolution, 2, ones, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    cudnnSetConvolutionGroupCount(d->convolution, 1);
    return d;
}

/* Reads all fields of the descriptors, in as few calls as cuDNN has for that. */
int instant_read(const struct instant_descriptors *d) {
    int a, b, c, values[4][RANK], sum = 0;
    sum += cudnnGetTensorNdDescriptor(d->x, RANK, &a, &b, values[0], values[1]);
    sum += cudnnGetTensorNdDescriptor(d->y, RANK, &a, &b, values[0], values[1]);
    sum += cudnnGetFilterNdDescriptor(d->w, RANK, &a, &b, &c, values[0]);
    sum += cudnnGetConvolutionNdDescriptor(d->convolution, RANK - 2, &a, values[0], values[1], values[2], &b, &c);
    sum += cudnnGetConvolutionMathType(d->convolution, &a) + cudnnGetConvolutionGroupCount(d->convolution, &b);
    return sum;
}

/* Waits for this long. */
void instant_wait(unsigned long nanoseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < (long)nanoseconds);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x,
                                      const void *x_data, const cudnnFilterDescriptor_t w, const void *w_data,
                                      const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algo,
                                      void *workspace, size_t size, const void *beta, const cudnnTensorDescriptor_t y,
                                      void *y_data) {
    (void)handle, (void)alpha, (void)x_data, (void)w, (void)w_data, (void)c, (void)workspace, (void)beta, (void)y;
    (void)y_data;
    instant_convolutions++;
    if (algo && size < (size_t)x->dims[0] * WORKSPACE_PER_IMAGE) return CUDNN_STATUS_BAD_PARAM;
    if (instant_waits) instant_wait(100000 + (unsigned long)x->dims[0] * (algo ? 10000 : 5000000));
    return CUDNN_STATUS_SUCCESS;
}
