/* Convolution problems for test programs that know only cudnn.h: their descriptors, their data between canaries, the
 * queries and calls of all directions under one name, and the expected results in double precision. */
#ifndef KERNEL_H_
#define KERNEL_H_

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition, ...)                                          \
    do {                                                                 \
        if (!(condition)) {                                              \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                \
            fputc('\n', stderr);                                         \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* Makes a call that must succeed. */
#define CALL(call)                                                                  \
    do {                                                                            \
        cudnnStatus_t status_ = (call);                                             \
        REQUIRE(status_ == CUDNN_STATUS_SUCCESS, "%s", cudnnGetErrorString(status_)); \
    } while (0)

/* Random numbers: splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators"). */
typedef struct {
    uint64_t state;
} Random;
uint64_t random_bits(Random *random);
/* A number from 0 to below - 1. */
int random_below(Random *random, int below);

typedef enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, FUSED } Operation;

/* The shape of a convolution problem. Dimensions are n, c, d, h, w; d is 1 in two dimensions. */
typedef struct {
    Operation operation;
    cudnnDataType_t type;
    int spatial; /* 2 or 3 */
    int x[5], w[5], y[5];
    int x_strides[5], y_strides[5];
    cudnnTensorFormat_t w_format;
    int pad[3], stride[3], dilation[3];
    int groups;
    int flip; /* CUDNN_CONVOLUTION rather than CUDNN_CROSS_CORRELATION */
    /* result = alpha * convolution + beta * result; of a fused problem, beta scales z. */
    double alpha, beta;
    int relu;    /* of a fused problem: ReLU rather than the identity */
    int z_apart; /* of a fused problem: z is not y */
} Shape;

/* Memory between canaries. */
typedef struct {
    unsigned char *start;
    size_t bytes;
} Guarded;
Guarded guarded_new(size_t bytes);
/* Ends the program if a byte before or after the memory has changed. */
void guarded_check(const Guarded *memory, const char *what);
void guarded_free(Guarded *memory);

/* Bytes of an element. */
size_t size_of(cudnnDataType_t type);
double value_at(const Guarded *memory, cudnnDataType_t type, size_t i);
/* Rounds to nearest, ties to even. */
void set_element(unsigned char *to, cudnnDataType_t type, double value);

typedef cudnnConvolutionFwdAlgoPerf_t Perf; /* the three directions' results are laid out alike */
enum { MOST_RESULTS = 16 };

typedef struct {
    Shape shape;
    cudnnTensorDescriptor_t x_descriptor, y_descriptor, z_descriptor, bias_descriptor;
    cudnnFilterDescriptor_t w_descriptor;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t activation;
    Guarded x, w, y, z, bias;
    unsigned char *before; /* the result's contents before each call */
    double *expected;      /* the result in double precision, packed */
    size_t values;         /* of the result */
    double norm;           /* ||expected||, or 1 where it is 0 */
    double tolerance;
} Kernel;

/* Fills in x's and y's strides: 0 packed n c d h w, 1 channels last, 2 with gaps, 3 batch inside channels. */
void shape_layout(Shape *shape, int layout);
/* The filter's strides, packed as its format says. */
void shape_filter_strides(const Shape *shape, int strides[5]);
/* Computes y's dimensions; 0 if there is no output. */
int shape_output(Shape *shape);
/* A plain shape: square images and filters in two dimensions, float, packed, alpha 1, beta 0. */
Shape shape_square(Operation operation, int n, int c, int size, int k, int filter, int pad);
/* The type named "half" or "bfloat16". */
cudnnDataType_t two_byte_type(const char *name);
/* Writes the shape as the library's report does: direction, type, and all dimensions and parameters. */
void shape_print(const Shape *shape, char *text, size_t size);

void kernel_open(Kernel *kernel, const Shape *shape, Random *random);
void kernel_close(Kernel *kernel);

cudnnStatus_t kernel_get(cudnnHandle_t handle, const Kernel *kernel, int requested, int *returned, Perf *results);
cudnnStatus_t kernel_find(cudnnHandle_t handle, const Kernel *kernel, int requested, int *returned, Perf *results);
cudnnStatus_t kernel_find_ex(cudnnHandle_t handle, const Kernel *kernel, const Guarded *workspace, int requested,
                             int *returned, Perf *results);
cudnnStatus_t kernel_workspace(cudnnHandle_t handle, const Kernel *kernel, int algorithm, size_t *bytes);
/* Calls with this alpha and beta, on the result's present contents. */
cudnnStatus_t kernel_call(cudnnHandle_t handle, const Kernel *kernel, const void *alpha, const void *beta,
                          int algorithm, const Guarded *workspace);
/* Runs on the result's previous contents. */
cudnnStatus_t kernel_run(cudnnHandle_t handle, Kernel *kernel, int algorithm, const Guarded *workspace);

/* Restores the contents that the result has before each call. */
void kernel_restore(Kernel *kernel);
/* The result's memory. */
const Guarded *kernel_result(const Kernel *kernel);
/* ||result - expected|| / norm. Ends the program if anything except the result was written. */
double kernel_error(const Kernel *kernel);
/* The largest allowed kernel_error(). */
double kernel_tolerance(const Kernel *kernel);

#endif
