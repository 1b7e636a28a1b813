// Fibers: stacks of their own, and the switch from one to another within one thread of the system.
#pragma once

#include <stddef.h>

namespace emulator {

// Stacks for fibers. Below each of the first is a page that nobody may touch: an overflow ends the program where it
// happens. The system has a limit on how many pieces memory falls into.
class Stacks {
    unsigned char *memory = nullptr;
    size_t page, stride = 0, bytes = 0;

  public:
    static constexpr size_t usable = 64 << 10;
    static constexpr size_t guarded = 8192;
    // As much of a stack, from its top, is poisoned before a fiber begins: where a kernel's arrays lie.
    static constexpr size_t poisoned = 8 << 10;

    Stacks();
    Stacks(const Stacks &) = delete;
    ~Stacks();
    // Whether there is memory for so many.
    bool allocate(size_t count);
    // Where a fiber on the stack of this number begins: it runs `entry`, which never returns.
    void *begin(size_t number, void (*entry)());
};

// Goes on at `to`; what comes back to `*from` returns from here.
extern "C" __attribute__((visibility("hidden"))) void emulator_switch(void **from, void *to);

} // namespace emulator
