/* Where calls run and how long they take: on a CUDA stream of this program, or on the host if cuDNN is hostdnn. */
#ifndef RNN_BENCH_DEVICE_H
#define RNN_BENCH_DEVICE_H

#include <cudnn.h>

/* Work to repeat; `run` returns 0 for success. */
struct work {
    int (*run)(const void *);
    const void *argument;
};

/* Opens the stream; call it after memory_open. Returns NULL on the host. */
cudaStream_t device_open(void);
void device_wait(void);
/* The GPU's name; "CPU" on the host. */
const char *device_name(void);

/* Seconds of a monotonic clock. */
double now(void);

/* Milliseconds of one execution, from when the stream reaches it to its end, including gaps in which the GPU waits for
 * the host; -1 if the work failed. */
double device_time(struct work work);

/* A CUDA graph of one execution; NULL if it cannot be captured, and always on the host. */
void *graph_of(struct work work);
struct work graph_work(void *graph);
void graph_free(void *graph);

#endif
