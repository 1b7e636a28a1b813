#include "dynamic.h"

#include <math.h>
#include <string.h>

void dynamic_ok(cudnnStatus_t status, const char *call) {
    char why[512];
    if (status == CUDNN_STATUS_SUCCESS) return;
    ucudnnGetVertexNetErrorString(why, sizeof why);
    REQUIRE(0, "%s: %d: %s", call, (int)status, why);
}

/* ---- nets ---- */

void net_join(Net *net) {
    ucudnnVertexNetDescription_t *d = &net->description;
    d->stateWidths = net->states, d->pullWidths = net->pulls, d->pushWidths = net->pushes;
    d->parameterSizes = (const int(*)[2])net->parameters, d->functions = net->functions;
    for (int i = 0; i < FUNCTIONS; i++) net->functions[i].operations = net->operations[i];
}

int net_add(Net *net, int function, ucudnnVertexOp_t op, int x, int y, long long m, long long n, double c) {
    ucudnnVertexFunction_t *f = &net->functions[function];
    REQUIRE(f->operationCount < OPERATIONS, "too many operations");
    ucudnnVertexOperation_t operation = {op, {x, y, 0}, {m, n}, c};
    net->operations[function][f->operationCount] = operation;
    return f->operationCount++;
}

static int net_parameter(Net *net, int rows, int columns) {
    int number = net->description.parameterCount++;
    REQUIRE(number < NAMED, "too many parameters");
    net->parameters[number][0] = rows, net->parameters[number][1] = columns;
    return number;
}

static void net_new(Net *net, cudnnDataType_t type) {
    memset(net, 0, sizeof *net);
    ucudnnVertexNetDescription_t *d = &net->description;
    d->dataType = type, d->isOnHost = d->isTraining = d->hostThreads = 1;
    d->loss = UCUDNN_LOSS_CROSS_ENTROPY;
    d->maxGraphs = 2 * GRAPHS, d->maxVertices = 2 * VERTICES, d->maxChildren = 2 * SLOTS, d->maxLevels = VERTICES;
}

void net_tree_lstm(Net *net, int hidden) {
    enum { WIDTH = 5, CLASSES = 3 };
    net_new(net, CUDNN_DATA_FLOAT);
    ucudnnVertexNetDescription_t *d = &net->description;
    d->stateCount = 2, net->states[0] = net->states[1] = hidden;
    d->pullCount = d->pushCount = 1, net->pulls[0] = WIDTH, net->pushes[0] = CLASSES;
    d->functionCount = 2, net->functions[1].children = 2;
    int head = net_parameter(net, CLASSES, hidden), bias = net_parameter(net, CLASSES, 0);
    for (int f = 0; f < 2; f++) {
        int gates = 3 + 2 * f, of[5], x = net_add(net, f, UCUDNN_VERTEX_PULL, 0, 0, 0, 0, 0);
        for (int slot = 0; slot < 2 * f; slot++) {
            int child = net_add(net, f, UCUDNN_VERTEX_GATHER, 0, 0, slot, 0, 0);
            x = net_add(net, f, UCUDNN_VERTEX_CONCAT, x, child, 0, 0, 0);
        }
        int matrix = net_parameter(net, gates * hidden, WIDTH + 2 * f * hidden);
        x = net_add(net, f, UCUDNN_VERTEX_MATMUL, x, 0, matrix, 0, 0);
        for (int gate = 0; gate < gates; gate++) {
            of[gate] = net_add(net, f, UCUDNN_VERTEX_SLICE, x, 0, gate * hidden, hidden, 0);
            of[gate] = net_add(net, f, gate == 2 ? UCUDNN_VERTEX_TANH : UCUDNN_VERTEX_SIGMOID, of[gate], 0, 0, 0, 0);
        }
        int c = net_add(net, f, UCUDNN_VERTEX_MUL, of[0], of[2], 0, 0, 0);
        for (int slot = 0; slot < 2 * f; slot++) {
            int kept = net_add(net, f, UCUDNN_VERTEX_GATHER, 0, 0, slot, 1, 0);
            kept = net_add(net, f, UCUDNN_VERTEX_MUL, of[3 + slot], kept, 0, 0, 0);
            c = net_add(net, f, UCUDNN_VERTEX_ADD, c, kept, 0, 0, 0);
        }
        int h = net_add(net, f, UCUDNN_VERTEX_TANH, c, 0, 0, 0, 0);
        h = net_add(net, f, UCUDNN_VERTEX_MUL, of[1], h, 0, 0, 0);
        net_add(net, f, UCUDNN_VERTEX_SCATTER, h, 0, 0, 0, 0);
        net_add(net, f, UCUDNN_VERTEX_SCATTER, c, 0, 1, 0, 0);
        h = net_add(net, f, UCUDNN_VERTEX_MATMUL, h, 0, head, 0, 0);
        net_add(net, f, UCUDNN_VERTEX_PUSH, net_add(net, f, UCUDNN_VERTEX_BIAS, h, 0, bias, 0, 0), 0, 0, 0, 0);
    }
    net_join(net);
}

