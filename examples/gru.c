/* Runs a GRU by the direct call of ucudnn.h, and compares its output with loops in double precision. Needs a GPU, CUDA's
 * driver and NVRTC, but neither cuDNN nor its header:
 *
 *     gcc -std=c99 -O2 -Iinclude examples/gru.c examples/convnet/memory.c -Ltarget/release -lucudnn -ldl -lm -o gru
 *     LD_LIBRARY_PATH=target/release ./gru
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ucudnn.h>

#include "convnet/memory.h"

enum { INPUT = 24, HIDDEN = 48, BATCH = 2, STEPS = 30, GATES = 3 };

/* The network's weights, in the order of ucudnnRnnArguments_t. Gates are r, z and n. */
static struct {
    float w[GATES][HIDDEN][INPUT], r[GATES][HIDDEN][HIDDEN], w_bias[GATES][HIDDEN], r_bias[GATES][HIDDEN];
} weights;
static float x[STEPS][BATCH][INPUT], y[STEPS][BATCH][HIDDEN];

/* Ends the program if a call has failed. */
static void check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char why[512];
    ucudnnGetRnnErrorString(why, sizeof why);
    fprintf(stderr, "gru: %s: %s (status %d)\n", call, why, (int)status);
    exit(1);
}
#define CHECK(call) check(call, #call)

static void fill(float *numbers, size_t count, float scale) {
    for (size_t i = 0; i < count; i++) numbers[i] = scale * (2 * (float)rand() / (float)RAND_MAX - 1);
}

/* A row of a matrix times a vector. */
static double product(const float *row, const double *vector, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += row[i] * vector[i];
    return sum;
}

static double logistic(double value) { return 1 / (1 + exp(-value)); }

/* The largest difference of y from the same network in loops. */
static double largest_error(void) {
    double error = 0;
    for (int sequence = 0; sequence < BATCH; sequence++) {
        double h[HIDDEN] = {0}, next[HIDDEN], input[INPUT];
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < INPUT; i++) input[i] = x[step][sequence][i];
            for (int unit = 0; unit < HIDDEN; unit++) {
                double from_x[GATES], from_h[GATES];
                for (int gate = 0; gate < GATES; gate++) {
                    from_x[gate] = product(weights.w[gate][unit], input, INPUT) + weights.w_bias[gate][unit];
                    from_h[gate] = product(weights.r[gate][unit], h, HIDDEN) + weights.r_bias[gate][unit];
                }
                double reset = logistic(from_x[0] + from_h[0]), update = logistic(from_x[1] + from_h[1]);
                next[unit] = (1 - update) * tanh(from_x[2] + reset * from_h[2]) + update * h[unit];
            }
            for (int unit = 0; unit < HIDDEN; unit++) {
                h[unit] = next[unit];
                error = fmax(error, fabs(h[unit] - y[step][sequence][unit]));
            }
        }
    }
    return error;
}

int main(void) {
    memory_open();
    ucudnnRnnDescription_t description = {0};
    description.cell = UCUDNN_RNN_GRU;
    description.dataType = CUDNN_DATA_FLOAT;
    description.hasBiases = 1;
    description.inputSize = INPUT;
    description.hiddenSize = HIDDEN;
    description.layers = description.directions = 1;
    description.maxBatch = BATCH;
    description.maxSteps = STEPS;
    ucudnnRnn_t gru;
    CHECK(ucudnnCreateRnn(&gru, &description)); /* compiles kernels and chooses the fastest */
    size_t weight_bytes, workspace_bytes;
    CHECK(ucudnnGetRnnWeightSize(gru, &weight_bytes));
    CHECK(ucudnnGetRnnWorkspaceSize(gru, &workspace_bytes));
    if (weight_bytes != sizeof weights) {
        fprintf(stderr, "gru: the weights take %zu bytes, not %zu\n", weight_bytes, sizeof weights);
        return 1;
    }

    fill((float *)&weights, sizeof weights / sizeof(float), 1 / sqrtf(HIDDEN));
    fill((float *)x, sizeof x / sizeof(float), 1);
    struct buffer device_weights = buffer_new(sizeof weights, "weights"), device_x = buffer_new(sizeof x, "x");
    struct buffer device_y = buffer_new(sizeof y, "y"), workspace = buffer_new(workspace_bytes, "the workspace");
    buffer_write(device_weights, &weights);
    buffer_write(device_x, x);

    ucudnnRnnArguments_t arguments = {0};
    arguments.weights = device_weights.data;
    arguments.x = device_x.data;
    arguments.y = device_y.data;
    arguments.batch = BATCH;
    arguments.steps = STEPS;
    arguments.workspace = workspace.data;
    arguments.workspaceSizeInBytes = workspace_bytes;
    CHECK(ucudnnRunRnn(gru, &arguments, NULL)); /* on the default stream; further runs may follow at once */
    memory_wait();
    buffer_read(device_y, y);

    char configuration[128];
    size_t needed;
    CHECK(ucudnnGetRnnConfiguration(gru, configuration, sizeof configuration, &needed));
    double error = largest_error();
    printf("%d steps of %d sequences on %s: %g off at most\n", STEPS, BATCH, configuration, error);
    CHECK(ucudnnDestroyRnn(gru));
    buffer_free(&device_weights), buffer_free(&device_x), buffer_free(&device_y), buffer_free(&workspace);
    return error < 1e-5 ? 0 : 1;
}
