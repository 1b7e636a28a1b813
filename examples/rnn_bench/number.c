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

static uint32_t float_bits(double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

/* Must be fast: all weights pass through here. */
static uint16_t half_bits(double value) {
    const uint32_t least_normal = 113u << 23, exponent_shift = 112u << 23;
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu;
    uint32_t half = magnitude < least_normal ? (uint32_t)nearbyint(ldexp(fabs(value), 24))
                                             : (magnitude - exponent_shift + 0xfff + (magnitude >> 13 & 1)) >> 13;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

static float bfloat16_value(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t bfloat16_bits(double value) {
    uint32_t word = float_bits(value);
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
        double unit = (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
        number_write(type, numbers, i, unit * bound);
    }
}
