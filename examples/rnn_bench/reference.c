#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"

/* The most multiplications of rows with one weight matrix in a step: more would take too long. */
enum { MOST_WORK = 1 << 20 };

static double *doubles(size_t count) { return host_memory(count * sizeof(double)); }

static double *widened(cudnnDataType_t type, const void *numbers, size_t count) {
    double *wide = doubles(count);
    for (size_t i = 0; i < count; ++i) wide[i] = number_read(type, numbers, i);
    return wide;
}

static double dot(const double *a, const double *b, size_t count) {
    double sums[4] = {0, 0, 0, 0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
    for (; i < count; ++i) sums[0] += a[i] * b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

static double logistic(double value) { return 1 / (1 + exp(-value)); }

/* A unit's new h. w[g] = W_g x + b_Wg and r[g] = R_g h + b_Rg for its gates in cuDNN's order: LSTM's input, forget,
 * new and output gate, GRU's reset, update and new gate. */
static double step(cudnnRNNMode_t cell, const double *w, const double *r, double h, double *c) {
    switch (cell) {
        case CUDNN_LSTM:
            *c = logistic(w[1] + r[1]) * *c + logistic(w[0] + r[0]) * tanh(w[2] + r[2]);
            return logistic(w[3] + r[3]) * tanh(*c);
        case CUDNN_GRU: {
            double update = logistic(w[1] + r[1]);
            return (1 - update) * tanh(w[2] + logistic(w[0] + r[0]) * r[2]) + update * h;
        }
        case CUDNN_RNN_TANH: return tanh(w[0] + r[0]);
        default: return fmax(w[0] + r[0], 0);
    }
}

struct reference reference_new(const struct data *data) {
    const struct network *n = &data->network;
    size_t hidden = (size_t)n->hidden, gates = (size_t)network_gates(n), work = hidden * hidden;
    struct reference f = {0};
    f.rows = (int)(MOST_WORK / work);
    if (f.rows > n->batch) f.rows = n->batch;
    if (f.rows == 0) return f;
    size_t rows = (size_t)f.rows, all = (size_t)n->batch;
    f.row = host_memory(rows * sizeof *f.row);
    for (size_t i = 0; i < rows; ++i) f.row[i] = rows == 1 ? n->batch - 1 : (int)(i * (all - 1) / (rows - 1));
    double *x = widened(n->type, data->x_host, (size_t)n->steps * all * hidden);
    double *weights = widened(n->type, data->weights_host, 2 * gates * (hidden + 1) * hidden);
    const double *biases = weights + 2 * gates * work;
    double *h0 = widened(n->type, data->hx_host, all * hidden), *c0 = widened(n->type, data->cx_host, all * hidden);
    double *h = doubles(rows * hidden), *c = doubles(rows * hidden);
    f.y = doubles((size_t)n->steps * rows * hidden);
    for (size_t i = 0; i < rows; ++i) {
        memcpy(h + i * hidden, h0 + (size_t)f.row[i] * hidden, hidden * sizeof *h);
        memcpy(c + i * hidden, c0 + (size_t)f.row[i] * hidden, hidden * sizeof *c);
    }
    for (size_t t = 0; t < (size_t)n->steps; ++t) {
        double *next = f.y + t * rows * hidden;
        for (size_t unit = 0; unit < hidden; ++unit)
            for (size_t i = 0; i < rows; ++i) {
                double w[4], r[4];
                for (size_t g = 0; g < gates; ++g) {
                    const double *row = weights + (g * hidden + unit) * hidden;
                    w[g] = dot(row, x + (t * all + (size_t)f.row[i]) * hidden, hidden) + biases[g * hidden + unit];
                    r[g] = dot(row + gates * work, h + i * hidden, hidden) + biases[(gates + g) * hidden + unit];
                }
                next[i * hidden + unit] = step(n->cell, w, r, h[i * hidden + unit], &c[i * hidden + unit]);
            }
        memcpy(h, next, rows * hidden * sizeof *h);
    }
    f.hy = h, f.cy = c;
    free(x), free(weights), free(h0), free(c0);
    return f;
}

/* Adds |result - expected|^2 and |expected|^2 of a row. */
static void compare(const double *expected, cudnnDataType_t type, const void *results, size_t first, size_t count,
                    double *distance, double *norm) {
    for (size_t i = 0; i < count; ++i) {
        double off = number_read(type, results, first + i) - expected[i];
        *distance += off * off, *norm += expected[i] * expected[i];
    }
}

double reference_error(const struct reference *reference, const struct data *data, const void *results) {
    const struct network *n = &data->network;
    size_t hidden = (size_t)n->hidden, all = (size_t)n->batch, rows = (size_t)reference->rows;
    size_t states = (size_t)n->steps * all * hidden;
    double distances[3] = {0, 0, 0}, norms[3] = {0, 0, 0}, worst = 0;
    for (size_t i = 0; i < rows; ++i) {
        size_t row = (size_t)reference->row[i];
        for (size_t t = 0; t < (size_t)n->steps; ++t)
            compare(reference->y + (t * rows + i) * hidden, n->type, results, (t * all + row) * hidden, hidden,
                    &distances[0], &norms[0]);
        compare(reference->hy + i * hidden, n->type, results, states + row * hidden, hidden, &distances[1], &norms[1]);
        if (n->cell == CUDNN_LSTM)
            compare(reference->cy + i * hidden, n->type, results, states + (all + row) * hidden, hidden, &distances[2],
                    &norms[2]);
    }
    for (int k = 0; k < 3; ++k) {
        double error = norms[k] > 0 ? sqrt(distances[k] / norms[k]) : 0;
        if (!(error <= worst)) worst = error; /* NaN stays */
        if (isnan(worst)) break;
    }
    return worst;
}

void reference_free(struct reference *reference) {
    free(reference->row), free(reference->y), free(reference->hy), free(reference->cy);
    memset(reference, 0, sizeof *reference);
}
