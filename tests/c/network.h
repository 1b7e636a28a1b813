/* Networks of convolutions for test programs: each convolution is a layer of all three directions, with
 * descriptors, data and a workspace of its own. */
#ifndef NETWORK_H_
#define NETWORK_H_

#include "kernel.h"

enum { MOST_KERNELS = 48 };

typedef struct {
    Kernel kernel;
    int layer;     /* the convolution that it is a direction of */
    int algorithm; /* that it runs by, and what the program was told that it needs */
    size_t told;
    Guarded workspace;
    int borrows; /* the filter is another kernel's */
    int by_graph; /* it runs by the graph API, by this plan */
    cudnnBackendDescriptor_t plan;
} Use;

typedef struct {
    int count; /* kernels: three a layer, forward, backward data, backward filter */
    Use uses[MOST_KERNELS];
} Network;

/* How a program asks for algorithms. NEVER: it does not, and names one that needs no workspace; FIXED: it names
 * a fast one and asks for its workspace alone. By the graph API, GET takes the plan that heuristics offer first, and
 * FIND runs all of them. */
typedef enum { NEVER, FIXED, GET, FIND, FIND_EX } Ask;
Ask ask_named(const char *name);

/* Four layers, the first and the last of equal kernels. */
void network_open(Network *network, int batch);
/* Up to eight layers of any shapes, some of them equal. */
void network_random(Network *network, uint64_t seed);
void network_close(Network *network);

/* It asks and runs by the graph API. */
void network_by_graph(Network *network);

/* A network of the same filters and inputs, with results and workspaces of its own. */
void network_copy(Network *copy, const Network *network);
void network_forget_copy(Network *copy);

/* The last layer's filter becomes the first's, which must be of the same kernel. */
void network_share_filter(Network *network);
/* Allocates all filter gradients anew, each time in another order. */
void network_renew_gradients(Network *network, int iteration);

/* Asks for a kernel's algorithm and allocates the workspace. */
void use_ask(cudnnHandle_t handle, Use *use, Ask ask);
void use_ask_by_call(cudnnHandle_t handle, Use *use, Ask ask);
void use_ask_by_graph(cudnnHandle_t handle, Use *use, Ask ask);
void use_run_by_graph(cudnnHandle_t handle, Use *use);
/* Runs a kernel and checks its result and everything around it. */
void use_run(cudnnHandle_t handle, Use *use);

#endif
