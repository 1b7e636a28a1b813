// A kernel that keeps a stream busy for a while: what is launched behind it is queued before the device comes to it, so
// that time marks around a launch measure the device alone, and not how long the host takes to launch.
#pragma once

#include "common/device.cuh"

struct Pause { unsigned long long nanoseconds; };

// The emulator runs a launch before the next is made: nothing has to wait.
#ifndef EMULATED
__device__ __forceinline__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}

KERNEL(pause, Pause) {
    const unsigned long long begin = now();
    while (now() - begin < parameters.nanoseconds) {}
}
#endif
