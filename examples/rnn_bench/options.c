#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

static const char USAGE[] =
    "usage: rnn_bench [options] NETWORK...\n"
    "\n"
    "Times cudnnRNNForward in inference: cuDNN's four algorithms and, with libucudnn.so preloaded, ours, in\n"
    "turns in one process, on a stream and as a CUDA graph; a line of JSON for each network. A NETWORK is\n"
    "CELL/TYPE/HIDDEN/BATCH (lstm, gru, tanh or relu; float, tf32, half or bfloat16): one layer, inputs as\n"
    "wide as the hidden state. UCUDNN_REPORT must name a file: it tells when ours has settled, and on what.\n"
    "\n"
    "  --steps N          time steps                                                    [100]\n"
    "  --rounds N         turns of each, forwards and backwards alternately             [5]\n"
    "  --samples N        the most runs of a turn; the median counts                    [30]\n"
    "  --settle SECONDS   the most that ours may take to settle                         [20]\n"
    "  --seconds SECONDS  no network is begun after this                                [as long as it takes]\n"
    "  --repeat N         instead of timing, run ours N times once it has settled, and compare their bits\n";

static void refuse(const char *option, const char *value, const char *accepted) {
    fprintf(stderr, "rnn_bench: %s %s: expected %s\n", option, value ? value : "(nothing)", accepted);
    exit(2);
}

static double read_number(const char *option, const char *text) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number > 0 && number <= 1e9)) refuse(option, text, "a number above 0");
    return number;
}

static int read_whole(const char *option, const char *text) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > INT_MAX) refuse(option, text, "a whole number above 0");
    return (int)number;
}

struct options options_read(int argc, char **argv) {
    struct options o = {.steps = 100, .rounds = 5, .samples = 30, .settle = 20, .seconds = 1e9};
    int at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); ++at) {
        const char *option = argv[at];
        if (!strcmp(option, "--help")) {
            fputs(USAGE, stdout);
            exit(0);
        }
        const char *value = ++at < argc ? argv[at] : NULL;
        if (!value) refuse(option, NULL, "a known option with its value (see --help)");
        if (!strcmp(option, "--steps"))
            o.steps = read_whole(option, value);
        else if (!strcmp(option, "--rounds"))
            o.rounds = read_whole(option, value);
        else if (!strcmp(option, "--samples"))
            o.samples = read_whole(option, value);
        else if (!strcmp(option, "--repeat"))
            o.repeat = read_whole(option, value);
        else if (!strcmp(option, "--settle"))
            o.settle = read_number(option, value);
        else if (!strcmp(option, "--seconds"))
            o.seconds = read_number(option, value);
        else
            refuse(option, value, "a known option (see --help)");
    }
    o.networks = argv + at;
    o.network_count = argc - at;
    if (o.network_count == 0) {
        fputs(USAGE, stderr);
        exit(2);
    }
    for (int i = 0; i < o.network_count; ++i) network_read(o.networks[i], o.steps);
    return o;
}
