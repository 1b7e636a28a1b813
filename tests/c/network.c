#include "network.h"

#include <string.h>

static const Operation directions[3] = {FORWARD, BACKWARD_DATA, BACKWARD_FILTER};

Ask ask_named(const char *name) {
    static const char *const names[] = {"never", "fixed", "get", "find", "findex"};
    for (int i = 0; i < 5; i++)
        if (strcmp(names[i], name) == 0) return (Ask)i;
    REQUIRE(0, "ask: never, fixed, get, find or findex, not %s", name);
    return NEVER;
}

/* ---- networks ---- */

/* `seed` determines the data: layers of equal problems get equal data. */
static void add_layer(Network *network, Shape shape, uint64_t seed) {
    REQUIRE(network->count + 3 <= MOST_KERNELS, "too many layers");
    for (int i = 0; i < 3; i++) {
        Use *use = &network->uses[network->count];
        memset(use, 0, sizeof *use);
        use->layer = network->count++ / 3;
        shape.operation = directions[i];
        Random random = {seed * 3 + (uint64_t)i};
        kernel_open(&use->kernel, &shape, &random);
        use->workspace = guarded_new(0);
    }
}

void network_open(Network *network, int batch, int channels) {
    network->count = 0;
    Shape deep = shape_square(FORWARD, batch, channels, 8, channels, 3, 1), wide = shape_square(FORWARD, batch, 4, 14, 5, 5, 2);
    Shape pointwise = shape_square(FORWARD, batch, 8, 10, 8, 1, 0);
    add_layer(network, deep, 1);
    add_layer(network, wide, 2);
    add_layer(network, pointwise, 3);
    add_layer(network, deep, 1);
}

static Shape random_shape(Random *random) {
    static const int filters[] = {1, 3, 3, 5};
    int groups = 1 + random_below(random, 5) / 4, filter = filters[random_below(random, 4)];
    int channels = 1 + random_below(random, 6), outputs = 1 + random_below(random, 6);
    Shape shape = shape_square(FORWARD, 1 + random_below(random, 20), channels, 5 + random_below(random, 8),
                               outputs * groups, filter, random_below(random, filter));
    shape.x[1] = channels * groups;
    shape.groups = groups;
    shape.type = random_below(random, 4) ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF;
    shape.flip = random_below(random, 2);
    for (int i = 1; i < 3; i++) {
        shape.stride[i] = 1 + random_below(random, 4) / 3;
        shape.dilation[i] = 1 + random_below(random, 6) / 5;
    }
    shape.beta = random_below(random, 4) ? 0 : 0.5;
    if (!shape_output(&shape)) return random_shape(random);
    shape_layout(&shape, random_below(random, 4));
    return shape;
}

void network_random(Network *network, uint64_t seed) {
    network->count = 0;
    Random random = {seed};
    Shape shapes[8];
    int layers = 1 + random_below(&random, 8);
    for (int i = 0; i < layers; i++) {
        int same = i > 0 && random_below(&random, 3) == 0 ? random_below(&random, i) : i;
        shapes[i] = same < i ? shapes[same] : random_shape(&random);
        add_layer(network, shapes[i], random_bits(&random) >> 8);
    }
}

void network_by_graph(Network *network) {
    for (int i = 0; i < network->count; i++) network->uses[i].by_graph = 1;
}

void network_close(Network *network) {
    for (int i = 0; i < network->count; i++) {
        Use *use = &network->uses[i];
        if (use->borrows) use->kernel.w = guarded_new(0);
        if (use->plan) CALL(cudnnBackendDestroyDescriptor(use->plan));
        kernel_close(&use->kernel);
        guarded_free(&use->workspace);
    }
}

static Guarded *result_of(Kernel *kernel) {
    Guarded *results[3] = {&kernel->y, &kernel->x, &kernel->w};
    return results[kernel->shape.operation];
}

void network_copy(Network *copy, const Network *network) {
    *copy = *network;
    for (int i = 0; i < copy->count; i++) {
        Guarded *result = result_of(&copy->uses[i].kernel);
        *result = guarded_new(result->bytes);
        copy->uses[i].workspace = guarded_new(copy->uses[i].told);
        copy->uses[i].plan = NULL;
    }
}

void network_forget_copy(Network *copy) {
    for (int i = 0; i < copy->count; i++) {
        guarded_free(result_of(&copy->uses[i].kernel));
        guarded_free(&copy->uses[i].workspace);
        if (copy->uses[i].plan) CALL(cudnnBackendDestroyDescriptor(copy->uses[i].plan));
    }
}

void network_share_filter(Network *network) {
    for (int i = 0; i < 2; i++) { /* forward and backward data read the filter */
        Use *first = &network->uses[i], *last = &network->uses[network->count - 3 + i];
        REQUIRE(memcmp(&first->kernel.shape, &last->kernel.shape, sizeof(Shape)) == 0, "other kernels");
        guarded_free(&last->kernel.w);
        last->kernel.w = first->kernel.w;
        last->borrows = 1;
    }
}

void network_renew_gradients(Network *network, int iteration) {
    Guarded old[MOST_KERNELS];
    int count = 0;
    for (int i = 0; i < network->count; i++) {
        Kernel *kernel = &network->uses[iteration % 2 ? network->count - 1 - i : i].kernel;
        if (kernel->shape.operation != BACKWARD_FILTER) continue;
        old[count++] = kernel->w;
        kernel->w = guarded_new(kernel->w.bytes);
    }
    /* Freed only now, so that no allocation gets an old address again. */
    while (count > 0) guarded_free(&old[--count]);
}

/* ---- one problem ---- */

void use_ask(cudnnHandle_t handle, Use *use, Ask ask) {
    if (use->by_graph) use_ask_by_graph(handle, use, ask);
    else use_ask_by_call(handle, use, ask);
    guarded_free(&use->workspace);
    use->workspace = guarded_new(use->told);
}

void use_run(cudnnHandle_t handle, Use *use) {
    if (use->by_graph) use_run_by_graph(handle, use);
    else CALL(kernel_run(handle, &use->kernel, use->algorithm, &use->workspace));
    guarded_check(&use->workspace, "the workspace");
    double error = kernel_error(&use->kernel);
    char text[512];
    shape_print(&use->kernel.shape, text, sizeof text);
    REQUIRE(error <= kernel_tolerance(&use->kernel), "layer %d, %s: off by %g", use->layer, text, error);
}
