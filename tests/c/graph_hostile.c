/* Null, garbage and mismatched arguments to every function of the graph API. Prints a line for each call: its text and
 * its status.
 *
 * graph_hostile each          every argument of every function in turn
 * graph_hostile SEED CALLS    random calls on descriptors of all kinds, finalized or not */
#include <string.h>

#include "graph.h"

enum { MEMORY = 16 << 20, KINDS = 44 };

static cudnnHandle_t handle;
static unsigned char garbage[4096]; /* readable, but not a descriptor */
static _Alignas(64) unsigned char memory[MEMORY]; /* the memory that variant packs point into */

static void said(const char *call, cudnnStatus_t status) { printf("%s|%d\n", call, status); }
#define SAY(call) said(#call, call)

/* The descriptors of a problem, of all kinds, finalized. */
typedef struct {
    Kernel kernel;
    Backend graph, heuristics, configuration, engine, plan, pack;
} Set;

static Shape shape_of(int index) { return shape_square((Operation)(index % 4), 6, 3, 6, 4, 3, 1); }

static void set_open(Set *set, int index) {
    Random random = {5};
    Shape shape = shape_of(index);
    Backend offered[MOST_CONFIGURATIONS];
    kernel_open(&set->kernel, &shape, &random);
    set->graph = graph_new(handle, &set->kernel, 4);
    int count = graph_configurations(set->graph, CUDNN_HEUR_MODE_A, offered), mode = CUDNN_HEUR_MODE_A;
    set->configuration = offered[0];
    while (count > 1) backend_free(offered[--count]);
    set->heuristics = backend_new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    backend_set_descriptor(set->heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, set->graph);
    backend_set(set->heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    backend_finalize(set->heuristics);
    int64_t engines;
    set->engine = backend_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    CALL(cudnnBackendGetAttribute(set->configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                  &engines, &set->engine));
    set->plan = plan_new(handle, set->configuration);
    set->pack = pack_new(&set->kernel, memory);
}

static void set_close(Set *set) {
    backend_free(set->pack), backend_free(set->plan), backend_free(set->engine), backend_free(set->configuration);
    backend_free(set->heuristics), backend_free(set->graph);
    kernel_close(&set->kernel);
}

/* ---- each argument in turn ---- */

static void each(void) {
    for (int index = 0; index < 4; index++) {
        Set set;
        set_open(&set, index);
        Backend none = NULL, junk = garbage, fresh = backend_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        Backend tensor = backend_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR), made;
        cudnnHandle_t no_handle = (cudnnHandle_t)(void *)garbage;
        int64_t count, size, sizes[4] = {2, 3, 4, 5};

        SAY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, NULL));
        static const int kinds[] = {-1, 6, 44, 45, 1000, -2147483647};
        for (int i = 0; i < 6; i++) SAY(cudnnBackendCreateDescriptor(kinds[i], &made));
        for (int kind = 0; kind < KINDS; kind++) {
            cudnnStatus_t status = cudnnBackendCreateDescriptor(kind, &made);
            said("create", status);
            if (status != CUDNN_STATUS_SUCCESS) continue;
            SAY(cudnnBackendFinalize(made));
            SAY(cudnnBackendInitialize(made));
            SAY(cudnnBackendExecute(handle, made, set.pack));
            SAY(cudnnBackendExecute(handle, set.plan, made));
            SAY(cudnnBackendDestroyDescriptor(made));
        }
        SAY(cudnnBackendDestroyDescriptor(none));
        SAY(cudnnBackendDestroyDescriptor(junk));
        SAY(cudnnBackendInitialize(none));
        SAY(cudnnBackendInitialize(junk));
        SAY(cudnnBackendFinalize(none));
        SAY(cudnnBackendFinalize(junk));
        SAY(cudnnBackendFinalize(fresh));
        SAY(cudnnBackendFinalize(set.plan));
        SAY(cudnnBackendFinalize(set.graph));

        SAY(cudnnBackendSetAttribute(none, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes));
        SAY(cudnnBackendSetAttribute(junk, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, NULL));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, -4, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, INT64_MAX, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, INT64_C(1) << 40, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, -9, 4, sizes));
        SAY(cudnnBackendSetAttribute(tensor, -9, CUDNN_TYPE_INT64, 4, sizes));
        SAY(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, sizes));
        SAY(cudnnBackendSetAttribute(set.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
        SAY(cudnnBackendSetAttribute(set.pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &none));
        SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &none));
        SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &no_handle));
        SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, sizes));
        Backend wrong[] = {none, junk, tensor, set.graph, set.pack};
        for (int i = 0; i < 5; i++) {
            SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &wrong[i]));
            SAY(cudnnBackendFinalize(fresh));
        }

        cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        SAY(cudnnBackendGetAttribute(none, name, CUDNN_TYPE_INT64, 1, &count, &size));
        SAY(cudnnBackendGetAttribute(junk, name, CUDNN_TYPE_INT64, 1, &count, &size));
        SAY(cudnnBackendGetAttribute(fresh, name, CUDNN_TYPE_INT64, 1, &count, &size));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, 1, NULL, &size));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, 1, &count, NULL));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, 1, NULL, NULL));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, 0, &count, &size));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, -1, &count, &size));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_INT64, INT64_MIN, NULL, NULL));
        SAY(cudnnBackendGetAttribute(set.plan, name, CUDNN_TYPE_DOUBLE, 1, &count, &size));
        SAY(cudnnBackendGetAttribute(set.plan, -9, CUDNN_TYPE_INT64, 1, &count, &size));
        SAY(cudnnBackendGetAttribute(set.pack, name, CUDNN_TYPE_INT64, 1, &count, &size));
        Backend places[] = {none, junk, tensor, fresh};
        for (int i = 0; i < 4; i++) {
            for (int64_t room = -1; room < 4; room++) {
                Backend filled[4] = {places[i], none, places[i], none};
                SAY(cudnnBackendGetAttribute(set.heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, filled));
                SAY(cudnnBackendGetAttribute(set.heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, NULL, filled));
                SAY(cudnnBackendGetAttribute(set.configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, NULL, filled));
                SAY(cudnnBackendGetAttribute(set.heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, NULL, NULL));
            }
        }

        cudnnHandle_t handles[] = {handle, NULL, no_handle};
        Backend plans[] = {set.plan, none, junk, tensor, fresh, set.pack, set.graph};
        Backend packs[] = {set.pack, none, junk, tensor, fresh, set.plan, set.graph};
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 7; j++) {
                for (int k = 0; k < 7; k++) {
                    SAY(cudnnBackendExecute(handles[i], plans[j], packs[k]));
                    size_t bytes = 0;
                    SAY(cudnnGetExecutionPlanWorkspaceSize(handles[i], plans[j], packs[k], NULL));
                    SAY(cudnnGetExecutionPlanWorkspaceSize(handles[i], plans[j], packs[k], &bytes));
                    SAY(cudnnBackendPopulateCudaGraph(handles[i], plans[j], packs[k], NULL));
                    SAY(cudnnBackendPopulateCudaGraph(handles[i], plans[j], packs[k], (cudaGraph_t)(void *)garbage));
                    SAY(cudnnBackendUpdateCudaGraph(handles[i], plans[j], packs[k], NULL));
                    SAY(cudnnBackendUpdateCudaGraph(handles[i], plans[j], packs[k], (cudaGraph_t)(void *)garbage));
                }
            }
        }
        backend_free(fresh), backend_free(tensor);
        set_close(&set);
    }
}

