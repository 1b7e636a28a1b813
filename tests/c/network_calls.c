/* Asking for algorithms by the legacy API. */
#include <string.h>

#include "network.h"

/* im2col with GEMM, or an FFT: the algorithms that many programs name in their source. */
static int named(const Use *use) {
    static const int precomputed[3] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
    return precomputed[use->kernel.shape.operation];
}

void use_ask_by_call(cudnnHandle_t handle, Use *use, Ask ask) {
    Kernel *kernel = &use->kernel;
    Perf results[MOST_RESULTS];
    int count = 0;
    if (ask == FIXED) {
        use->algorithm = named(use);
        CALL(kernel_workspace(handle, kernel, use->algorithm, &use->told));
    } else if (ask == NEVER) {
        static const int without[3] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                                       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0};
        use->algorithm = without[kernel->shape.operation];
        use->told = 0;
    } else {
        if (ask == GET) CALL(kernel_get(handle, kernel, MOST_RESULTS, &count, results));
        if (ask == FIND) CALL(kernel_find(handle, kernel, MOST_RESULTS, &count, results));
        if (ask == FIND_EX) {
            Guarded given = guarded_new(100000);
            CALL(kernel_find_ex(handle, kernel, &given, MOST_RESULTS, &count, results));
            guarded_check(&given, "the workspace of FindEx");
            guarded_free(&given);
            memcpy(kernel_result(kernel)->start, kernel->before, kernel_result(kernel)->bytes);
        }
        REQUIRE(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS, "no answer");
        use->algorithm = results[0].algo;
        CALL(kernel_workspace(handle, kernel, use->algorithm, &use->told));
        REQUIRE(use->told == results[0].memory, "%zu bytes, then %zu", results[0].memory, use->told);
    }
}
