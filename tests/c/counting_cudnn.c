/* A library in front of cuDNN that counts finalized descriptors by kind. With LEAST_WORKSPACE set, it refuses plans
 * that need fewer bytes: hostdnn has an engine without workspace for everything. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { KINDS = 64, MOST = 1 << 18 };

long counting_finalized[KINDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptorType_t kind;
} created[MOST]; /* the latest entry of an address counts */
static int creations;

/* cuDNN's own function. */
static void *function(const char *name) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
    if (!found) abort();
    return found;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *descriptor) {
    cudnnStatus_t (*real)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    *(void **)&real = function("cudnnBackendCreateDescriptor");
    cudnnStatus_t status = real(kind, descriptor);
    pthread_mutex_lock(&lock);
    if (status == CUDNN_STATUS_SUCCESS && creations < MOST) {
        created[creations].descriptor = *descriptor;
        created[creations++].kind = kind;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Returns the descriptor's kind, and counts it as finalized. */
static cudnnBackendDescriptorType_t kind_of(cudnnBackendDescriptor_t descriptor) {
    cudnnBackendDescriptorType_t kind = KINDS - 1;
    pthread_mutex_lock(&lock);
    for (int i = creations - 1; i >= 0; i--) {
        if (created[i].descriptor != descriptor) continue;
        kind = created[i].kind;
        break;
    }
    counting_finalized[kind]++;
    pthread_mutex_unlock(&lock);
    return kind;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    cudnnStatus_t (*real)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                         int64_t *, void *);
    *(void **)&real = function("cudnnBackendFinalize");
    *(void **)&get = function("cudnnBackendGetAttribute");
    cudnnBackendDescriptorType_t kind = kind_of(descriptor);
    cudnnStatus_t status = real(descriptor);
    const char *least = getenv("LEAST_WORKSPACE");
    int64_t bytes = 0, count;
    if (status != CUDNN_STATUS_SUCCESS || kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !least) return status;
    status = get(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    return status == CUDNN_STATUS_SUCCESS && bytes < atoll(least) ? CUDNN_STATUS_NOT_SUPPORTED : status;
}
