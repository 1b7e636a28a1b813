/* Times the inference of recurrent networks through cuDNN's API, in turns in one process and on one device: all four of
 * cuDNN's algorithms, and, if libucudnn.so is preloaded, its choice in place of the best of them.
 *
 *     gcc -std=c99 -O2 -I INCLUDE -I UCUDNN_INCLUDE examples/rnn_bench.c examples/rnn_bench/?*.c \
 *         examples/convnet/memory.c -lcudnn -ldl -lm
 *
 * A handle with the policy off runs cuDNN alone; another handle runs libucudnn.so. If the process's cuDNN is hostdnn,
 * all of it runs on the CPU, without CUDA graphs; hostdnn's algorithms are all the same. */
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnn_bench/contender.h"
#include "rnn_bench/device.h"
#include "rnn_bench/options.h"
#include "rnn_bench/ours.h"
#include "rnn_bench/reference.h"

enum { CONTENDERS = ALGORITHMS + 1, OURS = ALGORITHMS, STREAM = 0, GRAPH, MODES };
static const char *const MODE_NAMES[MODES] = {"stream", "graph"};

/* A contender's turn: untimed runs first, then at least this many timed runs; a turn ends after TURN_MILLISECONDS. */
enum { WARM_UP = 3, LEAST_SAMPLES = 3 };
static const double TURN_MILLISECONDS = 30;

struct bench {
    struct options options;
    cudnnHandle_t plain, with; /* `with` is NULL if libucudnn.so is not preloaded */
};

/* The measurements of a contender. */
struct found {
    void *graph;
    double *milliseconds[MODES]; /* each round's median; NULL if the contender does not run in this mode */
    double error[MODES];         /* against double precision; NaN for NaN results, or if no row was compared */
};

static int run(const void *contender) { return contender_run(contender) != CUDNN_STATUS_SUCCESS; }

static struct work work_of(const struct contender *contender) { return (struct work){run, contender}; }

