/* The promises of graph-API plans besides their results.
 *
 * graph_promises many N          N plans of one convolution, each executed; prints the number of finalized descriptors,
 *                                if the library that COUNTING names counts them
 * graph_promises lifetimes N     N problems one after the other, whose descriptors reuse the addresses of earlier ones
 * graph_promises packs N         variant packs of all kinds, in turns with N executions; prints their statuses
 * graph_promises elsewhere N     plans whose handle is destroyed, executed N times on other handles and streams
 * graph_promises again N         plans from configurations read back from plans, executed N times; prints workspaces,
 *                                which are the same when they are asked for with a variant pack
 * graph_promises attributes      prints all attributes of every descriptor; none may change once it is finalized */
#include <dlfcn.h>
#include <string.h>

#include "graph.h"

static cudnnHandle_t handle;
static Random random_state = {11};

static Shape shape_of(int index) {
    Shape shape = shape_square((Operation)(index % 4), 16, 4 + index % 3, 8, 6, 3, 1);
    shape.beta = index / 4 % 2;
    shape.z_apart = index / 8 % 2;
    return shape;
}

static void must_be_right(const Kernel *kernel, const Guarded *workspace, const char *when) {
    guarded_check(workspace, "the workspace");
    double error = kernel_error(kernel);
    REQUIRE(error <= kernel_tolerance(kernel), "%s: off by %g", when, error);
}

static int offers_of(Kernel *kernel, Backend offered[MOST_CONFIGURATIONS]) {
    Backend graph = graph_new(handle, kernel, 4);
    int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
    REQUIRE(count > 0, "nothing is offered");
    backend_free(graph);
    return count;
}

static void free_all(Backend *descriptors, int count) {
    while (count > 0) backend_free(descriptors[--count]);
}

/* ---- many plans of one convolution ---- */

static void many(int plans) {
    Shape shape = shape_of(0);
    Kernel kernel;
    kernel_open(&kernel, &shape, &random_state);
    for (int made = 0; made < plans;) {
        Backend offered[MOST_CONFIGURATIONS];
        int count = offers_of(&kernel, offered);
        for (int i = 0; i < count && made < plans; i++, made++) {
            Backend plan = plan_new(handle, offered[i]);
            Guarded workspace = guarded_new(plan_workspace(plan));
            Backend pack = pack_new(&kernel, workspace.start);
            CALL(graph_run(handle, plan, pack, &kernel));
            must_be_right(&kernel, &workspace, "one of many");
            backend_free(pack), backend_free(plan);
            guarded_free(&workspace);
        }
        free_all(offered, count);
    }
    kernel_close(&kernel);
    void *library = getenv("COUNTING") ? dlopen(getenv("COUNTING"), RTLD_NOW | RTLD_NOLOAD) : NULL;
    const long *counts = library ? dlsym(library, "counting_finalized") : NULL;
    if (counts)
        printf("graphs %ld\nheuristics %ld\nplans %ld\n", counts[CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR],
               counts[CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR], counts[CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR]);
}

/* ---- lifetimes ---- */

static void lifetimes(int kernels) {
    enum { MOST_SEEN = 1 << 12 };
    static Backend seen[MOST_SEEN];
    int reused = 0, count_seen = 0;
    for (int i = 0; i < kernels; i++) {
        Shape shape = shape_of(i);
        shape.x[0] = shape.y[0] = 2 + random_below(&random_state, 30);
        Kernel kernel;
        kernel_open(&kernel, &shape, &random_state);
        Backend offered[MOST_CONFIGURATIONS];
        int count = offers_of(&kernel, offered);
        Backend plan = plan_new(handle, offered[i % count]);
        free_all(offered, count);
        Guarded workspace = guarded_new(plan_workspace(plan));
        for (int execution = 0; execution < 12; execution++) {
            /* The pack may have the address of an earlier pack, but refers to other memory. */
            Guarded moved = guarded_new(workspace.bytes);
            guarded_free(&workspace);
            workspace = moved;
            Backend pack = pack_new(&kernel, workspace.start);
            for (int j = 0; j < count_seen; j++) reused += seen[j] == pack;
            if (count_seen < MOST_SEEN) seen[count_seen++] = pack;
            CALL(graph_run(handle, plan, pack, &kernel));
            must_be_right(&kernel, &workspace, "its descriptors are gone");
            backend_free(pack);
        }
        backend_free(plan);
        guarded_free(&workspace);
        kernel_close(&kernel);
    }
    printf("reused %d\n", reused > 0);
}

