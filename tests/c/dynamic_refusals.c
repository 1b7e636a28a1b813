/* Every refusal of the functions for vertex nets: its status, its whole text, and that nothing was written. */
#include <math.h>
#include <string.h>

#include "dynamic.h"

static Random randoms = {5};
static Net net;
static Trees trees;
static Case run;

/* The program's handles and places while calls are refused. */
static void *const UNTOUCHED = (void *)&randoms;
#define GARBAGE(type) ((type)(void *)&randoms)
/* An address that is not aligned to more than one byte. */
#define MISALIGNED(pointer) ((void *)((unsigned char *)(void *)(pointer) + 1))

static void refused(cudnnStatus_t status, cudnnStatus_t expected, const char *text, int line) {
    char why[512] = "";
    ucudnnGetVertexNetErrorString(why, sizeof why);
    REQUIRE(status == expected && strcmp(why, text) == 0, "line %d: %d, \"%s\"", line, (int)status, why);
}
#define REFUSED(call, status, text) refused(call, CUDNN_STATUS_##status, text, __LINE__)

/* ---- descriptions ---- */

static void net_refused(const ucudnnVertexNetDescription_t *description, cudnnStatus_t status, const char *text,
                        int line) {
    ucudnnVertexNet_t made = UNTOUCHED;
    refused(ucudnnCreateVertexNet(&made, description), status, text, line);
    REQUIRE((void *)made == UNTOUCHED, "line %d: a handle was written", line);
}

