// The emulator alone, on the processor of this build: threads keep their state while others run, in order and under
// seeds. Compiled with -DEMULATED, the folder `kernels` and the emulator's sources.
#define THREADS 96
#include "common/device.cuh"

#include <memory>
#include <stdio.h>
#include <vector>

struct Parameters {
    float *x;
    int rounds;
};

// In each round, adds to x[i] the warp's sum and the value of the opposite thread in the block. The numbers held over
// barriers fill every register that is preserved.
KERNEL(mix, Parameters) {
    SHARED(float, all);
    float *const x = parameters.x + blockIdx.x * THREADS;
    float held[12], mine = x[threadIdx.x];
    for (int i = 0; i < 12; i++) held[i] = mine * (i + 1);
    for (int round = 0; round < parameters.rounds; round++) {
        all[threadIdx.x] = mine;
        barrier();
        const float opposite = all[THREADS - 1 - threadIdx.x];
        barrier();
        for (int i = 0; i < 12; i++) held[i] = held[i] * 0.5f + warp_sum(held[(i + 1) % 12], 8) * 0.01f;
        mine = mine * 0.25f + opposite * 0.5f;
    }
    for (float value : held) mine += value;
    x[threadIdx.x] = mine;
}

constexpr int blocks = 5, count = blocks * THREADS, rounds = 3;

static void begin(float *x) {
    for (int i = 0; i < count; i++) x[i] = (i * 37 % 101 - 50) / 64.0f;
}

static void in_loops(float *x) {
    for (int block = 0; block < blocks; block++, x += THREADS) {
        float held[12][THREADS], next[THREADS];
        for (int i = 0; i < 12; i++)
            for (int t = 0; t < THREADS; t++) held[i][t] = x[t] * (i + 1);
        for (int round = 0; round < rounds; round++) {
            for (int t = 0; t < THREADS; t++) next[t] = x[t] * 0.25f + x[THREADS - 1 - t] * 0.5f;
            for (int t = 0; t < THREADS; t++) x[t] = next[t];
            for (int i = 0; i < 12; i++) {
                const float *other = held[(i + 1) % 12];
                for (int t = 0; t < THREADS; t += 8) {
                    const float a = other[t] + other[t + 4], b = other[t + 1] + other[t + 5];
                    const float c = other[t + 2] + other[t + 6], d = other[t + 3] + other[t + 7];
                    const float sum = (a + c) + (b + d);
                    for (int k = t; k < t + 8; k++) held[i][k] = held[i][k] * 0.5f + sum * 0.01f;
                }
            }
        }
        for (int i = 0; i < 12; i++)
            for (int t = 0; t < THREADS; t++) x[t] += held[i][t];
    }
}

static emulator::Stacks stacks(size_t number) {
    static std::vector<unsigned char> memory(number << 16);
    return {memory.data(), size_t(1) << 16};
}

int main() {
    float expected[count], x[count];
    begin(expected);
    in_loops(expected);
    for (unsigned seed = 0; seed < 20; seed++) {
        begin(x);
        const Parameters parameters = {x, rounds};
        char message[2048] = "";
        const emulator::Launch launch = {{blocks, 1, 1}, {THREADS, 1, 1}, {1, 1, 1}, sizeof(float) * THREADS, &parameters, stacks, seed > 0, seed};
        if (mix.launch(mix, launch, message, sizeof message) != 0) {
            printf("seed %u: %s\n", seed, message);
            return 1;
        }
        for (int i = 0; i < count; i++)
            if (x[i] != expected[i]) {
                printf("seed %u: x[%d] is %a, not %a\n", seed, i, x[i], expected[i]);
                return 1;
            }
    }
    printf("ok\n");
}
