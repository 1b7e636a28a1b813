/* Random recurrent networks, each run three times. Prints a line for each network: its description, and the errors of
 * y, hy and cy against double precision.
 *
 * rnn_random SEED NETWORKS [RUNS] */
#include <math.h>
#include <string.h>

#include "rnn.h"

/* For the first two networks, clusters and wavefronts are chosen. */
static Network random_network(int i, Random *random) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    static const int sizes[] = {5, 16, 33, 48, 160};
    int steps = 1 + random_below(random, 5), batch = 1 + random_below(random, 7);
    int size = random_below(random, 5);
    /* Sometimes more rows than a block multiplies at once, and more sequences than usual. */
    if (i == 0) size = 4;
    else if (random_below(random, 6) == 0) size = random_below(random, 2), batch = 33 + random_below(random, MOST_BATCH - 32);
    Network n = network_plain(types[random_below(random, 3)], sizes[size], steps, batch);
    n.cell = random_below(random, 4), n.bias = random_below(random, 4), n.direction = random_below(random, 2);
    n.input = 1 + random_below(random, 40), n.layers = 1 + random_below(random, 3), n.layout = random_below(random, 3);
    if (i == 0) n.cell = 2 + n.cell % 2, n.layers = 1; /* LSTM or GRU */
    if (i == 1) n.layers = 3, n.direction = CUDNN_UNIDIRECTIONAL;
    network_vary(&n, random);
    /* Inference ignores dropout, whatever its probability. */
    n.dropout = random_below(random, 2) * 0.5;
    if (n.cell == CUDNN_LSTM && i > 1 && random_below(random, 2)) n.projection = 1 + random_below(random, n.hidden - 1);
    return n;
}

int main(int count, char **arguments) {
    REQUIRE(count == 3 || count == 4, "rnn_random SEED NETWORKS [RUNS]");
    Random random = {strtoull(arguments[1], NULL, 10)};
    int runs = count == 4 ? atoi(arguments[3]) : 3;
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    for (int i = 0; i < atoi(arguments[2]); i++) {
        Network network = random_network(i, &random);
        char text[512];
        Rnn rnn;
        network_print(&network, text, sizeof text);
        rnn_open(handle, &rnn, &network, &random);
        double worst[3] = {0, 0, 0};
        for (int run = 0; run < runs; run++) {
            double errors[3];
            CALL(rnn_run(handle, &rnn));
            rnn_check(&rnn);
            rnn_errors(&rnn, errors);
            for (int k = 0; k < 3; k++) {
                REQUIRE(isfinite(errors[k]), "%s: result %d has poison", text, k);
                worst[k] = errors[k] > worst[k] ? errors[k] : worst[k];
            }
        }
        printf("%s|%.3e|%.3e|%.3e\n", text, worst[0], worst[1], worst[2]);
        fflush(stdout);
        rnn_close(&rnn);
    }
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
