/* A program that steers the library by ucudnn.h. Compiled as C and as C++. */
#include <ucudnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                              \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);     \
            exit(1);                                                    \
        }                                                               \
    } while (0)
#define CALL(call) REQUIRE((call) == CUDNN_STATUS_SUCCESS)

static cudnnTensorDescriptor_t x, y;
static cudnnFilterDescriptor_t w;
static cudnnConvolutionDescriptor_t convolution;

static void describe_kernel(int batch) {
    CALL(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, 8, 14, 14));
    CALL(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, 8, 14, 14));
    CALL(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 8, 8, 3, 3));
    CALL(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
}

/* Asks for the problem's algorithms. Returns the first result. */
static cudnnConvolutionFwdAlgoPerf_t ask(cudnnHandle_t handle) {
    cudnnConvolutionFwdAlgoPerf_t results[16];
    int count = 0;
    CALL(cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, 16, &count, results));
    REQUIRE(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS);
    return results[0];
}

/* The plan that an algorithm id stands for, as text; "" if there is none. The caller frees it. */
static char *plan(cudnnHandle_t handle, int algorithm) {
    size_t needed = 0;
    cudnnStatus_t status =
        ucudnnGetConvolutionForwardPlanDescription(handle, x, w, convolution, y, algorithm, NULL, 0, &needed);
    char *text = (char *)calloc(needed + 1, 1);
    REQUIRE(text != NULL);
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return text;
    REQUIRE(status == CUDNN_STATUS_SUCCESS && needed > 1);
    CALL(ucudnnGetConvolutionForwardPlanDescription(handle, x, w, convolution, y, algorithm, text, needed, &needed));
    REQUIRE(strlen(text) + 1 == needed);
    return text;
}

static void check_policies(cudnnHandle_t one, cudnnHandle_t other) {
    ucudnnPolicy_t policy = -1;
    CALL(ucudnnGetPolicy(one, &policy));
    REQUIRE(policy == UCUDNN_POLICY_WR);
    CALL(ucudnnSetPolicy(one, UCUDNN_POLICY_OFF));
    CALL(ucudnnGetPolicy(one, &policy));
    REQUIRE(policy == UCUDNN_POLICY_OFF);
    CALL(ucudnnGetPolicy(other, &policy));
    REQUIRE(policy == UCUDNN_POLICY_WR);
    REQUIRE(ucudnnSetPolicy(one, 77) == CUDNN_STATUS_BAD_PARAM);
    CALL(ucudnnGetPolicy(one, &policy));
    REQUIRE(policy == UCUDNN_POLICY_OFF);
    CALL(ucudnnSetPolicy(one, UCUDNN_POLICY_WR));

    static const ucudnnBatchSizePolicy_t all[] = {UCUDNN_BATCH_SIZE_ALL, UCUDNN_BATCH_SIZE_UNDIVIDED,
                                                  UCUDNN_BATCH_SIZE_POWER_OF_TWO};
    ucudnnBatchSizePolicy_t sizes = -1;
    for (int i = 0; i < 3; i++) {
        CALL(ucudnnSetBatchSizePolicy(one, all[i]));
        CALL(ucudnnGetBatchSizePolicy(one, &sizes));
        REQUIRE(sizes == all[i]);
    }
    REQUIRE(ucudnnSetBatchSizePolicy(one, -1) == CUDNN_STATUS_BAD_PARAM);

    size_t bytes = 0;
    CALL(ucudnnGetWorkspaceLimit(one, &bytes));
    REQUIRE(bytes == UCUDNN_NO_LIMIT);
    CALL(ucudnnSetWorkspaceLimit(one, 12345));
    CALL(ucudnnSetDefaultWorkspaceLimit(one, 54321));
    CALL(ucudnnGetWorkspaceLimit(one, &bytes));
    REQUIRE(bytes == 12345);
    CALL(ucudnnGetDefaultWorkspaceLimit(one, &bytes));
    REQUIRE(bytes == 54321);
    CALL(ucudnnGetDefaultWorkspaceLimit(other, &bytes));
    REQUIRE(bytes == UCUDNN_NO_LIMIT);
    CALL(ucudnnSetWorkspaceLimit(one, UCUDNN_NO_LIMIT));
    CALL(ucudnnSetDefaultWorkspaceLimit(one, UCUDNN_NO_LIMIT));

    REQUIRE(ucudnnSetPolicy(NULL, UCUDNN_POLICY_WR) != CUDNN_STATUS_SUCCESS);
    REQUIRE(ucudnnGetPolicy(one, NULL) != CUDNN_STATUS_SUCCESS);
    REQUIRE(ucudnnSetWorkspaceLimit(NULL, 1) != CUDNN_STATUS_SUCCESS);
    REQUIRE(ucudnnGetWorkspaceLimit(NULL, &bytes) != CUDNN_STATUS_SUCCESS);
}

