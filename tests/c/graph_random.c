/* Random convolutions through the graph API, alone or followed by a sum, a bias and ReLU: some plans of each, executed
 * up to 60 times, while workspaces and variant packs change. Every result is compared with double precision.
 *
 * graph_random SEED CASES [packed|ours|covered|volumes|patches|embeddings|depthwise|grouped [ROUNDS]]
 *
 * With `packed`, all convolutions can run on copies with channels last; with `ours`, ucudnn's engines can compute all; with
 * `covered`, filters cover images, and every other case is large, and executed a few times only; with `volumes`, all
 * convolutions keep the size of volumes; with `patches`, all strides are the filter's sizes; with `embeddings`, they are
 * so in large convolutions of volumes of few channels, each executed once; with `depthwise`, each channel has filters of
 * its own; with `grouped`, there are several groups, or many channels, and dilation. After ROUNDS, no plan is executed.
 *
 * Prints a line for each plan: the case, its shape, whether its mini-batch can be cut, the workspace that the plan
 * reported, the executions and the largest error. */
#include <string.h>

#include "graph.h"

enum { MOST_PLANS = 3, ROUNDS = 60 };

typedef struct {
    Kernel kernel;
    int plans, executions[MOST_PLANS];
    Backend plan[MOST_PLANS], pack[MOST_PLANS];
    Guarded workspace[MOST_PLANS];
    double error[MOST_PLANS];
    Random random;
} Case;

static cudnnHandle_t handle;
/* The kinds of convolutions, by the words for them. */
enum { ANY, PACKED, OURS_ONLY, COVERED, VOLUMES, PATCHES, EMBEDDINGS, DEPTHWISE, GROUPED, KINDS };
static const char *const kinds[KINDS] = {"",        "packed",     "ours",      "covered", "volumes",
                                         "patches", "embeddings", "depthwise", "grouped"};
static int kind;

static int chance(Random *random, int percent) { return random_below(random, 100) < percent; }

