/* Eight threads with a handle each ask for and run convolutions at once: some that all threads run, and their own. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "kernel.h"

enum { THREADS = 8, SHARED = 4, OWN = 2, RUNS = 12, ASKS = 3 };

static pthread_barrier_t start;

static Shape shape_of(int thread, int index) {
    if (index < SHARED) return shape_square((Operation)index, 8, 6, 9, 6, 3, 1);
    return shape_square((Operation)((thread + index) % 4), 4 + thread, 3 + index, 8, 5, 3, 1);
}

static void *work(void *number) {
    int thread = (int)(intptr_t)number;
    Random random = {(uint64_t)thread};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Kernel kernels[SHARED + OWN];
    for (int i = 0; i < SHARED + OWN; i++) {
        Shape shape = shape_of(thread, i);
        kernel_open(&kernels[i], &shape, &random);
    }
    pthread_barrier_wait(&start);
    for (int ask = 0; ask < ASKS; ask++) {
        for (int i = 0; i < SHARED + OWN; i++) {
            Kernel *kernel = &kernels[i];
            Perf results[MOST_RESULTS];
            int count;
            Guarded workspace = guarded_new(60000);
            int algorithm = kernel->shape.operation == BACKWARD_DATA || kernel->shape.operation == BACKWARD_FILTER;
            switch ((thread + ask + i) % 4) {
                case 0: CALL(kernel_get(handle, kernel, MOST_RESULTS, &count, results)); break;
                case 1: CALL(kernel_find(handle, kernel, MOST_RESULTS, &count, results)); break;
                case 2: CALL(kernel_find_ex(handle, kernel, &workspace, MOST_RESULTS, &count, results)); break;
                default: count = 0; break; /* never asked */
            }
            if (count > 0) {
                REQUIRE(results[0].status == CUDNN_STATUS_SUCCESS, "%d", results[0].status);
                algorithm = results[0].algo;
                guarded_free(&workspace);
                workspace = guarded_new(results[0].memory);
            }
            for (int run = 0; run < RUNS; run++) {
                CALL(kernel_run(handle, kernel, algorithm, &workspace));
                guarded_check(&workspace, "the workspace");
                double error = kernel_error(kernel);
                REQUIRE(error <= kernel_tolerance(kernel), "thread %d, kernel %d: off by %g", thread, i, error);
            }
            guarded_free(&workspace);
        }
    }
    for (int i = 0; i < SHARED + OWN; i++) kernel_close(&kernels[i]);
    CALL(cudnnDestroy(handle));
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    REQUIRE(pthread_barrier_init(&start, NULL, THREADS) == 0, "no barrier");
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0, "not joined");
    puts("ended");
    return 0;
}
