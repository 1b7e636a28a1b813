#include "graph.h"

#include <string.h>

Backend backend_new(cudnnBackendDescriptorType_t kind) {
    Backend descriptor = NULL;
    CALL(cudnnBackendCreateDescriptor(kind, &descriptor));
    return descriptor;
}

void backend_set(Backend descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                 const void *elements) {
    cudnnStatus_t status = cudnnBackendSetAttribute(descriptor, name, type, count, elements);
    REQUIRE(status == CUDNN_STATUS_SUCCESS, "attribute %d: %s", name, cudnnGetErrorString(status));
}

void backend_set_descriptor(Backend descriptor, cudnnBackendAttributeName_t name, Backend value) {
    backend_set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_integer(Backend descriptor, cudnnBackendAttributeName_t name, int64_t value) {
    backend_set(descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}

static void set_data_type(Backend descriptor, cudnnBackendAttributeName_t name, cudnnDataType_t type) {
    backend_set(descriptor, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

void backend_finalize(Backend descriptor) { CALL(cudnnBackendFinalize(descriptor)); }

void backend_free(Backend descriptor) { CALL(cudnnBackendDestroyDescriptor(descriptor)); }

/* ---- operation graphs ---- */

/* Selects the four or five values of n, c, d, h, w that two or three dimensions have. */
static void take(const Shape *shape, const int values[5], int64_t taken[5]) {
    int skipped = 3 - shape->spatial;
    for (int i = 0; i < shape->spatial + 2; i++) taken[i] = values[i < 2 ? i : i + skipped];
}

static Backend tensor_new(const Shape *shape, int64_t id, const int dims[5], const int strides[5], int64_t alignment,
                          int is_virtual) {
    int64_t d[5], s[5];
    take(shape, dims, d);
    take(shape, strides, s);
    Backend tensor = backend_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_data_type(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, shape->type);
    backend_set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, shape->spatial + 2, d);
    backend_set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, shape->spatial + 2, s);
    set_integer(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_integer(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
    if (is_virtual) {
        _Bool yes = 1;
        backend_set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    }
    backend_finalize(tensor);
    return tensor;
}

static cudnnDataType_t compute_type(const Shape *shape) {
    return shape->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

/* Sets a factor, in the type that the operation computes in. */
static void set_factor(Backend operation, cudnnBackendAttributeName_t name, const Shape *shape, double factor) {
    float small = (float)factor;
    if (compute_type(shape) == CUDNN_DATA_DOUBLE) backend_set(operation, name, CUDNN_TYPE_DOUBLE, 1, &factor);
    else backend_set(operation, name, CUDNN_TYPE_FLOAT, 1, &small);
}

static Backend convolution_new(const Shape *shape) {
    int skipped = 3 - shape->spatial, mode = shape->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    int64_t pad[3], stride[3], dilation[3];
    for (int i = 0; i < shape->spatial; i++) {
        pad[i] = shape->pad[i + skipped];
        stride[i] = shape->stride[i + skipped];
        dilation[i] = shape->dilation[i + skipped];
    }
    Backend convolution = backend_new(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_data_type(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type(shape));
    backend_set(convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_integer(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, shape->spatial);
    backend_set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, shape->spatial, pad);
    backend_set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, shape->spatial, pad);
    backend_set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, shape->spatial, stride);
    backend_set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, shape->spatial, dilation);
    backend_finalize(convolution);
    return convolution;
}

/* The convolution's node. `y` may be virtual. */
static Backend convolution_node(const Shape *shape, Backend x, Backend w, Backend y) {
    static const struct {
        cudnnBackendDescriptorType_t kind;
        cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
    } names[3] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    int is_fused = shape->operation == FUSED, direction = is_fused ? FORWARD : shape->operation;
    Backend convolution = convolution_new(shape), node = backend_new(names[direction].kind);
    backend_set_descriptor(node, names[direction].convolution, convolution);
    backend_set_descriptor(node, names[direction].x, x);
    backend_set_descriptor(node, names[direction].w, w);
    backend_set_descriptor(node, names[direction].y, y);
    set_factor(node, names[direction].alpha, shape, shape->alpha);
    set_factor(node, names[direction].beta, shape, is_fused ? 0 : shape->beta);
    backend_finalize(node);
    backend_free(convolution);
    return node;
}

/* to = mode(from, factor * other), or mode(from) if `other` is null. */
static Backend pointwise_node(const Shape *shape, cudnnPointwiseMode_t mode, Backend from, Backend other, double factor,
                              Backend to) {
    Backend pointwise = backend_new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    backend_set(pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_data_type(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(shape));
    backend_finalize(pointwise);
    Backend node = backend_new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    backend_set_descriptor(node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    backend_set_descriptor(node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    if (other) {
        backend_set_descriptor(node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
        set_factor(node, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, shape, factor);
    }
    backend_set_descriptor(node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    backend_finalize(node);
    backend_free(pointwise);
    return node;
}

/* relu(convolution + beta * z + bias). Returns the number of nodes. */
static int fused_nodes(const Shape *shape, int64_t alignment, Backend x, Backend w, Backend y, Backend nodes[4]) {
    int packed[5], bias_dims[5] = {1, shape->y[1], 1, 1, 1}, bias_strides[5] = {shape->y[1], 1, 1, 1, 1}, stride = 1;
    for (int i = 4; i >= 0; i--) packed[i] = stride, stride *= shape->y[i];
    const int *z_strides = shape->z_apart ? packed : shape->y_strides;
    Backend z = tensor_new(shape, Z_ID, shape->y, z_strides, alignment, 0);
    Backend bias = tensor_new(shape, BIAS_ID, bias_dims, bias_strides, alignment, 0);
    Backend virtuals[3];
    for (int i = 0; i < 3; i++)
        virtuals[i] = tensor_new(shape, FIRST_VIRTUAL_ID + i, shape->y, shape->y_strides, alignment, 1);
    int count = 0;
    Backend last = virtuals[0];
    nodes[count++] = convolution_node(shape, x, w, last);
    if (shape->beta != 0) {
        nodes[count++] = pointwise_node(shape, CUDNN_POINTWISE_ADD, last, z, shape->beta, virtuals[1]);
        last = virtuals[1];
    }
    Backend biased = shape->relu ? virtuals[2] : y;
    nodes[count++] = pointwise_node(shape, CUDNN_POINTWISE_ADD, last, bias, 1, biased);
    if (shape->relu) nodes[count++] = pointwise_node(shape, CUDNN_POINTWISE_RELU_FWD, biased, NULL, 0, y);
    backend_free(z), backend_free(bias);
    for (int i = 0; i < 3; i++) backend_free(virtuals[i]);
    return count;
}

Backend graph_new(cudnnHandle_t handle, const Kernel *kernel, int64_t alignment) {
    const Shape *shape = &kernel->shape;
    int w_strides[5], count = 1;
    shape_filter_strides(shape, w_strides);
    Backend x = tensor_new(shape, X_ID, shape->x, shape->x_strides, alignment, 0);
    Backend w = tensor_new(shape, W_ID, shape->w, w_strides, alignment, 0);
    Backend y = tensor_new(shape, Y_ID, shape->y, shape->y_strides, alignment, 0);
    Backend nodes[4];
    if (shape->operation == FUSED) count = fused_nodes(shape, alignment, x, w, y, nodes);
    else nodes[0] = convolution_node(shape, x, w, y);
    Backend graph = backend_new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    backend_set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    backend_set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, nodes);
    backend_finalize(graph);
    backend_free(x), backend_free(w), backend_free(y);
    while (count-- > 0) backend_free(nodes[count]);
    return graph;
}

int graph_configurations(Backend graph, cudnnBackendHeurMode_t mode, Backend configurations[MOST_CONFIGURATIONS]) {
    Backend heuristics = backend_new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    backend_set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    backend_set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    backend_finalize(heuristics);
    int64_t count = 0;
    CALL(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                                  NULL));
    REQUIRE(count <= MOST_CONFIGURATIONS, "%lld configurations", (long long)count);
    for (int i = 0; i < count; i++) configurations[i] = backend_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CALL(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                  &count, configurations));
    backend_free(heuristics);
    return (int)count;
}

/* ---- execution ---- */

cudnnStatus_t plan_finalize(cudnnHandle_t handle, Backend configuration, Backend *plan) {
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, &configuration);
    return status == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(*plan) : status;
}

Backend plan_new(cudnnHandle_t handle, Backend configuration) {
    Backend plan;
    CALL(plan_finalize(handle, configuration, &plan));
    return plan;
}

size_t plan_workspace(Backend plan) {
    int64_t bytes = -1, count = 0;
    CALL(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes));
    REQUIRE(count == 1 && bytes >= 0, "%lld bytes, %lld values", (long long)bytes, (long long)count);
    return (size_t)bytes;
}

Backend pack_new(const Kernel *kernel, void *workspace) {
    const Shape *shape = &kernel->shape;
    int64_t ids[5] = {W_ID, Y_ID, X_ID, BIAS_ID, Z_ID};
    void *pointers[5] = {kernel->w.start, kernel->y.start, kernel->x.start, kernel->bias.start,
                         shape->z_apart ? kernel->z.start : kernel->y.start};
    int count = shape->operation != FUSED ? 3 : shape->beta != 0 ? 5 : 4;
    Backend pack = backend_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    backend_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    backend_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    backend_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    backend_finalize(pack);
    return pack;
}

cudnnStatus_t graph_run(cudnnHandle_t handle, Backend plan, Backend pack, Kernel *kernel) {
    kernel_restore(kernel);
    return cudnnBackendExecute(handle, plan, pack);
}
