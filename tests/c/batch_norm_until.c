/* Normalizes a batch and computes its gradient, on handles of several threads, until a report has the decisions for
 * both, or CALLS times. Each thread checks each result against double precision. With a library of libtorch's symbols,
 * the program asks for determinism by it after the first call, and makes all CALLS.
 *
 * batch_norm_until FILE THREADS [CALLS [LIBTORCH]] */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

enum { IMAGES = 4, CHANNELS = 8, SIDE = 6, PLANE = SIDE * SIDE, ELEMENTS = IMAGES * CHANNELS * PLANE };

static const char *file, *torch;
static long calls = -1;
static const double epsilon = 1e-3;

static int is_decided(void) {
    FILE *opened = fopen(file, "r");
    int decisions = 0;
    char line[4096];
    while (opened && fgets(line, sizeof line, opened)) decisions += strstr(line, "\"event\":\"norm\"") != NULL;
    if (opened) fclose(opened);
    return decisions >= 2;
}

static void ask_for_determinism(void) {
    void *library = dlopen(torch, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library, "%s", dlerror());
    void *(*context)(void);
    void (*set)(void *, bool);
    *(void **)&context = dlsym(library, "_ZN2at13globalContextEv");
    *(void **)&set = dlsym(library, "_ZN2at7Context21setDeterministicCuDNNEb");
    set(context(), true);
}

/* A number that depends on the place alone, from -1 to 1. */
static double number(int place, int seed) { return sin(place * 0.7 + seed); }

static void near(const char *name, double found, double expected) {
    REQUIRE(fabs(found - expected) < 1e-4, "%s is %g, and should be %g", name, found, expected);
}

/* Checks the results of a call. */
static void check(const float *y, const float *dx, const float *dscale, const float *dbias) {
    const double count = IMAGES * PLANE;
    for (int c = 0; c < CHANNELS; c++) {
        double mean = 0, variance = 0, sum = 0, product = 0;
#define EACH(n, i, place) \
    for (int n = 0; n < IMAGES; n++) \
        for (int i = 0, place = (n * CHANNELS + c) * PLANE; i < PLANE; i++, place++)
        EACH(n, i, place) mean += number(place, 1) / count;
        EACH(n, i, place) variance += pow(number(place, 1) - mean, 2) / count;
        const double inverse = 1 / sqrt(variance + epsilon);
        EACH(n, i, place) {
            sum += number(place, 2);
            product += number(place, 2) * (number(place, 1) - mean) * inverse;
        }
        near("dbias", dbias[c], sum);
        near("dscale", dscale[c], product);
        EACH(n, i, place) {
            const double normal = (number(place, 1) - mean) * inverse;
            near("y", y[place], normal * (c + 1) - c);
            near("dx", dx[place], (c + 1) * inverse * (number(place, 2) - sum / count - normal * product / count));
        }
#undef EACH
    }
}

static void *run(void *unused) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t tensor, parameters;
    CALL(cudnnCreate(&handle));
    CALL(cudnnCreateTensorDescriptor(&tensor));
    CALL(cudnnCreateTensorDescriptor(&parameters));
    CALL(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, IMAGES, CHANNELS, SIDE, SIDE));
    CALL(cudnnDeriveBNTensorDescriptor(parameters, tensor, CUDNN_BATCHNORM_SPATIAL));
    float *tensors[4];
    for (int i = 0; i < 4; i++) REQUIRE((tensors[i] = aligned_alloc(64, ELEMENTS * sizeof(float))), "no memory");
    float *x = tensors[0], *y = tensors[1], *dy = tensors[2], *dx = tensors[3];
    float scale[CHANNELS], bias[CHANNELS], mean[CHANNELS], inverse[CHANNELS], dscale[CHANNELS], dbias[CHANNELS];
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)number(i, 1), dy[i] = (float)number(i, 2);
    for (int c = 0; c < CHANNELS; c++) scale[c] = c + 1, bias[c] = -c;
    const float one = 1, zero = 0;
    for (long call = 0; call != calls && (torch || !is_decided()); call++) {
        if (call == 1 && torch) ask_for_determinism();
        for (int i = 0; i < ELEMENTS; i++) y[i] = dx[i] = NAN;
        for (int c = 0; c < CHANNELS; c++) mean[c] = inverse[c] = dscale[c] = dbias[c] = NAN;
        CALL(cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, tensor, x, tensor, y,
                                                    parameters, scale, bias, 0, NULL, NULL, epsilon, mean, inverse));
        CALL(cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, tensor, x,
                                             tensor, dy, tensor, dx, parameters, scale, dscale, dbias, epsilon, mean,
                                             inverse));
        check(y, dx, dscale, dbias);
    }
    for (int i = 0; i < 4; i++) free(tensors[i]);
    CALL(cudnnDestroyTensorDescriptor(parameters));
    CALL(cudnnDestroyTensorDescriptor(tensor));
    CALL(cudnnDestroy(handle));
    return unused;
}

int main(int count, char **arguments) {
    REQUIRE(count >= 3 && count <= 5, "batch_norm_until FILE THREADS [CALLS [LIBTORCH]]");
    file = arguments[1];
    if (count > 3) calls = atol(arguments[3]);
    if (count > 4) torch = arguments[4];
    enum { MOST = 8 };
    pthread_t threads[MOST];
    const int wanted = atoi(arguments[2]);
    REQUIRE(wanted > 0 && wanted <= MOST, "1 to 8 threads");
    for (int i = 0; i < wanted; i++) REQUIRE(!pthread_create(&threads[i], NULL, run, NULL), "no thread");
    for (int i = 0; i < wanted; i++) pthread_join(threads[i], NULL);
    puts("ended");
    return 0;
}