static Shape random_shape(Random *random) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE,
                                            CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    static const int filters[] = {1, 2, 3, 3, 3, 5};
    /* Both have one sign: where a sum cancels out, only its rounding errors are left. */
    static const double scales[][2] = {{1, 0}, {1, 0}, {1, 1}, {0.5, 0}, {1, 0.5}, {-2, -0.5}};
    /* The cases take these in turn, so that each occurs. */
    enum { OURS = 8 };
    static const struct {
        Operation operation;
        cudnnDataType_t type;
    } ours[OURS] = {
        {BACKWARD_FILTER, CUDNN_DATA_FLOAT}, {FORWARD, CUDNN_DATA_FLOAT},
        {BACKWARD_FILTER, CUDNN_DATA_HALF},  {BACKWARD_DATA, CUDNN_DATA_FLOAT},
        {BACKWARD_FILTER, CUDNN_DATA_FLOAT}, {FORWARD, CUDNN_DATA_HALF},
        {BACKWARD_FILTER, CUDNN_DATA_BFLOAT16}, {BACKWARD_DATA, CUDNN_DATA_BFLOAT16},
    };
    static int made;
    Shape s = {0};
    for (;;) {
        s.operation = (Operation)random_below(random, 4);
        s.type = types[random_below(random, 6)];
        s.spatial = chance(random, 15) ? 3 : 2;
        s.groups = chance(random, 25) ? 2 + random_below(random, 2) : 1;
        s.x[0] = 1 + random_below(random, 40);
        s.w[1] = 1 + random_below(random, 5);
        s.x[1] = s.w[1] * s.groups;
        s.w[0] = s.groups * (1 + random_below(random, 5));
        for (int i = 0; i < 3; i++) {
            int absent = i == 0 && s.spatial == 2;
            s.x[i + 2] = absent ? 1 : 1 + random_below(random, s.spatial == 3 ? 4 : 8);
            s.w[i + 2] = absent ? 1 : filters[random_below(random, 6)];
            s.pad[i] = absent ? 0 : random_below(random, 3);
            s.stride[i] = absent || chance(random, 75) ? 1 : 2;
            s.dilation[i] = absent || chance(random, 85) ? 1 : 2;
        }
        if (chance(random, 60)) s.w[4] = s.w[3]; /* most filters are square */
        s.flip = chance(random, 20);
        const double *scale = scales[random_below(random, 6)];
        s.alpha = scale[0];
        s.beta = scale[1];
        if (s.operation == FUSED) { /* alpha and beta get the bias's sign */
            s.alpha = s.alpha < 0 ? -s.alpha : s.alpha;
            s.beta = s.beta < 0 ? -s.beta : s.beta;
        }
        s.relu = chance(random, 70);
        s.z_apart = chance(random, 50);
        if (kind == PACKED) {
            if (s.operation == FUSED || s.groups > 1 || s.type == CUDNN_DATA_DOUBLE) continue;
            s.x[1] = s.w[1] = 2 + random_below(random, 15), s.w[0] = 2 + random_below(random, 15);
            s.beta = 0;
            int samples = s.spatial == 2 && chance(random, 30); /* a 1x1 filter with strides */
            for (int i = 1; samples && i < 3; i++) {
                s.w[i + 2] = s.dilation[i] = 1, s.pad[i] = 0, s.stride[i] = 1 + random_below(random, 3);
            }
        }
        if (kind == OURS_ONLY) {
            s.operation = ours[made % OURS].operation, s.type = ours[made % OURS].type, s.spatial = 2;
            int is_gradient = s.operation == BACKWARD_FILTER;
            s.x[2] = s.w[2] = 1, s.pad[0] = 0, s.stride[0] = s.dilation[0] = 1;
            s.groups = 1, s.flip = 0;
            s.x[1] = s.w[1] = 1 + random_below(random, 15), s.w[0] = 1 + random_below(random, 15);
            int stride = 1 + random_below(random, 2), pad = random_below(random, 2);
            for (int i = 1; i < 3; i++) {
                s.w[i + 2] = 2 + random_below(random, 2), s.dilation[i] = 1;
                s.stride[i] = stride, s.pad[i] = pad;
            }
            if (!is_gradient) { /* many channels, and a filter with a centre */
                s.x[0] = 1 + random_below(random, 5);
                s.x[1] = s.w[1] = 32 + random_below(random, 4), s.w[0] = 32 + random_below(random, 4);
                s.w[3] = s.w[4] = 1 + 2 * random_below(random, 2);
                if (s.w[3] == 1) s.pad[1] = s.pad[2] = 0;
                if (s.operation == BACKWARD_DATA) s.stride[1] = s.stride[2] = 1;
            }
            int turn = made / OURS % 4, few = s.operation == FORWARD && turn != 2;
            int on_warpgroups = s.type != CUDNN_DATA_FLOAT && (few || (is_gradient ? turn % 2 == 0 : turn != 3));
            if (on_warpgroups) { /* an image keeps its size, or has few channels */
                int is_one_place = is_gradient ? turn == 0 : (few || turn == 0) && chance(random, 50);
                int filter = is_one_place ? 1 : 3;
                s.x[0] = 1 + random_below(random, 5);
                s.x[1] = s.w[1] = few ? 1 + random_below(random, 8) : 32 + 8 * random_below(random, 3);
                s.w[0] = 32 + 8 * random_below(random, 3);
                for (int i = 1; i < 3; i++) {
                    s.x[i + 2] = (few ? 14 : 7) + random_below(random, 6), s.w[i + 2] = filter, s.pad[i] = filter / 2;
                    s.stride[i] = few ? stride : 1;
                }
            }
            /* In a two-byte type, each row must begin at a four-byte word. */
            if (!on_warpgroups && is_gradient && s.type != CUDNN_DATA_FLOAT && (s.x[4] % 2 || (s.x[4] + 2 * pad - s.w[4]) / stride % 2 == 0)) continue;
        }
        if (kind == COVERED) {
            int is_large = made % 2;
            s.operation = (Operation)(made / 2 % 3), s.groups = 1, s.flip = 0;
            s.type = (cudnnDataType_t[]){CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}[made / 6 % 3];
            s.x[1] = s.w[1] = is_large ? 16 : 1 + random_below(random, 9);
            s.w[0] = is_large ? 520 : 1 + random_below(random, 40);
            s.x[0] = is_large ? 65 : 2 + random_below(random, 60);
            for (int i = 0; i < 3; i++) {
                int size = is_large ? (i == 0 ? 2 : 4) : 1 + random_below(random, 3);
                s.x[i + 2] = s.w[i + 2] = i == 0 && s.spatial == 2 ? 1 : size;
                s.pad[i] = 0, s.stride[i] = s.w[i + 2], s.dilation[i] = 1;
            }
            if (is_large && s.spatial == 2) s.x[3] = s.w[3] = s.stride[1] = 8;
        }
        if (kind == VOLUMES) {
            s.operation = (Operation)(made % 3), s.groups = 1, s.flip = 0, s.spatial = 3;
            s.type = made / 3 % 2 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
            s.x[0] = 1 + random_below(random, 3), s.x[1] = s.w[1] = 32 + 8 * random_below(random, 3);
            s.w[0] = 32 + 8 * random_below(random, 3);
            for (int i = 0; i < 3; i++) {
                s.x[i + 2] = i == 0 ? 1 + random_below(random, 5) : 7 + random_below(random, 6);
                s.w[i + 2] = i == 0 && chance(random, 30) ? 1 : 3;
                s.pad[i] = s.w[i + 2] / 2, s.stride[i] = s.dilation[i] = 1;
            }
        }
        if (kind == PATCHES || kind == EMBEDDINGS) {
            s.operation = (Operation)(made % 3), s.groups = 1, s.flip = 0;
            s.type = (cudnnDataType_t[]){CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}[made / 3 % 3];
            int is_large = kind == EMBEDDINGS;
            if (is_large) s.spatial = 3;
            s.x[0] = is_large ? 65 : 1 + random_below(random, 5);
            s.x[1] = s.w[1] = is_large ? 3 : 1 + random_below(random, 9);
            s.w[0] = is_large ? 520 : 1 + random_below(random, 20);
            for (int i = 0; i < 3; i++) {
                int is_flat = i == 0 && s.spatial == 2;
                int least = i == 2 ? 2 : 1, patches = is_flat ? 1 : is_large ? 1 + (i > 0) : 1 + random_below(random, 4);
                int size = is_flat ? 1 : is_large ? 4 : least + random_below(random, 5);
                s.w[i + 2] = s.stride[i] = size, s.pad[i] = 0, s.dilation[i] = 1;
                s.x[i + 2] = size * patches + random_below(random, size);
            }
        }
        if (kind == DEPTHWISE) {
            s.operation = (Operation)(made % 3), s.flip = 0;
            s.type = (cudnnDataType_t[]){CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}[made / 3 % 3];
            s.x[0] = 1 + random_below(random, 5), s.x[1] = s.groups = 1 + random_below(random, 20), s.w[1] = 1;
            s.w[0] = s.groups * (1 + random_below(random, 3));
            for (int i = 1; i < 3; i++) s.stride[i] = 1 + random_below(random, 4);
        }
        if (kind == GROUPED) {
            s.operation = (Operation)(made % 3), s.flip = 0;
            s.type = (cudnnDataType_t[]){CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}[made / 3 % 3];
            s.groups = chance(random, 75) ? 2 + random_below(random, 8) : 1;
            int least = s.groups > 1 ? 2 : 32;
            s.x[0] = 1 + random_below(random, 5), s.w[1] = least + random_below(random, 18);
            s.w[0] = s.groups * (least + random_below(random, 18)), s.x[1] = s.groups * s.w[1];
            int is_dilated = chance(random, 50);
            for (int i = 0; i < 3; i++) s.dilation[i] = is_dilated && s.w[i + 2] > 1 ? 1 + random_below(random, 4) : 1;
        }
        int layout = kind == ANY && chance(random, 60) ? 1 + random_below(random, 3) : 0;
        s.w_format = layout == 1 && chance(random, 80) ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
        if (!shape_output(&s)) continue;
        made++;
        shape_layout(&s, layout);
        return s;
    }
}

