/* Numbers as cuDNN's types store them. */
#ifndef RNN_BENCH_NUMBER_H
#define RNN_BENCH_NUMBER_H

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one: float, half or bfloat16. */
size_t number_size(cudnnDataType_t type);
double number_read(cudnnDataType_t type, const void *numbers, size_t index);
/* Writes the number of the type that is nearest to the value as a float; half's must be below 65504 in magnitude. */
void number_write(cudnnDataType_t type, void *numbers, size_t index, double value);

/* Writes uniform values from [-bound, bound); `state` is the generator's, and any is a good one. */
void numbers_fill(cudnnDataType_t type, void *numbers, size_t count, double bound, uint64_t *state);

#endif