/* The net with one field changed. */
#define NET_REFUSED(field, value, status, text)                                 \
    do {                                                                        \
        static Net changed_;                                                    \
        changed_ = net, net_join(&changed_), changed_.field = (value);          \
        net_refused(&changed_.description, CUDNN_STATUS_##status, text, __LINE__); \
    } while (0)
#define OPERATION_REFUSED(number, field, value, text) \
    NET_REFUSED(operations[1][number].field, value, BAD_PARAM, "function 1, operation " #number ": " text)

static void fields_of_nets(void) {
    REFUSED(ucudnnCreateVertexNet(NULL, &net.description), BAD_PARAM_NULL_POINTER, "net is null");
    ucudnnVertexNet_t made[2];
    REFUSED(ucudnnCreateVertexNet(MISALIGNED(made), &net.description), BAD_PARAM_MISALIGNED_POINTER,
            "net is not aligned to 8 bytes");
    net_refused(NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "description is null", __LINE__);
    net_refused(MISALIGNED(&net.description), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                "description is not aligned to 8 bytes", __LINE__);
    NET_REFUSED(description.configuration, "", NOT_SUPPORTED, "configuration is not null; nets have none yet");
    NET_REFUSED(description.dataType, 3, BAD_PARAM, "dataType is 3; float, double, half and bfloat16 are accepted");
    NET_REFUSED(description.stateCount, 9, BAD_PARAM, "stateCount is 9; 0 to 8 are accepted");
    NET_REFUSED(description.stateCount, -1, BAD_PARAM, "stateCount is -1; 0 to 8 are accepted");
    NET_REFUSED(description.parameterCount, 65, BAD_PARAM, "parameterCount is 65; 0 to 64 are accepted");
    NET_REFUSED(description.pullCount, -2147483647 - 1, BAD_PARAM, "pullCount is -2147483648; 0 to 64 are accepted");
    NET_REFUSED(description.pushCount, 65, BAD_PARAM, "pushCount is 65; 0 to 64 are accepted");
    NET_REFUSED(description.pushCount, 0, BAD_PARAM, "a net has 1 to 64 outputs, not 0");
    NET_REFUSED(description.functionCount, 17, BAD_PARAM, "functionCount is 17; 0 to 16 are accepted");
    NET_REFUSED(description.functionCount, 0, BAD_PARAM, "a net has 1 to 16 functions, not 0");
    NET_REFUSED(description.stateWidths, NULL, BAD_PARAM_NULL_POINTER, "stateWidths is null");
    NET_REFUSED(description.pullWidths, NULL, BAD_PARAM_NULL_POINTER, "pullWidths is null");
    NET_REFUSED(description.pushWidths, NULL, BAD_PARAM_NULL_POINTER, "pushWidths is null");
    NET_REFUSED(description.parameterSizes, NULL, BAD_PARAM_NULL_POINTER, "parameterSizes is null");
    NET_REFUSED(description.functions, NULL, BAD_PARAM_NULL_POINTER, "functions is null");
    NET_REFUSED(functions[1].operations, NULL, BAD_PARAM_NULL_POINTER, "function 1: operations is null");
    NET_REFUSED(description.stateWidths, MISALIGNED(net.states), BAD_PARAM_MISALIGNED_POINTER,
                "stateWidths is not aligned to 4 bytes");
    NET_REFUSED(description.parameterSizes, MISALIGNED(net.parameters), BAD_PARAM_MISALIGNED_POINTER,
                "parameterSizes is not aligned to 4 bytes");
    NET_REFUSED(functions[0].operations, MISALIGNED(net.operations), BAD_PARAM_MISALIGNED_POINTER,
                "function 0: operations is not aligned to 8 bytes");
    NET_REFUSED(states[1], -3, BAD_PARAM, "stateWidths[1] is -3; it is not negative");
    NET_REFUSED(states[1], 0, BAD_PARAM, "state 1: a width is 1 to 65536, not 0");
    NET_REFUSED(pulls[0], 65537, BAD_PARAM, "input 0: a width is 0 to 65536, not 65537");
    NET_REFUSED(pulls[0], -1, BAD_PARAM, "pullWidths[0] is -1; it is not negative");
    NET_REFUSED(pushes[0], 0, BAD_PARAM, "output 0: a width is 1 to 65536, not 0");
    NET_REFUSED(parameters[1][0], 0, BAD_PARAM, "the rows of parameter 1: a width is 1 to 65536, not 0");
    NET_REFUSED(parameters[1][0], -1, BAD_PARAM, "the rows of parameterSizes[1] is -1; it is not negative");
    NET_REFUSED(parameters[1][1], 2147483647, BAD_PARAM,
                "the columns of parameter 1: a width is 0 to 65536, not 2147483647");
    NET_REFUSED(functions[1].children, -2, BAD_PARAM, "function 1: children is -2; -1, 0 or more are accepted");
    NET_REFUSED(functions[1].children, 65536, BAD_PARAM, "function 1: a vertex has at most 65535 children, not 65536");
    NET_REFUSED(functions[1].operationCount, 513, BAD_PARAM,
                "function 1: operationCount is 513; 0 to 512 are accepted");
    NET_REFUSED(functions[1].operationCount, 0, BAD_PARAM, "function 1: a function has 1 to 512 operations, not 0");
    NET_REFUSED(description.loss, 2, BAD_PARAM, "loss is 2; 0 and 1 are accepted");
    NET_REFUSED(description.lossPush, 1, BAD_PARAM, "lossPush is 1; 0 to 0 are accepted");
    NET_REFUSED(description.isTraining, 0, BAD_PARAM, "a loss is given, and isTraining is 0; a step trains");
    NET_REFUSED(description.maxGraphs, -1, BAD_PARAM, "maxGraphs is -1; it is not negative");
    NET_REFUSED(description.maxGraphs, 0, BAD_PARAM, "a maximum of 0 graphs; 1 to 16777216 are accepted");
    NET_REFUSED(description.maxVertices, 1ll << 40, BAD_PARAM,
                "a maximum of 1099511627776 vertices; 1 to 16777216 are accepted");
    NET_REFUSED(description.maxChildren, 1ll << 31, BAD_PARAM,
                "a maximum of 2147483648 children; 0 to 2147483647 are accepted");
    NET_REFUSED(description.maxLevels, 0, BAD_PARAM, "a maximum of 0 levels; 1 to 16777216 are accepted");
    NET_REFUSED(description.hostThreads, -1, BAD_PARAM, "hostThreads is -1; 0 to 4096 are accepted");
    NET_REFUSED(description.hostThreads, 4097, BAD_PARAM, "hostThreads is 4097; 0 to 4096 are accepted");
    NET_REFUSED(description.isStatic, 1, BAD_PARAM,
                "isStatic and isOnHost are not 0; only runs on a device are captured");
}

/* Function 1 begins with a pull, two pairs of gather and concat, a product, and slice and sigmoid. */
static void operations_of_nets(void) {
    /* The first text has the number of the last operation. */
    static Net changed;
    changed = net, net_join(&changed), changed.operations[1][0].op = -1;
    ucudnnVertexNet_t made = UNTOUCHED;
    char why[512] = "", text[128];
    int last = 0, end = 0;
    cudnnStatus_t status = ucudnnCreateVertexNet(&made, &changed.description);
    ucudnnGetVertexNetErrorString(why, sizeof why);
    sscanf(why, "function 1, operation 0: op is -1; 0 to %d are accepted%n", &last, &end);
    REQUIRE(status == CUDNN_STATUS_BAD_PARAM && end == (int)strlen(why) && end > 0 && last >= UCUDNN_VERTEX_PUSH,
            "%d, \"%s\"", (int)status, why);
    snprintf(text, sizeof text, "function 1, operation 0: op is %d; 0 to %d are accepted", last + 1, last);
    NET_REFUSED(operations[1][0].op, last + 1, BAD_PARAM, text);
    OPERATION_REFUSED(2, inputs[1], -1, "`concat`: input -1; it is not negative");
    OPERATION_REFUSED(1, arguments[0], -1, "`gather`: argument -1; it is not negative");
    OPERATION_REFUSED(0, inputs[0], 1,
                      "`pull`: it takes 0 inputs, 1 arguments and no constant; the other fields are 0");
    OPERATION_REFUSED(2, inputs[2], 1,
                      "`concat`: it takes 2 inputs, 0 arguments and no constant; the other fields are 0");
    OPERATION_REFUSED(0, arguments[1], 1,
                      "`pull`: it takes 0 inputs, 1 arguments and no constant; the other fields are 0");
    OPERATION_REFUSED(0, constant, NAN,
                      "`pull`: it takes 0 inputs, 1 arguments and no constant; the other fields are 0");
    OPERATION_REFUSED(2, inputs[1], 2, "`concat %0, %2`: %2 comes later; earlier values are accepted");
    OPERATION_REFUSED(0, arguments[0], 1, "`pull 1`: input 1 of 1; numbers begin with 0");
    OPERATION_REFUSED(1, arguments[0], 2, "`gather 2, 0`: slot 2 of 2 slots; 0 to the last one are accepted");
    OPERATION_REFUSED(1, arguments[1], 2, "`gather 0, 2`: state 2 of 2; numbers begin with 0");
    OPERATION_REFUSED(5, arguments[0], 9, "`matmul P9, %4`: parameter 9 of 4; numbers begin with 0");
    OPERATION_REFUSED(6, arguments[1], 1ll << 40,
                      "`slice %5, 0, 1099511627776`: 1099511627776 elements from 0 of %5, which has 20");
    OPERATION_REFUSED(6, arguments[0], 0x7fffffffffffffffll,
                      "`slice %5, 9223372036854775807, 4`: 4 elements from 9223372036854775807 of %5, which has 20");
    static Net scaled;
    scaled = net, net_join(&scaled);
    ucudnnVertexOperation_t scale = {UCUDNN_VERTEX_SCALE, {6, 0, 0}, {0, 0}, INFINITY};
    scaled.operations[1][7] = scale;
    net_refused(&scaled.description, CUDNN_STATUS_BAD_PARAM,
                "function 1, operation 7: `scale %6, inf`: inf is no finite constant", __LINE__);
    scaled.operations[1][7].constant = 1, scaled.operations[1][7].arguments[1] = 1;
    net_refused(&scaled.description, CUDNN_STATUS_BAD_PARAM,
                "function 1, operation 7: "
                "`scale`: it takes 1 inputs, 0 arguments and its constant; the other fields are 0",
                __LINE__);
    /* A table may have more rows than a value has elements; a product with it has not. */
    static Net table;
    static const ucudnnVertexOperation_t operations[] = {{UCUDNN_VERTEX_PULL_INDEX, {0, 0, 0}, {0, 0}, 0},
                                                         {UCUDNN_VERTEX_LOOKUP, {0, 0, 0}, {0, 0}, 0},
                                                         {UCUDNN_VERTEX_MATMUL, {1, 0, 0}, {0, 0}, 0},
                                                         {UCUDNN_VERTEX_SLICE, {2, 0, 0}, {0, 3}, 0},
                                                         {UCUDNN_VERTEX_PUSH, {3, 0, 0}, {0, 0}, 0}};
    table = net, net_join(&table);
    table.description.functionCount = table.description.parameterCount = 1, table.description.stateCount = 0;
    table.pulls[0] = 0, table.parameters[0][0] = 65536, table.parameters[0][1] = 4;
    table.functions[0].operationCount = 5, table.functions[0].operations = operations;
    DYNAMIC_OK(ucudnnCreateVertexNet(&made, &table.description));
    DYNAMIC_OK(ucudnnDestroyVertexNet(made));
    table.parameters[0][0] = 65537;
    net_refused(&table.description, CUDNN_STATUS_BAD_PARAM,
                "function 0, operation 2: `matmul P0, %1`: a width of 65537; at most 65536 is accepted", __LINE__);
}

static void graphs_refused(const ucudnnGraphsDescription_t *description, cudnnStatus_t status, const char *text,
                           int line) {
    ucudnnGraphs_t made = UNTOUCHED;
    refused(ucudnnCreateGraphs(&made, description), status, text, line);
    REQUIRE((void *)made == UNTOUCHED, "line %d: a handle was written", line);
}

#define GRAPHS_REFUSED(field, value, status, text)                                 \
    do {                                                                           \
        static Trees changed_;                                                     \
        changed_ = trees, trees_join(&changed_);                                   \
        changed_.description.kinds = NULL, changed_.description.rows = NULL;       \
        changed_.field = (value);                                                  \
        graphs_refused(&changed_.description, CUDNN_STATUS_##status, text, __LINE__); \
    } while (0)

static void graphs(void) {
    REFUSED(ucudnnCreateGraphs(NULL, &trees.description), BAD_PARAM_NULL_POINTER, "graphs is null");
    ucudnnGraphs_t made[2];
    REFUSED(ucudnnCreateGraphs(MISALIGNED(made), &trees.description), BAD_PARAM_MISALIGNED_POINTER,
            "graphs is not aligned to 8 bytes");
    graphs_refused(NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "description is null", __LINE__);
    graphs_refused(MISALIGNED(&trees.description), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                   "description is not aligned to 8 bytes", __LINE__);
    GRAPHS_REFUSED(description.graphs, -1, BAD_PARAM, "graphs is -1; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(description.graphs, 1ll << 31, BAD_PARAM, "graphs is 2147483648; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(description.firstVertex, NULL, BAD_PARAM_NULL_POINTER, "firstVertex is null");
    GRAPHS_REFUSED(description.firstChild, NULL, BAD_PARAM_NULL_POINTER, "firstChild is null");
    GRAPHS_REFUSED(description.children, NULL, BAD_PARAM_NULL_POINTER, "children is null");
    GRAPHS_REFUSED(description.firstVertex, MISALIGNED(trees.first_vertex), BAD_PARAM_MISALIGNED_POINTER,
                   "firstVertex is not aligned to 8 bytes");
    GRAPHS_REFUSED(description.firstChild, MISALIGNED(trees.first_child), BAD_PARAM_MISALIGNED_POINTER,
                   "firstChild is not aligned to 8 bytes");
    GRAPHS_REFUSED(description.children, MISALIGNED(trees.children), BAD_PARAM_MISALIGNED_POINTER,
                   "children is not aligned to 4 bytes");
    GRAPHS_REFUSED(description.rows, MISALIGNED(trees.rows), BAD_PARAM_MISALIGNED_POINTER,
                   "rows is not aligned to 4 bytes");
    GRAPHS_REFUSED(first_vertex[2], 1ll << 40, BAD_PARAM,
                   "the end of firstVertex is 1099511627776; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(first_vertex[2], -1, BAD_PARAM, "the end of firstVertex is -1; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(first_child[14], 1ll << 31, BAD_PARAM,
                   "the end of firstChild is 2147483648; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(first_child[14], -5, BAD_PARAM, "the end of firstChild is -5; 0 to 2147483647 are accepted");
    GRAPHS_REFUSED(first_vertex[0], 1, BAD_PARAM, "firstVertex begins with 1, not with 0");
    GRAPHS_REFUSED(first_vertex[1], 15, BAD_PARAM, "firstVertex falls from 15 to 14 behind place 1; offsets rise");
    GRAPHS_REFUSED(first_vertex[1], 14, BAD_PARAM, "graph 1: it has no vertices; at least one is accepted");
    GRAPHS_REFUSED(first_child[5], 1ll << 60, BAD_PARAM,
                   "firstChild falls from 1152921504606846976 to 4 behind place 5; offsets rise");
    GRAPHS_REFUSED(children[0], 7, BAD_PARAM, "graph 0: vertex 4, slot 0: child 7; -1 to 6 are accepted");
    GRAPHS_REFUSED(children[0], -2, BAD_PARAM, "graph 0: vertex 4, slot 0: child -2; -1 to 6 are accepted");
    GRAPHS_REFUSED(children[7], 6, BAD_PARAM, "graph 1: vertex 4 is its own descendant by 4 → 6 → 4");
    static int rows[14] = {0, 7};
    GRAPHS_REFUSED(description.rows, rows, BAD_PARAM, "graph 0: vertex 1 pulls row 7; -1 to 6 are accepted");
    static const long long one[2] = {0, 1}, many[2] = {0, 65536};
    static int none[65536];
    memset(none, -1, sizeof none);
    ucudnnGraphsDescription_t wide = {1, one, many, none, NULL, NULL};
    graphs_refused(&wide, CUDNN_STATUS_BAD_PARAM, "graph 0: vertex 0 has 65536 slots; at most 65535 are accepted",
                   __LINE__);
}

/* ---- batches ---- */

static void batches(void) {
    ucudnnGraphBatch_t made[2] = {UNTOUCHED, UNTOUCHED};
    REFUSED(ucudnnCreateGraphBatch(NULL, run.handle), BAD_PARAM_NULL_POINTER, "batch is null");
    REFUSED(ucudnnCreateGraphBatch(MISALIGNED(made), run.handle), BAD_PARAM_MISALIGNED_POINTER,
            "batch is not aligned to 8 bytes");
    REFUSED(ucudnnCreateGraphBatch(made, NULL), BAD_PARAM_NULL_POINTER, "net is null");
    REFUSED(ucudnnCreateGraphBatch(made, GARBAGE(ucudnnVertexNet_t)), BAD_PARAM, "net is no net, or was destroyed");
    REFUSED(ucudnnCreateGraphBatch(made, (ucudnnVertexNet_t)(void *)run.graphs), BAD_PARAM,
            "net is no net, or was destroyed");
    REQUIRE((void *)made[0] == UNTOUCHED, "a handle was written");
    long long ids[40] = {1, 0};
    REFUSED(ucudnnSetGraphBatch(NULL, run.graphs, ids, 2, NULL), BAD_PARAM_NULL_POINTER, "batch is null");
    REFUSED(ucudnnSetGraphBatch(GARBAGE(ucudnnGraphBatch_t), run.graphs, ids, 2, NULL), BAD_PARAM,
            "batch is no batch, or was destroyed");
    REFUSED(ucudnnSetGraphBatch(run.batch, NULL, ids, 2, NULL), BAD_PARAM_NULL_POINTER, "graphs is null");
    REFUSED(ucudnnSetGraphBatch(run.batch, GARBAGE(ucudnnGraphs_t), ids, 2, NULL), BAD_PARAM,
            "graphs is no set of graphs, or was destroyed");
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, NULL, 2, NULL), BAD_PARAM_NULL_POINTER, "ids is null");
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, MISALIGNED(ids), 2, NULL), BAD_PARAM_MISALIGNED_POINTER,
            "ids is not aligned to 8 bytes");
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, 0, NULL), BAD_PARAM,
            "count is 0; 1 to 3, the net's maxGraphs, are accepted");
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, 4, NULL), BAD_PARAM,
            "count is 4; 1 to 3, the net's maxGraphs, are accepted");
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, -0x7fffffffffffffffll - 1, NULL), BAD_PARAM,
            "count is -9223372036854775808; 1 to 3, the net's maxGraphs, are accepted");
    ids[1] = 2;
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, 2, NULL), BAD_PARAM,
            "id 1 is graph 2 of 2; numbers begin with 0");
    ids[1] = -1;
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, 2, NULL), BAD_PARAM,
            "id 1 is graph -1 of 2; numbers begin with 0");
    ids[1] = 0;
    REFUSED(ucudnnSetGraphBatch(run.batch, run.graphs, ids, 3, NULL), BAD_PARAM,
            "the batch has 21 vertices; the net was made for at most 14");
    ucudnnGraphBatchSizes_t sizes[2] = {{7, 7, 7, 7, 7}, {7, 7, 7, 7, 7}};
    REFUSED(ucudnnGetGraphBatchSizes(NULL, sizes), BAD_PARAM_NULL_POINTER, "batch is null");
    REFUSED(ucudnnGetGraphBatchSizes(run.batch, NULL), BAD_PARAM_NULL_POINTER, "sizes is null");
    REFUSED(ucudnnGetGraphBatchSizes(run.batch, MISALIGNED(sizes)), BAD_PARAM_MISALIGNED_POINTER,
            "sizes is not aligned to 8 bytes");
    REFUSED(ucudnnGetGraphBatchSizes((ucudnnGraphBatch_t)(void *)run.handle, sizes), BAD_PARAM,
            "batch is no batch, or was destroyed");
    REQUIRE(sizes[0].graphs == 7 && sizes[0].rows == 7, "sizes were written");
    /* The batch is as it was. */
    DYNAMIC_OK(ucudnnGetGraphBatchSizes(run.batch, sizes));
    REQUIRE(memcmp(sizes, &run.sizes, sizeof *sizes) == 0, "the batch has changed");
    REFUSED(ucudnnGetGraphsSizes(NULL, sizes), BAD_PARAM_NULL_POINTER, "graphs is null");
    REFUSED(ucudnnGetGraphsSizes(run.graphs, NULL), BAD_PARAM_NULL_POINTER, "sizes is null");
    REFUSED(ucudnnGetGraphsSizes((ucudnnGraphs_t)(void *)run.handle, sizes), BAD_PARAM,
            "graphs is no set of graphs, or was destroyed");
    REQUIRE(memcmp(sizes, &run.sizes, sizeof *sizes) == 0, "sizes were written");
    /* A batch of all graphs, each once, has the sizes of the set. */
    long long both[2] = {0, 1};
    DYNAMIC_OK(ucudnnSetGraphBatch(run.batch, run.graphs, both, 2, NULL));
    DYNAMIC_OK(ucudnnGetGraphBatchSizes(run.batch, sizes));
    DYNAMIC_OK(ucudnnGetGraphsSizes(run.graphs, sizes + 1));
    REQUIRE(memcmp(sizes, sizes + 1, sizeof *sizes) == 0, "graphs have other sizes than a batch of them");
    DYNAMIC_OK(ucudnnSetGraphBatch(run.batch, run.graphs, run.ids, run.count, NULL));
}

