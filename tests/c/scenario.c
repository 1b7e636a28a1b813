/* Trains networks by a scenario, step by step, and checks every result. It knows only cudnn.h; built with
 * `-DSTEERED` it also takes steps that steer the library by ucudnn.h.
 *
 * scenario STEP...
 *
 *   open=BATCH     opens a network and selects it; random=SEED: one of any shapes; use=I: selects the I-th again
 *   graph          networks opened from now on ask and run by the graph API
 *   ask=HOW        asks for all problems: never, fixed, get, find, findex; prints "told ALGORITHM BYTES" for each
 *   again          asks as before: the answers must be the same
 *   lazily=HOW     from now on each problem is asked for just before it runs
 *   anew           from now on filter gradients are allocated anew in each iteration
 *   shared         the last layer uses the first one's filter
 *   threads=N      from now on N threads train at once, each with its own handle
 *   streams=N      from now on each iteration uses the next of N streams
 *   train=N        trains for N iterations
 *   divided=L,N    trains until the report says that L layers or more share the total, then for N iterations; ignores
 *                  report lines from before the last network was opened or the total was set
 *   evaluate=N     runs N forward passes
 *   report=PATH    where the report is
 *   named          from now on layers are named; steering.h has more steps
 *   leave          the process ends, whatever is under way
 *   fork           a child runs the remaining steps, and the process ends when the child does
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allocations.h"
#include "network.h"
#ifdef STEERED
#include "steering.h"
#endif

enum { MOST_NETWORKS = 4, MOST_THREADS = 8, PATIENCE = 60 /* seconds */ };
/* With this many, Winograd algorithms with workspace are fastest by hostdnn's estimate. */
enum { CHANNELS = 20 };

static struct {
    cudnnHandle_t handle;
    Network networks[MOST_NETWORKS];
    Network *network; /* the selected network */
    int count;
    Ask ask;
    int by_graph, lazily, anew, threads, streams, named;
    const char *report;
    long report_start; /* where the lines that count begin */
} program = {.threads = 1, .streams = 1};

static void name_layer(cudnnHandle_t handle, const Use *use) {
#ifdef STEERED
    if (program.named) CALL(ucudnnSetLayerId(handle, (uint64_t)use->layer));
#else
    (void)handle, (void)use;
#endif
}

static void ask(cudnnHandle_t handle, Use *use) {
    name_layer(handle, use);
    use_ask(handle, use, program.ask);
}

/* ---- training ---- */

static void run(cudnnHandle_t handle, Use *use) {
    if (program.lazily) ask(handle, use);
    name_layer(handle, use);
    use_run(handle, use);
}

static void forward(cudnnHandle_t handle, Network *network) {
    for (int i = 0; i < network->count; i += 3) run(handle, &network->uses[i]);
}

static void iterate(cudnnHandle_t handle, Network *network, int iteration) {
    if (program.anew) network_renew_gradients(network, iteration);
    if (program.streams > 1) {
        static char streams[8]; /* hostdnn does not look into streams */
        CALL(cudnnSetStream(handle, (cudaStream_t)(void *)&streams[iteration % program.streams]));
    }
    forward(handle, network);
    for (int i = network->count - 3; i >= 0; i -= 3) {
        run(handle, &network->uses[i + 2]);
        run(handle, &network->uses[i + 1]);
    }
}

/* The number of layers of the last division that counts; 0 if there is none. */
static int layers_divided(void) {
    REQUIRE(program.report, "report=PATH first");
    FILE *file = fopen(program.report, "r");
    if (!file) return 0;
    REQUIRE(fseek(file, program.report_start, SEEK_SET) == 0, "%s", program.report);
    int layers = 0;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) > 0) {
        if (!strstr(line, "\"event\":\"divided\"") || !strchr(line, '\n')) continue;
        layers = 0;
        for (const char *at = line; (at = strstr(at, "\"layer\":")); at++) layers++;
    }
    free(line);
    fclose(file);
    return layers;
}

/* Ignores all lines that the report has so far. */
static void forget_report(void) {
    FILE *file = program.report ? fopen(program.report, "r") : NULL;
    if (!file) return;
    REQUIRE(fseek(file, 0, SEEK_END) == 0, "%s", program.report);
    program.report_start = ftell(file);
    fclose(file);
}

/* Of the processors: a busy machine does not spend them. */
static time_t seconds(void) {
    struct timespec now;
    REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0, "no clock");
    return now.tv_sec;
}

/* Ends once at least `layers` layers share the total and `iterations` more have run. */
static struct {
    int layers, iterations, ended;
    time_t deadline;
    pthread_barrier_t together;
} training;

