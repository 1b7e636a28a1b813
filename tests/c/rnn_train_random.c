/* Training passes of random recurrent networks, three of each: the first may be cuDNN's, and the others give the same
 * bits. Prints a line for each network: its description, and the errors of all results against double precision.
 *
 * rnn_train_random SEED NETWORKS */
#include <math.h>

#include "rnn_train.h"

/* The first networks are such that clusters are chosen, with and without tensor cores. */
static Network large_network(int i) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT,
                                            CUDNN_DATA_HALF};
    Network n = network_plain(types[i], i == 3 ? 200 : 160, 3, i % 2 ? 9 : 2);
    n.cell = i == 1 ? CUDNN_GRU : i == 3 ? CUDNN_RNN_TANH : CUDNN_LSTM;
    n.math = i == 0 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    if (i == 2) n.direction = CUDNN_BIDIRECTIONAL, n.batch = 8;
    if (i == 4) n.projection = 48, n.batch = 8;
    for (int row = 0; row < n.batch; row++) n.lengths[row] = row == 0 ? 3 : 1 + row % 3;
    return n;
}

static Network random_network(Random *random) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    static const int sizes[] = {1, 5, 16, 33, 48};
    int steps = 1 + random_below(random, 6), batch = 1 + random_below(random, 7);
    Network n = network_plain(types[random_below(random, 3)], sizes[random_below(random, 5)], steps, batch);
    n.cell = random_below(random, 4);
    /* The gradient of ReLU jumps at 0: in a type of 2 bytes, units near 0 round to the other side too often. */
    if (n.cell == CUDNN_RNN_RELU) n.type = CUDNN_DATA_FLOAT;
    n.bias = random_below(random, 4), n.direction = random_below(random, 2);
    n.input = 1 + random_below(random, 40), n.layers = 1 + random_below(random, 3), n.layout = random_below(random, 3);
    network_vary(&n, random);
    /* Our kernels leave a batch of empty sequences to cuDNN. */
    int rows = 0;
    for (int i = 0; i < batch; i++) rows += n.lengths[i];
    if (rows == 0) n.lengths[batch - 1] = 1;
    n.dropout = random_below(random, 2) * 0.25;
    if (n.cell == CUDNN_LSTM && n.hidden > 1 && random_below(random, 2)) n.projection = 1 + random_below(random, n.hidden - 1);
    return n;
}

int main(int count, char **arguments) {
    REQUIRE(count == 3, "rnn_train_random SEED NETWORKS");
    Random random = {strtoull(arguments[1], NULL, 10)};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    for (int i = 0; i < atoi(arguments[2]); i++) {
        Network network = i < 5 ? large_network(i) : random_network(&random);
        char text[512];
        network_print(&network, text, sizeof text);
        Training training;
        training_open(handle, &training, &network, &random);
        uint64_t hashes[3];
        double errors[RESULTS];
        for (int pass = 0; pass < 3; pass++) {
            training_pass(handle, &training);
            hashes[pass] = training_hash(&training);
        }
        REQUIRE(hashes[1] == hashes[2], "%s: two passes differ", text);
        training_errors(&training, errors);
        printf("%s dropout %g", text, network.dropout);
        for (int k = 0; k < RESULTS; k++) {
            REQUIRE(isfinite(errors[k]), "%s: %s has poison", text, result_names[k]);
            printf("|%.3e", errors[k]);
        }
        puts("");
        fflush(stdout);
        training_close(&training);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
