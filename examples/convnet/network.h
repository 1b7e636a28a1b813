/* Networks as CSV files: one convolution layer a row, `count` equal layers in a row. */
#ifndef CONVNET_NETWORK_H
#define CONVNET_NETWORK_H

#include <stddef.h>

enum { NAME_LENGTH = 64 };

/* A two-dimensional convolution layer: n images of c channels, h by w; k filters, r by s. */
struct layer_shape {
    char name[NAME_LENGTH];
    int n, c, h, w;
    int k, r, s;
    int pad_h, pad_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w;
    int groups;
};

struct network {
    char name[NAME_LENGTH];
    struct layer_shape *layers; /* in the file's order, with repeated layers written out */
    size_t layer_count;
};

/* Reads `path`. `batch` replaces n if it is positive. `only` is a comma-separated list of layers to keep, or NULL for
 * all. A repeated layer `name` becomes name.1, name.2, and so on. On an error, prints one line with the file, the line
 * and the column, and returns -1. The caller frees with network_free. */
int network_read(const char *path, int batch, const char *only, struct network *network);

void network_free(struct network *network);

#endif
