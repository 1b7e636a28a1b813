// The scheduler. It runs a launch's threads as fibers of the launching thread, and lets them wait for each other.
// Kernels include this file, so it includes no header of C++'s library: they would be most of what a kernel compiles.
#pragma once

#include <stddef.h>

#include "fiber.h"
#include "vectors.h"

#define INTERNAL __attribute__((visibility("hidden")))

class Mbarrier;

namespace emulator {

// A place in a source at which a thread waits.
struct Where {
    const char *what, *file;
    int line;
};

struct Launch;

// A kernel, as its object exports it under its name. hostdnn mirrors this struct.
struct Kernel {
    // No other kind of object begins with this number.
    static constexpr unsigned kind_of_all = 0x72656b68;
    unsigned kind, most_threads;
    const char *name;
    void (*run)(const void *parameters);
    int (*launch)(const Kernel &kernel, const Launch &launch, char *message, size_t message_bytes);
};

// Runs a kernel to its end. Returns 0, or puts an error into `message`.
INTERNAL int launch(const Kernel &kernel, const Launch &launch, char *message, size_t message_bytes);

// The parameters of a launch. hostdnn mirrors this struct.
struct Launch {
    unsigned grid[3], block[3], cluster[3];
    size_t shared_bytes;
    const void *parameters;
    // Returns stacks for `count` threads. They last until the launch ends.
    Stacks (*stacks)(size_t count);
    // If set, `seed` decides the order of the threads' turns; otherwise they take turns in order.
    int is_adversarial;
    unsigned long long seed;
};

// The input of a lane, and then its result, where the lanes of a warp meet.
struct Slot {
    // Of a value of up to 8 bytes; the others are 0.
    unsigned long long bits;
    int argument;
    // Further data, valid until all lanes have their results.
    const void *more;
};
// Turns the inputs of 32 lanes into their results. Returns an error, or null.
typedef const char *(*Combine)(Slot (&slots)[32]);

// What a kernel reads of a thread. The scheduler's threads are more, see block.h.
struct Thread {
    uint3 index;
};

// The kernel's thread that now runs on this thread of the system.
extern INTERNAL __thread Thread *current;

INTERNAL const uint3 &block_index();
INTERNAL const dim3 &block_size();
INTERNAL const dim3 &grid_size();
INTERNAL void *shared();
// The block's variable for a key, which is any address.
INTERNAL void *static_shared(const void *key, size_t bytes);
INTERNAL void meet_block(const Where &where);
// Waits for as many threads as the kernel says that its blocks have.
INTERNAL void meet_whole_block(const Where &where);
INTERNAL void meet_cluster(const Where &where);
INTERNAL unsigned long long meet_warp(const Where &where, Slot mine, Combine combine);
// Stores `bytes` bytes at a place of dynamic shared memory, and lets them arrive at an Mbarrier, both in the cluster's
// block of this rank.
INTERNAL void send(const void *value, unsigned bytes, void *place, Mbarrier &mbarrier, unsigned rank);
// The same place in the dynamic shared memory of the cluster's block of this rank.
INTERNAL const void *of_block(const void *place, unsigned bytes, unsigned rank);
// Copies to dynamic shared memory, at once or later.
INTERNAL void copy_async(void *to, const void *from, unsigned bytes);
INTERNAL void end_group();
// Completes the thread's ended groups of copies, except for the last `but`.
INTERNAL void wait_for_groups(unsigned but);
// Lets other threads run. `went_on`: whether the thread has made progress in its turn, or has only looked again.
INTERNAL void give_way(const Where &where, bool went_on);
[[noreturn]] INTERNAL void stop(const char *why);

} // namespace emulator
