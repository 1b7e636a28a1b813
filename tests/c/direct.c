#include "direct.h"

#include <math.h>
#include <string.h>

ucudnnRnnDescription_t direct_plain(int hidden, int batch, int steps) {
    ucudnnRnnDescription_t description;
    memset(&description, 0, sizeof description);
    description.cell = UCUDNN_RNN_LSTM, description.dataType = CUDNN_DATA_FLOAT, description.hasBiases = 1;
    description.inputSize = 6, description.hiddenSize = hidden, description.layers = description.directions = 1;
    description.maxBatch = batch, description.maxSteps = steps;
    return description;
}

int direct_gates(ucudnnRnnCell_t cell) {
    return cell == UCUDNN_RNN_LSTM ? 4 : cell == UCUDNN_RNN_TANH || cell == UCUDNN_RNN_RELU ? 1 : 3;
}

void direct_open(Direct *direct, const ucudnnRnnDescription_t *description, Random *random) {
    size_t bytes;
    memset(direct, 0, sizeof *direct);
    direct->description = *description;
    RUN_OK(ucudnnCreateRnn(&direct->rnn, description));
    RUN_OK(ucudnnGetRnnWeightSize(direct->rnn, &bytes));
    direct->weights = guarded_new(bytes);
    direct->weight_count = bytes / size_of(description->dataType);
    fill_random(&direct->weights, description->dataType, direct->weight_count, 1 / sqrt(description->hiddenSize), random);
    RUN_OK(ucudnnGetRnnWorkspaceSize(direct->rnn, &bytes));
    direct->workspace = guarded_new(bytes);
}

/* ---- expected results ---- */

/* The row of x and y that holds a sequence's step. */
static size_t row_of(const Direct *direct, int sequence, int step) {
    const ucudnnRnnArguments_t *a = &direct->arguments;
    size_t row = 0;
    if (a->layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) return (size_t)sequence * a->steps + step;
    if (a->layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED) return (size_t)step * a->batch + sequence;
    for (int i = 0; i < a->batch; i++) row += direct->lengths[i] < step ? direct->lengths[i] : step;
    return row + sequence;
}

static size_t rows_of(const Direct *direct) {
    size_t rows = 0;
    for (int i = 0; i < direct->arguments.batch; i++) rows += direct->lengths[i];
    return direct->arguments.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
               ? rows
               : (size_t)direct->arguments.batch * direct->arguments.steps;
}

/* Where the parts of the weights begin, for one layer and direction. */
typedef struct {
    size_t w, r, b_w, b_r;
    int has_biases;
} Places;

static Places places_of(const ucudnnRnnDescription_t *d, int layer, int direction) {
    size_t rows = (size_t)direct_gates(d->cell) * d->hiddenSize, wide = (size_t)d->directions * d->hiddenSize;
    size_t first = rows * (d->inputSize + d->hiddenSize), other = rows * (wide + d->hiddenSize);
    size_t matrices = d->directions * (first + (d->layers - 1) * other), index = layer * d->directions + direction;
    Places places;
    places.w = layer == 0 ? direction * first : d->directions * (first + (layer - 1) * other) + direction * other;
    places.r = places.w + rows * (layer == 0 ? (size_t)d->inputSize : wide);
    places.b_w = matrices + 2 * index * rows, places.b_r = places.b_w + rows, places.has_biases = d->hasBiases;
    return places;
}

/* A bias plus the product of a matrix's row and a vector. */
static Rounded sum_of(const double *weights, size_t matrix, size_t biases, int has_biases, int row, const Rounded *vector,
                      int count) {
    Rounded sum = exact(has_biases ? weights[biases + row] : 0);
    for (int i = 0; i < count; i++) sum = plus_product(sum, weights[matrix + (size_t)row * count + i], vector[i]);
    return sum;
}

/* The value after it is stored as `type`. Halves below 2^-14 have a constant distance. */
static Rounded stored(cudnnDataType_t type, Rounded a) {
    if (type == CUDNN_DATA_HALF) return to_within(a, 1.0 / (1 << 11), 1.0 / (1 << 25));
    return type == CUDNN_DATA_BFLOAT16 ? to_within(a, 1.0 / (1 << 8), 0) : a;
}

