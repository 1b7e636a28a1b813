// Each block of a grid hands values to all other blocks, again and again, with no fence and no barrier over the grid.
//
// A packet validates itself: it is written and read in one access, and shows its epoch, the number of its exchange. A
// reader that finds the epoch it waits for has also read the values of that exchange. A Packet has 16 bytes, and 4 of them
// are the epoch. A PhasedPacket (phased.cuh) has one bit that tells it from the packet before it.
//
// Exchange e goes through buffer e % 2. Two buffers are enough if each block publishes its packets of exchange e + 1
// after all of its threads have collected all packets of exchange e, with a barrier of the block between. The writer of
// a packet of e + 1 has then seen every block's packets of e, and each block wrote those after collecting exchange e -
// 1, which the same buffer held before. So no reader still waits for an overwritten packet. And a reader that waits for
// e finds it, because nobody writes e + 2 before that reader's own packets of e + 1.
#pragma once

#include "common/device.cuh"

template <typename T> struct alignas(16) Packet {
    typedef T Value;
    static constexpr int values = 12 / sizeof(Value);
    Value value[values];
    unsigned epoch;

    __device__ __forceinline__ void set_epoch(unsigned of) { epoch = of; }

    // Of a packet in two parts: whether it has this epoch; one that has it; and 4 of its bytes of values.
    __device__ static __forceinline__ bool has_epoch(const unsigned long long (&half)[2], unsigned epoch) {
        return half[1] >> 32 == epoch;
    }
    __device__ static __forceinline__ void set_epoch(unsigned long long (&half)[2], unsigned epoch) {
        half[1] = (unsigned long long)epoch << 32;
    }
    __device__ static __forceinline__ unsigned word(const unsigned long long (&half)[2], int i) {
        return half[i / 2] >> i % 2 * 32;
    }
};

// The memory that the blocks of an exchange share: this header, then two buffers. All zero at first.
struct alignas(128) Exchange {
    // The epoch of the last exchange of all launches so far. It lives in device memory, so that a launch which a CUDA
    // graph repeats goes on where the last one ended. Nobody waits for epoch 0 until the epochs have wrapped around.
    unsigned epoch;
};

// A block's exchanges one after the other, each of `Count` packets. Each group of blocks exchanges among itself; the
// groups' memory lies one after the other, `bytes` each.
template <typename AnyPacket, long long Count> class Exchanges {
    Exchange &exchange;

  public:
    static constexpr long long bytes = sizeof(Exchange) + (2 * Count * sizeof(AnyPacket) + 127) / 128 * 128;

    unsigned epoch; // of the last exchange

    __device__ __forceinline__ Exchanges(void *memory, int group)
        : exchange(*reinterpret_cast<Exchange *>(static_cast<char *>(memory) + group * bytes)), epoch(exchange.epoch) {}

    // Begins the next exchange, and returns its buffer.
    __device__ __forceinline__ AnyPacket *next() {
        epoch++;
        return reinterpret_cast<AnyPacket *>(&exchange + 1) + (epoch % 2 ? Count : 0);
    }

    // Stores the epoch for the next launch. One thread of the group calls this after an exchange in which all of the
    // group's blocks have published, which shows that they have read the epoch.
    __device__ __forceinline__ void keep_epoch() { exchange.epoch = epoch; }
};

// A packet as read, kept in whole words: taking it apart early would make the thread wait for the read. Values come from
// the words alone. Through a struct in their place NVRTC may read a value before the words were read from memory for the
// last time, since the types differ: a packet that was waited for would keep the values of the exchange before it.
template <typename AnyPacket> struct PacketBits {
    unsigned long long half[2];
    __device__ __forceinline__ PacketBits() : half{0, 0} {}

    __device__ __forceinline__ bool has_epoch(unsigned epoch) const { return AnyPacket::has_epoch(half, epoch); }
    __device__ __forceinline__ void set_epoch(unsigned epoch) { AnyPacket::set_epoch(half, epoch); }
    // Four bytes of its values.
    __device__ __forceinline__ unsigned word(int i) const { return AnyPacket::word(half, i); }
};

// A packet to be written, and its words.
template <typename AnyPacket> union PacketWords {
    unsigned long long half[2];
    AnyPacket packet;
    __device__ __forceinline__ PacketWords(const AnyPacket &packet) : half{0, 0} { this->packet = packet; }
};

template <typename AnyPacket> __device__ __forceinline__ void publish(AnyPacket *place, const AnyPacket &packet) {
#ifdef EMULATED
    *place = packet;
#else
    constexpr int bytes = sizeof(AnyPacket);
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "one access");
    const PacketWords<AnyPacket> bits(packet);
    const unsigned long long to = __cvta_generic_to_global(place);
    if constexpr (bytes == 16)
        asm volatile("{ .reg .b128 packet; mov.b128 packet, {%1, %2}; st.relaxed.gpu.global.b128 [%0], packet; }" ::"l"(to),
                     "l"(bits.half[0]), "l"(bits.half[1])
                     : "memory");
    else if constexpr (bytes == 8)
        asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(bits.half[0]) : "memory");
    else
        asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to), "r"(unsigned(bits.half[0])) : "memory");
#endif
}

// The packet there now, of any exchange.
template <typename AnyPacket> __device__ __forceinline__ PacketBits<AnyPacket> peek(const AnyPacket *place) {
    PacketBits<AnyPacket> bits;
#ifdef EMULATED
    const PacketWords<AnyPacket> words(*place);
    for (int i = 0; i < 2; i++) bits.half[i] = words.half[i];
#else
    constexpr int bytes = sizeof(AnyPacket);
    const unsigned long long from = __cvta_generic_to_global(place);
    if constexpr (bytes == 16) {
        asm volatile("{ .reg .b128 packet; ld.relaxed.gpu.global.b128 packet, [%2]; mov.b128 {%0, %1}, packet; }"
                     : "=l"(bits.half[0]), "=l"(bits.half[1])
                     : "l"(from)
                     : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(bits.half[0]) : "l"(from) : "memory");
    } else {
        unsigned word;
        asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
        bits.half[0] = word;
    }
#endif
    return bits;
}

// Issues reads of packets[i] at places[first + i * stride], for all places below `end`, and waits for none.
template <int Count, typename AnyPacket>
__device__ __forceinline__ void ask_for(PacketBits<AnyPacket> (&packets)[Count], const AnyPacket *places, int first,
                                        int stride, int end, unsigned epoch) {
#pragma unroll
    for (int i = 0; i < Count; i++) {
        packets[i].set_epoch(epoch);
        if (first + i * stride < end) packets[i] = peek(&places[first + i * stride]);
    }
}

// Waits until the packets of ask_for() have arrived.
template <int Count, typename AnyPacket>
__device__ __forceinline__ void collect(PacketBits<AnyPacket> (&packets)[Count], const AnyPacket *places, int first,
                                        int stride, unsigned epoch) {
    Spin spin;
    while (true) {
        bool arrived = true;
#pragma unroll
        for (int i = 0; i < Count; i++) arrived &= packets[i].has_epoch(epoch);
        if (arrived) return;
        spin.again();
#pragma unroll
        for (int i = 0; i < Count; i++)
            if (!packets[i].has_epoch(epoch)) packets[i] = peek(&places[first + i * stride]);
    }
}
