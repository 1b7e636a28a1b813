/* Convolutions run many times, and how many results differ in their bits.
 *
 * determinism graph|legacy first|shun|differ|within CALLS [LIBTORCH algorithms|cudnn FROM UNTIL]
 *
 * `first` takes cuDNN's first offer; `shun` passes over offers that are nondeterministic by the notes or the results;
 * `differ` is `first`, and goes on after CALLS until a result differs: on a busy machine exploring may begin late;
 * `within` is `first`, and has a limit of 300 KiB for gradients of inputs, by the query before cuDNN 8.
 * With a library that has libtorch's context, that asks for determinism in the rounds FROM to UNTIL - 1.
 *
 * Prints for each problem: the number of different results in the rounds that ask (without a library, in all), a hash of
 * the last of them, and the largest error of all. */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "graph.h"

/* MOST_ROUNDS: more than any exploring needs, so that one that never begins fails. */
enum { PROBLEMS = 4, MOST_CALLS = 400, MOST_ROUNDS = 100000 };

typedef struct {
    Kernel kernel;
    Backend plan, pack;
    int algorithm;
    Guarded workspace;
    uint64_t seen[MOST_CALLS];
    int distinct;
    uint64_t last;
    double error;
} Case;

static cudnnHandle_t handle;
static int shuns, asks_within;

static Shape shape_of(int index) {
    /* The first offers of a filter's gradient are not deterministic on hostdnn. */
    switch (index) {
        case 0: return shape_square(BACKWARD_FILTER, 12, 8, 10, 8, 1, 0);
        case 1: return shape_square(FORWARD, 12, 6, 12, 6, 3, 1);
        case 2: return shape_square(BACKWARD_DATA, 6, 32, 8, 32, 3, 1); /* it may run in parts */
        default: return shape_square(BACKWARD_FILTER, 12, 4, 14, 5, 5, 2);
    }
}

/* Returns whether a configuration's engine is nondeterministic by its notes. */
static int is_random(Backend configuration) {
    Backend engine = backend_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    CALL(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                  &engine));
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    CALL(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
    backend_free(engine);
    for (int i = 0; i < count; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return 1;
    return 0;
}

static void open_graph(Case *c) {
    Backend graph = graph_new(handle, &c->kernel, 16), offered[MOST_CONFIGURATIONS];
    int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered), taken = 0;
    int random[MOST_CONFIGURATIONS];
    for (int i = 0; i < count; i++) random[i] = is_random(offered[i]); /* as cudnn-frontend does for everybody */
    while (shuns && taken < count && random[taken]) taken++;
    REQUIRE(taken < count, "nothing is deterministic");
    c->plan = plan_new(handle, offered[taken]);
    c->workspace = guarded_new(plan_workspace(c->plan));
    c->pack = pack_new(&c->kernel, c->workspace.start);
    for (int i = 0; i < count; i++) backend_free(offered[i]);
    backend_free(graph);
}

/* Asks as programs before cuDNN 8 do, with a limit of their own. Without us there is no such function. */
static int algorithm_within(const Kernel *k, size_t limit) {
    enum { WITHIN = 2 };
    cudnnStatus_t (*ask)(cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
                         cudnnTensorDescriptor_t, int, size_t, int *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "cudnnGetConvolutionBackwardDataAlgorithm");
    REQUIRE(ask, "%s", dlerror());
    int algorithm = -1;
    CALL(ask(handle, k->w_descriptor, k->y_descriptor, k->convolution, k->x_descriptor, WITHIN, limit, &algorithm));
    return algorithm;
}

static void open_legacy(Case *c) {
    Perf results[MOST_RESULTS];
    int count = 0, taken = 0;
    CALL(kernel_get(handle, &c->kernel, MOST_RESULTS, &count, results));
    while (shuns && taken < count && results[taken].determinism != CUDNN_DETERMINISTIC) taken++;
    REQUIRE(taken < count && results[taken].status == CUDNN_STATUS_SUCCESS, "nothing is deterministic");
    int is_within = asks_within && c->kernel.shape.operation == BACKWARD_DATA;
    c->algorithm = is_within ? algorithm_within(&c->kernel, 300 << 10) : (int)results[taken].algo;
    CALL(cudnnSetConvolutionMathType(c->kernel.convolution, results[taken].mathType));
    size_t bytes = 0;
    CALL(kernel_workspace(handle, &c->kernel, c->algorithm, &bytes));
    c->workspace = guarded_new(bytes);
}