/* ---- random calls ---- */

/* The descriptors of some complete problems, then those that random calls make and destroy. */
enum { SETS = 4, PARTS = 6, POOL = 48 };

static struct {
    Backend descriptor;
    int kind;
} pool[POOL];

static Backend any_descriptor(Random *random) {
    int choice = random_below(random, POOL + 2);
    return choice == POOL ? NULL : choice > POOL ? (Backend)garbage : pool[choice].descriptor;
}

/* The attributes of a kind have consecutive names. */
static int any_name(Random *random, int kind) {
    static const struct {
        int kind, first, count;
    } ranges[] = {{0, 0, 10},     {1, 100, 7},    {2, 1300, 9},  {3, 300, 5},   {4, 200, 5},   {5, 400, 8},
                  {7, 600, 2},    {8, 1200, 4},   {9, 1100, 2},  {10, 700, 6},  {11, 712, 6},  {12, 706, 6},
                  {13, 750, 9},   {15, 800, 5},   {16, 1000, 13}, {17, 900, 14}, {38, 2700, 3}};
    enum { RANGES = sizeof ranges / sizeof *ranges };
    int range = random_below(random, RANGES);
    for (int i = 0; i < RANGES && random_below(random, 10) > 0; i++)
        if (ranges[i].kind == kind) range = i;
    return ranges[range].first + random_below(random, ranges[range].count);
}

