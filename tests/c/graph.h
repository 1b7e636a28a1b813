/* The graph (backend) API for test programs: kernels of kernel.h as operation graphs, with all that it takes to run
 * them. Whatever is not said to give a status must succeed. */
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

/* What variant packs know a kernel's tensors by. */
enum { X_ID = 'x', W_ID = 'w', Y_ID = 'y', Z_ID = 'z', BIAS_ID = 'b', FIRST_VIRTUAL_ID = 1000 };

/* A kernel's operation graph: its convolution, and of a fused one what follows, with virtual tensors between. All tensors
 * are declared as aligned to `alignment` bytes. The descriptors that it is made of are destroyed before it returns. */
Backend graph_new(cudnnHandle_t handle, const Kernel *kernel, int64_t alignment);

enum { MOST_CONFIGURATIONS = 64 };
/* What heuristics offer for a graph, best first; returns how many there are. */
int graph_configurations(Backend graph, cudnnBackendHeurMode_t mode, Backend configurations[MOST_CONFIGURATIONS]);

/* Makes a plan and finalizes it; the first status that is no success. */
cudnnStatus_t plan_finalize(cudnnHandle_t handle, Backend configuration, Backend *plan);
/* A finalized plan. */
Backend plan_new(cudnnHandle_t handle, Backend configuration);
size_t plan_workspace(Backend plan);

/* A variant pack of a kernel's memory. */
Backend pack_new(const Kernel *kernel, void *workspace);

/* Executes on what the result held before. */
cudnnStatus_t graph_run(cudnnHandle_t handle, Backend plan, Backend pack, Kernel *kernel);

#endif
