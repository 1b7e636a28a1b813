#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "device.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../convnet/memory.h"

static struct {
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int bytes, int device);
    int (*stream_create)(cudaStream_t *stream, unsigned flags);
    int (*stream_wait)(cudaStream_t stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, cudaStream_t stream);
    int (*event_elapsed)(float *milliseconds, void *start, void *end);
    int (*capture_begin)(cudaStream_t stream, int mode);
    int (*capture_end)(cudaStream_t stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, cudaStream_t stream);
    int (*graph_destroy)(void *graph);
    int (*executable_destroy)(void *executable);
} cuda;
static cudaStream_t stream;
static void *start, *end;

#define CHECK(call) driver_check(call, #call)

enum { NON_BLOCKING = 1, CAPTURE_THREAD_LOCAL = 1 };

cudaStream_t device_open(void) {
    if (!strcmp(memory_kind(), "host")) return NULL;
    driver_function("cuDeviceGet", &cuda.get);
    driver_function("cuDeviceGetName", &cuda.name);
    driver_function("cuStreamCreate", &cuda.stream_create);
    driver_function("cuStreamSynchronize", &cuda.stream_wait);
    driver_function("cuEventCreate", &cuda.event_create);
    driver_function("cuEventRecord", &cuda.event_record);
    driver_function("cuEventElapsedTime", &cuda.event_elapsed);
    driver_function("cuStreamBeginCapture_v2", &cuda.capture_begin);
    driver_function("cuStreamEndCapture", &cuda.capture_end);
    driver_function("cuGraphInstantiateWithFlags", &cuda.instantiate);
    driver_function("cuGraphLaunch", &cuda.launch);
    driver_function("cuGraphDestroy", &cuda.graph_destroy);
    driver_function("cuGraphExecDestroy", &cuda.executable_destroy);
    CHECK(cuda.stream_create(&stream, NON_BLOCKING));
    CHECK(cuda.event_create(&start, 0));
    CHECK(cuda.event_create(&end, 0));
    return stream;
}

void device_wait(void) {
    if (stream) CHECK(cuda.stream_wait(stream));
}

const char *device_name(void) {
    static char name[256] = "CPU";
    int device;
    if (!stream) return name;
    CHECK(cuda.get(&device, 0));
    CHECK(cuda.name(name, sizeof name, device));
    return name;
}

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double device_time(struct work work) {
    if (!stream) {
        double begin = now();
        return work.run(work.argument) ? -1 : 1e3 * (now() - begin);
    }
    CHECK(cuda.event_record(start, stream));
    int failed = work.run(work.argument);
    CHECK(cuda.event_record(end, stream));
    CHECK(cuda.stream_wait(stream));
    float milliseconds;
    CHECK(cuda.event_elapsed(&milliseconds, start, end));
    return failed ? -1 : milliseconds;
}

void *graph_of(struct work work) {
    void *graph = NULL, *executable = NULL;
    if (!stream || cuda.capture_begin(stream, CAPTURE_THREAD_LOCAL)) return NULL;
    int failed = work.run(work.argument);
    /* Even an invalid capture must be ended. */
    failed |= cuda.capture_end(stream, &graph);
    if (!failed && cuda.instantiate(&executable, graph, 0)) executable = NULL;
    if (graph) CHECK(cuda.graph_destroy(graph));
    return executable;
}

static int launch(const void *executable) { return cuda.launch((void *)executable, stream); }

struct work graph_work(void *graph) { return (struct work){launch, graph}; }

void graph_free(void *graph) {
    if (graph) CHECK(cuda.executable_destroy(graph));
}
