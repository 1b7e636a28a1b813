#include "rnn_train.h"

#include <math.h>
#include <string.h>

/* A result of fewer elements than this has too few for a norm of its own. */
enum { FEW = 8 };

const char *const result_names[RESULTS] = {"y", "hy", "cy", "dx", "dhx", "dcx", "dW", "dR", "db", "dW_p"};

static Guarded memory_of(cudnnDataType_t type, size_t count) { return guarded_new(count * size_of(type)); }

static int has_c(const Network *n) { return n->cell == CUDNN_LSTM; }

/* Writes NaN after the ends of sequences. */
static void poison_padding(const Network *n, const Guarded *memory, size_t width) {
    if (n->layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) return;
    for (int b = 0; b < n->batch; b++)
        for (int t = n->lengths[b]; t < n->steps; t++) {
            size_t row = n->layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED ? (size_t)b * n->steps + t
                                                                                 : (size_t)t * n->batch + b;
            for (size_t i = 0; i < width; i++)
                set_element(memory->start + (row * width + i) * size_of(n->type), n->type, NAN);
        }
}

/* Finds the kind of each weight. */
static unsigned char *find_kinds(cudnnHandle_t handle, const Rnn *rnn) {
    const Network *n = &rnn->network;
    unsigned char *kinds = calloc(rnn->weight_count + 1, 1);
    REQUIRE(kinds, "no memory");
    int gates = n->cell == CUDNN_LSTM ? 4 : n->cell == CUDNN_GRU ? 3 : 1;
    int pseudo_layers = n->layers * (n->direction == CUDNN_BIDIRECTIONAL ? 2 : 1);
    cudnnTensorDescriptor_t tensors[2];
    for (int k = 0; k < 2; k++) CALL(cudnnCreateTensorDescriptor(&tensors[k]));
    for (int layer = 0; layer < pseudo_layers; layer++)
        for (int id = 0; id < 2 * gates + (n->projection != n->hidden); id++) {
            void *data[2];
            CALL(cudnnGetRNNWeightParams(handle, rnn->descriptor, layer, rnn->weights.bytes, rnn->weights.start, id,
                                         tensors[0], &data[0], tensors[1], &data[1]));
            for (int k = 0; k < 2; k++) {
                if (!data[k]) continue;
                cudnnDataType_t type;
                int rank, dims[8], strides[8];
                CALL(cudnnGetTensorNdDescriptor(tensors[k], 8, &type, &rank, dims, strides));
                size_t first = ((unsigned char *)data[k] - rnn->weights.start) / size_of(n->type), count = 1;
                for (int i = 0; i < rank; i++) count *= dims[i];
                memset(kinds + first, k ? 3 : id < gates ? 1 : id < 2 * gates ? 2 : 4, count);
            }
        }
    for (int k = 0; k < 2; k++) CALL(cudnnDestroyTensorDescriptor(tensors[k]));
    return kinds;
}

static void open_memory(Training *t) {
    const Rnn *rnn = &t->rnn;
    cudnnDataType_t type = rnn->network.type;
    t->dy = memory_of(type, rnn->y_count), t->dx = memory_of(type, rnn->x_count);
    t->dhy = memory_of(type, rnn->h_count), t->dhx = memory_of(type, rnn->h_count);
    t->dcy = memory_of(type, rnn->c_count), t->dcx = memory_of(type, rnn->c_count);
    t->dweights = memory_of(type, rnn->weight_count), t->start = memory_of(type, rnn->weight_count);
    t->workspace = guarded_new(0), t->reserve = guarded_new(0);
}

static void widen(const Guarded *from, cudnnDataType_t type, size_t count, const Guarded *to) {
    for (size_t i = 0; i < count; i++) set_element(to->start + 8 * i, CUDNN_DATA_DOUBLE, value_at(from, type, i));
}

/* The count of a result, and its memory. */
static size_t result(const Training *t, int number, const Guarded **memory) {
    const Rnn *rnn = &t->rnn;
    const Network *n = &rnn->network;
    const Guarded *all[RESULTS] = {&rnn->y, &rnn->hy, &rnn->cy, &t->dx, &t->dhx, &t->dcx,
                                   &t->dweights, &t->dweights, &t->dweights, &t->dweights};
    size_t h = rnn->h_count, c = has_c(n) ? rnn->c_count : 0, w = rnn->weight_count;
    size_t counts[RESULTS] = {rnn->y_count, n->has_hy ? h : 0, n->has_cy ? c : 0, rnn->x_count,
                              t->has_dhx ? h : 0, t->has_dcx ? c : 0, w, w, w, w};
    *memory = all[number];
    return counts[number];
}

static void open_both(cudnnHandle_t handle, Training *t, const Network *network, Random *random) {
    memset(t, 0, sizeof *t);
    rnn_open(handle, &t->rnn, network, random);
    t->kinds = find_kinds(handle, &t->rnn);
    open_memory(t);
}

