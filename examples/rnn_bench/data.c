#include "data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "number.h"

void *host_memory(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) return memory;
    fprintf(stderr, "rnn_bench: no host memory for %zu bytes\n", bytes);
    exit(1);
}

/* Fills a buffer with values between -1 and 1; returns the host's copy. */
static void *fill(struct buffer buffer, cudnnDataType_t type, uint64_t *state) {
    void *host = host_memory(buffer.bytes);
    numbers_fill(type, host, buffer.bytes / number_size(type), 1, state);
    buffer_write(buffer, host);
    return host;
}

void data_open(struct data *data, const struct network *network) {
    struct data d = {.network = *network};
    size_t element = number_size(network->type), hidden = (size_t)network->hidden;
    size_t matrices = 2 * (size_t)network_gates(network);
    uint64_t state = 1;
    d.state_bytes = (size_t)network->batch * hidden * element;
    d.rows_bytes = (size_t)network->steps * d.state_bytes;
    d.bias_bytes = hidden * element;
    d.matrix_bytes = hidden * d.bias_bytes;
    d.x = buffer_new(d.rows_bytes, "x"), d.y = buffer_new(d.rows_bytes, "y");
    d.hx = buffer_new(d.state_bytes, "hx"), d.hy = buffer_new(d.state_bytes, "hy");
    d.cx = buffer_new(d.state_bytes, "cx"), d.cy = buffer_new(d.state_bytes, "cy");
    d.x_host = fill(d.x, network->type, &state);
    d.hx_host = fill(d.hx, network->type, &state);
    d.cx_host = fill(d.cx, network->type, &state);
    d.weights_host = host_memory(matrices * (d.matrix_bytes + d.bias_bytes));
    /* PyTorch's initialization. */
    numbers_fill(network->type, d.weights_host, matrices * (hidden + 1) * hidden, 1 / sqrt((double)hidden), &state);
    *data = d;
}

void data_close(struct data *data) {
    struct buffer *const buffers[] = {&data->x, &data->hx, &data->cx, &data->y, &data->hy, &data->cy};
    for (int i = 0; i < 6; ++i) buffer_free(buffers[i]);
    free(data->x_host), free(data->hx_host), free(data->cx_host), free(data->weights_host);
}

size_t data_results_bytes(const struct data *data) {
    return data->rows_bytes + (data->network.cell == CUDNN_LSTM ? 2 : 1) * data->state_bytes;
}

void data_read_results(const struct data *data, void *host) {
    char *at = host;
    buffer_read(data->y, at);
    buffer_read(data->hy, at + data->rows_bytes);
    if (data->network.cell == CUDNN_LSTM) buffer_read(data->cy, at + data->rows_bytes + data->state_bytes);
}

void data_poison_results(const struct data *data) {
    buffer_poison(data->y), buffer_poison(data->hy), buffer_poison(data->cy);
    memory_wait();
}

int data_check(const struct data *data) {
    return buffer_check(data->x, "x") | buffer_check(data->hx, "hx") | buffer_check(data->cx, "cx") |
           buffer_check(data->y, "y") | buffer_check(data->hy, "hy") | buffer_check(data->cy, "cy");
}
