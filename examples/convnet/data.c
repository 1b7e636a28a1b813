#include "data.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: one multiply-and-shift chain a number; any seed is good. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* IEEE half of count / 1024, for |count| <= 1024: such a number is exact. */
static uint16_t half_from_1024ths(int count) {
    if (count == 0) return 0;
    unsigned sign = count < 0 ? 0x8000u : 0, bits = (unsigned)abs(count), exponent = 15;
    for (; bits < 1024; bits <<= 1) --exponent;
    return (uint16_t)(sign | exponent << 10 | (bits & 1023));
}

static double half_to_double(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(fraction + 1024, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void *host_copy(size_t bytes) {
    void *copy = malloc(bytes ? bytes : 1);
    if (copy) return copy;
    fprintf(stderr, "convnet: no host memory for a copy of %zu bytes\n", bytes);
    exit(1);
}

void data_fill(struct buffer buffer, cudnnDataType_t type, unsigned long long seed, unsigned tensor) {
    uint64_t state = seed * 0xd1342543de82ef95u + tensor;
    void *host = host_copy(buffer.bytes);
    /* The top bits of a draw as a signed number: 53, 24 and 11 of them are exact in each type. */
    if (type == CUDNN_DATA_DOUBLE)
        for (size_t i = 0; i < buffer.bytes / 8; ++i)
            ((double *)host)[i] = ldexp((double)((int64_t)(next(&state) >> 11) - ((int64_t)1 << 52)), -52);
    else if (type == CUDNN_DATA_FLOAT)
        for (size_t i = 0; i < buffer.bytes / 4; ++i)
            ((float *)host)[i] = (float)((int32_t)(next(&state) >> 40) - (1 << 23)) / (float)(1 << 23);
    else
        for (size_t i = 0; i < buffer.bytes / 2; ++i)
            ((uint16_t *)host)[i] = half_from_1024ths((int)(next(&state) >> 53) - 1024);
    buffer_write(buffer, host);
    free(host);
}

struct checksum data_checksum(struct buffer buffer, cudnnDataType_t type) {
    void *host = host_copy(buffer.bytes);
    buffer_read(buffer, host);
    size_t size = type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
    struct checksum result = {0, 0, 0};
    double squares = 0;
    for (size_t i = 0; i < buffer.bytes / size; ++i) {
        double value = size == 8   ? ((double *)host)[i]
                       : size == 4 ? (double)((float *)host)[i]
                                   : half_to_double(((uint16_t *)host)[i]);
        if (!isfinite(value)) ++result.not_finite;
        result.sum += value;
        squares += value * value;
    }
    result.norm = sqrt(squares);
    free(host);
    return result;
}

void data_dump(struct buffer buffer, const char *path) {
    void *host = host_copy(buffer.bytes);
    buffer_read(buffer, host);
    FILE *file = fopen(path, "wb");
    int failed = !file || fwrite(host, 1, buffer.bytes, file) != buffer.bytes;
    if (file) failed |= fclose(file) != 0;
    if (failed) {
        fprintf(stderr, "convnet: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    free(host);
}
