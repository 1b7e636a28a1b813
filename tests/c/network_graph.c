/* Asking for plans, and running them, by the graph API. */
#include "graph.h"
#include "network.h"

/* Runs every plan twice, as programs that time plans do. */
static void find(cudnnHandle_t handle, Kernel *kernel, Backend plan) {
    Guarded workspace = guarded_new(plan_workspace(plan));
    Backend pack = pack_new(kernel, workspace.start);
    for (int i = 0; i < 2; i++) {
        CALL(graph_run(handle, plan, pack, kernel));
        guarded_check(&workspace, "the workspace");
        double error = kernel_error(kernel);
        REQUIRE(error <= kernel_tolerance(kernel), "off by %g", error);
    }
    backend_free(pack);
    guarded_free(&workspace);
}

void use_ask_by_graph(cudnnHandle_t handle, Use *use, Ask ask) {
    REQUIRE(ask == GET || ask == FIND, "ask: get or find");
    Backend graph = graph_new(handle, &use->kernel, 4), offered[MOST_CONFIGURATIONS];
    int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
    REQUIRE(count > 0, "nothing is offered");
    if (use->plan) backend_free(use->plan);
    use->plan = plan_new(handle, offered[0]);
    use->told = plan_workspace(use->plan);
    use->algorithm = 0;
    for (int i = 0; i < count; i++) {
        Backend plan;
        if (ask == FIND && plan_finalize(handle, offered[i], &plan) == CUDNN_STATUS_SUCCESS) {
            find(handle, &use->kernel, plan);
            backend_free(plan);
        }
        backend_free(offered[i]);
    }
    backend_free(graph);
}

void use_run_by_graph(cudnnHandle_t handle, Use *use) {
    if (!use->plan) use_ask(handle, use, GET);
    Backend pack = pack_new(&use->kernel, use->workspace.start);
    CALL(graph_run(handle, use->plan, pack, &use->kernel));
    backend_free(pack);
}
