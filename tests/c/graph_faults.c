/* Runs convolutions through the graph API while calls fail, in cuDNN or libucudnn.so. A call may report failure; one
 * that reports success must have succeeded. Prints a line for each plan and execution that failed.
 *
 * graph_faults EXECUTIONS [FAULTS before|between]
 *
 * FAULTS are armed in hostdnn before plans are finalized, or between that and the executions. */
#include <string.h>

#include "graph.h"

enum { KERNELS = 16 };

static Shape shape_of(int index) {
    Shape shape = shape_square((Operation)(index % 4), 12, 4, 6, 5, 3, 1);
    shape.beta = index / 4 % 2;
    shape.type = index / 8 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    shape.z_apart = index / 8;
    shape_layout(&shape, index / 8);
    return shape;
}

int main(int count, char **arguments) {
    REQUIRE(count == 2 || count == 4, "graph_faults EXECUTIONS [FAULTS before|between]");
    int executions = atoi(arguments[1]);
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Random random = {3};
    Kernel kernels[KERNELS];
    Backend plans[KERNELS], packs[KERNELS], offered[KERNELS][MOST_CONFIGURATIONS];
    Guarded workspaces[KERNELS];
    int offers[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        Shape shape = shape_of(i);
        kernel_open(&kernels[i], &shape, &random);
        Backend graph = graph_new(handle, &kernels[i], 16);
        offers[i] = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered[i]);
        backend_free(graph);
        REQUIRE(offers[i] > 0, "nothing is offered");
    }
    if (count == 4 && strcmp(arguments[3], "before") == 0) CALL(hostdnnFail(arguments[2]));
    for (int i = 0; i < KERNELS; i++) {
        cudnnStatus_t status = plan_finalize(handle, offered[i][0], &plans[i]);
        int64_t bytes = 0, values;
        if (status == CUDNN_STATUS_SUCCESS)
            status = cudnnBackendGetAttribute(plans[i], CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                              &values, &bytes);
        if (status != CUDNN_STATUS_SUCCESS) printf("plan %d %d\n", i, status), plans[i] = NULL;
        workspaces[i] = guarded_new((size_t)bytes);
    }
    CALL(hostdnnFail(NULL));
    for (int i = 0; i < KERNELS; i++) packs[i] = pack_new(&kernels[i], workspaces[i].start);
    if (count == 4) CALL(hostdnnFail(arguments[2]));
    for (int execution = 0; execution < executions; execution++) {
        for (int i = 0; i < KERNELS; i++) {
            if (!plans[i]) continue;
            cudnnStatus_t status = graph_run(handle, plans[i], packs[i], &kernels[i]);
            guarded_check(&workspaces[i], "the workspace");
            double error = kernel_error(&kernels[i]); /* checks the canaries, whatever the status */
            if (status == CUDNN_STATUS_SUCCESS)
                REQUIRE(error <= kernel_tolerance(&kernels[i]), "kernel %d is off by %g in execution %d", i, error,
                        execution);
            else printf("run %d %d\n", i, status);
        }
    }
    CALL(hostdnnFail(NULL));
    for (int i = 0; i < KERNELS; i++) {
        backend_free(packs[i]);
        if (plans[i]) backend_free(plans[i]);
        while (offers[i] > 0) backend_free(offered[i][--offers[i]]);
        kernel_close(&kernels[i]);
        guarded_free(&workspaces[i]);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
