// Division by a number that the host knows. Twin of `crates/gpu/src/divisor.rs`.
#pragma once

#include "common/device.cuh"

// v / value is the upper half of v * inverse, shifted, for v < 2^31; if `inverse` is 0, it is v.
struct Divisor {
    int value;
    unsigned inverse;
    int shift;

    __device__ __forceinline__ int quotient(int v) const {
        return inverse == 0 ? v : int(__umulhi(unsigned(v), inverse) >> shift);
    }

    // Of v: the quotient, and the rest in its place.
    __device__ __forceinline__ int divide(int &v) const {
        const int its = quotient(v);
        v -= its * value;
        return its;
    }
};
