// Values handed from each block of a cluster to all of its blocks, its own included, again and again, with no barrier over
// the cluster: each is stored straight to where it is read.
//
// Exchange e goes into buffer e % 2 of each block, of which there is one at the same place of each; what the first exchange
// is made of is in buffer 1. All values of an exchange are as many bytes, which one thread of each block expects.
//
// Each thread that reads what an exchange brought waits for it, and then for the next. Between, something is sent in the
// next exchange that comes after its reading: by its warp, a warp_barrier() later, or by its block, a barrier() later.
//
// Why two buffers are enough. Who sends in exchange e + 1 has waited for all of exchange e, and so for something that was
// sent after each thread's reading of what exchange e - 1 brought, which the same buffer held before. Nor does any thread
// still wait for exchange e - 1, so that has_ended() is asked of no phase but the last two.
//
// Why a block may expect an exchange's bytes after some have arrived. Those count, below zero, and the phase does not end
// before the thread has come that expects them. It comes in the phase that it means, since it has waited for the exchange
// before the last, which that Mbarrier had in the phase before.
//
// A block ends after it has waited for all exchanges: nothing is sent to one that is not there any more.
#pragma once

#include "cluster.cuh"

class ClusterExchange {
    Mbarrier *const arrived; // [2]
    unsigned next = 0;       // exchange

  public:
    // By all threads of the cluster. Two Mbarriers, at the same place of each block.
    __device__ __forceinline__ explicit ClusterExchange(Mbarrier *mbarriers) : arrived(mbarriers) {
        if (threadIdx.x == 0) {
            arrived[0].initialize(1);
            arrived[1].initialize(1);
        }
        cluster_barrier();
    }

    // The buffer that the next exchange fills, and the one that the last has filled.
    __device__ __forceinline__ unsigned next_buffer() const { return next % 2; }
    __device__ __forceinline__ unsigned last_buffer() const { return 1 - next_buffer(); }

    // By one thread: of the next exchange so many bytes arrive here.
    __device__ __forceinline__ void expect(unsigned bytes) { arrived[next_buffer()].expect(bytes); }

    // A value of the next exchange, and its place in this block's buffer, to the block of this rank.
    template <typename T> __device__ __forceinline__ void send(const T &value, T *place, unsigned block) {
        ::send(value, place, arrived[next_buffer()], block);
    }

    // Until the next exchange has been.
    __device__ __forceinline__ void wait() {
        Spin spin;
        while (!arrived[next_buffer()].has_ended(next / 2 % 2)) spin.again();
        next++;
    }
};
