/* CUDA graphs on a CPU: the driver's functions for them (as libcuda.so.1), and, in front of cuDNN, its two functions
 * that write plans into them. Launching a graph executes its nodes, and ends the program if the order of two nodes is
 * open, because these would share a workspace. A graph copies its contents when they are written, as a driver's does.
 *
 * Engines with a global index of at least CUDA_GRAPHS_ENGINES (0) have the note that they support graphs; plans on
 * other engines cannot be put into one. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 512, MOST_TENSORS = 16, MOST_PACKS = 1024, SUCCESS = 0, INVALID_VALUE = 1, NODE_KERNEL = 0, NODE_GRAPH = 4 };

typedef struct Node Node;
typedef struct {
    int count;
    Node *nodes[MOST_NODES];
} Graph;

/* The attributes of a variant pack: cuDNN does not return them. */
typedef struct {
    cudnnBackendDescriptor_t descriptor;
    int64_t tensors, ids[MOST_TENSORS];
    void *pointers[MOST_TENSORS], *workspace;
} Pack;

struct Node {
    Node *before; /* the predecessor; at most one */
    Graph *owner;
    Graph *child; /* instead of an execution */
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t plan;
    Pack pack;
};

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    return memory;
}

/* ---- the driver ---- */

int cuGraphCreate(Graph **graph, unsigned flags) {
    *graph = allocate(sizeof **graph);
    return flags ? INVALID_VALUE : SUCCESS;
}

int cuGraphDestroyNode(Node *node) {
    Graph *owner = node->owner;
    for (int i = 0; i < owner->count; i++) {
        if (owner->nodes[i] == node) owner->nodes[i] = owner->nodes[--owner->count];
    }
    if (node->child) {
        while (node->child->count > 0) cuGraphDestroyNode(node->child->nodes[0]);
        free(node->child);
    }
    free(node);
    return SUCCESS;
}

int cuGraphDestroy(Graph *graph) {
    while (graph->count > 0) cuGraphDestroyNode(graph->nodes[0]);
    free(graph);
    return SUCCESS;
}

static Node *add(Graph *graph) {
    if (graph->count == MOST_NODES) abort();
    Node *node = graph->nodes[graph->count++] = allocate(sizeof *node);
    node->owner = graph;
    return node;
}

int cuGraphClone(Graph **clone, Graph *graph) {
    cuGraphCreate(clone, 0);
    for (int i = 0; i < graph->count; i++) {
        Node *node = add(*clone), *old = graph->nodes[i];
        *node = *old;
        node->owner = *clone;
        if (old->child) cuGraphClone(&node->child, old->child);
        for (int j = 0; j < i; j++) /* a node's predecessor was added earlier */
            if (graph->nodes[j] == old->before) node->before = (*clone)->nodes[j];
    }
    return SUCCESS;
}

int cuGraphAddChildGraphNode(Node **node, Graph *graph, Node *const *before, size_t count, Graph *child) {
    if (!graph || !child || count > 1) return INVALID_VALUE;
    *node = add(graph);
    (*node)->before = count ? before[0] : NULL;
    return cuGraphClone(&(*node)->child, child);
}

/* The nodes that follow `before`, or that follow none. The last added comes first, since no order is promised. */
static int list(Graph *graph, int all, const Node *before, Node **nodes, size_t *count) {
    size_t found = 0;
    for (int i = graph->count - 1; i >= 0; i--) {
        if (!all && graph->nodes[i]->before != before) continue;
        if (nodes && found < *count) nodes[found] = graph->nodes[i];
        found++;
    }
    *count = found;
    return SUCCESS;
}

int cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) { return list(graph, 1, NULL, nodes, count); }

int cuGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) { return list(graph, 0, NULL, nodes, count); }

int cuGraphNodeGetDependentNodes(Node *node, Node **nodes, size_t *count) {
    return list(node->owner, 0, node, nodes, count);
}

int cuGraphNodeGetType(Node *node, int *type) {
    *type = node->child ? NODE_GRAPH : NODE_KERNEL;
    return SUCCESS;
}

int cuGraphChildGraphNodeGetGraph(Node *node, Graph **graph) {
    *graph = node->child;
    return node->child ? SUCCESS : INVALID_VALUE;
}

/* ---- cuDNN ---- */

/* cuDNN's own function. */
static void *function(const char *name) {
    static void *library;
    if (!library) library = dlopen("libcudnn.so.9", RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) abort();
    return found;
}

