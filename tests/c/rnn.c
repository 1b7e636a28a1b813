#include "rnn.h"

#include <math.h>
#include <string.h>

void fill_random(const Guarded *memory, cudnnDataType_t type, size_t count, double scale, Random *random) {
    for (size_t i = 0; i < count; i++) {
        double value = ((double)(random_bits(random) >> 11) / 9007199254740992.0 * 2 - 1) * scale;
        set_element(memory->start + i * size_of(type), type, value);
    }
}

static int directions_of(const Network *network) { return network->direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }

static int rows_of(const Network *network) {
    int rows = 0;
    for (int i = 0; i < network->batch; i++) rows += network->lengths[i];
    return network->layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED ? rows : network->steps * network->batch;
}

Network network_plain(cudnnDataType_t type, int hidden, int steps, int batch) {
    Network network;
    memset(&network, 0, sizeof network);
    network.cell = CUDNN_LSTM, network.bias = CUDNN_RNN_DOUBLE_BIAS, network.direction = CUDNN_UNIDIRECTIONAL;
    network.type = type, network.math = CUDNN_FMA_MATH;
    network.input = 6, network.hidden = network.projection = hidden, network.layers = 1;
    network.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
    network.steps = steps, network.batch = batch;
    for (int i = 0; i < batch; i++) network.lengths[i] = steps;
    network.has_hx = network.has_hy = network.has_cx = network.has_cy = 1;
    network.mode = CUDNN_FWD_MODE_INFERENCE;
    return network;
}

