/* One convolution layer through cuDNN's legacy API: descriptors, algorithms, execution. */
#ifndef CONVNET_CONVOLUTION_H
#define CONVNET_CONVOLUTION_H

#include <cudnn.h>

#include "memory.h"
#include "network.h"

enum direction { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS };

/* How a program finds its algorithms: by Get…Algorithm_v7, Find…Algorithm, Find…AlgorithmEx, or without a query. */
enum query { QUERY_GET, QUERY_FIND, QUERY_FINDEX, QUERY_NONE };

/* One direction of one layer. */
struct kernel {
    enum direction direction;
    /* Each kernel has its own descriptor, since the math type depends on the algorithm. */
    cudnnConvolutionDescriptor_t convolution;
    int algorithm;
    size_t workspace_bytes;
};

struct layer {
    const struct layer_shape *shape;
    int out_h, out_w;
    cudnnDataType_t type;
    cudnnTensorDescriptor_t image, output; /* x and dx; y and dy */
    cudnnFilterDescriptor_t filter;        /* w and dw */
    struct buffer x, w, dy;                /* read */
    struct buffer y, dx, dw;               /* written */
    struct kernel kernels[DIRECTIONS];
};

/* "F", "BD", "BF". */
extern const char *const DIRECTION_NAMES[DIRECTIONS];

/* cuDNN's name of an algorithm, without the prefix that all share. */
const char *algorithm_name(enum direction direction, int algorithm);

/* Prints the failed call and its status, and exits. */
void cudnn_check(cudnnStatus_t status, const char *call);
#define CUDNN_CHECK(call) cudnn_check(call, #call)

/* Makes the descriptors, all packed, and the buffers, all poisoned. */
void layer_create(struct layer *layer, const struct layer_shape *shape, cudnnDataType_t type,
                  cudnnTensorFormat_t format, cudnnMathType_t math);
void layer_destroy(struct layer *layer);

/* The buffer that a kernel writes: y, dx or dw. */
struct buffer layer_result(const struct layer *layer, enum direction direction);

/* Chooses the kernel's algorithm: the first in cuDNN's list that succeeds and needs no more than `limit` bytes.
 * Find…AlgorithmEx gets `limit` bytes of workspace, and writes results. */
void kernel_choose(cudnnHandle_t handle, struct layer *layer, enum direction direction, enum query query,
                   size_t limit);

/* Asks how much workspace the chosen algorithm needs. */
void kernel_size(cudnnHandle_t handle, struct layer *layer, enum direction direction);

/* Runs the kernel, overwriting its result. */
cudnnStatus_t kernel_run(cudnnHandle_t handle, struct layer *layer, enum direction direction,
                         struct buffer workspace);

#endif
