// The emulator's `warpgroup.cuh`. Products are computed when they are waited for: if shared memory was changed before,
// they are wrong.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The numbers of factors: elements of 2 bytes, or parts of floats, by their bits.
#ifdef ELEMENT_FLOAT
typedef unsigned short FactorNumber;
inline float number_to_float(FactorNumber bits) { return bfloat16_to_float(bits); }
#else
typedef Element FactorNumber;
inline float number_to_float(FactorNumber number) { return to_float(number); }
#endif

// Eight numbers that follow each other, as `number_to_float` has them.
inline void eight_floats(const FactorNumber *elements, emulator::Floats &to) {
    emulator::Halves bits;
    memcpy(&bits, elements, sizeof bits);
#ifdef ELEMENT_HALF
    emulator::halves_to_floats(bits, to);
#else
    emulator::bfloat16s_to_floats(bits, to);
#endif
}

struct Factor {
    const unsigned char *place;
    int apart;

    // The numbers of a row or column at the depths of a product, which go to places NEXT apart.
    template <Way WAY, int NEXT> void read(unsigned row, FactorNumber *to) const {
        // Neighbours along a line stay together in their piece.
        constexpr int TOGETHER = WAY == ALONG ? PIECE_BYTES / 2 : 1, APART = WAY == ALONG ? PIECE_BYTES : LINE_BYTES;
        const uintptr_t first = reinterpret_cast<uintptr_t>(place) +
                                (WAY == ALONG ? row * LINE_BYTES : row / LINE * apart + row % LINE * 2);
        for (int d = 0; d < DEPTH_OF_PRODUCT; d += TOGETHER) {
            const uintptr_t straight = first + d / TOGETHER * APART;
            const uintptr_t mixed = straight ^ (straight / ORDER_BYTES % (LINE_BYTES / PIECE_BYTES) * PIECE_BYTES);
#pragma GCC unroll 8
            for (int i = 0; i < TOGETHER; i++) to[(d + i) * NEXT] = reinterpret_cast<const FactorNumber *>(mixed)[i];
        }
    }
};

template <Way WAY> inline Factor factor_at(const void *place, int apart) {
    if (reinterpret_cast<uintptr_t>(place) % (WAY == ALONG ? 2 * PIECE_BYTES : LINE_BYTES) != 0)
        emulator::stop("a factor does not begin where one may");
    return {static_cast<const unsigned char *>(place), apart};
}

inline Factor later(const Factor &factor, int bytes) { return {factor.place + bytes, factor.apart}; }

inline void show_copies() {}
template <int> inline void more_registers() {}
template <int> inline void fewer_registers() {}

template <int COLUMNS> struct SumsOf {
    float of[COLUMNS / 2] = {};

    void begin() {}

    template <Way A, Way B> void add(Factor a, Factor b) {
        if (count == MOST) emulator::stop("more products were begun and not waited for than the emulator keeps");
        begun[count++] = {a, b, multiply<A, B>, groups};
    }

    void end_group() { groups++; }

    template <int BUT> void wait_for_groups() {
        size_t done = 0;
        while (done < count && begun[done].group + BUT < groups) {
            begun[done].multiply(of, begun[done].a, begun[done].b);
            done++;
        }
        for (size_t i = done; i < count; i++) begun[i - done] = begun[i];
        count -= done;
    }

  private:
    struct Product {
        Factor a, b;
        void (*multiply)(float (&of)[COLUMNS / 2], const Factor &a, const Factor &b);
        unsigned group;
    };
    static constexpr size_t MOST = 32;
    Product begun[MOST];
    size_t count = 0;
    unsigned groups = 0;

    // Each sum adds its products in the order of their depths; eight sums are computed together.
    template <Way A, Way B> static void multiply(float (&of)[COLUMNS / 2], const Factor &a, const Factor &b) {
        constexpr int COUNT = COLUMNS / 4;
        FactorNumber rows[2][DEPTH_OF_PRODUCT];
        alignas(16) FactorNumber numbers[DEPTH_OF_PRODUCT][COUNT];
        const unsigned row = threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
        for (int i = 0; i < 2; i++) a.read<A, 1>(row + 8 * i, rows[i]);
        for (unsigned c = 0; c < COUNT; c++) b.read<B, COUNT>(c / 2 * 8 + column + c % 2, &numbers[0][c]);
        for (int c = 0; c < COUNT; c += 8) {
            emulator::Floats sums[2];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) sums[i / 2 % 2][i / 4 * 2 + i % 2] = of[2 * c + i];
            for (int d = 0; d < DEPTH_OF_PRODUCT; d++) {
                emulator::Floats eight;
                eight_floats(&numbers[d][c], eight);
                for (int i = 0; i < 2; i++) sums[i] += number_to_float(rows[i][d]) * eight;
            }
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) of[2 * c + i] = sums[i / 2 % 2][i / 4 * 2 + i % 2];
        }
    }
};
