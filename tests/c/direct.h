/* Recurrent networks for test programs that use ucudnn.h: random ones with data between canaries, and what double
 * precision makes of them, in readable loops. */
#ifndef DIRECT_H_
#define DIRECT_H_

#include <ucudnn.h>

#include "rnn.h"
#include "rounded.h"

#define RUN_OK(call)                                                       \
    do {                                                                   \
        cudnnStatus_t status_ = (call);                                    \
        char why_[512];                                                    \
        ucudnnGetRnnErrorString(why_, sizeof why_);                        \
        REQUIRE(status_ == CUDNN_STATUS_SUCCESS, "%d: %s", status_, why_); \
    } while (0)

/* A network, a run of it, and its memory. */
typedef struct {
    ucudnnRnnDescription_t description;
    ucudnnRnn_t rnn;
    ucudnnRnnArguments_t arguments;
    int lengths[MOST_BATCH];
    Guarded weights, x, y, hx, hy, cx, cy, workspace;
    size_t x_count, y_count, state_count, weight_count;
    Rounded *expected[3]; /* y, hy, cy */
} Direct;

/* LSTM in float: one layer and direction, with biases. */
ucudnnRnnDescription_t direct_plain(int hidden, int batch, int steps);
int direct_gates(ucudnnRnnCell_t cell);
/* Makes a network with random weights. */
void direct_open(Direct *direct, const ucudnnRnnDescription_t *description, Random *random);
/* Random data for as many sequences, and what is right for them. Null lengths: all have as many steps. */
void direct_bring(Direct *direct, int layout, int batch, int steps, const int *lengths, Random *random);
/* Poisons results and workspace, and runs. */
cudnnStatus_t direct_run(Direct *direct, void *stream);
/* Ends the program if anything was written that is no result, or something was though the run was refused. */
void direct_check(const Direct *direct, int is_refused);
/* Errors of y, hy and cy, in standard deviations of what float arithmetic and storage make of them: above 4 once in 16,000
 * times where all of an error is one rounding's, and never where it is many's. 0 of what is not wanted. NaN where poison is
 * left. */
void direct_errors(const Direct *direct, double deviations[3]);
/* Frees what direct_bring() made, and all. */
void direct_leave(Direct *direct);
void direct_close(Direct *direct);

#endif
