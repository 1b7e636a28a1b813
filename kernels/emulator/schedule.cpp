#include "schedule.h"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "cluster.h"

namespace emulator {

namespace {

// The most threads alive at once; further blocks begin when others have ended, as on a GPU.
constexpr size_t most_threads = 1 << 15;
// The launch is deadlocked after this many rounds in which threads have only looked again in vain. With any seed, each
// thread has 20 turns in these rounds, almost surely.
constexpr unsigned most_idle_rounds = 1000;
// A thread that has looked in vain again and again rests for up to this many rounds, for most threads of a launch may
// wait for a slow block.
constexpr unsigned most_rest = 7;
// Also a deadlock: rounds in which no thread has come to a barrier or its end, whatever else it did.
constexpr unsigned most_rounds_apart = 100 * most_idle_rounds;
// The most blocks of a cluster, as on a GPU.
constexpr unsigned most_in_a_cluster = 16;

// A seed's random numbers (SplitMix64: Steele, Lea, Flood 2014).
class Random {
    uint64_t state;

  public:
    explicit Random(uint64_t seed) : state(seed) {}
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    size_t below(size_t count) { return next() % count; }
    bool chance(unsigned percent) { return below(100) < percent; }
};

// A block that has not begun.
struct Waiting {
    size_t cluster;
    unsigned rank;
};

class Schedule;
__thread Schedule *running;

// The fiber of the kernel's thread that now runs.
Fiber &fiber() { return *static_cast<Fiber *>(current); }

class Schedule {
  public:
    const Kernel &kernel;
    const Launch &launch;
    const dim3 grid, block, cluster;

    Schedule(const Kernel &kernel, const Launch &launch)
        : kernel(kernel), launch(launch), grid{launch.grid[0], launch.grid[1], launch.grid[2]},
          block{launch.block[0], launch.block[1], launch.block[2]},
          cluster{launch.cluster[0], launch.cluster[1], launch.cluster[2]}, random(launch.seed) {}

    // Runs the launch to its end. Returns an error, or null.
    const char *run();
    // Suspends the thread that now runs.
    void leave() { leave(fiber().stack); }
    // Its stack pointer goes to `stack`. The block's next thread that has a turn runs at once: the way over the scheduler
    // would be two switches, whose returns the processor does not foresee.
    void leave(void *&stack) {
        Fiber *const to = failed ? nullptr : next();
        current = to;
        emulator_switch(&stack, to ? to->stack : scheduler);
    }
    // A thread awaits something new.
    void go_on() { idle_rounds = 0; }
    // The thread that now runs has looked in vain: the next time it looks some rounds later.
    void rest() {
        fiber().rest = std::min(2 * fiber().rest + 1, most_rest);
        fiber().rests_until = round + fiber().rest;
    }
    // A thread has come to a barrier or to its end.
    void arrive() { idle_rounds = rounds_apart = 0; }
    // Sends a value, which arrives at once or later. Returns an error, or null.
    const char *send(Block &to, Store store);
    // Draws whether a copy arrives as soon as it begins.
    bool is_fast() { return launch.is_adversarial && random.chance(25); }
    // Ends the launch: no thread runs any more.
    [[noreturn]] void stop(const char *format, const char *why);

  private:
    void *scheduler = nullptr;
    Random random;
    Stacks stacks = {};
    std::vector<std::unique_ptr<Block>> resident;
    std::vector<std::unique_ptr<Cluster>> clusters;
    std::vector<Waiting> waiting_blocks;
    unsigned round = 0, idle_rounds = 0, rounds_apart = 0;
    bool failed = false;
    char message[2048];
    // The block that has its turn: its threads that have not had theirs in it, and what its threads have drawn.
    struct {
        Block *block;
        Fiber *next, *end;
        bool all_skipped, warp_skipped, any;
    } turn = {};

