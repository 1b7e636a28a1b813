// How the blocks of a tile hand each other what is one number a unit and row of the batch, such as h: all of it to all of
// them at once.
#pragma once

#include "rnn/handed.cuh"

// The most packets that a thread asks for at once.
constexpr int AT_ONCE = divided_up(PACKETS, THREADS) < 4 ? divided_up(PACKETS, THREADS) : 4;

// The block's part of one exchange after the other.
class HandOver {
    Exchanges<Element, PACKETS> exchanges;
    OwnNumbers own;
    const int thread = in_register(int(threadIdx.x));

  public:
    __device__ __forceinline__ HandOver(void *memory, void *own) : exchanges(memory, blockIdx.y), own(own) {}

    // A number of the block's own, for the next exchange.
    __device__ __forceinline__ void set(int unit, int row, float value) { own.set(unit, row, value); }

    // Sends all own numbers, and reads those of all units into `all`, [BATCH_TILE][PADDED_HIDDEN]. What a thread has to do
    // that waits for nothing it does between.
    template <typename Meanwhile> __device__ __forceinline__ void swap(Factor *all, Meanwhile meanwhile) {
        UnitPacket *const buffer = exchanges.next();
        barrier(); // all own numbers are there, and what `all` held before is not read any more
#pragma unroll 1
        for (int i = thread; i < PACKETS_A_BLOCK; i += THREADS)
            publish(&buffer[blockIdx.x * PACKETS_A_BLOCK + i], own.packed(i, exchanges.epoch));
        const Moment sent;
        meanwhile();
        collect_all(buffer, sent, all);
        barrier(); // all numbers are there, and own packets are sent
    }

    // Without an exchange it does not change.
    __device__ __forceinline__ void keep_epoch() {
        if (blockIdx.x == 0 && threadIdx.x == 0) exchanges.keep_epoch();
    }

  private:
    __device__ __forceinline__ void collect_all(const UnitPacket *buffer, const Moment &sent, Factor *all) const {
#pragma unroll 1
        for (int first = thread; first < PACKETS; first += AT_ONCE * THREADS) {
            Places places[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int at = first + i * THREADS;
                places[i] = places_of(at / PACKETS_A_BLOCK, at % PACKETS_A_BLOCK);
            }
            if (first == thread) sent.wait(FIRST_LOOK);
            UnitPacket packets[AT_ONCE];
            collect(packets, buffer, first, THREADS, PACKETS, exchanges.epoch);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) unpack(packets[i], places[i], all);
        }
    }
};
