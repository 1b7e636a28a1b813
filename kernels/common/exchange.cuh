// Each block of a grid hands values to all other blocks, again and again, with no fence and no barrier over the grid.
//
// A packet validates itself: its 16 bytes are written and read in one access, and 4 of them are its epoch, the number
// of its exchange. A reader that finds the epoch it waits for has also read the values of that exchange.
//
// Exchange e goes through buffer e % 2. Two buffers are enough if each block publishes its packets of exchange e + 1
// after all of its threads have collected all packets of exchange e, with a barrier of the block between. The writer of
// a packet of e + 1 has then seen every block's packets of e, and each block wrote those after collecting exchange e -
// 1, which the same buffer held before. So no reader still waits for an overwritten packet. And a reader that waits for
// e finds it, because nobody writes e + 2 before that reader's own packets of e + 1.
#pragma once

#include "common/device.cuh"

template <typename Value> struct alignas(16) Packet {
    static constexpr int values = 12 / sizeof(Value);
    Value value[values];
    unsigned epoch;
};

// The memory that the blocks of an exchange share: this header, then two buffers of packets. All zero at first.
struct alignas(128) Exchange {
    // The epoch of the last exchange of all launches so far. It lives in device memory, so that a launch which a CUDA
    // graph repeats goes on where the last one ended. Nobody waits for epoch 0 until the epochs have wrapped around.
    unsigned epoch;

    template <typename Value>
    __device__ __forceinline__ Packet<Value> *buffer(unsigned epoch, int packets) {
        return reinterpret_cast<Packet<Value> *>(this + 1) + (epoch % 2 ? packets : 0);
    }
};

// A block's exchanges one after the other, each of `Packets` packets. Each group of blocks exchanges among itself; the
// groups' memory lies one after the other, `bytes` each.
template <typename Value, int Packets> class Exchanges {
    Exchange &exchange;

  public:
    static constexpr int bytes = sizeof(Exchange) + (2 * Packets * sizeof(Packet<Value>) + 127) / 128 * 128;

    unsigned epoch; // of the last exchange

    __device__ __forceinline__ Exchanges(void *memory, int group)
        : exchange(*reinterpret_cast<Exchange *>(static_cast<char *>(memory) + (size_t)group * bytes)),
          epoch(exchange.epoch) {}

    // Begins the next exchange, and returns its packets.
    __device__ __forceinline__ Packet<Value> *next() {
        epoch++;
        return exchange.buffer<Value>(epoch, Packets);
    }

    // Stores the epoch for the next launch. One thread of the group calls this after an exchange in which all of the
    // group's blocks have published, which shows that they have read the epoch.
    __device__ __forceinline__ void keep_epoch() { exchange.epoch = epoch; }
};

// A packet as read, kept in whole words: taking it apart early would make the thread wait for the read.
template <typename Value> union PacketBits {
    Packet<Value> packet;
    unsigned long long half[2];
    __device__ __forceinline__ PacketBits() : half{0, 0} {}

    __device__ __forceinline__ unsigned epoch() const { return half[1] >> 32; }
    __device__ __forceinline__ void set_epoch(unsigned epoch) { half[1] = (unsigned long long)epoch << 32; }
};

template <typename Value> __device__ __forceinline__ void publish(Packet<Value> *place, const Packet<Value> &packet) {
#ifdef EMULATED
    *place = packet;
#else
    PacketBits<Value> bits;
    bits.packet = packet;
    asm volatile("{ .reg .b128 packet; mov.b128 packet, {%1, %2}; st.relaxed.gpu.global.b128 [%0], packet; }" ::"l"(
                     __cvta_generic_to_global(place)),
                 "l"(bits.half[0]), "l"(bits.half[1])
                 : "memory");
#endif
}

// The packet there now, of any exchange.
template <typename Value> __device__ __forceinline__ PacketBits<Value> peek(const Packet<Value> *place) {
    PacketBits<Value> bits;
#ifdef EMULATED
    bits.packet = *place;
#else
    asm volatile("{ .reg .b128 packet; ld.relaxed.gpu.global.b128 packet, [%2]; mov.b128 {%0, %1}, packet; }"
                 : "=l"(bits.half[0]), "=l"(bits.half[1])
                 : "l"(__cvta_generic_to_global(place))
                 : "memory");
#endif
    return bits;
}

// Issues reads of packets[i] at places[first + i * stride], for all places below `end`, and waits for none.
template <int Count, typename Value>
__device__ __forceinline__ void ask_for(PacketBits<Value> (&packets)[Count], const Packet<Value> *places, int first,
                                        int stride, int end, unsigned epoch) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
        packets[i].set_epoch(epoch);
        if (first + i * stride < end) packets[i] = peek(&places[first + i * stride]);
    }
}

// Waits until the packets of ask_for() have arrived.
template <int Count, typename Value>
__device__ __forceinline__ void collect(PacketBits<Value> (&packets)[Count], const Packet<Value> *places, int first,
                                        int stride, unsigned epoch) {
    Spin spin;
    while (true) {
        bool arrived = true;
#pragma unroll
        for (int i = 0; i < Count; i++) arrived &= packets[i].epoch() == epoch;
        if (arrived) return;
        spin.again();
#pragma unroll
        for (int i = 0; i < Count; i++)
            if (packets[i].epoch() != epoch) packets[i] = peek(&places[first + i * stride]);
    }
}
