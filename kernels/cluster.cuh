// What the blocks of a cluster have of each other: beside `device.cuh`'s words those of GPUs of compute capability 9.0 and
// above, on the CPU under the same emulator. A launch says how large its clusters are; the blocks of one run at the same
// time. Each has its memory under the same names: what lies at some place of a block's dynamic shared memory lies at that
// place of its neighbours' too.
//
// | word | what it is |
// | --- | --- |
// | `cluster_barrier()` | of the cluster: all threads of its blocks that have not ended. Of what others wrote before, initialised Mbarriers are seen behind it, and nothing else |
// | `cluster_sync()` | likewise; and what is behind it comes after all that these threads have read and written in shared memory before |
// | `Mbarrier mbarrier;` | in dynamic shared memory: whether all of something has arrived, once a phase. A phase ends when `arrivals` threads have come and the bytes that they expect have arrived, in whichever order; then the next begins. The first is phase 0 |
// | `mbarrier.initialize(arrivals)` | once, by one thread, before one of these |
// | `mbarrier.expect(bytes)` | a thread comes, and says that so many more bytes arrive in this phase |
// | `mbarrier.has_ended(parity)` | whether the last phase of this parity has ended, and what arrived in it is seen, in shared memory: asked of the phase at hand or of the one before, in a `Spin` |
// | `send(value, place, mbarrier, block)` | stores a value of 4, 8 or 16 bytes, aligned to as many, at `place` of the cluster's block of this rank, or of one's own; its bytes then arrive at that block's `mbarrier`. Nobody waits, and of two values either may arrive first |
#pragma once

#include "device.cuh"

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

    // In the block's scope, as it goes without saying, though others send: what arrives lies in the block's own shared
    // memory, which no cache stands before, when the Mbarrier counts its bytes. PTX's memory model asks for the cluster's
    // scope, with which each wait throws away what the multiprocessor has cached of global memory; libraries whose blocks
    // multicast wait as here.
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

// The address at another block of the cluster.
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

#endif
