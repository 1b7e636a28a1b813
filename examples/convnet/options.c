#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: convnet [options] network.csv\n"
    "\n"
    "Trains the convolutions of a network: asks cuDNN for algorithms, allocates what they need, and runs\n"
    "forward and backward iterations on random data.\n"
    "\n"
    "  --limit BYTES|64MiB|none   workspace a kernel may use             [64MiB]\n"
    "  --query get|find|findex|none\n"
    "                             how algorithms are chosen: cudnnGetConvolution...Algorithm_v7,\n"
    "                             cudnnFindConvolution...Algorithm or ...AlgorithmEx; none: algorithm 1, or 0\n"
    "                             where 1 does not run, with a scratch of the limit   [get]\n"
    "  --workspace per-layer|shared\n"
    "                             a workspace for each kernel, or one for all         [per-layer]\n"
    "  --batch N                  instead of the network's own\n"
    "  --layers conv2,conv3       only these\n"
    "  --type float|half|double   of all tensors                         [float]\n"
    "  --format nchw|nhwc         of all tensors                         [nchw]\n"
    "  --math default|tensor-op|fma\n"
    "                             the convolutions' math type; half runs on tensor cores only by tensor-op, and\n"
    "                             float with all its bits only by fma    [default]\n"
    "  --iterations N             timed; their median is reported        [3]\n"
    "  --warmup N                 iterations before those                [1]\n"
    "  --skip-first-bd            no backward-data for the first layer, whose input needs no gradient\n"
    "  --turns                    wait for a line on standard input before each iteration, and for its end\n"
    "                             after the last, so that several programs can run in turns; print lines\n"
    "                             that begin with 'turn:' meanwhile\n"
    "  --seed N                   of the random data                     [1]\n"
    "  --dump DIR                 write every output to DIR/LAYER.DIRECTION.raw\n"
    "  --json FILE                write the report as JSON too\n";

static void refuse(const char *option, const char *value, const char *accepted) {
    fprintf(stderr, "convnet: %s %s: expected %s\n", option, value ? value : "(nothing)", accepted);
    exit(2);
}

static size_t read_bytes(const char *option, const char *text) {
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    if (!strcmp(text, "none")) return NO_LIMIT;
    char *unit;
    errno = 0;
    unsigned long long number = strtoull(text, &unit, 10);
    for (size_t i = 0; i < sizeof units / sizeof *units; ++i)
        if (!strcmp(unit, units[i].unit) && text[0] >= '0' && text[0] <= '9' && !errno &&
            number <= ((unsigned long long)(size_t)-2 >> units[i].shift))
            return (size_t)number << units[i].shift;
    refuse(option, text, "bytes, as 67108864, 64MiB or 1GiB, or none");
    return 0;
}

static int read_number(const char *option, const char *text, int least) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < least || number > INT_MAX)
        refuse(option, text, least ? "a positive number" : "a number of 0 or more");
    return (int)number;
}

/* The index of `text` among the words of `choices`, which are separated by '|'. */
static int read_choice(const char *option, const char *text, const char *choices) {
    int index = 0;
    for (const char *at = choices;; ++index) {
        size_t length = strcspn(at, "|");
        if (strlen(text) == length && !strncmp(at, text, length)) return index;
        if (!at[length]) refuse(option, text, choices);
        at += length + 1;
    }
}

struct options options_read(int argc, char **argv) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE};
    static const cudnnMathType_t math[] = {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_FMA_MATH};
    static const cudnnTensorFormat_t formats[] = {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC};
    struct options o = {.type = CUDNN_DATA_FLOAT,
                        .format = CUDNN_TENSOR_NCHW,
                        .math = CUDNN_DEFAULT_MATH,
                        .limit = (size_t)64 << 20,
                        .query = QUERY_GET,
                        .iterations = 3,
                        .warmup = 1,
                        .seed = 1,
                        .type_name = "float",
                        .format_name = "nchw",
                        .math_name = "default",
                        .query_name = "get"};
    for (int i = 1; i < argc; ++i) {
        const char *option = argv[i];
        if (!strcmp(option, "--help")) {
            fputs(USAGE, stdout);
            exit(0);
        } else if (!strcmp(option, "--skip-first-bd")) {
            o.skip_first_backward_data = 1;
            continue;
        } else if (!strcmp(option, "--turns")) {
            o.turns = 1;
            continue;
        } else if (strncmp(option, "--", 2)) {
            if (o.network) refuse("network", option, "one network");
            o.network = option;
            continue;
        }
        const char *value = ++i < argc ? argv[i] : NULL;
        if (!value) refuse(option, NULL, "a known option with its value (see --help)");
        if (!strcmp(option, "--limit"))
            o.limit = read_bytes(option, value);
        else if (!strcmp(option, "--query"))
            o.query = (enum query)read_choice(option, o.query_name = value, "get|find|findex|none");
        else if (!strcmp(option, "--workspace"))
            o.shared_workspace = read_choice(option, value, "per-layer|shared");
        else if (!strcmp(option, "--batch"))
            o.batch = read_number(option, value, 1);
        else if (!strcmp(option, "--layers"))
            o.layers = value;
        else if (!strcmp(option, "--type"))
            o.type = types[read_choice(option, o.type_name = value, "float|half|double")];
        else if (!strcmp(option, "--format"))
            o.format = formats[read_choice(option, o.format_name = value, "nchw|nhwc")];
        else if (!strcmp(option, "--math"))
            o.math = math[read_choice(option, o.math_name = value, "default|tensor-op|fma")];
        else if (!strcmp(option, "--iterations"))
            o.iterations = read_number(option, value, 1);
        else if (!strcmp(option, "--warmup"))
            o.warmup = read_number(option, value, 0);
        else if (!strcmp(option, "--seed"))
            o.seed = (unsigned long long)read_number(option, value, 0);
        else if (!strcmp(option, "--dump"))
            o.dump = value;
        else if (!strcmp(option, "--json"))
            o.json = value;
        else
            refuse(option, value, "a known option (see --help)");
    }
    if (!o.network) {
        fputs(USAGE, stderr);
        exit(2);
    }
    if (o.limit == NO_LIMIT && (o.query == QUERY_FINDEX || o.query == QUERY_NONE))
        refuse("--limit", "none", "a size, since this query allocates that much");
    return o;
}