static void case_open(Case *c, Random *random) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_INSTANT,
                                                   CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
    Shape shape = random_shape(random);
    kernel_open(&c->kernel, &shape, random);
    int64_t element = shape.type == CUDNN_DATA_DOUBLE ? 8 : shape.type == CUDNN_DATA_FLOAT ? 4 : 2;
    Backend graph = graph_new(handle, &c->kernel, kind != ANY || chance(random, 50) ? 16 : element);
    Backend offered[MOST_CONFIGURATIONS];
    int count = graph_configurations(graph, modes[random_below(random, 5)], offered);
    REQUIRE(count > 0, "nothing is offered");
    int is_large = kind == EMBEDDINGS || (kind == COVERED && shape.w[0] == 520);
    int wanted = is_large ? 1 : kind == PATCHES ? MOST_PLANS : 1 + random_below(random, MOST_PLANS);
    for (int i = 0; i < wanted; i++) {
        /* The engines that need workspace come last. */
        int plan = c->plans, choice = kind == PATCHES ? count - 1 - i % count : random_below(random, count);
        int executions = kind == EMBEDDINGS ? 1 : is_large ? 2 : kind == VOLUMES ? 16 : ROUNDS;
        if (!is_large && kind != VOLUMES && !chance(random, 60)) executions = 1 + random_below(random, ROUNDS);
        cudnnStatus_t status = plan_finalize(handle, offered[choice], &c->plan[plan]);
        if (status == CUDNN_STATUS_NOT_SUPPORTED) { /* heuristics may return candidates that do not run */
            backend_free(c->plan[plan]);
            continue;
        }
        REQUIRE(status == CUDNN_STATUS_SUCCESS, "%s", cudnnGetErrorString(status));
        c->workspace[plan] = guarded_new(plan_workspace(c->plan[plan]));
        c->pack[plan] = pack_new(&c->kernel, c->workspace[plan].start);
        c->executions[plan] = executions;
        c->plans++;
    }
    for (int i = 0; i < count; i++) backend_free(offered[i]);
    backend_free(graph);
    c->random = *random;
}

