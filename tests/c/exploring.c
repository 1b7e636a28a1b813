/* Runs convolutions, and prints the milliseconds of hostdnn's clock after asking for algorithms and after each step.
 *
 * exploring get|fixed|graph STEPS [SETTLED [MORE]]
 *
 * A program that does not ask by the legacy API goes on after STEPS until the report (UCUDNN_REPORT), if there is one,
 * says that so many convolutions have settled: one, if the program is not told. Then it makes MORE steps. */
#include <string.h>

#include "device_time.h"
#include "network.h"

/* MOST_STEPS: more than any convolution needs, so that one that never settles fails. */
enum { MOST_STEPS = 100000 };

static int have_settled(int wanted) {
    const char *name = getenv("UCUDNN_REPORT");
    FILE *report = name ? fopen(name, "r") : NULL;
    char line[4096];
    int settled = 0;
    while (report && fgets(line, sizeof line, report)) settled += strstr(line, "\"event\":\"ran\"") != NULL;
    if (report) fclose(report);
    return name == NULL || settled >= wanted;
}

static void make_step(cudnnHandle_t handle, Network *network) {
    for (int i = 0; i < network->count; i++) use_run(handle, &network->uses[i]);
    say_time();
}

int main(int count, char **arguments) {
    REQUIRE(count >= 3 && count <= 5, "exploring get|fixed|graph STEPS [SETTLED [MORE]]");
    int wanted = count > 3 ? atoi(arguments[3]) : 1, more = count > 4 ? atoi(arguments[4]) : 0;
    int by_graph = strcmp(arguments[1], "graph") == 0;
    Ask ask = ask_named(by_graph ? "get" : arguments[1]);
    int waits = by_graph || ask != GET; /* else tuning comes with the answer */
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Network network;
    network_open(&network, 8, 6);
    if (by_graph) network_by_graph(&network);
    for (int i = 0; i < network.count; i++) use_ask(handle, &network.uses[i], ask);
    say_time();
    for (long step = 0; step < atol(arguments[2]) || (waits && !have_settled(wanted)); step++) {
        REQUIRE(step < MOST_STEPS, "nothing settles");
        make_step(handle, &network);
    }
    for (int step = 0; step < more; step++) make_step(handle, &network);
    network_close(&network);
    CALL(cudnnDestroy(handle));
    return 0;
}
