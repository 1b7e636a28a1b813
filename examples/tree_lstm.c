/* Trains a binary Tree-LSTM (Tai et al. 2015, "Improved Semantic Representations From Tree-Structured Long Short-Term
 * Memory Networks") to tell the values of boolean expressions such as !((1 ^ 0) & 1) from their trees. Only values of
 * whole expressions are taught. Runs on the host, and needs neither cuDNN nor its header:
 *
 *     gcc -std=c99 -O2 -DUCUDNN_WITHOUT_CUDNN_H -Iinclude examples/tree_lstm.c -Ltarget/release -lucudnn -lm -o lstm
 *     LD_LIBRARY_PATH=target/release ./lstm
 *
 * A vertex's token is the operator, or the constant of a leaf. A negation has one child, and its second slot is empty.
 * No linear model of the leaves tells the value: the operators between them decide, and one of them is exclusive or. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ucudnn.h>

enum { FALSE_LEAF, TRUE_LEAF, AND, OR, XOR, NOT, TOKENS };
enum { TREES = 4000, HELD_OUT = 1000, BATCH = 50, EPOCHS = 30, MOST_LEAVES = 6, MOST_VERTICES = 24 };
enum { WORDS = 8, HIDDEN = 24, CLASSES = 2, LEAF_GATES = 3 * HIDDEN, NODE_GATES = 5 * HIDDEN };
enum { H, C, STATES };
enum { EMBEDDING, LEAF_MATRIX, LEAF_BIAS, NODE_MATRIX, NODE_BIAS, HEAD_MATRIX, HEAD_BIAS, PARAMETERS };
enum { MOST_OPERATIONS = 40 };

/* Rows and columns; a vector has none. */
static const int SIZES[PARAMETERS][2] = {{TOKENS, WORDS},
                                         {LEAF_GATES, WORDS},
                                         {LEAF_GATES, 0},
                                         {NODE_GATES, WORDS + 2 * HIDDEN},
                                         {NODE_GATES, 0},
                                         {CLASSES, HIDDEN},
                                         {CLASSES, 0}};

/* Ends the program if a call has failed. */
static void check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char why[512];
    ucudnnGetVertexNetErrorString(why, sizeof why);
    fprintf(stderr, "tree_lstm: %s: %s (status %d)\n", call, why, (int)status);
    exit(1);
}
#define CHECK(call) check(call, #call)

static void *memory(size_t count, size_t size) {
    void *made = calloc(count + 1, size);
    if (made) return made;
    fprintf(stderr, "tree_lstm: no memory\n");
    exit(1);
}

/* Random numbers: xorshift64* (Vigna 2016). */
static uint64_t state = 88172645463325252u;

static uint64_t random_bits(void) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 2685821657736338717u;
}

static int below(int end) { return (int)(random_bits() >> 33) % end; }

static float between_ones(void) { return (float)(random_bits() >> 40) / 8388608.0f - 1; }

/* ---- trees ---- */

/* Trees as ucudnnGraphsDescription_t has them, their tokens, and their values. */
static struct {
    long long first_vertex[TREES + 1], first_child[TREES * MOST_VERTICES + 1];
    long long tokens[TREES * MOST_VERTICES];
    int children[2 * TREES * MOST_VERTICES], values[TREES];
    long long trees, vertices, slots;
} all;

/* Adds a vertex behind its children; -1 for an empty slot. Returns its number in its tree. */
static int add_vertex(int token, int slots, int left, int right) {
    const int both[2] = {left, right};
    all.tokens[all.vertices] = token;
    for (int slot = 0; slot < slots; slot++) all.children[all.slots++] = both[slot];
    all.first_child[++all.vertices] = all.slots;
    return (int)(all.vertices - 1 - all.first_vertex[all.trees]);
}

/* Adds an expression with so many leaves, and returns its last vertex. */
static int add_expression(int leaves, int may_negate, int *value) {
    int left_value, right_value;
    if (may_negate && below(4) == 0) {
        int child = add_expression(leaves, 0, value);
        *value = !*value;
        return add_vertex(NOT, 2, child, -1);
    }
    if (leaves == 1) {
        *value = below(2);
        return add_vertex(*value ? TRUE_LEAF : FALSE_LEAF, 0, -1, -1);
    }
    int of_left = 1 + below(leaves - 1), token = AND + below(3);
    int left = add_expression(of_left, 1, &left_value), right = add_expression(leaves - of_left, 1, &right_value);
    if (token == AND) *value = left_value & right_value;
    else *value = token == OR ? left_value | right_value : left_value ^ right_value;
    return add_vertex(token, 2, left, right);
}

static void make_trees(void) {
    while (all.trees < TREES) {
        add_expression(1 + below(MOST_LEAVES), 1, &all.values[all.trees]);
        all.first_vertex[++all.trees] = all.vertices;
    }
}

/* ---- the net ---- */

struct function {
    ucudnnVertexOperation_t operations[MOST_OPERATIONS];
    int count;
};

