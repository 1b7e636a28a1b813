#include "products.h"

#include "intrinsics.h"
#include "half.h"

namespace emulator {

namespace {

// The numbers in a word of 4 bytes.
struct OfHalves {
    static constexpr int count = 2;
    static float get(unsigned word, int i) { return half_to_float(word >> 16 * i); }
};
struct OfBfloat16s {
    static constexpr int count = 2;
    static float get(unsigned word, int i) { return bfloat16_to_float(word >> 16 * i); }
};
struct OfTf32 {
    static constexpr int count = 1;
    static float get(unsigned word, int) { return __uint_as_float(word & ~0x1fffu); }
};

// A row of eight sums, or of a matrix.
typedef double Row __attribute__((vector_size(8 * sizeof(double))));

// Shapes m16n8k16 and m16n8k8.
template <typename Numbers> void multiply(Slot (&slots)[32]) {
    constexpr int count = Numbers::count;
    // Products of these numbers are exact in double, and sums nearly so.
    double a[16][8 * count];
    Row b[8 * count];
    const auto of = [&](int lane) { return *static_cast<const Fragments *>(slots[lane].more); };
    for (int lane = 0; lane < 32; lane++) {
        for (int j = 0; j < count; j++) {
            for (int i = 0; i < 4; i++)
                a[lane / 4 + i % 2 * 8][(lane % 4 + i / 2 * 4) * count + j] = Numbers::get(of(lane).a[i], j);
            for (int i = 0; i < 2; i++) b[(lane % 4 + i * 4) * count + j][lane / 4] = Numbers::get(of(lane).b[i], j);
        }
    }
    for (int row = 0; row < 16; row++) {
        const auto d = [&](int column) -> float & {
            return of(row % 8 * 4 + column / 2).d[row / 8 * 2 + column % 2];
        };
        Row sums;
        for (int column = 0; column < 8; column++) sums[column] = d(column);
        for (int k = 0; k < 8 * count; k++) sums += a[row][k] * b[k];
        for (int column = 0; column < 8; column++) d(column) = float(sums[column]);
    }
}

} // namespace

const char *multiply_halves(Slot (&slots)[32]) {
    multiply<OfHalves>(slots);
    return nullptr;
}

const char *multiply_bfloat16s(Slot (&slots)[32]) {
    multiply<OfBfloat16s>(slots);
    return nullptr;
}

const char *multiply_tf32(Slot (&slots)[32]) {
    multiply<OfTf32>(slots);
    return nullptr;
}

} // namespace emulator
