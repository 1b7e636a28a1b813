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
    // that waits for nothing it does between: before it first looks for the others', and while what it looks for comes.
    template <typename First, typename Then>
    __device__ __forceinline__ void swap(Factor *all, First first, Then then) {
        UnitPacket *const buffer = exchanges.next();
        barrier(); // all own numbers are there, and what `all` held before is not read any more
#pragma unroll 1
        for (int i = thread; i < PACKETS_A_BLOCK; i += THREADS)
            publish(&buffer[blockIdx.x * PACKETS_A_BLOCK + i], own.packed(i, exchanges.epoch));
        const Moment sent;
        first();
        Turn turn(thread);
        sent.wait(FIRST_LOOK);
        turn.ask_for(buffer, exchanges.epoch);
        in_this_order();
        then();
        turn.collect(buffer, exchanges.epoch, all);
        if constexpr (PACKETS > AT_ONCE * THREADS) {
#pragma unroll 1
            for (int next = thread + AT_ONCE * THREADS; next < PACKETS; next += AT_ONCE * THREADS) {
                Turn turn(next);
                turn.ask_for(buffer, exchanges.epoch);
                turn.collect(buffer, exchanges.epoch, all);
            }
        }
        barrier(); // all numbers are there, and own packets are sent
    }

    // Without an exchange it does not change.
    __device__ __forceinline__ void keep_epoch() {
        if (blockIdx.x == 0 && threadIdx.x == 0) exchanges.keep_epoch();
    }

  private:
    // Packets that a thread asks for at once: that at `first`, and each that is THREADS further.
    class Turn {
        const int first;
        Places places[AT_ONCE];
        PacketBits<Element> packets[AT_ONCE];

      public:
        __device__ __forceinline__ explicit Turn(int first) : first(first) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                const int at = first + i * THREADS;
                places[i] = places_of(at / PACKETS_A_BLOCK, at % PACKETS_A_BLOCK);
            }
        }

        __device__ __forceinline__ void ask_for(const UnitPacket *buffer, unsigned epoch) {
            ::ask_for(packets, buffer, first, THREADS, PACKETS, epoch);
        }

        __device__ __forceinline__ void collect(const UnitPacket *buffer, unsigned epoch, Factor *all) {
            ::collect(packets, buffer, first, THREADS, epoch);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) unpack(packets[i].packet, places[i], all);
        }
    };
};
