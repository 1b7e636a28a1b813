#define _GNU_SOURCE /* RTLD_DEFAULT, program_invocation_short_name */
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A page: it keeps data aligned as cudaMalloc would, and catches writes a few rows beyond a buffer. */
enum { GUARD = 4096 };

static size_t held, peak;

/* The CUDA driver, loaded at run time so that one binary runs with and without a GPU. Its functions
 * return 0 for success; device addresses are 64-bit integers. */
typedef unsigned long long device_address;
static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*retain_primary_context)(void **context, int device);
    int (*set_current)(void *context);
    int (*synchronize)(void);
    int (*allocate)(device_address *address, size_t bytes);
    int (*release)(device_address address);
    int (*to_device)(device_address to, const void *from, size_t bytes);
    int (*to_host)(void *to, device_address from, size_t bytes);
    int (*fill)(device_address to, unsigned char value, size_t bytes);
    int (*error_name)(int error, const char **name);
} cuda;
static void *driver; /* libcuda.so.1 */
static int on_gpu;

void driver_check(int error, const char *call) {
    if (!error) return;
    const char *name = NULL;
    if (cuda.error_name) cuda.error_name(error, &name);
    fprintf(stderr, "%s: %s: CUDA error %d %s\n", program_invocation_short_name, call, error, name ? name : "");
    exit(1);
}
#define CHECK(call) driver_check(call, #call)

void driver_function(const char *symbol, void *function) {
    void *found = driver ? dlsym(driver, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "%s: libcuda.so.1 has no %s\n", program_invocation_short_name, symbol);
        exit(1);
    }
    memcpy(function, &found, sizeof found); /* C99 has no cast from an object to a function pointer */
}

void memory_open(void) {
    /* hostdnn is a cuDNN that computes on the CPU; only hostdnn has this symbol. */
    on_gpu = dlsym(RTLD_DEFAULT, "hostdnnGetVersion") == NULL;
    if (!on_gpu) return;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver) {
        fprintf(stderr, "%s: the cuDNN in this process needs a GPU, and its driver does not load: %s\n",
                program_invocation_short_name, dlerror());
        exit(1);
    }
    driver_function("cuInit", &cuda.init);
    driver_function("cuDeviceGet", &cuda.device_get);
    driver_function("cuDevicePrimaryCtxRetain", &cuda.retain_primary_context);
    driver_function("cuCtxSetCurrent", &cuda.set_current);
    driver_function("cuCtxSynchronize", &cuda.synchronize);
    driver_function("cuMemAlloc_v2", &cuda.allocate);
    driver_function("cuMemFree_v2", &cuda.release);
    driver_function("cuMemcpyHtoD_v2", &cuda.to_device);
    driver_function("cuMemcpyDtoH_v2", &cuda.to_host);
    driver_function("cuMemsetD8_v2", &cuda.fill);
    driver_function("cuGetErrorName", &cuda.error_name);
    int device;
    void *context;
    CHECK(cuda.init(0));
    CHECK(cuda.device_get(&device, 0));
    /* The CUDA runtime, and with it cuDNN, uses the primary context. */
    CHECK(cuda.retain_primary_context(&context, device));
    CHECK(cuda.set_current(context));
}

const char *memory_kind(void) { return on_gpu ? "gpu" : "host"; }

size_t memory_held(void) { return held; }

size_t memory_peak(void) { return peak; }

void memory_wait(void) {
    if (on_gpu) CHECK(cuda.synchronize());
}

static void copy_in(char *to, const void *from, size_t bytes) {
    if (on_gpu)
        CHECK(cuda.to_device((device_address)(size_t)to, from, bytes));
    else
        memcpy(to, from, bytes);
}

static void copy_out(void *to, const char *from, size_t bytes) {
    if (on_gpu)
        CHECK(cuda.to_host(to, (device_address)(size_t)from, bytes));
    else
        memcpy(to, from, bytes);
}

static const unsigned char *guard_pattern(void) {
    static unsigned char pattern[GUARD];
    for (int i = 0; i < GUARD; ++i) pattern[i] = (unsigned char)(i * 37 + 11);
    return pattern;
}

struct buffer buffer_new(size_t bytes, const char *what) {
    struct buffer b = {NULL, bytes, NULL};
    if (bytes == 0) return b;
    int failed = bytes > (size_t)-1 - 2 * GUARD;
    if (!failed && on_gpu) {
        device_address address = 0;
        failed = cuda.allocate(&address, bytes + 2 * GUARD);
        b.base = (void *)(size_t)address;
    } else if (!failed) {
        failed = posix_memalign(&b.base, GUARD, bytes + 2 * GUARD);
    }
    if (failed) {
        fprintf(stderr, "%s: no %s memory for %s: %zu bytes, with %zu bytes held\n", program_invocation_short_name,
                memory_kind(), what, bytes, held);
        exit(1);
    }
    b.data = (char *)b.base + GUARD;
    copy_in(b.base, guard_pattern(), GUARD);
    copy_in((char *)b.data + bytes, guard_pattern(), GUARD);
    buffer_poison(b);
    held += bytes;
    if (held > peak) peak = held;
    return b;
}

void buffer_poison(struct buffer b) {
    if (!b.data) return;
    if (on_gpu)
        CHECK(cuda.fill((device_address)(size_t)b.data, 0xff, b.bytes));
    else
        memset(b.data, 0xff, b.bytes);
}

void buffer_write(struct buffer b, const void *host) {
    if (b.data) copy_in(b.data, host, b.bytes);
}

void buffer_read(struct buffer b, void *host) {
    if (b.data) copy_out(host, b.data, b.bytes);
}

int buffer_check(struct buffer b, const char *what) {
    if (!b.data) return 0;
    int damaged = 0;
    const struct {
        const char *at, *side;
    } guards[] = {{b.base, "before"}, {(char *)b.data + b.bytes, "after"}};
    for (int g = 0; g < 2; ++g) {
        unsigned char found[GUARD];
        copy_out(found, guards[g].at, GUARD);
        if (!memcmp(found, guard_pattern(), GUARD)) continue;
        fprintf(stderr, "%s: %s of %zu bytes: memory %s it was written to\n", program_invocation_short_name, what,
                b.bytes, guards[g].side);
        damaged = -1;
    }
    return damaged;
}

void buffer_free(struct buffer *b) {
    if (!b->data) return;
    held -= b->bytes;
    if (on_gpu)
        CHECK(cuda.release((device_address)(size_t)b->base));
    else
        free(b->base);
    memset(b, 0, sizeof *b);
}