/* Graphs that are sound, and that the net does not take. */
static void set_refused(const Trees *given, const Net *of, const char *text, int line) {
    ucudnnVertexNet_t made;
    ucudnnGraphs_t sound;
    ucudnnGraphBatch_t batch;
    ucudnnGraphBatchSizes_t sizes;
    long long id = 0;
    DYNAMIC_OK(ucudnnCreateVertexNet(&made, &of->description));
    DYNAMIC_OK(ucudnnCreateGraphs(&sound, &given->description));
    DYNAMIC_OK(ucudnnCreateGraphBatch(&batch, made));
    refused(ucudnnSetGraphBatch(batch, sound, &id, 1, NULL), CUDNN_STATUS_BAD_PARAM, text, line);
    DYNAMIC_OK(ucudnnGetGraphBatchSizes(batch, &sizes));
    REQUIRE(sizes.graphs == 0 && sizes.vertices == 0, "line %d: the batch was set", line);
    DYNAMIC_OK(ucudnnDestroyGraphBatch(batch));
    DYNAMIC_OK(ucudnnDestroyGraphs(sound));
    DYNAMIC_OK(ucudnnDestroyVertexNet(made));
}

static void unfit_graphs(void) {
    static Trees given;
    static Net of;
    given = trees, trees_join(&given), given.description.rows = NULL;
    given.kinds[3] = 2;
    set_refused(&given, &net, "graph 0: vertex 3 has the kind 2; the net has 2 functions", __LINE__);
    given.kinds[3] = 1;
    set_refused(&given, &net, "graph 0: vertex 3 has 0 slots; its function 1 takes 2", __LINE__);
    given.description.kinds = NULL;
    of = net, net_join(&of), of.functions[1].children = 3;
    set_refused(&given, &of, "graph 0: vertex 4 has 2 slots; the net's functions take 0, 3", __LINE__);
    of = net, net_join(&of), of.description.maxChildren = 5;
    set_refused(&given, &of, "the batch has 6 children; the net was made for at most 5", __LINE__);
    of = net, net_join(&of), of.description.maxLevels = 2;
    set_refused(&given, &of, "the batch has 3 levels; the net was made for at most 2", __LINE__);
    /* A function for any number of children: push of the sum of a state of them, which is the input. */
    of = net, of.functions[0].operationCount = 0, of.states[0] = of.pulls[0], of.pushes[0] = of.pulls[0];
    of.description.functionCount = 1, of.functions[0].children = -1, net_join(&of);
    net_add(&of, 0, UCUDNN_VERTEX_CHILDREN, 0, 0, 0, 0, 0);
    net_add(&of, 0, UCUDNN_VERTEX_SUM_CHILDREN, 0, 0, 0, 0, 0);
    net_add(&of, 0, UCUDNN_VERTEX_PULL, 0, 0, 0, 0, 0);
    net_add(&of, 0, UCUDNN_VERTEX_SCATTER, 2, 0, 0, 0, 0);
    net_add(&of, 0, UCUDNN_VERTEX_PUSH, 1, 0, 0, 0, 0);
    given.children[1] = -1;
    set_refused(&given, &of,
                "graph 0: vertex 4 has an empty slot; function 0, for any number of children, has none", __LINE__);
}

