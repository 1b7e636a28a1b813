/* The network's definition, computed in double precision on the CPU. */
#ifndef RNN_BENCH_REFERENCE_H
#define RNN_BENCH_REFERENCE_H

#include "data.h"

/* Some rows of the batch: their outputs and last states. */
struct reference {
    int rows;       /* 0: the network is too large for a reference */
    int *row;       /* their numbers in the batch, the first and the last among them */
    double *y;      /* [steps][rows][H] */
    double *hy, *cy; /* [rows][H]; cy for LSTM only */
};

/* Computes as many rows as a second or so allows. */
struct reference reference_new(const struct data *data);

/* The larger of ||y - y64|| / ||y64|| and the same for the last states, from a copy of the results on the host. NaN if
 * poison is left. */
double reference_error(const struct reference *reference, const struct data *data, const void *results);
void reference_free(struct reference *reference);

#endif
