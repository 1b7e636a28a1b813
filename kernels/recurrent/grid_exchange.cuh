// The exchange of one number for each unit and batch row, such as h, among all blocks of a tile.
#pragma once

#include "recurrent/unit_packets.cuh"

// The most packets that a thread asks for at once: it has registers for them, and for the places of their runs, while it
// multiplies nothing. With H = 1,024 and 16 rows in bfloat16, a step of LSTM took 5.1 µs with 4 and 4.8 µs with 6; with 4
// rows in float, 3.9 µs with 4 and 3.3 µs with 8.
constexpr int MOST_AT_ONCE = RUN == 4 ? 8 : RUN == 2 ? 6 : 4;
constexpr int AT_ONCE = divided_up(PACKETS, THREADS) < MOST_AT_ONCE ? divided_up(PACKETS, THREADS) : MOST_AT_ONCE;

// A block's part of these exchanges, one after the other.
class GridExchange {
    Exchanges<UnitPacket, PACKETS> exchanges;
    OwnNumbers own;
    const int thread = in_register(int(threadIdx.x));

  public:
    __device__ __forceinline__ GridExchange(void *memory, void *own) : exchanges(memory, blockIdx.y), own(own) {}

    // Sets one of the block's own numbers for the next exchange.
    __device__ __forceinline__ void set(int unit, int row, float value) { own.set(unit, row, value); }

    // Sends all own numbers, and reads all units' numbers into `all`, [BATCH_TILE][PADDED_HIDDEN]. Meanwhile the thread
    // does work that waits for nothing: `first` before it looks for packets, `then` while its first ones arrive.
    template <typename First, typename Then>
    __device__ __forceinline__ void swap(Factor *all, First first, Then then) {
        UnitPacket *const buffer = exchanges.next();
        barrier(); // all own numbers are set, and nobody reads the old contents of `all` any more
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

    // Stores the epoch for the next launch. Without an exchange the epoch has not changed.
    __device__ __forceinline__ void keep_epoch() {
        if (blockIdx.x == 0 && threadIdx.x == 0) exchanges.keep_epoch();
    }

  private:
    // Packets that a thread asks for at once: packet `first`, and every THREADS-th behind it.
    class Turn {
        const int first;
        Places places[AT_ONCE];
        PacketBits<UnitPacket> packets[AT_ONCE];

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
            for (int i = 0; i < AT_ONCE; i++) unpack(packets[i], places[i], all);
        }
    };
};
