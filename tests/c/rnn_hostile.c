/* Null, garbage, mismatched and aliased arguments to the functions of the RNN API that run a network, and networks that
 * only cuDNN runs. Prints a line for each call: its text, its status and, if cuDNN itself must have computed it, a hash
 * of the results. */
#include <stddef.h>
#include <string.h>

#include "rnn.h"

static cudnnHandle_t handle;
static unsigned char garbage[4096]; /* readable, but not a descriptor */

/* The arguments of cudnnRNNForward. */
typedef struct {
    cudnnHandle_t handle;
    cudnnRNNDescriptor_t rnn;
    cudnnForwardMode_t mode;
    const int *lengths;
    cudnnRNNDataDescriptor_t x_descriptor, y_descriptor;
    void *x, *y;
    cudnnTensorDescriptor_t h_descriptor, c_descriptor;
    void *hx, *hy, *cx, *cy, *weights, *workspace, *reserve;
    size_t weight_bytes, workspace_bytes, reserve_bytes;
} Arguments;

static Arguments arguments_of(const Rnn *rnn) {
    const Network *n = &rnn->network;
    Arguments arguments = {handle, rnn->descriptor, n->mode, n->has_device_lengths ? n->lengths : NULL,
                           rnn->x_descriptor, rnn->y_descriptor, rnn->x.start, rnn->y.start, rnn->h_descriptor,
                           rnn->c_descriptor, rnn->hx.start, rnn->hy.start, rnn->cx.start, rnn->cy.start,
                           rnn->weights.start, rnn->workspace.start, rnn->reserve.bytes ? rnn->reserve.start : NULL,
                           rnn->weights.bytes, rnn->workspace.bytes, rnn->reserve.bytes};
    return arguments;
}

static cudnnStatus_t forward(const Arguments *a) {
    return cudnnRNNForward(a->handle, a->rnn, a->mode, a->lengths, a->x_descriptor, a->x, a->y_descriptor, a->y,
                           a->h_descriptor, a->hx, a->hy, a->c_descriptor, a->cx, a->cy, a->weight_bytes, a->weights,
                           a->workspace_bytes, a->workspace, a->reserve_bytes, a->reserve);
}

/* FNV-1a. */
static uint64_t hashed(uint64_t hash, const Guarded *memory) {
    for (size_t i = 0; i < memory->bytes; i++) hash = (hash ^ memory->start[i]) * 0x100000001b3;
    return hash;
}

/* Poisons the results and runs. `is_cudnn`: the results must have the plain library's bits. */
static void say(const char *call, Rnn *rnn, const Arguments *arguments, int is_cudnn) {
    memset(rnn->y.start, 0xff, rnn->y.bytes);
    memset(rnn->hy.start, 0xff, rnn->hy.bytes);
    memset(rnn->cy.start, 0xff, rnn->cy.bytes);
    cudnnStatus_t status = forward(arguments);
    uint64_t hash = 0;
    if (is_cudnn) hash = hashed(hashed(hashed(0xcbf29ce484222325, &rnn->y), &rnn->hy), &rnn->cy);
    printf("%s|%d|%llx\n", call, status, (unsigned long long)hash);
    fflush(stdout);
    guarded_check(&rnn->y, call), guarded_check(&rnn->hy, call), guarded_check(&rnn->cy, call);
    guarded_check(&rnn->workspace, call);
}

