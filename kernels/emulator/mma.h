// Tensor cores: PTX's `mma.sync` of shapes m16n8k16 and m16n8k8. device.cuh says which elements each lane has.

inline float float_to_tf32(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return __uint_as_float(0x7fffffff); // as the GPU has it
    return __uint_as_float((bits + 0x1000) & ~0x1fffu);
}

namespace emulator {

// A lane's parts of the matrices.
struct Fragments {
    float *d;
    const unsigned *a, *b;
};

// The numbers in a word of 4 bytes.
struct Halves {
    static constexpr int count = 2;
    static float get(unsigned word, int i) { return half_to_float(word >> 16 * i); }
};
struct Bfloat16s {
    static constexpr int count = 2;
    static float get(unsigned word, int i) { return bfloat16_to_float(word >> 16 * i); }
};
struct Tf32 {
    static constexpr int count = 1;
    static float get(unsigned word, int) { return __uint_as_float(word & ~0x1fffu); }
};

// A row of eight sums, or of a matrix.
typedef double Row __attribute__((vector_size(8 * sizeof(double))));

template <typename Numbers> const char *multiply(Slot (&slots)[32]) {
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
    return nullptr;
}

} // namespace emulator

#define WARP_MMA(name, Numbers)                                                                                        \
    inline void warp_mma_##name(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], AT) {                   \
        const emulator::Fragments fragments = {d, a, b};                                                               \
        emulator::meet_warp({"warp_mma_" #name, file, line}, {0, 0, &fragments},                                       \
                            emulator::multiply<emulator::Numbers>);                                                    \
    }
WARP_MMA(half, Halves)
WARP_MMA(bfloat16, Bfloat16s)
WARP_MMA(tf32, Tf32)
#undef WARP_MMA