/* Settings must show in the answers. */
static void check_effects(cudnnHandle_t one, cudnnHandle_t other) {
    describe_kernel(16);
    CALL(ucudnnSetWorkspaceLimit(one, 2000));
    cudnnConvolutionFwdAlgoPerf_t limited = ask(one);
    REQUIRE(limited.memory <= 2000);
    char *text = plan(one, limited.algo);
    REQUIRE(strstr(text, "division: ") && strstr(text, "bytes"));
    char cut[8];
    size_t needed = 0;
    CALL(ucudnnGetConvolutionForwardPlanDescription(one, x, w, convolution, y, limited.algo, cut, sizeof cut, &needed));
    REQUIRE(needed == strlen(text) + 1 && strlen(cut) == sizeof cut - 1 && strncmp(cut, text, sizeof cut - 1) == 0);
    free(text);
    CALL(ucudnnSetWorkspaceLimit(one, UCUDNN_NO_LIMIT));

    /* Undivided: never more than one part. */
    describe_kernel(15);
    CALL(ucudnnSetBatchSizePolicy(one, UCUDNN_BATCH_SIZE_UNDIVIDED));
    CALL(ucudnnSetDefaultWorkspaceLimit(one, 300000));
    text = plan(one, ask(one).algo);
    REQUIRE(strstr(text, "division: 15[") || strstr(text, "division: 1\xc3\x97" "15["));
    free(text);

    /* Off: cuDNN's answers have no plan. */
    describe_kernel(13);
    CALL(ucudnnSetPolicy(other, UCUDNN_POLICY_OFF));
    text = plan(other, ask(other).algo);
    REQUIRE(*text == 0);
    free(text);
}

int main(void) {
    cudnnHandle_t one, other;
    REQUIRE(ucudnnGetVersion() > 0);
    printf("version %zu\n", ucudnnGetVersion());
    CALL(cudnnCreate(&one));
    CALL(cudnnCreate(&other));
    CALL(cudnnCreateTensorDescriptor(&x));
    CALL(cudnnCreateTensorDescriptor(&y));
    CALL(cudnnCreateFilterDescriptor(&w));
    CALL(cudnnCreateConvolutionDescriptor(&convolution));
    check_policies(one, other);
    check_effects(one, other);

    /* Settings end with their handle: a new handle, perhaps at the same address, has the environment's. */
    CALL(cudnnDestroy(other));
    CALL(cudnnCreate(&other));
    ucudnnPolicy_t policy = -1;
    CALL(ucudnnGetPolicy(other, &policy));
    REQUIRE(policy == UCUDNN_POLICY_WR);
    CALL(cudnnDestroyTensorDescriptor(x));
    CALL(cudnnDestroyTensorDescriptor(y));
    CALL(cudnnDestroyFilterDescriptor(w));
    CALL(cudnnDestroyConvolutionDescriptor(convolution));
    CALL(cudnnDestroy(one));
    CALL(cudnnDestroy(other));
    puts("ended");
    return 0;
}
