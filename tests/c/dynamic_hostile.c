/* Descriptions, graphs and arguments at random, and sound ones with some numbers changed: each call returns a status,
 * and each accepted one runs.
 *
 * dynamic_hostile SEED CASES. Prints how many were accepted and refused. */
#include <math.h>
#include <string.h>

#include "dynamic.h"

static Random randoms;
static struct {
    long nets, graphs, batches, runs, refused_nets, refused_graphs, refused_batches, refused_runs;
} counts;

/* Returns whether a call succeeded. A failed call must be a refusal or a failed allocation, with a text. */
static int succeeded(cudnnStatus_t status, const char *call) {
    char why[512] = "";
    if (status == CUDNN_STATUS_SUCCESS) return 1;
    ucudnnGetVertexNetErrorString(why, sizeof why);
    int is_refusal = (status >= CUDNN_STATUS_BAD_PARAM && status <= CUDNN_STATUS_NOT_SUPPORTED) ||
                     status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    REQUIRE(is_refusal && *why, "%s: %d, \"%s\"", call, (int)status, why);
    return 0;
}
#define SUCCEEDED(call) succeeded(call, #call)

/* A number at or beyond some border. */
static long long border(void) {
    static const long long BORDERS[] = {-0x7fffffffffffffffll - 1, -(1ll << 31), -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 9, 17,
                                        64,
                                        65, 255, 256, 512, 513, 4097, 65535, 65536, 65537, 1 << 24, (1 << 24) + 1,
                                        (1ll << 31) - 1, 1ll << 31, 1ll << 32, 1ll << 40, 0x7fffffffffffffffll};
    return BORDERS[random_below(&randoms, (int)(sizeof BORDERS / sizeof *BORDERS))];
}

static int narrow_border(void) { return (int)(border() & 0xffffffff); }

/* A count: one that the array has, or one that is refused before the array is read. */
static int count_of(int most_there, int most_accepted) {
    int count = narrow_border();
    return count > most_there && count <= most_accepted ? random_below(&randoms, most_there + 1) : count;
}

static void change_net(Net *net) {
    ucudnnVertexNetDescription_t *d = &net->description;
    int f = random_below(&randoms, FUNCTIONS), operations = net->functions[f].operationCount;
    if (operations < 1 || operations > OPERATIONS) operations = 1;
    ucudnnVertexOperation_t *o = &net->operations[f][random_below(&randoms, operations)];
    int number = random_below(&randoms, NAMED), near = random_below(&randoms, 12) - 1;
    switch (random_below(&randoms, 24)) {
        case 0: d->dataType = random_below(&randoms, 12) - 1; break;
        case 1: d->isTraining = !d->isTraining; break;
        case 2: d->isOnHost = 1 + random_below(&randoms, 4); break; /* a device compiles each net */
        case 3: d->hostThreads = random_below(&randoms, 5) - 1; break;
        case 4: d->stateCount = count_of(NAMED, 8); break;
        case 5: d->parameterCount = count_of(NAMED, 64); break;
        case 6: d->pullCount = count_of(NAMED, 64); break;
        case 7: d->pushCount = count_of(NAMED, 64); break;
        case 8: d->functionCount = count_of(FUNCTIONS, 16); break;
        case 9: net->states[number] = narrow_border(); break;
        case 10: net->pulls[number] = narrow_border(); break;
        case 11: net->pushes[number] = narrow_border(); break;
        case 12: net->parameters[number][random_below(&randoms, 2)] = narrow_border(); break;
        case 13: d->loss = random_below(&randoms, 4) - 1; break;
        case 14: d->lossPush = narrow_border(); break;
        case 15: *(&d->maxGraphs + random_below(&randoms, 4)) = border(); break;
        case 16: net->functions[f].children = random_below(&randoms, 2) ? near : narrow_border(); break;
        case 17: net->functions[f].operationCount = count_of(OPERATIONS, 512); break;
        case 18: o->op = near; break;
        case 19: o->op = random_below(&randoms, UCUDNN_VERTEX_POWER + 3) - 1; break;
        case 20: o->inputs[random_below(&randoms, 3)] = random_below(&randoms, 2) ? near : narrow_border(); break;
        case 21: o->arguments[random_below(&randoms, 2)] = random_below(&randoms, 2) ? near : border(); break;
        case 22: o->constant = random_below(&randoms, 2) ? NAN : ldexp(1, narrow_border()); break;
        default: /* two operations change places */ {
            ucudnnVertexOperation_t kept = *o, *other = &net->operations[f][random_below(&randoms, 8)];
            *o = *other, *other = kept;
        }
    }
}

