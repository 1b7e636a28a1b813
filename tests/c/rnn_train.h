/* Training passes of recurrent networks for test programs that know only cudnn.h: one forward call and both backward
 * calls, as a framework makes them, and the expected gradients: cuDNN's own for the same network in double, which
 * libucudnn.so never computes. */
#ifndef RNN_TRAIN_H_
#define RNN_TRAIN_H_

#include "rnn.h"

/* y, hy, cy, dx, dhx, dcx, and the gradients of W, R, biases and W_p. */
enum { RESULTS = 10 };
extern const char *const result_names[RESULTS];

typedef struct {
    Rnn rnn; /* its reserve and workspace are not used */
    int has_dhy, has_dcy, has_dhx, has_dcx;
    Guarded dy, dhy, dcy, dx, dhx, dcx, dweights;
    Guarded start;        /* the weights' gradients before a pass, which adds to them */
    unsigned char *kinds; /* of each weight: 0 none, 1 W, 2 R, 3 bias, 4 W_p */
    Guarded workspace, reserve;
    double *expected[RESULTS];
} Training;

/* Makes a network and its data. Padding of x and dy is NaN. */
void training_open(cudnnHandle_t handle, Training *training, const Network *network, Random *random);
void training_close(Training *training);

/* Bytes that cuDNN reports for a pass: of the workspace, and of the reserve. */
size_t training_workspace(cudnnHandle_t handle, const Training *training);
size_t training_reserve(cudnnHandle_t handle, const Training *training);
/* Asks for sizes, and makes a new workspace and reserve of them. */
void training_prepare(cudnnHandle_t handle, Training *training);
/* Starts the random numbers of dropout anew. */
void training_seed(cudnnHandle_t handle, Training *training);

/* Poisons the results and makes a call. The workspace is poisoned first. */
cudnnStatus_t training_forward(cudnnHandle_t handle, Training *training);
cudnnStatus_t training_data(cudnnHandle_t handle, Training *training);
/* Adds to `start`. */
cudnnStatus_t training_weights(cudnnHandle_t handle, Training *training);
/* All of that, with new sizes and random numbers. */
void training_pass(cudnnHandle_t handle, Training *training);

/* Ends the program if anything except results was written, or a result has poison. */
void training_check(const Training *training);
/* ||result - expected|| / ||expected|| of each result; 0 for one that is not wanted. For a result of few elements, the
 * divisor is at least the norm of as many elements of the call's first result. */
void training_errors(const Training *training, double errors[RESULTS]);
/* Return whether all results of a backward call are NaN: dx, dhx and dcx, or the weights' gradients. */
int training_data_are_nan(const Training *training);
int training_weights_are_nan(const Training *training);
/* A hash of all results' bits. */
uint64_t training_hash(const Training *training);

#endif
