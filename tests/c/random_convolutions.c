/* Random convolutions, asked for in all the ways that programs ask, each run several times.
 *
 * random_convolutions SEED CASES record|compare FILE [MOST]
 *
 * Prints a line for each case: its shape, how it asks, its algorithm and the recorded one, executions, how many of them
 * equal the recorded result bit for bit, the largest error and its tolerance. Every execution's result is compared with
 * double precision. `record` keeps each case's last result in FILE; `compare` compares with FILE. MOST is the external
 * limit in bytes; without it, a first result needs no more than the recorded run's. */
#include <string.h>

#include "kernel.h"

/* ONLY: never, by the one algorithm with which cuDNN runs the call. */
typedef enum { GET, GET_WITHIN, FIND, FIND_EX, NEVER, LATE, ONLY } Asking;
static const char *const names[] = {"get", "get-within", "find", "find-ex", "never", "late", "only"};
enum { ROUNDS = 50 };

typedef struct {
    Kernel kernel;
    Asking asking;
    size_t limit; /* the program's own limit */
    int sets_math_type, algorithm, executions;
    Guarded workspace;
    /* of the recorded run */
    int recorded_algorithm;
    size_t recorded_workspace;
    unsigned char *recorded;
    int equal; /* executions whose results equal the recorded one bit for bit */
    double error;
} Case;

static cudnnHandle_t handle;
static size_t most = SIZE_MAX;
static int comparing;

static int chance(Random *random, int percent) { return random_below(random, 100) < percent; }

static Shape random_shape(Random *random) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE,
                                            CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    static const int filters[] = {1, 2, 3, 3, 3, 3, 4, 5, 5};
    /* Both have one sign: where a sum cancels out, only its rounding errors are left. */
    static const double scales[][2] = {{1, 0}, {1, 0}, {1, 1}, {0.5, 0}, {-2, -0.5}, {1.5, 2}};
    Shape s = {0};
    do {
        s.operation = (Operation)random_below(random, 4);
        s.type = types[random_below(random, 6)];
        s.spatial = chance(random, 15) ? 3 : 2;
        s.groups = chance(random, 25) ? 2 + random_below(random, 3) : 1;
        int depthwise = s.groups > 1 && chance(random, 40), largest = s.spatial == 3 ? 6 : 14;
        s.x[0] = 1 + random_below(random, 12);
        s.w[1] = depthwise ? 1 : 1 + random_below(random, 8);
        s.x[1] = s.w[1] * s.groups;
        s.w[0] = s.groups * (depthwise ? 1 : 1 + random_below(random, 8));
        for (int i = 0; i < 3; i++) {
            int absent = i == 0 && s.spatial == 2;
            s.x[i + 2] = absent ? 1 : 1 + random_below(random, largest);
            s.w[i + 2] = absent ? 1 : filters[random_below(random, 9)];
            s.pad[i] = absent ? 0 : random_below(random, 3);
            s.stride[i] = absent || chance(random, 75) ? 1 : 2 + random_below(random, 2);
            s.dilation[i] = absent || chance(random, 85) ? 1 : 2;
        }
        if (chance(random, 50)) s.w[4] = s.w[3]; /* most filters are square */
        s.flip = chance(random, 30);
        const double *scale = scales[random_below(random, 6)];
        s.alpha = scale[0];
        s.beta = scale[1];
        if (s.operation == FUSED) { /* alpha and beta get the bias's sign */
            s.alpha = s.alpha < 0 ? -s.alpha : s.alpha;
            s.beta = s.beta < 0 ? -s.beta : s.beta;
        }
        s.relu = chance(random, 60);
        s.z_apart = chance(random, 50);
        int layout = chance(random, 40) ? 1 + random_below(random, 3) : 0;
        s.w_format = layout == 1 && chance(random, 50) ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
        if (!shape_output(&s)) continue;
        shape_layout(&s, layout);
        return s;
    } while (1);
}

static const Perf *first_within(const Perf *results, int count, size_t limit) {
    for (int i = 0; i < count; i++)
        if (results[i].status == CUDNN_STATUS_SUCCESS && results[i].memory <= limit) return &results[i];
    return NULL;
}

/* A program that never asks: takes the wanted algorithm if it runs in `limit` bytes, else one without workspace. */
static void hard_code(Case *c, int wanted) {
    int without = c->kernel.shape.operation == BACKWARD_DATA || c->kernel.shape.operation == BACKWARD_FILTER;
    size_t bytes;
    int known = kernel_workspace(handle, &c->kernel, wanted, &bytes) == CUDNN_STATUS_SUCCESS;
    c->algorithm = known && bytes <= c->limit ? wanted : without;
    c->workspace = guarded_new(c->limit);
}

/* Asks, checks that the answer is consistent, and allocates exactly the reported workspace. */
static void ask(Case *c, Asking asking) {
    Perf results[MOST_RESULTS];
    int count = -1;
    switch (asking) {
        case FIND: CALL(kernel_find(handle, &c->kernel, MOST_RESULTS, &count, results)); break;
        case FIND_EX: {
            Guarded given = guarded_new(c->limit);
            CALL(kernel_find_ex(handle, &c->kernel, &given, MOST_RESULTS, &count, results));
            guarded_check(&given, "the workspace of FindEx");
            guarded_free(&given);
            break;
        }
        default: CALL(kernel_get(handle, &c->kernel, MOST_RESULTS, &count, results)); break;
    }
    REQUIRE(count > 0 && count <= MOST_RESULTS, "%d", count);
    int limited = asking == GET_WITHIN || asking == FIND_EX;
    const Perf *taken = first_within(results, count, limited ? c->limit : SIZE_MAX);
    REQUIRE(taken, "nothing runs within %zu bytes", c->limit);
    if (asking != GET_WITHIN || most <= c->limit)
        REQUIRE(taken == results, "the first result does not fit: %zu of %zu bytes", results[0].memory, c->limit);
    if (taken == results) REQUIRE(taken->memory <= most, "%zu bytes, over the limit of %zu", taken->memory, most);
    for (int again = 0; again < 2; again++) {
        size_t bytes = SIZE_MAX;
        CALL(kernel_workspace(handle, &c->kernel, taken->algo, &bytes));
        REQUIRE(bytes == taken->memory, "%zu bytes were reported, %zu afterwards", taken->memory, bytes);
        if (c->sets_math_type) CALL(cudnnSetConvolutionMathType(c->kernel.convolution, taken->mathType));
    }
    c->algorithm = taken->algo;
    if (c->workspace.start) guarded_free(&c->workspace);
    c->workspace = guarded_new(taken->memory);
}

