/* Null, garbage and mismatched arguments to the direct call: each is refused with its status and a reason, and nothing
 * is written. */
#include <string.h>

#include "direct.h"

static Random randoms = {5};
static Direct direct;

/* Requires the status, and a last error's text that contains `word`. */
static void expect_refusal(cudnnStatus_t status, cudnnStatus_t expected, const char *what, const char *word) {
    char why[512] = "";
    ucudnnGetRnnErrorString(why, sizeof why);
    REQUIRE(status == expected, "%s: %d: %s", what, status, why);
    REQUIRE(strstr(why, word), "%s: %s", what, why);
}

static void description_is_refused(const ucudnnRnnDescription_t *description, cudnnStatus_t expected, const char *what,
                                   const char *word) {
    ucudnnRnn_t rnn = (ucudnnRnn_t)(void *)&randoms;
    expect_refusal(ucudnnCreateRnn(&rnn, description), expected, what, word);
    REQUIRE(rnn == (ucudnnRnn_t)(void *)&randoms, "%s: a handle was written", what);
}

#define REFUSED_WITH(field, value, status, word)                          \
    do {                                                                  \
        ucudnnRnnDescription_t changed_ = direct.description;             \
        changed_.field = (value);                                         \
        description_is_refused(&changed_, status, #field " = " #value, word); \
    } while (0)

static void descriptions(void) {
    expect_refusal(ucudnnCreateRnn(NULL, &direct.description), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "rnn", "rnn is null");
    description_is_refused(NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no description", "description is null");
    REFUSED_WITH(cell, -1, CUDNN_STATUS_BAD_PARAM, "cell is -1");
    REFUSED_WITH(cell, 17, CUDNN_STATUS_BAD_PARAM, "cell is 17");
    REFUSED_WITH(cell, 4, CUDNN_STATUS_BAD_PARAM, "cell is 4");
    REFUSED_WITH(dataType, CUDNN_DATA_DOUBLE, CUDNN_STATUS_BAD_PARAM, "dataType");
    REFUSED_WITH(inputSize, 0, CUDNN_STATUS_BAD_PARAM, "inputSize is 0");
    REFUSED_WITH(inputSize, 1 << 30, CUDNN_STATUS_BAD_PARAM, "inputSize");
    REFUSED_WITH(hiddenSize, -7, CUDNN_STATUS_BAD_PARAM, "hiddenSize is -7");
    REFUSED_WITH(layers, 0, CUDNN_STATUS_BAD_PARAM, "layers is 0");
    REFUSED_WITH(layers, 1 << 30, CUDNN_STATUS_BAD_PARAM, "layers");
    REFUSED_WITH(directions, 3, CUDNN_STATUS_BAD_PARAM, "directions is 3");
    REFUSED_WITH(maxBatch, 0, CUDNN_STATUS_BAD_PARAM, "maxBatch is 0");
    REFUSED_WITH(maxBatch, 1 << 30, CUDNN_STATUS_BAD_PARAM, "maxBatch");
    REFUSED_WITH(maxSteps, -1, CUDNN_STATUS_BAD_PARAM, "maxSteps is -1");
    REFUSED_WITH(maxSteps, 0x7fffffff, CUDNN_STATUS_BAD_PARAM, "maxBatch times maxSteps");
    REFUSED_WITH(configuration, "", CUDNN_STATUS_BAD_PARAM, "is no configuration");
    REFUSED_WITH(configuration, "fast", CUDNN_STATUS_BAD_PARAM, "is no configuration");
    REFUSED_WITH(configuration, "grid u0 b1 t32 l1 r0", CUDNN_STATUS_BAD_PARAM, "is no configuration");
    REFUSED_WITH(configuration, "\xff", CUDNN_STATUS_BAD_PARAM, "UTF-8");
    REFUSED_WITH(configuration, "block u900 b4 t32 l1 r0", CUDNN_STATUS_NOT_SUPPORTED, "does not fit");
}

static void run_is_refused(cudnnStatus_t expected, const char *what, const char *word) {
    expect_refusal(direct_run(&direct, NULL), expected, what, word);
    direct_check(&direct, 1);
}

#define RUN_REFUSED_WITH(field, value, status, word)          \
    do {                                                      \
        ucudnnRnnArguments_t kept_ = direct.arguments;        \
        direct.arguments.field = (value);                     \
        run_is_refused(status, #field " = " #value, word);    \
        direct.arguments = kept_;                             \
    } while (0)

static void runs(void) {
    ucudnnRnnArguments_t sound = direct.arguments;
    RUN_REFUSED_WITH(weights, NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "weights is null");
    RUN_REFUSED_WITH(x, NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "x is null");
    RUN_REFUSED_WITH(y, NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "y is null");
    RUN_REFUSED_WITH(workspace, NULL, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "workspace is null");
    RUN_REFUSED_WITH(workspaceSizeInBytes, direct.workspace.bytes - 1, CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "takes");
    RUN_REFUSED_WITH(workspaceSizeInBytes, 0, CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "0 bytes");
    RUN_REFUSED_WITH(batch, 0, CUDNN_STATUS_BAD_PARAM, "batch is 0");
    RUN_REFUSED_WITH(batch, -1, CUDNN_STATUS_BAD_PARAM, "batch is -1");
    RUN_REFUSED_WITH(batch, direct.description.maxBatch + 1, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "1 to 3");
    RUN_REFUSED_WITH(steps, 0, CUDNN_STATUS_BAD_PARAM, "steps is 0");
    RUN_REFUSED_WITH(steps, 0x7fffffff, CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "1 to 4");
    RUN_REFUSED_WITH(layout, 3, CUDNN_STATUS_BAD_PARAM, "layout");
    RUN_REFUSED_WITH(layout, -1, CUDNN_STATUS_BAD_PARAM, "layout");
    static const int too_long[3] = {4, 5, 4}, negative[3] = {4, -1, 4}, unsorted[3] = {3, 4, 4}, empty[3] = {4, 4, 0};
    RUN_REFUSED_WITH(lengths, too_long, CUDNN_STATUS_BAD_PARAM, "5 steps");
    RUN_REFUSED_WITH(lengths, negative, CUDNN_STATUS_BAD_PARAM, "-1 steps");
    direct.arguments.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    RUN_REFUSED_WITH(lengths, unsorted, CUDNN_STATUS_BAD_PARAM, "out of order");
    RUN_REFUSED_WITH(lengths, empty, CUDNN_STATUS_BAD_PARAM, "out of order");
    direct.arguments.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
    direct.arguments.hx = direct.hx.start, direct.arguments.hy = direct.hy.start;
    direct.arguments.cx = direct.cx.start, direct.arguments.cy = direct.cy.start;
    const unsigned char *x = direct.arguments.x;
    unsigned char *y = direct.arguments.y;
    RUN_REFUSED_WITH(x, x + 1, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "aligned");
    RUN_REFUSED_WITH(y, y + 2, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "aligned");
    RUN_REFUSED_WITH(hx, direct.hx.start + 3, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "aligned");
    RUN_REFUSED_WITH(cy, direct.cy.start + 2, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "aligned");
    RUN_REFUSED_WITH(weights, direct.weights.start + 2, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "aligned");
    RUN_REFUSED_WITH(hx, direct.hy.start, CUDNN_STATUS_BAD_PARAM, "overlaps");
    RUN_REFUSED_WITH(cy, direct.y.start, CUDNN_STATUS_BAD_PARAM, "overlaps");
    RUN_REFUSED_WITH(x, direct.y.start, CUDNN_STATUS_BAD_PARAM, "overlaps");
    RUN_REFUSED_WITH(weights, direct.workspace.start, CUDNN_STATUS_BAD_PARAM, "overlaps");
    expect_refusal(ucudnnRunRnn(direct.rnn, NULL, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "arguments", "arguments");
    expect_refusal(ucudnnRunRnn(NULL, &direct.arguments, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "rnn", "rnn is null");
    ucudnnRnn_t garbage = (ucudnnRnn_t)(void *)&randoms;
    expect_refusal(ucudnnRunRnn(garbage, &direct.arguments, NULL), CUDNN_STATUS_BAD_PARAM, "garbage", "no network");
    direct_check(&direct, 1);
    direct.arguments = sound;
    /* The calling thread's device is not the network's. */
    CALL(hostdnnSetDevice(1));
    run_is_refused(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the device", "is for device 0, and the calling thread's is 1");
    CALL(hostdnnSetDevice(0));
}

static void others(void) {
    ucudnnRnn_t garbage = (ucudnnRnn_t)(void *)&randoms;
    size_t bytes = 77;
    char text[8] = "as was";
    expect_refusal(ucudnnGetRnnWorkspaceSize(garbage, &bytes), CUDNN_STATUS_BAD_PARAM, "workspace", "no network");
    expect_refusal(ucudnnGetRnnWorkspaceSize(direct.rnn, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "workspace", "bytes");
    expect_refusal(ucudnnGetRnnWeightSize(NULL, &bytes), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "weights", "rnn is null");
    expect_refusal(ucudnnGetRnnWeightSize(direct.rnn, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "weights", "bytes");
    expect_refusal(ucudnnGetRnnConfiguration(garbage, text, sizeof text, &bytes), CUDNN_STATUS_BAD_PARAM, "text", "network");
    expect_refusal(ucudnnGetRnnConfiguration(direct.rnn, text, sizeof text, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "text", "needed");
    expect_refusal(ucudnnGetRnnConfiguration(direct.rnn, NULL, 5, &bytes), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "text",
                   "needed");
    REQUIRE(bytes == 77 && strcmp(text, "as was") == 0, "something was written");
    RUN_OK(ucudnnGetRnnConfiguration(direct.rnn, text, sizeof text, &bytes));
    REQUIRE(strlen(text) == sizeof text - 1 && bytes > sizeof text, "%s", text);
    ucudnnGetRnnErrorString(NULL, 0);
    ucudnnGetRnnErrorString(text, 1);
    REQUIRE(*text == 0, "%s", text);
    expect_refusal(ucudnnDestroyRnn(NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "destroying", "rnn is null");
    expect_refusal(ucudnnDestroyRnn(garbage), CUDNN_STATUS_BAD_PARAM, "destroying", "no network");
}

int main(void) {
    ucudnnRnnDescription_t description = direct_plain(9, 3, 4);
    direct_open(&direct, &description, &randoms);
    direct_bring(&direct, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 3, 4, NULL, &randoms);
    descriptions();
    runs();
    others();
    /* After all of these calls the network still runs. */
    double deviations[3];
    RUN_OK(direct_run(&direct, NULL));
    direct_check(&direct, 0);
    direct_errors(&direct, deviations);
    REQUIRE(deviations[0] < 4 && deviations[1] < 4 && deviations[2] < 4, "%g %g %g", deviations[0], deviations[1], deviations[2]);
    ucudnnRnn_t destroyed = direct.rnn;
    direct_leave(&direct);
    direct_close(&direct);
    expect_refusal(ucudnnDestroyRnn(destroyed), CUDNN_STATUS_BAD_PARAM, "destroying twice", "destroyed");
    expect_refusal(ucudnnRunRnn(destroyed, &direct.arguments, NULL), CUDNN_STATUS_BAD_PARAM, "running", "destroyed");
    puts("ended");
    return 0;
}
