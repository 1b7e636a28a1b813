// How the blocks of a tile hand each other what is one number a unit and row of the batch, such as h: all of it to all of
// them at once.
#pragma once

#include "rnn/handed.cuh"

constexpr int GROUP_BYTES = sizeof(Exchange) + divided_up(2 * PACKETS * sizeof(UnitPacket), 128) * 128;

// The most packets that a thread asks for at once.
constexpr int AT_ONCE = divided_up(PACKETS, THREADS) < 4 ? divided_up(PACKETS, THREADS) : 4;

// The block's part of one exchange after the other.
class HandOver {
    Exchange &exchange;
    Element *const own; // [PACKETS_A_BLOCK][values of a packet], the block's own numbers
    unsigned epoch;

  public:
    __device__ __forceinline__ HandOver(void *memory, Element *own)
        : exchange(*reinterpret_cast<Exchange *>(static_cast<char *>(memory) + (size_t)blockIdx.y * GROUP_BYTES)),
          own(own), epoch(exchange.epoch) {
#pragma unroll 1
        for (int i = threadIdx.x; i < OWN_BYTES / int(sizeof(Element)); i += THREADS) own[i] = to_element(0);
    }

    // A number of the block's own, for the next exchange.
    __device__ __forceinline__ void set(int unit, int row, float value) { own[row * UNITS + unit] = to_element(value); }

    // Sends all own numbers, and reads those of all units into `all`, [BATCH_TILE][PADDED_HIDDEN]. What a thread has to do
    // that waits for nothing it does between.
    template <typename Meanwhile> __device__ __forceinline__ void swap(Factor *all, Meanwhile meanwhile) {
        epoch++;
        UnitPacket *const buffer = exchange.buffer<Element>(epoch, PACKETS);
        barrier(); // all own numbers are there, and what `all` held before is not read any more
#pragma unroll 1
        for (int i = threadIdx.x; i < PACKETS_A_BLOCK; i += THREADS)
            publish(&buffer[blockIdx.x * PACKETS_A_BLOCK + i], packed(own, i, epoch));
        meanwhile();
        collect_all(buffer, all);
        barrier(); // all numbers are there, and own packets are sent
    }

    // All blocks of the group have read the epoch, since all have published: without an exchange it does not change.
    __device__ __forceinline__ void keep_epoch() {
        if (blockIdx.x == 0 && threadIdx.x == 0) exchange.epoch = epoch;
    }

  private:
    __device__ __forceinline__ void collect_all(const UnitPacket *buffer, Factor *all) const {
#pragma unroll 1
        for (int first = threadIdx.x; first < PACKETS; first += AT_ONCE * THREADS) {
            UnitPacket packets[AT_ONCE];
            collect(packets, buffer, first, THREADS, PACKETS, epoch);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int at = first + i * THREADS;
                if (at >= PACKETS) break;
                unpack(packets[i], at / PACKETS_A_BLOCK, at % PACKETS_A_BLOCK, all);
            }
        }
    }
};
