/* The command line. */
#ifndef RNN_BENCH_OPTIONS_H
#define RNN_BENCH_OPTIONS_H

struct options {
    int steps, rounds, samples;
    int repeat;     /* 0: time; else the number of libucudnn.so's runs to compare bit by bit */
    double settle;  /* seconds that libucudnn.so may take to settle */
    double seconds; /* after which no further network begins */
    char **networks;
    int network_count;
};

/* Reads the command line; on a mistake prints the usage and exits with 2. */
struct options options_read(int argc, char **argv);

#endif
