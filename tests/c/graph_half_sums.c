/* The filter gradient of IMAGES in a two-byte type through the graph API, added to the filter's previous contents,
 * against double precision. Prints the root mean square of the last executions' errors. Executions before these may
 * fail. Without IMAGES there are 64.
 *
 * graph_half_sums half|bfloat16 EXECUTIONS [IMAGES] */
#include <math.h>

#include "graph.h"

/* The plan with the largest workspace: sums of parts take some. */
static Backend largest(cudnnHandle_t handle, const Backend *offered, int count) {
    Backend largest = NULL;
    for (int i = 0; i < count; i++) {
        Backend plan = plan_new(handle, offered[i]);
        int is_larger = !largest || plan_workspace(plan) > plan_workspace(largest);
        Backend other = is_larger ? largest : plan;
        if (other) backend_free(other);
        if (is_larger) largest = plan;
    }
    REQUIRE(largest, "nothing is offered");
    return largest;
}

int main(int count, char **arguments) {
    enum { LAST = 8 };
    REQUIRE(count == 3 || count == 4, "graph_half_sums half|bfloat16 EXECUTIONS [IMAGES]");
    int executions = atoi(arguments[2]), images = count == 4 ? atoi(arguments[3]) : 64, failed = 0;
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Shape shape = shape_square(BACKWARD_FILTER, images, 6, 8, 6, 3, 1);
    /* Nine places in a row, which ucudnn's engines do not compute: cuDNN's have the parts. */
    shape.w[3] = 1, shape.pad[1] = 0, shape.w[4] = 9, shape.pad[2] = 4;
    shape.type = two_byte_type(arguments[1]);
    shape.beta = 1;
    Backend plan = NULL, offered[MOST_CONFIGURATIONS];
    Guarded workspace = {0};
    double sum = 0;
    for (int execution = 0; execution < executions; execution++) {
        /* Each of the last executions gets other data. */
        Random random = {execution < executions - LAST ? 0 : (uint64_t)(executions - execution)};
        Kernel kernel;
        kernel_open(&kernel, &shape, &random);
        if (!plan) {
            Backend graph = graph_new(handle, &kernel, 16);
            int offers = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
            plan = largest(handle, offered, offers);
            while (offers > 0) backend_free(offered[--offers]);
            backend_free(graph);
            workspace = guarded_new(plan_workspace(plan));
        }
        Backend pack = pack_new(&kernel, workspace.start);
        cudnnStatus_t status = graph_run(handle, plan, pack, &kernel);
        guarded_check(&workspace, "the workspace");
        double error = kernel_error(&kernel);
        if (status != CUDNN_STATUS_SUCCESS) failed++;
        else REQUIRE(error <= kernel_tolerance(&kernel), "off by %g", error);
        if (execution >= executions - LAST) {
            REQUIRE(status == CUDNN_STATUS_SUCCESS, "execution %d: %s", execution, cudnnGetErrorString(status));
            sum += error * error;
        }
        backend_free(pack);
        kernel_close(&kernel);
    }
    guarded_free(&workspace);
    backend_free(plan);
    CALL(cudnnDestroy(handle));
    printf("failed %d\nerror %.9f\n", failed, sqrt(sum / LAST));
    return 0;
}
