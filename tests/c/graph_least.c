/* Executes plans where every engine needs some workspace. Prints a line for each: the problem, its engine's workspace,
 * the least workspace that computes the problem, in micro-batches or not, and the workspace that it reports.
 *
 * graph_least powerOfTwo|all
 *
 * The library in front of cuDNN (UCUDNN_CUDNN_LIBRARY) is asked directly for the workspaces of engines. */
#include <dlfcn.h>
#include <string.h>

#include "graph.h"

enum { MOST_BATCH = 64, NONE = -1 };

static cudnnHandle_t handle;

/* The workspace of a configuration's plan in the library in front of cuDNN; NONE if it does not run. */
static int64_t own_workspace(Backend configuration) {
    static void *library;
    cudnnStatus_t (*finalize)(Backend);
    cudnnStatus_t (*get)(Backend, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
    if (!library) library = dlopen(getenv("UCUDNN_CUDNN_LIBRARY"), RTLD_NOW);
    REQUIRE(library, "%s", dlerror());
    *(void **)&finalize = dlsym(library, "cudnnBackendFinalize");
    *(void **)&get = dlsym(library, "cudnnBackendGetAttribute");
    Backend plan = backend_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    backend_set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    backend_set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    int64_t bytes = NONE, count;
    if (finalize(plan) == CUDNN_STATUS_SUCCESS)
        CALL(get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes));
    backend_free(plan);
    return bytes;
}

/* The least workspace of any candidate of heuristics for `batch` images; NONE if nothing runs. */
static int64_t least_of_size(const Kernel *kernel, int64_t alignment, int batch) {
    Kernel part = *kernel;
    part.shape.x[0] = part.shape.y[0] = batch;
    Backend graph = graph_new(handle, &part, alignment), offered[MOST_CONFIGURATIONS];
    int64_t least = NONE;
    for (int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered); count > 0;) {
        int64_t bytes = own_workspace(offered[--count]);
        if (bytes != NONE && (least == NONE || bytes < least)) least = bytes;
        backend_free(offered[count]);
    }
    backend_free(graph);
    return least;
}

/* Returns whether the tensors' alignment allows a cut after `size` images. */
static int is_aligned(const Shape *shape, int64_t alignment, int size) {
    int64_t x = (int64_t)sizeof(float) * shape->x_strides[0], y = (int64_t)sizeof(float) * shape->y_strides[0];
    return size * x % alignment == 0 && size * y % alignment == 0;
}

/* The least workspace in which all images can be computed. */
static int64_t least_of_all(const Kernel *kernel, int64_t alignment, int every_size) {
    int batch = kernel->shape.x[0];
    int64_t of_size[MOST_BATCH + 1], of_images[MOST_BATCH + 1] = {0};
    for (int size = 1; size <= batch; size++) {
        int is_tried = size == batch || ((every_size || (size & (size - 1)) == 0) &&
                                         is_aligned(&kernel->shape, alignment, size));
        of_size[size] = is_tried ? least_of_size(kernel, alignment, size) : NONE;
    }
    for (int images = 1; images <= batch; images++) {
        of_images[images] = NONE;
        for (int size = 1; size <= images; size++) {
            if (of_size[size] == NONE || of_images[images - size] == NONE) continue;
            int64_t bytes = of_size[size] > of_images[images - size] ? of_size[size] : of_images[images - size];
            if (of_images[images] == NONE || bytes < of_images[images]) of_images[images] = bytes;
        }
    }
    return of_images[batch];
}

int main(int count, char **arguments) {
    static const struct {
        int n, c, size, k, filter, alignment;
    } kernels[] = {{7, 3, 6, 4, 3, 4},  {12, 4, 8, 6, 3, 16}, {16, 2, 7, 3, 5, 4},
                   {31, 3, 5, 5, 3, 4}, {24, 3, 5, 5, 3, 16}, {10, 4, 9, 4, 1, 4}};
    REQUIRE(count == 2, "graph_least powerOfTwo|all");
    CALL(cudnnCreate(&handle));
    Random random = {17};
    for (int i = 0; i < 12; i++) {
        Shape shape = shape_square(i % 2 ? FUSED : FORWARD, kernels[i / 2].n, kernels[i / 2].c, kernels[i / 2].size,
                                   kernels[i / 2].k, kernels[i / 2].filter, kernels[i / 2].filter / 2);
        int64_t alignment = kernels[i / 2].alignment;
        Kernel kernel;
        kernel_open(&kernel, &shape, &random);
        int64_t least = least_of_all(&kernel, alignment, strcmp(arguments[1], "all") == 0);
        Backend graph = graph_new(handle, &kernel, alignment), offered[MOST_CONFIGURATIONS];
        for (int offers = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered); offers > 0;) {
            int64_t own = own_workspace(offered[--offers]);
            if (own != NONE) {
                Backend plan = plan_new(handle, offered[offers]);
                Guarded workspace = guarded_new(plan_workspace(plan));
                Backend pack = pack_new(&kernel, workspace.start);
                printf("plan %d %lld %lld %zu\n", i, (long long)own, (long long)least, workspace.bytes);
                for (int execution = 0; execution < 4; execution++) {
                    CALL(graph_run(handle, plan, pack, &kernel));
                    guarded_check(&workspace, "the workspace");
                    double error = kernel_error(&kernel);
                    REQUIRE(error <= kernel_tolerance(&kernel), "kernel %d is off by %g", i, error);
                }
                backend_free(pack), backend_free(plan);
                guarded_free(&workspace);
            }
            backend_free(offered[offers]);
        }
        backend_free(graph);
        kernel_close(&kernel);
    }
    CALL(cudnnDestroy(handle));
    return 0;
}