/* Most of the time the type that the attribute has. */
static int any_type(Random *random, int name) {
    static const int likely[][2] = {
        {0, 14},   {1, 1},    {3, 5},    {4, 5},    {5, 5},    {100, 1},  {101, 7},   {200, 8},   {201, 15}, {202, 15},
        {300, 15}, {302, 15}, {400, 0},  {401, 15}, {407, 15}, {600, 9},  {750, 15},  {751, 15},  {752, 15}, {753, 15},
        {754, 4},  {755, 4},  {800, 0},  {801, 15}, {901, 1},  {907, 2},  {908, 2},   {1001, 6},  {1003, 6}, {1300, 15},
        {1303, 11}, {2701, 0}};
    if (random_below(random, 8) == 0) return random_below(random, 33) - 1;
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++)
        if (likely[i][0] == name) return likely[i][1];
    if (name / 100 == 7 && name < 750) return CUDNN_TYPE_BACKEND_DESCRIPTOR;
    return CUDNN_TYPE_INT64;
}

/* Elements of a type. Numbers are small, so that the described tensors lie within `memory`. */
static void any_elements(Random *random, int type, unsigned char *elements, int count) {
    for (int i = 0; i < count; i++) {
        int64_t number = random_below(random, 20) == 0 ? -1 : random_below(random, 9);
        double real = number * 0.5;
        float small = (float)real;
        void *pointers[] = {NULL, memory + 64 * random_below(random, 64), memory + random_below(random, 4096)};
        void *pointer = pointers[random_below(random, 3)];
        void *handles[] = {handle, handle, NULL, garbage};
        switch (type) {
            case CUDNN_TYPE_HANDLE: memcpy(elements + 8 * i, &handles[random_below(random, 4)], 8); break;
            case CUDNN_TYPE_VOID_PTR: memcpy(elements + 8 * i, &pointer, 8); break;
            case CUDNN_TYPE_BACKEND_DESCRIPTOR:
                pointer = any_descriptor(random);
                memcpy(elements + 8 * i, &pointer, 8);
                break;
            case CUDNN_TYPE_DOUBLE: memcpy(elements + 8 * i, &real, 8); break;
            case CUDNN_TYPE_FLOAT: memcpy(elements + 4 * i, &small, 4); break;
            case CUDNN_TYPE_INT64: case CUDNN_TYPE_FRACTION: memcpy(elements + 8 * i, &number, 8); break;
            case CUDNN_TYPE_BOOLEAN: case CUDNN_TYPE_CHAR: elements[i] = (unsigned char)(number & 1); break;
            default: memcpy(elements + 4 * i, &number, 4); break; /* little-endian */
        }
    }
}

static void place_set(int place, int index) {
    Set set;
    set_open(&set, index);
    Backend made[] = {set.graph, set.heuristics, set.configuration, set.engine, set.plan, NULL};
    static const int kinds[] = {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};
    /* This pack remains valid after the problem's memory is freed. */
    Kernel elsewhere = set.kernel;
    Guarded *tensors[] = {&elsewhere.x, &elsewhere.w, &elsewhere.y, &elsewhere.bias};
    for (int i = 0; i < 4; i++) tensors[i]->start = memory + ((i + 1) << 16);
    made[5] = pack_new(&elsewhere, memory + (5 << 16));
    for (int i = 0; i < PARTS; i++) pool[place + i].descriptor = made[i], pool[place + i].kind = kinds[i];
    backend_free(set.pack);
    kernel_close(&set.kernel);
}

