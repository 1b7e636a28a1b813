#include "number.h"

#include <math.h>
#include <string.h>

size_t number_size(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT ? 4 : 2; }

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t half_bits(double value) {
    double magnitude = fabs(value);
    int exponent = magnitude < ldexp(1, -14) ? -14 : ilogb(magnitude);
    /* The leading bit counts as one more in the exponent, and so does a fraction that is rounded up to the next. */
    unsigned bits = ((unsigned)(exponent + 14) << 10) + (unsigned)nearbyint(ldexp(magnitude, 10 - exponent));
    return (uint16_t)(bits | (signbit(value) ? 0x8000u : 0));
}

static float bfloat16_value(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t bfloat16_bits(double value) {
    float narrow = (float)value;
    uint32_t word;
    memcpy(&word, &narrow, sizeof word);
    return (uint16_t)((word + 0x7fffu + (word >> 16 & 1)) >> 16);
}

double number_read(cudnnDataType_t type, const void *numbers, size_t index) {
    if (type == CUDNN_DATA_FLOAT) return ((const float *)numbers)[index];
    uint16_t bits = ((const uint16_t *)numbers)[index];
    return type == CUDNN_DATA_HALF ? half_value(bits) : bfloat16_value(bits);
}

void number_write(cudnnDataType_t type, void *numbers, size_t index, double value) {
    if (type == CUDNN_DATA_FLOAT)
        ((float *)numbers)[index] = (float)value;
    else
        ((uint16_t *)numbers)[index] = type == CUDNN_DATA_HALF ? half_bits(value) : bfloat16_bits(value);
}

void numbers_fill(cudnnDataType_t type, void *numbers, size_t count, double bound, uint64_t *state) {
    for (size_t i = 0; i < count; ++i) {
        /* splitmix64 */
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        double unit = ldexp((double)((z ^ (z >> 31)) >> 11), -52) - 1;
        number_write(type, numbers, i, unit * bound);
    }
}