/* ---- random nets ---- */

/* The facts about the values of a function. */
typedef struct {
    Net *net;
    int function, count, has_maxima;
    int width[OPERATIONS], of_children[OPERATIONS], is_vector[OPERATIONS];
    double most[OPERATIONS]; /* no element is larger */
    Random *random;
} Maker;

static int note(Maker *m, int value, int width, int of_children, double most) {
    m->width[value] = width, m->of_children[value] = of_children, m->is_vector[value] = 1, m->most[value] = most;
    m->count = value + 1;
    return value;
}

static int unary(Maker *m, ucudnnVertexOp_t op, int x, double most) {
    return note(m, net_add(m->net, m->function, op, x, 0, 0, 0, 0), m->width[x], m->of_children[x], most);
}

static int concat(Maker *m, int x, int y) {
    int value = net_add(m->net, m->function, UCUDNN_VERTEX_CONCAT, x, y, 0, 0, 0);
    int width = m->width[x] + m->width[y], of_children = m->of_children[x] | m->of_children[y];
    return note(m, value, width, of_children, fmax(m->most[x], m->most[y]));
}

static int slice(Maker *m, int x, int first, int width) {
    int value = net_add(m->net, m->function, UCUDNN_VERTEX_SLICE, x, 0, first, width, 0);
    return note(m, value, width, m->of_children[x], m->most[x]);
}

/* The value, or one of it, with this width. */
static int of_width(Maker *m, int x, int width) {
    while (m->width[x] < width) x = concat(m, x, x);
    return m->width[x] > width ? slice(m, x, random_below(m->random, m->width[x] - width + 1), width) : x;
}

/* The value, or a sum, mean or maximum of it over the children. */
static int of_vertex(Maker *m, int x) {
    if (!m->of_children[x]) return x;
    ucudnnVertexOp_t op = UCUDNN_VERTEX_SUM_CHILDREN + random_below(m->random, m->has_maxima ? 3 : 2);
    int value = net_add(m->net, m->function, op, x, 0, 0, 0, 0);
    return note(m, value, m->width[x], 0, op == UCUDNN_VERTEX_SUM_CHILDREN ? 4 * m->most[x] : m->most[x]);
}

/* Keeps numbers small: exponentials do not overflow, and no gate is so far open that its derivative vanishes. */
static int bounded(Maker *m, int x) {
    if (m->most[x] <= 2) return x;
    int scaled = net_add(m->net, m->function, UCUDNN_VERTEX_SCALE, x, 0, 0, 0, 2 / m->most[x]);
    return note(m, scaled, m->width[x], m->of_children[x], 2);
}

/* Prefers late values, so that most values are used. */
static int any_value(Maker *m) {
    int value = -1;
    for (int draw = 0; draw < 2 || value < 0; draw++) {
        int drawn = random_below(m->random, m->count);
        if (m->is_vector[drawn] && drawn > value) value = drawn;
    }
    return value;
}

/* Returns a parameter with this many rows and columns; columns 0: a vector, rows 0: any number. -1: there is none. */
static int find_parameter(Maker *m, int rows, int columns) {
    int count = m->net->description.parameterCount, first = random_below(m->random, count);
    for (int i = 0; i < count; i++) {
        int number = (first + i) % count, *size = m->net->parameters[number];
        if (number > 0 && size[1] == columns && (!rows || size[0] == rows)) return number; /* 0 is the table */
    }
    return -1;
}

