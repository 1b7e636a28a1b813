// The emulator's `device.cuh`.
#pragma once

#include "intrinsics.h"
#include "half.h"
#include "schedule.h"

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) alignas(bytes)

#define threadIdx (emulator::current->index)
#define blockIdx (emulator::block_index())
#define blockDim (emulator::block_size())
#define gridDim (emulator::grid_size())

#define KERNEL(kernel, Parameters)                                                                                     \
    static void kernel##_body(const Parameters &parameters);                                                           \
    static void kernel##_of(const void *argument) {                                                                    \
        Parameters parameters;                                                                                         \
        memcpy(static_cast<void *>(&parameters), argument, sizeof parameters);                                         \
        kernel##_body(parameters);                                                                                     \
    }                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) const emulator::Kernel kernel;                                   \
    const emulator::Kernel kernel = {emulator::Kernel::kind_of_all, BLOCK_THREADS, #kernel, kernel##_of,               \
                                     emulator::launch};                                                                \
    static void kernel##_body(const Parameters &parameters)

#define SHARED(Type, name) Type *const name = static_cast<Type *>(emulator::shared())
#define STATIC_SHARED(Type, name, ...)                                                                                 \
    typedef Type name##_type __VA_ARGS__;                                                                              \
    static const char name##_key = 0;                                                                                  \
    name##_type &name = *static_cast<name##_type *>(emulator::static_shared(&name##_key, sizeof(name##_type)))

#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)

// The place of a call, as the called function's last parameters.
#define AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

#ifdef KINDS_OF_WARPS
inline void barrier(AT) { emulator::meet_whole_block({"barrier", file, line}); }
#else
inline void barrier(AT) { emulator::meet_block({"barrier", file, line}); }
#endif

// The emulator runs launches one after the other.
inline void begin_next_launch() {}
inline void wait_for_last_launch() {}

namespace emulator {

template <typename T> unsigned long long slot_bits(T x) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "warps exchange values of 4 or 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

template <typename T> T of_slot(unsigned long long bits) {
    T x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

template <typename T> T meet(const Where &where, T x, int argument, Combine combine) {
    return of_slot<T>(meet_warp(where, {slot_bits(x), argument, nullptr}, combine));
}

inline const char *shuffle(Slot (&slots)[32]) {
    Slot before[32];
    memcpy(before, slots, sizeof before);
    for (Slot &slot : slots) {
        if (slot.argument < 0 || slot.argument >= 32) return "a lane beyond 0 to 31 is asked for";
        slot.bits = before[slot.argument].bits;
    }
    return nullptr;
}

inline const char *broadcast(Slot (&slots)[32]) {
    for (const Slot &slot : slots)
        if (slot.argument != slots[0].argument) return "the warp's lanes ask for different lanes";
    return shuffle(slots);
}

// Adds in the same order as the GPU.
template <typename T, T operation(T, T)> const char *reduce(Slot (&slots)[32]) {
    const int lanes = slots[0].argument;
    if (lanes < 1 || lanes > 32 || (lanes & (lanes - 1))) return "a group has 1, 2, 4, 8, 16 or 32 lanes";
    for (const Slot &slot : slots)
        if (slot.argument != lanes) return "the warp's lanes have groups of different sizes";
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        T before[32];
        for (int i = 0; i < 32; i++) before[i] = of_slot<T>(slots[i].bits);
        for (int i = 0; i < 32; i++) slots[i].bits = slot_bits(operation(before[i], before[i ^ apart]));
    }
    return nullptr;
}

template <typename T> T sum(T x, T y) { return x + y; }
template <typename T> T greater(T x, T y) { return y > x ? y : x; }

inline const char *count(Slot (&slots)[32]) {
    unsigned long long holds = 0;
    for (const Slot &slot : slots) holds += slot.bits;
    for (Slot &slot : slots) slot.bits = holds;
    return nullptr;
}

inline const char *nothing(Slot (&)[32]) { return nullptr; }

} // namespace emulator

inline void warp_barrier(AT) { emulator::meet({"warp_barrier", file, line}, 0, 0, emulator::nothing); }

template <typename T> inline T warp_shuffle(T x, int lane, AT) {
    return emulator::meet({"warp_shuffle", file, line}, x, lane, emulator::shuffle);
}

template <typename T> inline T warp_broadcast(T x, int lane, AT) {
    return emulator::meet({"warp_broadcast", file, line}, x, lane, emulator::broadcast);
}

template <typename T> inline T warp_sum(T x, int lanes = 32, AT) {
    return emulator::meet({"warp_sum", file, line}, x, lanes, emulator::reduce<T, emulator::sum<T>>);
}

template <typename T> inline T warp_max(T x, int lanes = 32, AT) {
    return emulator::meet({"warp_max", file, line}, x, lanes, emulator::reduce<T, emulator::greater<T>>);
}

inline bool warp_any(bool p, AT) { return emulator::meet({"warp_any", file, line}, int(p), 0, emulator::count) > 0; }

inline bool warp_all(bool p, AT) { return emulator::meet({"warp_all", file, line}, int(p), 0, emulator::count) == 32; }

class Spin {
    bool is_new = true;

  public:
    void again(AT) {
        emulator::give_way({"a Spin", file, line}, is_new);
        is_new = false;
    }
};

template <typename T> inline T in_register(T x) { return x; }
template <typename T> inline T *shared_in_register(T *pointer) { return pointer; }
inline void in_this_order() {}

struct Moment {
    void wait(unsigned) const {}
};

[[noreturn]] inline void fail(const char *why) { emulator::stop(why); }

#include "mma.h"

#undef AT