/* Adds an operation, and returns the number of its value. */
static int add(struct function *f, ucudnnVertexOp_t op, int x, int y, long long m, long long n) {
    ucudnnVertexOperation_t operation = {op, {x, y, 0}, {m, n}, 0};
    f->operations[f->count] = operation;
    return f->count++;
}

/* The token's word. */
static int word(struct function *f) {
    return add(f, UCUDNN_VERTEX_LOOKUP, add(f, UCUDNN_VERTEX_PULL_INDEX, 0, 0, 0, 0), 0, EMBEDDING, 0);
}

static int linear(struct function *f, int matrix, int bias, int x) {
    return add(f, UCUDNN_VERTEX_BIAS, add(f, UCUDNN_VERTEX_MATMUL, x, 0, matrix, 0), 0, bias, 0);
}

/* A gate: a part of all gates, and what makes it one. */
static int gate(struct function *f, ucudnnVertexOp_t op, int gates, int number) {
    return add(f, op, add(f, UCUDNN_VERTEX_SLICE, gates, 0, number * HIDDEN, HIDDEN), 0, 0, 0);
}

/* What gates 0 to 2 write. */
static int written(struct function *f, int gates) {
    int input = gate(f, UCUDNN_VERTEX_SIGMOID, gates, 0), update = gate(f, UCUDNN_VERTEX_TANH, gates, 2);
    return add(f, UCUDNN_VERTEX_MUL, input, update, 0, 0);
}

/* h of c; both go to the parent, and the scores of the classes to the outside. */
static void finish(struct function *f, int gates, int c) {
    int output = gate(f, UCUDNN_VERTEX_SIGMOID, gates, 1);
    int h = add(f, UCUDNN_VERTEX_MUL, output, add(f, UCUDNN_VERTEX_TANH, c, 0, 0, 0), 0, 0);
    add(f, UCUDNN_VERTEX_SCATTER, h, 0, H, 0);
    add(f, UCUDNN_VERTEX_SCATTER, c, 0, C, 0);
    add(f, UCUDNN_VERTEX_PUSH, linear(f, HEAD_MATRIX, HEAD_BIAS, h), 0, 0, 0);
}

static void make_leaf(struct function *f) {
    int gates = linear(f, LEAF_MATRIX, LEAF_BIAS, word(f));
    finish(f, gates, written(f, gates));
}

static void make_node(struct function *f) {
    int both = add(f, UCUDNN_VERTEX_CONCAT, add(f, UCUDNN_VERTEX_GATHER, 0, 0, 0, H),
                   add(f, UCUDNN_VERTEX_GATHER, 0, 0, 1, H), 0, 0);
    int gates = linear(f, NODE_MATRIX, NODE_BIAS, add(f, UCUDNN_VERTEX_CONCAT, word(f), both, 0, 0));
    int c = written(f, gates);
    for (int slot = 0; slot < 2; slot++) {
        int forget = gate(f, UCUDNN_VERTEX_SIGMOID, gates, 3 + slot);
        int kept = add(f, UCUDNN_VERTEX_MUL, forget, add(f, UCUDNN_VERTEX_GATHER, 0, 0, slot, C), 0, 0);
        c = add(f, UCUDNN_VERTEX_ADD, c, kept, 0, 0);
    }
    finish(f, gates, c);
}

static ucudnnVertexNet_t make_net(void) {
    static const int states[STATES] = {HIDDEN, HIDDEN}, index = 0, classes = CLASSES;
    static struct function leaf, node;
    make_leaf(&leaf);
    make_node(&node);
    ucudnnVertexFunction_t functions[2] = {{0, leaf.count, leaf.operations}, {2, node.count, node.operations}};
    ucudnnVertexNetDescription_t description = {0};
    description.dataType = CUDNN_DATA_FLOAT;
    description.isTraining = description.isOnHost = description.hostThreads = 1;
    description.stateCount = STATES, description.stateWidths = states;
    description.parameterCount = PARAMETERS, description.parameterSizes = SIZES;
    description.pullCount = 1, description.pullWidths = &index;
    description.pushCount = 1, description.pushWidths = &classes;
    description.functionCount = 2, description.functions = functions;
    description.loss = UCUDNN_LOSS_CROSS_ENTROPY;
    description.maxGraphs = BATCH, description.maxVertices = description.maxLevels = BATCH * MOST_VERTICES;
    description.maxChildren = 2 * BATCH * MOST_VERTICES;
    ucudnnVertexNet_t net;
    CHECK(ucudnnCreateVertexNet(&net, &description));
    return net;
}

/* ---- training ---- */

static void *parameters[PARAMETERS];

/* Random matrices as large as their rows take, and biases of 0; but a node begins with what its children remember. */
static void make_parameters(void) {
    for (int number = 0; number < PARAMETERS; number++) {
        int rows = SIZES[number][0], columns = SIZES[number][1], count = rows * (columns ? columns : 1);
        float *values = parameters[number] = memory((size_t)count, sizeof *values);
        float most = number == EMBEDDING ? 1 : sqrtf(3 / (float)(columns ? columns : 1));
        for (int i = 0; columns && i < count; i++) values[i] = most * between_ones();
        for (int i = 3 * HIDDEN; number == NODE_BIAS && i < count; i++) values[i] = 1;
    }
}