static void check_ran(const struct contender *c, double milliseconds) {
    if (milliseconds >= 0) return;
    fprintf(stderr, "rnn_bench: %s ran at first, and then not\n", c->name);
    exit(1);
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static double turn(const struct bench *b, const struct contender *c, struct work work) {
    int most = b->options.samples, count = 0;
    double *times = host_memory((size_t)most * sizeof *times), taken = 0;
    for (int i = 0; i < WARM_UP && taken < TURN_MILLISECONDS; ++i) taken += device_time(work);
    for (taken = 0; count < most && (count < LEAST_SAMPLES || taken < TURN_MILLISECONDS); ++count) {
        times[count] = device_time(work);
        check_ran(c, times[count]);
        taken += times[count];
    }
    double middle = median(times, count);
    free(times);
    return middle;
}

/* Returns cuDNN's fastest algorithm by one turn each; -1 if cuDNN runs none. */
static int fastest(const struct bench *b, const struct contender *contenders) {
    int best = -1;
    double least = 0;
    for (int i = 0; i < ALGORITHMS; ++i) {
        if (contenders[i].refused[0]) continue;
        double time = turn(b, &contenders[i], work_of(&contenders[i]));
        if (best < 0 || time < least) best = i, least = time;
    }
    return best;
}

/* Runs `c` until its decision is reported; returns the report's line, or NULL if that took too long. */
static const char *settle(const struct bench *b, const struct contender *c, int *calls) {
    double begin = now();
    const char *decision = ours_decision(); /* the first call may have decided */
    for (*calls = 1; !decision && now() - begin < b->options.settle; ++*calls) {
        check_ran(c, device_time(work_of(c)));
        decision = ours_decision();
    }
    return decision;
}

static void measure(const struct bench *b, const struct contender *contenders, int count, struct found *found) {
    int rounds = b->options.rounds;
    for (int i = 0; i < count; ++i) {
        if (contenders[i].refused[0]) continue;
        found[i].graph = graph_of(work_of(&contenders[i]));
        for (int mode = 0; mode < (found[i].graph ? MODES : 1); ++mode)
            found[i].milliseconds[mode] = host_memory((size_t)rounds * sizeof(double));
    }
    for (int round = 0; round < rounds; ++round)
        for (int at = 0; at < count; ++at) {
            int i = round % 2 ? count - 1 - at : at;
            const struct work works[MODES] = {work_of(&contenders[i]), graph_work(found[i].graph)};
            for (int mode = 0; mode < MODES; ++mode)
                if (found[i].milliseconds[mode])
                    found[i].milliseconds[mode][round] = turn(b, &contenders[i], works[mode]);
        }
}

/* Compares each contender's results, on poisoned memory, with the reference. */
static void compare(const struct data *data, const struct contender *contenders, int count, struct found *found) {
    struct reference reference = reference_new(data);
    void *results = host_memory(data_results_bytes(data));
    for (int i = 0; i < count; ++i) {
        const struct work works[MODES] = {work_of(&contenders[i]), graph_work(found[i].graph)};
        for (int mode = 0; mode < MODES; ++mode) {
            found[i].error[mode] = NAN;
            if (!found[i].milliseconds[mode] || reference.rows == 0) continue;
            data_poison_results(data);
            check_ran(&contenders[i], device_time(works[mode]));
            data_read_results(data, results);
            found[i].error[mode] = reference_error(&reference, data, results);
        }
    }
    free(results);
    printf(", \"rows_checked\": %d", reference.rows);
    reference_free(&reference);
}

/* JSON has no NaN and no infinity. */
static void print_error(const char *name, double error) {
    if (isfinite(error))
        printf(", \"%s\": %.4g", name, error);
    else
        printf(", \"%s\": null", name);
}

static void print_contender(const struct contender *c, const struct found *found, int rounds) {
    printf("{\"name\": \"%s\"", c->name);
    if (c->refused[0]) printf(", \"refused\": \"%s\"", c->refused);
    for (int mode = 0; mode < MODES; ++mode) {
        if (!found->milliseconds[mode]) continue;
        printf(", \"%s_ms\": [", MODE_NAMES[mode]);
        for (int i = 0; i < rounds; ++i) printf("%s%.6f", i ? ", " : "", found->milliseconds[mode][i]);
        fputs("]", stdout);
        print_error(mode == STREAM ? "stream_error" : "graph_error", found->error[mode]);
    }
    fputs("}", stdout);
}

static int time_all(const struct bench *b, const struct data *data) {
    struct contender contenders[CONTENDERS];
    struct found found[CONTENDERS] = {{0}};
    int damage = 0, count = ALGORITHMS;
    for (int i = 0; i < ALGORITHMS; ++i)
        contender_open(&contenders[i], ALGORITHM_NAMES[i], b->plain, (cudnnRNNAlgo_t)i, data);
    int best = fastest(b, contenders);
    if (b->with && best >= 0) {
        ours_mark();
        contender_open(&contenders[count++], "ours", b->with, (cudnnRNNAlgo_t)best, data);
        if (contenders[OURS].refused[0]) {
            fprintf(stderr, "rnn_bench: ours is refused what cuDNN takes: %s\n", contenders[OURS].refused);
            exit(1);
        }
        int calls;
        const char *decision = settle(b, &contenders[OURS], &calls);
        printf(", \"over\": \"%s\", \"calls_to_settle\": %d, \"decision\": %s", ALGORITHM_NAMES[best], calls,
               decision ? decision : "null");
    }
    measure(b, contenders, count, found);
    compare(data, contenders, count, found);
    fputs(", \"contenders\": [", stdout);
    for (int i = 0; i < count; ++i) {
        if (i) fputs(", ", stdout);
        print_contender(&contenders[i], &found[i], b->options.rounds);
    }
    fputs("]", stdout);
    for (int i = 0; i < count; ++i) {
        damage |= contender_check(&contenders[i]);
        graph_free(found[i].graph);
        for (int mode = 0; mode < MODES; ++mode) free(found[i].milliseconds[mode]);
        contender_close(&contenders[i]);
    }
    return damage;
}

/* Runs libucudnn.so's choice repeatedly on poisoned results, and counts the results that differ from the first. */
static int repeat(const struct bench *b, const struct data *data) {
    struct contender c;
    ours_mark();
    contender_open(&c, "ours", b->with, CUDNN_RNN_ALGO_STANDARD, data);
    if (c.refused[0]) {
        fprintf(stderr, "rnn_bench: %s\n", c.refused);
        exit(1);
    }
    int calls, different = 0;
    const char *decision = settle(b, &c, &calls);
    printf(", \"calls_to_settle\": %d, \"decision\": %s", calls, decision ? decision : "null");
    size_t bytes = data_results_bytes(data);
    void *first = host_memory(bytes), *results = host_memory(bytes);
    for (int i = 0; i < b->options.repeat; ++i) {
        data_poison_results(data);
        check_ran(&c, device_time(work_of(&c)));
        data_read_results(data, i ? results : first);
        different += i && memcmp(first, results, bytes);
    }
    struct reference reference = reference_new(data);
    printf(", \"rows_checked\": %d", reference.rows);
    if (reference.rows > 0) print_error("error", reference_error(&reference, data, first));
    reference_free(&reference);
    printf(", \"runs\": %d, \"different\": %d", b->options.repeat, different);
    free(first), free(results);
    int damage = contender_check(&c);
    contender_close(&c);
    return damage;
}

static int bench_network(const struct bench *b, const char *text) {
    struct network n = network_read(text, b->options.steps);
    struct data data;
    data_open(&data, &n);
    printf("{\"network\": \"%s\", \"cell\": \"%s\", \"type\": \"%s\", ", text, n.cell_name, n.type_name);
    printf("\"hidden\": %d, \"batch\": %d, \"steps\": %d, ", n.hidden, n.batch, n.steps);
    printf("\"device\": \"%s\", \"cudnn\": %zu", device_name(), cudnnGetVersion());
    int damage = b->options.repeat ? repeat(b, &data) : time_all(b, &data);
    damage |= data_check(&data);
    puts("}");
    fflush(stdout);
    data_close(&data);
    return damage;
}

static cudnnHandle_t handle_on(cudaStream_t stream) {
    cudnnHandle_t handle;
    cudnnStatus_t status = cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(handle, stream);
    if (status == CUDNN_STATUS_SUCCESS) return handle;
    fprintf(stderr, "rnn_bench: no cuDNN handle: %s\n", cudnnGetErrorString(status));
    exit(1);
}

int main(int argc, char **argv) {
    struct bench b = {.options = options_read(argc, argv)};
    memory_open();
    cudaStream_t stream = device_open();
    int has_ours = ours_open(), damage = 0;
    if (b.options.repeat && !has_ours) {
        fputs("rnn_bench: --repeat runs ours: preload libucudnn.so\n", stderr);
        return 2;
    }
    b.plain = handle_on(stream);
    ours_off(b.plain);
    if (has_ours) b.with = handle_on(stream);
    double begin = now();
    for (int i = 0; i < b.options.network_count && now() - begin < b.options.seconds; ++i)
        damage |= bench_network(&b, b.options.networks[i]);
    cudnnDestroy(b.plain);
    if (b.with) cudnnDestroy(b.with);
    return damage ? 1 : 0;
}
