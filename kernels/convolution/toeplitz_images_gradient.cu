// The gradient of the filters of a convolution in which each channel has filters of its own, on tensor cores, as
// `toeplitz_gradient.cu` computes it, of many images: with strides and dilation of 1, filters of one slice, and few rows
// and columns of dy.
//
// A product's depth is 16 images. For a row r of the filter, a warp multiplies 16 neighbouring columns of x in 16
// images, transposed, by 8 columns of dy, where x has its row r further down: the sum over the images, for each column j
// of x and each column q of dy. It keeps these sums over all rows and strips. What a warp reads once from shared memory,
// a row of x, is multiplied by as many rows of dy as the filter has, which it keeps in registers. At the end, dw[r][s]
// is the sum of those whose j is q + s.
//
// A block takes strips of IMAGES planes of a channel, one after the other, in steps of ROWS rows, and copies the next
// steps while it multiplies. The parts' sums meet in the workspace, and `sum_up` adds them up.
//
// Compiled with ELEMENT_HALF or ELEMENT_BFLOAT16; PIECE_X and PIECE_DY, the numbers that are copied at once; and what
// `image_rows.cuh` says. All else is a parameter, the columns of the filter too. Grid: a block for each channel and
// part; of `sum_up`, a thread for each element of dw. Dynamic shared memory: STAGES steps of x, then of dy; or the sums of
// each warp's products with a row, and those of each warp's places, if that is more.

#define THREADS 256
#define WARPS (THREADS / 32)
#define MULTIPROCESSOR_BLOCKS 3
#include "common/tiles.cuh"
#include "convolution/diagonals.cuh"
#include "convolution/image_rows.cuh"
#include "convolution/sum_up.cuh"

struct ToeplitzImagesGradient {
    const Element *x, *dy;
    Element *dw;
    // The sums of each part, as dw has them, if there are several.
    float *sums;
    // The channels of dy and of x, and the filters of each channel of x.
    int channels, x_channels;
    Divisor each;
    // The planes of a channel in all images, their strips, the blocks that share these out, and the steps of one.
    int count, strips, parts, steps;
    // The slices of a channel, and the sizes of the planes of x and of dy.
    Divisor slices;
    int height, width, out_height, out_width;
    // The zeros before the first row of x, and the first column that is read, beside the planes of x or in them.
    int before_rows, first_column;
    int filter_columns;
    // The columns of x before the first that a product needs.
    int shift;
    float alpha, beta;
};

KERNEL(toeplitz_images_gradient, ToeplitzImagesGradient) {
    SHARED(float, shared);
    const ToeplitzImagesGradient &of = parameters;
    const int channel = blockIdx.x, part = blockIdx.y;
    Element *const of_x = reinterpret_cast<Element *>(shared), *const of_dy = of_x + STAGES * STAGE;
    const ChannelPlanes x = {of.x, of.x_channels, of.each.quotient(channel), of.slices, of.height, of.width};
    const ChannelPlanes dy = {of.dy, of.channels, channel, of.slices, of.out_height, of.out_width};
    Step ahead = {part, 0};
    int stage_ahead = 0;
    const auto copy = [&] {
        if (ahead.strip < of.strips) {
            const int first = ahead.strip * IMAGES, row = ahead.number * ROWS, begin = stage_ahead * STAGE;
            copy_rows<PIECE_X, READ_COLUMNS>(x, first, of.count, row - of.before_rows, of.first_column, of_x + begin);
            copy_rows<PIECE_DY, TILES * 8>(dy, first, of.count, row, 0, of_dy + begin);
        }
        end_group();
        ahead.advance(of.steps, of.parts);
        if (++stage_ahead == STAGES) stage_ahead = 0;
    };
#pragma unroll 1
    for (int i = 0; i + 1 < STAGES; i++) copy();
    const int begin_of_warp = image_of_warp() * IMAGE_PITCH + tile_of_warp() * 8;
    float sums[FILTER_ROWS][1][4] = {};
    unsigned rows_of_dy[FILTER_ROWS][2];
    int stage = 0;
#pragma unroll 1
    for (Step step = {part, 0}; step.strip < of.strips; step.advance(of.steps, of.parts)) {
        wait_for_groups<STAGES - 2>();
        // Behind it nobody reads the numbers of the last step.
        barrier();
        copy();
        // There is nothing above dy.
#pragma unroll
        for (int r = 0; r < FILTER_ROWS; r++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (step.number == 0) rows_of_dy[r][i] = 0;
        const Element *const its_x = of_x + stage * STAGE + begin_of_warp;
        const Transposed its_dy(of_dy + stage * STAGE + begin_of_warp, IMAGE_PITCH);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            unsigned a[4];
            read_columns(its_x + row * PITCH, IMAGE_PITCH, a);
            its_dy.read(row * PITCH, rows_of_dy[row % FILTER_ROWS]);
#pragma unroll
            for (int r = 0; r < FILTER_ROWS; r++)
                warp_mma(sums[r][0], a, rows_of_dy[(row + ROWS - r) % FILTER_ROWS]);
        }
        if (++stage == STAGES) stage = 0;
    }
    barrier();
    float *const products = shared, *const places = shared + WARPS * diagonal_words<1>();
    const int filter_places = FILTER_ROWS * of.filter_columns;
    sum_diagonals<1>(sums, of.filter_columns, of.shift, products + WARP * diagonal_words<1>(),
                     places + WARP * filter_places);
    barrier();
#pragma unroll 1
    for (int i = threadIdx.x; i < filter_places; i += THREADS) {
        float sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) sum += places[warp * filter_places + i];
        const int at = channel * filter_places + i;
        if (of.parts == 1) scale_into(of.dw[at], sum, of.alpha, of.beta);
        else of.sums[part * of.channels * filter_places + at] = sum;
    }
}
