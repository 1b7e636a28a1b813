/* no_memory.c makes the memory small. Graphs and batches that do not fit get a status of their own; nothing is made. */
#include <string.h>

#include "dynamic.h"

enum { VERTICES_OF_ALL = 40000 };

static void refused(cudnnStatus_t status, const char *text, const void *made) {
    char why[512] = "";
    ucudnnGetVertexNetErrorString(why, sizeof why);
    REQUIRE(status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED && strcmp(why, text) == 0, "%d, \"%s\"",
            (int)status, why);
    REQUIRE(!made, "a handle was written");
}

int main(void) {
    static long long first_vertex[2] = {0, VERTICES_OF_ALL}, first_child[VERTICES_OF_ALL + 1];
    static Net net;
    ucudnnGraphsDescription_t description = {1, first_vertex, first_child, NULL, NULL, NULL};
    ucudnnVertexNet_t handle;
    ucudnnGraphs_t graphs = NULL;
    ucudnnGraphBatch_t batch = NULL;
    refused(ucudnnCreateGraphs(&graphs, &description), "no memory for 200000 numbers of the graphs", graphs);
    net_tree_lstm(&net, 4);
    net.description.maxVertices = 1 << 24;
    DYNAMIC_OK(ucudnnCreateVertexNet(&handle, &net.description));
    refused(ucudnnCreateGraphBatch(&batch, handle), "no memory for 16777217 numbers of a batch", batch);
    DYNAMIC_OK(ucudnnDestroyVertexNet(handle));
    printf("ended\n");
    return 0;
}
