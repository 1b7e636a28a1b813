// Values handed from each block of a grid to all others, again and again, with no fence and no barrier over the grid.
//
// A packet validates itself: it is 16 bytes that are written and read in one access, and 4 of them are the number of the
// exchange that it belongs to, its epoch. Whoever reads the epoch that it waits for has read the values with it.
//
// Exchange e goes through buffer e % 2. Why two buffers are enough: let each block publish its packets of exchange e + 1
// after all of its threads have collected all packets of exchange e, with a barrier of the block between. When a packet
// of e + 1 is written, its writer has seen the packets of e of every block; each of those blocks wrote them after it had
// collected exchange e - 1, which is what the same buffer held before. So nobody waits for what is overwritten. And a
// reader that waits for e finds e there in the end, since nobody writes e + 2 before that reader's own packets of e + 1.
#pragma once

#include "device.cuh"

template <typename Value> struct alignas(16) Packet {
    static constexpr int values = 12 / sizeof(Value);
    Value value[values];
    unsigned epoch;
};

// The memory that the blocks of one exchange share: this, and behind it two buffers of packets. All zero at first.
struct alignas(128) Exchange {
    // That of the last exchange there was, in any launch. It lives in device memory, so that a launch which a CUDA graph
    // repeats goes on where the last one ended. 0 is never waited for until the epochs have gone round all numbers.
    unsigned epoch;

    template <typename Value>
    __device__ __forceinline__ Packet<Value> *buffer(unsigned epoch, int packets) {
        return reinterpret_cast<Packet<Value> *>(this + 1) + (epoch % 2 ? packets : 0);
    }
};

// A block's way through one exchange after the other, each of so many packets. The groups of blocks that exchange among
// themselves have their memory one after the other, `bytes` each.
template <typename Value, int Packets> class Exchanges {
    Exchange &exchange;

  public:
    static constexpr int bytes = sizeof(Exchange) + (2 * Packets * sizeof(Packet<Value>) + 127) / 128 * 128;

    unsigned epoch; // of the last exchange there was

    __device__ __forceinline__ Exchanges(void *memory, int group)
        : exchange(*reinterpret_cast<Exchange *>(static_cast<char *>(memory) + (size_t)group * bytes)),
          epoch(exchange.epoch) {}

    // The packets of the next one, whose epoch it is from here on.
    __device__ __forceinline__ Packet<Value> *next() {
        epoch++;
        return exchange.buffer<Value>(epoch, Packets);
    }

    // For the next launch, by one thread of the group; after an exchange in which all of its blocks have published: they
    // have read the epoch.
    __device__ __forceinline__ void keep_epoch() { exchange.epoch = epoch; }
};

// A packet as it is read: in whole words, so that nobody waits for it to take it apart before it is needed.
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

// What is there now, of whichever exchange.
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

// Asks for packets[i], at places[first + i * stride], as far as that is below `end`: all at once, and waits for none.
template <int Count, typename Value>
__device__ __forceinline__ void ask_for(PacketBits<Value> (&packets)[Count], const Packet<Value> *places, int first,
                                        int stride, int end, unsigned epoch) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
        packets[i].set_epoch(epoch);
        if (first + i * stride < end) packets[i] = peek(&places[first + i * stride]);
    }
}

// Waits for what was asked for so.
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
