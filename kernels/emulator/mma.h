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

template <typename Numbers> const char *multiply(Slot (&slots)[32]) {
    unsigned a[16][8], b[8][8];
    const auto of = [&](int lane) { return *static_cast<const Fragments *>(slots[lane].more); };
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = of(lane).a[i];
        for (int i = 0; i < 2; i++) b[lane / 4][lane % 4 + i * 4] = of(lane).b[i];
    }
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < 4; i++) {
            const unsigned *const row = a[lane / 4 + i / 2 * 8], *const column = b[lane % 4 * 2 + i % 2];
            // Products of these numbers are exact in double, and sums nearly so.
            double sum = of(lane).d[i];
            for (int k = 0; k < 8 * Numbers::count; k++)
                sum += double(Numbers::get(row[k / Numbers::count], k % Numbers::count)) *
                       Numbers::get(column[k / Numbers::count], k % Numbers::count);
            of(lane).d[i] = float(sum);
        }
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