/* ---- variant packs ---- */

enum { NORMAL, MISSING_X, MISSING_Y, MISSING_W, NULL_X, NULL_Y, NULL_W, NULL_WORKSPACE, NO_WORKSPACE, EXTRA, TWICE,
       NOT_FINALIZED, SAME_MEMORY, OVERLAPPING, MISALIGNED, OVERRIDDEN, MORE_IDS, PACKS };

/* Makes a pack of a kind. Returns its first failure, or the status of finalizing. */
static cudnnStatus_t odd_pack(const Kernel *kernel, void *workspace, int kind, Backend *pack) {
    int64_t ids[5] = {X_ID, Y_ID, W_ID, 77, X_ID}, overridden = X_ID;
    char *pointers[5] = {(char *)kernel->x.start, (char *)kernel->y.start, (char *)kernel->w.start,
                         (char *)kernel->x.start, NULL};
    const Guarded *result = kernel_result(kernel);
    int count = 3, place = kernel->shape.operation == BACKWARD_DATA ? 0 : kernel->shape.operation == FORWARD ? 1 : 2;
    int other = place == 0 ? 1 : 0;
    switch (kind) {
        case MISSING_X: case MISSING_Y: case MISSING_W: ids[kind - MISSING_X] = 99; break;
        case NULL_X: case NULL_Y: case NULL_W: pointers[kind - NULL_X] = NULL; break;
        case NULL_WORKSPACE: workspace = NULL; break;
        case EXTRA: count = 4; break;
        case TWICE: count = 5; break;
        case SAME_MEMORY: pointers[place] = pointers[other]; break;
        case OVERLAPPING: pointers[other] = (char *)result->start + (result->bytes / 8 * 4); break;
        case MISALIGNED: pointers[other] += 1; break;
    }
    *pack = backend_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    backend_set(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, kind == MORE_IDS ? 4 : count, ids);
    backend_set(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    if (kind != NO_WORKSPACE)
        backend_set(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (kind == OVERRIDDEN)
        backend_set(*pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, &overridden);
    return kind == NOT_FINALIZED ? CUDNN_STATUS_SUCCESS : cudnnBackendFinalize(*pack);
}

static void packs(int executions) {
    enum { KERNELS = 6, MOST_PLANS = 4 };
    for (int i = 0; i < KERNELS; i++) {
        Shape shape = shape_of(i / 3 * 4 + i % 3);
        Kernel kernel;
        kernel_open(&kernel, &shape, &random_state);
        Backend offered[MOST_CONFIGURATIONS];
        int count = offers_of(&kernel, offered);
        for (int j = 0; j < count && j < MOST_PLANS; j++) {
            Backend plan = plan_new(handle, offered[j]);
            Guarded workspace = guarded_new(plan_workspace(plan));
            for (int execution = 0; execution < executions; execution++) {
                int kind = execution % PACKS;
                Backend pack;
                cudnnStatus_t status = odd_pack(&kernel, workspace.start, kind, &pack);
                if (status == CUDNN_STATUS_SUCCESS) {
                    kernel_restore(&kernel);
                    status = cudnnBackendExecute(handle, plan, pack);
                    guarded_check(&workspace, "the workspace");
                    double error = kernel_error(&kernel); /* checks the canaries, whatever the status */
                    if (status == CUDNN_STATUS_SUCCESS && kind != SAME_MEMORY && kind != OVERLAPPING)
                        REQUIRE(error <= kernel_tolerance(&kernel), "pack %d: off by %g", kind, error);
                }
                printf("pack %d %d %d %d\n", i, j, kind, status);
                backend_free(pack);
            }
            backend_free(plan);
            guarded_free(&workspace);
        }
        free_all(offered, count);
        kernel_close(&kernel);
    }
}

/* ---- handles and streams ---- */

static void elsewhere(int executions) {
    static char streams[4]; /* hostdnn does not look into streams */
    cudnnHandle_t handles[3];
    for (int i = 0; i < 3; i++) CALL(cudnnCreate(&handles[i]));
    for (int i = 0; i < 8; i++) {
        Shape shape = shape_of(i);
        Kernel kernel;
        kernel_open(&kernel, &shape, &random_state);
        Backend offered[MOST_CONFIGURATIONS];
        int count = offers_of(&kernel, offered);
        /* The plan's own handle is destroyed before the plan is executed. */
        cudnnHandle_t gone;
        CALL(cudnnCreate(&gone));
        Backend plan = plan_new(gone, offered[0]);
        CALL(cudnnDestroy(gone));
        Guarded workspace = guarded_new(plan_workspace(plan));
        Backend pack = pack_new(&kernel, workspace.start);
        for (int execution = 0; execution < executions; execution++) {
            cudnnHandle_t other = handles[random_below(&random_state, 3)];
            CALL(cudnnSetStream(other, (cudaStream_t)(void *)&streams[random_below(&random_state, 4)]));
            CALL(graph_run(other, plan, pack, &kernel));
            must_be_right(&kernel, &workspace, "elsewhere");
        }
        backend_free(pack), backend_free(plan);
        guarded_free(&workspace);
        free_all(offered, count);
        kernel_close(&kernel);
    }
    for (int i = 0; i < 3; i++) CALL(cudnnDestroy(handles[i]));
}

/* ---- configurations read back ---- */

/* Reads into a new descriptor, and into a candidate's for another problem. */
static void again(int executions) {
    for (int i = 0; i < 8; i++) {
        Shape other_shape = shape_of(i), shape = other_shape;
        shape.x[0] = shape.y[0] = 7;
        Kernel other, kernel;
        kernel_open(&other, &other_shape, &random_state);
        kernel_open(&kernel, &shape, &random_state);
        Backend others[MOST_CONFIGURATIONS], offered[MOST_CONFIGURATIONS];
        int count_others = offers_of(&other, others), count = offers_of(&kernel, offered);
        Backend first = plan_new(handle, offered[i % count]);
        Backend places[] = {backend_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), others[0]};
        for (int j = 0; j < 2; j++) {
            int64_t filled;
            CALL(cudnnBackendGetAttribute(first, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, j ? NULL : &filled, &places[j]));
            Backend plan = plan_new(handle, places[j]);
            Guarded workspace = guarded_new(plan_workspace(plan));
            printf("told %zu\n", workspace.bytes);
            Backend pack = pack_new(&kernel, workspace.start);
            for (int execution = 0; execution < executions; execution++) {
                size_t asked = 0;
                CALL(cudnnGetExecutionPlanWorkspaceSize(handle, plan, pack, &asked));
                REQUIRE(asked == workspace.bytes, "%zu bytes with a pack, %zu without", asked, workspace.bytes);
                CALL(graph_run(handle, plan, pack, &kernel));
                must_be_right(&kernel, &workspace, "a configuration that was read back");
            }
            backend_free(pack), backend_free(plan);
            guarded_free(&workspace);
        }
        backend_free(places[0]), backend_free(first);
        free_all(others, count_others), free_all(offered, count);
        kernel_close(&other), kernel_close(&kernel);
    }
}

/* ---- attributes ---- */

/* FNV-1a */
static uint64_t hash(uint64_t state, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) state = (state ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3u;
    return state;
}

/* Reads every attribute as every type, and tries to set each. Prints a line for each attribute that can be read, and
 * one for all statuses. */
static void dump(const char *what, Backend descriptor) {
    uint64_t all = 0xCBF29CE484222325u;
    for (int name = 0; name < 2800; name++) {
        if (name % 100 > 20 && name / 100 != 7) continue;
        for (int type = 0; type <= CUDNN_TYPE_FRACTION; type++) {
            unsigned char bytes[1024];
            memset(bytes, 0, sizeof bytes);
            int64_t count = -7;
            int holds_addresses = type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_VOID_PTR;
            int is_descriptor = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
            cudnnStatus_t status = cudnnBackendGetAttribute(descriptor, name, type, is_descriptor ? 0 : 1, &count,
                                                            is_descriptor ? NULL : bytes);
            cudnnStatus_t set = is_descriptor ? 0 : cudnnBackendSetAttribute(descriptor, name, type, 1, bytes);
            REQUIRE(is_descriptor || set != CUDNN_STATUS_SUCCESS, "attribute %d of %s was set", name, what);
            all = hash(hash(all, &status, sizeof status), &set, sizeof set);
            if (status != CUDNN_STATUS_SUCCESS) continue;
            printf("%s %d as %d: %lld values", what, name, type, (long long)count);
            if (!holds_addresses && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
                int64_t size;
                memcpy(&size, bytes, sizeof size);
                printf(", workspace %lld", (long long)size);
            } else if (!holds_addresses) {
                printf(", %016llx", (unsigned long long)hash(1, bytes, sizeof bytes));
            }
            putchar('\n');
        }
    }
    printf("%s: %016llx\n", what, (unsigned long long)all);
}

static void attributes(void) {
    for (int i = 0; i < 8; i++) {
        Shape shape = shape_of(i);
        Kernel kernel;
        kernel_open(&kernel, &shape, &random_state);
        Backend graph = graph_new(handle, &kernel, 4), offered[MOST_CONFIGURATIONS];
        dump("graph", graph);
        int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
        for (int j = 0; j < count && j < 3; j++) {
            dump("configuration", offered[j]);
            Backend engine = backend_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            int64_t engines;
            CALL(cudnnBackendGetAttribute(offered[j], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                          &engines, &engine));
            dump("engine", engine);
            backend_free(engine);
            Backend plan = plan_new(handle, offered[j]);
            dump("plan", plan);
            Backend configuration = backend_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
            CALL(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, &engines, &configuration));
            dump("plan's configuration", configuration);
            backend_free(configuration);
            Guarded workspace = guarded_new(plan_workspace(plan));
            Backend pack = pack_new(&kernel, workspace.start);
            dump("pack", pack);
            printf("finalized again: %d %d\n", cudnnBackendFinalize(plan), cudnnBackendFinalize(pack));
            /* Neither reads nor refused calls have changed anything. */
            for (int execution = 0; execution < 5; execution++) {
                CALL(graph_run(handle, plan, pack, &kernel));
                must_be_right(&kernel, &workspace, "its attributes were read");
            }
            /* Initialization resets a plan: it cannot be executed until it is finalized again. */
            printf("initialized: %d, executed: ", cudnnBackendInitialize(plan));
            printf("%d\n", cudnnBackendExecute(handle, plan, pack));
            backend_free(pack), backend_free(plan);
            guarded_free(&workspace);
        }
        free_all(offered, count);
        backend_free(graph);
        kernel_close(&kernel);
    }
}

int main(int count, char **arguments) {
    REQUIRE(count >= 2, "what?");
    int number = count > 2 ? atoi(arguments[2]) : 0;
    CALL(cudnnCreate(&handle));
    if (strcmp(arguments[1], "many") == 0) many(number);
    else if (strcmp(arguments[1], "lifetimes") == 0) lifetimes(number);
    else if (strcmp(arguments[1], "packs") == 0) packs(number);
    else if (strcmp(arguments[1], "elsewhere") == 0) elsewhere(number);
    else if (strcmp(arguments[1], "again") == 0) again(number);
    else attributes();
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
