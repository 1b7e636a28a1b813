/* Numbers as cuDNN's types store them. */
#ifndef RNN_BENCH_NUMBER_H
#define RNN_BENCH_NUMBER_H

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

/* The size of a float, half or bfloat16 in bytes. */
size_t number_size(cudnnDataType_t type);
double number_read(cudnnDataType_t type, const void *numbers, size_t index);
/* Converts the value to float and writes the type's nearest number; half's magnitude must be below 65504. */
void number_write(cudnnDataType_t type, void *numbers, size_t index, double value);

/* Writes uniform values from [-bound, bound); `state` is the generator's state, and any state is good. */
void numbers_fill(cudnnDataType_t type, void *numbers, size_t count, double bound, uint64_t *state);

#endif
