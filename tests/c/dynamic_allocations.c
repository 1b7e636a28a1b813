/* Counts the allocations of all libraries in the process: in setting a batch and in running it. Checks that nets,
 * graphs and batches are freed. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

#include "dynamic.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long allocations, live;

static void *counted(void *made) {
    if (!made) return NULL;
    allocations++;
    live += (long)malloc_usable_size(made);
    return made;
}

void *malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void *memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void *aligned_alloc(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }

int posix_memalign(void **to, size_t alignment, size_t bytes) {
    *to = counted(__libc_memalign(alignment, bytes));
    return *to ? 0 : ENOMEM;
}

void *realloc(void *before, size_t bytes) {
    if (before) live -= (long)malloc_usable_size(before);
    return counted(__libc_realloc(before, bytes));
}

void free(void *start) {
    if (start) live -= (long)malloc_usable_size(start);
    __libc_free(start);
}

static Net net;
static Trees trees;

/* Sets the batch to other graphs and makes all runs; returns the allocations, and checks nothing meanwhile. */
static long round_of(Case *c, int shift) {
    long long ids[GRAPHS];
    for (int i = 0; i < c->count; i++) ids[i] = (i + shift) % trees.description.graphs;
    long before = allocations;
    cudnnStatus_t failed = ucudnnSetGraphBatch(c->batch, c->graphs, ids, c->count, NULL);
    failed |= ucudnnRunVertexNetForward(c->handle, c->batch, &c->arguments, NULL);
    failed |= ucudnnRunVertexNetBackward(c->handle, c->batch, &c->arguments, NULL);
    failed |= ucudnnRunVertexNetStep(c->handle, c->batch, &c->arguments, NULL);
    long count = allocations - before;
    REQUIRE(!failed, "%d", failed);
    return count;
}

/* The allocations of rounds after the first ones, in which each graph was in the batch. */
static long later_rounds(int hidden, int graphs, int threads, int rounds) {
    Random random = {1};
    static Case c;
    long long ids[GRAPHS] = {0};
    net_tree_lstm(&net, hidden);
    net.description.hostThreads = threads;
    case_open(&c, &net, &trees, ids, graphs, &random);
    for (int i = 0; i < GRAPHS; i++) round_of(&c, i);
    long count = 0;
    for (int i = 0; i < rounds; i++) count += round_of(&c, i);
    case_close(&c);
    return count;
}

/* The allocations of setting a batch to random graphs, after each of them was in it. */
static long later_sets(void) {
    Random random = {3};
    static Net any;
    static Trees some;
    static Case c;
    long count = 0;
    for (int i = 0; i < 20; i++) {
        long long ids[GRAPHS] = {0};
        net_random(&any, CUDNN_DATA_FLOAT, &random);
        trees_random(&some, &any, &random);
        case_open(&c, &any, &some, ids, 1, &random);
        for (int set = 0; set < 200; set++) {
            int graphs = (int)some.description.graphs, is_first = set < graphs;
            for (int k = 0; k < GRAPHS; k++) ids[k] = is_first ? set : random_below(&random, graphs);
            long before = allocations;
            cudnnStatus_t status = ucudnnSetGraphBatch(c.batch, c.graphs, ids, is_first ? 1 : GRAPHS, NULL);
            if (!is_first) count += allocations - before;
            REQUIRE(!status, "%d", status);
        }
        case_close(&c);
    }
    return count;
}

/* A net, graphs and a batch, from their making to their end; and refusals of all three. */
static void whole_life(void) {
    Random random = {2};
    static Case c;
    static const long long ids[3] = {0, 1, 0};
    case_open(&c, &net, &trees, ids, 3, &random);
    round_of(&c, 1);
    case_close(&c);
    Net bad = net;
    net_join(&bad);
    bad.operations[1][3].op = 99;
    int child = trees.children[7];
    trees.children[7] = -2;
    ucudnnVertexNet_t no_net;
    ucudnnGraphs_t no_graphs;
    REQUIRE(ucudnnCreateVertexNet(&no_net, &bad.description) != 0, "accepted");
    REQUIRE(ucudnnCreateGraphs(&no_graphs, &trees.description) != 0, "accepted");
    trees.children[7] = child;
}

int main(void) {
    enum { ROUNDS = 500, STARTS = 4 * ROUNDS /* of work on threads: a step is two */ };
    trees_complete(&trees, 12, 4); /* more leaves than few rows */
    long few = later_rounds(8, 3, 1, ROUNDS), shared = later_rounds(8, 3, 2, ROUNDS);
    long many = later_rounds(64, 12, 1, 10);
    printf("few rows: %ld; many rows: %ld; few rows by two threads: %ld\n", few, many, shared);
    REQUIRE(few == 0, "a run of few rows allocates");
    REQUIRE(later_sets() == 0, "setting a batch allocates");
    /* The library of matrix products packs matrices into memory that it allocates: in each round for the same ones. */
    REQUIRE(many > 0 && many % 10 == 0, "products have allocated %ld times", many);
    /* The threads' queue allocates a block for each 63 starts. */
    REQUIRE(shared <= STARTS / 63 + 2, "two threads have allocated %ld times", shared);
    net_tree_lstm(&net, 8);
    whole_life();
    long before = live;
    for (int i = 0; i < 300; i++) whole_life();
    REQUIRE(live == before, "%ld bytes were allocated, and now %ld", before, (long)live);
    puts("ended");
    return 0;
}
