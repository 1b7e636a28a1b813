/* Puts plans into CUDA graphs, launches the graphs, and updates them to other memory. Prints a line for each plan: the
 * problem, the plan's place among the candidates of heuristics, its bytes of workspace, and the number of nodes of its
 * graph: 0 if cuDNN cannot put the plan into a graph, in which case it is executed.
 *
 * graph_cuda_graph
 *
 * The graphs are those of cuda_graphs.c, if that is in libcuda.so.1's place. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "graph.h"

typedef struct {
    int (*create)(cudaGraph_t *graph, unsigned flags);
    int (*clone)(cudaGraph_t *clone, cudaGraph_t graph);
    int (*destroy)(cudaGraph_t graph);
    int (*launch)(cudaGraph_t graph);
} Driver;

static Driver driver;
static int no_graph; /* stands for a graph where there is no driver */

/* ISO C has no cast from an object's address to a function's. */
static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

static cudaGraph_t graph_create(void) {
    cudaGraph_t graph = (cudaGraph_t)&no_graph;
    if (driver.launch) driver.create(&graph, 0);
    return graph;
}

static void graph_destroy(cudaGraph_t graph) {
    if (driver.launch) driver.destroy(graph);
}

/* Two problems of one shape, a plan for both, and memory for each. */
typedef struct {
    cudnnHandle_t handle;
    Backend plan, packs[2];
    Kernel *kernels;
    Guarded workspaces[2];
} Pair;

static void require_right(const Pair *pair, int which, const char *how) {
    double error = kernel_error(&pair->kernels[which]);
    REQUIRE(error <= kernel_tolerance(&pair->kernels[which]), "%s: off by %g", how, error);
    guarded_check(&pair->workspaces[which], "the workspace");
}

static void require_status(cudnnStatus_t status, cudnnStatus_t wanted, const char *what) {
    REQUIRE(status == wanted, "%s: %s", what, cudnnGetErrorString(status));
}

/* The number of nodes of the plan's graph; 0 if the plan cannot be put into one. */
static int put(const Pair *pair) {
    cudaGraph_t graph = graph_create(), empty = graph_create(), clone;
    kernel_restore(&pair->kernels[0]), kernel_restore(&pair->kernels[1]);
    cudnnStatus_t status = cudnnBackendPopulateCudaGraph(pair->handle, pair->plan, pair->packs[0], graph);
    if (status == CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API) {
        CALL(graph_run(pair->handle, pair->plan, pair->packs[0], &pair->kernels[0]));
        require_right(pair, 0, "executed");
        graph_destroy(graph), graph_destroy(empty);
        return 0;
    }
    require_status(status, CUDNN_STATUS_SUCCESS, "populated");
    REQUIRE(driver.launch, "there are no graphs");
    int nodes = driver.launch(graph);
    require_right(pair, 0, "launched");

    status = cudnnBackendPopulateCudaGraph(pair->handle, pair->plan, pair->packs[1], graph);
    require_status(status, CUDNN_STATUS_BAD_PARAM, "populated again");
    status = cudnnBackendUpdateCudaGraph(pair->handle, pair->plan, pair->packs[1], empty);
    require_status(status, CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH, "another graph updated");
    driver.clone(&clone, graph);
    CALL(cudnnBackendUpdateCudaGraph(pair->handle, pair->plan, pair->packs[1], graph));
    REQUIRE(driver.launch(graph) == nodes, "an update changes no structure");
    require_right(pair, 1, "updated");

    kernel_restore(&pair->kernels[0]), kernel_restore(&pair->kernels[1]);
    driver.launch(clone);
    require_right(pair, 0, "what was cloned before");
    CALL(cudnnBackendUpdateCudaGraph(pair->handle, pair->plan, pair->packs[1], clone));
    driver.launch(clone);
    require_right(pair, 1, "a clone updated");
    graph_destroy(graph), graph_destroy(empty), graph_destroy(clone);
    return nodes;
}

static Shape shape_of(int index) {
    Shape shape = shape_square((Operation)(index % 4), 12, 6, 8, 8, 3, 1);
    shape.beta = index / 4 % 2;
    shape.z_apart = 1;
    shape.type = index / 8 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    shape_layout(&shape, index / 8);
    return shape;
}

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library) {
        find(library, "cuGraphCreate", &driver.create);
        find(library, "cuGraphClone", &driver.clone);
        find(library, "cuGraphDestroy", &driver.destroy);
        find(library, "cuda_graphs_launch", &driver.launch);
    }
    Pair pair;
    CALL(cudnnCreate(&pair.handle));
    Random random = {5};
    for (int i = 0; i < 16; i++) {
        Shape shape = shape_of(i);
        Kernel kernels[2];
        kernel_open(&kernels[0], &shape, &random), kernel_open(&kernels[1], &shape, &random);
        pair.kernels = kernels;
        Backend offered[MOST_CONFIGURATIONS], graph = graph_new(pair.handle, kernels, 16);
        int offers = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
        REQUIRE(offers > 0, "nothing is offered");
        for (int j = 0; j < offers; j++) {
            pair.plan = plan_new(pair.handle, offered[j]);
            size_t bytes = plan_workspace(pair.plan);
            for (int which = 0; which < 2; which++) {
                pair.workspaces[which] = guarded_new(bytes);
                memset(pair.workspaces[which].start, 0xff, bytes); /* NaN, in case it is read */
                pair.packs[which] = pack_new(&kernels[which], pair.workspaces[which].start);
            }
            printf("%d %d %d %d\n", i, j, (int)bytes, put(&pair));
            for (int which = 0; which < 2; which++) {
                backend_free(pair.packs[which]);
                guarded_free(&pair.workspaces[which]);
            }
            backend_free(pair.plan);
            backend_free(offered[j]);
        }
        backend_free(graph);
        kernel_close(&kernels[0]), kernel_close(&kernels[1]);
    }
    CALL(cudnnDestroy(pair.handle));
    puts("ended");
    return 0;
}
