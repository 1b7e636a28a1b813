/* Random nets on random graphs: runs forward and backward and steps, against double precision.
 *
 * dynamic_random SEED CASES THREADS|device. On a device there are neither doubles nor steps. Prints a line for each
 * case: its type, vertices and levels; a bit for each operation that it has, and for each parameter with a gradient;
 * and the errors of outputs, gradients of inputs, gradients of parameters and the step, in roundings. */
#include <string.h>

#include "dynamic.h"

/* Gradients that are added to earlier ones are twice as large. */
static double twice(Case *c) {
    c->arguments.accumulatesGradients = 1;
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c->handle, c->batch, &c->arguments, NULL));
    c->arguments.accumulatesGradients = 0;
    for (int number = 0; number < c->net->description.parameterCount; number++)
        for (size_t i = 0; i < case_elements(c, PARAMETER, number); i++)
            c->expected[PARAMETER_GRADIENT][number][i] *= 2, c->magnitudes[PARAMETER_GRADIENT][number][i] *= 2;
    return case_error(c, PARAMETER_GRADIENT);
}

static void run(Case *c, double errors[4]) {
    DYNAMIC_OK(ucudnnRunVertexNetForward(c->handle, c->batch, &c->arguments, NULL));
    memset(c->workspace.start, 0xff, c->workspace.bytes);
    DYNAMIC_OK(ucudnnRunVertexNetBackward(c->handle, c->batch, &c->arguments, NULL));
    case_check(c, 0);
    for (int i = 0; i < 3; i++) errors[i] = case_error(c, PUSH + i);
    double error = twice(c);
    if (!(error <= errors[2])) errors[2] = error;
    errors[3] = 0;
    if (!c->net->description.isOnHost) return;
    case_poison(c);
    DYNAMIC_OK(ucudnnRunVertexNetStep(c->handle, c->batch, &c->arguments, NULL));
    errors[3] = case_step_error(c);
}

static unsigned long operations(const Net *net) {
    unsigned long bits = 0;
    for (int f = 0; f < net->description.functionCount; f++)
        for (int i = 0; i < net->functions[f].operationCount; i++) bits |= 1ul << net->operations[f][i].op;
    return bits;
}

static unsigned long gradients(const Case *c) {
    unsigned long bits = 0;
    for (int number = 0; number < c->net->description.parameterCount; number++)
        for (size_t i = 0; i < case_elements(c, PARAMETER, number); i++)
            if (c->expected[PARAMETER_GRADIENT][number][i] != 0) bits |= 1ul << number;
    return bits;
}

int main(int count, char **arguments) {
    static const cudnnDataType_t TYPES[] = {CUDNN_DATA_DOUBLE, CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    static const char *const NAMES[] = {"double", "float", "half", "bfloat16"};
    REQUIRE(count == 4, "dynamic_random SEED CASES THREADS|device");
    int is_on_device = strcmp(arguments[3], "device") == 0;
    Random random = {strtoull(arguments[1], NULL, 10)};
    for (int number = 0; number < atoi(arguments[2]);) {
        static Net net;
        static Trees trees;
        static Case c;
        int type = is_on_device ? 1 + number % 3 : number % 4;
        long long ids[GRAPHS];
        net_random(&net, TYPES[type], &random);
        net.description.hostThreads = atoi(arguments[3]);
        if (is_on_device) net.description.isOnHost = 0;
        trees_random(&trees, &net, &random);
        int graphs = 1 + random_below(&random, GRAPHS);
        for (int i = 0; i < graphs; i++) ids[i] = random_below(&random, (int)trees.description.graphs);
        case_open(&c, &net, &trees, ids, graphs, &random);
        number++;
        case_expect(&c);
        double errors[4];
        run(&c, errors);
        printf("%s %lld %lld ", NAMES[type], c.sizes.vertices, c.sizes.levels);
        printf("%#lx %#lx", operations(&net), gradients(&c));
        printf("|%g %g %g %g\n", errors[0], errors[1], errors[2], errors[3]);
        case_close(&c);
    }
    puts("ended");
    return 0;
}
