/* Trains an LSTM until a report has a decision about it, or PASSES times. Every pass has the right gradients.
 *
 * rnn_train_until REPORT [PASSES] */
#include <math.h>

#include "rnn_train.h"

int main(int count, char **arguments) {
    REQUIRE(count == 2 || count == 3, "rnn_train_until REPORT [PASSES]");
    long passes = count == 3 ? atol(arguments[2]) : -1;
    Random random = {1};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Network network = network_plain(CUDNN_DATA_FLOAT, 16, 4, 2);
    Training training;
    training_open(handle, &training, &network, &random);
    for (long pass = 0; pass != passes && !is_decided(arguments[1]); pass++) {
        double errors[RESULTS];
        training_pass(handle, &training);
        training_errors(&training, errors);
        for (int k = 0; k < RESULTS; k++) {
            REQUIRE(errors[k] < 1e-5, "pass %ld, %s: off by %g", pass, result_names[k], errors[k]);
        }
    }
    training_close(&training);
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