typedef cudnnStatus_t Create(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
typedef cudnnStatus_t One(cudnnBackendDescriptor_t);
typedef cudnnStatus_t Set(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                          const void *);
typedef cudnnStatus_t Get(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                          int64_t *, void *);
typedef cudnnStatus_t Execute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
#define REAL(type, name) ((type *)function("cudnnBackend" name))

static void must(cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    fprintf(stderr, "a node of a graph: status %d\n", status);
    exit(1);
}

static cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t kind) {
    cudnnBackendDescriptor_t descriptor;
    must(REAL(Create, "CreateDescriptor")(kind, &descriptor));
    return descriptor;
}

static int has_note(cudnnBackendDescriptor_t engine) {
    const char *first = getenv("CUDA_GRAPHS_ENGINES");
    int64_t index = -1, count;
    must(REAL(Get, "GetAttribute")(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index));
    return index >= (first ? atoi(first) : 0);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t *count,
                                       void *elements) {
    cudnnStatus_t status = REAL(Get, "GetAttribute")(descriptor, name, type, requested, count, elements);
    if (status != CUDNN_STATUS_SUCCESS || name != CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE || !has_note(descriptor)) return status;
    if (count) *count = 1;
    if (requested > 0 && elements)
        *(cudnnBackendBehaviorNote_t *)elements = CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API;
    return status;
}

static Pack packs[MOST_PACKS]; /* for a program of one thread; a free entry has no descriptor */

/* The pack of a descriptor; makes an entry if there is none and `add` is set. */
static Pack *pack_of(cudnnBackendDescriptor_t descriptor, int add) {
    Pack *free_one = NULL;
    for (int i = MOST_PACKS - 1; i >= 0; i--) {
        if (packs[i].descriptor == descriptor) return &packs[i];
        if (!packs[i].descriptor) free_one = &packs[i];
    }
    if (!add) return NULL;
    if (!free_one) abort();
    free_one->descriptor = descriptor;
    return free_one;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
    cudnnStatus_t status = REAL(Set, "SetAttribute")(descriptor, name, type, count, elements);
    if (status != CUDNN_STATUS_SUCCESS || name < CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS ||
        name > CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
        return status;
    if (count > MOST_TENSORS) abort();
    Pack *pack = pack_of(descriptor, 1);
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) memcpy(pack->ids, elements, count * 8), pack->tensors = count;
    if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) memcpy(pack->pointers, elements, count * 8);
    if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE) memcpy(&pack->workspace, elements, 8);
    return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    Pack *pack = descriptor ? pack_of(descriptor, 0) : NULL;
    if (pack) memset(pack, 0, sizeof *pack);
    return REAL(One, "DestroyDescriptor")(descriptor);
}

static cudnnStatus_t write_node(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                                Node *node) {
    const Pack *known = pack_of(pack, 0);
    if (!known) return CUDNN_STATUS_BAD_PARAM;
    node->handle = handle;
    node->plan = plan;
    node->pack = *known;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
    Graph *ours = (Graph *)graph;
    if (ours->count > 0) return CUDNN_STATUS_BAD_PARAM;
    cudnnBackendDescriptor_t configuration = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendDescriptor_t engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    Get *get = REAL(Get, "GetAttribute");
    int64_t count;
    must(get(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &configuration));
    must(get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
    int is_native = has_note(engine);
    must(REAL(One, "DestroyDescriptor")(engine));
    must(REAL(One, "DestroyDescriptor")(configuration));
    if (!is_native) return CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
    return write_node(handle, plan, pack, add(ours));
}

cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
    Graph *ours = (Graph *)graph;
    if (ours->count != 1 || ours->nodes[0]->plan != plan) return CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH;
    return write_node(handle, plan, pack, ours->nodes[0]);
}

static void execute(const Node *node) {
    Set *set = REAL(Set, "SetAttribute");
    cudnnBackendDescriptor_t pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    must(set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, node->pack.tensors, node->pack.ids));
    must(set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, node->pack.tensors, node->pack.pointers));
    must(set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &node->pack.workspace));
    must(REAL(One, "Finalize")(pack));
    must(REAL(Execute, "Execute")(node->handle, node->plan, pack));
    must(REAL(One, "DestroyDescriptor")(pack));
}

/* Executes a graph's nodes in their order. Returns the number of nodes on its own level. */
int cuda_graphs_launch(Graph *graph) {
    Node *node = NULL, *next = NULL;
    for (int launched = 0;; launched++) {
        size_t count = 1;
        list(graph, 0, node, &next, &count);
        if (count == 0) {
            if (launched == graph->count) return launched;
            fprintf(stderr, "%d nodes of %d are in an order\n", launched, graph->count);
            exit(1);
        }
        if (count > 1) {
            fprintf(stderr, "%d nodes may run at once\n", (int)count);
            exit(1);
        }
        if (next->child) cuda_graphs_launch(next->child);
        else execute(next);
        node = next;
    }
}
