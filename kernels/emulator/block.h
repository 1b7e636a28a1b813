// Blocks, what they consist of, and the clusters that they belong to, as the scheduler knows them.
#pragma once

#include <memory>
#include <stdint.h>
#include <string.h>
#include <vector>

#include "schedule.h"

namespace emulator {

// Bytes behind a block's shared memory that stay as they are, or something has written beyond it.
constexpr size_t guard = 1024;
constexpr unsigned char poison = 0xff;

struct alignas(16) Unit {
    unsigned char bytes[16];
};

// Poisoned memory, and its guard.
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

struct Variable {
    const void *key;
    Memory memory;
};

struct Warp {
    unsigned arrived = 0, generation = 0;
    Combine combine = nullptr;
    Slot slots[32];
    // How often, in percent, all of it loses its turn.
    unsigned skips = 0;
};

// What was sent to a block and has not arrived. It does so whenever it likes, all of it at once.
struct Store {
    unsigned char value[16];
    unsigned bytes;
    void *place;
    Mbarrier *mbarrier;
    // How often, in percent, it loses its turn to.
    unsigned skips;
};

// Where threads wait for all that have not ended.
struct Meeting {
    unsigned arrived = 0, alive = 0, generation = 0;

    void ended() {
        if (--alive > 0 && arrived == alive) open();
    }
    // All go on behind the barrier.
    void open() {
        arrived = 0;
        generation++;
    }
};

// Blocks that reach each other's memory. In a launch without clusters each block is one.
struct Cluster {
    // By their ranks; null before one has begun and when it has ended.
    std::vector<Block *> blocks;
    Meeting meeting;
};

struct Block {
    uint3 index;
    Cluster *cluster;
    unsigned rank;
    Meeting meeting;
    // Of as many threads as its kernel says, ended or never begun.
    Meeting whole_meeting;
    // How often, in percent, one of its threads, and all of them, lose their turn.
    unsigned skips_thread = 0, skips_all = 0;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<Variable> variables;
    std::unique_ptr<Memory> shared;
    std::vector<Store> arriving;
};

} // namespace emulator
