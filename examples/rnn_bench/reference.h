/* The network in double precision on the CPU, by its definition. */
#ifndef RNN_BENCH_REFERENCE_H
#define RNN_BENCH_REFERENCE_H

#include "data.h"

/* Some rows of the batch: their outputs, and their last states. */
struct reference {
    int rows;       /* 0: the network is too large for it */
    int *row;       /* which of the batch, the first and the last among them */
    double *y;      /* [steps][rows][H] */
    double *hy, *cy; /* [rows][H]; cy of LSTM alone */
};

/* Computes as many rows as take no longer than about a second. */
struct reference reference_new(const struct data *data);

/* The larger of ||y - y64|| / ||y64|| and the same of the last states, in a copy of the results on the host. NaN where
 * poison was left. */
double reference_error(const struct reference *reference, const struct data *data, const void *results);
void reference_free(struct reference *reference);

#endif