void training_open(cudnnHandle_t handle, Training *t, const Network *network, Random *random) {
    Network trains = *network, wide = *network;
    trains.mode = wide.mode = CUDNN_FWD_MODE_TRAINING;
    wide.type = CUDNN_DATA_DOUBLE;
    open_both(handle, t, &trains, random);
    Rnn *rnn = &t->rnn;
    cudnnDataType_t type = network->type;
    t->has_dhy = random_below(random, 3) > 0, t->has_dhx = random_below(random, 3) > 0;
    t->has_dcy = random_below(random, 3) > 0, t->has_dcx = random_below(random, 3) > 0;
    fill_random(&t->dy, type, rnn->y_count, 1, random);
    fill_random(&t->dhy, type, rnn->h_count, 1, random);
    fill_random(&t->dcy, type, rnn->c_count, 1, random);
    fill_random(&t->start, type, rnn->weight_count, 0.1, random);
    poison_padding(&trains, &rnn->x, rnn->x_count ? network->input : 0);
    poison_padding(&trains, &t->dy, (size_t)(network->direction == CUDNN_BIDIRECTIONAL ? 2 : 1) * network->projection);
    Training reference;
    Random unused = *random;
    open_both(handle, &reference, &wide, &unused);
    reference.has_dhy = t->has_dhy, reference.has_dhx = t->has_dhx;
    reference.has_dcy = t->has_dcy, reference.has_dcx = t->has_dcx;
    const Guarded *from[] = {&rnn->x, &rnn->hx, &rnn->cx, &rnn->weights, &t->dy, &t->dhy, &t->dcy, &t->start};
    const Guarded *to[] = {&reference.rnn.x, &reference.rnn.hx, &reference.rnn.cx, &reference.rnn.weights,
                           &reference.dy, &reference.dhy, &reference.dcy, &reference.start};
    size_t counts[] = {rnn->x_count, rnn->h_count, rnn->c_count, rnn->weight_count,
                       rnn->y_count, rnn->h_count, rnn->c_count, rnn->weight_count};
    for (int i = 0; i < 8; i++) widen(from[i], type, counts[i], to[i]);
    training_pass(handle, &reference);
    for (int i = 0; i < RESULTS; i++) {
        const Guarded *memory;
        size_t count = result(&reference, i, &memory);
        t->expected[i] = malloc((count + 1) * sizeof *t->expected[i]);
        REQUIRE(t->expected[i], "no memory");
        memcpy(t->expected[i], memory->start, count * sizeof *t->expected[i]);
    }
    training_close(&reference);
}

void training_close(Training *t) {
    Guarded *memory[] = {&t->dy, &t->dhy, &t->dcy, &t->dx, &t->dhx, &t->dcx, &t->dweights, &t->start, &t->workspace, &t->reserve};
    for (int i = 0; i < 10; i++) guarded_free(memory[i]);
    for (int i = 0; i < RESULTS; i++) free(t->expected[i]);
    free(t->kinds);
    rnn_close(&t->rnn);
}

static void sizes(cudnnHandle_t handle, const Training *t, size_t *workspace, size_t *reserve) {
    CALL(cudnnGetRNNTempSpaceSizes(handle, t->rnn.descriptor, CUDNN_FWD_MODE_TRAINING, t->rnn.x_descriptor, workspace, reserve));
}

size_t training_workspace(cudnnHandle_t handle, const Training *t) {
    size_t workspace;
    sizes(handle, t, &workspace, NULL);
    return workspace;
}

size_t training_reserve(cudnnHandle_t handle, const Training *t) {
    size_t workspace, reserve;
    sizes(handle, t, &workspace, &reserve);
    return reserve;
}

void training_prepare(cudnnHandle_t handle, Training *t) {
    size_t workspace, reserve;
    sizes(handle, t, &workspace, &reserve);
    guarded_free(&t->workspace), guarded_free(&t->reserve);
    t->workspace = guarded_new(workspace), t->reserve = guarded_new(reserve);
    memset(t->reserve.start, 0xff, t->reserve.bytes);
}

void training_seed(cudnnHandle_t handle, Training *t) {
    CALL(cudnnSetDropoutDescriptor(t->rnn.dropout, handle, (float)t->rnn.network.dropout, t->rnn.states.start,
                                   t->rnn.states.bytes, 1));
}

static void poison(const Guarded *memory) { memset(memory->start, 0xff, memory->bytes); }

cudnnStatus_t training_forward(cudnnHandle_t handle, Training *t) {
    Rnn *rnn = &t->rnn;
    const Network *n = &rnn->network;
    poison(&rnn->y), poison(&rnn->hy), poison(&rnn->cy), poison(&t->workspace);
    return cudnnRNNForward(handle, rnn->descriptor, n->mode, n->has_device_lengths ? n->lengths : NULL, rnn->x_descriptor,
                           rnn->x.start, rnn->y_descriptor, rnn->y.start, rnn->h_descriptor,
                           n->has_hx ? rnn->hx.start : NULL, n->has_hy ? rnn->hy.start : NULL, rnn->c_descriptor,
                           n->has_cx ? rnn->cx.start : NULL, n->has_cy ? rnn->cy.start : NULL, rnn->weights.bytes,
                           rnn->weights.start, t->workspace.bytes, t->workspace.start, t->reserve.bytes, t->reserve.start);
}

