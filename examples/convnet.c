/* Trains the convolutions of a network through cuDNN's legacy API, and knows nothing but cudnn.h.
 *
 * It behaves as Caffe does: it first asks for the algorithms of all layers, under a limit on the workspace, then for
 * the workspace sizes, allocates, and only then runs: forward through the layers, and backward through them in reverse,
 * filter gradient before data gradient. It prints the time of every kernel and a checksum of every output. Layers are
 * not chained: each has its own random operands, so that an error stays in its layer.
 *
 *     gcc -std=c99 -O2 -I INCLUDE examples/convnet.c examples/convnet/?*.c -lcudnn -ldl -lm
 *
 * If the process's cuDNN is hostdnn, it works on host memory, else on the GPU. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "convnet/convolution.h"
#include "convnet/data.h"
#include "convnet/memory.h"
#include "convnet/network.h"
#include "convnet/options.h"

/* One direction of one layer: its workspace and its measurements. */
struct step {
    struct layer *layer;
    enum direction direction;
    struct buffer workspace;
    double *milliseconds; /* one for each timed iteration */
    double median;
    struct checksum checksum;
};

/* The run: options, network, and totals. */
struct training {
    struct options options;
    cudnnHandle_t handle;
    struct network network;
    struct layer *layers;
    struct step *steps; /* in the order in which they run */
    size_t step_count;
    struct buffer shared; /* the workspace of all steps, if they share one */
    size_t workspace_total;
    double asking, total; /* milliseconds */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory) return memory;
    fputs("convnet: out of host memory\n", stderr);
    exit(1);
}

static void create_layers(struct training *t) {
    size_t count = t->network.layer_count;
    t->layers = allocate(count, sizeof *t->layers);
    for (size_t i = 0; i < count; ++i) {
        struct layer *l = &t->layers[i];
        layer_create(l, &t->network.layers[i], t->options.type, t->options.format, t->options.math);
        const struct buffer operands[] = {l->x, l->w, l->dy};
        for (unsigned o = 0; o < 3; ++o) data_fill(operands[o], l->type, t->options.seed, (unsigned)i * 3 + o);
    }
}

static void add_step(struct training *t, struct layer *layer, enum direction direction) {
    struct step *step = &t->steps[t->step_count++];
    step->layer = layer;
    step->direction = direction;
    step->milliseconds = allocate((size_t)t->options.iterations, sizeof(double));
}

static void order_steps(struct training *t) {
    size_t count = t->network.layer_count;
    t->steps = allocate(count * DIRECTIONS, sizeof *t->steps);
    for (size_t i = 0; i < count; ++i) add_step(t, &t->layers[i], FORWARD);
    for (size_t i = count; i-- > 0;) {
        add_step(t, &t->layers[i], BACKWARD_FILTER);
        if (i > 0 || !t->options.skip_first_backward_data) add_step(t, &t->layers[i], BACKWARD_DATA);
    }
}

/* With --turns: one line for the driver, which reads it at once. */
static void tell(const struct training *t, const char *done, const struct step *step) {
    if (!t->options.turns) return;
    printf("turn: %s", done);
    if (step) printf(" %s %s", step->layer->shape->name, DIRECTION_NAMES[step->direction]);
    putchar('\n');
    fflush(stdout);
}

/* With --turns: waits until the driver lets the next iteration run. */
static void wait_for_turn(const struct training *t) {
    if (!t->options.turns) return;
    int character;
    do character = getchar();
    while (character != '\n' && character != EOF);
    if (character != EOF) return;
    fputs("convnet: standard input ended before the last iteration\n", stderr);
    exit(1);
}

/* With --turns: waits until the driver closes standard input. Reading and writing results would disturb another program's
 * turn. */
static void wait_for_end(const struct training *t) {
    if (t->options.turns) while (getchar() != EOF) {}
}

/* Asks for all layers' algorithms, then for all sizes: a network's planner sees all layers before one runs. */
static void choose_algorithms(struct training *t) {
    double start = now();
    if (t->options.query == QUERY_NONE) {
        for (size_t i = 0; i < t->step_count; ++i) {
            struct kernel *kernel = &t->steps[i].layer->kernels[t->steps[i].direction];
            kernel->algorithm = 1;
            kernel->workspace_bytes = t->options.limit;
        }
        return;
    }
    for (size_t i = 0; i < t->step_count; ++i) {
        kernel_choose(t->handle, t->steps[i].layer, t->steps[i].direction, t->options.query, t->options.limit);
        tell(t, "chose", &t->steps[i]);
    }
    for (size_t i = 0; i < t->step_count; ++i) kernel_size(t->handle, t->steps[i].layer, t->steps[i].direction);
    memory_wait();
    t->asking = now() - start;
}

