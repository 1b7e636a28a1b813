/* Recurrent networks for test programs that know only cudnn.h: their descriptors, their data between canaries, and the
 * expected results: cuDNN's own for the same network in double, which libucudnn.so never computes. */
#ifndef RNN_H_
#define RNN_H_

#include "kernel.h"

enum { MOST_BATCH = 70 };

/* A network, its data, and the optional arguments that its calls pass. */
typedef struct {
    cudnnRNNMode_t cell;
    cudnnRNNBiasMode_t bias;
    cudnnDirectionMode_t direction;
    cudnnRNNInputMode_t input_mode;
    cudnnDataType_t type;
    cudnnMathType_t math;
    int input, hidden, projection, layers;
    cudnnRNNDataLayout_t layout;
    int steps, batch, lengths[MOST_BATCH];
    int has_hx, has_hy, has_cx, has_cy, has_device_lengths;
    double fill;    /* the value of y's padding */
    double dropout; /* the probability */
    double clip;    /* the limit of LSTM's cell state; 0 for none */
    cudnnForwardMode_t mode;
} Network;

typedef struct {
    Network network;
    cudnnRNNDescriptor_t descriptor;
    cudnnDropoutDescriptor_t dropout;
    cudnnRNNDataDescriptor_t x_descriptor, y_descriptor;
    cudnnTensorDescriptor_t h_descriptor, c_descriptor;
    Guarded x, y, hx, hy, cx, cy, weights, workspace, reserve, states;
    size_t x_count, y_count, h_count, c_count, weight_count;
    double *expected[3]; /* y, hy, cy */
} Rnn;

/* Uniform numbers from -scale to scale. */
void fill_random(const Guarded *memory, cudnnDataType_t type, size_t count, double scale, Random *random);

/* A plain network: LSTM, one layer, both biases, equal lengths, all states. */
Network network_plain(cudnnDataType_t type, int hidden, int steps, int batch);
/* Draws the lengths of its sequences, in its layout, the optional arguments, y's padding and the mathematics. */
void network_vary(Network *network, Random *random);
void network_print(const Network *network, char *text, size_t size);

/* Makes descriptors and random data, with a workspace of the size that cuDNN reports. */
void rnn_open(cudnnHandle_t handle, Rnn *rnn, const Network *network, Random *random);
void rnn_close(Rnn *rnn);
/* Poisons the results and runs. */
cudnnStatus_t rnn_run(cudnnHandle_t handle, Rnn *rnn);
/* Ends the program if anything except the results was written. */
void rnn_check(const Rnn *rnn);
/* ||result - expected|| / ||expected|| of y, hy and cy; 0 for a result that is not wanted. NaN where poison is left. */
void rnn_errors(const Rnn *rnn, double errors[3]);

/* Returns whether a report has a decision about a network, in inference or in training. */
int is_decided(const char *report);

#endif
