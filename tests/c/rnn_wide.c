/* An LSTM of 160 units, wide enough for tensor cores, run three times. Prints the largest errors of y, hy and cy
 * against double precision.
 *
 * rnn_wide TYPE MATH BATCH */
#include <math.h>

#include "rnn.h"

int main(int count, char **arguments) {
    REQUIRE(count == 4, "rnn_wide TYPE MATH BATCH");
    Random random = {3};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Network network = network_plain(atoi(arguments[1]), 160, 8, atoi(arguments[3]));
    network.math = atoi(arguments[2]);
    Rnn rnn;
    rnn_open(handle, &rnn, &network, &random);
    double worst[3] = {0, 0, 0};
    for (int run = 0; run < 3; run++) {
        double errors[3];
        CALL(rnn_run(handle, &rnn));
        rnn_check(&rnn);
        rnn_errors(&rnn, errors);
        for (int k = 0; k < 3; k++) {
            REQUIRE(isfinite(errors[k]), "result %d has poison", k);
            worst[k] = fmax(worst[k], errors[k]);
        }
    }
    printf("%.3e|%.3e|%.3e\n", worst[0], worst[1], worst[2]);
    rnn_close(&rnn);
    CALL(cudnnDestroy(handle));
    return 0;
}