static void random_operation(Maker *m) {
    Net *net = m->net;
    int f = m->function, x = any_value(m), y = any_value(m), op = random_below(m->random, UCUDNN_VERTEX_SLICE + 1);
    int slots = net->functions[f].children, number, value;
    double constant = random_below(m->random, 9) / 4.0 - 1, most = m->most[x];
    switch (op) {
        case UCUDNN_VERTEX_PULL: note(m, net_add(net, f, op, 0, 0, 0, 0, 0), net->pulls[0], 0, 1); break;
        case UCUDNN_VERTEX_PULL_INDEX:
        case UCUDNN_VERTEX_LOOKUP:
            value = net_add(net, f, UCUDNN_VERTEX_PULL_INDEX, 0, 0, 1, 0, 0);
            m->is_vector[value] = 0;
            note(m, net_add(net, f, UCUDNN_VERTEX_LOOKUP, value, 0, 0, 0, 0), net->parameters[0][1], 0, 1);
            break;
        case UCUDNN_VERTEX_GATHER:
            if (slots <= 0) break;
            number = random_below(m->random, net->description.stateCount);
            value = net_add(net, f, op, 0, 0, random_below(m->random, slots), number, 0);
            note(m, value, net->states[number], 0, 1);
            break;
        case UCUDNN_VERTEX_CHILDREN:
            number = random_below(m->random, net->description.stateCount);
            note(m, net_add(net, f, op, 0, 0, number, 0, 0), net->states[number], 1, 1);
            break;
        case UCUDNN_VERTEX_MATMUL:
        case UCUDNN_VERTEX_BIAS:
            if (op == UCUDNN_VERTEX_BIAS) number = find_parameter(m, m->width[x], 0);
            else number = find_parameter(m, 0, m->width[x]);
            if (number < 0) break;
            value = net_add(net, f, op, x, 0, number, 0, 0);
            most = op == UCUDNN_VERTEX_BIAS ? most + 1 : most * sqrt(m->width[x]);
            note(m, value, net->parameters[number][0], m->of_children[x], most);
            bounded(m, value);
            break;
        case UCUDNN_VERTEX_ADD:
        case UCUDNN_VERTEX_SUB:
        case UCUDNN_VERTEX_MUL:
            if (m->width[x] != m->width[y] && random_below(m->random, 2)) y = slice(m, y, 0, 1);
            else y = of_width(m, y, m->width[x]);
            if (random_below(m->random, 2)) value = x, x = y, y = value;
            value = net_add(net, f, op, x, y, 0, 0, 0);
            most = op == UCUDNN_VERTEX_MUL ? m->most[x] * m->most[y] : m->most[x] + m->most[y];
            number = m->width[x] > m->width[y] ? m->width[x] : m->width[y];
            bounded(m, note(m, value, number, m->of_children[x] | m->of_children[y], most));
            break;
        case UCUDNN_VERTEX_SCALE:
        case UCUDNN_VERTEX_SHIFT:
            value = net_add(net, f, op, x, 0, 0, 0, constant);
            note(m, value, m->width[x], m->of_children[x], op == UCUDNN_VERTEX_SCALE ? most : most + 1);
            bounded(m, value);
            break;
        case UCUDNN_VERTEX_RELU:
            /* Its argument must be a number that no rounding has moved across 0, where the derivative jumps. */
            unary(m, op, 0, 1);
            break;
        case UCUDNN_VERTEX_EXP: bounded(m, unary(m, op, bounded(m, x), exp(2))); break;
        case UCUDNN_VERTEX_SUM_CHILDREN:
        case UCUDNN_VERTEX_MEAN_CHILDREN:
        case UCUDNN_VERTEX_MAX_CHILDREN: bounded(m, of_vertex(m, x)); break;
        case UCUDNN_VERTEX_SOFTMAX_CHILDREN:
            if (m->of_children[x]) unary(m, op, x, 1);
            break;
        case UCUDNN_VERTEX_SUM:
            note(m, net_add(net, f, op, x, 0, 0, 0, 0), 1, m->of_children[x], most * m->width[x]);
            bounded(m, m->count - 1);
            break;
        case UCUDNN_VERTEX_CONCAT:
            if (m->width[x] + m->width[y] <= 24) concat(m, x, y);
            break;
        case UCUDNN_VERTEX_SLICE: of_width(m, x, 1 + random_below(m->random, m->width[x])); break;
        default: unary(m, op, bounded(m, x), 1); /* sigmoid, tanh, softmax */
    }
}

