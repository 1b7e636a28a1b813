// What runs: the threads of a launch's blocks, as fibers of the thread that launches, and where they wait for each other.
#pragma once

#include <stddef.h>
#include <vector>

#include "vectors.h"

#define INTERNAL __attribute__((visibility("hidden")))

class Mbarrier;

namespace emulator {

// Where in a source something is waited for.
struct Where {
    const char *what, *file;
    int line;
};

struct Launch;

// A kernel, as its object exports it under its name; mirrored by hostdnn.
struct Kernel {
    // What an object of another kind does not begin with.
    static constexpr unsigned kind_of_all = 0x72656b68;
    unsigned kind, most_threads;
    const char *name;
    void (*run)(const void *parameters);
    int (*launch)(const Kernel &kernel, const Launch &launch, char *message, size_t message_bytes);
};

// Runs a kernel to its end. 0, or `message`, of so many bytes, says what was wrong.
INTERNAL int launch(const Kernel &kernel, const Launch &launch, char *message, size_t message_bytes);

// What a launch asks for; mirrored by hostdnn.
struct Launch {
    unsigned grid[3], block[3], cluster[3];
    size_t shared_bytes;
    const void *parameters;
    // Threads take turns, in order; or as this seed has it.
    int is_adversarial;
    unsigned long long seed;
};

// What the lanes of a warp put in, and get, where they meet.
struct Slot {
    unsigned bits;
    int argument;
    // More than that, which stands where it is until all have what they get.
    const void *more;
};
// Turns what 32 lanes put in into what they get. Answers what was wrong, or null.
typedef const char *(*Combine)(Slot (&slots)[32]);

struct Block;

// What a thread copies, in one of its groups, and has not arrived. Zeros where it comes from nowhere.
struct Copy {
    void *to;
    const void *from;
    unsigned bytes, group;
};

struct Thread {
    uint3 index;
    unsigned number;
    Block *block;
    // Where it goes on; null once it has ended.
    void *stack;
    // It waits until this is no longer what it saw; null where it may go on.
    const unsigned *generation;
    unsigned seen;
    Where where;
    std::vector<Copy> copying;
    // How many have ended.
    unsigned groups;
};

// The thread that runs, of the launch of this thread of the system.
extern INTERNAL __thread Thread *current;

INTERNAL const uint3 &block_index();
INTERNAL const dim3 &block_size();
INTERNAL const dim3 &grid_size();
INTERNAL void *shared();
// The block's variable that belongs to a key, which is some address.
INTERNAL void *static_shared(const void *key, size_t bytes);
INTERNAL void meet_block(const Where &where);
// Where as many threads are waited for as the kernel says that its blocks have.
INTERNAL void meet_whole_block(const Where &where);
INTERNAL void meet_cluster(const Where &where);
INTERNAL unsigned meet_warp(const Where &where, Slot mine, Combine combine);
// Stores so many bytes at a place of dynamic shared memory, and has them arrive at an Mbarrier, both as they lie in the block
// of the cluster that has this rank.
INTERNAL void send(const void *value, unsigned bytes, void *place, Mbarrier &mbarrier, unsigned rank);
// Copies to a place of dynamic shared memory, at once or later.
INTERNAL void copy_async(void *to, const void *from, unsigned bytes);
INTERNAL void end_group();
// Has all of the thread's groups arrive that have ended, but for the last so many.
INTERNAL void wait_for_groups(unsigned but);
// Lets others run. Whether anything has come of the thread's turn, or it has only looked again.
INTERNAL void give_way(const Where &where, bool went_on);
[[noreturn]] INTERNAL void stop(const char *why);

} // namespace emulator
