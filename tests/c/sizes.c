/* The answers of cudnnGetConvolution…WorkspaceSize: equal questions get equal answers, and so many bytes are enough.
 *
 * sizes random SEED PROBLEMS  two threads with two handles each ask, run and make descriptors anew, in random order
 * sizes limits                answers within one limit, a larger one, and the first again
 * sizes first                 all sizes are asked for first, then answers within several limits
 * sizes reserved              workspace is reserved for a plan that is found later
 * sizes failing               parts fail once their plans are promised
 * sizes refused               cuDNN refuses the first question */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel.h"
#include "ucudnn.h"

enum { THREADS = 2, HANDLES = 2, MATH_TYPES = 3, ALGORITHMS = 8, STEPS = 12 };
static const size_t limits_of_get[] = {3000, 30000, 700000, UCUDNN_NO_LIMIT};
static const cudnnMathType_t math_types[MATH_TYPES] = {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH};

/* The first answers about the present problem, plus 1; 0 if there is none. */
static atomic_size_t told[MATH_TYPES][ALGORITHMS];
static atomic_int questions, runs, promised;
static pthread_barrier_t next;

typedef struct {
    uint64_t seed;
    int problems, number;
} Thread;

/* A problem that no earlier number has. Every 32nd is so large that it is divided. */
static Shape shape_of(int number, Random *random) {
    int n = 2 + number % 9, c = 1 + number / 9 % 5, size = 4 + number / 45 % 7, k = 1 + number / 315 % 5;
    int filter = number / 1575 % 2 ? 3 : 1;
    if (number % 32 == 31) n = 16 + number / 32 % 6, c = 16 + number / 192, size = 14, k = 16, filter = 3;
    Operation operation = (Operation)random_below(random, 4);
    Shape shape = shape_square(operation, n, c, size, k, filter, filter / 2);
    shape.relu = 1; /* the identity takes one algorithm alone */
    if (operation != FUSED) shape.beta = random_below(random, 2);
    return shape;
}

static void set_math_type(const Kernel *kernel, int index) {
    CALL(cudnnSetConvolutionMathType(kernel->convolution, math_types[index]));
}

/* Asks for a size, and compares it with the first answer. Returns 0 if the algorithm does not run. */
static int size_of_workspace(cudnnHandle_t handle, const Kernel *kernel, int math_type, int algorithm, size_t *bytes) {
    *bytes = SIZE_MAX / 2;
    cudnnStatus_t status = kernel_workspace(handle, kernel, algorithm, bytes);
    if (status != CUDNN_STATUS_SUCCESS) return 0;
    size_t first = 0;
    if (!atomic_compare_exchange_strong(&told[math_type][algorithm], &first, *bytes + 1))
        REQUIRE(first == *bytes + 1, "operation %d, math type %d, algorithm %d: %zu bytes, %zu before",
                kernel->shape.operation, math_types[math_type], algorithm, *bytes, first - 1);
    questions++;
    return 1;
}

/* Runs in exactly so many bytes. */
static void run(cudnnHandle_t handle, Kernel *kernel, int algorithm, size_t bytes) {
    Guarded workspace = guarded_new(bytes);
    cudnnStatus_t status = kernel_run(handle, kernel, algorithm, &workspace);
    REQUIRE(status == CUDNN_STATUS_SUCCESS, "operation %d, algorithm %d in %zu bytes: %s", kernel->shape.operation,
            algorithm, bytes, cudnnGetErrorString(status));
    guarded_check(&workspace, "the workspace");
    double error = kernel_error(kernel);
    REQUIRE(error <= kernel_tolerance(kernel), "algorithm %d is off by %g", algorithm, error);
    guarded_free(&workspace);
    runs++;
}

