/* Threads share a net, first with a batch each and then with one batch; and a forked child goes on.
 *
 * dynamic_threads threads THREADS HOST_THREADS: prints nothing but "ended".
 * dynamic_threads fork 1 HOST_THREADS: runs, forks, and runs again in both processes. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dynamic.h"

enum { MOST_THREADS = 8, ROUNDS = 30 };

static Net net;
static Trees trees;
static Case cases[MOST_THREADS];
static pthread_barrier_t start;

/* Runs forward, backward and forward again, each time into poisoned memory, and compares with double precision. */
static void run(Case *c, int rounds) {
    while (rounds-- > 0) {
        case_poison(c);
        DYNAMIC_OK(ucudnnRunVertexNetForward(c->handle, c->batch, &c->arguments, NULL));
        DYNAMIC_OK(ucudnnRunVertexNetBackward(c->handle, c->batch, &c->arguments, NULL));
        case_check(c, 0);
        for (int sort = PUSH; sort < SORTS; sort++) {
            double error = case_error(c, sort);
            REQUIRE(error < 4, "off by %g", error);
        }
    }
}

static void *work(void *number) {
    Case *c = &cases[(intptr_t)number];
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; round++) {
        run(c, 1);
        DYNAMIC_OK(ucudnnSetGraphBatch(c->batch, c->graphs, c->ids, c->count, NULL));
    }
    return NULL;
}

static void at_once(int threads, void *(*work)(void *)) {
    pthread_t ids[MOST_THREADS];
    REQUIRE(pthread_barrier_init(&start, NULL, (unsigned)threads) == 0, "no barrier");
    for (int i = 0; i < threads; i++)
        REQUIRE(pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < threads; i++) REQUIRE(pthread_join(ids[i], NULL) == 0, "not joined");
    pthread_barrier_destroy(&start);
}

static int destroyed[MOST_THREADS];

static void *destroy(void *number) {
    pthread_barrier_wait(&start);
    destroyed[(intptr_t)number] = ucudnnDestroyGraphs(cases[0].graphs) == CUDNN_STATUS_SUCCESS;
    return NULL;
}

/* Several threads destroy graphs at once: one of them does it. */
static void destroy_at_once(int threads) {
    for (int round = 0; round < 200; round++) {
        int count = 0;
        at_once(threads, destroy);
        for (int i = 0; i < threads; i++) count += destroyed[i];
        REQUIRE(count == 1, "destroyed %d times", count);
        DYNAMIC_OK(ucudnnCreateGraphs(&cases[0].graphs, &trees.description));
    }
}

/* A case with the first one's net and graphs, and a batch of its own or the first one's. */
static void share(Case *c, int thread, int has_batch) {
    Random random = {(uint64_t)thread};
    memset(c, 0, sizeof *c);
    c->net = &net, c->trees = &trees, c->handle = cases[0].handle, c->graphs = cases[0].graphs, c->count = 6;
    for (int i = 0; i < c->count; i++) c->ids[i] = (has_batch ? i * thread : i) % trees.description.graphs;
    c->batch = cases[0].batch;
    if (has_batch) {
        DYNAMIC_OK(ucudnnCreateGraphBatch(&c->batch, c->handle));
        DYNAMIC_OK(ucudnnSetGraphBatch(c->batch, c->graphs, c->ids, c->count, NULL));
    }
    case_bring(c, &random);
    case_expect(c);
}

static void open_first(int host_threads) {
    Random random = {1};
    static const long long ids[] = {0, 1, 2, 3, 4, 5};
    net_tree_lstm(&net, 24);
    net.description.hostThreads = host_threads;
    trees_complete(&trees, 6, 5);
    case_open(&cases[0], &net, &trees, ids, 6, &random);
    case_expect(&cases[0]);
}

static void with_threads(int threads) {
    for (int has_batch = 1; has_batch >= 0; has_batch--) {
        for (int i = 1; i < threads; i++) share(&cases[i], i, has_batch);
        at_once(threads, work);
        for (int i = 1; i < threads; i++) {
            if (has_batch) DYNAMIC_OK(ucudnnDestroyGraphBatch(cases[i].batch));
            case_leave(&cases[i]);
        }
    }
}

/* The child has none of the net's threads. */
static void with_a_child(void) {
    run(&cases[0], 3);
    pid_t child = fork();
    REQUIRE(child >= 0, "no child");
    if (child == 0) alarm(600);
    run(&cases[0], 3);
    Case first = cases[0];
    if (child == 0) {
        /* And a net of its own, whose threads it makes. */
        open_first(net.description.hostThreads);
        run(&cases[0], 3);
        case_close(&cases[0]);
        cases[0] = first;
        case_close(&cases[0]);
        exit(0);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0, "the child's status is %x", (unsigned)status);
}

int main(int count, char **arguments) {
    REQUIRE(count == 4, "dynamic_threads threads|fork THREADS HOST_THREADS");
    int threads = atoi(arguments[2]);
    REQUIRE(threads > 0 && threads <= MOST_THREADS, "so many threads: %d", threads);
    open_first(atoi(arguments[3]));
    if (strcmp(arguments[1], "fork") == 0) with_a_child();
    else with_threads(threads), destroy_at_once(threads);
    case_close(&cases[0]);
    puts("ended");
    return 0;
}
