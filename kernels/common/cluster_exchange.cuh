// Each block of a cluster hands values to all of its blocks, itself included, again and again, with no barrier over the
// cluster: each value is stored straight to the place where it is read.
//
// Each block has two buffers, at the same places in all blocks. Exchange e goes into buffer e % 2; the data from which
// the first exchange is computed are in buffer 1. In each block one thread expects an exchange's bytes.
//
// A thread that reads an exchange waits for it, and later for the next one. In between, after its reads, its warp sends
// a value in the next exchange, behind a warp_barrier(), or its block does, behind a barrier().
//
// Two buffers are enough. A sender in exchange e + 1 has waited for all of exchange e, and so for a value that was sent
// after each thread's reads of exchange e - 1, which the same buffer held before. Nor does any thread still wait for
// exchange e - 1, so has_ended() is asked of the last two phases only.
//
// A block may expect an exchange's bytes after some have arrived. Early bytes count below zero, and the phase does not
// end before the expecting thread has come. That thread comes in the right phase, since it has waited for the exchange
// before the last, which used the same Mbarrier in the phase before.
//
// A block waits for all exchanges before it ends, so nobody sends to a block that has ended.
#pragma once

#include "common/cluster.cuh"

constexpr int LINE = 128; // bytes of shared memory: Mbarriers have one of their own

class ClusterExchange {
    Mbarrier *const arrived; // [2]
    unsigned next = 0;       // number of the next exchange

  public:
    // Called by all threads of the cluster. The two Mbarriers are at the same place in each block.
    __device__ __forceinline__ explicit ClusterExchange(Mbarrier *mbarriers) : arrived(mbarriers) {
        if (threadIdx.x == 0) {
            arrived[0].initialize(1);
            arrived[1].initialize(1);
        }
        cluster_barrier();
    }

    // The buffer that the next exchange fills, and the buffer that the last exchange filled.
    __device__ __forceinline__ unsigned next_buffer() const { return next % 2; }
    __device__ __forceinline__ unsigned last_buffer() const { return 1 - next_buffer(); }

    // One thread calls this: the next exchange brings this many bytes to this block.
    __device__ __forceinline__ void expect(unsigned bytes) { arrived[next_buffer()].expect(bytes); }

    // Sends a value of the next exchange to the block of this rank; `place` is in this block's buffer.
    template <typename T> __device__ __forceinline__ void send(const T &value, T *place, unsigned block) {
        ::send(value, place, arrived[next_buffer()], block);
    }

    // Waits until the next exchange has arrived.
    __device__ __forceinline__ void wait() {
        Spin spin;
        while (!arrived[next_buffer()].has_ended(next / 2 % 2)) spin.again();
        next++;
    }
};
