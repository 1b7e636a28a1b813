/* The inputs and outputs of a network: random data on the device, and a copy on the host. */
#ifndef RNN_BENCH_DATA_H
#define RNN_BENCH_DATA_H

#include "../convnet/memory.h"
#include "network.h"

struct data {
    struct network network;
    /* Rows of x and y are [step][batch]; states are [batch]. All are as wide as the hidden state. */
    size_t rows_bytes, state_bytes;
    struct buffer x, hx, cx, y, hy, cy;
    void *x_host, *hx_host, *cx_host;
    /* The gates' matrices [H][H] for x, then for h, in cuDNN's order; then their biases [H] in the same order. */
    unsigned char *weights_host;
    size_t matrix_bytes, bias_bytes;
};

void data_open(struct data *data, const struct network *network);
void data_close(struct data *data);

/* The size of all results in bytes, and a copy of them: y, then hy, then, for LSTM, cy. */
size_t data_results_bytes(const struct data *data);
void data_read_results(const struct data *data, void *host);
/* Fills the results with NaN, so that old values cannot pass for results. */
void data_poison_results(const struct data *data);

/* Returns -1, with a message, if something wrote outside of the buffers. */
int data_check(const struct data *data);

/* Allocates host memory; exits with a message if there is none. */
void *host_memory(size_t bytes);

#endif
