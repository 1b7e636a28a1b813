/* Eight threads with a handle each run recurrent networks at once: some that all threads run, and their own. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "rnn.h"

enum { THREADS = 8, SHARED = 3, OWN = 1, RUNS = 24 };

static pthread_barrier_t start;

static Network network_of(int thread, int index) {
    if (index >= SHARED) return network_plain(CUDNN_DATA_FLOAT, 16, 2, 1 + thread);
    Network network = network_plain(CUDNN_DATA_FLOAT, 16, 3, 4);
    network.cell = index == 1 ? CUDNN_GRU : CUDNN_LSTM;
    network.direction = index == 1;
    network.layers = index == 2 ? 3 : 1;
    return network;
}

static void *work(void *number) {
    int thread = (int)(intptr_t)number;
    Random random = {(uint64_t)thread};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Rnn rnns[SHARED + OWN];
    for (int i = 0; i < SHARED + OWN; i++) {
        Network network = network_of(thread, i);
        rnn_open(handle, &rnns[i], &network, &random);
    }
    pthread_barrier_wait(&start);
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < SHARED + OWN; i++) {
            double errors[3];
            CALL(rnn_run(handle, &rnns[i]));
            rnn_check(&rnns[i]);
            rnn_errors(&rnns[i], errors);
            for (int k = 0; k < 3; k++)
                REQUIRE(errors[k] < 1e-6, "thread %d, network %d, result %d: off by %g", thread, i, k, errors[k]);
        }
    }
    for (int i = 0; i < SHARED + OWN; i++) rnn_close(&rnns[i]);
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
