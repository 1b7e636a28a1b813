/* Vertex functions in double, vertex by vertex and operation by operation, and their derivatives by the chain rule. */
#include <math.h>
#include <string.h>

#include "dynamic.h"

/* A value of one vertex: [columns] of the vertex, or [children][width]. */
typedef struct {
    int width, of_children;
    long long index; /* of PULL_INDEX */
    double *x, *dx;
} Value;

/* A vertex of the batch. */
typedef struct {
    int function, count, slots;
    const int *children; /* in its graph; -1 for an empty slot */
    int *there;          /* the slots that are not empty */
    long long first, row; /* the graph's first vertex in the batch; the row of the inputs, or -1 */
    Value values[OPERATIONS];
    double *states[NAMED], *gradients[NAMED];
    int is_done;
} Vertex;

/* All of a run. */
typedef struct {
    const Case *c;
    Vertex *vertices;
    long long count, *order, ordered;
    double *inputs[SORTS][NAMED];
    int is_absolute; /* a run backward adds up the magnitudes of the terms of gradients */
} Expected;

static double *zeros(size_t count) {
    double *memory = calloc(count + 1, sizeof *memory);
    REQUIRE(memory, "no memory");
    return memory;
}

static double rounded(cudnnDataType_t type, double value) {
    unsigned char bytes[8];
    Guarded one = {bytes, sizeof bytes};
    set_element(bytes, type, value);
    return value_at(&one, type, 0);
}

/* ---- forward ---- */

/* The rows of a value: 1, or one for each child that is there. */
static int rows_of(const Vertex *v, const Value *value) { return value->of_children ? v->count : 1; }

/* Element `column` of row `row`, where a value of the vertex stands for each child, and one element for each. */
static size_t at(const Value *value, int row, int column) {
    return (size_t)(value->of_children ? row : 0) * value->width + (value->width == 1 ? 0 : column);
}

static const Vertex *child_of(const Expected *e, const Vertex *v, int slot) {
    return v->children[slot] < 0 ? NULL : &e->vertices[v->first + v->children[slot]];
}

