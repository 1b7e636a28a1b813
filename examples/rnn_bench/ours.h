/* libucudnn.so in this process, through its public interface: a policy for each handle, and its report. */
#ifndef RNN_BENCH_OURS_H
#define RNN_BENCH_OURS_H

#include <cudnn.h>

/* Whether libucudnn.so is loaded. Exits with a message if it is and UCUDNN_REPORT names no file. */
int ours_open(void);
/* Leaves a handle's networks to cuDNN. */
void ours_off(cudnnHandle_t handle);
/* Remembers the report's current end. */
void ours_mark(void);
/* The last line on an RNN in the report since ours_mark, in a static buffer; NULL if there is none. */
const char *ours_decision(void);

#endif