static uint64_t hash(const unsigned char *bytes, size_t count) { /* FNV-1a */
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

static void execute(Case *c, int by_graph, int counts) {
    if (by_graph) CALL(graph_run(handle, c->plan, c->pack, &c->kernel));
    else CALL(kernel_run(handle, &c->kernel, c->algorithm, &c->workspace));
    guarded_check(&c->workspace, "the workspace");
    double error = kernel_error(&c->kernel);
    double most = getenv("HOSTDNN_TENSOR_CORES") ? 2e-3 : kernel_tolerance(&c->kernel);
    REQUIRE(error <= most, "off by %g", error);
    if (error > c->error) c->error = error;
    if (!counts) return;
    const Guarded *result = kernel_result(&c->kernel);
    c->last = hash(result->start, result->bytes);
    for (int i = 0; i < c->distinct; i++)
        if (c->seen[i] == c->last) return;
    if (c->distinct < MOST_CALLS) c->seen[c->distinct++] = c->last;
}

static int some_differ(const Case *cases) {
    for (int i = 0; i < PROBLEMS; i++)
        if (cases[i].distinct > 1) return 1;
    return 0;
}

/* PyTorch's context, and its setters by their names. */
static void *torch, *context;

static void torch_open(const char *path) {
    torch = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(torch, "%s", dlerror());
    void *(*global)(void);
    *(void **)&global = dlsym(torch, "_ZN2at13globalContextEv");
    context = global();
}

static void torch_ask(const char *how, bool value) {
    if (strcmp(how, "cudnn") == 0) {
        void (*set)(void *, bool);
        *(void **)&set = dlsym(torch, "_ZN2at7Context21setDeterministicCuDNNEb");
        set(context, value);
    } else {
        void (*set)(void *, bool, bool);
        *(void **)&set = dlsym(torch, "_ZN2at7Context26setDeterministicAlgorithmsEbb");
        set(context, value, false);
    }
}

int main(int count, char **arguments) {
    REQUIRE(count == 4 || count == 8, "determinism graph|legacy first|shun|differ|within CALLS [LIBTORCH HOW FROM UNTIL]");
    int by_graph = strcmp(arguments[1], "graph") == 0, calls = atoi(arguments[3]), from = 0, until = calls;
    int waits = strcmp(arguments[2], "differ") == 0;
    if (waits) until = MOST_ROUNDS;
    shuns = strcmp(arguments[2], "shun") == 0;
    asks_within = strcmp(arguments[2], "within") == 0;
    REQUIRE(calls <= MOST_CALLS, "%d", calls);
    CALL(cudnnCreate(&handle));
    if (count == 8) {
        from = atoi(arguments[6]), until = atoi(arguments[7]);
        torch_open(arguments[4]);
        torch_ask(arguments[5], from == 0);
    }
    static Case cases[PROBLEMS];
    for (int round = 0; round < calls || (waits && round < MOST_ROUNDS && !some_differ(cases)); round++) {
        if (torch) torch_ask(arguments[5], round >= from && round < until);
        for (int i = 0; i < PROBLEMS; i++) {
            Case *c = &cases[i];
            if (round == 0) { /* each problem when it comes, as frameworks do */
                Shape shape = shape_of(i);
                Random random = {(uint64_t)i + 1};
                kernel_open(&c->kernel, &shape, &random);
                if (by_graph) open_graph(c);
                else open_legacy(c);
            }
            execute(c, by_graph, round >= from && round < until);
        }
    }
    for (int i = 0; i < PROBLEMS; i++)
        printf("problem %d: %d %016llx %g\n", i, cases[i].distinct, (unsigned long long)cases[i].last, cases[i].error);
    return 0;
}
