/* The graph (backend) API for test programs: the problems of kernel.h as operation graphs, and the descriptors to run
 * them. A function that does not return a status ends the program on any failure. */
#ifndef GRAPH_H_
#define GRAPH_H_

#include "kernel.h"

typedef cudnnBackendDescriptor_t Backend;

Backend backend_new(cudnnBackendDescriptorType_t kind);
void backend_set(Backend descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                 const void *elements);
void backend_set_descriptor(Backend descriptor, cudnnBackendAttributeName_t name, Backend value);
void backend_finalize(Backend descriptor);
void backend_free(Backend descriptor);

/* The ids of a problem's tensors in variant packs. */
enum { X_ID = 'x', W_ID = 'w', Y_ID = 'y', Z_ID = 'z', BIAS_ID = 'b', FIRST_VIRTUAL_ID = 1000 };

/* A problem's operation graph: its convolution and, for a fused problem, the operations that follow, with virtual
 * tensors between. Every tensor declares `alignment` bytes. Destroys the descriptors that the graph is made of. */
Backend graph_new(cudnnHandle_t handle, const Kernel *kernel, int64_t alignment);

enum { MOST_CONFIGURATIONS = 64 };
/* The candidates that heuristics return for a graph, best first. Returns their number. */
int graph_configurations(Backend graph, cudnnBackendHeurMode_t mode, Backend configurations[MOST_CONFIGURATIONS]);

/* Makes and finalizes a plan. Returns the first status that is not success. */
cudnnStatus_t plan_finalize(cudnnHandle_t handle, Backend configuration, Backend *plan);
/* Makes a finalized plan. */
Backend plan_new(cudnnHandle_t handle, Backend configuration);
size_t plan_workspace(Backend plan);

/* A variant pack of a problem's memory. */
Backend pack_new(const Kernel *kernel, void *workspace);

/* Executes on the result's previous contents. */
cudnnStatus_t graph_run(cudnnHandle_t handle, Backend plan, Backend pack, Kernel *kernel);

#endif
