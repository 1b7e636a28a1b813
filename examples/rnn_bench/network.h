/* A network to time: an RNN of one layer and one direction whose inputs are as wide as its hidden state. */
#ifndef RNN_BENCH_NETWORK_H
#define RNN_BENCH_NETWORK_H

#include <cudnn.h>
#include <stddef.h>

struct network {
    cudnnRNNMode_t cell;
    cudnnDataType_t type;
    cudnnMathType_t math;
    int hidden, batch, steps;
    const char *cell_name, *type_name;
};

/* Reads CELL/TYPE/HIDDEN/BATCH, as "lstm/half/256/10"; exits with a message on a mistake. */
struct network network_read(const char *text, int steps);

/* The form that network_read accepts, in words. */
extern const char NETWORK_FORM[];

/* The matrix products with h, and likewise with x, that a unit needs. */
int network_gates(const struct network *network);

#endif