/* Asks for algorithms. Each result's workspace is the size of the same math type, or a smaller one that is enough. */
static void ask(cudnnHandle_t handle, Kernel *kernel, int math_type, Random *random) {
    Perf results[MOST_RESULTS];
    int count = 0, largest = kernel->shape.x[0] * kernel->shape.x[1] * 3000;
    Guarded given = guarded_new((size_t)random_below(random, largest));
    size_t before[ALGORITHMS];
    for (int i = 0; i < ALGORITHMS; i++) before[i] = atomic_load(&told[math_type][i]);
    switch (random_below(random, 4)) {
        case 0: CALL(kernel_get(handle, kernel, MOST_RESULTS, &count, results)); break;
        case 1: CALL(kernel_find(handle, kernel, MOST_RESULTS, &count, results)); break;
        default: CALL(kernel_find_ex(handle, kernel, &given, MOST_RESULTS, &count, results)); break;
    }
    guarded_check(&given, "the workspace of FindEx");
    guarded_free(&given);
    for (int i = 0; i < count; i++) {
        const Perf *result = &results[i];
        if (result->status != CUDNN_STATUS_SUCCESS) continue;
        size_t first = before[result->algo];
        if (first && result->mathType == math_types[math_type])
            REQUIRE(result->memory <= first - 1, "algorithm %d: %zu bytes in a result, %zu told", result->algo,
                    result->memory, first - 1);
        if (random_below(random, 4)) continue;
        /* A program runs a result under its math type, or under its own. */
        int own = random_below(random, 2);
        if (!own) CALL(cudnnSetConvolutionMathType(kernel->convolution, result->mathType));
        size_t needs = 0;
        if (!own || result->mathType == math_types[math_type]) run(handle, kernel, result->algo, result->memory);
        else if (size_of_workspace(handle, kernel, math_type, result->algo, &needs))
            run(handle, kernel, result->algo, needs);
        set_math_type(kernel, math_type);
        promised += i == 0;
    }
}

static void *work(void *argument) {
    const Thread *thread = argument;
    Random order = {thread->seed * THREADS + (uint64_t)thread->number};
    cudnnHandle_t handles[HANDLES];
    for (int i = 0; i < HANDLES; i++) CALL(cudnnCreate(&handles[i]));
    /* The second handle asks in its own way: of all batch sizes, without Workspace Division, within several limits. */
    CALL(ucudnnSetPolicy(handles[1], UCUDNN_POLICY_WR));
    CALL(ucudnnSetBatchSizePolicy(handles[1], UCUDNN_BATCH_SIZE_ALL));
    for (int problem = 0; problem < thread->problems; problem++) {
        Random shared = {thread->seed + (uint64_t)problem};
        Shape shape = shape_of(problem, &shared);
        int math_type = random_below(&order, MATH_TYPES);
        Kernel kernel;
        kernel_open(&kernel, &shape, &order);
        set_math_type(&kernel, math_type);
        if (pthread_barrier_wait(&next) == PTHREAD_BARRIER_SERIAL_THREAD)
            memset((void *)told, 0, sizeof told);
        pthread_barrier_wait(&next);
        for (int step = 0; step < STEPS; step++) {
            cudnnHandle_t handle = handles[random_below(&order, HANDLES)];
            int algorithm = random_below(&order, ALGORITHMS);
            size_t bytes;
            switch (random_below(&order, 8)) {
                case 0:
                    kernel_close(&kernel);
                    kernel_open(&kernel, &shape, &order);
                    set_math_type(&kernel, math_type);
                    break;
                case 1: set_math_type(&kernel, math_type = random_below(&order, MATH_TYPES)); break;
                case 2: /* a program that asks for all sizes */
                    for (algorithm = 0; algorithm < ALGORITHMS; algorithm++)
                        size_of_workspace(handle, &kernel, math_type, algorithm, &bytes);
                    break;
                case 3:
                case 4:
                    CALL(ucudnnSetDefaultWorkspaceLimit(handles[1], limits_of_get[random_below(&order, 4)]));
                    ask(handle, &kernel, math_type, &order);
                    break;
                default:
                    if (size_of_workspace(handle, &kernel, math_type, algorithm, &bytes))
                        run(handle, &kernel, algorithm, bytes);
            }
        }
        kernel_close(&kernel);
    }
    for (int i = 0; i < HANDLES; i++) CALL(cudnnDestroy(handles[i]));
    return NULL;
}

