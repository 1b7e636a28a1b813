/* The memory on which cuDNN works: the GPU's, or the host's if the process's cuDNN is hostdnn. */
#ifndef CONVNET_MEMORY_H
#define CONVNET_MEMORY_H

#include <stddef.h>

/* Memory between two guards, which buffer_check reads back. */
struct buffer {
    void *data; /* NULL for 0 bytes */
    size_t bytes;
    void *base;
};

/* Finds out where cuDNN works, and opens the GPU if cuDNN works there. Exits with a message on failure. */
void memory_open(void);

/* "host" or "gpu". */
const char *memory_kind(void);

/* On a GPU: writes the address of a function of the CUDA driver to `function`, a pointer to a function pointer. Exits
 * with a message if there is none. */
void driver_function(const char *symbol, void *function);

/* Exits with a message that names the call if the driver's answer is an error. */
void driver_check(int error, const char *call);

/* Bytes allocated now, without guards, and the most so far. */
size_t memory_held(void);
size_t memory_peak(void);

/* Waits until all work on the device has ended. */
void memory_wait(void);

/* Allocates `bytes` bytes with all bits set: a NaN in every floating-point type, which reveals reads of memory that
 * nobody has written. Exits with a message that names `what` if memory runs out. */
struct buffer buffer_new(size_t bytes, const char *what);
void buffer_poison(struct buffer buffer);
void buffer_write(struct buffer buffer, const void *host);
void buffer_read(struct buffer buffer, void *host);

/* Returns -1, with a message that names `what`, if something wrote outside of the buffer. */
int buffer_check(struct buffer buffer, const char *what);
void buffer_free(struct buffer *buffer);

#endif
