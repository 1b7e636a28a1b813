/* A program that knows cuDNN only by the names of its functions, as JAX and cudnn-frontend's dynamic mode do: it opens
 * the library while it runs. It handles its arguments in order: `path FILE` only opens a file; `name NAME` and `handle
 * FILE` open one and take the functions from it; `default` takes the functions from the whole process. Prints the file
 * that the functions come from, and the result of a convolution by either API. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 16, C = 8, K = 8, H = 20, R = 5, PAD = 2 };

static void *library = RTLD_DEFAULT;

#define F(name) ((__typeof__(&name))function(#name))
#define CHECK(call) check(call, #call)

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "%s: %s\n", name, dlerror()), exit(1);
    return found;
}

static void check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", call, F(cudnnGetErrorString)(status));
    exit(1);
}

static float *filled(size_t count) {
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = (float)(i * 7 % 5) - 2;
    return values;
}

/* Sums rounded results: every algorithm comes close enough to give the one right sum of squares. */
static void print(const char *what, const float *y) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)N * K * H * H; i++) sum += rint(y[i]) * rint(y[i]);
    printf("%s %.0f\n", what, sum);
}

static void legacy(cudnnHandle_t handle, const float *x, const float *w, float *y) {
    cudnnTensorDescriptor_t xs, ys;
    cudnnFilterDescriptor_t ws;
    cudnnConvolutionDescriptor_t convolution;
    CHECK(F(cudnnCreateTensorDescriptor)(&xs));
    CHECK(F(cudnnCreateTensorDescriptor)(&ys));
    CHECK(F(cudnnCreateFilterDescriptor)(&ws));
    CHECK(F(cudnnCreateConvolutionDescriptor)(&convolution));
    CHECK(F(cudnnSetTensor4dDescriptor)(xs, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, H));
    CHECK(F(cudnnSetTensor4dDescriptor)(ys, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, K, H, H));
    CHECK(F(cudnnSetFilter4dDescriptor)(ws, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, R, R));
    CHECK(F(cudnnSetConvolution2dDescriptor)(convolution, PAD, PAD, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT));
    cudnnConvolutionFwdAlgoPerf_t best;
    int count;
    CHECK(F(cudnnGetConvolutionForwardAlgorithm_v7)(handle, xs, ws, convolution, ys, 1, &count, &best));
    size_t size;
    CHECK(F(cudnnGetConvolutionForwardWorkspaceSize)(handle, xs, ws, convolution, ys, best.algo, &size));
    void *workspace = malloc(size + 1);
    float one = 1, zero = 0;
    CHECK(F(cudnnConvolutionForward)(handle, &one, xs, x, ws, w, convolution, best.algo, workspace, size, &zero, ys, y));
    print("legacy", y);
    free(workspace);
}

static cudnnBackendDescriptor_t created(cudnnBackendDescriptorType_t kind) {
    cudnnBackendDescriptor_t descriptor;
    CHECK(F(cudnnBackendCreateDescriptor)(kind, &descriptor));
    return descriptor;
}

static void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values) {
    CHECK(F(cudnnBackendSetAttribute)(descriptor, name, type, count, values));
}

static cudnnBackendDescriptor_t finalized(cudnnBackendDescriptor_t descriptor) {
    CHECK(F(cudnnBackendFinalize)(descriptor));
    return descriptor;
}

static cudnnBackendDescriptor_t tensor(int64_t id, int64_t n, int64_t c, int64_t h) {
    cudnnBackendDescriptor_t made = created(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t dims[] = {n, c, h, h}, strides[] = {c * h * h, h * h, h, 1}, alignment = 4;
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return finalized(made);
}

static void graph(cudnnHandle_t handle, float *x, float *w, float *y) {
    cudnnBackendDescriptor_t xs = tensor(1, N, C, H), ws = tensor(2, K, C, R), ys = tensor(3, N, K, H);
    cudnnBackendDescriptor_t convolution = created(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t rank = 2, padding[] = {PAD, PAD}, ones[] = {1, 1};
    set(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
    set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
    set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, ones);
    set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    finalized(convolution);

    cudnnBackendDescriptor_t operation = created(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    float one = 1, zero = 0;
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &convolution);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &xs);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ws);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ys);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
    finalized(operation);

    cudnnBackendDescriptor_t whole = created(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
    finalized(whole);
    cudnnBackendDescriptor_t heuristics = created(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendHeurMode_t by = CUDNN_HEUR_MODE_A;
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &by);
    finalized(heuristics);
    cudnnBackendDescriptor_t chosen = created(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count, size;
    CHECK(F(cudnnBackendGetAttribute)(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                     &chosen));
    cudnnBackendDescriptor_t plan = created(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &chosen);
    finalized(plan);
    CHECK(F(cudnnBackendGetAttribute)(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &size));

    cudnnBackendDescriptor_t pack = created(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t ids[] = {1, 2, 3};
    void *data[] = {x, w, y}, *workspace = malloc((size_t)size + 1);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalized(pack);
    CHECK(F(cudnnBackendExecute)(handle, plan, pack));
    print("graph", y);
    printf("workspace %lld\n", (long long)size);
    free(workspace);
}

static void *opened(const char *file) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fprintf(stderr, "%s\n", dlerror()), exit(1);
    return handle;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "default")) {
            library = RTLD_DEFAULT;
        } else if (!strcmp(argv[i], "path") && i + 1 < argc) {
            opened(argv[++i]);
        } else if (i + 1 < argc) {
            library = opened(argv[++i]);
        }
    }
    Dl_info legacy_function, graph_function;
    if (!dladdr(function("cudnnConvolutionForward"), &legacy_function)) return 1;
    if (!dladdr(function("cudnnBackendExecute"), &graph_function)) return 1;
    printf("legacy-from %s\ngraph-from %s\n", legacy_function.dli_fname, graph_function.dli_fname);
    printf("version %zu\n", F(cudnnGetVersion)());
    cudnnHandle_t handle;
    cudnnStatus_t status = F(cudnnCreate)(&handle);
    printf("create %d\n", status);
    if (status != CUDNN_STATUS_SUCCESS) return 0; /* no GPU */
    float *x = filled((size_t)N * C * H * H), *w = filled((size_t)K * C * R * R), *y = filled((size_t)N * K * H * H);
    legacy(handle, x, w, y);
    memset(y, 0, (size_t)N * K * H * H * sizeof *y);
    graph(handle, x, w, y);
    return 0;
}