/* Nothing in it is sound, but its counts. */
static void scramble_net(Net *net) {
    for (int i = 0; i < NAMED; i++) {
        net->states[i] = random_below(&randoms, 6), net->pulls[i] = random_below(&randoms, 6);
        net->pushes[i] = random_below(&randoms, 6);
        for (int k = 0; k < 2; k++) net->parameters[i][k] = random_below(&randoms, 6);
    }
    for (int f = 0; f < FUNCTIONS; f++) {
        net->functions[f].operationCount = 1 + random_below(&randoms, 6);
        for (int i = 0; i < net->functions[f].operationCount; i++) {
            ucudnnVertexOperation_t *o = &net->operations[f][i];
            memset(o, 0, sizeof *o);
            o->op = random_below(&randoms, UCUDNN_VERTEX_POWER + 1);
            if (i > 0 && o->op > UCUDNN_VERTEX_CHILDREN) o->inputs[0] = random_below(&randoms, i);
            if (i > 0 && o->op >= UCUDNN_VERTEX_ADD && o->op <= UCUDNN_VERTEX_MUL) o->inputs[1] = random_below(&randoms,
                                                                                                               i);
            for (int k = 0; k < 2; k++) o->arguments[k] = random_below(&randoms, 3);
        }
    }
}

static void change_trees(Trees *trees) {
    ucudnnGraphsDescription_t *d = &trees->description;
    long long graphs = d->graphs >= 0 && d->graphs <= GRAPHS ? d->graphs : 0;
    long long vertices = trees->first_vertex[graphs];
    if (vertices < 0 || vertices > VERTICES) vertices = 0;
    int near = random_below(&randoms, 20) - 2, at = random_below(&randoms, VERTICES), is_border = random_below(&randoms,
                                                                                                               2);
    long long end = trees->first_child[vertices];
    switch (random_below(&randoms, 9)) {
        case 0: d->graphs = random_below(&randoms, 2) ? random_below(&randoms, GRAPHS + 1) : -random_below(&randoms,
                                                                                                           3); break;
        case 1: d->graphs = random_below(&randoms, 2) ? 1ll << 31 : -0x7fffffffffffffffll - 1; break;
        case 2: trees->first_vertex[random_below(&randoms, (int)graphs + 1)] = random_below(&randoms, VERTICES); break;
        case 3:
            if (graphs) trees->first_vertex[random_below(&randoms, (int)graphs)] = border();
            break;
        case 4:
            if (vertices) trees->first_child[random_below(&randoms, (int)vertices)] = is_border ? border() : near;
            break;
        case 5: trees->first_child[vertices] = is_border ? end + near : 1ll << 31 << random_below(&randoms, 32); break;
        case 6:
            if (end < 1 || end > SLOTS) end = 1;
            trees->children[random_below(&randoms, (int)end)] = is_border ? narrow_border() : near;
            break;
        case 7: trees->rows[at] = is_border ? narrow_border() : near; break;
        default: trees->kinds[at] = (unsigned char)(is_border ? narrow_border() : near);
    }
    /* The last offsets say how much is read: accepted ones stay within the memory. */
    if (d->graphs >= 0 && d->graphs <= GRAPHS) {
        long long *last = &trees->first_vertex[d->graphs];
        if (*last > VERTICES && *last < 1ll << 31) *last = VERTICES;
        if (*last >= 0 && *last <= VERTICES) last = &trees->first_child[*last];
        if (*last > SLOTS && *last < 1ll << 31) *last = SLOTS;
    }
    if (random_below(&randoms, 20) == 0) d->kinds = NULL;
    if (random_below(&randoms, 20) == 0) d->rows = NULL;
}

/* Changes a sound run's arguments, or the memory that they point to. Accepted arguments have the memory they need. */
static void change_run(Case *c) {
    ucudnnVertexNetArguments_t *a = &c->arguments;
    int sort = random_below(&randoms, SORTS), number = random_below(&randoms, NAMED);
    unsigned char **pointer = (unsigned char **)(void *)&c->pointers[sort][number];
    switch (random_below(&randoms, 9)) {
        case 0: *pointer = NULL; break;
        case 1:
            if (*pointer && !((uintptr_t)*pointer & 1)) ++*pointer;
            break;
        case 2:
            if (c->workspace.bytes >= c->arrays[sort][number].bytes) *pointer = c->workspace.start;
            break;
        case 3: a->workspaceSizeInBytes -= (size_t)random_below(&randoms, 9); break;
        case 4: a->reserveSizeInBytes -= (size_t)random_below(&randoms, 9); break;
        case 5: a->workspace = c->reserve.bytes >= c->workspace.bytes ? a->reserve : NULL; break;
        case 6: a->labels = random_below(&randoms, 2) ? NULL : (const int *)(const void *)(c->labels.start + 1); break;
        case 7: ((int *)(void *)c->labels.start)[random_below(&randoms,
                                                              (int)c->sizes.vertices)] = narrow_border(); break;
        default: {
            long long index = border();
            Guarded *pull = &c->arrays[PULL][1];
            if (c->net->description.pullCount < 2 || c->net->pulls[1] || !c->sizes.rows) break;
            size_t at = 8 * (size_t)random_below(&randoms, (int)c->sizes.rows);
            memcpy(pull->start + at, &index, 8), memcpy(c->copies[PULL][1] + at, &index, 8);
        }
    }
}