static void random_function(Net *net, int function, Random *random) {
    cudnnDataType_t type = net->description.dataType;
    Maker maker = {.net = net, .function = function, .random = random};
    /* In half, another child may be the greatest if a state was rounded the other way. */
    maker.has_maxima = type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_FLOAT;
    note(&maker, net_add(net, function, UCUDNN_VERTEX_PULL, 0, 0, 0, 0, 0), net->pulls[0], 0, 1);
    for (int i = 4 + random_below(random, 16); i > 0; i--) random_operation(&maker);
    int value = 0;
    for (int state = 0; state < net->description.stateCount; state++) {
        value = bounded(&maker, of_vertex(&maker, of_width(&maker, any_value(&maker), net->states[state])));
        if (maker.most[value] > 1) value = unary(&maker, UCUDNN_VERTEX_TANH, value, 1);
        net_add(net, function, UCUDNN_VERTEX_SCATTER, value, 0, state, 0, 0);
        maker.is_vector[maker.count++] = 0;
    }
    for (int push = 0; push < net->description.pushCount; push++) {
        /* An output that some function pushes is accepted. */
        if (function > 0 && random_below(random, 4) == 0) continue;
        if (random_below(random, 2)) value = any_value(&maker);
        value = of_vertex(&maker, of_width(&maker, value, net->pushes[push]));
        net_add(net, function, UCUDNN_VERTEX_PUSH, value, 0, push, 0, 0);
        maker.is_vector[maker.count++] = 0;
    }
}

void net_random(Net *net, cudnnDataType_t type, Random *random) {
    static const int ARITIES[FUNCTIONS] = {0, 2, -1, 3}, WIDTHS[] = {1, 2, 3, 5, 8, 17};
    net_new(net, type);
    ucudnnVertexNetDescription_t *d = &net->description;
    int width = WIDTHS[random_below(random, 6)];
    d->stateCount = 1 + random_below(random, 3), d->pushCount = 1 + random_below(random, 3), d->pullCount = 2;
    for (int i = 0; i < d->stateCount; i++)
        net->states[i] = random_below(random, 2) ? width : WIDTHS[random_below(random, 6)];
    for (int i = 0; i < d->pushCount; i++) net->pushes[i] = 1 + random_below(random, 6);
    net->pulls[0] = random_below(random, 2) ? width : WIDTHS[random_below(random, 6)];
    net_parameter(net, 7, width); /* the table, which input 1 looks up */
    net_parameter(net, width, width);
    net_parameter(net, width, 0);
    net_parameter(net, WIDTHS[random_below(random, 6)], width);
    net_parameter(net, width, net->pulls[0]);
    d->functionCount = 1 + random_below(random, FUNCTIONS);
    int first = random_below(random, FUNCTIONS);
    for (int i = 0; i < d->functionCount; i++) {
        net->functions[i].children = ARITIES[(first + i) % FUNCTIONS];
        random_function(net, i, random);
    }
    d->lossPush = random_below(random, d->pushCount);
    net_join(net);
}

/* ---- graphs ---- */

void trees_join(Trees *trees) {
    ucudnnGraphsDescription_t *d = &trees->description;
    d->firstVertex = trees->first_vertex, d->firstChild = trees->first_child, d->children = trees->children;
    d->kinds = trees->kinds, d->rows = trees->rows;
}