/* Thread 0 decides when training ends; the others learn it at the barrier. */
static void train_until_end(cudnnHandle_t handle, Network *network, int thread) {
    for (int i = 0, left = training.iterations; !training.ended; i++) {
        iterate(handle, network, i);
        pthread_barrier_wait(&training.together);
        if (thread == 0) {
            if (training.layers > 0 && layers_divided() >= training.layers) training.layers = 0;
            if (training.layers == 0) training.ended = left-- == 0;
            REQUIRE(seconds() < training.deadline, "not divided among %d layers in %d iterations", training.layers, i);
        }
        pthread_barrier_wait(&training.together);
    }
}

static void *train_thread(void *number) {
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Network *own = malloc(sizeof *own);
    REQUIRE(own, "no memory");
    network_copy(own, program.network);
    train_until_end(handle, own, (int)(intptr_t)number);
    network_forget_copy(own);
    free(own);
    CALL(cudnnDestroy(handle));
    return NULL;
}

static void train(int layers, int iterations) {
    REQUIRE(iterations > 0, "how many?");
    training.layers = layers, training.iterations = iterations - 1, training.ended = 0;
    training.deadline = seconds() + PATIENCE;
    pthread_t threads[MOST_THREADS];
    REQUIRE(pthread_barrier_init(&training.together, NULL, (unsigned)program.threads) == 0, "no barrier");
    if (program.threads == 1) {
        train_until_end(program.handle, program.network, 0);
    } else {
        for (int i = 0; i < program.threads; i++)
            REQUIRE(pthread_create(&threads[i], NULL, train_thread, (void *)(intptr_t)i) == 0, "no thread");
        for (int i = 0; i < program.threads; i++) REQUIRE(pthread_join(threads[i], NULL) == 0, "not joined");
    }
    pthread_barrier_destroy(&training.together);
}

/* ---- asking ---- */

static void ask_all(void) {
    for (int i = 0; i < program.network->count; i++) {
        Use *use = &program.network->uses[i];
        ask(program.handle, use);
        printf("told %d %zu\n", use->algorithm, use->told);
    }
}

static void ask_again(void) {
    for (int i = 0; i < program.network->count; i++) {
        Use *use = &program.network->uses[i];
        int algorithm = use->algorithm;
        size_t told = use->told;
        ask(program.handle, use);
        REQUIRE(use->algorithm == algorithm && use->told == told, "kernel %d: algorithm %d in %zu bytes, now %d in %zu",
                i, algorithm, told, use->algorithm, use->told);
    }
}

/* ---- steps ---- */

static void go_on_in_child(void) {
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0, "no child");
    if (child == 0) {
        alarm(PATIENCE);
        return;
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0, "the child's status is %x", status);
    _exit(0);
}

/* Opens the network for a mini-batch, or a random one if `batch` is 0. */
static void open_network(int batch, uint64_t seed) {
    REQUIRE(program.count < MOST_NETWORKS, "too many networks");
    forget_report();
    program.network = &program.networks[program.count++];
    if (batch) network_open(program.network, batch, CHANNELS);
    else network_random(program.network, seed);
    if (program.by_graph) network_by_graph(program.network);
}

static void step(const char *step) {
    const char *equals = strchr(step, '='), *value = equals ? equals + 1 : "";
    size_t length = equals ? (size_t)(equals - step) : strlen(step);
    int number = atoi(value);
#define IS(name) (length == sizeof(name) - 1 && strncmp(step, name, length) == 0)
    if (IS("open")) open_network(number, 0);
    else if (IS("random")) open_network(0, strtoull(value, NULL, 10));
    else if (IS("graph")) program.by_graph = 1;
    else if (IS("use")) program.network = &program.networks[number];
    else if (IS("ask")) program.ask = ask_named(value), ask_all();
    else if (IS("again")) ask_again();
    else if (IS("lazily")) program.ask = ask_named(value), program.lazily = 1;
    else if (IS("anew")) program.anew = 1;
    else if (IS("shared")) network_share_filter(program.network);
    else if (IS("threads")) program.threads = number;
    else if (IS("streams")) program.streams = number;
    else if (IS("train")) train(0, number);
    else if (IS("divided")) {
        const char *comma = strchr(value, ',');
        REQUIRE(comma, "divided=LAYERS,N");
        train(number, atoi(comma + 1));
    } else if (IS("evaluate")) {
        while (number-- > 0) forward(program.handle, program.network);
    } else if (IS("report")) program.report = value;
    else if (IS("leave")) exit(0);
    else if (IS("fork")) go_on_in_child();
#ifdef STEERED
    else if (IS("named")) program.named = 1;
    else if (IS("total")) forget_report(), set_total(program.handle, strtoull(value, NULL, 10));
    else if (steer(program.handle, step, value)) return;
#endif
    else REQUIRE(0, "no such step: %s", step);
#undef IS
}

int main(int count, char **arguments) {
    CALL(cudnnCreate(&program.handle));
    for (int i = 1; i < count; i++) step(arguments[i]);
    for (int i = 0; i < program.count; i++) network_close(&program.networks[i]);
    CALL(cudnnDestroy(program.handle));
    printf("peak %zu\n", allocations_peak());
    puts("ended");
    return 0;
}