static void case_close(Case *c) {
    for (int i = 0; i < c->plans; i++) {
        backend_free(c->plan[i]), backend_free(c->pack[i]);
        guarded_free(&c->workspace[i]);
    }
    kernel_close(&c->kernel);
}

/* Moves the workspace and makes a pack for it: allocators do not return the same addresses. */
static void move_workspace(Case *c, int plan) {
    Guarded before = c->workspace[plan];
    c->workspace[plan] = guarded_new(before.bytes);
    guarded_free(&before);
    backend_free(c->pack[plan]);
    c->pack[plan] = pack_new(&c->kernel, c->workspace[plan].start);
}

/* One execution. Returns whether its result is right. */
static int execute(Case *c, int plan) {
    if (chance(&c->random, 25)) move_workspace(c, plan);
    memset(c->workspace[plan].start, 0xFF, c->workspace[plan].bytes); /* NaN: a plan must not read it */
    cudnnStatus_t status = graph_run(handle, c->plan[plan], c->pack[plan], &c->kernel);
    REQUIRE(status == CUDNN_STATUS_SUCCESS, "%s", cudnnGetErrorString(status));
    guarded_check(&c->workspace[plan], "the workspace");
    double error = kernel_error(&c->kernel);
    if (!(error <= c->error[plan])) c->error[plan] = error;
    return error <= kernel_tolerance(&c->kernel);
}

static void report(FILE *file, const Case *c, int number, int plan) {
    char shape[512];
    shape_print(&c->kernel.shape, shape, sizeof shape);
    fprintf(file, "plan %d|%s%s|%d|%zu|%d|%g\n", number, shape, c->kernel.shape.operation == FUSED ? " fused" : "",
            c->kernel.shape.x[0] > 1, c->workspace[plan].bytes, c->executions[plan], c->error[plan]);
}

int main(int count, char **arguments) {
    for (kind = count > 3 ? KINDS - 1 : ANY; kind > ANY && strcmp(arguments[3], kinds[kind]); kind--) {}
    REQUIRE(count == 3 || (kind != ANY && (count == 4 || count == 5)),
            "graph_random SEED CASES [packed|ours|covered|volumes|patches|embeddings|depthwise|grouped [ROUNDS]]");
    int rounds = count == 5 ? atoi(arguments[4]) : ROUNDS;
    Random random = {strtoull(arguments[1], NULL, 10)};
    int cases = atoi(arguments[2]), wrong = 0;
    CALL(cudnnCreate(&handle));
    Case *all = calloc((size_t)cases, sizeof *all);
    REQUIRE(all, "no memory");
    for (int i = 0; i < cases; i++) {
        Random own = {random_bits(&random)};
        case_open(&all[i], &own);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < cases; i++) {
            for (int plan = 0; plan < all[i].plans; plan++) {
                if (round >= all[i].executions[plan] || execute(&all[i], plan)) continue;
                fprintf(stderr, "wrong in execution %d: ", round + 1);
                report(stderr, &all[i], i, plan);
                wrong++;
            }
        }
    }
    for (int i = 0; i < cases; i++) {
        for (int plan = 0; plan < all[i].plans; plan++) report(stdout, &all[i], i, plan);
        case_close(&all[i]);
    }
    free(all);
    CALL(cudnnDestroy(handle));
    return wrong > 0;
}
