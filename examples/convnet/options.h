/* The command line. */
#ifndef CONVNET_OPTIONS_H
#define CONVNET_OPTIONS_H

#include <cudnn.h>
#include <stddef.h>

#include "convolution.h"

struct options {
    const char *network; /* path of the CSV */
    const char *layers;  /* comma-separated names, or NULL for all */
    int batch;           /* 0 for the file's batch */
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    cudnnMathType_t math;
    size_t limit; /* bytes of workspace for a kernel, or NO_LIMIT */
    enum query query;
    int shared_workspace; /* one workspace for all kernels, as large as the largest needs */
    int iterations, warmup;
    int skip_first_backward_data;
    int turns; /* before each iteration, wait for a line on standard input */
    unsigned long long seed;
    const char *dump; /* directory, or NULL */
    const char *json; /* path, or NULL */
    /* The words on the command line, for the report. */
    const char *type_name, *format_name, *math_name, *query_name;
};

#define NO_LIMIT ((size_t)-1)

/* Reads the command line; on a mistake prints the usage and exits with 2. */
struct options options_read(int argc, char **argv);

#endif