static void forward(Expected *e, Vertex *v, int number) {
    const Net *net = e->c->net;
    const ucudnnVertexOperation_t *o = &net->operations[v->function][number];
    Value *y = &v->values[number];
    const Value *x = &v->values[o->inputs[0]], *z = &v->values[o->inputs[1]];
    int m = (int)o->arguments[0], n = (int)o->arguments[1];
    const int *size = net->parameters[m < NAMED ? m : 0];
    const Vertex *child;
    memset(y, 0, sizeof *y);
    y->width = x->width, y->of_children = x->of_children;
    switch (o->op) {
        case UCUDNN_VERTEX_PULL: y->width = net->pulls[m], y->of_children = 0; break;
        case UCUDNN_VERTEX_LOOKUP: y->width = size[1], y->of_children = 0; break;
        case UCUDNN_VERTEX_GATHER: y->width = net->states[n], y->of_children = 0; break;
        case UCUDNN_VERTEX_CHILDREN: y->width = net->states[m], y->of_children = 1; break;
        case UCUDNN_VERTEX_MATMUL: y->width = size[0]; break;
        case UCUDNN_VERTEX_ADD:
        case UCUDNN_VERTEX_SUB:
        case UCUDNN_VERTEX_MUL:
            y->width = x->width > z->width ? x->width : z->width, y->of_children |= z->of_children;
            break;
        case UCUDNN_VERTEX_SUM_CHILDREN:
        case UCUDNN_VERTEX_MEAN_CHILDREN:
        case UCUDNN_VERTEX_MAX_CHILDREN: y->of_children = 0; break;
        case UCUDNN_VERTEX_SUM: y->width = 1; break;
        case UCUDNN_VERTEX_CONCAT: y->width = x->width + z->width, y->of_children |= z->of_children; break;
        case UCUDNN_VERTEX_SLICE: y->width = n; break;
        case UCUDNN_VERTEX_SCATTER:
            for (int i = 0; i < x->width; i++) v->states[m][i] = rounded(net->description.dataType, x->x[i]);
            return;
        case UCUDNN_VERTEX_PUSH: {
            double *to = e->c->expected[PUSH][m] + (size_t)(v - e->vertices) * x->width;
            memcpy(to, x->x, (size_t)x->width * sizeof *to);
            return;
        }
        case UCUDNN_VERTEX_PULL_INDEX:
            y->index = -1, y->width = 0;
            if (v->row >= 0) memcpy(&y->index, e->c->arrays[PULL][m].start + 8 * v->row, sizeof y->index);
            return;
        default: break;
    }
    int rows = rows_of(v, y), width = y->width;
    y->x = zeros((size_t)rows * width), y->dx = zeros((size_t)rows * width);
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < width; i++) {
            double *to = &y->x[(size_t)row * width + i], a = 0, b = 0;
            if (x->x && rows_of(v, x) && x->of_children <= y->of_children && i < x->width) a = x->x[at(x, row, i)];
            int is_of_two = o->op >= UCUDNN_VERTEX_ADD && o->op <= UCUDNN_VERTEX_MUL;
            if (is_of_two) a = x->x[at(x, row, i)], b = z->x[at(z, row, i)];
            switch (o->op) {
                case UCUDNN_VERTEX_PULL: *to = v->row < 0 ? 0 : e->inputs[PULL][m][v->row * width + i]; break;
                case UCUDNN_VERTEX_LOOKUP:
                    if (x->index >= 0) *to = e->inputs[PARAMETER][m][x->index * width + i];
                    break;
                case UCUDNN_VERTEX_GATHER: child = child_of(e, v, m), *to = child ? child->states[n][i] : 0; break;
                case UCUDNN_VERTEX_CHILDREN: *to = child_of(e, v, v->there[row])->states[m][i]; break;
                case UCUDNN_VERTEX_MATMUL:
                    for (int k = 0; k < size[1]; k++)
                        *to += e->inputs[PARAMETER][m][i * size[1] + k] * x->x[(size_t)row * x->width + k];
                    break;
                case UCUDNN_VERTEX_BIAS: *to = a + e->inputs[PARAMETER][m][i]; break;
                case UCUDNN_VERTEX_ADD: *to = a + b; break;
                case UCUDNN_VERTEX_SUB: *to = a - b; break;
                case UCUDNN_VERTEX_MUL: *to = a * b; break;
                case UCUDNN_VERTEX_SCALE: *to = o->constant * a; break;
                case UCUDNN_VERTEX_SHIFT: *to = a + o->constant; break;
                case UCUDNN_VERTEX_SIGMOID: *to = 1 / (1 + exp(-a)); break;
                case UCUDNN_VERTEX_TANH: *to = tanh(a); break;
                case UCUDNN_VERTEX_RELU: *to = a > 0 ? a : 0; break;
                case UCUDNN_VERTEX_EXP: *to = exp(a); break;
                case UCUDNN_VERTEX_SUM_CHILDREN:
                case UCUDNN_VERTEX_MEAN_CHILDREN:
                    for (int k = 0; k < v->count; k++) *to += x->x[(size_t)k * width + i];
                    if (o->op == UCUDNN_VERTEX_MEAN_CHILDREN && v->count) *to /= v->count;
                    break;
                case UCUDNN_VERTEX_MAX_CHILDREN:
                    for (int k = 0; k < v->count; k++)
                        if (k == 0 || x->x[(size_t)k * width + i] > *to) *to = x->x[(size_t)k * width + i];
                    break;
                case UCUDNN_VERTEX_SOFTMAX_CHILDREN:
                    for (int k = 0; k < v->count; k++) b += exp(x->x[(size_t)k * width + i]);
                    *to = exp(a) / b;
                    break;
                case UCUDNN_VERTEX_SOFTMAX:
                    for (int k = 0; k < width; k++) b += exp(x->x[(size_t)row * width + k]);
                    *to = exp(a) / b;
                    break;
                case UCUDNN_VERTEX_SUM:
                    for (int k = 0; k < x->width; k++) *to += x->x[(size_t)row * x->width + k];
                    break;
                case UCUDNN_VERTEX_CONCAT:
                    *to = i < x->width ? x->x[at(x, row, i)] : z->x[at(z, row, i - x->width)];
                    break;
                case UCUDNN_VERTEX_SLICE: *to = x->x[(size_t)row * x->width + m + i]; break;
                default: REQUIRE(0, "operation %d", o->op);
            }
        }
    }
}

/* ---- backward ---- */

/* Adds a part to a gradient. */
static void give(const Expected *e, double *to, double part) { *to += e->is_absolute ? fabs(part) : part; }

/* The gradients that a run backward writes. */
static double *result(const Expected *e, int sort, int number) {
    return e->is_absolute ? e->c->magnitudes[sort][number] : e->c->expected[sort][number];
}

