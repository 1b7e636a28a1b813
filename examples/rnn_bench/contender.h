/* A way to run a network by cuDNN's API: one of cuDNN's algorithms, on a handle with or without libucudnn.so. */
#ifndef RNN_BENCH_CONTENDER_H
#define RNN_BENCH_CONTENDER_H

#include "data.h"

enum { ALGORITHMS = 4 };
extern const char *const ALGORITHM_NAMES[ALGORITHMS]; /* by cudnnRNNAlgo_t */

struct contender {
    const char *name;
    cudnnHandle_t handle;
    const struct data *data;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDescriptor_t descriptor;
    cudnnRNNDataDescriptor_t rows;
    cudnnTensorDescriptor_t states;
    struct buffer weights, workspace;
    char refused[128]; /* the reason why it does not run; empty if it does */
};

/* Makes all objects for a call, and calls once. If cuDNN refuses, `refused` has the reason. */
void contender_open(struct contender *contender, const char *name, cudnnHandle_t handle, cudnnRNNAlgo_t algorithm,
                    const struct data *data);
cudnnStatus_t contender_run(const struct contender *contender);
/* Returns -1, with a message, if something wrote beyond the workspace or the weights. */
int contender_check(const struct contender *contender);
void contender_close(struct contender *contender);

#endif
