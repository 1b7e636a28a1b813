/* Random operands, and checksums of results. */
#ifndef CONVNET_DATA_H
#define CONVNET_DATA_H

#include <cudnn.h>

#include "memory.h"

/* Fills the buffer with uniform values from [-1, 1), the same for the same seed and tensor number. */
void data_fill(struct buffer buffer, cudnnDataType_t type, unsigned long long seed, unsigned tensor);

struct checksum {
    double sum;
    double norm;       /* Euclidean, over all elements */
    size_t not_finite; /* elements that are infinite or not a number */
};
struct checksum data_checksum(struct buffer buffer, cudnnDataType_t type);

/* Writes the buffer's bytes to a file; exits with a message if that fails. */
void data_dump(struct buffer buffer, const char *path);

#endif