static void at_random(uint64_t seed, int problems) {
    pthread_t threads[THREADS];
    Thread arguments[THREADS];
    pthread_barrier_init(&next, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        arguments[i] = (Thread){seed, problems, i};
        REQUIRE(pthread_create(&threads[i], NULL, work, &arguments[i]) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("asked %d %d %d\n", questions, runs, promised);
}

/* ---- one thread, in a given order ---- */

enum { LAYERS = 3 };
static cudnnHandle_t handle;
static Random random_state = {7};

static void open_layer(Kernel *kernel, int layer, int more) {
    Shape shape = shape_square((Operation)layer, 16 + more, 16, 14, 16, 3, 1);
    memset((void *)told, 0, sizeof told);
    kernel_open(kernel, &shape, &random_state);
}

static Perf first_within(const Kernel *kernel, size_t limit) {
    Perf results[MOST_RESULTS];
    int count = 0;
    CALL(ucudnnSetDefaultWorkspaceLimit(handle, limit));
    CALL(kernel_get(handle, kernel, MOST_RESULTS, &count, results));
    REQUIRE(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS, "%d", count);
    REQUIRE(results[0].memory <= limit, "%zu bytes within %zu", results[0].memory, limit);
    return results[0];
}

/* Asks for all sizes under two math types. */
static void ask_sizes(const Kernel *kernel) {
    size_t bytes;
    for (int math_type = 1; math_type >= 0; math_type--) {
        set_math_type(kernel, math_type);
        for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            size_of_workspace(handle, kernel, math_type, algorithm, &bytes);
    }
}

/* Runs in the told size of each algorithm, under two math types. */
static void run_all(Kernel *kernel, int times) {
    size_t bytes;
    for (int math_type = 1; math_type >= 0; math_type--) {
        set_math_type(kernel, math_type);
        for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            if (size_of_workspace(handle, kernel, math_type, algorithm, &bytes))
                for (int time = 0; time < times; time++) run(handle, kernel, algorithm, bytes);
    }
}

/* A new problem's result has the size that is told for it next. */
static void check_size(Kernel *kernel, const Perf *result) {
    size_t bytes;
    CALL(cudnnSetConvolutionMathType(kernel->convolution, result->mathType));
    CALL(kernel_workspace(handle, kernel, result->algo, &bytes));
    REQUIRE(bytes == result->memory, "algorithm %d: %zu bytes, %zu in the result", result->algo, bytes, result->memory);
    set_math_type(kernel, 0);
}

/* Runs a result as it was given. */
static void run_result(Kernel *kernel, const Perf *result) {
    CALL(cudnnSetConvolutionMathType(kernel->convolution, result->mathType));
    run(handle, kernel, result->algo, result->memory);
    set_math_type(kernel, 0);
}

/* All layers are asked for before any runs: from then on, no answer about a problem that has not run waits for times. */
static void limits(void) {
    static const size_t all[][2] = {{400000, 700000}, {700000, 400000}, {5000, 1 << 20}, {1 << 20, 0}};
    Kernel kernels[LAYERS][4]; /* another problem for each pair of limits */
    Perf first[LAYERS][4];
    for (int i = 0; i < LAYERS * 4; i++) {
        Kernel *kernel = &kernels[i / 4][i % 4];
        open_layer(kernel, i / 4, i % 4);
        first[i / 4][i % 4] = first_within(kernel, all[i % 4][0]);
        check_size(kernel, &first[i / 4][i % 4]);
        ask_sizes(kernel);
        first_within(kernel, all[i % 4][1]);
        ask_sizes(kernel);
        Perf again = first_within(kernel, all[i % 4][0]);
        REQUIRE(again.algo == first[i / 4][i % 4].algo && again.memory == first[i / 4][i % 4].memory,
                "algorithm %d, %zu bytes; before %d, %zu", again.algo, again.memory, first[i / 4][i % 4].algo,
                first[i / 4][i % 4].memory);
    }
    for (int i = 0; i < LAYERS * 4; i++) {
        memset((void *)told, 0, sizeof told);
        run_result(&kernels[i / 4][i % 4], &first[i / 4][i % 4]);
        run_all(&kernels[i / 4][i % 4], 1);
        kernel_close(&kernels[i / 4][i % 4]);
    }
}

static void sizes_first(void) {
    enum { LIMITS = 5 };
    static const size_t all[LIMITS] = {400000, 700000, 0, 1 << 20, 5000};
    Kernel kernels[LAYERS];
    Perf first[LAYERS][LIMITS];
    for (int layer = 0; layer < LAYERS; layer++) {
        open_layer(&kernels[layer], layer, 0);
        ask_sizes(&kernels[layer]);
        for (int i = 0; i < LIMITS; i++) {
            first[layer][i] = first_within(&kernels[layer], all[i]);
            ask_sizes(&kernels[layer]);
        }
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        memset((void *)told, 0, sizeof told);
        for (int i = 0; i < LIMITS; i++) run_result(&kernels[layer], &first[layer][i]);
        run_all(&kernels[layer], 2);
        kernel_close(&kernels[layer]);
    }
}

/* A process that has run anything does not wait for the answer about a problem that it has not run. */
static void reserved(void) {
    Kernel kernel;
    Perf results[2][MOST_RESULTS];
    int count;
    open_layer(&kernel, 0, 0);
    run(handle, &kernel, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0);
    kernel_close(&kernel);
    CALL(ucudnnSetDefaultWorkspaceLimit(handle, 700000));
    for (int layer = 1; layer < LAYERS; layer++) {
        open_layer(&kernel, layer, 0);
        for (int time = 0; time < 2; time++) {
            CALL(kernel_get(handle, &kernel, MOST_RESULTS, &count, results[time]));
            ask_sizes(&kernel);
            run_all(&kernel, 2);
        }
        printf("reserved %zu %zu\n", results[0]->memory, results[1]->memory);
        kernel_close(&kernel);
    }
}

static void failing(void) {
    Kernel kernels[LAYERS];
    Perf first[LAYERS];
    for (int layer = 0; layer < LAYERS; layer++) {
        open_layer(&kernels[layer], layer, 1);
        first[layer] = first_within(&kernels[layer], 700000);
    }
    char faults[2000] = "";
    static const char *const functions[] = {"Forward", "BackwardData", "BackwardFilter"};
    for (int i = 0; i < 12; i++)
        snprintf(faults + strlen(faults), sizeof faults - strlen(faults), "%scudnnConvolution%s@batch=%d:1+",
                 i ? "," : "", functions[i / 4], 1 << i % 4);
    CALL(hostdnnFail(faults));
    for (int layer = 0; layer < LAYERS; layer++) {
        memset((void *)told, 0, sizeof told);
        run_result(&kernels[layer], &first[layer]);
        run_all(&kernels[layer], 1);
        kernel_close(&kernels[layer]);
    }
    CALL(hostdnnFail(NULL));
}

static void refused(void) {
    Kernel kernel;
    size_t bytes, own;
    open_layer(&kernel, 0, 0);
    CALL(hostdnnFail("cudnnGetConvolutionForwardWorkspaceSize:1=3007"));
    int status = (int)kernel_workspace(handle, &kernel, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes);
    REQUIRE(status == 3007, "status %d", status);
    CALL(kernel_workspace(handle, &kernel, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &own));
    REQUIRE(own > 0, "%zu", own);
    /* An answer that was given needs no cuDNN. */
    CALL(hostdnnFail("cudnnGetConvolutionForwardWorkspaceSize:1+=3007"));
    CALL(kernel_workspace(handle, &kernel, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &bytes));
    REQUIRE(bytes == own, "%zu bytes, %zu before", bytes, own);
    CALL(hostdnnFail(NULL));
    kernel_close(&kernel);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "random") == 0) {
        REQUIRE(count == 4, "how many?");
        at_random(strtoull(arguments[2], NULL, 10), atoi(arguments[3]));
        return 0;
    }
    CALL(cudnnCreate(&handle));
    if (strcmp(what, "limits") == 0) limits();
    else if (strcmp(what, "first") == 0) sizes_first();
    else if (strcmp(what, "reserved") == 0) reserved();
    else if (strcmp(what, "failing") == 0) failing();
    else if (strcmp(what, "refused") == 0) refused();
    else REQUIRE(0, "what?");
    CALL(cudnnDestroy(handle));
    return 0;
}
