#include "network.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char NETWORK_FORM[] =
    "CELL/TYPE/HIDDEN/BATCH, with lstm, gru, tanh or relu, and float, tf32, half or bfloat16, as lstm/half/256/10";

static const struct {
    const char *name;
    cudnnRNNMode_t cell;
    int gates;
} CELLS[] = {{"lstm", CUDNN_LSTM, 4}, {"gru", CUDNN_GRU, 3}, {"tanh", CUDNN_RNN_TANH, 1}, {"relu", CUDNN_RNN_RELU, 1}};

/* Math types as PyTorch sets them. */
static const struct {
    const char *name;
    cudnnDataType_t type;
    cudnnMathType_t math;
} TYPES[] = {{"float", CUDNN_DATA_FLOAT, CUDNN_FMA_MATH},
             {"tf32", CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH},
             {"half", CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH},
             {"bfloat16", CUDNN_DATA_BFLOAT16, CUDNN_DEFAULT_MATH}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void refuse(const char *text) {
    fprintf(stderr, "rnn_bench: '%s' is no network: expected %s\n", text, NETWORK_FORM);
    exit(2);
}

/* The word at *at, which ends before the next '/'; moves *at behind that. */
static int word(const char **at, const char *name) {
    size_t length = strcspn(*at, "/");
    if ((*at)[length] != '/' || strlen(name) != length || strncmp(*at, name, length)) return 0;
    *at += length + 1;
    return 1;
}

/* The number at `at`, if it ends before `end`; else 0. */
static int number(const char *at, char end, const char **after) {
    char *behind;
    long value = *at >= '0' && *at <= '9' ? strtol(at, &behind, 10) : 0;
    if (value < 1 || value > INT_MAX || *behind != end) return 0;
    *after = behind + 1;
    return (int)value;
}

struct network network_read(const char *text, int steps) {
    struct network n = {.steps = steps};
    const char *at = text;
    for (size_t i = 0; i < COUNT(CELLS) && !n.cell_name; ++i)
        if (word(&at, CELLS[i].name)) n.cell = CELLS[i].cell, n.cell_name = CELLS[i].name;
    for (size_t i = 0; i < COUNT(TYPES) && n.cell_name && !n.type_name; ++i)
        if (word(&at, TYPES[i].name)) n.type = TYPES[i].type, n.math = TYPES[i].math, n.type_name = TYPES[i].name;
    if (!n.type_name || !(n.hidden = number(at, '/', &at)) || !(n.batch = number(at, '\0', &at))) refuse(text);
    return n;
}

int network_gates(const struct network *network) {
    for (size_t i = 0; i < COUNT(CELLS); ++i)
        if (CELLS[i].cell == network->cell) return CELLS[i].gates;
    return 0;
}
