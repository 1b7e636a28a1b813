/* Recurrent networks for test programs that use ucudnn.h: random networks, their data between canaries, and the
 * expected results in double precision, by readable loops. */
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

/* A network, one run of it, and its memory. */
typedef struct {
    ucudnnRnnDescription_t description;
    ucudnnRnn_t rnn;
    ucudnnRnnArguments_t arguments;
    int lengths[MOST_BATCH];
    Guarded weights, x, y, hx, hy, cx, cy, workspace;
    size_t x_count, y_count, state_count, weight_count;
    Rounded *expected[3]; /* y, hy, cy */
} Direct;

/* A float LSTM of one layer and direction, with biases. */
ucudnnRnnDescription_t direct_plain(int hidden, int batch, int steps);
int direct_gates(ucudnnRnnCell_t cell);
/* Makes a network with random weights. */
void direct_open(Direct *direct, const ucudnnRnnDescription_t *description, Random *random);
/* Random data for `batch` sequences, and the expected results. Null lengths: every sequence has `steps` steps. */
void direct_bring(Direct *direct, int layout, int batch, int steps, const int *lengths, Random *random);
/* Poisons the results and the workspace, and runs. */
cudnnStatus_t direct_run(Direct *direct, void *stream);
/* Ends the program if anything but the results was written, or if a refused run wrote anything. */
void direct_check(const Direct *direct, int is_refused);
/* Errors of y, hy and cy, in standard deviations of the error that float arithmetic and storage cause: above 4 once in
 * 16,000 times where one rounding causes all of an error, and never where many do. 0 for a result that is not wanted.
 * NaN where poison is left. */
void direct_errors(const Direct *direct, double deviations[3]);
/* Frees the memory of direct_bring(); direct_close() frees everything else. */
void direct_leave(Direct *direct);
void direct_close(Direct *direct);

#endif