static void allocate_workspaces(struct training *t) {
    size_t most = 0;
    for (size_t i = 0; i < t->step_count; ++i) {
        struct step *step = &t->steps[i];
        size_t bytes = step->layer->kernels[step->direction].workspace_bytes;
        if (bytes > most) most = bytes;
        if (t->options.shared_workspace) continue;
        step->workspace = buffer_new(bytes, "a workspace");
        t->workspace_total += bytes;
    }
    if (!t->options.shared_workspace) return;
    t->shared = buffer_new(most, "the shared workspace");
    t->workspace_total = most;
    for (size_t i = 0; i < t->step_count; ++i) {
        t->steps[i].workspace = t->shared;
        /* A program that has asked passes the reported size, however large the buffer is. */
        t->steps[i].workspace.bytes = t->steps[i].layer->kernels[t->steps[i].direction].workspace_bytes;
        if (t->steps[i].workspace.bytes == 0) t->steps[i].workspace.data = NULL;
    }
}

static void run_step(struct training *t, struct step *step) {
    struct kernel *kernel = &step->layer->kernels[step->direction];
    cudnnStatus_t status = kernel_run(t->handle, step->layer, step->direction, step->workspace);
    if (status != CUDNN_STATUS_SUCCESS && t->options.query == QUERY_NONE && kernel->algorithm == 1) {
        kernel->algorithm = 0;
        status = kernel_run(t->handle, step->layer, step->direction, step->workspace);
    }
    memory_wait();
    if (status == CUDNN_STATUS_SUCCESS) return;
    fprintf(stderr, "convnet: %s %s with algorithm %d (%s) and %zu bytes of workspace: %s\n",
            step->layer->shape->name, DIRECTION_NAMES[step->direction], kernel->algorithm,
            algorithm_name(step->direction, kernel->algorithm), step->workspace.bytes, cudnnGetErrorString(status));
    exit(1);
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(const double *values, int count) {
    double *sorted = allocate((size_t)count, sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return middle;
}

static void train(struct training *t) {
    tell(t, "ready", NULL);
    for (int iteration = -t->options.warmup; iteration < t->options.iterations; ++iteration) {
        wait_for_turn(t);
        for (size_t i = 0; i < t->step_count; ++i) {
            struct step *step = &t->steps[i];
            /* An element that the last iteration fails to write must not keep an earlier result. */
            if (iteration == t->options.iterations - 1) buffer_poison(layer_result(step->layer, step->direction));
            memory_wait();
            double start = now();
            run_step(t, step);
            if (iteration >= 0) step->milliseconds[iteration] = now() - start;
        }
        tell(t, "ran", NULL);
    }
    wait_for_end(t);
    for (size_t i = 0; i < t->step_count; ++i) {
        t->steps[i].median = median(t->steps[i].milliseconds, t->options.iterations);
        t->total += t->steps[i].median;
    }
}

/* Reads all results; returns -1 if one is not finite, or if something wrote outside of a buffer. */
static int inspect(struct training *t) {
    int damage = buffer_check(t->shared, "the shared workspace");
    for (size_t i = 0; i < t->step_count; ++i) {
        struct step *step = &t->steps[i];
        const char *layer = step->layer->shape->name, *direction = DIRECTION_NAMES[step->direction];
        struct buffer result = layer_result(step->layer, step->direction);
        char what[NAME_LENGTH + 32];
        snprintf(what, sizeof what, "%s %s's workspace", layer, direction);
        if (!t->options.shared_workspace) damage |= buffer_check(step->workspace, what);
        snprintf(what, sizeof what, "%s %s's result", layer, direction);
        damage |= buffer_check(result, what);
        step->checksum = data_checksum(result, step->layer->type);
        if (step->checksum.not_finite) {
            fprintf(stderr, "convnet: %s: %zu elements are not finite\n", what, step->checksum.not_finite);
            damage = -1;
        }
        if (!t->options.dump) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.%s.raw", t->options.dump, layer, direction);
        data_dump(result, path);
    }
    return damage;
}

static double mebibytes(size_t bytes) { return (double)bytes / (1 << 20); }

static void print_table(const struct training *t) {
    const struct options *o = &t->options;
    printf("%s, batch %d, %s, %s, %s math, %s memory, cuDNN %zu, limit ", t->network.name, t->layers[0].shape->n, o->type_name,
           o->format_name, o->math_name, memory_kind(), cudnnGetVersion());
    if (o->limit == NO_LIMIT)
        puts("none");
    else
        printf("%.2f MiB\n", mebibytes(o->limit));
    printf("%-20s %-3s %-24s %14s %12s %16s %16s\n", "layer", "", "algorithm", "workspace MiB", "median ms", "sum",
           "norm");
    for (size_t i = 0; i < t->step_count; ++i) {
        const struct step *s = &t->steps[i];
        const struct kernel *kernel = &s->layer->kernels[s->direction];
        char algorithm[48];
        snprintf(algorithm, sizeof algorithm, "%d %s", kernel->algorithm,
                 algorithm_name(s->direction, kernel->algorithm));
        printf("%-20s %-3s %-24s %14.2f %12.3f %16.8g %16.8g\n", s->layer->shape->name, DIRECTION_NAMES[s->direction],
               algorithm, mebibytes(s->workspace.bytes), s->median, s->checksum.sum, s->checksum.norm);
    }
    printf("total: %.3f ms an iteration, %.2f MiB of workspace (%s), %.2f MiB allocated at the peak; asking took %.1f "
           "ms\n",
           t->total, mebibytes(t->workspace_total), o->shared_workspace ? "shared" : "per layer",
           mebibytes(memory_peak()), t->asking);
}

static void write_step(FILE *f, const struct step *s, int iterations) {
    const struct layer_shape *l = s->layer->shape;
    const struct kernel *kernel = &s->layer->kernels[s->direction];
    fprintf(f, "    {\"layer\": \"%s\", \"direction\": \"%s\", ", l->name, DIRECTION_NAMES[s->direction]);
    fprintf(f, "\"x\": [%d, %d, %d, %d], \"w\": [%d, %d, %d, %d], \"y\": [%d, %d, %d, %d], ", l->n, l->c, l->h, l->w,
            l->k, l->c / l->groups, l->r, l->s, l->n, l->k, s->layer->out_h, s->layer->out_w);
    fprintf(f, "\"pad\": [%d, %d], \"stride\": [%d, %d], \"dilation\": [%d, %d], \"groups\": %d, ", l->pad_h,
            l->pad_w, l->stride_h, l->stride_w, l->dilation_h, l->dilation_w, l->groups);
    fprintf(f, "\"algorithm\": %d, \"algorithm_name\": \"%s\", \"workspace\": %zu, ", kernel->algorithm,
            algorithm_name(s->direction, kernel->algorithm), s->workspace.bytes);
    fprintf(f, "\"median_ms\": %.6f, \"times_ms\": [", s->median);
    for (int i = 0; i < iterations; ++i) fprintf(f, "%s%.6f", i ? ", " : "", s->milliseconds[i]);
    if (s->checksum.not_finite)
        fprintf(f, "], \"sum\": null, \"norm\": null}");
    else
        fprintf(f, "], \"sum\": %.17g, \"norm\": %.17g}", s->checksum.sum, s->checksum.norm);
}

/* The most bytes of memory that the process had. getrusage would also count what its parent had. */
static long long resident_peak(void) {
    long long kibibytes = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %lld", &kibibytes) != 1) {}
    if (status) fclose(status);
    return kibibytes * 1024;
}

static void write_json(const struct training *t) {
    const struct options *o = &t->options;
    FILE *f = fopen(o->json, "w");
    if (!f) {
        perror(o->json);
        exit(1);
    }
    fprintf(f, "{\n  \"network\": \"%s\", \"cudnn\": %zu, \"memory\": \"%s\", ", t->network.name, cudnnGetVersion(),
            memory_kind());
    fprintf(f, "\"type\": \"%s\", \"format\": \"%s\", \"math\": \"%s\", \"query\": \"%s\", \"shared_workspace\": %s, ",
            o->type_name, o->format_name, o->math_name, o->query_name, o->shared_workspace ? "true" : "false");
    if (o->limit == NO_LIMIT)
        fputs("\"limit\": null,\n", f);
    else
        fprintf(f, "\"limit\": %zu,\n", o->limit);
    fprintf(f, "  \"total_ms\": %.6f, \"asking_ms\": %.6f, \"workspace_total\": %zu, ", t->total, t->asking,
            t->workspace_total);
    fprintf(f, "\"allocated_peak\": %zu, \"resident_peak\": %lld,\n  \"kernels\": [\n", memory_peak(),
            resident_peak());
    for (size_t i = 0; i < t->step_count; ++i) {
        write_step(f, &t->steps[i], o->iterations);
        fputs(i + 1 < t->step_count ? ",\n" : "\n", f);
    }
    fputs("  ]\n}\n", f);
    if (fclose(f)) {
        perror(o->json);
        exit(1);
    }
}

static void destroy(struct training *t) {
    for (size_t i = 0; i < t->step_count; ++i) {
        if (!t->options.shared_workspace) buffer_free(&t->steps[i].workspace);
        free(t->steps[i].milliseconds);
    }
    buffer_free(&t->shared);
    for (size_t i = 0; i < t->network.layer_count; ++i) layer_destroy(&t->layers[i]);
    free(t->steps);
    free(t->layers);
    network_free(&t->network);
    CUDNN_CHECK(cudnnDestroy(t->handle));
}

int main(int argc, char **argv) {
    struct training t = {.options = options_read(argc, argv)};
    if (network_read(t.options.network, t.options.batch, t.options.layers, &t.network)) return 1;
    memory_open();
    CUDNN_CHECK(cudnnCreate(&t.handle));
    create_layers(&t);
    order_steps(&t);
    choose_algorithms(&t);
    allocate_workspaces(&t);
    train(&t);
    int damage = inspect(&t);
    print_table(&t);
    if (t.options.json) write_json(&t);
    destroy(&t);
    return damage ? 1 : 0;
}
