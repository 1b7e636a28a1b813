/* The graph API of the cuDNN in which nothing takes time (instant_cudnn.c), for benches/graph_execute.rs. Descriptors keep
 * only a convolution's mini-batch and its engine. There are two engines: 0 needs no workspace, 1 needs
 * WORKSPACE_PER_IMAGE and is by far the faster one while `instant_waits` is not 0: a busy machine changes no choice. */
#include <cudnn.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE_PER_IMAGE ((int64_t)1 << 20)
#define ENGINES 2

void instant_wait(unsigned long nanoseconds);
extern int instant_waits;

unsigned long instant_executions; /* that have run */

struct descriptor {
    cudnnBackendDescriptorType_t kind;
    int64_t batch, engine;
};

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *descriptor) {
    struct descriptor *created = calloc(1, sizeof *created);
    if (!created) return CUDNN_STATUS_ALLOC_FAILED;
    created->kind = kind;
    *descriptor = created;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
    struct descriptor *d = descriptor;
    if (name == CUDNN_ATTR_TENSOR_DIMENSIONS) {
        d->batch = *(const int64_t *)elements;
    } else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
        d->engine = *(const int64_t *)elements;
    } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && count == 1 &&
               name != CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W) { /* whose first dimension is no batch */
        const struct descriptor *inner = *(struct descriptor *const *)elements;
        if (inner->batch) d->batch = inner->batch, d->engine = inner->engine;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *elements) {
    const struct descriptor *d = descriptor;
    int64_t all = 0;
    (void)type;
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS: all = ENGINES; break;
        case CUDNN_ATTR_ENGINECFG_ENGINE:
        case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
        case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: all = 1; break;
        default: break; /* no knobs, no notes */
    }
    *count = all;
    if (!elements) return CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < all && i < room; i++) {
        if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
            *(int64_t *)elements = d->engine;
        } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
            *(int64_t *)elements = d->engine ? d->batch * WORKSPACE_PER_IMAGE : 0;
        } else {
            struct descriptor *filled = ((struct descriptor **)elements)[i];
            filled->batch = d->batch;
            filled->engine = name == CUDNN_ATTR_ENGINEHEUR_RESULTS ? ENGINES - 1 - i : d->engine;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    const struct descriptor *d = plan;
    (void)handle, (void)pack;
    instant_executions++;
    if (instant_waits) instant_wait(20000 + (unsigned long)d->batch * (d->engine ? 2000 : 5000000));
    return CUDNN_STATUS_SUCCESS;
}
