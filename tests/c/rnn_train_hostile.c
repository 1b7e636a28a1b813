/* Calls of a training pass with one argument that is wrong. Prints each call's status.
 *
 * rnn_train_hostile */
#include <string.h>

#include "rnn_train.h"

static cudnnHandle_t handle;

/* The arguments of all three calls, by name. */
typedef struct {
    void *handle, *descriptor, *y_descriptor, *x_descriptor, *h_descriptor, *c_descriptor;
    void *x, *y, *dy, *dx, *hx, *hy, *cx, *cy, *dhy, *dhx, *dcy, *dcx, *weights, *dweights, *workspace, *reserve;
    size_t weight_bytes, workspace_bytes, reserve_bytes;
} Arguments;

static const char *const names[] = {"handle", "descriptor", "yDesc", "xDesc", "hDesc", "cDesc", "x", "y", "dy", "dx", "hx",
                                    "hy", "cx", "cy", "dhy", "dhx", "dcy", "dcx", "weights", "dweights", "workspace", "reserve"};
enum { POINTERS = sizeof names / sizeof *names };

static int mode = CUDNN_FWD_MODE_TRAINING;

static cudnnStatus_t call(int number, const Arguments *a) {
    if (number == 0)
        return cudnnRNNForward(a->handle, a->descriptor, (cudnnForwardMode_t)mode, NULL, a->x_descriptor, a->x, a->y_descriptor,
                               a->y, a->h_descriptor, a->hx, a->hy, a->c_descriptor, a->cx, a->cy, a->weight_bytes, a->weights,
                               a->workspace_bytes, a->workspace, a->reserve_bytes, a->reserve);
    if (number == 1)
        return cudnnRNNBackwardData_v8(a->handle, a->descriptor, NULL, a->y_descriptor, a->y, a->dy, a->x_descriptor, a->dx,
                                       a->h_descriptor, a->hx, a->dhy, a->dhx, a->c_descriptor, a->cx, a->dcy, a->dcx,
                                       a->weight_bytes, a->weights, a->workspace_bytes, a->workspace, a->reserve_bytes,
                                       a->reserve);
    return cudnnRNNBackwardWeights_v8(a->handle, a->descriptor, CUDNN_WGRAD_MODE_ADD, NULL, a->x_descriptor, a->x,
                                      a->h_descriptor, a->hx, a->y_descriptor, a->y, a->weight_bytes, a->dweights,
                                      a->workspace_bytes, a->workspace, a->reserve_bytes, a->reserve);
}

static Training training;

/* The arguments of a pass whose calls before `number` have run. */
static Arguments prepared(int number) {
    Training *t = &training;
    Rnn *r = &t->rnn;
    training_prepare(handle, t);
    training_seed(handle, t);
    memset(t->dweights.start, 0, t->dweights.bytes);
    Arguments a = {handle, r->descriptor, r->y_descriptor, r->x_descriptor, r->h_descriptor, r->c_descriptor,
                   r->x.start, r->y.start, t->dy.start, t->dx.start, r->hx.start, r->hy.start, r->cx.start, r->cy.start,
                   t->dhy.start, t->dhx.start, t->dcy.start, t->dcx.start, r->weights.start, t->dweights.start,
                   t->workspace.start, t->reserve.start, r->weights.bytes, t->workspace.bytes, t->reserve.bytes};
    for (int before = 0; before < number; before++) CALL(call(before, &a));
    return a;
}

static void try(int number, const char *what, const Arguments *a) {
    static const char *const calls[] = {"forward", "backward data", "backward weights"};
    cudnnStatus_t status = call(number, a);
    printf("%s, %s: %s\n", calls[number], what, cudnnGetErrorString(status));
    fflush(stdout);
}

/* The least workspace (1) or reserve (2) with which forward succeeds: cuDNN's own. */
static size_t least(int space) {
    Arguments a = prepared(0);
    size_t *bytes = &(&a.weight_bytes)[space], refused = 0, taken = *bytes;
    while (taken - refused > 1) {
        *bytes = refused + (taken - refused) / 2;
        if (call(0, &a) == CUDNN_STATUS_SUCCESS) taken = *bytes;
        else refused = *bytes;
    }
    return taken;
}

static void each(int projection) {
    Random random = {5};
    Network n = network_plain(CUDNN_DATA_FLOAT, 6, 3, 2), other = n;
    n.layers = 2, n.dropout = 0.5, n.projection = projection;
    other.batch = 1, other.hidden = other.projection = 5;
    Training wrong;
    training_open(handle, &training, &n, &random);
    training_open(handle, &wrong, &other, &random);
    training_pass(handle, &training);
    training_prepare(handle, &wrong);
    size_t least_bytes[] = {0, least(1), least(2)};
    printf("least workspace and reserve: %zu %zu\n", least_bytes[1], least_bytes[2]);
    for (int number = 0; number < 3; number++) {
        for (int i = 0; i < POINTERS; i++) {
            Arguments a = prepared(number);
            ((void **)&a)[i] = NULL;
            /* Without a handle the program itself could not go on. */
            char text[64];
            snprintf(text, sizeof text, "%s is null", names[i]);
            try(number, text, &a);
        }
        void *others[] = {NULL, wrong.rnn.descriptor, wrong.rnn.y_descriptor, wrong.rnn.x_descriptor, wrong.rnn.h_descriptor,
                          wrong.rnn.c_descriptor};
        for (int i = 2; i < 6; i++) {
            Arguments a = prepared(number);
            ((void **)&a)[i] = others[i];
            char text[64];
            snprintf(text, sizeof text, "another network's %s", names[i]);
            try(number, text, &a);
        }
        for (int i = 0; i < 3; i++) {
            static const char *const spaces[] = {"no weights", "no workspace", "no reserve"};
            Arguments a = prepared(number);
            (&a.weight_bytes)[i] = 0;
            try(number, spaces[i], &a);
        }
        for (int space = 1; space < 3; space++) {
            static const char *const spaces[] = {"a byte of workspace too few", "a byte of reserve too few"};
            Arguments a = prepared(number);
            (&a.weight_bytes)[space] = least_bytes[space] - 1;
            try(number, spaces[space - 1], &a);
        }
        Arguments a = prepared(number);
        a.reserve = wrong.reserve.start, a.reserve_bytes = wrong.reserve.bytes;
        REQUIRE(a.reserve_bytes < least_bytes[2], "the other network's reserve is not smaller");
        try(number, "another network's reserve", &a);
        a = prepared(number);
        try(number, "all is right", &a);
    }
    static const int others[] = {-1, 2, 1 << 20};
    for (int i = 0; i < 3; i++) {
        Arguments a = prepared(0);
        mode = others[i];
        try(0, "another mode", &a);
        mode = CUDNN_FWD_MODE_TRAINING;
    }
    training_close(&training), training_close(&wrong);
}

int main(void) {
    CALL(cudnnCreate(&handle));
    each(6), each(4);
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