/* Returns whether all arrays of a net's runs are small. */
static int is_small(const Net *net) {
    const ucudnnVertexNetDescription_t *d = &net->description;
    int most = 1 << 10;
    for (int i = 0; i < NAMED; i++) {
        if (i < d->parameterCount && (net->parameters[i][0] > most || net->parameters[i][1] > most)) return 0;
        if ((i < d->pullCount && net->pulls[i] > most) || (i < d->pushCount && net->pushes[i] > most)) return 0;
    }
    return 1;
}

static void run_batch(Case *c) {
    typedef cudnnStatus_t Call(ucudnnVertexNet_t, ucudnnGraphBatch_t, const ucudnnVertexNetArguments_t *, void *);
    static Call *const CALLS[] = {ucudnnRunVertexNetForward, ucudnnRunVertexNetBackward, ucudnnRunVertexNetStep};
    size_t workspace, reserve;
    DYNAMIC_OK(ucudnnGetVertexNetMemorySize(c->handle, c->batch, &workspace, &reserve));
    if (!is_small(c->net) || workspace > 1 << 26 || reserve > 1 << 26) return;
    case_bring(c, &randoms);
    /* The reserve is no forward run's: a net without training does not write it. */
    memset(c->reserve.start, 0, c->reserve.bytes);
    for (int round = 0; round < 3; round++) {
        if (round) change_run(c);
        for (int call = 0; call < 3; call++) {
            int has_run = SUCCEEDED(CALLS[call](c->handle, c->batch, &c->arguments, NULL));
            counts.runs += has_run, counts.refused_runs += !has_run;
            for (int number = 0; call == 2 && has_run && number < c->net->description.parameterCount; number++)
                memcpy(c->copies[PARAMETER][number], c->arrays[PARAMETER][number].start,
                       c->arrays[PARAMETER][number].bytes);
        }
        /* Results may lie elsewhere now; the canaries are where they were. */
        for (int sort = 0; sort < SORTS; sort++)
            for (int number = 0; number < NAMED; number++)
                if (c->arrays[sort][number].start) guarded_check(&c->arrays[sort][number], "an array");
        guarded_check(&c->workspace, "workspace"), guarded_check(&c->reserve, "reserve");
    }
    case_leave(c);
}

static void one_case(void) {
    static Net net, sound;
    static Trees trees;
    static const cudnnDataType_t TYPES[] = {CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    Case c;
    memset(&c, 0, sizeof c);
    net_random(&sound, TYPES[random_below(&randoms, 4)], &randoms);
    trees_random(&trees, &sound, &randoms);
    net = sound, net_join(&net);
    int way = random_below(&randoms, 8);
    if (way == 0) scramble_net(&net);
    else for (int i = way < 4 ? random_below(&randoms, 3) : 0; i > 0; i--) change_net(&net);
    for (int i = random_below(&randoms, 2) ? random_below(&randoms, 3) : 0; i > 0; i--) change_trees(&trees);
    c.net = &net, c.trees = &trees;
    int has_net = SUCCEEDED(ucudnnCreateVertexNet(&c.handle, &net.description));
    int has_graphs = SUCCEEDED(ucudnnCreateGraphs(&c.graphs, &trees.description));
    counts.nets += has_net, counts.refused_nets += !has_net;
    counts.graphs += has_graphs, counts.refused_graphs += !has_graphs;
    if (has_net && has_graphs && SUCCEEDED(ucudnnCreateGraphBatch(&c.batch, c.handle))) {
        for (int round = 0; round < 2; round++) {
            c.count = random_below(&randoms, GRAPHS) + (random_below(&randoms, 8) > 0);
            for (int i = 0; i < c.count; i++) {
                c.ids[i] = random_below(&randoms, trees.description.graphs ? (int)trees.description.graphs : 1);
                if (random_below(&randoms, 100) == 0) c.ids[i] = border();
            }
            int is_set = SUCCEEDED(ucudnnSetGraphBatch(c.batch, c.graphs, c.ids, c.count, NULL));
            counts.batches += is_set, counts.refused_batches += !is_set;
            if (is_set) run_batch(&c);
        }
        DYNAMIC_OK(ucudnnDestroyGraphBatch(c.batch));
    }
    if (has_graphs) DYNAMIC_OK(ucudnnDestroyGraphs(c.graphs));
    if (has_net) DYNAMIC_OK(ucudnnDestroyVertexNet(c.handle));
}

int main(int count, char **arguments) {
    REQUIRE(count == 3, "dynamic_hostile SEED CASES");
    randoms.state = strtoull(arguments[1], NULL, 10);
    for (int i = 0; i < atoi(arguments[2]); i++) one_case();
    printf("nets %ld\ngraphs %ld\nbatches %ld\nruns %ld\n", counts.nets, counts.graphs, counts.batches, counts.runs);
    printf("refused nets %ld\nrefused graphs %ld\n", counts.refused_nets, counts.refused_graphs);
    printf("refused batches %ld\nrefused runs %ld\nended\n", counts.refused_batches, counts.refused_runs);
    return 0;
}