/* One step: replaces h and c by the new states. */
static void step_cell(const ucudnnRnnDescription_t *d, const double *weights, const Places *p, const Rounded *x, int inputs,
                      Rounded *h, Rounded *c, Rounded *new_h, Rounded *reset_h) {
    int size = d->hiddenSize;
#define W(gate) sum_of(weights, p->w, p->b_w, p->has_biases, (gate) * size + j, x, inputs)
#define R_OF(gate, vector) sum_of(weights, p->r, p->b_r, p->has_biases, (gate) * size + j, vector, size)
#define R(gate) R_OF(gate, h)
#define SUM(gate) plus(W(gate), R(gate))
    if (d->cell == UCUDNN_RNN_CANONICAL_GRU)
        for (int j = 0; j < size; j++) reset_h[j] = stored(d->dataType, times(logistic(SUM(0)), h[j]));
    for (int j = 0; j < size; j++) {
        Rounded new;
        switch (d->cell) {
            case UCUDNN_RNN_RELU: new = not_negative(SUM(0)); break;
            case UCUDNN_RNN_TANH: new = hyperbolic_tangent(SUM(0)); break;
            case UCUDNN_RNN_LSTM:
                c[j] = plus(times(logistic(SUM(1)), c[j]), times(logistic(SUM(0)), hyperbolic_tangent(SUM(2))));
                new = times(logistic(SUM(3)), hyperbolic_tangent(c[j]));
                break;
            case UCUDNN_RNN_CANONICAL_GRU:
                new = hyperbolic_tangent(plus(W(2), R_OF(2, reset_h)));
                new = between(logistic(SUM(1)), new, h[j]);
                break;
            default:
                new = hyperbolic_tangent(plus(W(2), times(logistic(SUM(0)), R(2))));
                new = between(logistic(SUM(1)), new, h[j]);
        }
        new_h[j] = stored(d->dataType, new);
    }
    memcpy(h, new_h, size * sizeof *h);
#undef W
#undef R
#undef R_OF
#undef SUM
}

static void *memory_of(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    REQUIRE(memory, "no memory");
    return memory;
}

static Rounded *numbers(size_t count) { return memory_of(count, sizeof(Rounded)); }

static Rounded *widened(const Guarded *memory, cudnnDataType_t type, size_t count) {
    Rounded *values = numbers(count);
    for (size_t i = 0; i < count; i++) values[i] = exact(value_at(memory, type, i));
    return values;
}

static void expect(Direct *direct) {
    const ucudnnRnnDescription_t *d = &direct->description;
    const ucudnnRnnArguments_t *a = &direct->arguments;
    int size = d->hiddenSize, wide = d->directions * size, inputs = d->inputSize;
    double *weights = memory_of(direct->weight_count, sizeof *weights);
    for (size_t i = 0; i < direct->weight_count; i++) weights[i] = value_at(&direct->weights, d->dataType, i);
    Rounded *new_h = numbers(size), *reset_h = numbers(size);
    Rounded *x = widened(&direct->x, d->dataType, direct->x_count), *y = NULL;
    Rounded *h = widened(&direct->hx, d->dataType, direct->state_count);
    Rounded *c = widened(&direct->cx, d->dataType, direct->state_count);
    if (!a->hx) memset(h, 0, direct->state_count * sizeof *h);
    if (!a->cx) memset(c, 0, direct->state_count * sizeof *c);
    for (int layer = 0; layer < d->layers; layer++) {
        y = numbers(direct->y_count);
        for (int direction = 0; direction < d->directions; direction++) {
            Places places = places_of(d, layer, direction);
            for (int b = 0; b < a->batch; b++) {
                size_t state = ((size_t)(layer * d->directions + direction) * a->batch + b) * size;
                for (int i = 0; i < direct->lengths[b]; i++) {
                    size_t row = row_of(direct, b, direction ? direct->lengths[b] - 1 - i : i);
                    step_cell(d, weights, &places, x + row * inputs, inputs, h + state, c + state, new_h,
                              reset_h);
                    memcpy(y + row * wide + direction * size, h + state, size * sizeof *y);
                }
            }
        }
        free(x);
        x = y, inputs = wide;
    }
    for (size_t i = 0; i < direct->state_count; i++) c[i] = stored(d->dataType, c[i]);
    direct->expected[0] = y, direct->expected[1] = h, direct->expected[2] = c;
    free(weights), free(new_h), free(reset_h);
}

/* ---- runs ---- */

