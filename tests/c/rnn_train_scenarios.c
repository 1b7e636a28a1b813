/* Training passes as programs make them: reserves that are cloned, moved, larger than reported or asked for once, other
 * algorithms in backward, several forward calls before backward. Prints a line for each: its name, and the errors of all
 * results against double precision.
 *
 * rnn_train_scenarios results      scenarios that give right results
 * rnn_train_scenarios both         passes of both owners together; prints how many are libucudnn.so's
 * rnn_train_scenarios spoilt       calls that libucudnn.so must answer with NaN: on its own reserves only
 * rnn_train_scenarios unexpected   likewise calls of cuDNN's on reserves of libucudnn.so that nobody expects */
#include <math.h>
#include <string.h>

#include "rnn_train.h"

/* As many forward calls of one owner as libucudnn.so takes to be all. */
enum { MANY = 1024 };

static cudnnHandle_t handle;
static Random randomness = {7};

static void print(const char *name, const Training *t) {
    double errors[RESULTS];
    training_check(t);
    training_errors(t, errors);
    char text[512];
    network_print(&t->rnn.network, text, sizeof text);
    printf("%s: %s", name, text);
    for (int k = 0; k < RESULTS; k++) {
        REQUIRE(isfinite(errors[k]), "%s: %s: %s has poison", name, text, result_names[k]);
        printf("|%.3e", errors[k]);
    }
    puts("");
    fflush(stdout);
}

static void backward(Training *t) {
    CALL(training_data(handle, t));
    CALL(training_weights(handle, t));
}

/* Another place with the same bytes. */
static Guarded copy_of(const Guarded *memory) {
    Guarded copy = guarded_new(memory->bytes);
    memcpy(copy.start, memory->start, memory->bytes);
    return copy;
}

/* Puts a copy in the reserve's place, and overwrites and frees the old one. */
static void move(Training *t) {
    Guarded copy = copy_of(&t->reserve);
    memset(t->reserve.start, 0xff, t->reserve.bytes);
    guarded_free(&t->reserve);
    t->reserve = copy;
}

static void resize(Training *t, size_t bytes) {
    guarded_free(&t->reserve);
    t->reserve = guarded_new(bytes);
    memset(t->reserve.start, 0xff, bytes);
}

static void forward(Training *t) {
    training_seed(handle, t);
    CALL(training_forward(handle, t));
}

static void set_algorithm(const Training *t, cudnnRNNAlgo_t algorithm) {
    const Network *n = &t->rnn.network;
    CALL(cudnnSetRNNDescriptor_v8(t->rnn.descriptor, algorithm, n->cell, n->bias, n->direction, n->input_mode, n->type,
                                  CUDNN_DATA_FLOAT, n->math, n->input, n->hidden, n->projection, n->layers, t->rnn.dropout,
                                  CUDNN_RNN_PADDED_IO_ENABLED));
}

