/* Memory that cuDNN works on: the GPU's, or the host's where the cuDNN in this process is hostdnn. */
#ifndef CONVNET_MEMORY_H
#define CONVNET_MEMORY_H

#include <stddef.h>

/* A piece of that memory between two guards, which buffer_check reads back. */
struct buffer {
    void *data; /* NULL for 0 bytes */
    size_t bytes;
    void *base;
};

/* Finds out where cuDNN works and opens the GPU there. Exits with a message if that fails. */
void memory_open(void);

/* "host" or "gpu". */
const char *memory_kind(void);

/* Where that is "gpu": writes the address of a function of the CUDA driver to `function`, a pointer to a function
 * pointer. Exits with a message if there is none. */
void driver_function(const char *symbol, void *function);

/* Exits with a message naming the call if the driver's answer is an error. */
void driver_check(int error, const char *call);

/* Bytes now allocated, guards not counted, and the most that ever were. */
size_t memory_held(void);
size_t memory_peak(void);

/* Waits until all work on the device is done. */
void memory_wait(void);

/* Allocates `bytes`, all bits set: a NaN in every floating-point type, so that whatever is read before
 * it is written shows. Exits with a message naming `what` if memory is out. */
struct buffer buffer_new(size_t bytes, const char *what);
void buffer_poison(struct buffer buffer);
void buffer_write(struct buffer buffer, const void *host);
void buffer_read(struct buffer buffer, void *host);

/* -1, with a message naming `what`, if anything was written outside of the buffer. */
int buffer_check(struct buffer buffer, const char *what);
void buffer_free(struct buffer *buffer);

#endif
