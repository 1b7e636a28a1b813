/* Creates a network, in a program that knows nothing of cuDNN. Prints the status, and the reason if it failed. */
#include <stdio.h>

#include <ucudnn.h>

int main(void) {
    ucudnnRnnDescription_t description = {0};
    ucudnnRnn_t rnn;
    char why[512];
    description.cell = UCUDNN_RNN_LSTM, description.dataType = CUDNN_DATA_FLOAT;
    description.inputSize = 6, description.hiddenSize = 16, description.layers = description.directions = 1;
    description.maxBatch = 2, description.maxSteps = 3;
    cudnnStatus_t status = ucudnnCreateRnn(&rnn, &description);
    ucudnnGetRnnErrorString(why, sizeof why);
    printf("%d|%s\n", status, why);
    return status == CUDNN_STATUS_SUCCESS ? ucudnnDestroyRnn(rnn) : 0;
}
