/* Null, garbage and mismatched arguments to every function that the library overrides.
 *
 * hostile each            every argument of every function in turn
 * hostile SEED COUNT      COUNT random calls
 *
 * Prints a line for each call: the function, the invalid arguments and how each was changed, and the status. */
#include <limits.h>
#include <string.h>

#include "kernel.h"

typedef struct {
    cudnnHandle_t handle;
    Kernel kernel;
    Guarded workspace;
    const void *alpha, *beta;
    int requested, algorithm;
    int *returned;
    Perf *results;
    size_t *size;
} Arguments;

enum { GET, FIND, FIND_EX, SIZE, RUN, FUNCTIONS };
enum { FIELDS = 22, ROOM = 1 << 22 };
static const char *const names[] = {"get", "find", "find-ex", "size", "run"};

/* Calls function number `function` of a direction; FUSED is the fused call, whatever the function. */
static cudnnStatus_t call(int function, Operation direction, Arguments *a) {
    a->kernel.shape.operation = direction;
    switch (direction == FUSED ? RUN : function) {
        case GET: return kernel_get(a->handle, &a->kernel, a->requested, a->returned, a->results);
        case FIND: return kernel_find(a->handle, &a->kernel, a->requested, a->returned, a->results);
        case FIND_EX:
            return kernel_find_ex(a->handle, &a->kernel, &a->workspace, a->requested, a->returned, a->results);
        case SIZE: return kernel_workspace(a->handle, &a->kernel, a->algorithm, a->size);
        default: return kernel_call(a->handle, &a->kernel, a->alpha, a->beta, a->algorithm, &a->workspace);
    }
}

/* Descriptors that were made but never set, and descriptors of other shapes. */
static struct {
    cudnnTensorDescriptor_t tensor[2];
    cudnnFilterDescriptor_t filter[2];
    cudnnConvolutionDescriptor_t convolution[2];
    cudnnActivationDescriptor_t activation;
} odd;

static void make_odd(void) {
    for (int i = 0; i < 2; i++) {
        CALL(cudnnCreateTensorDescriptor(&odd.tensor[i]));
        CALL(cudnnCreateFilterDescriptor(&odd.filter[i]));
        CALL(cudnnCreateConvolutionDescriptor(&odd.convolution[i]));
    }
    CALL(cudnnCreateActivationDescriptor(&odd.activation));
    CALL(cudnnSetTensor4dDescriptor(odd.tensor[1], CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 3, 7, 2, 2));
    CALL(cudnnSetFilter4dDescriptor(odd.filter[1], CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 2, 5, 3, 3));
    CALL(cudnnSetConvolution2dDescriptor(odd.convolution[1], 9, 9, 2, 3, 1, 1, CUDNN_CONVOLUTION, CUDNN_DATA_HALF));
}

/* Makes one argument invalid in the `way`-th way. */
static void spoil(Arguments *a, int field, int way) {
    static const int numbers[] = {-1, 0, 99, INT_MIN, INT_MAX, 8};
    static const size_t sizes[] = {0, 1, 100, ROOM};
    int number = numbers[way % 6], unset = way % 3;
    Kernel *k = &a->kernel;
    switch (field) {
        case 0: a->handle = NULL; break;
        case 1: k->x_descriptor = unset ? odd.tensor[unset - 1] : NULL; break;
        case 2: k->y_descriptor = unset ? odd.tensor[unset - 1] : NULL; break;
        case 3: k->z_descriptor = unset ? odd.tensor[unset - 1] : NULL; break;
        case 4: k->bias_descriptor = unset ? odd.tensor[unset - 1] : NULL; break;
        case 5: k->w_descriptor = unset ? odd.filter[unset - 1] : NULL; break;
        case 6: k->convolution = unset ? odd.convolution[unset - 1] : NULL; break;
        case 7: k->activation = unset ? odd.activation : NULL; break;
        case 8: k->x.start = NULL; break;
        case 9: k->w.start = NULL; break;
        case 10: k->y.start = NULL; break;
        case 11: k->z.start = NULL; break;
        case 12: k->bias.start = NULL; break;
        case 13: a->workspace.start = NULL; break;
        case 14: a->workspace.bytes = sizes[way % 4]; break;
        case 15: a->alpha = NULL; break;
        case 16: a->beta = NULL; break;
        case 17: a->requested = number; break;
        case 18: a->algorithm = number; break;
        case 19: a->returned = NULL; break;
        case 20: a->results = NULL; break;
        default: a->size = NULL; break;
    }
}

static void report(int function, int direction, const char *spoilt, cudnnStatus_t status) {
    printf("%s %d%s|%d\n", direction == FUSED ? "fused" : names[function], direction, spoilt, status);
}

int main(int count, char **arguments) {
    REQUIRE(count > 1, "each, or a seed and a number");
    Random random = {strtoull(arguments[1], NULL, 10)};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    make_odd();
    Shape shape = shape_square(FUSED, 4, 3, 5, 4, 3, 1);
    shape.z_apart = 1;
    Kernel kernel;
    kernel_open(&kernel, &shape, &random);
    Guarded workspace = guarded_new(ROOM);
    Perf results[MOST_RESULTS];
    int returned;
    size_t size;
    float one = 1;
    const Arguments good = {.handle = handle, .kernel = kernel, .workspace = workspace, .alpha = &one, .beta = &one,
                            .requested = MOST_RESULTS, .algorithm = 1, .returned = &returned, .results = results,
                            .size = &size};
    if (strcmp(arguments[1], "each") == 0) {
        for (int function = 0; function < FUNCTIONS; function++) {
            for (int direction = 0; direction < (function == RUN ? 4 : 3); direction++) {
                for (int field = 0; field < FIELDS; field++) {
                    for (int way = 0; way < 6; way++) {
                        Arguments bad = good;
                        char spoilt[32];
                        spoil(&bad, field, way);
                        snprintf(spoilt, sizeof spoilt, " %d:%d", field, way);
                        report(function, direction, spoilt, call(function, direction, &bad));
                    }
                }
            }
        }
    } else {
        for (int i = atoi(arguments[2]); i > 0; i--) {
            int function = random_below(&random, FUNCTIONS), direction = random_below(&random, 4);
            Arguments bad = good;
            char spoilt[64] = "";
            bad.algorithm = random_below(&random, 9);
            for (int times = random_below(&random, 4); times > 0; times--) {
                int field = random_below(&random, FIELDS), way = random_below(&random, 12);
                spoil(&bad, field, way);
                snprintf(spoilt + strlen(spoilt), sizeof spoilt - strlen(spoilt), " %d:%d", field, way);
            }
            report(function, direction, spoilt, call(function, direction, &bad));
        }
    }
    guarded_check(&workspace, "the workspace");
    guarded_check(&kernel.y, "y");
    printf("destroy|%d\n", cudnnDestroy(NULL));
    return 0;
}
