/* The promises of answers to queries, for five layers in all directions, asked in all ways.
 *
 * promises answers            every result runs in the workspace that it reports; asking again changes nothing
 * promises layers BYTES BYTES equal problems in two layers, asked under two limits
 * promises short              calls with less workspace than was promised */
#include <string.h>

#include "kernel.h"

static cudnnHandle_t handle;
static Random random_state = {7};

static Shape layer(int index) {
    static const struct {
        int n, c, size, k, filter, pad, groups;
    } layers[] = {{16, 8, 14, 8, 3, 1, 1}, {12, 16, 9, 16, 3, 1, 1}, {16, 4, 16, 8, 5, 2, 1}, {9, 16, 8, 8, 1, 0, 1},
                  {8, 12, 10, 12, 3, 1, 3}};
    Shape s = shape_square((Operation)(index % 3), layers[index / 3].n, layers[index / 3].c, layers[index / 3].size,
                           layers[index / 3].k, layers[index / 3].filter, layers[index / 3].pad);
    s.groups = layers[index / 3].groups;
    s.w[1] /= s.groups;
    s.beta = index % 2;
    return s;
}
enum { LAYERS = 15 };

typedef enum { GET, FIND, FIND_EX } Asking;

static int ask(const Kernel *kernel, Asking asking, const Guarded *workspace, Perf *results) {
    int count = -1;
    switch (asking) {
        case GET: CALL(kernel_get(handle, kernel, MOST_RESULTS, &count, results)); break;
        case FIND: CALL(kernel_find(handle, kernel, MOST_RESULTS, &count, results)); break;
        case FIND_EX: CALL(kernel_find_ex(handle, kernel, workspace, MOST_RESULTS, &count, results)); break;
    }
    REQUIRE(count > 0 && count <= MOST_RESULTS, "%d", count);
    REQUIRE(results[0].status == CUDNN_STATUS_SUCCESS, "the first result does not run: %d", results[0].status);
    return count;
}

/* Runs several times in exactly `bytes` of workspace: runs that try other configurations must be right too. */
static void run(Kernel *kernel, const Perf *result, size_t bytes, int times) {
    Guarded workspace = guarded_new(bytes);
    CALL(cudnnSetConvolutionMathType(kernel->convolution, result->mathType));
    while (times--) {
        CALL(kernel_run(handle, kernel, result->algo, &workspace));
        guarded_check(&workspace, "the workspace");
        double error = kernel_error(kernel);
        REQUIRE(error <= kernel_tolerance(kernel), "algorithm %d is off by %g", result->algo, error);
    }
    guarded_free(&workspace);
}

static void check_answer(Kernel *kernel, int index, Asking asking, const Guarded *given) {
    Perf results[MOST_RESULTS], again[MOST_RESULTS];
    int count = ask(kernel, asking, given, results);
    for (int i = 0; i < count; i++) {
        const Perf *r = &results[i];
        printf("result %d %d %d %d %d %zu\n", index, asking, i, r->algo, r->status, r->memory);
        if (r->status != CUDNN_STATUS_SUCCESS) continue;
        for (int j = 0; j < i; j++)
            REQUIRE(results[j].algo != r->algo || results[j].status != r->status, "algorithm %d comes twice", r->algo);
        size_t bytes = SIZE_MAX;
        CALL(kernel_workspace(handle, kernel, r->algo, &bytes));
        REQUIRE(bytes == r->memory, "algorithm %d: %zu bytes in the result, %zu asked for", r->algo, r->memory, bytes);
    }
    int same = ask(kernel, asking, given, again);
    if (asking == GET) { /* timing again may change the order */
        REQUIRE(same == count, "%d results, %d before", same, count);
        for (int i = 0; i < count; i++)
            REQUIRE(results[i].algo == again[i].algo && results[i].status == again[i].status &&
                        results[i].memory == again[i].memory && results[i].time == again[i].time &&
                        results[i].determinism == again[i].determinism && results[i].mathType == again[i].mathType,
                    "result %d is another than before", i);
    }
    /* Only cuDNN's own results depend on the clock; libucudnn.so repeats its previous answer. */
    printf("again %d %d %d\n", index, asking,
           results[0].algo == again[0].algo && results[0].memory == again[0].memory &&
               results[0].mathType == again[0].mathType);
}

