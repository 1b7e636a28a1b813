// Fibers: each has its stack, and one thread of the system switches between them.
#pragma once

#include <stddef.h>

namespace emulator {

// Stacks for fibers. The first `guarded` stacks have an inaccessible page below, so that an overflow ends the program
// where it happens. Not all stacks have one, because the system limits the number of mappings.
class Stacks {
    unsigned char *memory = nullptr;
    size_t page, stride = 0, bytes = 0;

  public:
    static constexpr size_t usable = 64 << 10;
    static constexpr size_t guarded = 8192;
    // Bytes at a stack's top that are poisoned before a fiber begins: kernels' arrays lie there.
    static constexpr size_t poisoned = 8 << 10;

    Stacks();
    Stacks(const Stacks &) = delete;
    ~Stacks();
    // Allocates `count` stacks; false if there is no memory.
    bool allocate(size_t count);
    // Returns the start of a fiber on stack `number`: it runs `entry`, which never returns.
    void *begin(size_t number, void (*entry)());
};

// Continues at `to`. Returns when something switches back to `*from`.
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void **from, void *to);

} // namespace emulator
