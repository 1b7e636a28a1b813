// Fibers: each has its stack, and one thread of the system switches between them.
#pragma once

#include <stddef.h>

namespace emulator {

// Stacks for fibers, one after another. hostdnn allocates them and mirrors this struct.
struct Stacks {
    // Bytes at a stack's top that are poisoned before a fiber begins: kernels' arrays lie there.
    static constexpr size_t poisoned = 10 << 10;

    // Null: there is no memory.
    unsigned char *memory;
    // Bytes from one stack to the next.
    size_t stride;

    // Returns the start of a fiber on stack `number`: it runs `entry`, which never returns.
    void *begin(size_t number, void (*entry)());
};

// Continues at `to`. Returns when something switches back to `*from`.
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void **from, void *to);

} // namespace emulator
