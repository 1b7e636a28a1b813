#include "steering.h"

#include <string.h>

void set_total(cudnnHandle_t handle, size_t bytes) {
    size_t total = 0;
    ucudnnPolicy_t policy = -1;
    CALL(ucudnnSetTotalWorkspace(handle, bytes));
    CALL(ucudnnGetTotalWorkspace(handle, &total));
    CALL(ucudnnGetPolicy(handle, &policy));
    REQUIRE(total == bytes && policy == UCUDNN_POLICY_WD, "%zu bytes, policy %d", total, policy);
}

static void expect_no_total(cudnnHandle_t handle) {
    size_t total = 0;
    ucudnnPolicy_t before = -1, policy = -1;
    CALL(ucudnnGetPolicy(handle, &before));
    REQUIRE(ucudnnSetPolicy(handle, UCUDNN_POLICY_WD) == CUDNN_STATUS_BAD_PARAM, "a policy without a total");
    REQUIRE(ucudnnSetTotalWorkspace(handle, UCUDNN_NO_LIMIT) == CUDNN_STATUS_BAD_PARAM, "no total");
    REQUIRE(ucudnnFinishCollection(handle) == CUDNN_STATUS_NOT_SUPPORTED, "nothing is collected");
    CALL(ucudnnGetTotalWorkspace(handle, &total));
    CALL(ucudnnGetPolicy(handle, &policy));
    REQUIRE(total == UCUDNN_NO_LIMIT && policy == before, "%zu bytes, policy %d", total, policy);
}

static void expect_refused_nulls(cudnnHandle_t handle) {
    size_t bytes;
    REQUIRE(ucudnnSetTotalWorkspace(NULL, 1) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnGetTotalWorkspace(NULL, &bytes) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnGetTotalWorkspace(handle, NULL) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnFinishCollection(NULL) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnSetLayerId(NULL, 1) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnSetOneStream(NULL, 1) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnGetDivisionDescription(NULL, NULL, 0, &bytes) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
}

static void set_policy(cudnnHandle_t handle, const char *name) {
    static const char *const names[] = {"wr", "wd", "off"}; /* in the order of UCUDNN_POLICY_... */
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], name) != 0) continue;
        ucudnnPolicy_t policy = -1;
        CALL(ucudnnSetPolicy(handle, i));
        CALL(ucudnnGetPolicy(handle, &policy));
        REQUIRE(policy == i, "%d", policy);
        return;
    }
    REQUIRE(0, "policy: wr, wd or off, not %s", name);
}

/* Like snprintf: writes as much text as fits and a zero, and returns the size of the whole. */
static void describe(cudnnHandle_t handle) {
    size_t needed = 0, again = 0;
    CALL(ucudnnGetDivisionDescription(handle, NULL, 0, &needed));
    char *text = malloc(needed + 1), cut[10];
    REQUIRE(text, "no memory");
    memset(cut, '#', sizeof cut);
    text[needed] = '#';
    CALL(ucudnnGetDivisionDescription(handle, text, needed, &again));
    REQUIRE(again == needed && strlen(text) + 1 == needed && text[needed] == '#', "%zu, then %zu", needed, again);
    CALL(ucudnnGetDivisionDescription(handle, cut, sizeof cut - 1, &again));
    REQUIRE(again == needed && strlen(cut) == sizeof cut - 2 && cut[sizeof cut - 1] == '#', "%.10s", cut);
    REQUIRE(strncmp(cut, text, strlen(cut)) == 0, "%s", cut);
    REQUIRE(ucudnnGetDivisionDescription(handle, NULL, 5, &again) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
    REQUIRE(ucudnnGetDivisionDescription(handle, text, needed, NULL) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            "null");
    printf("description\n%s", text);
    free(text);
}

int steer(cudnnHandle_t handle, const char *step, const char *value) {
    size_t needed;
    if (strcmp(step, "no_total") == 0) expect_no_total(handle);
    else if (strcmp(step, "nulls") == 0) expect_refused_nulls(handle);
    else if (strncmp(step, "policy=", 7) == 0) set_policy(handle, value);
    else if (strcmp(step, "finish") == 0) CALL(ucudnnFinishCollection(handle));
    else if (strncmp(step, "one_stream=", 11) == 0) CALL(ucudnnSetOneStream(handle, atoi(value)));
    else if (strcmp(step, "undescribed") == 0)
        REQUIRE(ucudnnGetDivisionDescription(handle, NULL, 0, &needed) == CUDNN_STATUS_NOT_SUPPORTED, "divided?");
    else if (strcmp(step, "describe") == 0) describe(handle);
    else return 0;
    return 1;
}
