/* Asks for and runs convolutions while calls fail, in cuDNN or in libucudnn.so. A call may report that it failed, but a
 * call that reports success must have succeeded. Prints a line for each query, size and run that failed.
 *
 * faults asks|never [FAULTS before|between]
 *
 * FAULTS are armed in hostdnn before the queries, or between the queries and the runs. */
#include <string.h>

#include "kernel.h"

enum { KERNELS = 16, RUNS = 20 };

static const Shape *shapes(void) {
    static Shape all[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        all[i] = shape_square((Operation)(i % 4), 12, 6, 8, 8, 3, 1);
        all[i].beta = i / 4 % 2;
        all[i].type = i / 8 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
        all[i].z_apart = i / 4 % 2;
        shape_layout(&all[i], i / 8);
    }
    return all;
}

static void failed(const char *what, int kernel, cudnnStatus_t status) { printf("%s %d %d\n", what, kernel, status); }

int main(int count, char **arguments) {
    REQUIRE(count == 2 || count == 4, "faults asks|never [FAULTS before|between]");
    int asks = strcmp(arguments[1], "asks") == 0;
    cudnnHandle_t handle;
    Random random = {3};
    CALL(cudnnCreate(&handle));
    Kernel kernels[KERNELS];
    int algorithms[KERNELS];
    Guarded workspaces[KERNELS];
    for (int i = 0; i < KERNELS; i++) kernel_open(&kernels[i], &shapes()[i], &random);
    if (count == 4 && strcmp(arguments[3], "before") == 0) CALL(hostdnnFail(arguments[2]));
    for (int i = 0; i < KERNELS; i++) {
        int returned = 0, without = i % 4 == BACKWARD_DATA || i % 4 == BACKWARD_FILTER;
        size_t bytes = 40000;
        algorithms[i] = without;
        if (asks) {
            Perf results[MOST_RESULTS];
            Guarded given = guarded_new(200000);
            cudnnStatus_t status =
                i % 3 == 0   ? kernel_get(handle, &kernels[i], MOST_RESULTS, &returned, results)
                : i % 3 == 1 ? kernel_find(handle, &kernels[i], MOST_RESULTS, &returned, results)
                             : kernel_find_ex(handle, &kernels[i], &given, MOST_RESULTS, &returned, results);
            guarded_check(&given, "the workspace of FindEx");
            guarded_free(&given);
            int answered = status == CUDNN_STATUS_SUCCESS && returned > 0 && results[0].status == CUDNN_STATUS_SUCCESS;
            if (answered) {
                algorithms[i] = results[0].algo;
                bytes = results[0].memory;
                size_t again;
                status = kernel_workspace(handle, &kernels[i], algorithms[i], &again);
                if (status == CUDNN_STATUS_SUCCESS) REQUIRE(again == bytes, "%zu bytes, then %zu", bytes, again);
                else failed("size", i, status);
            } else {
                failed("query", i, status);
            }
        }
        workspaces[i] = guarded_new(bytes);
    }
    if (count == 4 && strcmp(arguments[3], "between") == 0) CALL(hostdnnFail(arguments[2]));
    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < KERNELS; i++) {
            cudnnStatus_t status = kernel_run(handle, &kernels[i], algorithms[i], &workspaces[i]);
            guarded_check(&workspaces[i], "the workspace");
            double error = kernel_error(&kernels[i]); /* checks the canaries, whatever the status */
            if (status == CUDNN_STATUS_SUCCESS)
                REQUIRE(error <= kernel_tolerance(&kernels[i]), "kernel %d is off by %g", i, error);
            else failed("run", i, status);
        }
    }
    CALL(hostdnnFail(NULL));
    for (int i = 0; i < KERNELS; i++) {
        kernel_close(&kernels[i]);
        guarded_free(&workspaces[i]);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