cudnnStatus_t training_data(cudnnHandle_t handle, Training *t) {
    Rnn *rnn = &t->rnn;
    const Network *n = &rnn->network;
    poison(&t->dx), poison(&t->dhx), poison(&t->dcx), poison(&t->workspace);
    return cudnnRNNBackwardData_v8(
        handle, rnn->descriptor, n->has_device_lengths ? n->lengths : NULL, rnn->y_descriptor, rnn->y.start, t->dy.start,
        rnn->x_descriptor, t->dx.start, rnn->h_descriptor, n->has_hx ? rnn->hx.start : NULL,
        t->has_dhy ? t->dhy.start : NULL, t->has_dhx ? t->dhx.start : NULL, rnn->c_descriptor,
        n->has_cx ? rnn->cx.start : NULL, t->has_dcy ? t->dcy.start : NULL, t->has_dcx ? t->dcx.start : NULL,
        rnn->weights.bytes, rnn->weights.start, t->workspace.bytes, t->workspace.start, t->reserve.bytes, t->reserve.start);
}

cudnnStatus_t training_weights(cudnnHandle_t handle, Training *t) {
    Rnn *rnn = &t->rnn;
    const Network *n = &rnn->network;
    poison(&t->workspace);
    memcpy(t->dweights.start, t->start.start, t->start.bytes);
    return cudnnRNNBackwardWeights_v8(handle, rnn->descriptor, CUDNN_WGRAD_MODE_ADD, n->has_device_lengths ? n->lengths : NULL,
                                      rnn->x_descriptor, rnn->x.start, rnn->h_descriptor, n->has_hx ? rnn->hx.start : NULL,
                                      rnn->y_descriptor, rnn->y.start, t->dweights.bytes, t->dweights.start,
                                      t->workspace.bytes, t->workspace.start, t->reserve.bytes, t->reserve.start);
}

void training_pass(cudnnHandle_t handle, Training *t) {
    training_prepare(handle, t);
    training_seed(handle, t);
    CALL(training_forward(handle, t));
    CALL(training_data(handle, t));
    CALL(training_weights(handle, t));
    training_check(t);
}

static int is_poison(const Guarded *memory) {
    for (size_t i = 0; i < memory->bytes; i++)
        if (memory->start[i] != 0xff) return 0;
    return 1;
}

void training_check(const Training *t) {
    const Network *n = &t->rnn.network;
    rnn_check(&t->rnn);
    const Guarded *memory[] = {&t->dy, &t->dhy, &t->dcy, &t->dx, &t->dhx, &t->dcx, &t->dweights, &t->workspace, &t->reserve};
    const char *names[] = {"dy", "dhy", "dcy", "dx", "dhx", "dcx", "dweights", "the workspace", "the reserve"};
    for (int i = 0; i < 9; i++) guarded_check(memory[i], names[i]);
    REQUIRE(t->has_dhx || is_poison(&t->dhx), "dhx was not asked for");
    REQUIRE((t->has_dcx && has_c(n)) || is_poison(&t->dcx), "dcx was not asked for");
}

/* The sums over a result of its squared errors, and of the squared expected numbers. Returns the number of elements.
 * Each kind of the weights' gradients is a result of its own. */
static size_t squares(const Training *t, int i, double *distance, double *norm) {
    const Guarded *memory;
    size_t count = result(t, i, &memory), counted = 0;
    *distance = *norm = 0;
    for (size_t k = 0; k < count; k++) {
        if (i >= 6 && t->kinds[k] != i - 5) continue;
        double expected = t->expected[i][k], off = value_at(memory, t->rnn.network.type, k) - expected;
        *distance += off * off, *norm += expected * expected, counted++;
    }
    return counted;
}

void training_errors(const Training *t, double errors[RESULTS]) {
    for (int i = 0; i < RESULTS; i++) {
        double distance, norm, first_distance, first_norm;
        size_t count = squares(t, i, &distance, &norm);
        /* All may be small differences of large numbers: the call's first result tells how large these are. */
        if (count < FEW) {
            size_t first = squares(t, i < 9 ? i / 3 * 3 : 6, &first_distance, &first_norm);
            if (first > 0) norm = fmax(norm, first_norm / first * count);
        }
        errors[i] = distance == 0 ? 0 : sqrt(distance / norm);
    }
}

static int all_are_nan(const Guarded *memory, cudnnDataType_t type, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(value_at(memory, type, i))) return 0;
    return 1;
}

int training_data_are_nan(const Training *t) {
    for (int i = 3; i < 6; i++) {
        const Guarded *memory;
        size_t count = result(t, i, &memory);
        if (!all_are_nan(memory, t->rnn.network.type, count)) return 0;
    }
    return 1;
}

int training_weights_are_nan(const Training *t) {
    return all_are_nan(&t->dweights, t->rnn.network.type, t->rnn.weight_count);
}

uint64_t training_hash(const Training *t) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < 7; i++) {
        const Guarded *memory;
        size_t bytes = result(t, i, &memory) * size_of(t->rnn.network.type);
        for (size_t k = 0; k < bytes; k++) hash = (hash ^ memory->start[k]) * 1099511628211u;
    }
    return hash;
}