/* ---- sizes, texts, handles ---- */

static void sizes_and_texts(void) {
    size_t workspace[2] = {7, 7}, reserve[2] = {7, 7};
    char text[8] = "as was", whole[8192];
    ucudnnVertexNet_t h = run.handle;
    REFUSED(ucudnnGetVertexNetMemorySize(NULL, NULL, workspace, reserve), BAD_PARAM_NULL_POINTER, "net is null");
    REFUSED(ucudnnGetVertexNetMemorySize(h, GARBAGE(ucudnnGraphBatch_t), workspace, reserve), BAD_PARAM,
            "batch is no batch, or was destroyed");
    REFUSED(ucudnnGetVertexNetMemorySize(h, NULL, NULL, reserve), BAD_PARAM_NULL_POINTER,
            "workspaceSizeInBytes is null");
    REFUSED(ucudnnGetVertexNetMemorySize(h, NULL, workspace, NULL), BAD_PARAM_NULL_POINTER,
            "reserveSizeInBytes is null");
    REFUSED(ucudnnGetVertexNetMemorySize(h, NULL, workspace, MISALIGNED(reserve)), BAD_PARAM_MISALIGNED_POINTER,
            "reserveSizeInBytes is not aligned to 8 bytes");
    REFUSED(ucudnnGetVertexNetText(NULL, text, sizeof text, workspace), BAD_PARAM_NULL_POINTER, "net is null");
    REFUSED(ucudnnGetVertexNetText(h, NULL, 1, workspace), BAD_PARAM_NULL_POINTER, "text or neededSizeInBytes is null");
    REFUSED(ucudnnGetVertexNetText(h, text, sizeof text, NULL), BAD_PARAM_NULL_POINTER,
            "text or neededSizeInBytes is null");
    REFUSED(ucudnnGetVertexNetConfiguration(GARBAGE(ucudnnVertexNet_t), text, sizeof text, workspace), BAD_PARAM,
            "net is no net, or was destroyed");
    REFUSED(ucudnnGetVertexNetConfiguration(h, NULL, 1, workspace), BAD_PARAM_NULL_POINTER,
            "text or neededSizeInBytes is null");
    REQUIRE(workspace[0] == 7 && reserve[0] == 7 && strcmp(text, "as was") == 0, "something was written");

    /* These are accepted: a buffer that cuts the text, no buffer, and one for the whole text. */
    DYNAMIC_OK(ucudnnGetVertexNetText(h, text, sizeof text, workspace));
    REQUIRE(strcmp(text, "states ") == 0, "%s", text);
    DYNAMIC_OK(ucudnnGetVertexNetText(h, NULL, 0, reserve));
    REQUIRE(workspace[0] == reserve[0] && workspace[0] <= sizeof whole, "%zu", workspace[0]);
    memset(whole, 1, sizeof whole);
    DYNAMIC_OK(ucudnnGetVertexNetText(h, whole, workspace[0], workspace));
    REQUIRE(strlen(whole) + 1 == workspace[0] && whole[workspace[0]] == 1, "%s", whole);
    static const char start[] = "states 4 4\nparameters 3x4 3 12x5 20x13\npulls 5\npushes 3\n"
                                "function 0:\n  %0 = pull 0\n";
    REQUIRE(strncmp(whole, start, sizeof start - 1) == 0, "%s", whole);
    DYNAMIC_OK(ucudnnGetVertexNetConfiguration(h, whole, sizeof whole, workspace));
    REQUIRE(strcmp(whole, "host, 1 threads") == 0 && workspace[0] == 16, "%s", whole);
    /* The text of a failure stays until the next one; and it may be cut, too. */
    REFUSED(ucudnnDestroyVertexNet(NULL), BAD_PARAM_NULL_POINTER, "net is null");
    DYNAMIC_OK(ucudnnGetVertexNetText(h, NULL, 0, reserve));
    ucudnnGetVertexNetErrorString(text, 5);
    REQUIRE(strcmp(text, "net ") == 0, "%s", text);
    ucudnnGetVertexNetErrorString(text, 1);
    REQUIRE(*text == 0, "%s", text);
    ucudnnGetVertexNetErrorString(NULL, 0);
    ucudnnGetVertexNetErrorString(NULL, 5);
}

