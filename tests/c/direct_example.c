/* Runs README's example on weights that are all 0 except n's biases beside W, which are 1: then r and z are 1/2, n is
 * tanh 1, and h after t steps is (1 - 1 / 2^t) tanh 1. */
#include <math.h>
#include <string.h>

#include "rnn.h"

#include <ucudnn.h>

ucudnnRnn_t make_gru(void);
cudnnStatus_t run_gru(ucudnnRnn_t gru, const void *weights, const void *x, void *y, void *workspace, size_t bytes,
                      cudaStream_t stream);

int main(void) {
    enum { INPUT = 128, HIDDEN = 256, BATCH = 2, STEPS = 30, MATRICES = 3 * HIDDEN * (INPUT + HIDDEN) };
    Random random = {1};
    size_t weight_bytes, workspace_bytes;
    ucudnnRnn_t gru = make_gru();
    if (!gru) return 1;
    CALL(ucudnnGetRnnWeightSize(gru, &weight_bytes));
    CALL(ucudnnGetRnnWorkspaceSize(gru, &workspace_bytes));
    REQUIRE(weight_bytes == 2 * (MATRICES + 6 * HIDDEN), "%zu", weight_bytes);
    Guarded weights = guarded_new(weight_bytes), workspace = guarded_new(workspace_bytes);
    Guarded x = guarded_new(2 * STEPS * BATCH * INPUT), y = guarded_new(2 * STEPS * BATCH * HIDDEN);
    fill_random(&x, CUDNN_DATA_HALF, STEPS * BATCH * INPUT, 1, &random);
    memset(weights.start, 0, weights.bytes);
    for (int i = 0; i < HIDDEN; i++) set_element(weights.start + 2 * (MATRICES + 2 * HIDDEN + i), CUDNN_DATA_HALF, 1);
    CALL(run_gru(gru, weights.start, x.start, y.start, workspace.start, workspace.bytes, NULL));
    for (int t = 0; t < STEPS; t++) {
        double expected = (1 - exp2(-(t + 1))) * tanh(1);
        for (int i = 0; i < BATCH * HIDDEN; i++) {
            double h = value_at(&y, CUDNN_DATA_HALF, (size_t)t * BATCH * HIDDEN + i);
            REQUIRE(fabs(h - expected) < 1e-3, "step %d, %d: %g, not %g", t, i, h, expected);
        }
    }
    guarded_check(&y, "y"), guarded_check(&workspace, "the workspace");
    CALL(ucudnnDestroyRnn(gru));
    puts("ended");
    return 0;
}
