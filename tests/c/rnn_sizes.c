/* Threads ask for the sizes of recurrent networks in random order, and run the networks in between: equal arguments get
 * equal answers, with other handles and descriptors too, whatever has run and whatever a handle's policy is.
 *
 * rnn_sizes SEED QUESTIONS */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>

#include "rnn_train.h"

enum { NETWORKS = 24, THREADS = 3, MODES = 2, ANSWERS = 3 };

/* libucudnn.so's, where it is preloaded. */
extern cudnnStatus_t ucudnnSetPolicy(cudnnHandle_t handle, int policy) __attribute__((weak));

static const cudnnForwardMode_t modes[MODES] = {CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING};
/* The first answers plus 1: weight space, workspace and reserve. */
static atomic_size_t first[NETWORKS][MODES][ANSWERS];
static uint64_t seed;
static long questions;

static Network network_of(int index) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_DOUBLE};
    Random random = {seed * NETWORKS + (uint64_t)index};
    Network n = network_plain(types[random_below(&random, 8) % 4], 1 + random_below(&random, 20),
                              1 + random_below(&random, 5), 1 + random_below(&random, 4));
    n.cell = random_below(&random, 4), n.direction = random_below(&random, 2), n.layout = random_below(&random, 3);
    n.input = 1 + random_below(&random, 9), n.layers = 1 + random_below(&random, 2);
    network_vary(&n, &random);
    n.lengths[0] = n.steps;
    n.dropout = random_below(&random, 2) * 0.25;
    if (n.cell == CUDNN_LSTM && n.hidden > 1 && random_below(&random, 2)) n.projection = 1 + random_below(&random, n.hidden - 1);
    return n;
}

static void ask(cudnnHandle_t handle, int index, const Rnn *rnn, Random *random) {
    int mode = random_below(random, MODES), wants = 1 + random_below(random, 3);
    size_t sizes[ANSWERS] = {0};
    CALL(cudnnGetRNNWeightSpaceSize(handle, rnn->descriptor, &sizes[0]));
    CALL(cudnnGetRNNTempSpaceSizes(handle, rnn->descriptor, modes[mode], rnn->x_descriptor, wants & 1 ? &sizes[1] : NULL,
                                   wants & 2 ? &sizes[2] : NULL));
    for (int i = 0; i < ANSWERS; i++) {
        if (i > 0 && !(wants & i)) continue;
        size_t expected = 0;
        if (atomic_compare_exchange_strong(&first[index][mode][i], &expected, sizes[i] + 1)) continue;
        REQUIRE(expected == sizes[i] + 1, "network %d, mode %d, size %d: %zu, and %zu before", index, mode, i, sizes[i],
                expected - 1);
    }
}

static void *work(void *number) {
    Random random = {seed + (uint64_t)(intptr_t)number};
    cudnnHandle_t handles[2];
    for (int i = 0; i < 2; i++) CALL(cudnnCreate(&handles[i]));
    Training trainings[NETWORKS];
    for (int i = 0; i < NETWORKS; i++) {
        Network network = network_of(i);
        training_open(handles[0], &trainings[i], &network, &random);
    }
    for (long asked = 0; asked < questions; asked++) {
        int index = random_below(&random, NETWORKS);
        cudnnHandle_t handle = handles[random_below(&random, 2)];
        Training *t = &trainings[index];
        ask(handle, index, &t->rnn, &random);
        switch (random_below(&random, 200)) {
            case 0: {
                Network network = network_of(index);
                training_close(t);
                training_open(handle, t, &network, &random);
                break;
            }
            case 1:
            case 2: training_pass(handle, t); break;
            case 3: {
                /* A pass whose gradients are never asked for. */
                training_prepare(handle, t);
                training_seed(handle, t);
                CALL(training_forward(handle, t));
                break;
            }
            case 4: {
                Network network = network_of(index);
                Rnn rnn;
                network.mode = CUDNN_FWD_MODE_INFERENCE;
                rnn_open(handle, &rnn, &network, &random);
                CALL(rnn_run(handle, &rnn));
                rnn_check(&rnn);
                rnn_close(&rnn);
                break;
            }
            case 5:
                if (ucudnnSetPolicy) CALL(ucudnnSetPolicy(handle, random_below(&random, 2) * 2));
                break;
        }
    }
    for (int i = 0; i < NETWORKS; i++) training_close(&trainings[i]);
    for (int i = 0; i < 2; i++) CALL(cudnnDestroy(handles[i]));
    return NULL;
}

int main(int count, char **arguments) {
    REQUIRE(count == 3, "rnn_sizes SEED QUESTIONS");
    seed = strtoull(arguments[1], NULL, 10), questions = atol(arguments[2]) / THREADS;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0, "not joined");
    puts("ended");
    return 0;
}