static void handles(void) {
    REFUSED(ucudnnDestroyVertexNet(GARBAGE(ucudnnVertexNet_t)), BAD_PARAM, "net is no net, or was destroyed");
    REFUSED(ucudnnDestroyGraphs(NULL), BAD_PARAM_NULL_POINTER, "graphs is null");
    REFUSED(ucudnnDestroyGraphs((ucudnnGraphs_t)(void *)run.batch), BAD_PARAM,
            "graphs is no set of graphs, or was destroyed");
    REFUSED(ucudnnDestroyGraphBatch(NULL), BAD_PARAM_NULL_POINTER, "batch is null");
    REFUSED(ucudnnDestroyGraphBatch((ucudnnGraphBatch_t)(void *)run.graphs), BAD_PARAM,
            "batch is no batch, or was destroyed");
    /* A batch outlives its net and its graphs, and runs no more. */
    Case other;
    static const long long ids[1] = {0};
    ucudnnGraphBatchSizes_t sizes;
    case_open(&other, &net, &trees, ids, 1, &randoms);
    ucudnnVertexNet_t twin;
    DYNAMIC_OK(ucudnnCreateVertexNet(&twin, &net.description));
    REFUSED(ucudnnRunVertexNetForward(twin, other.batch, &other.arguments, NULL), BAD_PARAM,
            "batch was made for another net");
    DYNAMIC_OK(ucudnnDestroyVertexNet(other.handle));
    DYNAMIC_OK(ucudnnDestroyGraphs(other.graphs));
    REFUSED(ucudnnRunVertexNetForward(other.handle, other.batch, &other.arguments, NULL), BAD_PARAM,
            "net is no net, or was destroyed");
    REFUSED(ucudnnSetGraphBatch(other.batch, other.graphs, ids, 1, NULL), BAD_PARAM,
            "graphs is no set of graphs, or was destroyed");
    case_check(&other, 1);
    DYNAMIC_OK(ucudnnSetGraphBatch(other.batch, run.graphs, ids, 1, NULL));
    DYNAMIC_OK(ucudnnGetGraphBatchSizes(other.batch, &sizes));
    REQUIRE(sizes.vertices == 7 && sizes.children == 6 && sizes.levels == 3, "%lld vertices", sizes.vertices);
    DYNAMIC_OK(ucudnnDestroyGraphBatch(other.batch));
    REFUSED(ucudnnDestroyGraphBatch(other.batch), BAD_PARAM, "batch is no batch, or was destroyed");
    REFUSED(ucudnnDestroyVertexNet(other.handle), BAD_PARAM, "net is no net, or was destroyed");
    REFUSED(ucudnnDestroyGraphs(other.graphs), BAD_PARAM, "graphs is no set of graphs, or was destroyed");
    other.handle = twin;
    DYNAMIC_OK(ucudnnCreateGraphs(&other.graphs, &trees.description));
    DYNAMIC_OK(ucudnnCreateGraphBatch(&other.batch, twin));
    REFUSED(ucudnnRunVertexNetForward(twin, other.batch, &other.arguments, NULL), BAD_PARAM,
            "the batch was not set yet");
    REFUSED(ucudnnRunVertexNetStep(twin, other.batch, &other.arguments, NULL), BAD_PARAM, "the batch was not set yet");
    case_check(&other, 1);
    case_close(&other);
}

/* ---- runs ---- */

typedef cudnnStatus_t Call(ucudnnVertexNet_t, ucudnnGraphBatch_t, const ucudnnVertexNetArguments_t *, void *);

static void run_refused(Call *call, cudnnStatus_t status, const char *text, int line) {
    refused(call(run.handle, run.batch, &run.arguments, NULL), status, text, line);
    case_check(&run, 1);
}