void network_vary(Network *n, Random *random) {
    int packed = n->layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    if (random_below(random, 2))
        for (int i = 0; i < n->batch; i++)
            n->lengths[i] = packed ? 1 + random_below(random, n->steps) : random_below(random, n->steps + 1);
    if (packed) {
        n->lengths[0] = n->steps;
        for (int i = 1; i < n->batch; i++)
            if (n->lengths[i] > n->lengths[i - 1]) n->lengths[i] = n->lengths[i - 1];
    }
    n->has_hx = random_below(random, 3) > 0, n->has_hy = random_below(random, 3) > 0;
    n->has_cx = random_below(random, 3) > 0, n->has_cy = random_below(random, 3) > 0;
    n->has_device_lengths = random_below(random, 2);
    n->fill = random_below(random, 3) - 1;
    n->math = random_below(random, 2) ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

void network_print(const Network *n, char *text, size_t size) {
    int shortest = n->steps;
    for (int i = 0; i < n->batch; i++) shortest = n->lengths[i] < shortest ? n->lengths[i] : shortest;
    snprintf(text, size, "cell %d bias %d direction %d type %d input %d hidden %d projection %d layers %d layout %d steps %d to %d "
             "batch %d states %d%d%d%d mode %d", n->cell, n->bias, n->direction, n->type, n->input, n->hidden, n->projection, n->layers,
             n->layout, shortest, n->steps, n->batch, n->has_hx, n->has_hy, n->has_cx, n->has_cy, n->mode);
}

static Guarded memory_of(cudnnDataType_t type, size_t count) { return guarded_new(count * size_of(type)); }

/* Everything except the data. */
static void open_descriptors(cudnnHandle_t handle, Rnn *rnn, const Network *n) {
    memset(rnn, 0, sizeof *rnn);
    rnn->network = *n;
    CALL(cudnnCreateRNNDescriptor(&rnn->descriptor));
    CALL(cudnnCreateDropoutDescriptor(&rnn->dropout));
    size_t bytes;
    CALL(cudnnDropoutGetStatesSize(handle, &bytes));
    rnn->states = guarded_new(bytes);
    CALL(cudnnSetDropoutDescriptor(rnn->dropout, handle, (float)n->dropout, rnn->states.start, bytes, 1));
    cudnnDataType_t precision = n->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    CALL(cudnnSetRNNDescriptor_v8(rnn->descriptor, CUDNN_RNN_ALGO_STANDARD, n->cell, n->bias, n->direction, n->input_mode,
                                  n->type, precision, n->math, n->input, n->hidden, n->projection, n->layers, rnn->dropout,
                                  CUDNN_RNN_PADDED_IO_ENABLED));
    if (n->clip > 0) CALL(cudnnRNNSetClip_v9(rnn->descriptor, CUDNN_RNN_CLIP_MINMAX, -n->clip, n->clip));
    CALL(cudnnCreateRNNDataDescriptor(&rnn->x_descriptor));
    CALL(cudnnCreateRNNDataDescriptor(&rnn->y_descriptor));
    double aligned = 0;
    unsigned char *fill = (unsigned char *)&aligned;
    set_element(fill, n->type, n->fill);
    int output = directions_of(n) * n->projection;
    CALL(cudnnSetRNNDataDescriptor(rnn->x_descriptor, n->type, n->layout, n->steps, n->batch, n->input, n->lengths, fill));
    CALL(cudnnSetRNNDataDescriptor(rnn->y_descriptor, n->type, n->layout, n->steps, n->batch, output, n->lengths, fill));
    int h_dims[5] = {n->layers * directions_of(n), n->batch, n->projection, 1, 1};
    int c_dims[5] = {h_dims[0], n->batch, n->hidden, 1, 1};
    int h_strides[5] = {h_dims[1] * h_dims[2], h_dims[2], 1, 1, 1}, c_strides[5] = {c_dims[1] * c_dims[2], c_dims[2], 1, 1, 1};
    int rank = n->hidden % 2 ? 3 : 5; /* the ranks that PyTorch passes */
    CALL(cudnnCreateTensorDescriptor(&rnn->h_descriptor));
    CALL(cudnnCreateTensorDescriptor(&rnn->c_descriptor));
    CALL(cudnnSetTensorNdDescriptor(rnn->h_descriptor, n->type, rank, h_dims, h_strides));
    CALL(cudnnSetTensorNdDescriptor(rnn->c_descriptor, n->type, rank, c_dims, c_strides));
    CALL(cudnnGetRNNWeightSpaceSize(handle, rnn->descriptor, &bytes));
    rnn->weights = guarded_new(bytes);
    rnn->weight_count = bytes / size_of(n->type);
    size_t reserve;
    CALL(cudnnGetRNNTempSpaceSizes(handle, rnn->descriptor, n->mode, rnn->x_descriptor, &bytes, &reserve));
    rnn->workspace = guarded_new(bytes);
    rnn->reserve = guarded_new(reserve);
    rnn->x_count = (size_t)rows_of(n) * n->input, rnn->y_count = (size_t)rows_of(n) * output;
    rnn->h_count = (size_t)h_dims[0] * h_dims[1] * h_dims[2], rnn->c_count = (size_t)c_dims[0] * c_dims[1] * c_dims[2];
    rnn->x = memory_of(n->type, rnn->x_count), rnn->y = memory_of(n->type, rnn->y_count);
    rnn->hx = memory_of(n->type, rnn->h_count), rnn->hy = memory_of(n->type, rnn->h_count);
    rnn->cx = memory_of(n->type, rnn->c_count), rnn->cy = memory_of(n->type, rnn->c_count);
}

static void widen(const Guarded *from, cudnnDataType_t type, size_t count, const Guarded *to) {
    for (size_t i = 0; i < count; i++) set_element(to->start + 8 * i, CUDNN_DATA_DOUBLE, value_at(from, type, i));
}

static double *copied(const Guarded *memory, size_t count) {
    double *values = malloc((count + 1) * sizeof *values);
    REQUIRE(values, "no memory");
    memcpy(values, memory->start, count * sizeof *values);
    return values;
}

/* Computes the expected results: the same network and data in double. */
static void expect(cudnnHandle_t handle, Rnn *rnn) {
    Network wide = rnn->network;
    Rnn reference;
    wide.type = CUDNN_DATA_DOUBLE;
    open_descriptors(handle, &reference, &wide);
    widen(&rnn->x, rnn->network.type, rnn->x_count, &reference.x);
    widen(&rnn->hx, rnn->network.type, rnn->h_count, &reference.hx);
    widen(&rnn->cx, rnn->network.type, rnn->c_count, &reference.cx);
    widen(&rnn->weights, rnn->network.type, rnn->weight_count, &reference.weights);
    CALL(rnn_run(handle, &reference));
    rnn->expected[0] = copied(&reference.y, rnn->y_count);
    rnn->expected[1] = copied(&reference.hy, rnn->h_count);
    rnn->expected[2] = copied(&reference.cy, rnn->c_count);
    rnn_close(&reference);
}

void rnn_open(cudnnHandle_t handle, Rnn *rnn, const Network *network, Random *random) {
    open_descriptors(handle, rnn, network);
    cudnnDataType_t type = network->type;
    fill_random(&rnn->x, type, rnn->x_count, 1, random);
    fill_random(&rnn->hx, type, rnn->h_count, 1, random);
    fill_random(&rnn->cx, type, rnn->c_count, 1, random);
    fill_random(&rnn->weights, type, rnn->weight_count, 1 / sqrt(network->hidden), random);
    expect(handle, rnn);
}

void rnn_close(Rnn *rnn) {
    Guarded *memory[] = {&rnn->x,  &rnn->y,  &rnn->hx,      &rnn->hy,        &rnn->cx,
                         &rnn->cy, &rnn->weights, &rnn->workspace, &rnn->reserve, &rnn->states};
    for (int i = 0; i < 10; i++) guarded_free(memory[i]);
    for (int i = 0; i < 3; i++) free(rnn->expected[i]);
    CALL(cudnnDestroyTensorDescriptor(rnn->h_descriptor));
    CALL(cudnnDestroyTensorDescriptor(rnn->c_descriptor));
    CALL(cudnnDestroyRNNDataDescriptor(rnn->x_descriptor));
    CALL(cudnnDestroyRNNDataDescriptor(rnn->y_descriptor));
    CALL(cudnnDestroyRNNDescriptor(rnn->descriptor));
    CALL(cudnnDestroyDropoutDescriptor(rnn->dropout));
}

cudnnStatus_t rnn_run(cudnnHandle_t handle, Rnn *rnn) {
    const Network *n = &rnn->network;
    memset(rnn->y.start, 0xff, rnn->y.bytes);
    memset(rnn->hy.start, 0xff, rnn->hy.bytes);
    memset(rnn->cy.start, 0xff, rnn->cy.bytes);
    memset(rnn->workspace.start, 0xff, rnn->workspace.bytes);
    return cudnnRNNForward(handle, rnn->descriptor, n->mode, n->has_device_lengths ? n->lengths : NULL, rnn->x_descriptor,
                           rnn->x.start, rnn->y_descriptor, rnn->y.start, rnn->h_descriptor,
                           n->has_hx ? rnn->hx.start : NULL, n->has_hy ? rnn->hy.start : NULL, rnn->c_descriptor,
                           n->has_cx ? rnn->cx.start : NULL, n->has_cy ? rnn->cy.start : NULL, rnn->weights.bytes,
                           rnn->weights.start, rnn->workspace.bytes, rnn->workspace.start, rnn->reserve.bytes,
                           rnn->reserve.bytes ? rnn->reserve.start : NULL);
}

static int is_poison(const Guarded *memory) {
    for (size_t i = 0; i < memory->bytes; i++)
        if (memory->start[i] != 0xff) return 0;
    return 1;
}

void rnn_check(const Rnn *rnn) {
    const Network *n = &rnn->network;
    guarded_check(&rnn->x, "x"), guarded_check(&rnn->y, "y"), guarded_check(&rnn->weights, "the weights");
    guarded_check(&rnn->hx, "hx"), guarded_check(&rnn->hy, "hy"), guarded_check(&rnn->cx, "cx");
    guarded_check(&rnn->cy, "cy"), guarded_check(&rnn->workspace, "the workspace"), guarded_check(&rnn->reserve, "reserve");
    REQUIRE(n->has_hy || is_poison(&rnn->hy), "hy was not asked for");
    REQUIRE((n->has_cy && n->cell == CUDNN_LSTM) || is_poison(&rnn->cy), "cy was not asked for");
}

void rnn_errors(const Rnn *rnn, double errors[3]) {
    const Network *n = &rnn->network;
    const Guarded *memory[3] = {&rnn->y, &rnn->hy, &rnn->cy};
    size_t counts[3] = {rnn->y_count, n->has_hy ? rnn->h_count : 0, n->has_cy && n->cell == CUDNN_LSTM ? rnn->c_count : 0};
    for (int i = 0; i < 3; i++) {
        double distance = 0, norm = 0;
        for (size_t k = 0; k < counts[i]; k++) {
            double expected = rnn->expected[i][k], off = value_at(memory[i], n->type, k) - expected;
            distance += off * off, norm += expected * expected;
        }
        errors[i] = counts[i] == 0 || distance == 0 ? 0 : sqrt(distance / norm);
    }
}

int is_decided(const char *report) {
    FILE *file = fopen(report, "r");
    char line[4096];
    int decided = 0;
    while (file && !decided && fgets(line, sizeof line, file)) decided = strstr(line, "\"event\":\"rnn") != NULL;
    if (file) fclose(file);
    return decided;
}
