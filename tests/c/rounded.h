/* Numbers in double, with the variance of the error of computing them in float: each operation has an independent
 * rounding error of up to a unit of its result. To first order. */
#ifndef ROUNDED_H_
#define ROUNDED_H_

#include <math.h>

typedef struct {
    double value, variance;
} Rounded;

/* Half the distance between 1 and the next float; and the largest relative error of functions. */
static const double FLOAT_UNIT = 1.0 / (1 << 24), FUNCTION_UNIT = 1.0 / (1 << 23);

static inline Rounded exact(double value) { return (Rounded){value, 0}; }

/* Adds an error of up to `unit` times the value, or up to `least`. */
static inline Rounded to_within(Rounded a, double unit, double least) {
    double most = fmax(unit * fabs(a.value), least);
    return (Rounded){a.value, a.variance + most * most / 3};
}

static inline Rounded plus(Rounded a, Rounded b) {
    return to_within((Rounded){a.value + b.value, a.variance + b.variance}, FLOAT_UNIT, 0);
}

static inline Rounded times(Rounded a, Rounded b) {
    double variance = b.value * b.value * a.variance + a.value * a.value * b.variance;
    return to_within((Rounded){a.value * b.value, variance}, FLOAT_UNIT, 0);
}

/* sum + weight * a with an exact weight, rounded once. */
static inline Rounded plus_product(Rounded sum, double weight, Rounded a) {
    return plus(sum, (Rounded){weight * a.value, weight * weight * a.variance});
}

/* A function of a, given its value and its derivative there. */
static inline Rounded through(Rounded a, double value, double derivative) {
    return to_within((Rounded){value, derivative * derivative * a.variance}, FUNCTION_UNIT, 0);
}

static inline Rounded hyperbolic_tangent(Rounded a) {
    double value = tanh(a.value);
    return through(a, value, 1 - value * value);
}

static inline Rounded logistic(Rounded a) {
    double value = 1 / (1 + exp(-a.value));
    return through(a, value, value * (1 - value));
}

/* A maximum with 0 does not change the variance. */
static inline Rounded not_negative(Rounded a) { return (Rounded){fmax(a.value, 0), a.variance}; }

/* (1 - z) n + z h. */
static inline Rounded between(Rounded z, Rounded n, Rounded h) {
    double of_n = (1 - z.value) * n.value, of_h = z.value * h.value, of_z = h.value - n.value;
    Rounded sum = {of_n + of_h, of_z * of_z * z.variance + (1 - z.value) * (1 - z.value) * n.variance +
                                    z.value * z.value * h.variance};
    sum.variance += FLOAT_UNIT * FLOAT_UNIT * (of_n * of_n + of_h * of_h) / 3;
    return to_within(sum, FLOAT_UNIT, 0);
}

#endif