/* A run with one argument changed. */
#define RUN_REFUSED(which, place, value, status, text)                                    \
    do {                                                                                  \
        Case kept_ = run;                                                                 \
        run.place = (value);                                                              \
        refused(ucudnnRunVertexNet##which(run.handle, run.batch, &run.arguments, NULL),   \
                CUDNN_STATUS_##status, text, __LINE__);                                   \
        run = kept_;                                                                      \
        case_check(&run, 1);                                                              \
    } while (0)

static void arguments(void) {
    unsigned char *push = run.arrays[PUSH][0].start, *pull = run.arrays[PULL][0].start;
    ucudnnVertexNetArguments_t *misaligned = MISALIGNED(&run.arguments);
    REFUSED(ucudnnRunVertexNetForward(NULL, run.batch, &run.arguments, NULL), BAD_PARAM_NULL_POINTER, "net is null");
    REFUSED(ucudnnRunVertexNetForward(run.handle, NULL, &run.arguments, NULL), BAD_PARAM_NULL_POINTER, "batch is null");
    REFUSED(ucudnnRunVertexNetForward(run.handle, run.batch, NULL, NULL), BAD_PARAM_NULL_POINTER, "arguments is null");
    REFUSED(ucudnnRunVertexNetStep(run.handle, run.batch, misaligned, NULL), BAD_PARAM_MISALIGNED_POINTER,
            "arguments is not aligned to 8 bytes");
    RUN_REFUSED(Forward, arguments.parameters, NULL, BAD_PARAM_NULL_POINTER, "parameters is null");
    RUN_REFUSED(Forward, arguments.pulls, NULL, BAD_PARAM_NULL_POINTER, "pulls is null");
    RUN_REFUSED(Forward, arguments.pushes, NULL, BAD_PARAM_NULL_POINTER, "pushes is null");
    RUN_REFUSED(Backward, arguments.pushGradients, NULL, BAD_PARAM_NULL_POINTER, "pushGradients is null");
    RUN_REFUSED(Forward, arguments.pulls, MISALIGNED(run.arguments.pulls), BAD_PARAM_MISALIGNED_POINTER,
                "pulls is not aligned to 8 bytes");
    RUN_REFUSED(Backward, arguments.pullGradients, MISALIGNED(run.pointers), BAD_PARAM_MISALIGNED_POINTER,
                "pullGradients is not aligned to 8 bytes");
    RUN_REFUSED(Forward, pointers[PARAMETER][2], NULL, BAD_PARAM_NULL_POINTER, "parameters[2] is null");
    RUN_REFUSED(Forward, pointers[PULL][0], NULL, BAD_PARAM_NULL_POINTER, "pulls[0] is null");
    RUN_REFUSED(Forward, pointers[PARAMETER][2], push + 2, BAD_PARAM_MISALIGNED_POINTER,
                "parameters[2] is not aligned to 4 bytes");
    RUN_REFUSED(Forward, pointers[PUSH][0], push + 2, BAD_PARAM_MISALIGNED_POINTER,
                "pushes[0] is not aligned to 4 bytes");
    RUN_REFUSED(Backward, pointers[PUSH_GRADIENT][0], push + 1, BAD_PARAM_MISALIGNED_POINTER,
                "pushGradients[0] is not aligned to 4 bytes");
    RUN_REFUSED(Backward, pointers[PARAMETER_GRADIENT][3], push + 3, BAD_PARAM_MISALIGNED_POINTER,
                "parameterGradients[3] is not aligned to 4 bytes");
    RUN_REFUSED(Step, arguments.labels, NULL, BAD_PARAM_NULL_POINTER, "labels is null");
    RUN_REFUSED(Step, arguments.labels, MISALIGNED(run.arguments.labels), BAD_PARAM_MISALIGNED_POINTER,
                "labels is not aligned to 4 bytes");
    RUN_REFUSED(Step, arguments.loss, MISALIGNED(push), BAD_PARAM_MISALIGNED_POINTER, "loss is not aligned to 4 bytes");
    RUN_REFUSED(Forward, arguments.workspace, NULL, BAD_PARAM_NULL_POINTER, "workspace is null");
    RUN_REFUSED(Forward, arguments.reserve, NULL, BAD_PARAM_NULL_POINTER, "reserve is null");
    RUN_REFUSED(Forward, arguments.workspace, run.workspace.start + 4, BAD_PARAM_MISALIGNED_POINTER,
                "workspace is not aligned to 8 bytes");
    RUN_REFUSED(Backward, arguments.reserve, run.reserve.start + 1, BAD_PARAM_MISALIGNED_POINTER,
                "reserve is not aligned to 8 bytes");
    RUN_REFUSED(Forward, pointers[PUSH][0], pull, BAD_PARAM, "pulls[0] and pushes[0] overlap");
    RUN_REFUSED(Forward, pointers[PUSH][0], run.reserve.start, BAD_PARAM, "pushes[0] and reserve overlap");
    RUN_REFUSED(Forward, arguments.reserve, run.workspace.start, BAD_PARAM, "workspace and reserve overlap");
    RUN_REFUSED(Backward, pointers[PULL_GRADIENT][0], pull, BAD_PARAM, "pulls[0] and pullGradients[0] overlap");
    RUN_REFUSED(Backward, pointers[PARAMETER_GRADIENT][0], run.arrays[PUSH_GRADIENT][0].start, BAD_PARAM,
                "parameterGradients[0] and pushGradients[0] overlap");
    RUN_REFUSED(Backward, pointers[PARAMETER_GRADIENT][2], run.arrays[PARAMETER_GRADIENT][3].start, BAD_PARAM,
                "parameterGradients[2] and parameterGradients[3] overlap");
    RUN_REFUSED(Step, pointers[PARAMETER][2], run.arrays[PARAMETER][3].start, BAD_PARAM,
                "parameters[2] and parameters[3] overlap");
    RUN_REFUSED(Step, arguments.loss, run.arguments.workspace, BAD_PARAM, "loss and workspace overlap");
    RUN_REFUSED(Step, arguments.labels, run.arguments.reserve, BAD_PARAM, "labels and reserve overlap");
}

/* The sizes that are needed, less one byte. */
static void small_memory(void) {
    char workspace[128], reserve[128];
    size_t bytes = run.workspace.bytes, kept = run.reserve.bytes;
    sprintf(workspace, "workspaceSizeInBytes is %zu; the run needs %zu", bytes - 1, bytes);
    sprintf(reserve, "reserveSizeInBytes is 0; the run needs %zu", kept);
    RUN_REFUSED(Step, arguments.workspaceSizeInBytes, bytes - 1, BAD_PARAM_SIZE_INSUFFICIENT, workspace);
    RUN_REFUSED(Forward, arguments.reserveSizeInBytes, 0, BAD_PARAM_SIZE_INSUFFICIENT, reserve);
    RUN_REFUSED(Backward, arguments.reserveSizeInBytes, 0, BAD_PARAM_SIZE_INSUFFICIENT, reserve);
}

/* What a step by an optimizer needs beside the parameters. */
static void optimizers(void) {
    static void *first[NAMED], *second[NAMED];
    static double powers[2] = {1, 1};
    ucudnnOptimizer_t adam = {UCUDNN_OPTIMIZER_ADAM, 0, 0.9, 0.999, 1e-8, first, second, powers}, changed;
    for (int number = 0; number < run.net->description.parameterCount; number++) {
        first[number] = calloc(case_elements(&run, PARAMETER, number), sizeof(float));
        second[number] = calloc(case_elements(&run, PARAMETER, number), sizeof(float));
        REQUIRE(first[number] && second[number], "no memory");
    }
#define BY_REFUSED(place, value, status, text)                                                           \
    do {                                                                                                 \
        changed = adam, changed.place = (value);                                                         \
        refused(ucudnnRunVertexNetOptimizerStep(run.handle, run.batch, &run.arguments, &changed, NULL),  \
                CUDNN_STATUS_##status, text, __LINE__);                                                  \
        case_check(&run, 1);                                                                             \
    } while (0)
    BY_REFUSED(rule, 4, BAD_PARAM, "the optimizer's rule is 4; 0 to 3 are accepted");
    BY_REFUSED(rule, -1, BAD_PARAM, "the optimizer's rule is -1; 0 to 3 are accepted");
    BY_REFUSED(beta1, 1, BAD_PARAM, "beta1 is 1; 0 and more, below 1, is accepted");
    BY_REFUSED(beta2, -0.5, BAD_PARAM, "beta2 is -0.5; 0 and more, below 1, is accepted");
    BY_REFUSED(epsilon, (double)NAN, BAD_PARAM, "epsilon is NaN; a finite number from 0 on is accepted");
    BY_REFUSED(firstMoments, NULL, BAD_PARAM_NULL_POINTER, "firstMoments is null");
    BY_REFUSED(secondMoments, NULL, BAD_PARAM_NULL_POINTER, "secondMoments is null");
    BY_REFUSED(betaPowers, NULL, BAD_PARAM_NULL_POINTER, "betaPowers is null");
    BY_REFUSED(betaPowers, MISALIGNED(powers), BAD_PARAM_MISALIGNED_POINTER, "betaPowers is not aligned to 8 bytes");
    BY_REFUSED(firstMoments, second, BAD_PARAM, "firstMoments[0] and secondMoments[0] overlap");
    BY_REFUSED(secondMoments, run.pointers[PARAMETER], BAD_PARAM, "parameters[0] and secondMoments[0] overlap");
    ucudnnOptimizer_t *misaligned = MISALIGNED(&adam);
    REFUSED(ucudnnRunVertexNetOptimizerStep(run.handle, run.batch, &run.arguments, misaligned, NULL),
            BAD_PARAM_MISALIGNED_POINTER, "optimizer is not aligned to 8 bytes");
    void *kept = second[1];
    second[1] = NULL;
    REFUSED(ucudnnRunVertexNetOptimizerStep(run.handle, run.batch, &run.arguments, &adam, NULL), BAD_PARAM_NULL_POINTER,
            "secondMoments[1] is null");
    second[1] = kept;
    changed = adam, changed.rule = UCUDNN_OPTIMIZER_NESTEROV, changed.momentum = 1;
    REFUSED(ucudnnRunVertexNetOptimizerStep(run.handle, run.batch, &run.arguments, &changed, NULL), BAD_PARAM,
            "the momentum is 1; 0 and more, below 1, is accepted");
    case_check(&run, 1);
    REQUIRE(powers[0] == 1 && powers[1] == 1, "a refused step has counted");
    for (int number = 0; number < run.net->description.parameterCount; number++)
        for (size_t i = 0; i < case_elements(&run, PARAMETER, number); i++)
            REQUIRE(((float *)first[number])[i] == 0 && ((float *)second[number])[i] == 0, "a moment was written");
    /* Momentum has one moment; no optimizer is gradient descent. */
    static const long long ids[2] = {0, 1};
    static Case c;
    case_open(&c, run.net, &trees, ids, 2, &randoms);
    case_expect(&c);
    DYNAMIC_OK(ucudnnRunVertexNetOptimizerStep(c.handle, c.batch, &c.arguments, NULL, NULL));
    REQUIRE(case_step_error(&c) < 4, "off by %g", case_step_error(&c));
    case_close(&c);
    case_open(&c, run.net, &trees, ids, 2, &randoms);
    changed = adam, changed.rule = UCUDNN_OPTIMIZER_MOMENTUM, changed.secondMoments = NULL, changed.betaPowers = NULL;
    /* With moments of zeros the first step is gradient descent. */
    case_expect(&c);
    DYNAMIC_OK(ucudnnRunVertexNetOptimizerStep(c.handle, c.batch, &c.arguments, &changed, NULL));
    REQUIRE(case_step_error(&c) < 4, "off by %g", case_step_error(&c));
    REQUIRE(((float *)first[0])[0] != 0, "no moment was written");
    case_close(&c);
    for (int number = 0; number < run.net->description.parameterCount; number++) free(first[number]), free(second[number]);
}

static void contents(void) {
    int *labels = (int *)(void *)run.labels.start, label = labels[3];
    labels[3] = 3;
    run_refused(ucudnnRunVertexNetStep, CUDNN_STATUS_BAD_PARAM, "vertex 3 has the label 3; -1 to 2 are accepted",
                __LINE__);
    labels[3] = -2;
    run_refused(ucudnnRunVertexNetStep, CUDNN_STATUS_BAD_PARAM, "vertex 3 has the label -2; -1 to 2 are accepted",
                __LINE__);
    labels[3] = label;
    /* A table of 7 rows that input 1 looks up, in every type: those of 16 bits are widened before they are read. */
    static const cudnnDataType_t types[] = {CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    for (int type = 0; type < 4; type++) {
        static const long long id = 0, bad[] = {7, -1, 0x7fffffffffffffffll, -0x7fffffffffffffffll - 1};
        static Net table;
        static Case looked;
        Call *const calls[] = {ucudnnRunVertexNetForward, ucudnnRunVertexNetBackward, ucudnnRunVertexNetStep};
        table = net, table.description.dataType = types[type], net_join(&table);
        for (int f = 0; f < 2; f++) table.functions[f].operationCount = 0;
        table.description.stateCount = 0, table.description.pullCount = 2, table.pulls[1] = 0;
        table.description.parameterCount = 1, table.parameters[0][0] = 7, table.parameters[0][1] = 3;
        for (int f = 0; f < 2; f++) {
            net_add(&table, f, UCUDNN_VERTEX_PULL_INDEX, 0, 0, 1, 0, 0);
            net_add(&table, f, UCUDNN_VERTEX_LOOKUP, 0, 0, 0, 0, 0);
            net_add(&table, f, UCUDNN_VERTEX_PUSH, 1, 0, 0, 0, 0);
        }
        case_open(&looked, &table, &trees, &id, 1, &randoms);
        for (int i = 0; i < 12; i++) {
            char text[160];
            unsigned char *place = looked.arrays[PULL][1].start + 8 * 5, kept[8];
            int is_backward = i / 4 == 1;
            if (is_backward) DYNAMIC_OK(ucudnnRunVertexNetForward(looked.handle, looked.batch, &looked.arguments, NULL));
            memcpy(kept, place, 8), memcpy(place, &bad[i % 4], 8);
            sprintf(text, "input 1, row 5: index %lld of parameter 0; 0 to 6 are accepted", bad[i % 4]);
            refused(calls[i / 4](looked.handle, looked.batch, &looked.arguments, NULL), CUDNN_STATUS_BAD_PARAM, text,
                    __LINE__);
            memcpy(place, kept, 8);
            case_check(&looked, !is_backward);
            for (size_t at = 0; at < case_elements(&looked, PARAMETER_GRADIENT, 0); at++)
                REQUIRE(isnan(value_at(&looked.arrays[PARAMETER_GRADIENT][0], types[type], at)), "a gradient was written");
            case_poison(&looked);
        }
        case_close(&looked);
    }
}

/* A run backward is of the graphs that its run forward had, wherever the reserve lies by then. */
static void reserves(void) {
    static const char none[] = "the reserve is of no run forward of this batch with the graphs that it has now; a run "
                               "backward comes before the batch is set to others";
    static const long long ids[2] = {0, 1}, others[2] = {1, 0};
    static Case c, other;
    case_open(&c, &net, &trees, ids, 2, &randoms);
    REFUSED(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL), BAD_PARAM, none);
    case_check(&c, 1);
    DYNAMIC_OK(ucudnnRunVertexNetForward(c.handle, c.batch, &c.arguments, NULL));
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL));
    unsigned char *moved = malloc(c.reserve.bytes), *first = c.arguments.reserve;
    REQUIRE(moved, "no memory");
    memcpy(moved, first, c.reserve.bytes), memset(first, 0, c.reserve.bytes);
    c.arguments.reserve = moved;
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL));
    case_expect(&c);
    REQUIRE(case_error(&c, PARAMETER_GRADIENT) < 4, "off by %g", case_error(&c, PARAMETER_GRADIENT));
    DYNAMIC_OK(ucudnnSetGraphBatch(c.batch, c.graphs, ids, 2, NULL));
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL));
    DYNAMIC_OK(ucudnnSetGraphBatch(c.batch, c.graphs, others, 2, NULL));
    REFUSED(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL), BAD_PARAM, none);
    /* Nor is a run backward accepted for another batch, or after a step. */
    case_open(&other, &net, &trees, ids, 2, &randoms);
    other.arguments.reserve = moved;
    REFUSED(ucudnnRunVertexNetBackward(other.handle, other.batch, &other.arguments, NULL), BAD_PARAM, none);
    DYNAMIC_OK(ucudnnRunVertexNetForward(other.handle, other.batch, &other.arguments, NULL));
    DYNAMIC_OK(ucudnnRunVertexNetStep(other.handle, other.batch, &other.arguments, NULL));
    REFUSED(ucudnnRunVertexNetBackward(other.handle, other.batch, &other.arguments, NULL), BAD_PARAM, none);
    case_close(&other), case_close(&c);
    free(moved);
}

