// The products of warps' tensor cores. They are a part of the emulator's own object, which is compiled once for all
// kernels, and optimised more than these.
#pragma once

#include "schedule.h"

namespace emulator {

// A lane's parts of the matrices; they come as a slot's `more`.
struct Fragments {
    float *d;
    const unsigned *a, *b;
};

INTERNAL const char *multiply_halves(Slot (&slots)[32]);
INTERNAL const char *multiply_bfloat16s(Slot (&slots)[32]);
INTERNAL const char *multiply_tf32(Slot (&slots)[32]);

} // namespace emulator
