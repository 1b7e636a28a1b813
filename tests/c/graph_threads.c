/* Threads with a handle each execute plans at once: plans of their own, of the same problems and of others, and plans
 * that they share, each thread with its own memory and variant packs.
 *
 * graph_threads THREADS EXECUTIONS [fork AFTER | leave AFTER]
 *
 * With `fork`, the program forks after AFTER executions, and both processes run EXECUTIONS more. With `leave`, the
 * process ends after AFTER executions, whatever is under way. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph.h"

enum { MOST_THREADS = 8, SHARED = 4, SAME = 4, OWN = 2, KERNELS = SHARED + SAME + OWN };

/* One thread's use of one plan. */
typedef struct {
    Kernel kernel;
    Backend plan, pack;
    Guarded workspace;
} Use;

static struct {
    int threads, executions, leave;
    Backend shared[SHARED];
    pthread_barrier_t start;
} program;

static Shape shape_of(int thread, int index) {
    if (index < SHARED) return shape_square((Operation)index, 8, 6, 9, 6, 3, 1);
    if (index < SHARED + SAME) return shape_square((Operation)(index % 4), 12, 4, 7, 5, 3, 1);
    return shape_square((Operation)((thread + index) % 4), 4 + thread, 3 + index % 4, 8, 5, 3, 1);
}

static Backend plan_of(cudnnHandle_t handle, const Kernel *kernel, int wanted) {
    Backend graph = graph_new(handle, kernel, 4), offered[MOST_CONFIGURATIONS];
    int count = graph_configurations(graph, CUDNN_HEUR_MODE_A, offered);
    Backend plan = plan_new(handle, offered[wanted % count]);
    while (count > 0) backend_free(offered[--count]);
    backend_free(graph);
    return plan;
}

static void open_uses(cudnnHandle_t handle, int thread, Use uses[KERNELS]) {
    Random random = {(uint64_t)thread};
    for (int i = 0; i < KERNELS; i++) {
        Shape shape = shape_of(thread, i);
        kernel_open(&uses[i].kernel, &shape, &random);
        uses[i].plan = i < SHARED ? program.shared[i] : plan_of(handle, &uses[i].kernel, thread / 2);
        uses[i].workspace = guarded_new(plan_workspace(uses[i].plan));
        uses[i].pack = pack_new(&uses[i].kernel, uses[i].workspace.start);
    }
}

static void close_uses(Use uses[KERNELS]) {
    for (int i = 0; i < KERNELS; i++) {
        backend_free(uses[i].pack);
        if (i >= SHARED) backend_free(uses[i].plan);
        guarded_free(&uses[i].workspace);
        kernel_close(&uses[i].kernel);
    }
}

static void execute(cudnnHandle_t handle, int thread, Use uses[KERNELS], int executions) {
    while (executions-- > 0) {
        for (int i = 0; i < KERNELS; i++) {
            CALL(graph_run(handle, uses[i].plan, uses[i].pack, &uses[i].kernel));
            guarded_check(&uses[i].workspace, "the workspace");
            double error = kernel_error(&uses[i].kernel);
            REQUIRE(error <= kernel_tolerance(&uses[i].kernel), "thread %d, kernel %d: off by %g", thread, i, error);
        }
    }
}

static void *work(void *number) {
    int thread = (int)(intptr_t)number;
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    Use uses[KERNELS];
    pthread_barrier_wait(&program.start);
    open_uses(handle, thread, uses);
    if (thread == 0 && program.leave >= 0) execute(handle, thread, uses, program.leave), exit(0);
    execute(handle, thread, uses, program.executions);
    close_uses(uses);
    CALL(cudnnDestroy(handle));
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[MOST_THREADS];
    REQUIRE(pthread_barrier_init(&program.start, NULL, (unsigned)program.threads) == 0, "no barrier");
    for (int i = 0; i < program.threads; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "no thread");
    for (int i = 0; i < program.threads; i++) REQUIRE(pthread_join(threads[i], NULL) == 0, "not joined");
}

/* Executes, forks, and executes again in both processes. */
static void fork_after(cudnnHandle_t handle, int executions) {
    Use uses[KERNELS];
    open_uses(handle, 0, uses);
    execute(handle, 0, uses, executions);
    pid_t child = fork();
    REQUIRE(child >= 0, "no child");
    if (child == 0) alarm(600);
    execute(handle, 0, uses, program.executions);
    if (child == 0) {
        /* And new problems, whose candidates nobody has enumerated. */
        Use more[KERNELS];
        open_uses(handle, 5, more);
        execute(handle, 5, more, program.executions);
        close_uses(more);
    }
    close_uses(uses);
    if (child == 0) exit(0);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0, "the child's status is %x", status);
}

int main(int count, char **arguments) {
    REQUIRE(count == 3 || count == 5, "graph_threads THREADS EXECUTIONS [fork AFTER | leave AFTER]");
    program.threads = atoi(arguments[1]);
    program.executions = atoi(arguments[2]);
    program.leave = count == 5 && strcmp(arguments[3], "leave") == 0 ? atoi(arguments[4]) : -1;
    REQUIRE(program.threads > 0 && program.threads <= MOST_THREADS, "so many threads: %d", program.threads);
    cudnnHandle_t handle;
    CALL(cudnnCreate(&handle));
    for (int i = 0; i < SHARED; i++) {
        Kernel kernel;
        Random random = {1};
        Shape shape = shape_of(0, i);
        kernel_open(&kernel, &shape, &random);
        program.shared[i] = plan_of(handle, &kernel, 0);
        kernel_close(&kernel);
    }
    if (count == 5 && program.leave < 0) fork_after(handle, atoi(arguments[4]));
    else run_threads();
    for (int i = 0; i < SHARED; i++) backend_free(program.shared[i]);
    CALL(cudnnDestroy(handle));
    puts("ended");
    return 0;
}