#define WITH(field, value)                                                                  \
    do {                                                                                    \
        Arguments changed = arguments_of(rnn);                                              \
        changed.field = (value);                                                            \
        say(#field " = " #value, rnn, &changed, is_cudnn);                                  \
    } while (0)
/* cuDNN computes every forwarded call. */
#define WITH_FORWARDED(field, value)                                                        \
    do {                                                                                    \
        Arguments changed = arguments_of(rnn);                                              \
        changed.field = (value);                                                            \
        say(#field " = " #value, rnn, &changed, 1);                                         \
    } while (0)

/* A data descriptor like y's, with other values. */
static cudnnRNNDataDescriptor_t other_data(const Network *n, int type, int layout, int steps, int batch, int vector) {
    static int lengths[MOST_BATCH];
    for (int i = 0; i < MOST_BATCH; i++) lengths[i] = steps;
    (void)n;
    cudnnRNNDataDescriptor_t descriptor;
    CALL(cudnnCreateRNNDataDescriptor(&descriptor));
    CALL(cudnnSetRNNDataDescriptor(descriptor, type, layout, steps, batch, vector, lengths, NULL));
    return descriptor;
}

static cudnnTensorDescriptor_t other_state(cudnnDataType_t type, int a, int b, int c, int stride) {
    cudnnTensorDescriptor_t descriptor;
    int dims[3] = {a, b, c}, strides[3] = {b * stride, stride, 1};
    CALL(cudnnCreateTensorDescriptor(&descriptor));
    CALL(cudnnSetTensorNdDescriptor(descriptor, type, 3, dims, strides));
    return descriptor;
}

/* The least bytes in a field of the arguments with which the call succeeds, at most the reported ones. */
static size_t least(const Rnn *rnn, size_t offset) {
    Arguments arguments = arguments_of(rnn);
    size_t *field = (size_t *)(void *)((char *)&arguments + offset), refused = 0, taken = *field;
    while (taken - refused > 1) {
        *field = refused + (taken - refused) / 2;
        if (forward(&arguments) == CUDNN_STATUS_SUCCESS) taken = *field;
        else refused = *field;
    }
    return taken;
}

static void each(Rnn *rnn, int is_cudnn) {
    const Network *n = &rnn->network;
    int directions = n->direction == CUDNN_BIDIRECTIONAL ? 2 : 1, output = directions * n->projection;
    Arguments as_is = arguments_of(rnn);
    say("as it is", rnn, &as_is, is_cudnn);
    WITH(handle, NULL);
    WITH(handle, (cudnnHandle_t)(void *)garbage);
    WITH(rnn, NULL);
    WITH(rnn, (cudnnRNNDescriptor_t)(void *)garbage);
    WITH(mode, -1);
    WITH(mode, 2);
    WITH(x_descriptor, NULL);
    WITH(x_descriptor, (cudnnRNNDataDescriptor_t)(void *)garbage);
    WITH(x_descriptor, rnn->y_descriptor);
    WITH(y_descriptor, NULL);
    WITH(y_descriptor, (cudnnRNNDataDescriptor_t)(void *)garbage);
    WITH(y_descriptor, rnn->x_descriptor);
    WITH(h_descriptor, NULL);
    WITH(h_descriptor, (cudnnTensorDescriptor_t)(void *)garbage);
    WITH(c_descriptor, NULL);
    WITH(c_descriptor, (cudnnTensorDescriptor_t)(void *)garbage);
    WITH(x, NULL);
    WITH(y, NULL);
    WITH(hx, NULL);
    WITH(hy, NULL);
    WITH(cx, NULL);
    WITH(cy, NULL);
    WITH(weights, NULL);
    WITH(workspace, NULL);
    WITH(weight_bytes, 0);
    WITH(weight_bytes, rnn->weights.bytes - 1);
    WITH(workspace_bytes, 0);
    WITH(workspace_bytes, 64);
    /* Each call with dropout draws further masks. */
    if (n->dropout == 0) {
        size_t workspace = least(rnn, offsetof(Arguments, workspace_bytes));
        size_t reserve = least(rnn, offsetof(Arguments, reserve_bytes));
        printf("least workspace and reserve|0|%zu %zu\n", workspace, reserve);
        WITH(workspace_bytes, workspace - 1);
        WITH(workspace_bytes, workspace);
    }
    WITH(reserve_bytes, 0);
    WITH(reserve, NULL);
    WITH_FORWARDED(hy, rnn->hx.start);
    if (n->cell == CUDNN_LSTM) WITH_FORWARDED(cy, rnn->cx.start); /* other cells ignore both */
    WITH_FORWARDED(x, rnn->x.start + 1);
    WITH_FORWARDED(weights, rnn->weights.start + 1);
    cudnnRNNDescriptor_t unset;
    cudnnRNNDataDescriptor_t unset_data;
    CALL(cudnnCreateRNNDescriptor(&unset));
    CALL(cudnnCreateRNNDataDescriptor(&unset_data));
    WITH(rnn, unset);
    WITH(x_descriptor, unset_data);
    WITH(y_descriptor, unset_data);
    cudnnRNNDataDescriptor_t others[] = {
        other_data(n, CUDNN_DATA_HALF, n->layout, n->steps, n->batch, output),
        other_data(n, CUDNN_DATA_DOUBLE, n->layout, n->steps, n->batch, output),
        other_data(n, n->type, (n->layout + 1) % 3, n->steps, n->batch, output),
        other_data(n, n->type, n->layout, n->steps + 1, n->batch, output),
        other_data(n, n->type, n->layout, n->steps, n->batch + 1, output),
        other_data(n, n->type, n->layout, n->steps, n->batch, output + 1)};
    for (int i = 0; i < 6; i++) {
        WITH(y_descriptor, others[i]);
        WITH(x_descriptor, others[i]);
        CALL(cudnnDestroyRNNDataDescriptor(others[i]));
    }
    int layers = n->layers * directions;
    cudnnTensorDescriptor_t states[] = {other_state(n->type, layers + 1, n->batch, n->hidden, n->hidden),
                                        other_state(n->type, layers, n->batch + 1, n->hidden, n->hidden),
                                        other_state(n->type, layers, n->batch, n->hidden + 1, n->hidden + 1),
                                        other_state(n->type, layers, n->batch, n->hidden, n->hidden + 1)};
    for (int i = 0; i < 4; i++) {
        WITH(h_descriptor, states[i]);
        WITH(c_descriptor, states[i]);
        CALL(cudnnDestroyTensorDescriptor(states[i]));
    }
    size_t workspace, reserve;
    const struct {
        cudnnHandle_t handle;
        cudnnRNNDescriptor_t rnn;
        cudnnForwardMode_t mode;
        cudnnRNNDataDescriptor_t x;
        size_t *workspace, *reserve;
    } sizes[] = {{NULL, rnn->descriptor, n->mode, rnn->x_descriptor, &workspace, &reserve},
                 {(cudnnHandle_t)(void *)garbage, rnn->descriptor, n->mode, rnn->x_descriptor, &workspace, &reserve},
                 {handle, NULL, n->mode, rnn->x_descriptor, &workspace, &reserve},
                 {handle, unset, n->mode, rnn->x_descriptor, &workspace, &reserve},
                 {handle, (cudnnRNNDescriptor_t)(void *)garbage, n->mode, rnn->x_descriptor, &workspace, &reserve},
                 {handle, rnn->descriptor, 7, rnn->x_descriptor, &workspace, &reserve},
                 {handle, rnn->descriptor, n->mode, NULL, &workspace, &reserve},
                 {handle, rnn->descriptor, n->mode, unset_data, &workspace, &reserve},
                 {handle, rnn->descriptor, n->mode, rnn->x_descriptor, NULL, &reserve},
                 {handle, rnn->descriptor, n->mode, rnn->x_descriptor, &workspace, NULL},
                 {handle, rnn->descriptor, n->mode, rnn->x_descriptor, NULL, NULL}};
    for (int i = 0; i < 11; i++) {
        cudnnStatus_t status = cudnnGetRNNTempSpaceSizes(sizes[i].handle, sizes[i].rnn, sizes[i].mode, sizes[i].x,
                                                         sizes[i].workspace, sizes[i].reserve);
        printf("sizes %d|%d|0\n", i, status);
    }
    CALL(cudnnDestroyRNNDescriptor(unset));
    CALL(cudnnDestroyRNNDataDescriptor(unset_data));
}

int main(void) {
    Random random = {7};
    CALL(cudnnCreate(&handle));
    Network networks[9];
    for (int i = 0; i < 9; i++) networks[i] = network_plain(CUDNN_DATA_FLOAT, 16, 3, 2);
    /* libucudnn.so runs networks 0 to 3 … */
    networks[1].cell = CUDNN_GRU, networks[1].direction = CUDNN_BIDIRECTIONAL, networks[1].lengths[1] = 1;
    networks[2].layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, networks[2].lengths[1] = 2;
    networks[3].projection = 9;
    /* … and cuDNN runs the others. */
    networks[4].type = CUDNN_DATA_DOUBLE;
    networks[5].clip = 0.1;
    networks[6].mode = CUDNN_FWD_MODE_TRAINING;
    networks[7].input_mode = CUDNN_SKIP_INPUT, networks[7].input = 16;
    networks[8].mode = CUDNN_FWD_MODE_TRAINING, networks[8].dropout = 0.5, networks[8].layers = 2;
    for (int i = 0; i < 9; i++) {
        Rnn rnn;
        char text[512];
        network_print(&networks[i], text, sizeof text);
        printf("%s|0|0\n", text);
        rnn_open(handle, &rnn, &networks[i], &random);
        each(&rnn, i >= 4);
        rnn_close(&rnn);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
