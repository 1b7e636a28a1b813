/* libucudnn.so in this process, by what it offers a program: a policy for each handle, and its report. */
#ifndef RNN_BENCH_OURS_H
#define RNN_BENCH_OURS_H

#include <cudnn.h>

/* Whether it is there. Exits with a message where it is and UCUDNN_REPORT names no file. */
int ours_open(void);
/* Leaves a handle's networks to cuDNN. */
void ours_off(cudnnHandle_t handle);
/* Remembers where the report ends. */
void ours_mark(void);
/* The last line on an RNN that was reported since then, in a buffer of its own; NULL if there is none. */
const char *ours_decision(void);

#endif
