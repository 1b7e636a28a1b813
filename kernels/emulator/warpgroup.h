// The emulator's `warpgroup.cuh`. Products are computed when they are waited for: if shared memory was changed before,
// they are wrong.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct Factor {
    const unsigned char *place;
    int apart;

    // The numbers of a row or column at the depths of a product.
    template <Way WAY> void numbers(int row, float (&to)[DEPTH_OF_PRODUCT]) const {
        // Neighbours along a line stay together in their piece.
        constexpr int TOGETHER = WAY == ALONG ? PIECE_BYTES / 2 : 1, APART = WAY == ALONG ? PIECE_BYTES : LINE_BYTES;
        const intptr_t first = reinterpret_cast<intptr_t>(place) +
                               (WAY == ALONG ? row * LINE_BYTES : row / LINE * apart + row % LINE * 2);
        for (int d = 0; d < DEPTH_OF_PRODUCT; d += TOGETHER) {
            const intptr_t straight = first + d / TOGETHER * APART;
            const intptr_t mixed = straight ^ (straight / ORDER_BYTES % (LINE_BYTES / PIECE_BYTES) * PIECE_BYTES);
            for (int i = 0; i < TOGETHER; i++) to[d + i] = to_float(reinterpret_cast<const Element *>(mixed)[i]);
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

    template <Way A, Way B> static void multiply(float (&of)[COLUMNS / 2], const Factor &a, const Factor &b) {
        float rows[2][DEPTH_OF_PRODUCT], numbers[DEPTH_OF_PRODUCT];
        const int row = threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
        for (int i = 0; i < 2; i++) a.numbers<A>(row + 8 * i, rows[i]);
        for (int j = 0; j < COLUMNS / 8; j++)
            for (int k = 0; k < 2; k++) {
                b.numbers<B>(8 * j + column + k, numbers);
                float sums[2] = {of[4 * j + k], of[4 * j + 2 + k]};
                for (int d = 0; d < DEPTH_OF_PRODUCT; d++)
                    for (int i = 0; i < 2; i++) sums[i] += rows[i][d] * numbers[d];
                for (int i = 0; i < 2; i++) of[4 * j + 2 * i + k] = sums[i];
            }
    }
};