static void case_open(Case *c, Random *random) {
    static const size_t limits[] = {0, 3000, 20000, 100000, 1000000};
    Shape shape = random_shape(random);
    kernel_open(&c->kernel, &shape, random);
    c->asking = (Asking)random_below(random, ONLY);
    c->limit = limits[random_below(random, 5)];
    c->sets_math_type = chance(random, 50);
    int wanted = random_below(random, 8), long_running = chance(random, 50);
    if (shape.operation == FUSED && !shape.relu) {
        c->asking = ONLY;
        wanted = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
        size_t bytes;
        CALL(kernel_workspace(handle, &c->kernel, wanted, &bytes));
        if (c->limit < bytes) c->limit = bytes;
    }
    int asks = c->asking < NEVER;
    c->executions = asks ? 4 : c->asking == LATE ? 10 : long_running ? ROUNDS : 6;
    if (asks) ask(c, c->asking);
    else hard_code(c, wanted);
}

static void read_record(Case *c, FILE *file) {
    size_t bytes = kernel_result(&c->kernel)->bytes;
    c->recorded = malloc(bytes);
    REQUIRE(c->recorded && fread(&c->recorded_algorithm, sizeof(int), 1, file) == 1 &&
                fread(&c->recorded_workspace, sizeof(size_t), 1, file) == 1 &&
                fread(c->recorded, 1, bytes, file) == bytes,
            "the record ends too early");
    if (c->asking == GET && most == SIZE_MAX)
        REQUIRE(c->workspace.bytes <= c->recorded_workspace, "%zu bytes, %zu in the plain run", c->workspace.bytes,
                c->recorded_workspace);
}

static void write_record(const Case *c, FILE *file) {
    const Guarded *result = kernel_result(&c->kernel);
    REQUIRE(fwrite(&c->algorithm, sizeof(int), 1, file) == 1 &&
                fwrite(&c->workspace.bytes, sizeof(size_t), 1, file) == 1 &&
                fwrite(result->start, 1, result->bytes, file) == result->bytes,
            "the record cannot be written");
}

/* One execution. Returns whether its result is right. */
static int execute(Case *c, int round) {
    if (c->asking == LATE && round == 3) ask(c, GET);
    cudnnStatus_t status = kernel_run(handle, &c->kernel, c->algorithm, &c->workspace);
    REQUIRE(status == CUDNN_STATUS_SUCCESS, "%s", cudnnGetErrorString(status));
    guarded_check(&c->workspace, "the workspace");
    double error = kernel_error(&c->kernel);
    const Guarded *result = kernel_result(&c->kernel);
    if (comparing) c->equal += memcmp(result->start, c->recorded, result->bytes) == 0;
    if (!(error <= c->error)) c->error = error;
    return error <= kernel_tolerance(&c->kernel);
}

static void report(FILE *file, const Case *c, int number) {
    char shape[512];
    shape_print(&c->kernel.shape, shape, sizeof shape);
    fprintf(file, "case %d|%s|%s|%d|%d|%d|%d|%g|%g\n", number, shape, names[c->asking], c->algorithm,
            c->recorded_algorithm, c->executions, c->equal, c->error, kernel_tolerance(&c->kernel));
}

int main(int count, char **arguments) {
    REQUIRE(count >= 5, "random_convolutions SEED CASES record|compare FILE [MOST]");
    Random random = {strtoull(arguments[1], NULL, 10)};
    int cases = atoi(arguments[2]), wrong = 0;
    comparing = strcmp(arguments[3], "compare") == 0;
    FILE *file = fopen(arguments[4], comparing ? "rb" : "wb");
    REQUIRE(file, "%s", arguments[4]);
    if (count > 5) most = strtoull(arguments[5], NULL, 10);

    CALL(cudnnCreate(&handle));
    Case *all = calloc((size_t)cases, sizeof *all);
    REQUIRE(all, "no memory");
    for (int i = 0; i < cases; i++) {
        /* Its own state, so that a case does not depend on the answers to earlier ones. */
        Random own = {random_bits(&random)};
        case_open(&all[i], &own);
        if (comparing) read_record(&all[i], file);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < cases; i++) {
            if (round >= all[i].executions || execute(&all[i], round)) continue;
            fprintf(stderr, "wrong in execution %d: ", round + 1);
            report(stderr, &all[i], i);
            wrong++;
        }
    }
    for (int i = 0; i < cases; i++) {
        report(stdout, &all[i], i);
        if (!comparing) write_record(&all[i], file);
        kernel_close(&all[i].kernel);
        guarded_free(&all[i].workspace);
        free(all[i].recorded);
    }
    free(all);
    REQUIRE(fclose(file) == 0, "the record cannot be written");
    CALL(cudnnDestroy(handle));
    printf("wrong %d\n", wrong);
    return wrong > 0;
}
