/* Runs an LSTM until a report has a decision about it, or RUNS times. Prints the milliseconds of hostdnn's clock before and after
 * each run.
 *
 * rnn_until REPORT [RUNS] */
#include "device_time.h"
#include "rnn.h"

int main(int count, char **arguments) {
    REQUIRE(count == 2 || count == 3, "rnn_until REPORT [RUNS]");
    long runs = count == 3 ? atol(arguments[2]) : -1;
    Random random = {1};
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Network network = network_plain(CUDNN_DATA_FLOAT, 16, 4, 2);
    Rnn rnn;
    rnn_open(handle, &rnn, &network, &random);
    say_time();
    for (long run = 0; run != runs && !is_decided(arguments[1]); run++) {
        double errors[3];
        CALL(rnn_run(handle, &rnn));
        rnn_check(&rnn);
        rnn_errors(&rnn, errors);
        for (int k = 0; k < 3; k++) REQUIRE(errors[k] < 1e-6, "result %d: off by %g", k, errors[k]);
        say_time();
    }
    rnn_close(&rnn);
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
