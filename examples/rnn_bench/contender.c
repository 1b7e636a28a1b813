#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "contender.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"

const char *const ALGORITHM_NAMES[ALGORITHMS] = {"STANDARD", "PERSIST_STATIC", "PERSIST_DYNAMIC",
                                                 "PERSIST_STATIC_SMALL_H"};

/* Whether cuDNN accepted a call; otherwise stores the reason in `refused`. */
static int accepted(struct contender *c, cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return 1;
    snprintf(c->refused, sizeof c->refused, "%.*s: %s", (int)strcspn(call, "("), call, cudnnGetErrorString(status));
    return 0;
}
#define TRY(call) \
    if (!accepted(c, call, #call)) return

/* PERSIST_DYNAMIC is compiled for its batch. hostdnn lacks this function, because its algorithms are all the same. */
static cudnnStatus_t build(struct contender *c, cudnnRNNAlgo_t algorithm) {
    if (algorithm != CUDNN_RNN_ALGO_PERSIST_DYNAMIC || !strcmp(memory_kind(), "host")) return CUDNN_STATUS_SUCCESS;
    cudnnStatus_t (*build_dynamic)(cudnnHandle_t, cudnnRNNDescriptor_t, int);
    void *found = dlsym(RTLD_DEFAULT, "cudnnBuildRNNDynamic");
    if (!found) return CUDNN_STATUS_NOT_SUPPORTED;
    memcpy(&build_dynamic, &found, sizeof found);
    return build_dynamic(c->handle, c->descriptor, c->data->network.batch);
}

/* The algorithm decides where the weight space has the gates' matrices and biases. */
static void write_weights(struct contender *c) {
    const struct data *d = c->data;
    int matrices = 2 * network_gates(&d->network);
    unsigned char *host = host_memory(c->weights.bytes);
    memset(host, 0, c->weights.bytes);
    cudnnTensorDescriptor_t matrix, bias;
    if (!accepted(c, cudnnCreateTensorDescriptor(&matrix), "cudnnCreateTensorDescriptor") ||
        !accepted(c, cudnnCreateTensorDescriptor(&bias), "cudnnCreateTensorDescriptor"))
        exit(1);
    for (int i = 0; i < matrices && !c->refused[0]; ++i) {
        void *matrix_at = NULL, *bias_at = NULL;
        if (!accepted(c,
                      cudnnGetRNNWeightParams(c->handle, c->descriptor, 0, c->weights.bytes, c->weights.data, i, matrix,
                                              &matrix_at, bias, &bias_at),
                      "cudnnGetRNNWeightParams"))
            break;
        if (!matrix_at || !bias_at) {
            snprintf(c->refused, sizeof c->refused, "cudnnGetRNNWeightParams names no place for matrix %d", i);
            break;
        }
        memcpy(host + ((char *)matrix_at - (char *)c->weights.data), d->weights_host + (size_t)i * d->matrix_bytes,
               d->matrix_bytes);
        memcpy(host + ((char *)bias_at - (char *)c->weights.data),
               d->weights_host + (size_t)matrices * d->matrix_bytes + (size_t)i * d->bias_bytes, d->bias_bytes);
    }
    buffer_write(c->weights, host);
    free(host);
    cudnnDestroyTensorDescriptor(matrix);
    cudnnDestroyTensorDescriptor(bias);
}

static void describe(struct contender *c, cudnnRNNAlgo_t algorithm) {
    const struct network *n = &c->data->network;
    TRY(cudnnCreateDropoutDescriptor(&c->dropout));
    TRY(cudnnCreateRNNDescriptor(&c->descriptor));
    TRY(cudnnCreateRNNDataDescriptor(&c->rows));
    TRY(cudnnCreateTensorDescriptor(&c->states));
    TRY(cudnnSetDropoutDescriptor(c->dropout, c->handle, 0, NULL, 0, 0));
    TRY(cudnnSetRNNDescriptor_v8(c->descriptor, algorithm, n->cell, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                                 CUDNN_LINEAR_INPUT, n->type, CUDNN_DATA_FLOAT, n->math, n->hidden, n->hidden,
                                 n->hidden, 1, c->dropout, CUDNN_RNN_PADDED_IO_DISABLED));
    int *lengths = host_memory((size_t)n->batch * sizeof *lengths);
    for (int i = 0; i < n->batch; ++i) lengths[i] = n->steps;
    double fill = 0;
    cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
    cudnnStatus_t status =
        cudnnSetRNNDataDescriptor(c->rows, n->type, layout, n->steps, n->batch, n->hidden, lengths, &fill);
    free(lengths);
    if (!accepted(c, status, "cudnnSetRNNDataDescriptor")) return;
    const int dims[] = {1, n->batch, n->hidden}, strides[] = {n->batch * n->hidden, n->hidden, 1};
    TRY(cudnnSetTensorNdDescriptor(c->states, n->type, 3, dims, strides));
    accepted(c, build(c, algorithm), "cudnnBuildRNNDynamic");
}

void contender_open(struct contender *contender, const char *name, cudnnHandle_t handle, cudnnRNNAlgo_t algorithm,
                    const struct data *data) {
    struct contender *c = contender;
    memset(c, 0, sizeof *c);
    c->name = name, c->handle = handle, c->data = data;
    describe(c, algorithm);
    if (c->refused[0]) return;
    size_t weights, workspace, reserve;
    TRY(cudnnGetRNNWeightSpaceSize(handle, c->descriptor, &weights));
    TRY(cudnnGetRNNTempSpaceSizes(handle, c->descriptor, CUDNN_FWD_MODE_INFERENCE, c->rows, &workspace, &reserve));
    c->weights = buffer_new(weights, "weights");
    c->workspace = buffer_new(workspace, "a workspace");
    write_weights(c);
    if (c->refused[0]) return;
    memory_wait();
    TRY(contender_run(c));
    memory_wait();
}

cudnnStatus_t contender_run(const struct contender *c) {
    const struct data *d = c->data;
    return cudnnRNNForward(c->handle, c->descriptor, CUDNN_FWD_MODE_INFERENCE, NULL, c->rows, d->x.data, c->rows,
                           d->y.data, c->states, d->hx.data, d->hy.data, c->states, d->cx.data, d->cy.data,
                           c->weights.bytes, c->weights.data, c->workspace.bytes, c->workspace.data, 0, NULL);
}

int contender_check(const struct contender *contender) {
    return buffer_check(contender->weights, "the weights") | buffer_check(contender->workspace, "the workspace");
}

void contender_close(struct contender *contender) {
    buffer_free(&contender->weights);
    buffer_free(&contender->workspace);
    if (contender->states) cudnnDestroyTensorDescriptor(contender->states);
    if (contender->rows) cudnnDestroyRNNDataDescriptor(contender->rows);
    if (contender->descriptor) cudnnDestroyRNNDescriptor(contender->descriptor);
    if (contender->dropout) cudnnDestroyDropoutDescriptor(contender->dropout);
}