static void nets_that_do_less(void) {
    static Net less;
    static Case c;
    static const long long id = 0;
    less = net, net_join(&less), less.description.loss = UCUDNN_LOSS_NONE;
    case_open(&c, &less, &trees, &id, 1, &randoms);
    REFUSED(ucudnnRunVertexNetStep(c.handle, c.batch, &c.arguments, NULL), BAD_PARAM,
            "the net was made without a loss");
    case_check(&c, 1);
    case_close(&c);
    less.description.isTraining = 0;
    case_open(&c, &less, &trees, &id, 1, &randoms);
    REFUSED(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL), BAD_PARAM,
            "the net was made without isTraining");
    REFUSED(ucudnnRunVertexNetStep(c.handle, c.batch, &c.arguments, NULL), BAD_PARAM,
            "the net was made without a loss");
    case_check(&c, 1);
    /* Without training there is no reserve. */
    c.arguments.reserve = NULL;
    DYNAMIC_OK(ucudnnRunVertexNetForward(c.handle, c.batch, &c.arguments, NULL));
    case_expect(&c);
    REQUIRE(c.reserve.bytes == 0, "%zu bytes", c.reserve.bytes);
    REQUIRE(case_error(&c, PUSH) < 4, "off by %g", case_error(&c, PUSH));
    case_close(&c);
}

