// The scheduler's view of blocks, their parts, and their clusters.
#pragma once

#include <memory>
#include <stdint.h>
#include <string.h>
#include <vector>

#include "schedule.h"

namespace emulator {

// Bytes behind a block's shared memory: if one of them changes, the block has written beyond its memory.
constexpr size_t guard = 1024;
constexpr unsigned char poison = 0xff;

// All blocks' memory is aligned alike, so that a place has one offset in all of them.
struct alignas(1024) Unit {
    unsigned char bytes[1024];
};

// Poisoned memory with a guard behind it.
class Memory {
    std::unique_ptr<Unit[]> units;
    size_t bytes;

  public:
    explicit Memory(size_t bytes) : units(new Unit[(bytes + guard) / sizeof(Unit) + 1]), bytes(bytes) {
        memset(units.get(), poison, bytes + guard);
    }
    unsigned char *data() const { return units[0].bytes; }
    bool is_whole() const {
        for (size_t i = bytes; i < bytes + guard; i++)
            if (data()[i] != poison) return false;
        return true;
    }
};

struct Block;

// A copy that a thread has begun in one of its groups, and that has not arrived. Zeros if `from` is null.
struct Copy {
    void *to;
    const void *from;
    unsigned bytes, group;
};

struct Fiber : Thread {
    unsigned number;
    Block *block;
    // The stack pointer at which the thread goes on; null once it has ended.
    void *stack;
    // The thread waits until this differs from `seen`; null if it may go on.
    const unsigned *generation = nullptr;
    unsigned seen = 0;
    // Rounds for which the thread rests after it has looked in vain, and the round in which it looks again.
    unsigned rest = 0, rests_until = 0;
    Where where = {};
    std::vector<Copy> copying;
    // Number of ended groups of copies.
    unsigned groups = 0;

    Fiber(const uint3 &index, unsigned number, Block *block, void *stack)
        : Thread{index}, number(number), block(block), stack(stack) {}
};

struct Variable {
    const void *key;
    Memory memory;
};

struct Warp {
    unsigned arrived = 0, generation = 0;
    Combine combine = nullptr;
    Slot slots[32];
    // How often, in percent, the whole warp loses its turn.
    unsigned skips = 0;
};

// A value that was sent to a block and has not arrived. It may arrive at any time, all bytes at once.
struct Store {
    unsigned char value[16];
    unsigned bytes;
    void *place;
    Mbarrier *mbarrier;
    // How often, in percent, it loses its turn to arrive.
    unsigned skips;
};

// A barrier for all threads that have not ended.
struct Meeting {
    unsigned arrived = 0, alive = 0, generation = 0;

    void ended() {
        if (--alive > 0 && arrived == alive) open();
    }
    // Lets all threads go on.
    void open() {
        arrived = 0;
        generation++;
    }
};

// Blocks that reach each other's memory. In a launch without clusters each block is a cluster.
struct Cluster {
    // By rank; null before a block has begun and after it has ended.
    std::vector<Block *> blocks;
    Meeting meeting;
};

struct Block {
    uint3 index;
    Cluster *cluster;
    unsigned rank;
    Meeting meeting;
    // A barrier for exactly the kernel's number of threads: a thread that has ended, or never begun, blocks it.
    Meeting whole_meeting;
    // How often, in percent, a thread loses its turn, and all threads lose their turns together.
    unsigned skips_thread = 0, skips_all = 0;
    std::vector<Fiber> threads;
    std::vector<Warp> warps;
    std::vector<Variable> variables;
    std::unique_ptr<Memory> shared;
    std::vector<Store> arriving;
};

} // namespace emulator