void trees_complete(Trees *trees, int count, int levels) {
    memset(trees, 0, sizeof *trees);
    long long vertices = 0, slots = 0;
    for (int tree = 0; tree < count; tree++) {
        int leaves = 1 << (levels - 1), each = 2 * leaves - 1;
        for (int vertex = 0; vertex < each; vertex++) {
            REQUIRE(vertices < VERTICES, "too many vertices");
            for (int slot = 0; vertex >= leaves && slot < 2; slot++)
                trees->children[slots++] = 2 * (vertex - leaves) + slot;
            trees->first_child[++vertices] = slots;
        }
        trees->first_vertex[tree + 1] = vertices;
    }
    trees_join(trees);
    trees->description.graphs = count, trees->description.kinds = NULL, trees->description.rows = NULL;
}

void trees_random(Trees *trees, const Net *net, Random *random) {
    memset(trees, 0, sizeof *trees);
    long long slots = 0, vertices = 0;
    int count = 1 + random_below(random, GRAPHS), has_rows = random_below(random, 2);
    for (int graph = 0; graph < count; graph++) {
        int size = 1 + random_below(random, VERTICES / GRAPHS), order[VERTICES], place[VERTICES];
        for (int i = 0; i < size; i++) { /* vertex order[i] has children among the ones before it */
            int other = random_below(random, i + 1);
            order[i] = order[other], order[other] = i;
        }
        for (int i = 0, in_order = random_below(random, 2); i < size && in_order; i++) order[i] = i;
        for (int i = 0; i < size; i++) place[order[i]] = i;
        for (int vertex = 0; vertex < size; vertex++, vertices++) {
            int kind = random_below(random, net->description.functionCount);
            int arity = net->functions[kind].children, before = place[vertex];
            if (arity < 0) arity = before ? random_below(random, 5) : 0;
            for (int slot = 0; slot < arity; slot++) {
                int may_be_empty = net->functions[kind].children >= 0;
                int is_empty = before == 0 || (may_be_empty && random_below(random, 4) == 0);
                trees->children[slots++] = is_empty ? -1 : order[random_below(random, before)];
            }
            REQUIRE(vertices < VERTICES && slots < SLOTS, "too large graphs");
            trees->kinds[vertices] = (unsigned char)kind;
            trees->rows[vertices] = random_below(random, size + 1) - 1;
            trees->first_child[vertices + 1] = slots;
        }
        trees->first_vertex[graph + 1] = vertices;
    }
    trees_join(trees);
    trees->description.graphs = count;
    if (!has_rows) trees->description.rows = NULL;
}

int trees_function(const Net *net, const Trees *trees, long long vertex) {
    int slots = (int)(trees->first_child[vertex + 1] - trees->first_child[vertex]), found = -1;
    if (trees->description.kinds) return trees->kinds[vertex];
    for (int f = net->description.functionCount - 1; f >= 0; f--)
        if (net->functions[f].children == -1) found = f;
    for (int f = net->description.functionCount - 1; f >= 0; f--)
        if (net->functions[f].children == slots) found = f;
    return found;
}

/* ---- arrays ---- */

static const char *const SORT_NAMES[SORTS] = {"parameters",    "pulls",  "pushGradients",
                                              "pushes", "pullGradients", "parameterGradients"};

static int sort_count(const Net *net, int sort) {
    const ucudnnVertexNetDescription_t *d = &net->description;
    return sort == PARAMETER || sort == PARAMETER_GRADIENT ? d->parameterCount
           : sort == PULL || sort == PULL_GRADIENT         ? d->pullCount
                                                           : d->pushCount;
}

static int is_index(const Net *net, int sort, int number) { return sort == PULL && net->pulls[number] == 0; }

size_t case_elements(const Case *c, int sort, int number) {
    const int *size = c->net->parameters[number];
    switch (sort) {
        case PARAMETER:
        case PARAMETER_GRADIENT: return (size_t)size[0] * (size[1] ? size[1] : 1);
        case PULL:
        case PULL_GRADIENT: return (size_t)c->sizes.rows * (is_index(c->net, sort, number) ? 1 : c->net->pulls[number]);
        default: return (size_t)c->sizes.vertices * c->net->pushes[number];
    }
}

/* A number from -1 to 1 that every type holds. */
static double plain(Random *random) { return (random_below(random, 257) - 128) / 128.0; }