void direct_bring(Direct *direct, int layout, int batch, int steps, const int *lengths, Random *random) {
    const ucudnnRnnDescription_t *d = &direct->description;
    ucudnnRnnArguments_t *a = &direct->arguments;
    cudnnDataType_t type = d->dataType;
    memset(a, 0, sizeof *a);
    a->layout = layout, a->batch = batch, a->steps = steps, a->lengths = lengths ? direct->lengths : NULL;
    for (int i = 0; i < batch; i++) direct->lengths[i] = lengths ? lengths[i] : steps;
    direct->x_count = rows_of(direct) * d->inputSize, direct->y_count = rows_of(direct) * d->directions * d->hiddenSize;
    direct->state_count = (size_t)d->layers * d->directions * batch * d->hiddenSize;
    Guarded *states[4] = {&direct->hx, &direct->hy, &direct->cx, &direct->cy};
    for (int i = 0; i < 4; i++) {
        *states[i] = guarded_new(direct->state_count * size_of(type));
        fill_random(states[i], type, direct->state_count, 1, random);
    }
    direct->x = guarded_new(direct->x_count * size_of(type)), direct->y = guarded_new(direct->y_count * size_of(type));
    fill_random(&direct->x, type, direct->x_count, 1, random);
    a->weights = direct->weights.start, a->x = direct->x.start, a->y = direct->y.start;
    a->workspace = direct->workspace.start, a->workspaceSizeInBytes = direct->workspace.bytes;
    a->hx = random_below(random, 3) ? direct->hx.start : NULL, a->hy = random_below(random, 3) ? direct->hy.start : NULL;
    a->cx = random_below(random, 3) ? direct->cx.start : NULL, a->cy = random_below(random, 3) ? direct->cy.start : NULL;
    expect(direct);
}

cudnnStatus_t direct_run(Direct *direct, void *stream) {
    memset(direct->y.start, 0xff, direct->y.bytes);
    memset(direct->hy.start, 0xff, direct->hy.bytes);
    memset(direct->cy.start, 0xff, direct->cy.bytes);
    memset(direct->workspace.start, 0xff, direct->workspace.bytes);
    return ucudnnRunRnn(direct->rnn, &direct->arguments, stream);
}

static int is_poison(const Guarded *memory) {
    for (size_t i = 0; i < memory->bytes; i++)
        if (memory->start[i] != 0xff) return 0;
    return 1;
}

void direct_check(const Direct *direct, int is_refused) {
    const ucudnnRnnArguments_t *a = &direct->arguments;
    guarded_check(&direct->x, "x"), guarded_check(&direct->y, "y"), guarded_check(&direct->weights, "the weights");
    guarded_check(&direct->hx, "hx"), guarded_check(&direct->hy, "hy"), guarded_check(&direct->cx, "cx");
    guarded_check(&direct->cy, "cy"), guarded_check(&direct->workspace, "the workspace");
    REQUIRE((a->hy && !is_refused) || is_poison(&direct->hy), "hy was not to be written");
    REQUIRE((a->cy && direct->description.cell == UCUDNN_RNN_LSTM && !is_refused) || is_poison(&direct->cy),
            "cy was not to be written");
    REQUIRE(!is_refused || (is_poison(&direct->y) && is_poison(&direct->workspace)), "a refused run wrote something");
}

void direct_errors(const Direct *direct, double deviations[3]) {
    const ucudnnRnnArguments_t *a = &direct->arguments;
    const Guarded *memory[3] = {&direct->y, &direct->hy, &direct->cy};
    size_t has_c = a->cy && direct->description.cell == UCUDNN_RNN_LSTM;
    size_t counts[3] = {direct->y_count, a->hy ? direct->state_count : 0, has_c ? direct->state_count : 0};
    for (int i = 0; i < 3; i++) {
        double distance = 0, variance = 0;
        for (size_t k = 0; k < counts[i]; k++) {
            Rounded expected = direct->expected[i][k];
            double off = value_at(memory[i], direct->description.dataType, k) - expected.value;
            distance += off * off, variance += expected.variance;
        }
        deviations[i] = distance == 0 ? 0 : sqrt(distance / variance);
    }
}

void direct_leave(Direct *direct) {
    Guarded *memory[] = {&direct->x, &direct->y, &direct->hx, &direct->hy, &direct->cx, &direct->cy};
    for (int i = 0; i < 6; i++) guarded_free(memory[i]);
    for (int i = 0; i < 3; i++) free(direct->expected[i]);
}

void direct_close(Direct *direct) {
    RUN_OK(ucudnnDestroyRnn(direct->rnn));
    guarded_free(&direct->weights), guarded_free(&direct->workspace);
}
