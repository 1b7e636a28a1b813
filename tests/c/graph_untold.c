/* A large convolution through the graph API, by a plan that needs no workspace: with what the plan reports, or by a program
 * that does not ask the plan and brings a little memory. Prints the plan's workspace, and the largest error.
 *
 * graph_untold told|untold EXECUTIONS */
#include <string.h>

#include "graph.h"

/* What a plan that needs none reports under ucudnn, and what the program brings if it does not ask. */
enum { REPORTED = 16 << 20, LITTLE = 64 };

int main(int count, char **arguments) {
    REQUIRE(count == 3, "graph_untold told|untold EXECUTIONS");
    int is_told = strcmp(arguments[1], "told") == 0, executions = atoi(arguments[2]);
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    /* 19 million multiply-adds. */
    Shape shape = shape_square(FORWARD, 4, 16, 32, 32, 3, 1);
    Random random = {1};
    Kernel kernel;
    kernel_open(&kernel, &shape, &random);
    Backend offered[MOST_CONFIGURATIONS], graph = graph_new(handle, &kernel, 16), plan = NULL;
    int offers = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
    size_t reported = 0;
    for (int i = 0; i < offers && !plan; i++) {
        /* Another plan of the same engine says what this one needs. */
        Backend other = plan_new(handle, offered[i]);
        reported = plan_workspace(other);
        if (reported == 0 || reported == REPORTED) plan = plan_new(handle, offered[i]);
        backend_free(other);
    }
    REQUIRE(plan, "each engine needs workspace");
    Guarded workspace = guarded_new(is_told ? plan_workspace(plan) : LITTLE);
    Backend pack = pack_new(&kernel, workspace.start);
    double worst = 0;
    for (int execution = 0; execution < executions; execution++) {
        CALL(graph_run(handle, plan, pack, &kernel));
        guarded_check(&workspace, "the workspace");
        double error = kernel_error(&kernel);
        REQUIRE(error <= kernel_tolerance(&kernel), "off by %g", error);
        if (error > worst) worst = error;
    }
    printf("reported %zu\nerror %.9f\n", reported, worst);
    backend_free(pack), backend_free(plan), backend_free(graph);
    while (offers > 0) backend_free(offered[--offers]);
    kernel_close(&kernel);
    guarded_free(&workspace);
    CALL(cudnnDestroy(handle));
    return 0;
}