void case_open(Case *c, const Net *net, const Trees *trees, const long long *ids, long long count, Random *random) {
    memset(c, 0, sizeof *c);
    c->net = net, c->trees = trees, c->count = count;
    memcpy(c->ids, ids, (size_t)count * sizeof *ids);
    DYNAMIC_OK(ucudnnCreateVertexNet(&c->handle, &net->description));
    DYNAMIC_OK(ucudnnCreateGraphs(&c->graphs, &trees->description));
    DYNAMIC_OK(ucudnnCreateGraphBatch(&c->batch, c->handle));
    DYNAMIC_OK(ucudnnSetGraphBatch(c->batch, c->graphs, ids, count, NULL));
    case_bring(c, random);
}

void case_bring(Case *c, Random *random) {
    const Net *net = c->net;
    cudnnDataType_t type = net->description.dataType;
    DYNAMIC_OK(ucudnnGetGraphBatchSizes(c->batch, &c->sizes));
    for (int sort = 0; sort < SORTS; sort++) {
        for (int number = 0; number < sort_count(net, sort); number++) {
            size_t elements = case_elements(c, sort, number), bytes = elements * size_of(type);
            if (is_index(net, sort, number)) bytes = elements * sizeof(long long);
            Guarded *array = &c->arrays[sort][number];
            *array = guarded_new(bytes);
            c->pointers[sort][number] = array->start;
            double scale = sort == PARAMETER && net->parameters[number][1] ? 1 / sqrt(net->parameters[number][1]) : 1;
            for (size_t i = 0; i < elements && sort <= PUSH_GRADIENT; i++) {
                long long index = random_below(random, net->parameters[0][0]);
                if (is_index(net, sort, number)) memcpy(array->start + i * sizeof index, &index, sizeof index);
                else set_element(array->start + i * size_of(type), type, scale * plain(random));
            }
            c->copies[sort][number] = malloc(bytes + 1);
            if (sort <= PUSH_GRADIENT) memcpy(c->copies[sort][number], array->start, bytes);
        }
    }
    c->labels = guarded_new((size_t)c->sizes.vertices * sizeof(int));
    int *labels = (int *)(void *)c->labels.start;
    /* Without a loss, lossPush may be any number. */
    int classes = net->description.loss == UCUDNN_LOSS_NONE ? 1 : net->pushes[net->description.lossPush];
    for (int i = 0; i < c->sizes.vertices; i++)
        labels[i] = random_below(random, classes + 1) - 1;
    size_t workspace, reserve, most_workspace, most_reserve;
    DYNAMIC_OK(ucudnnGetVertexNetMemorySize(c->handle, c->batch, &workspace, &reserve));
    DYNAMIC_OK(ucudnnGetVertexNetMemorySize(c->handle, NULL, &most_workspace, &most_reserve));
    REQUIRE(workspace <= most_workspace && reserve <= most_reserve, "%zu, %zu bytes", most_workspace, most_reserve);
    c->workspace = guarded_new(workspace), c->reserve = guarded_new(reserve);
    ucudnnVertexNetArguments_t *a = &c->arguments;
    a->parameters = (const void *const *)c->pointers[PARAMETER], a->pulls = (const void *const *)c->pointers[PULL];
    a->pushGradients = (const void *const *)c->pointers[PUSH_GRADIENT], a->pushes = c->pointers[PUSH];
    a->pullGradients = c->pointers[PULL_GRADIENT], a->parameterGradients = c->pointers[PARAMETER_GRADIENT];
    for (int i = 0; i < NAMED; i++) /* indices have no gradient */
        if (is_index(net, PULL, i)) c->pointers[PULL_GRADIENT][i] = NULL;
    a->labels = labels, a->loss = &c->loss, a->learningRate = 0.5f, a->weightDecay = 0.125f;
    a->workspace = c->workspace.start, a->workspaceSizeInBytes = workspace;
    a->reserve = c->reserve.start, a->reserveSizeInBytes = reserve;
    case_poison(c);
}

void case_close(Case *c) {
    DYNAMIC_OK(ucudnnDestroyGraphBatch(c->batch));
    DYNAMIC_OK(ucudnnDestroyGraphs(c->graphs));
    DYNAMIC_OK(ucudnnDestroyVertexNet(c->handle));
    case_leave(c);
}