static void results(const Network *network) {
    Training t, other;
    training_open(handle, &t, network, &randomness);

    training_prepare(handle, &t);
    forward(&t);
    Guarded first = t.reserve, y = copy_of(&t.rnn.y);
    t.reserve = guarded_new(0);
    size_t of_first = first.bytes;
    training_prepare(handle, &t);
    forward(&t);
    backward(&t);
    print("the second of two forward calls", &t);
    guarded_free(&t.reserve);
    t.reserve = first;
    memcpy(t.rnn.y.start, y.start, y.bytes);
    guarded_free(&y);
    backward(&t);
    print("the first of two forward calls", &t);

    /* A size that was asked for once stays right. */
    for (int pass = 0; pass < 2; pass++) {
        resize(&t, of_first);
        forward(&t);
        backward(&t);
        print("a size asked for once", &t);
    }

    training_pass(handle, &t);
    print("a plain pass", &t);
    uint64_t hash = training_hash(&t);

    /* As PyTorch does with retain_graph and save_on_cpu. */
    training_prepare(handle, &t);
    forward(&t);
    Guarded kept = copy_of(&t.reserve);
    for (int pass = 0; pass < 2; pass++) {
        guarded_free(&t.reserve);
        t.reserve = copy_of(&kept);
        backward(&t);
        print("backward from a clone", &t);
        REQUIRE(training_hash(&t) == hash, "clones differ");
    }
    guarded_free(&kept);

    training_prepare(handle, &t);
    forward(&t);
    move(&t);
    CALL(training_data(handle, &t));
    move(&t);
    CALL(training_weights(handle, &t));
    print("a reserve that moves between the calls", &t);
    CALL(training_weights(handle, &t));
    print("weights twice", &t);

    for (int pass = 0; pass < 3; pass++) {
        training_prepare(handle, &t);
        forward(&t);
    }
    training_close(&t);

    training_open(handle, &t, network, &randomness);
    training_open(handle, &other, network, &randomness);
    training_pass(handle, &t);
    training_prepare(handle, &t), training_prepare(handle, &other);
    forward(&t), forward(&other);
    backward(&t), backward(&other);
    print("forward, forward, backward", &t), print("forward, forward, backward", &other);

    size_t larger[] = {4, 16, 100, 4096, 100000};
    for (int i = 0; i < 5; i++) {
        training_prepare(handle, &t);
        resize(&t, t.reserve.bytes + larger[i]);
        forward(&t);
        backward(&t);
        print("a reserve larger than told", &t);
    }

    training_prepare(handle, &t);
    forward(&t);
    /* A projection goes with no other. */
    if (network->projection == network->hidden) set_algorithm(&t, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H);
    backward(&t);
    set_algorithm(&t, CUDNN_RNN_ALGO_STANDARD);
    print("another algorithm in backward", &t);

    training_prepare(handle, &t);
    forward(&t);
    CALL(training_data(handle, &t));
    cudnnStatus_t status = cudnnRNNBackwardWeights_v8(
        handle, t.rnn.descriptor, CUDNN_WGRAD_MODE_SET, NULL, t.rnn.x_descriptor, t.rnn.x.start, t.rnn.h_descriptor, NULL,
        t.rnn.y_descriptor, t.rnn.y.start, t.dweights.bytes, t.dweights.start, t.workspace.bytes, t.workspace.start,
        t.reserve.bytes, t.reserve.start);
    printf("setting gradients: %s\n", cudnnGetErrorString(status));
    CALL(training_weights(handle, &t));
    print("after setting gradients", &t);

    /* Gradients of the last states in the memory of the first ones' gradients. */
    training_prepare(handle, &t);
    forward(&t);
    if (t.has_dhy && t.has_dhx) {
        Guarded dhx = t.dhx;
        t.dhx = copy_of(&t.dhy);
        memset(t.workspace.start, 0xff, t.workspace.bytes);
        CALL(cudnnRNNBackwardData_v8(handle, t.rnn.descriptor, NULL, t.rnn.y_descriptor, t.rnn.y.start, t.dy.start,
                                     t.rnn.x_descriptor, t.dx.start, t.rnn.h_descriptor,
                                     network->has_hx ? t.rnn.hx.start : NULL, t.dhx.start, t.dhx.start, t.rnn.c_descriptor,
                                     network->has_cx ? t.rnn.cx.start : NULL, t.has_dcy ? t.dcy.start : NULL,
                                     t.has_dcx ? t.dcx.start : NULL, t.rnn.weights.bytes, t.rnn.weights.start,
                                     t.workspace.bytes, t.workspace.start, t.reserve.bytes, t.reserve.start));
        guarded_free(&dhx);
    } else {
        CALL(training_data(handle, &t));
    }
    CALL(training_weights(handle, &t));
    print("gradients of states in one place", &t);

    printf("sizes: %zu %zu\n", training_workspace(handle, &t), training_reserve(handle, &t));
    training_close(&t), training_close(&other);
}

/* Returns whether our forward ran: its header begins the reserve. */
static int is_ours(const Training *t) { return memcmp(t->reserve.start, "RRcu", 4) == 0; }

static void set_workspace(Training *t, size_t bytes) {
    guarded_free(&t->workspace);
    t->workspace = guarded_new(bytes);
}

/* The least workspace that forward takes: cuDNN's own. */
static size_t least_workspace(Training *t) {
    size_t refused = 0, taken = t->workspace.bytes;
    while (taken - refused > 1) {
        size_t middle = refused + (taken - refused) / 2;
        set_workspace(t, middle);
        training_seed(handle, t);
        if (training_forward(handle, t) == CUDNN_STATUS_SUCCESS) taken = middle;
        else refused = middle;
    }
    return taken;
}

