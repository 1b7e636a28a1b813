/* Random networks by the direct call, each run on several batches. Prints a line for each batch: its description, the
 * configuration that runs it, and the errors of y, hy and cy against double precision.
 *
 * direct_random SEED NETWORKS [LARGEST [CONFIGURATION [CELL]]] */
#include <math.h>
#include <string.h>

#include "direct.h"

/* In three rounds of the cells, any two of cell, type, layers and directions occur together; the rest is random. */
static ucudnnRnnDescription_t describe(int i, int largest, Random *random) {
    static const ucudnnRnnCell_t cells[] = {UCUDNN_RNN_RELU, UCUDNN_RNN_TANH, UCUDNN_RNN_LSTM, UCUDNN_RNN_GRU,
                                            UCUDNN_RNN_CANONICAL_GRU};
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    enum { CELLS = sizeof cells / sizeof *cells };
    ucudnnRnnDescription_t d = direct_plain(1 + random_below(random, largest), 1 + random_below(random, 7),
                                            1 + random_below(random, 5));
    /* Sometimes more units than one block takes. */
    if (i % 5 == 2) d.hiddenSize += largest;
    int cell = i % CELLS, round = i / CELLS;
    d.cell = cells[cell], d.dataType = types[round % 3];
    d.layers = 1 + (cell + round) % 3, d.directions = 1 + (cell + round) % 2;
    d.hasBiases = random_below(random, 2), d.allowTf32 = random_below(random, 2);
    d.inputSize = 1 + random_below(random, 40);
    return d;
}

static void run_batch(Direct *direct, const char *name, Random *random) {
    const ucudnnRnnDescription_t *d = &direct->description;
    int layout = random_below(random, 3), packed = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    int batch = 1 + random_below(random, d->maxBatch), steps = 1 + random_below(random, d->maxSteps);
    int lengths[MOST_BATCH], varied = random_below(random, 2);
    for (int i = 0; i < batch; i++) lengths[i] = packed ? 1 + random_below(random, steps) : random_below(random, steps + 1);
    if (packed) {
        lengths[0] = steps;
        for (int i = 1; i < batch; i++)
            if (lengths[i] > lengths[i - 1]) lengths[i] = lengths[i - 1];
    }
    direct_bring(direct, layout, batch, steps, varied ? lengths : NULL, random);
    RUN_OK(direct_run(direct, NULL));
    direct_check(direct, 0);
    double deviations[3];
    direct_errors(direct, deviations);
    printf("cell %d type %d layers %d directions %d biases %d input %d hidden %d layout %d batch %d of %d steps %d%s|%s|"
           "%.3f|%.3f|%.3f\n", d->cell, d->dataType, d->layers, d->directions, d->hasBiases, d->inputSize, d->hiddenSize,
           layout, batch, d->maxBatch, steps, varied ? " varied" : "", name, deviations[0], deviations[1], deviations[2]);
    fflush(stdout);
    direct_leave(direct);
}

int main(int count, char **arguments) {
    REQUIRE(count >= 3 && count <= 6, "direct_random SEED NETWORKS [LARGEST [CONFIGURATION [CELL]]]");
    Random random = {strtoull(arguments[1], NULL, 10)};
    for (int i = 0; i < atoi(arguments[2]); i++) {
        ucudnnRnnDescription_t description = describe(i, count > 3 ? atoi(arguments[3]) : 70, &random);
        if (count > 4) description.configuration = arguments[4];
        if (count > 5) description.cell = atoi(arguments[5]);
        Direct direct;
        direct_open(&direct, &description, &random);
        char name[128], again[128];
        size_t needed;
        RUN_OK(ucudnnGetRnnConfiguration(direct.rnn, name, sizeof name, &needed));
        REQUIRE(needed == strlen(name) + 1, "%s", name);
        for (int batch = 0; batch < 3; batch++) run_batch(&direct, name, &random);
        /* A program can ask for the chosen configuration by its name. */
        ucudnnRnn_t same;
        description.configuration = name;
        RUN_OK(ucudnnCreateRnn(&same, &description));
        RUN_OK(ucudnnGetRnnConfiguration(same, again, sizeof again, &needed));
        REQUIRE(strcmp(name, again) == 0, "%s, and asked for %s", again, name);
        RUN_OK(ucudnnDestroyRnn(same));
        direct_close(&direct);
    }
    puts("ended");
    return 0;
}