static void backward(Expected *e, Vertex *v, int number) {
    const Net *net = e->c->net;
    const ucudnnVertexOperation_t *o = &net->operations[v->function][number];
    Value *y = &v->values[number], *x = &v->values[o->inputs[0]], *z = &v->values[o->inputs[1]];
    int m = (int)o->arguments[0], n = (int)o->arguments[1];
    const int *size = net->parameters[m < NAMED ? m : 0];
    const Vertex *child;
    if (o->op == UCUDNN_VERTEX_SCATTER || o->op == UCUDNN_VERTEX_PUSH) {
        const double *from = v->gradients[m];
        if (o->op == UCUDNN_VERTEX_PUSH) from = e->inputs[PUSH_GRADIENT][m] + (size_t)(v - e->vertices) * x->width;
        for (int i = 0; i < x->width; i++) give(e, &x->dx[i], from[i]);
        return;
    }
    if (!y->x) return;
    for (int row = 0; row < rows_of(v, y); row++) {
        for (int i = 0; i < y->width; i++) {
            size_t place = (size_t)row * y->width + i, greatest = 0;
            double value = y->x[place], dy = y->dx[place], sum = 0, *first = NULL;
            switch (o->op) {
                case UCUDNN_VERTEX_PULL:
                    if (v->row >= 0) give(e, &result(e, PULL_GRADIENT, m)[v->row * y->width + i], dy);
                    break;
                case UCUDNN_VERTEX_LOOKUP:
                    if (x->index >= 0) give(e, &result(e, PARAMETER_GRADIENT, m)[x->index * y->width + i], dy);
                    break;
                case UCUDNN_VERTEX_GATHER:
                    child = child_of(e, v, m);
                    if (child) give(e, &child->gradients[n][i], dy);
                    break;
                case UCUDNN_VERTEX_CHILDREN: give(e, &child_of(e, v, v->there[row])->gradients[m][i], dy); break;
                case UCUDNN_VERTEX_MATMUL:
                    for (int k = 0; k < size[1]; k++) {
                        size_t from = (size_t)row * x->width + k;
                        give(e, &result(e, PARAMETER_GRADIENT, m)[i * size[1] + k], dy * x->x[from]);
                        give(e, &x->dx[from], dy * e->inputs[PARAMETER][m][i * size[1] + k]);
                    }
                    break;
                case UCUDNN_VERTEX_BIAS:
                    give(e, &result(e, PARAMETER_GRADIENT, m)[i], dy), give(e, &x->dx[place], dy);
                    break;
                case UCUDNN_VERTEX_ADD: give(e, &x->dx[at(x, row, i)], dy), give(e, &z->dx[at(z, row, i)], dy); break;
                case UCUDNN_VERTEX_SUB: give(e, &x->dx[at(x, row, i)], dy), give(e, &z->dx[at(z, row, i)], -dy); break;
                case UCUDNN_VERTEX_MUL:
                    give(e, &x->dx[at(x, row, i)], dy * z->x[at(z, row, i)]);
                    give(e, &z->dx[at(z, row, i)], dy * x->x[at(x, row, i)]);
                    break;
                case UCUDNN_VERTEX_SCALE: give(e, &x->dx[place], o->constant * dy); break;
                case UCUDNN_VERTEX_SHIFT: give(e, &x->dx[place], dy); break;
                case UCUDNN_VERTEX_SIGMOID: give(e, &x->dx[place], dy * value * (1 - value)); break;
                case UCUDNN_VERTEX_TANH: give(e, &x->dx[place], dy * (1 - value * value)); break;
                case UCUDNN_VERTEX_RELU: give(e, &x->dx[place], value > 0 ? dy : 0); break;
                case UCUDNN_VERTEX_EXP: give(e, &x->dx[place], dy * value); break;
                case UCUDNN_VERTEX_SUM_CHILDREN:
                case UCUDNN_VERTEX_MEAN_CHILDREN:
                    if (o->op == UCUDNN_VERTEX_MEAN_CHILDREN) dy /= v->count;
                    for (int k = 0; k < v->count; k++) give(e, &x->dx[(size_t)k * y->width + i], dy);
                    break;
                case UCUDNN_VERTEX_MAX_CHILDREN:
                    for (int k = 0; k < v->count; k++) {
                        size_t from = (size_t)k * y->width + i;
                        if (!first || x->x[from] > x->x[greatest]) first = &x->dx[from], greatest = from;
                    }
                    if (first) give(e, first, dy);
                    break;
                case UCUDNN_VERTEX_SOFTMAX_CHILDREN:
                    for (int k = 0; k < v->count; k++) sum += y->dx[k * y->width + i] * y->x[k * y->width + i];
                    give(e, &x->dx[place], value * dy), give(e, &x->dx[place], -value * sum);
                    break;
                case UCUDNN_VERTEX_SOFTMAX:
                    for (int k = 0; k < y->width; k++) sum += y->dx[row * y->width + k] * y->x[row * y->width + k];
                    give(e, &x->dx[place], value * dy), give(e, &x->dx[place], -value * sum);
                    break;
                case UCUDNN_VERTEX_SUM:
                    for (int k = 0; k < x->width; k++) give(e, &x->dx[(size_t)row * x->width + k], dy);
                    break;
                case UCUDNN_VERTEX_CONCAT:
                    if (i < x->width) give(e, &x->dx[at(x, row, i)], dy);
                    else give(e, &z->dx[at(z, row, i - x->width)], dy);
                    break;
                case UCUDNN_VERTEX_SLICE: give(e, &x->dx[(size_t)row * x->width + m + i], dy); break;
                default: REQUIRE(0, "operation %d", o->op);
            }
        }
    }
}