/* Arguments that may be null, and arrays that touch and do not overlap. */
static void accepted(void) {
    static Case c;
    static const long long ids[2] = {0, 1};
    case_open(&c, &net, &trees, ids, 2, &randoms);
    size_t workspace = c.workspace.bytes, reserve = c.reserve.bytes, pushes = c.arrays[PUSH][0].bytes;
    /* Packed, and aligned no more than is asked: the workspace ends where the outputs begin. */
    unsigned char *packed = malloc(workspace + reserve + pushes + 16);
    REQUIRE(packed && workspace % 8 == 4, "a workspace of %zu bytes", workspace);
    c.arguments.workspace = packed, c.pointers[PUSH][0] = packed + workspace;
    c.arguments.reserve = packed + (workspace + pushes + 7) / 8 * 8;
    DYNAMIC_OK(ucudnnRunVertexNetForward(c.handle, c.batch, &c.arguments, NULL));
    memcpy(c.arrays[PUSH][0].start, packed + workspace, pushes);
    case_expect(&c);
    REQUIRE(case_error(&c, PUSH) < 4, "off by %g", case_error(&c, PUSH));
    case_poison(&c);
    /* Results that are not wanted, gradients that are zeros. */
    c.pointers[PUSH][0] = c.pointers[PUSH_GRADIENT][0] = NULL, c.arguments.loss = NULL;
    DYNAMIC_OK(ucudnnRunVertexNetForward(c.handle, c.batch, &c.arguments, NULL));
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL));
    for (int sort = PULL_GRADIENT; sort <= PARAMETER_GRADIENT; sort++)
        for (size_t i = 0; i < case_elements(&c, sort, 0); i++)
            REQUIRE(value_at(&c.arrays[sort][0], CUDNN_DATA_FLOAT, i) == 0, "a gradient of nothing");
    c.arguments.pullGradients = NULL, c.arguments.parameterGradients = NULL;
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c.handle, c.batch, &c.arguments, NULL));
    case_check(&c, 0);
    DYNAMIC_OK(ucudnnRunVertexNetStep(c.handle, c.batch, &c.arguments, NULL));
    free(packed);
    case_close(&c);
}

int main(void) {
    static const long long ids[2] = {1, 0};
    net_tree_lstm(&net, 4);
    net.description.maxGraphs = 3, net.description.maxVertices = 14;
    trees_complete(&trees, 2, 3);
    case_open(&run, &net, &trees, ids, 2, &randoms);
    for (int vertex = 0; vertex < 14; vertex++) trees.kinds[vertex] = vertex % 7 > 3;
    fields_of_nets();
    operations_of_nets();
    graphs();
    batches();
    unfit_graphs();
    sizes_and_texts();
    arguments();
    optimizers();
    small_memory();
    contents();
    reserves();
    nets_that_do_less();
    handles();
    accepted();
    /* After all of these calls the net still runs. */
    case_check(&run, 1);
    DYNAMIC_OK(ucudnnRunVertexNetForward(run.handle, run.batch, &run.arguments, NULL));
    DYNAMIC_OK(ucudnnRunVertexNetBackward(run.handle, run.batch, &run.arguments, NULL));
    case_expect(&run);
    for (int sort = PUSH; sort < SORTS; sort++) REQUIRE(case_error(&run, sort) < 4, "off by %g", case_error(&run,
                                                                                                            sort));
    case_close(&run);
    puts("ended");
    return 0;
}
