#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "ours.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucudnn.h>

static cudnnStatus_t (*set_policy)(cudnnHandle_t, ucudnnPolicy_t);
static const char *report;
static long mark;

int ours_open(void) {
    void *found = dlsym(RTLD_DEFAULT, "ucudnnSetPolicy");
    if (!found) return 0;
    memcpy(&set_policy, &found, sizeof found);
    report = getenv("UCUDNN_REPORT");
    if (!report || !*report) {
        fputs("rnn_bench: UCUDNN_REPORT must name a file: libucudnn.so tells there what it chose\n", stderr);
        exit(2);
    }
    return 1;
}

void ours_off(cudnnHandle_t handle) {
    if (!set_policy || set_policy(handle, UCUDNN_POLICY_OFF) == CUDNN_STATUS_SUCCESS) return;
    fputs("rnn_bench: ucudnnSetPolicy failed\n", stderr);
    exit(1);
}

void ours_mark(void) {
    mark = 0;
    FILE *file = fopen(report, "r");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    mark = ftell(file);
    fclose(file);
}

const char *ours_decision(void) {
    static char line[1 << 17], last[sizeof line]; /* a line has all configurations that were timed */
    FILE *file = fopen(report, "r");
    if (!file) return NULL;
    last[0] = '\0';
    fseek(file, mark, SEEK_SET);
    while (fgets(line, sizeof line, file)) {
        char *end = strchr(line, '\n');
        if (!end || !strstr(line, "\"event\":\"rnn\"")) continue;
        *end = '\0';
        memcpy(last, line, (size_t)(end - line) + 1);
    }
    fclose(file);
    return last[0] ? last : NULL;
}