static void renew(Random *random, int place) {
    static const int kinds[] = {0, 1, 2, 3, 4, 5, 7, 10, 11, 12, 13, 15, 16, 17, 17, 17, 38};
    pool[place].kind = kinds[random_below(random, (int)(sizeof kinds / sizeof *kinds))];
    pool[place].descriptor = backend_new(pool[place].kind);
}

static void random_calls(uint64_t seed, int calls) {
    Random random = {seed};
    for (int i = 0; i < SETS; i++) place_set(PARTS * i, i);
    for (int i = SETS * PARTS; i < POOL; i++) renew(&random, i);
    for (int i = 0; i < calls; i++) {
        int is_set = random_below(&random, 10) < 3, choice = random_below(&random, 100), name, type, count;
        int first = is_set ? 0 : SETS * PARTS, behind = is_set ? SETS * PARTS : POOL;
        int place = first + random_below(&random, behind - first);
        Backend descriptor = random_below(&random, 40) == 0 ? any_descriptor(&random) : pool[place].descriptor;
        unsigned char elements[1024];
        char call[64];
        cudnnStatus_t status;
        name = any_name(&random, pool[place].kind);
        type = any_type(&random, name);
        count = random_below(&random, 12) == 0 ? random_below(&random, 8) - 1 : type == 15 || name % 100 > 5 ? 1 : 4;
        if (choice < 45) {
            memset(elements, 0, sizeof elements);
            any_elements(&random, type, elements, 16);
            int is_null = random_below(&random, 50) == 0;
            snprintf(call, sizeof call, "%d set %d %d as %d, %d", i, place, name, type, count);
            status = cudnnBackendSetAttribute(descriptor, name, type, count, is_null ? NULL : elements);
        } else if (choice < 75) {
            memset(elements, 0x5A, sizeof elements);
            if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) any_elements(&random, type, elements, 16);
            int64_t got = -5;
            int is_null = random_below(&random, 10) == 0;
            status = cudnnBackendGetAttribute(descriptor, name, type, count, random_below(&random, 10) ? &got : NULL,
                                              is_null ? NULL : elements);
            int holds = type == CUDNN_TYPE_INT64 && !is_null && status == CUDNN_STATUS_SUCCESS;
            int64_t value = 0;
            if (holds) memcpy(&value, elements, sizeof value);
            snprintf(call, sizeof call, "%d get %d %d as %d, %d: %lld %lld", i, place, name, type, count,
                     (long long)got, (long long)value);
        } else if (choice < 83) {
            snprintf(call, sizeof call, "%d finalize %d", i, place);
            status = cudnnBackendFinalize(descriptor);
        } else if (choice < 84) {
            snprintf(call, sizeof call, "%d initialize %d", i, place);
            status = cudnnBackendInitialize(descriptor);
        } else if (choice < 94) {
            int other = random_below(&random, POOL), likely = PARTS * random_below(&random, SETS);
            Backend plan = random_below(&random, 3) ? pool[likely + 4].descriptor : descriptor;
            Backend pack = random_below(&random, 3) ? pool[likely + 5].descriptor : pool[other].descriptor;
            snprintf(call, sizeof call, "%d execute", i);
            status = cudnnBackendExecute(random_below(&random, 20) ? handle : NULL, plan, pack);
        } else if (place >= SETS * PARTS) {
            snprintf(call, sizeof call, "%d destroy %d", i, place);
            status = cudnnBackendDestroyDescriptor(pool[place].descriptor);
            renew(&random, place);
        } else {
            continue;
        }
        said(call, status);
    }
    for (int i = 0; i < POOL; i++) backend_free(pool[i].descriptor);
}

int main(int count, char **arguments) {
    CALL(cudnnCreate(&handle));
    if (count == 3) random_calls(strtoull(arguments[1], NULL, 10), atoi(arguments[2]));
    else each();
    CALL(cudnnDestroy(handle));
    return 0;
}
