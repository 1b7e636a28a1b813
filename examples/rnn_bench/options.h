/* The command line. */
#ifndef RNN_BENCH_OPTIONS_H
#define RNN_BENCH_OPTIONS_H

struct options {
    int steps, rounds, samples;
    int repeat;     /* 0: time; else so many runs of ours, compared bit by bit */
    double settle;  /* seconds that ours may take to settle */
    double seconds; /* after which no network is begun */
    char **networks;
    int network_count;
};

/* Reads the command line; on a mistake prints what is accepted and exits with 2. */
struct options options_read(int argc, char **argv);

#endif