static void answers(void) {
    Kernel kernels[LAYERS];
    Perf results[LAYERS][MOST_RESULTS];
    int counts[LAYERS];
    Guarded given = guarded_new(200000);
    size_t total = 0;
    for (int i = 0; i < LAYERS; i++) {
        Shape shape = layer(i);
        kernel_open(&kernels[i], &shape, &random_state);
        for (int asking = GET; asking <= FIND_EX; asking++) check_answer(&kernels[i], i, (Asking)asking, &given);
        guarded_check(&given, "the workspace of FindEx");
        counts[i] = ask(&kernels[i], GET, &given, results[i]);
        total += results[i][0].memory;
        printf("first %d %zu\n", i, results[i][0].memory);
    }
    printf("total %zu\n", total);
    for (int i = 0; i < LAYERS; i++) {
        for (int j = 0; j < counts[i]; j++)
            if (results[i][j].status == CUDNN_STATUS_SUCCESS) run(&kernels[i], &results[i][j], results[i][j].memory, 3);
        kernel_close(&kernels[i]);
    }
    guarded_free(&given);
}

static void layers(size_t first, size_t second) {
    for (int i = 0; i < LAYERS; i++) {
        Shape shape = layer(i);
        Kernel kernels[2];
        Perf results[2][MOST_RESULTS];
        size_t limits[2] = {first, second};
        for (int j = 0; j < 2; j++) {
            kernel_open(&kernels[j], &shape, &random_state);
            Guarded given = guarded_new(limits[j]);
            ask(&kernels[j], FIND_EX, &given, results[j]);
            guarded_check(&given, "the workspace of FindEx");
            guarded_free(&given);
            size_t bytes;
            CALL(kernel_workspace(handle, &kernels[j], results[j][0].algo, &bytes));
            REQUIRE(results[j][0].memory <= limits[j], "%zu bytes of %zu", results[j][0].memory, limits[j]);
            REQUIRE(bytes == results[j][0].memory, "%zu bytes, then %zu", results[j][0].memory, bytes);
        }
        for (int round = 0; round < 2; round++)
            for (int j = 0; j < 2; j++) run(&kernels[j], &results[j][0], results[j][0].memory, 2);
        kernel_close(&kernels[0]);
        kernel_close(&kernels[1]);
    }
}

static void too_short(void) {
    static const size_t sizes[] = {0, 1000, 30000, 4000000};
    for (int i = 0; i < LAYERS; i++) {
        Shape shape = layer(i);
        Kernel kernel;
        Perf results[MOST_RESULTS];
        kernel_open(&kernel, &shape, &random_state);
        ask(&kernel, GET, NULL, results);
        for (int algorithm = 0; algorithm < 8; algorithm++) {
            for (int j = 0; j < 4; j++) {
                Guarded workspace = guarded_new(sizes[j]);
                for (int time = 0; time < 5; time++) {
                    cudnnStatus_t status = kernel_run(handle, &kernel, algorithm, &workspace);
                    guarded_check(&workspace, "the workspace");
                    printf("run %d %d %zu %d\n", i, algorithm, sizes[j], status);
                    if (status != CUDNN_STATUS_SUCCESS) continue;
                    double error = kernel_error(&kernel);
                    REQUIRE(error <= kernel_tolerance(&kernel), "algorithm %d is off by %g", algorithm, error);
                }
                guarded_free(&workspace);
            }
        }
        kernel_close(&kernel);
    }
}

int main(int count, char **arguments) {
    REQUIRE(count > 1, "what?");
    CALL(cudnnCreate(&handle));
    if (strcmp(arguments[1], "answers") == 0) answers();
    else if (strcmp(arguments[1], "short") == 0) too_short();
    else layers(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
    CALL(cudnnDestroy(handle));
    return 0;
}