    // Draws from the seed whether to skip a turn.
    bool skips(unsigned percent) { return launch.is_adversarial && random.chance(percent); }
    void line_up(size_t clusters, unsigned blocks);
    void begin(size_t place, const Waiting &waiting);
    // Lets some values that were sent to a block arrive. Returns an error, or null.
    const char *deliver(Block &block);
    bool give_turns(Block &block);
    Fiber *next();
    const char *explain(const char *why);
    const char *deadlock();
    static void enter();
};

const char *Schedule::run() {
    const size_t threads = size_t(block.x) * block.y * block.z, blocks = size_t(grid.x) * grid.y * grid.z;
    if (threads == 0 || blocks == 0) return explain("a launch has blocks, and blocks have threads");
    if (threads > kernel.most_threads) return explain("its blocks have more threads than its THREADS");
    const size_t together = size_t(cluster.x) * cluster.y * cluster.z;
    if (std::max({cluster.x, cluster.y, cluster.z}) > most_in_a_cluster || together < 1 || together > most_in_a_cluster)
        return explain("a cluster has 1 to 16 blocks");
    if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
        return explain("its clusters do not make up its grid");
    size_t places = std::min(blocks, most_threads / threads);
    if (places >= together) stacks = launch.stacks(places * threads);
    // A process has room for so many mappings. With fewer places, blocks wait for each other's.
    while (!stacks.memory && places / 2 >= together) {
        places /= 2;
        stacks = launch.stacks(places * threads);
    }
    if (!stacks.memory) return explain("there is no memory for its threads' stacks");
    resident.resize(places);
    line_up(blocks / together, together);
    // Rounds in which no block ends open a place each, so that short blocks share a few stacks.
    size_t open = 0;
    bool has_ended = false;
    for (size_t unfinished = blocks; unfinished > 0;) {
        if (!has_ended && open < places) open++;
        has_ended = false;
        bool any = open < places && !waiting_blocks.empty();
        round++;
        idle_rounds++;
        rounds_apart++;
        for (size_t place = 0; place < open; place++) {
            std::unique_ptr<Block> &here = resident[place];
            if (!here) {
                if (waiting_blocks.empty()) continue;
                any = true;
                if (skips(50)) continue;
                begin(place, waiting_blocks.back());
                waiting_blocks.pop_back();
            }
            any |= give_turns(*here);
            if (failed) return message;
            if (here->meeting.alive > 0) continue;
            here->cluster->blocks[here->rank] = nullptr;
            if (!here->arriving.empty()) return explain("a block has ended before all that was sent to it has arrived");
            if (!here->shared->is_whole()) return explain("a block has written beyond its dynamic shared memory");
            for (const Variable &variable : here->variables)
                if (!variable.memory.is_whole()) return explain("a block has written beyond its static shared memory");
            here.reset();
            unfinished--;
            arrive();
            any = has_ended = true;
        }
        if (!any || idle_rounds > most_idle_rounds || rounds_apart > most_rounds_apart) return deadlock();
    }
    return nullptr;
}

// Lines up blocks, the first to begin at the end. A cluster's blocks stand together, so that they all get room before
// blocks behind them.
void Schedule::line_up(size_t count, unsigned blocks) {
    const auto shuffle = [&](auto *first, size_t count) {
        for (size_t i = count; launch.is_adversarial && i > 1; i--) std::swap(first[i - 1], first[random.below(i)]);
    };
    std::vector<size_t> order;
    for (size_t i = count; i-- > 0;) order.push_back(i);
    shuffle(order.data(), count);
    for (const size_t cluster : order) {
        for (unsigned rank = blocks; rank-- > 0;) waiting_blocks.push_back({cluster, rank});
        shuffle(&waiting_blocks.back() + 1 - blocks, blocks);
    }
    for (size_t i = 0; i < count; i++) {
        auto made = std::make_unique<Cluster>();
        made->blocks.resize(blocks);
        made->meeting.alive = blocks * block.x * block.y * block.z;
        clusters.push_back(std::move(made));
    }
}

void Schedule::begin(size_t place, const Waiting &waiting) {
    const unsigned threads = block.x * block.y * block.z, rank = waiting.rank;
    const size_t across = grid.x / cluster.x, down = grid.y / cluster.y, of = waiting.cluster;
    auto made = std::make_unique<Block>();
    made->index = {unsigned(of % across * cluster.x + rank % cluster.x),
                   unsigned(of / across % down * cluster.y + rank / cluster.x % cluster.y),
                   unsigned(of / across / down * cluster.z + rank / cluster.x / cluster.y)};
    made->cluster = clusters[of].get();
    made->cluster->blocks[rank] = made.get();
    made->rank = rank;
    made->meeting.alive = threads;
    made->whole_meeting.alive = kernel.most_threads;
    made->shared = std::make_unique<Memory>(launch.shared_bytes);
    made->warps.resize((threads + 31) / 32);
    made->threads.reserve(threads);
    made->skips_thread = random.below(70);
    // Some blocks are much slower than others.
    const bool is_slow = random.chance(25);
    made->skips_all = is_slow ? 90 : random.below(50);
    // So are some warps of the other blocks.
    for (Warp &warp : made->warps) warp.skips = !is_slow && random.chance(25) ? 80 : 0;
    for (unsigned i = 0; i < threads; i++) {
        const uint3 index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
        made->threads.emplace_back(index, i, made.get(), stacks.begin(place * threads + i, enter));
    }
    resident[place] = std::move(made);
    arrive();
}

const char *Schedule::send(Block &to, Store store) {
    // Some values are much slower than others.
    if (launch.is_adversarial) store.skips = random.chance(25) ? 90 : random.below(70);
    to.arriving.push_back(store);
    return launch.is_adversarial && random.chance(25) ? deliver(to) : nullptr;
}

const char *Schedule::deliver(Block &block) {
    std::vector<Store> later;
    for (const Store &store : block.arriving) {
        if (skips(store.skips)) {
            later.push_back(store);
            continue;
        }
        memcpy(store.place, store.value, store.bytes);
        if (const char *wrong = store.mbarrier->arrive(store.bytes)) return wrong;
        go_on();
    }
    block.arriving.swap(later);
    return nullptr;
}

// Returns whether any of the block's threads may go on.
bool Schedule::give_turns(Block &block) {
    if (const char *wrong = deliver(block)) {
        failed = true;
        explain(wrong);
        return false;
    }
    Fiber *const first = block.threads.data();
    turn = {&block, first, first + block.threads.size(), skips(block.skips_all), false, false};
    if (Fiber *const to = next()) {
        current = to;
        emulator_switch(&scheduler, to->stack);
    }
    return turn.any;
}

// The next thread of the block that goes on in this turn, or null.
Fiber *Schedule::next() {
    const Block &block = *turn.block;
    while (turn.next != turn.end) {
        Fiber &thread = *turn.next++;
        if (thread.number % 32 == 0) turn.warp_skipped = skips(block.warps[thread.number / 32].skips);
        if (!thread.stack || (thread.generation && *thread.generation == thread.seen)) continue;
        turn.any = true;
        if (turn.all_skipped || turn.warp_skipped || round < thread.rests_until || skips(block.skips_thread)) continue;
        thread.generation = nullptr;
        return &thread;
    }
    return nullptr;
}

void Schedule::enter() {
    running->kernel.run(running->launch.parameters);
    if (!fiber().copying.empty()) emulator::stop("it has ended before all that it copies has arrived");
    running->arrive();
    fiber().block->meeting.ended();
    fiber().block->cluster->meeting.ended();
    fiber().stack = nullptr;
    void *nowhere;
    running->leave(nowhere);
    __builtin_unreachable();
}

const char *Schedule::explain(const char *why) {
    snprintf(message, sizeof message, "%s: %s", kernel.name, why);
    return message;
}

void Schedule::stop(const char *format, const char *why) {
    failed = true;
    const uint3 &block = fiber().block->index;
    const int length = snprintf(message, sizeof message, "%s, block (%u, %u, %u), thread %u: ", kernel.name, block.x,
                                block.y, block.z, fiber().number);
    snprintf(message + length, sizeof message - length, format, why);
    leave();
    __builtin_unreachable();
}

const char *Schedule::deadlock() {
    size_t used = snprintf(message, sizeof message, "%s: a deadlock: no thread goes on", kernel.name);
    if (launch.is_adversarial)
        used += snprintf(message + used, sizeof message - used, " (the schedule's seed is %llu)", launch.seed);
    if (!waiting_blocks.empty())
        used += snprintf(message + used, sizeof message - used, ", and %zu blocks have no room to begin",
                         waiting_blocks.size());
    for (const auto &block : resident) {
        if (!block) continue;
        const Fiber *first = nullptr;
        unsigned alike = 0;
        const auto line = [&] {
            if (!first || used + 200 > sizeof message) return;
            used += snprintf(message + used, sizeof message - used,
                             "\n  block (%u, %u, %u): %u threads from thread %u on wait in %s, %.80s:%d", block->index.x,
                             block->index.y, block->index.z, alike, first->number, first->where.what, first->where.file,
                             first->where.line);
        };
        for (const Fiber &thread : block->threads) {
            if (!thread.stack) continue;
            const bool same = first && first->where.what == thread.where.what && first->where.line == thread.where.line;
            if (!same) {
                line();
                first = &thread;
                alike = 0;
            }
            alike++;
        }
        line();
    }
    return message;
}

// Suspends the thread until `generation` has changed.
void wait(const unsigned &generation) {
    fiber().generation = &generation;
    fiber().seen = generation;
    running->leave();
}

void meet(const Where &where, Meeting &meeting) {
    fiber().where = where;
    running->arrive();
    if (++meeting.arrived == meeting.alive) meeting.open();
    else wait(meeting.generation);
}

} // namespace

__thread Thread *current;

const uint3 &block_index() { return fiber().block->index; }
const dim3 &block_size() { return running->block; }
const dim3 &grid_size() { return running->grid; }
void *shared() { return fiber().block->shared->data(); }

void *static_shared(const void *key, size_t bytes) {
    std::vector<Variable> &variables = fiber().block->variables;
    for (const Variable &variable : variables)
        if (variable.key == key) return variable.memory.data();
    variables.push_back({key, Memory(bytes)});
    return variables.back().memory.data();
}

void meet_block(const Where &where) { meet(where, fiber().block->meeting); }
void meet_whole_block(const Where &where) { meet(where, fiber().block->whole_meeting); }
void meet_cluster(const Where &where) { meet(where, fiber().block->cluster->meeting); }

// The offset of `bytes` bytes at `place` in the dynamic shared memory of the thread's block.
static size_t offset_of(const void *place, size_t bytes) {
    const size_t size = running->launch.shared_bytes;
    const size_t offset = static_cast<const unsigned char *>(place) - fiber().block->shared->data();
    if (offset > size || bytes > size - offset)
        stop("what it sends or copies, and where that arrives, is to lie in dynamic shared memory");
    if (offset % bytes) stop("what it sends or copies is to be aligned to its size, and an Mbarrier to 8 bytes");
    return offset;
}

// The cluster's block of this rank.
static Block *block_of(unsigned rank) {
    const auto &blocks = fiber().block->cluster->blocks;
    if (rank >= blocks.size()) stop("it names a block of a rank that its cluster does not have");
    if (!blocks[rank]) stop("it names a block that has not begun or has ended");
    return blocks[rank];
}

const void *of_block(const void *place, unsigned bytes, unsigned rank) {
    return block_of(rank)->shared->data() + offset_of(place, bytes);
}

void send(const void *value, unsigned bytes, void *place, Mbarrier &mbarrier, unsigned rank) {
    Block *const to = block_of(rank);
    unsigned char *const memory = to->shared->data();
    unsigned char *const arrivals = memory + offset_of(&mbarrier, sizeof mbarrier);
    Store store = {{}, bytes, memory + offset_of(place, bytes), reinterpret_cast<Mbarrier *>(arrivals), 0};
    memcpy(store.value, value, bytes);
    if (const char *wrong = running->send(*to, store)) stop(wrong);
}

static void arrive(const Copy &copy) {
    if (copy.from) memcpy(copy.to, copy.from, copy.bytes);
    else memset(copy.to, 0, copy.bytes);
}

void copy_async(void *to, const void *from, unsigned bytes) {
    offset_of(to, bytes);
    if (reinterpret_cast<uintptr_t>(from) % bytes) stop("what it copies is to be aligned to its size");
    const Copy copy = {to, from, bytes, fiber().groups};
    if (running->is_fast()) arrive(copy);
    else fiber().copying.push_back(copy);
}

void end_group() { fiber().groups++; }

void wait_for_groups(unsigned but) {
    std::vector<Copy> &copying = fiber().copying;
    const auto waits = [&](const Copy &copy) { return copy.group + but < fiber().groups; };
    const auto later = std::find_if_not(copying.begin(), copying.end(), waits);
    std::for_each(copying.begin(), later, arrive);
    copying.erase(copying.begin(), later);
}

unsigned long long meet_warp(const Where &where, Slot mine, Combine combine) {
    Block &block = *fiber().block;
    Warp &warp = block.warps[fiber().number / 32];
    Slot &slot = warp.slots[fiber().number % 32];
    fiber().where = where;
    running->arrive();
    if (warp.arrived == 0) warp.combine = combine;
    else if (warp.combine != combine) running->stop("%s, where other lanes of its warp call something else", where.what);
    slot = mine;
    if (++warp.arrived < 32) {
        wait(warp.generation);
    } else {
        warp.arrived = 0;
        warp.generation++;
        if (const char *wrong = combine(warp.slots)) running->stop("%s", wrong);
    }
    return slot.bits;
}

void give_way(const Where &where, bool went_on) {
    fiber().where = where;
    if (went_on) {
        fiber().rest = 0;
        running->go_on();
    } else {
        running->rest();
    }
    running->leave();
}

void stop(const char *why) { running->stop("%s", why); }

int launch(const Kernel &kernel, const Launch &launch, char *message, size_t message_bytes) {
    auto schedule = std::make_unique<Schedule>(kernel, launch);
    running = schedule.get();
    const char *wrong = schedule->run();
    running = nullptr;
    if (wrong) snprintf(message, message_bytes, "%s", wrong);
    return wrong != nullptr;
}

} // namespace emulator
