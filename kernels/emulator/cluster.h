// The emulator's `cluster.cuh`.
#pragma once

#include <stdint.h>

#include "schedule.h"

// 8 bytes, as on a GPU. An Mbarrier that nobody has initialised is recognised in poison and in zeros.
class alignas(8) Mbarrier {
    static constexpr unsigned most_arrivals = (1 << 20) - 2;
    static constexpr int most_bytes = (1 << 20) - 1;
    // The phase's parity; the threads that this phase still awaits, and those of each phase; and the bytes that are
    // expected and have not arrived, below zero if more have arrived than are expected.
    uint64_t parity : 1, awaited : 20, arrivals : 20;
    int64_t bytes : 21;

  public:
    void initialize(unsigned count) {
        if (count == 0 || count > most_arrivals) emulator::stop("an Mbarrier awaits 1 to 1048574 threads a phase");
        parity = bytes = 0;
        awaited = arrivals = count;
    }

    void expect(unsigned count) {
        if (is_unknown()) emulator::stop("an Mbarrier was not initialized");
        if (awaited == 0) emulator::stop("more threads come to an Mbarrier than its phase awaits");
        // Bytes and thread together: the phase must not end between them.
        if (const char *wrong = count > unsigned(most_bytes) ? too_many : add(int(count), 1)) emulator::stop(wrong);
    }

    bool has_ended(unsigned of) const {
        if (is_unknown()) emulator::stop("an Mbarrier was not initialized");
        return of != parity;
    }

    // Counts arrived bytes. Returns an error, or null.
    const char *arrive(unsigned count) {
        return is_unknown() ? "what is sent arrives at an Mbarrier that was not initialized" : add(-int(count), 0);
    }

  private:
    static constexpr const char *too_many = "2^20 bytes or more are too many for an Mbarrier's phase";

    bool is_unknown() const { return arrivals == 0 || arrivals > most_arrivals; }

    const char *add(int count, unsigned threads) {
        const int sum = bytes + count;
        if (sum > most_bytes || sum < -most_bytes) return too_many;
        bytes = sum;
        awaited -= threads;
        if (awaited == 0 && bytes == 0) {
            parity = !parity;
            awaited = arrivals;
        }
        return nullptr;
    }
};

inline void cluster_barrier(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    emulator::meet_cluster({"cluster_barrier", file, line});
}

inline void cluster_sync(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    emulator::meet_cluster({"cluster_sync", file, line});
}

template <typename T> inline void send(const T &value, T *place, Mbarrier &mbarrier, unsigned block) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
    emulator::send(&value, sizeof(T), place, mbarrier, block);
}

template <typename T> inline T of_block(const T *place, unsigned block) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "4, 8 or 16 bytes");
    return *static_cast<const T *>(emulator::of_block(place, sizeof(T), block));
}