/* A batch's trees, tokens and labels, and all memory of a run. */
static struct {
    long long ids[BATCH], tokens[BATCH * MOST_VERTICES];
    int labels[BATCH * MOST_VERTICES];
    float scores[BATCH * MOST_VERTICES][CLASSES];
    ucudnnVertexNetArguments_t arguments;
    const void *pulls[1];
    void *pushes[1];
} run;

/* The batch of the trees in run.ids; only roots, the last vertices of their trees, have labels. */
static void set_batch(ucudnnGraphBatch_t batch, ucudnnGraphs_t graphs) {
    int at = 0;
    CHECK(ucudnnSetGraphBatch(batch, graphs, run.ids, BATCH, NULL));
    for (int i = 0; i < BATCH; i++) {
        long long end = all.first_vertex[run.ids[i] + 1];
        for (long long vertex = all.first_vertex[run.ids[i]]; vertex < end; vertex++, at++) {
            run.tokens[at] = all.tokens[vertex];
            run.labels[at] = vertex == end - 1 ? all.values[run.ids[i]] : -1;
        }
    }
}

/* The part of the trees from `first` on whose value the net tells. */
static double accuracy(ucudnnVertexNet_t net, ucudnnGraphBatch_t batch, ucudnnGraphs_t graphs, int first, int count) {
    ucudnnGraphBatchSizes_t sizes;
    int right = 0;
    for (int tree = first; tree < first + count; tree += BATCH) {
        for (int i = 0; i < BATCH; i++) run.ids[i] = tree + i;
        set_batch(batch, graphs);
        CHECK(ucudnnRunVertexNetForward(net, batch, &run.arguments, NULL));
        CHECK(ucudnnGetGraphBatchSizes(batch, &sizes));
        for (int i = 0; i < sizes.vertices; i++)
            right += run.labels[i] >= 0 && (run.scores[i][1] > run.scores[i][0]) == run.labels[i];
    }
    return (double)right / count;
}

/* One step for each batch of the trees before the held-out ones, in a new order. Returns the mean loss. */
static double train(ucudnnVertexNet_t net, ucudnnGraphBatch_t batch, ucudnnGraphs_t graphs) {
    static long long order[TREES - HELD_OUT];
    enum { STEPS = (TREES - HELD_OUT) / BATCH };
    double sum = 0;
    for (int i = 0; i < TREES - HELD_OUT; i++) {
        int other = below(i + 1);
        order[i] = order[other], order[other] = i;
    }
    for (int step = 0; step < STEPS; step++) {
        float loss;
        for (int i = 0; i < BATCH; i++) run.ids[i] = order[step * BATCH + i];
        set_batch(batch, graphs);
        run.arguments.loss = &loss;
        CHECK(ucudnnRunVertexNetStep(net, batch, &run.arguments, NULL));
        sum += loss;
    }
    return sum / STEPS;
}

int main(void) {
    make_trees();
    make_parameters();
    ucudnnVertexNet_t net = make_net();
    ucudnnGraphsDescription_t description = {0};
    description.graphs = TREES, description.firstVertex = all.first_vertex, description.firstChild = all.first_child;
    description.children = all.children;
    ucudnnGraphs_t graphs;
    CHECK(ucudnnCreateGraphs(&graphs, &description));
    ucudnnGraphBatch_t batch;
    CHECK(ucudnnCreateGraphBatch(&batch, net));
    ucudnnVertexNetArguments_t *a = &run.arguments;
    CHECK(ucudnnGetVertexNetMemorySize(net, NULL, &a->workspaceSizeInBytes, &a->reserveSizeInBytes));
    a->workspace = memory(a->workspaceSizeInBytes, 1), a->reserve = memory(a->reserveSizeInBytes, 1);
    run.pulls[0] = run.tokens, run.pushes[0] = run.scores;
    a->parameters = (const void *const *)parameters, a->pulls = run.pulls, a->pushes = run.pushes;
    a->labels = run.labels, a->learningRate = 0.5f, a->weightDecay = 1e-5f;

    double told = 0;
    for (int epoch = 1; epoch <= EPOCHS && told < 0.99; epoch++) {
        double loss = train(net, batch, graphs);
        told = accuracy(net, batch, graphs, TREES - HELD_OUT, HELD_OUT);
        printf("epoch %d: loss %.3f, %.1f%% of held-out trees\n", epoch, loss, 100 * told);
    }
    CHECK(ucudnnDestroyGraphBatch(batch));
    CHECK(ucudnnDestroyGraphs(graphs));
    CHECK(ucudnnDestroyVertexNet(net));
    for (int number = 0; number < PARAMETERS; number++) free(parameters[number]);
    free(a->workspace), free(a->reserve);
    return told < 0.95;
}
