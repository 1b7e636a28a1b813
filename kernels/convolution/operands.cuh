// Operands of warp_mma() from shared memory, for the whole warp: their rows there are 16 numbers of the depth; or their
// depth runs down 16 rows. Lines begin at multiples of 16 bytes.
#pragma once

#include "common/ops.cuh"

#ifndef EMULATED
__device__ __forceinline__ unsigned address_of(const Element *place) { return __cvta_generic_to_shared(place); }
#endif

// 16 rows of 8 neighbouring columns, half of a depth.
__device__ __forceinline__ void read_half(const Element *from, int pitch, unsigned (&words)[2]) {
#ifndef EMULATED
    const unsigned place = address_of(from + LANE % 16 * pitch);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(place)
                 : "memory");
#else
    for (int i = 0; i < 2; i++) {
        const Element *const place = from + (LANE / 4 + i * 8) * pitch + LANE % 4 * 2;
        words[i] = bits_of(place[0]) | bits_of(place[1]) << 16;
    }
#endif
}

// Likewise, two halves.
__device__ __forceinline__ void read_halves(const Element *from, int pitch, unsigned (&first)[2],
                                            unsigned (&second)[2]) {
#ifndef EMULATED
    const unsigned place = address_of(from + LANE % 16 * pitch + LANE / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
                 : "r"(place)
                 : "memory");
#else
    read_half(from, pitch, first);
    read_half(from + 8, pitch, second);
#endif
}

// 16 columns whose depth runs down 16 rows, as warp_mma() takes them for rows.
__device__ __forceinline__ void read_columns(const Element *from, int pitch, unsigned (&words)[4]) {
#ifndef EMULATED
    const unsigned place = address_of(from + (LANE % 8 + LANE / 16 * 8) * pitch + LANE / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place)
                 : "memory");
#else
    for (int i = 0; i < 4; i++) {
        const Element *const place = from + (LANE % 4 * 2 + i / 2 * 8) * pitch + i % 2 * 8 + LANE / 4;
        words[i] = bits_of(place[0]) | bits_of(place[pitch]) << 16;
    }
#endif
}

// Where matrices of 8 columns begin whose depth runs down 16 rows.
struct Transposed {
#ifndef EMULATED
    // Where the lane's row of the first matrix, or of the second, begins. It takes half of a pointer's registers.
    unsigned place;

    Transposed() = default;
    __device__ __forceinline__ Transposed(const Element *from, int pitch)
        : place(address_of(from + LANE % 16 * pitch + LANE / 16 * 8)) {}
    __device__ __forceinline__ void advance(int elements) { place += elements * int(sizeof(Element)); }
#else
    const Element *from;
    int pitch;

    Transposed() = default;
    Transposed(const Element *from, int pitch) : from(from), pitch(pitch) {}
    void advance(int elements) { from += elements; }
#endif

    // Two neighbouring matrices, from column `column` on.
    __device__ __forceinline__ void read(int column, unsigned (&first)[2], unsigned (&second)[2]) const {
#ifndef EMULATED
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(first[0]), "=r"(first[1]), "=r"(second[0]), "=r"(second[1])
                     : "r"(place + column * int(sizeof(Element)))
                     : "memory");
#else
        read(column, first);
        read(column + 8, second);
#endif
    }

    // One matrix.
    __device__ __forceinline__ void read(int column, unsigned (&words)[2]) const {
#ifndef EMULATED
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(words[0]), "=r"(words[1])
                     : "r"(place + column * int(sizeof(Element)))
                     : "memory");
#else
        for (int i = 0; i < 2; i++) {
            const Element *const place = from + (LANE % 4 * 2 + i * 8) * pitch + column + LANE / 4;
            words[i] = bits_of(place[0]) | bits_of(place[pitch]) << 16;
        }
#endif
    }
};