/* ---- whole runs ---- */

static void order_from(Expected *e, long long number) {
    Vertex *v = &e->vertices[number];
    if (v->is_done) return;
    v->is_done = 1;
    for (int slot = 0; slot < v->slots; slot++)
        if (v->children[slot] >= 0) order_from(e, v->first + v->children[slot]);
    e->order[e->ordered++] = number;
}

/* Lays out the vertices of one graph after the other. */
static void lay_out(Expected *e) {
    const Case *c = e->c;
    const Trees *trees = c->trees;
    long long row = 0;
    for (long long i = 0; i < c->count; i++) {
        long long begin = trees->first_vertex[c->ids[i]], end = trees->first_vertex[c->ids[i] + 1], rows = 0;
        long long first = e->count;
        for (long long vertex = begin; vertex < end; vertex++) {
            Vertex *v = &e->vertices[e->count++];
            long long of_row = trees->description.rows ? trees->rows[vertex] : vertex - begin;
            v->function = trees_function(c->net, trees, vertex), v->first = first;
            v->row = of_row < 0 ? -1 : row + of_row;
            if (of_row + 1 > rows) rows = of_row + 1;
            v->children = trees->children + trees->first_child[vertex];
            v->slots = (int)(trees->first_child[vertex + 1] - trees->first_child[vertex]);
            v->there = calloc((size_t)v->slots + 1, sizeof *v->there);
            for (int slot = 0; slot < v->slots; slot++)
                if (v->children[slot] >= 0) v->there[v->count++] = slot;
            for (int state = 0; state < c->net->description.stateCount; state++)
                v->states[state] = zeros(c->net->states[state]), v->gradients[state] = zeros(c->net->states[state]);
        }
        row += rows;
    }
    REQUIRE(e->count == c->sizes.vertices && row == c->sizes.rows, "%lld vertices, %lld rows", e->count, row);
    for (long long number = 0; number < e->count; number++) order_from(e, number);
}

static void forget_gradients(Expected *e) {
    for (long long i = 0; i < e->count; i++) {
        Vertex *v = &e->vertices[i];
        for (int number = 0; number < e->c->net->functions[v->function].operationCount; number++) {
            Value *value = &v->values[number];
            if (value->x) memset(value->dx, 0, (size_t)rows_of(v, value) * value->width * sizeof *value->dx);
        }
        for (int state = 0; state < e->c->net->description.stateCount; state++)
            memset(v->gradients[state], 0, (size_t)e->c->net->states[state] * sizeof(double));
    }
}

/* Backward, a value that was handed on to parents is read as it was handed on: rounded. */
static void recall(Expected *e, Vertex *v) {
    const ucudnnVertexFunction_t *f = &e->c->net->functions[v->function];
    for (int number = 0; number < f->operationCount; number++) {
        const ucudnnVertexOperation_t *o = &f->operations[number];
        Value *x = &v->values[o->inputs[0]];
        if (o->op == UCUDNN_VERTEX_SCATTER) memcpy(x->x, v->states[o->arguments[0]], (size_t)x->width * sizeof *x->x);
    }
}

/* Runs backward by the gradients of the outputs: gradients, and then their magnitudes. */
static void run_backward(Expected *e) {
    const Case *c = e->c;
    for (e->is_absolute = 0; e->is_absolute < 2; e->is_absolute++) {
        forget_gradients(e);
        for (int sort = PULL_GRADIENT; sort < SORTS; sort++)
            for (int number = 0; number < NAMED; number++)
                if (c->expected[sort][number])
                    memset(result(e, sort, number), 0, case_elements(c, sort, number) * sizeof(double));
        for (long long i = e->count - 1; i >= 0; i--) {
            Vertex *v = &e->vertices[e->order[i]];
            recall(e, v);
            for (int number = c->net->functions[v->function].operationCount - 1; number >= 0; number--)
                backward(e, v, number);
        }
    }
}

