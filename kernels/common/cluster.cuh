// Communication between the blocks of a cluster: words beside those of `device.cuh`, for GPUs of compute capability 9.0
// and above and for the emulator. A launch sets the size of its clusters; the blocks of a cluster run at the same time.
// A place in a block's dynamic shared memory also names that place in its neighbours' memory.
//
// | word | meaning |
// | --- | --- |
// | `cluster_barrier()` | waits for all threads of the cluster's blocks that have not ended. Of earlier writes it shows initialised Mbarriers and nothing else |
// | `cluster_sync()` | likewise; and everything after it comes after these threads' earlier reads and writes of shared memory |
// | `Mbarrier mbarrier;` | in dynamic shared memory: reports, once a phase, that everything has arrived. A phase ends when `arrivals` threads have come and the expected bytes have arrived, in any order; then the next begins. The first is phase 0 |
// | `mbarrier.initialize(arrivals)` | called once by one thread, before `cluster_barrier()` or `cluster_sync()` |
// | `mbarrier.expect(bytes)` | one thread comes, and adds `bytes` to the bytes expected in this phase |
// | `mbarrier.has_ended(parity)` | whether the last phase of this parity has ended; its bytes in shared memory are then visible. Call it in a `Spin`, for the current phase or the one before only |
// | `send(value, place, mbarrier, block)` | stores a value of 4, 8 or 16 bytes, aligned to its size, at `place` in the cluster's block of rank `block`, which may be the sender; the bytes then count at that block's `mbarrier`. Nobody waits, and two values may arrive in either order |
// | `of_block(place, block)` | the value of 4, 8 or 16 bytes, aligned to its size, at `place` in the dynamic shared memory of the block of rank `block` |
#pragma once

#include "common/device.cuh"

#ifdef EMULATED

#include "emulator/cluster.h"

#else

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("fence.mbarrier_init.release.cluster; barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

class alignas(8) Mbarrier {
    unsigned long long state;

  public:
    __device__ __forceinline__ unsigned address() { return __cvta_generic_to_shared(&state); }

    __device__ __forceinline__ void initialize(unsigned arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
    }

    __device__ __forceinline__ void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
    }

    // The default scope, the block's, is enough although other blocks send: the bytes are in the block's own shared
    // memory, which has no cache in front, by the time the Mbarrier counts them. PTX's memory model asks for the
    // cluster's scope, but with that each wait discards the multiprocessor's cache of global memory. Libraries whose
    // blocks multicast wait the same way.
    __device__ __forceinline__ bool has_ended(unsigned parity) {
        unsigned ended;
        asm volatile("{ .reg .pred ended; mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2; "
                     "selp.u32 %0, 1, 0, ended; }"
                     : "=r"(ended)
                     : "r"(address()), "r"(parity)
                     : "memory");
        return ended;
    }
};

// The same address in another block of the cluster.
__device__ __forceinline__ unsigned at_block(unsigned address, unsigned block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

#define SEND "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
template <typename T>
__device__ __forceinline__ void send(const T &value, T *place, Mbarrier &mbarrier, unsigned block) {
    constexpr int words = sizeof(T) / 4;
    static_assert(sizeof(T) % 4 == 0 && (words == 1 || words == 2 || words == 4), "4, 8 or 16 bytes");
    union Bits {
        T value;
        unsigned word[words];
        __device__ __forceinline__ Bits(const T &value) : value(value) {}
    } bits(value);
    const unsigned there = at_block(__cvta_generic_to_shared(place), block), at = at_block(mbarrier.address(), block);
    if constexpr (words == 4)
        asm volatile(SEND ".v4.b32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(there), "r"(at), "r"(bits.word[0]),
                     "r"(bits.word[1]), "r"(bits.word[2]), "r"(bits.word[3])
                     : "memory");
    else if constexpr (words == 2)
        asm volatile(SEND ".v2.b32 [%0], {%2, %3}, [%1];" ::"r"(there), "r"(at), "r"(bits.word[0]), "r"(bits.word[1])
                     : "memory");
    else
        asm volatile(SEND ".b32 [%0], %2, [%1];" ::"r"(there), "r"(at), "r"(bits.word[0]) : "memory");
}
#undef SEND

template <typename T> __device__ __forceinline__ T of_block(const T *place, unsigned block) {
    constexpr int words = sizeof(T) / 4;
    static_assert(sizeof(T) % 4 == 0 && (words == 1 || words == 2 || words == 4), "4, 8 or 16 bytes");
    union Bits {
        T value;
        unsigned word[words];
        __device__ __forceinline__ Bits() {}
    } bits;
    const unsigned there = at_block(__cvta_generic_to_shared(place), block);
    if constexpr (words == 4)
        asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                     : "r"(there)
                     : "memory");
    else if constexpr (words == 2)
        asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];" : "=r"(bits.word[0]), "=r"(bits.word[1]) : "r"(there) : "memory");
    else
        asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(bits.word[0]) : "r"(there) : "memory");
    return bits.value;
}

#endif