void case_leave(Case *c) {
    for (int sort = 0; sort < SORTS; sort++) {
        for (int number = 0; number < sort_count(c->net, sort); number++) {
            guarded_free(&c->arrays[sort][number]);
            free(c->copies[sort][number]), free(c->expected[sort][number]), free(c->magnitudes[sort][number]);
        }
    }
    guarded_free(&c->labels), guarded_free(&c->workspace), guarded_free(&c->reserve);
}

enum { POISON = 0xff };

void case_poison(Case *c) {
    for (int sort = PUSH; sort < SORTS; sort++)
        for (int number = 0; number < sort_count(c->net, sort); number++)
            memset(c->arrays[sort][number].start, POISON, c->arrays[sort][number].bytes);
    memset(c->workspace.start, POISON, c->workspace.bytes);
    memset(c->reserve.start, POISON, c->reserve.bytes);
    memset(&c->loss, POISON, sizeof c->loss);
}

static void check_untouched(const unsigned char *memory, size_t bytes, const char *what) {
    for (size_t i = 0; i < bytes; i++) REQUIRE(memory[i] == POISON, "%s: byte %zu was written", what, i);
}

void case_check(const Case *c, int untouched) {
    for (int sort = 0; sort < SORTS; sort++) {
        for (int number = 0; number < sort_count(c->net, sort); number++) {
            const Guarded *array = &c->arrays[sort][number];
            guarded_check(array, SORT_NAMES[sort]);
            int is_input = sort <= PUSH_GRADIENT;
            int is_same = !is_input || memcmp(array->start, c->copies[sort][number], array->bytes) == 0;
            REQUIRE(is_same, "%s[%d] changed", SORT_NAMES[sort], number);
            if (!is_input && (untouched || !c->pointers[sort][number]))
                check_untouched(array->start, array->bytes, SORT_NAMES[sort]);
        }
    }
    guarded_check(&c->labels, "labels");
    guarded_check(&c->workspace, "workspace"), guarded_check(&c->reserve, "reserve");
    if (!untouched) return;
    check_untouched(c->reserve.start, c->reserve.bytes, "reserve");
    check_untouched((const unsigned char *)&c->loss, sizeof c->loss, "loss");
}

static double rounding(cudnnDataType_t type) {
    if (type == CUDNN_DATA_DOUBLE) return ldexp(1, -53);
    return ldexp(1, type == CUDNN_DATA_FLOAT ? -24 : type == CUDNN_DATA_HALF ? -11 : -8);
}

static double norm(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i] * values[i];
    return sqrt(sum);
}

double case_error(const Case *c, int sort) {
    cudnnDataType_t type = c->net->description.dataType, computed = type == CUDNN_DATA_DOUBLE ? type : CUDNN_DATA_FLOAT;
    double most = 0;
    for (int number = 0; number < sort_count(c->net, sort); number++) {
        if (!c->pointers[sort][number]) continue;
        size_t elements = case_elements(c, sort, number);
        const double *expected = c->expected[sort][number];
        double off = 0, unit = rounding(type) * norm(expected, elements);
        unit += rounding(computed) * norm(c->magnitudes[sort][number], elements);
        if (type == CUDNN_DATA_HALF) unit += ldexp(sqrt(elements), -25); /* the least half is 2^-24 */
        for (size_t i = 0; i < elements; i++) off += pow(value_at(&c->arrays[sort][number], type, i) - expected[i], 2);
        double error = off > 0 || off != off ? sqrt(off) / unit : 0;
        if (!(error <= most)) most = error;
    }
    return most;
}

double case_step_error(const Case *c) {
    double error = case_error(c, PARAMETER);
    /* Scores are about 1 and are rounded before the loss; so are their exponentials, relative to the exponentials. */
    double unit = rounding(CUDNN_DATA_FLOAT) * (2 + fabs(c->expected_loss));
    double of_loss = fabs(c->loss - c->expected_loss) / unit;
    return of_loss <= error || error != error ? error : of_loss;
}
