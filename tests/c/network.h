/* Networks of convolutions for test programs. Each convolution is a layer of all three directions, and each direction
 * has its own descriptors, data and workspace. */
#ifndef NETWORK_H_
#define NETWORK_H_

#include "kernel.h"

enum { MOST_KERNELS = 48 };

typedef struct {
    Kernel kernel;
    int layer;     /* the convolution */
    int algorithm; /* the algorithm that it runs, and the workspace that was reported */
    size_t told;
    Guarded workspace;
    int borrows; /* the filter is another problem's */
    int by_graph; /* it runs by the graph API, by this plan */
    cudnnBackendDescriptor_t plan;
} Use;

typedef struct {
    int count; /* problems: three a layer, forward, backward data, backward filter */
    Use uses[MOST_KERNELS];
} Network;

/* How a program asks for algorithms. NEVER: not at all; it runs one that needs no workspace. FIXED: it runs a fast one
 * and asks only for its workspace. By the graph API, GET takes the first plan of heuristics, and FIND runs all of
 * them. */
typedef enum { NEVER, FIXED, GET, FIND, FIND_EX } Ask;
Ask ask_named(const char *name);

/* Four layers; the first and the last have equal problems, with `channels` channels. */
void network_open(Network *network, int batch, int channels);
/* Up to eight layers of any shapes, some of them equal. */
void network_random(Network *network, uint64_t seed);
void network_close(Network *network);

/* Makes the network ask and run by the graph API. */
void network_by_graph(Network *network);

/* A network of the same filters and inputs, with its own results and workspaces. */
void network_copy(Network *copy, const Network *network);
void network_forget_copy(Network *copy);

/* The last layer uses the first one's filter from now on; both must have the same problem. */
void network_share_filter(Network *network);
/* Allocates all filter gradients anew, in alternating order. */
void network_renew_gradients(Network *network, int iteration);

/* Asks for a problem's algorithm and allocates the workspace. */
void use_ask(cudnnHandle_t handle, Use *use, Ask ask);
void use_ask_by_call(cudnnHandle_t handle, Use *use, Ask ask);
void use_ask_by_graph(cudnnHandle_t handle, Use *use, Ask ask);
void use_run_by_graph(cudnnHandle_t handle, Use *use);
/* Runs a problem and checks its result and everything around it. */
void use_run(cudnnHandle_t handle, Use *use);

#endif