/* Passes of both owners are alive together, in memory that they share in turns. */
static void both(const Network *network) {
    enum { ALIVE = 6 };
    Training t;
    training_open(handle, &t, network, &randomness);
    training_prepare(handle, &t);
    size_t told = t.workspace.bytes, least = least_workspace(&t);
    int ours = 0;

    /* The first reserve that the program copies lies where the other owner's forward call was. */
    for (int by_cudnn = 0; by_cudnn < 2; by_cudnn++) {
        set_workspace(&t, by_cudnn ? least : told);
        forward(&t);
        Guarded kept = copy_of(&t.reserve), y = copy_of(&t.rnn.y);
        set_workspace(&t, by_cudnn ? told : least);
        forward(&t);
        memcpy(t.reserve.start, kept.start, kept.bytes);
        memcpy(t.rnn.y.start, y.start, y.bytes);
        set_workspace(&t, told);
        backward(&t);
        print("in the other owner's place", &t);
        guarded_free(&kept), guarded_free(&y);
    }

    for (int round = 0; round < 20; round++) {
        Guarded kept[ALIVE], y[ALIVE];
        for (int i = 0; i < ALIVE; i++) {
            int by_cudnn = random_below(&randomness, 2);
            set_workspace(&t, by_cudnn ? least : told);
            forward(&t);
            kept[i] = copy_of(&t.reserve), y[i] = copy_of(&t.rnn.y);
            REQUIRE(!by_cudnn || !is_ours(&t), "the least workspace is none of cuDNN's");
            ours += is_ours(&t);
            if (random_below(&randomness, 3) == 0) {
                Guarded moved = t.reserve;
                t.reserve = guarded_new(moved.bytes);
                guarded_free(&moved);
            }
        }
        set_workspace(&t, told);
        for (int i = 0; i < ALIVE; i++) {
            /* In the place of the last forward call's reserve, or elsewhere. */
            int which = random_below(&randomness, ALIVE);
            if (random_below(&randomness, 2)) {
                guarded_free(&t.reserve);
                t.reserve = copy_of(&kept[which]);
            } else {
                memcpy(t.reserve.start, kept[which].start, kept[which].bytes);
            }
            memcpy(t.rnn.y.start, y[which].start, y[which].bytes);
            backward(&t);
            print("either owner's", &t);
        }
        for (int i = 0; i < ALIVE; i++) guarded_free(&kept[i]), guarded_free(&y[i]);
    }
    printf("ours: %d\n", ours);
    training_close(&t);
}

static void require_nan(const char *name, const Training *t, int data, int weights) {
    REQUIRE(!data || training_data_are_nan(t), "%s: gradients of data are not NaN", name);
    REQUIRE(!weights || training_weights_are_nan(t), "%s: gradients of weights are not NaN", name);
    printf("%s: NaN\n", name);
    fflush(stdout);
}

static void spoilt(const Network *network) {
    Training t;
    training_open(handle, &t, network, &randomness);
    training_pass(handle, &t);

    training_prepare(handle, &t);
    forward(&t);
    backward(&t);
    print("before", &t);
    CALL(training_data(handle, &t));
    CALL(training_weights(handle, &t));
    require_nan("data twice", &t, 1, 1);

    training_prepare(handle, &t);
    forward(&t);
    CALL(training_weights(handle, &t));
    require_nan("weights before data", &t, 0, 1);

    training_prepare(handle, &t);
    forward(&t);
    t.reserve.start[0] ^= 1;
    backward(&t);
    require_nan("a spoilt header", &t, 1, 1);

    /* cuDNN's own pass there is right. */
    forward(&t);
    backward(&t);
    print("after", &t);
    training_pass(handle, &t);
    print("after", &t);
    training_close(&t);
}

/* A copy of our reserve, after so many forward calls of cuDNN's that no reserve of ours is expected. */
static void unexpected(const Network *network) {
    Training t, other;
    training_open(handle, &t, network, &randomness);
    training_open(handle, &other, network, &randomness);
    training_prepare(handle, &other);
    set_workspace(&other, least_workspace(&other));
    training_prepare(handle, &t);
    forward(&t);
    Guarded kept = copy_of(&t.reserve);
    for (int call = 0; call < MANY; call++) forward(&other);
    guarded_free(&other.reserve);
    other.reserve = kept;
    set_workspace(&other, t.workspace.bytes);
    backward(&other);
    require_nan("our forward, cuDNN's backward", &other, 1, 1);
    training_close(&other), training_close(&t);
}

int main(int count, char **arguments) {
    REQUIRE(count == 2, "rnn_train_scenarios results|both|spoilt|unexpected");
    CALL(cudnnCreate(&handle));
    const cudnnRNNMode_t cells[] = {CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU, CUDNN_LSTM};
    for (int i = 0; i < 4; i++) {
        cudnnRNNMode_t cell = cells[i];
        Network n = network_plain(i < 2 ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF, 12, 4, 3);
        n.cell = cell, n.layers = 2, n.dropout = 0.25;
        if (i == 3) n.projection = 5;
        n.layout = cell == CUDNN_LSTM ? CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED : CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
        if (i >= 2) n.direction = CUDNN_BIDIRECTIONAL;
        if (cell == CUDNN_LSTM) n.lengths[0] = 2, n.lengths[2] = 3;
        if (strcmp(arguments[1], "results") == 0) results(&n);
        else if (strcmp(arguments[1], "spoilt") == 0) spoilt(&n);
        else if (strcmp(arguments[1], "both") == 0) both(&n);
        else if (strcmp(arguments[1], "unexpected") == 0) unexpected(&n);
        else REQUIRE(0, "%s: no such scenarios", arguments[1]);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
