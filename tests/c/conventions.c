/* Calls fake_cudnn.c through the trampolines; argv[1] names the one hazard of this process. Each call is made twice:
 * the first call of a process takes the slow path, the second one the fast path. */
#define _GNU_SOURCE
#include "fake_cudnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

void call_with(const struct registers *in, void (*function)(void));

static void integers(void) {
    long sum = cudnnActivationForward(1L << 40, -2, -300, -4, 4000000000u, -(6L << 33), 7, -8, -9, 10L << 35,
                                      -11, 12);
    CHECK(sum == (1L << 40) - 6 - 1500 - 28 + 44000000000 - 13 * (6L << 33) + 119 - 152 - 207 +
                     29 * (10L << 35) - 341 + 444);
}

static void vectors(void) {
    double sum = cudnnActivationBackward(1e15, 0.5f, -3, 0.25f, 5, -6.5f, 7, 8, -9, 10.5f, 11, -12);
    CHECK(sum == 1e15 + 1.5 - 15 + 1.75 + 55 - 84.5 + 119 + 152 - 207 + 304.5 + 341 - 444);
}

static void variadic(void) {
    CHECK(cudnnOpTensor(0) == 0);
    CHECK(cudnnOpTensor(2, 1L << 33, 0.5, -2L, 4.0) == (1L << 33) + 1 + 2 * (-2 + 8));
    CHECK(cudnnOpTensor(10, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0, 1L, 1.0,
                        7L, 0.5) == 45 * 3 + 10 * 8);
}

static void structs(void) {
    struct large in = {{1, -2, 3, -4, 5, 1L << 50}}, out = cudnnAddTensor(3, in, 2.5);
    for (int i = 0; i < 6; i++) CHECK(out.values[i] == 3 * in.values[i] + (long)(2.5 * i));
    struct mixed mixed = cudnnScaleTensor((struct mixed){-7, 3.5}, 2);
    CHECK(mixed.integer == -14 && mixed.real == 1.75);
}

static void wide(void) {
    CHECK(cudnnSetTensor(0.5L, -((__int128)21 << 64)) == -20.5L);
}

static void registers(void) {
    struct registers in;
    unsigned char *bytes = (unsigned char *)&in;
    for (size_t i = 0; i < sizeof in; i++) bytes[i] = (unsigned char)(37 * i + 11);
    call_with(&in, cudnnSoftmaxForward);
    struct registers *seen = cudnnSoftmaxBackward();
    CHECK(memcmp(seen->integers, in.integers, sizeof in.integers) == 0);
    CHECK(memcmp(seen->stack, in.stack, sizeof in.stack) == 0);
    CHECK(memcmp(seen->vectors, in.vectors, sizeof in.vectors) == 0);
    memset(seen, 0, sizeof *seen);
}

/* The callee returns straight here: no frame lies between. */
__attribute__((noinline)) static void backtrace(void) {
    CHECK(cudnnTransformTensor((void *)backtrace) == 1);
}

static int cleaned;
static void clean(int *unused) {
    (void)unused;
    cleaned++;
}

static void *unwound(void *unused) {
    int local __attribute__((cleanup(clean))) = 0;
    (void)local;
    cudnnFusedOpsExecute(&cleaned);
    return unused; /* not reached */
}

static void unwinding(void) {
    pthread_t thread;
    void *result = NULL;
    cleaned = 0;
    CHECK(pthread_create(&thread, NULL, unwound, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == &cleaned && cleaned == 1);
}

/* The constructor of the library being loaded finds this frame below libucudnn's, and calls back. */
__attribute__((noinline, visibility("default"))) void first_caller(void) {
    CHECK(cudnnGetVersion() == 91900);
    CHECK(cudnnIm2Col() == 1);
    CHECK(cudnnDropoutForward() > 1);
    CHECK(cudnnDropoutBackward() == 91900);
}

enum { THREADS = 16 };
static pthread_barrier_t barrier;

static void *race(void *unused) {
    pthread_barrier_wait(&barrier);
    integers();
    vectors();
    return unused;
}

static void threads(void) {
    pthread_t all[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&all[i], NULL, race, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(all[i], NULL) == 0);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"integers", integers}, {"vectors", vectors},       {"variadic", variadic},
                 {"structs", structs},   {"wide", wide},             {"registers", registers},
                 {"backtrace", backtrace}, {"unwinding", unwinding}, {"constructor", first_caller},
                 {"threads", threads}};
    Dl_info info;
    CHECK(count == 2);
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "cudnnActivationForward"), &info) && strstr(info.dli_fname, "libucudnn.so"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(words[1], cases[i].name) == 0) {
            cases[i].run();
            cases[i].run();
            puts("passed");
            return 0;
        }
    }
    CHECK(!"a known case");
}
