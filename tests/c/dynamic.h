/* Vertex nets for test programs: random nets and graphs, the arrays of a run between canaries, and the expected results
 * in double precision, vertex by vertex. */
#ifndef DYNAMIC_H_
#define DYNAMIC_H_

#include <ucudnn.h>

#include "kernel.h"

enum { FUNCTIONS = 4, OPERATIONS = 200, NAMED = 8 /* states, parameters, inputs and outputs at most */ };

/* A net with the arrays of its description. */
typedef struct {
    ucudnnVertexNetDescription_t description;
    int states[NAMED], pulls[NAMED], pushes[NAMED], parameters[NAMED][2];
    ucudnnVertexFunction_t functions[FUNCTIONS];
    ucudnnVertexOperation_t operations[FUNCTIONS][OPERATIONS];
} Net;

enum { GRAPHS = 12, VERTICES = 200, SLOTS = 800 };

/* Graphs with the arrays of their description. */
typedef struct {
    ucudnnGraphsDescription_t description;
    long long first_vertex[GRAPHS + 1], first_child[VERTICES + 1];
    int children[SLOTS], rows[VERTICES];
    unsigned char kinds[VERTICES];
} Trees;

/* Lets the description point to the net's own arrays. A copied net needs it too. */
void net_join(Net *net);
void trees_join(Trees *trees);
/* Adds an operation to a function, and returns the number of its value. */
int net_add(Net *net, int function, ucudnnVertexOp_t op, int x, int y, long long m, long long n, double c);

/* A Tree-LSTM of one state pair, for 0 and 2 slots: rows of numbers at all vertices, 3 scores at all. */
void net_tree_lstm(Net *net, int hidden);
/* `count` complete binary trees with `levels` levels each. */
void trees_complete(Trees *trees, int count, int levels);

/* A net of random operations that is accepted. */
void net_random(Net *net, cudnnDataType_t type, Random *random);
/* Graphs that the net's functions take: trees or DAGs, in any order of vertices. */
void trees_random(Trees *trees, const Net *net, Random *random);

/* The function of a vertex, by its number among all; -1 for none. */
int trees_function(const Net *net, const Trees *trees, long long vertex);

enum { PARAMETER, PULL, PUSH_GRADIENT, PUSH, PULL_GRADIENT, PARAMETER_GRADIENT, SORTS };

/* A batch of a net, with the arrays of its runs. */
typedef struct {
    const Net *net;
    const Trees *trees;
    ucudnnVertexNet_t handle;
    ucudnnGraphs_t graphs;
    ucudnnGraphBatch_t batch;
    ucudnnGraphBatchSizes_t sizes;
    long long ids[GRAPHS], count;
    Guarded arrays[SORTS][NAMED], labels, workspace, reserve;
    void *pointers[SORTS][NAMED];
    unsigned char *copies[SORTS][NAMED]; /* the first contents of parameters and inputs */
    float loss;
    ucudnnVertexNetArguments_t arguments;
    double *expected[SORTS][NAMED];   /* of runs forward and backward; of parameters, after a step */
    double *magnitudes[SORTS][NAMED]; /* the sums of the magnitudes of their terms */
    double expected_loss;
} Case;

/* Ends the program with the library's reason if a call has failed. */
#define DYNAMIC_OK(call) dynamic_ok(call, #call)
void dynamic_ok(cudnnStatus_t status, const char *call);

/* Makes net, graphs, a batch of ids, and arrays with random numbers; results are poisoned. */
void case_open(Case *c, const Net *net, const Trees *trees, const long long *ids, long long count, Random *random);
void case_close(Case *c);
/* The arrays alone, of a case with a net, graphs, and a batch of ids. */
void case_bring(Case *c, Random *random);
void case_leave(Case *c);
/* The elements of an array. */
size_t case_elements(const Case *c, int sort, int number);
/* Fills results, workspace and reserve with NaN. */
void case_poison(Case *c);
/* Requires that no canary, parameter or input has changed; with `untouched`, no result either. */
void case_check(const Case *c, int untouched);
/* Computes the expected results of all runs. */
void case_expect(Case *c);
/* The largest error of all arrays of a sort: 1 is one rounding to the type, and one of each number on the way. NaN
 * where poison is left. */
double case_error(const Case *c, int sort);
/* The largest error of the parameters and the loss after a step. */
double case_step_error(const Case *c);

#endif
