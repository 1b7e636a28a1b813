#include "network.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a network file, in order. `network` and `layer` are names, the others integers. */
static const struct {
    const char *name;
    int least;
} COLUMNS[] = {
    {"network", 0}, {"layer", 0},    {"count", 1},    {"n", 1},          {"c", 1},          {"h", 1},
    {"w", 1},       {"k", 1},        {"r", 1},        {"s", 1},          {"pad_h", 0},      {"pad_w", 0},
    {"stride_h", 1}, {"stride_w", 1}, {"dilation_h", 1}, {"dilation_w", 1}, {"groups", 1},
};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS, MOST_REPEATS = 10000 };

static const char *file_name;
static int line_number;

static int complain(const char *column, const char *what, const char *text) {
    fprintf(stderr, "convnet: %s:%d: %s: %s%s%s\n", file_name, line_number, column, what, text ? ", not " : "",
            text ? text : "");
    return -1;
}

/* Splits `line` at its commas, in place; returns -1 unless there are as many fields as columns. */
static int split(char *line, char *fields[COLUMN_COUNT]) {
    line[strcspn(line, "\r\n")] = '\0';
    int count = 0;
    for (char *at = line; at; ++count) {
        char *comma = strchr(at, ',');
        if (comma) *comma = '\0';
        if (count < COLUMN_COUNT) fields[count] = at;
        at = comma ? comma + 1 : NULL;
    }
    if (count == COLUMN_COUNT) return 0;
    char text[64];
    snprintf(text, sizeof text, "%d", count);
    return complain("row", "a row has 17 fields", text);
}

/* Names become parts of file names and of JSON, so only characters that are safe in both are allowed. */
static int read_name(const char *column, const char *text, char name[NAME_LENGTH]) {
    static const char SAFE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(text);
    /* Leaves space for the number of a repeated layer. */
    if (length == 0 || length > NAME_LENGTH - 8 || strspn(text, SAFE) != length)
        return complain(column, "expected a name of up to 56 letters, digits, '.', '_' and '-'", text);
    memcpy(name, text, length + 1);
    return 0;
}

static int read_integer(int column, const char *text, int *value) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < COLUMNS[column].least || number > INT_MAX)
        return complain(COLUMNS[column].name, COLUMNS[column].least ? "expected a positive integer"
                                                                     : "expected an integer of 0 or more", text);
    *value = (int)number;
    return 0;
}

/* Whether the comma-separated list `only` contains `name`. */
static int listed(const char *only, const char *name) {
    size_t length = strlen(name);
    for (const char *at = only; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strcspn(at, ",") == length && !strncmp(at, name, length)) return 1;
    return 0;
}

static int check_shape(const struct layer_shape *l) {
    if (l->c % l->groups || l->k % l->groups) return complain("groups", "must divide c and k", NULL);
    if ((long)(l->r - 1) * l->dilation_h + 1 > l->h + 2L * l->pad_h ||
        (long)(l->s - 1) * l->dilation_w + 1 > l->w + 2L * l->pad_w)
        return complain("r, s", "the filter is larger than the padded image", NULL);
    return 0;
}

static int read_row(char *line, int batch, const char *only, struct network *network) {
    char *fields[COLUMN_COUNT];
    char network_name[NAME_LENGTH];
    struct layer_shape l;
    int count;
    int *const integers[COLUMN_COUNT] = {
        NULL,     NULL,     &count,      &l.n,        &l.c,          &l.h,          &l.w,      &l.k, &l.r, &l.s,
        &l.pad_h, &l.pad_w, &l.stride_h, &l.stride_w, &l.dilation_h, &l.dilation_w, &l.groups,
    };
    if (split(line, fields) || read_name("network", fields[0], network_name) || read_name("layer", fields[1], l.name))
        return -1;
    for (int column = 2; column < COLUMN_COUNT; ++column)
        if (read_integer(column, fields[column], integers[column])) return -1;
    if (check_shape(&l)) return -1;
    if (count > MOST_REPEATS) return complain("count", "at most 10000", fields[2]);
    if (network->name[0] && strcmp(network->name, network_name))
        return complain("network", "one file holds one network", network_name);
    strcpy(network->name, network_name);
    if (batch > 0) l.n = batch;
    if (only && !listed(only, l.name)) return 0;

    struct layer_shape *grown = realloc(network->layers, (network->layer_count + (size_t)count) * sizeof *grown);
    if (!grown) return complain("row", "out of memory", NULL);
    network->layers = grown;
    for (int copy = 1; copy <= count; ++copy) {
        struct layer_shape *added = &grown[network->layer_count++];
        *added = l;
        if (count > 1) sprintf(added->name + strlen(added->name), ".%d", copy);
    }
    return 0;
}

static int check_header(char *line) {
    char *fields[COLUMN_COUNT];
    if (split(line, fields)) return -1;
    for (int column = 0; column < COLUMN_COUNT; ++column)
        if (strcmp(fields[column], COLUMNS[column].name))
            return complain(COLUMNS[column].name, "the header names this column here", fields[column]);
    return 0;
}

int network_read(const char *path, int batch, const char *only, struct network *network) {
    memset(network, 0, sizeof *network);
    file_name = path;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "convnet: %s: %s\n", path, strerror(errno));
        return -1;
    }
    char line[1024];
    int failed = 0;
    for (line_number = 1; !failed && fgets(line, sizeof line, file); ++line_number) {
        if (!strchr(line, '\n') && !feof(file))
            failed = complain("row", "longer than 1023 characters", NULL);
        else if (line_number == 1)
            failed = check_header(line);
        else if (line[strspn(line, " \r\n")])
            failed = read_row(line, batch, only, network);
    }
    if (!failed && ferror(file)) failed = complain("row", "cannot be read", NULL);
    if (!failed && network->layer_count == 0) {
        fprintf(stderr, "convnet: %s: %s%s\n", path, only ? "no layer is called " : "no layers", only ? only : "");
        failed = -1;
    }
    fclose(file);
    if (failed) network_free(network);
    return failed;
}

void network_free(struct network *network) {
    free(network->layers);
    memset(network, 0, sizeof *network);
}