/* The gradient of the scores, and the loss. */
static void lose(Case *c, Expected *e) {
    int push = c->net->description.lossPush, width = c->net->pushes[push], counted = 0;
    const int *labels = (const int *)(const void *)c->labels.start;
    for (int number = 0; number < NAMED; number++)
        if (e->inputs[PUSH_GRADIENT][number])
            memset(e->inputs[PUSH_GRADIENT][number], 0, case_elements(c, PUSH, number) * sizeof(double));
    for (long long i = 0; i < e->count; i++) counted += labels[i] >= 0;
    for (long long i = 0; i < e->count; i++) {
        const double *scores = c->expected[PUSH][push] + i * width;
        double sum = 0;
        if (labels[i] < 0) continue;
        for (int k = 0; k < width; k++) sum += exp(scores[k]);
        c->expected_loss += (log(sum) - scores[labels[i]]) / counted;
        for (int k = 0; k < width; k++)
            e->inputs[PUSH_GRADIENT][push][i * width + k] = (exp(scores[k]) / sum - (k == labels[i])) / counted;
    }
}

static void leave(Expected *e) {
    for (long long i = 0; i < e->count; i++) {
        Vertex *v = &e->vertices[i];
        for (int number = 0; number < OPERATIONS; number++) free(v->values[number].x), free(v->values[number].dx);
        for (int state = 0; state < NAMED; state++) free(v->states[state]), free(v->gradients[state]);
        free(v->there);
    }
    for (int sort = 0; sort < SORTS; sort++)
        for (int number = 0; number < NAMED; number++) free(e->inputs[sort][number]);
    free(e->vertices), free(e->order);
}

void case_expect(Case *c) {
    const ucudnnVertexNetDescription_t *d = &c->net->description;
    cudnnDataType_t type = d->dataType;
    Expected e = {.c = c};
    e.vertices = calloc((size_t)c->sizes.vertices, sizeof *e.vertices);
    e.order = calloc((size_t)c->sizes.vertices, sizeof *e.order);
    REQUIRE(e.vertices && e.order, "no memory");
    for (int sort = 0; sort < SORTS; sort++) {
        for (int number = 0; number < NAMED; number++) {
            if (!c->arrays[sort][number].start || (sort == PULL && c->net->pulls[number] == 0)) continue;
            size_t elements = case_elements(c, sort, number);
            double *made = zeros(elements);
            if (sort >= PUSH) c->expected[sort][number] = made, c->magnitudes[sort][number] = zeros(elements);
            else e.inputs[sort][number] = made;
            /* Values before the last rounding are about 1. */
            for (size_t i = 0; i < elements && sort == PUSH; i++) c->magnitudes[sort][number][i] = 1;
            for (size_t i = 0; i < elements && sort < PUSH; i++) made[i] = value_at(&c->arrays[sort][number], type, i);
        }
    }
    lay_out(&e);
    for (long long i = 0; i < e.count; i++) {
        Vertex *v = &e.vertices[e.order[i]];
        for (int number = 0; number < c->net->functions[v->function].operationCount; number++) forward(&e, v, number);
    }
    /* The step comes first: the gradients of the outputs take the place of its own. */
    lose(c, &e);
    run_backward(&e);
    for (int number = 0; number < d->parameterCount; number++) {
        size_t elements = case_elements(c, PARAMETER, number);
        double rate = c->arguments.learningRate, decay = c->arguments.weightDecay;
        c->expected[PARAMETER][number] = zeros(elements), c->magnitudes[PARAMETER][number] = zeros(elements);
        for (size_t i = 0; i < elements; i++) {
            double p = e.inputs[PARAMETER][number][i], gradient = c->expected[PARAMETER_GRADIENT][number][i];
            double magnitude = c->magnitudes[PARAMETER_GRADIENT][number][i];
            c->expected[PARAMETER][number][i] = p - rate * (gradient + decay * p);
            c->magnitudes[PARAMETER][number][i] = fabs(p) + rate * (magnitude + decay * fabs(p));
        }
    }
    for (int number = 0; number < d->pushCount; number++)
        for (size_t i = 0; i < case_elements(c, PUSH, number); i++)
            e.inputs[PUSH_GRADIENT][number][i] = value_at(&c->arrays[PUSH_GRADIENT][number], type, i);
    run_backward(&e);
    leave(&e);
}
