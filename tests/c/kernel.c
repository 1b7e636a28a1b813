#include "kernel.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { GUARD = 4096, CANARY = 0xA5, POISON = 0xFF /* a NaN in every type */ };
/* Where errors spread as assumed, more deviations occur once in ten thousand times. */
enum { MOST_DEVIATIONS = 4 };

uint64_t random_bits(Random *random) {
    uint64_t z = (random->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int random_below(Random *random, int below) { return (int)(random_bits(random) % (uint64_t)below); }

/* ---- memory ---- */

Guarded guarded_new(size_t bytes) {
    unsigned char *memory = aligned_alloc(256, (bytes + 2 * GUARD + 255) / 256 * 256); /* as devices' memory is */
    REQUIRE(memory, "%zu bytes", bytes);
    memset(memory, CANARY, bytes + 2 * GUARD);
    Guarded guarded = {memory + GUARD, bytes};
    return guarded;
}

/* Quicker than a look at each byte: all are equal, and the first is right. */
static int is_intact(const unsigned char *guard) {
    return guard[0] == CANARY && memcmp(guard, guard + 1, GUARD - 1) == 0;
}

void guarded_check(const Guarded *memory, const char *what) {
    if (is_intact(memory->start - GUARD) && is_intact(memory->start + memory->bytes)) return;
    for (size_t i = 0; i < GUARD; i++) {
        REQUIRE(memory->start[i - GUARD] == CANARY, "%s: byte -%zu was written", what, GUARD - i);
        REQUIRE(memory->start[memory->bytes + i] == CANARY, "%s: byte %zu behind was written", what, i);
    }
}

void guarded_free(Guarded *memory) {
    free(memory->start - GUARD);
    memory->start = NULL;
}

/* ---- elements ---- */

size_t size_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? fraction * 0x1p-24
                   : exponent == 31 ? (fraction ? NAN : INFINITY)
                                    : (double)((int64_t)(1024 + fraction) << exponent) * 0x1p-25;
    return bits >> 15 ? -value : value;
}

/* The half that is nearest to a value of magnitude below 65504, subnormal halves included. */
static uint16_t half_bits(double value) {
    double magnitude = fabs(value);
    int exponent = magnitude < ldexp(1, -14) ? -14 : ilogb(magnitude);
    /* A carry out of the fraction increments the exponent. */
    unsigned bits = (unsigned)nearbyint(ldexp(magnitude, 10 - exponent)) + ((unsigned)(exponent + 14) << 10);
    return (uint16_t)(bits | (signbit(value) ? 0x8000 : 0));
}

static double bfloat16_value(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t bfloat16_bits(double value) {
    float narrow = (float)value;
    uint32_t word;
    memcpy(&word, &narrow, sizeof word);
    return (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

double value_at(const Guarded *memory, cudnnDataType_t type, size_t i) {
    uint16_t bits;
    float single;
    double value;
    switch (type) {
        case CUDNN_DATA_DOUBLE: memcpy(&value, memory->start + 8 * i, 8); return value;
        case CUDNN_DATA_FLOAT: memcpy(&single, memory->start + 4 * i, 4); return single;
        default: memcpy(&bits, memory->start + 2 * i, 2);
    }
    return type == CUDNN_DATA_HALF ? half_value(bits) : bfloat16_value(bits);
}

void set_element(unsigned char *to, cudnnDataType_t type, double value) {
    float single = (float)value;
    uint16_t bits;
    switch (type) {
        case CUDNN_DATA_DOUBLE: memcpy(to, &value, 8); break;
        case CUDNN_DATA_FLOAT: memcpy(to, &single, 4); break;
        default:
            bits = type == CUDNN_DATA_HALF ? half_bits(value) : bfloat16_bits(value);
            memcpy(to, &bits, 2);
    }
}

/* Stores a random value from -0.5 to 1, a range whose sums seldom cancel out, and returns the value. */
static double store_random(cudnnDataType_t type, unsigned char *memory, size_t index, Random *random) {
    double value = (double)(random_bits(random) >> 11) / 9007199254740992.0 * 1.5 - 0.5;
    if (type == CUDNN_DATA_FLOAT) value = (float)value;
    if (size_of(type) == 2) {
        int steps = type == CUDNN_DATA_BFLOAT16 ? 128 : 1024;
        value = floor(value * steps) / steps;
    }
    set_element(memory + index * size_of(type), type, value);
    return value;
}

/* ---- shapes ---- */

static size_t product(const int dims[5]) {
    return (size_t)dims[0] * (size_t)dims[1] * (size_t)dims[2] * (size_t)dims[3] * (size_t)dims[4];
}

static void packed(const int dims[5], const int order[5], const int gaps[5], int strides[5]) {
    int stride = 1;
    for (int i = 4; i >= 0; i--) {
        strides[order[i]] = stride;
        stride = stride * dims[order[i]] + gaps[i];
    }
}

void shape_layout(Shape *shape, int layout) {
    static const int orders[4][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}, {0, 1, 2, 3, 4}, {1, 0, 2, 3, 4}};
    static const int gaps[4][5] = {{0}, {0}, {0, 5, 0, 3, 1}, {0}};
    packed(shape->x, orders[layout], gaps[layout], shape->x_strides);
    packed(shape->y, orders[layout], gaps[layout], shape->y_strides);
}

int shape_output(Shape *shape) {
    shape->y[0] = shape->x[0];
    shape->y[1] = shape->w[0];
    for (int i = 0; i < 3; i++) {
        int window = (shape->w[i + 2] - 1) * shape->dilation[i] + 1;
        int slack = shape->x[i + 2] + 2 * shape->pad[i] - window;
        if (slack < 0) return 0;
        shape->y[i + 2] = slack / shape->stride[i] + 1;
    }
    return 1;
}

Shape shape_square(Operation operation, int n, int c, int size, int k, int filter, int pad) {
    Shape shape = {.operation = operation,
                   .type = CUDNN_DATA_FLOAT,
                   .spatial = 2,
                   .x = {n, c, 1, size, size},
                   .w = {k, c, 1, filter, filter},
                   .w_format = CUDNN_TENSOR_NCHW,
                   .pad = {0, pad, pad},
                   .stride = {1, 1, 1},
                   .dilation = {1, 1, 1},
                   .groups = 1,
                   .alpha = 1,
                   .relu = 1};
    REQUIRE(shape_output(&shape), "no output");
    shape_layout(&shape, 0);
    return shape;
}

cudnnDataType_t two_byte_type(const char *name) {
    int is_half = strcmp(name, "half") == 0;
    REQUIRE(is_half || strcmp(name, "bfloat16") == 0, "%s", name);
    return is_half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

static size_t print_list(char *text, size_t size, const char *name, const int *values, int count) {
    size_t used = (size_t)snprintf(text, size, " %s", name);
    for (int i = 0; i < count; i++) used += (size_t)snprintf(text + used, size - used, "%c%d", i ? ',' : ' ', values[i]);
    return used;
}

void shape_print(const Shape *shape, char *text, size_t size) {
    static const char *const operations[] = {"F", "BD", "BF", "F"};
    const char *type = shape->type == CUDNN_DATA_FLOAT      ? "float"
                       : shape->type == CUDNN_DATA_DOUBLE   ? "double"
                       : shape->type == CUDNN_DATA_BFLOAT16 ? "bfloat16"
                                                            : "half";
    int spatial = shape->spatial, rank = spatial + 2, skipped = 3 - spatial;
    size_t used = (size_t)snprintf(text, size, "%s %s", operations[shape->operation], type);
    const int *all[3] = {shape->x, shape->w, shape->y};
    for (int i = 0; i < 3; i++) {
        int dims[5] = {all[i][0], all[i][1]};
        memcpy(dims + 2, all[i] + 2 + skipped, (size_t)spatial * sizeof *dims);
        used += print_list(text + used, size - used, (const char *[]){"x", "w", "y"}[i], dims, rank);
    }
    used += print_list(text + used, size - used, "pad", shape->pad + skipped, spatial);
    used += print_list(text + used, size - used, "stride", shape->stride + skipped, spatial);
    used += print_list(text + used, size - used, "dilation", shape->dilation + skipped, spatial);
    snprintf(text + used, size - used, " groups %d", shape->groups);
}

/* ---- problems ---- */

typedef struct {
    const int *dims, *strides;
} Layout;

static size_t place(Layout layout, const int at[5]) {
    size_t index = 0;
    for (int i = 0; i < 5; i++) index += (size_t)at[i] * (size_t)layout.strides[i];
    return index;
}

/* Moves to the next place in the packed order; returns 0 after the last. */
static int advance(const int dims[5], int at[5]) {
    for (int i = 4; i >= 0; i--) {
        if (++at[i] < dims[i]) return 1;
        at[i] = 0;
    }
    return 0;
}

static size_t span(Layout layout) {
    int last[5];
    for (int i = 0; i < 5; i++) last[i] = layout.dims[i] - 1;
    return place(layout, last) + 1;
}

void shape_filter_strides(const Shape *shape, int strides[5]) {
    static const int orders[2][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}};
    static const int none[5] = {0};
    packed(shape->w, orders[shape->w_format == CUDNN_TENSOR_NHWC], none, strides);
}

/* The layout of the result; `strides` receives the filter's. */
static Layout result_layout(const Kernel *kernel, int strides[5]) {
    const Shape *shape = &kernel->shape;
    shape_filter_strides(shape, strides);
    Layout layouts[4] = {{shape->y, shape->y_strides},
                         {shape->x, shape->x_strides},
                         {shape->w, strides},
                         {shape->y, shape->y_strides}};
    return layouts[shape->operation];
}

static cudnnTensorDescriptor_t tensor_descriptor(const Shape *shape, const int dims[5], const int strides[5]) {
    int skipped = 3 - shape->spatial, d[5] = {dims[0], dims[1]}, s[5] = {strides[0], strides[1]};
    for (int i = 2; i < shape->spatial + 2; i++) {
        d[i] = dims[i + skipped];
        s[i] = strides[i + skipped];
    }
    cudnnTensorDescriptor_t descriptor;
    CALL(cudnnCreateTensorDescriptor(&descriptor));
    CALL(cudnnSetTensorNdDescriptor(descriptor, shape->type, shape->spatial + 2, d, s));
    return descriptor;
}

/* Memory for a tensor, poisoned. */
static Guarded tensor_memory(const Shape *shape, Layout layout) {
    Guarded memory = guarded_new(span(layout) * size_of(shape->type));
    memset(memory.start, POISON, memory.bytes);
    return memory;
}

/* Fills a tensor, but not its gaps, and returns its values packed. */
static double *fill(const Shape *shape, Layout layout, Guarded *memory, Random *random) {
    double *values = malloc(product(layout.dims) * sizeof *values), *value = values;
    REQUIRE(values, "no memory");
    int at[5] = {0};
    do {
        *value++ = store_random(shape->type, memory->start, place(layout, at), random);
    } while (advance(layout.dims, at));
    return values;
}

/* The convolution in double precision: adds the products to `sum` and their magnitudes to `absolute`, which are both as
 * large as the result. The result's own values are not read. */
static void oracle(const Shape *s, const double *x, const double *w, const double *y, double *sum, double *absolute) {
    /* The two tensors that are multiplied and the one that receives the sums, for each operation. */
    enum { X, W, Y };
    static const int roles[4][3] = {{X, W, Y}, {Y, W, X}, {X, Y, W}, {X, W, Y}};
    const int *role = roles[s->operation];
    const double *values[3] = {x, w, y}, *left = values[role[0]], *right = values[role[1]];
    static const int none[5] = {0}, order[5] = {0, 1, 2, 3, 4};
    int xs[5], ws[5], per_group = s->w[0] / s->groups;
    packed(s->x, order, none, xs);
    packed(s->w, order, none, ws);
    /* Steps along a row of the filter. */
    ptrdiff_t steps[3] = {s->dilation[2], s->flip ? -1 : 1, 0};
    ptrdiff_t left_step = steps[role[0]], right_step = steps[role[1]], result_step = steps[role[2]];
    int o[5] = {0}; /* a place in y: n, k and three dimensions */
    for (size_t yi = 0;; yi++) {
        int group = o[1] / per_group, first = o[4] * s->stride[2] - s->pad[2];
        int begin = 0, end = s->w[4];
        while (begin < end && first + begin * s->dilation[2] < 0) begin++;
        while (begin < end && first + (end - 1) * s->dilation[2] >= s->x[4]) end--;
        for (int c = 0; c < s->w[1] && begin < end; c++) {
            for (int d = 0; d < s->w[2]; d++) {
                int xd = o[2] * s->stride[0] - s->pad[0] + d * s->dilation[0];
                if (xd < 0 || xd >= s->x[2]) continue;
                for (int h = 0; h < s->w[3]; h++) {
                    int xh = o[3] * s->stride[1] - s->pad[1] + h * s->dilation[1];
                    if (xh < 0 || xh >= s->x[3]) continue;
                    int fd = s->flip ? s->w[2] - 1 - d : d, fh = s->flip ? s->w[3] - 1 - h : h;
                    int fv = s->flip ? s->w[4] - 1 - begin : begin, xw = first + begin * s->dilation[2];
                    ptrdiff_t at[3] = {
                        (ptrdiff_t)place((Layout){s->x, xs}, (int[5]){o[0], group * s->w[1] + c, xd, xh, xw}),
                        (ptrdiff_t)place((Layout){s->w, ws}, (int[5]){o[1], c, fd, fh, fv}),
                        (ptrdiff_t)yi,
                    };
                    ptrdiff_t l = at[role[0]], r = at[role[1]], result = at[role[2]];
                    for (int v = begin; v < end; v++) {
                        double product = left[l] * right[r];
                        sum[result] += product;
                        absolute[result] += fabs(product);
                        l += left_step, r += right_step, result += result_step;
                    }
                }
            }
        }
        if (!advance(s->y, o)) return;
    }
}

/* The variance of the error of storing a value: up to half a unit of its last place. */
static double storing(cudnnDataType_t type, double value) {
    double most = type == CUDNN_DATA_DOUBLE     ? DBL_EPSILON / 2 * fabs(value)
                  : type == CUDNN_DATA_FLOAT    ? FLT_EPSILON / 2 * fabs(value)
                  : type == CUDNN_DATA_BFLOAT16 ? 0x1p-8 * fabs(value)
                                                : fmax(0x1p-11 * fabs(value), 0x1p-25 /* below the least exponent */);
    return most * most / 3;
}

/* The largest number of products in a sum. */
static int products(const Shape *s) {
    int window = s->w[2] * s->w[3] * s->w[4];
    switch (s->operation) {
        case BACKWARD_DATA: return s->w[0] / s->groups * window;
        case BACKWARD_FILTER: return s->y[0] * s->y[2] * s->y[3] * s->y[4];
        default: return s->w[1] * window;
    }
}

/* The squared error of a sum that Fourier or Winograd transforms compute, for a unit of 1: the error of 16 operations
 * on products of the largest possible value, as cancellation inside the transforms does not show in the sum. F(4x4, 3x3)
 * and F(2x2, 5x5) reach this error in the worst of 40,000 random tiles each, in images down to one place. */
static double of_transforms(const Shape *s, double largest) {
    int takes_them = s->stride[1] == 1 && s->stride[2] == 1 && s->dilation[1] == 1 && s->dilation[2] == 1;
    double most = products(s) * largest;
    return takes_them ? 16.0 / 3 * most * most : 0;
}

/* expected = alpha * sum + beta * held, with bias and activation where the call has them; and the tolerance. `absolute`
 * holds the sums of the products' absolute values; `largest` bounds one product. Each operation has an independent
 * error of up to a unit of its result: a sum of n terms has at most n such errors of the sum of their absolute values
 * (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019). */
static void finish(Kernel *kernel, Layout result, const double *absolute, double largest, const double *held,
                   const double *bias) {
    const Shape *shape = &kernel->shape;
    cudnnDataType_t type = shape->type;
    double unit = (type == CUDNN_DATA_DOUBLE ? DBL_EPSILON : FLT_EPSILON) / 2; /* of the type that computes */
    double operations = products(shape) + 3 /* alpha, beta and the bias */;
    double transforms = shape->alpha * shape->alpha * of_transforms(shape, largest), squares = 0, variance = 0;
    size_t i = 0;
    int at[5] = {0};
    do {
        double value = shape->alpha * kernel->expected[i], most = fabs(shape->alpha) * absolute[i];
        if (shape->beta != 0) {
            value += shape->beta * held[i];
            most += fabs(shape->beta * held[i]);
        }
        if (shape->operation == FUSED) {
            variance += storing(type, value); /* the intermediate result is rounded, too */
            value += bias[at[1]];
            most += fabs(bias[at[1]]);
            if (shape->relu && value < 0) value = 0;
        }
        double computing = unit * unit * (operations / 3 * most * most + transforms);
        /* In double, the expected value has the same error. */
        variance += storing(type, value) + (type == CUDNN_DATA_DOUBLE ? 2 * computing : computing);
        squares += value * value;
        kernel->expected[i++] = value;
    } while (advance(result.dims, at));
    kernel->norm = squares > 0 ? sqrt(squares) : 1;
    kernel->tolerance = MOST_DEVIATIONS * sqrt(variance) / kernel->norm;
}

static void open_fused(Kernel *kernel, Random *random, double **bias, double **z) {
    const Shape *shape = &kernel->shape;
    static const int none[5] = {0}, order[5] = {0, 1, 2, 3, 4};
    int bias_dims[5] = {1, shape->y[1], 1, 1, 1}, strides[5];
    packed(bias_dims, order, none, strides);
    Layout layout = {bias_dims, strides};
    kernel->bias_descriptor = tensor_descriptor(shape, bias_dims, strides);
    kernel->bias = tensor_memory(shape, layout);
    *bias = fill(shape, layout, &kernel->bias, random);
    if (shape->z_apart) {
        packed(shape->y, order, none, strides); /* whatever y's layout is */
        layout.dims = shape->y;
        kernel->z_descriptor = tensor_descriptor(shape, shape->y, strides);
        kernel->z = tensor_memory(shape, layout);
        *z = fill(shape, layout, &kernel->z, random);
    } else {
        kernel->z_descriptor = tensor_descriptor(shape, shape->y, shape->y_strides);
    }
    CALL(cudnnCreateActivationDescriptor(&kernel->activation));
    int mode = shape->relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
    CALL(cudnnSetActivationDescriptor(kernel->activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0));
}

void kernel_open(Kernel *kernel, const Shape *given, Random *random) {
    memset(kernel, 0, sizeof *kernel);
    kernel->shape = *given;
    const Shape *shape = &kernel->shape;
    int strides[5], skipped = 3 - shape->spatial, filter[5] = {shape->w[0], shape->w[1]};
    Layout result = result_layout(kernel, strides);
    Layout layouts[3] = {{shape->x, shape->x_strides}, {shape->w, strides}, {shape->y, shape->y_strides}};
    Guarded *memory[3] = {&kernel->x, &kernel->w, &kernel->y};
    double *values[3] = {NULL, NULL, NULL}, *held = NULL, *bias = NULL, *z = NULL;
    for (int i = 0; i < 3; i++) {
        *memory[i] = tensor_memory(shape, layouts[i]);
        int is_result = layouts[i].strides == result.strides;
        int is_read = shape->operation == FUSED ? shape->beta != 0 && !shape->z_apart : shape->beta != 0;
        if (!is_result) values[i] = fill(shape, layouts[i], memory[i], random);
        else if (is_read) held = fill(shape, layouts[i], memory[i], random);
    }

    kernel->x_descriptor = tensor_descriptor(shape, shape->x, shape->x_strides);
    kernel->y_descriptor = tensor_descriptor(shape, shape->y, shape->y_strides);
    memcpy(filter + 2, shape->w + 2 + skipped, (size_t)shape->spatial * sizeof *filter);
    CALL(cudnnCreateFilterDescriptor(&kernel->w_descriptor));
    CALL(cudnnSetFilterNdDescriptor(kernel->w_descriptor, shape->type, shape->w_format, shape->spatial + 2, filter));
    int compute = shape->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    CALL(cudnnCreateConvolutionDescriptor(&kernel->convolution));
    CALL(cudnnSetConvolutionNdDescriptor(kernel->convolution, shape->spatial, shape->pad + skipped,
                                         shape->stride + skipped, shape->dilation + skipped,
                                         shape->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION, compute));
    CALL(cudnnSetConvolutionGroupCount(kernel->convolution, shape->groups));
    if (shape->operation == FUSED) open_fused(kernel, random, &bias, &z);

    kernel->values = product(result.dims);
    kernel->expected = calloc(kernel->values, sizeof *kernel->expected);
    double *absolute = calloc(kernel->values, sizeof *absolute);
    const Guarded *target = kernel_result(kernel);
    kernel->before = malloc(target->bytes);
    REQUIRE(kernel->expected && absolute && kernel->before, "no memory");
    memcpy(kernel->before, target->start, target->bytes);
    oracle(shape, values[0], values[1], values[2], kernel->expected, absolute);
    double largest = 1;
    for (int i = 0; i < 3; i++) {
        double most = 0;
        for (size_t k = 0; values[i] && k < product(layouts[i].dims); k++) most = fmax(most, fabs(values[i][k]));
        if (values[i]) largest *= most;
    }
    finish(kernel, result, absolute, largest, z ? z : held, bias);
    free(absolute), free(values[0]), free(values[1]), free(values[2]), free(held), free(bias), free(z);
}

void kernel_close(Kernel *kernel) {
    CALL(cudnnDestroyTensorDescriptor(kernel->x_descriptor));
    CALL(cudnnDestroyTensorDescriptor(kernel->y_descriptor));
    CALL(cudnnDestroyFilterDescriptor(kernel->w_descriptor));
    CALL(cudnnDestroyConvolutionDescriptor(kernel->convolution));
    if (kernel->shape.operation == FUSED) {
        CALL(cudnnDestroyTensorDescriptor(kernel->z_descriptor));
        CALL(cudnnDestroyTensorDescriptor(kernel->bias_descriptor));
        CALL(cudnnDestroyActivationDescriptor(kernel->activation));
        guarded_free(&kernel->bias);
        if (kernel->shape.z_apart) guarded_free(&kernel->z);
    }
    guarded_free(&kernel->x), guarded_free(&kernel->w), guarded_free(&kernel->y);
    free(kernel->before), free(kernel->expected);
}

const Guarded *kernel_result(const Kernel *kernel) {
    const Guarded *results[4] = {&kernel->y, &kernel->x, &kernel->w, &kernel->y};
    return results[kernel->shape.operation];
}

void kernel_restore(Kernel *kernel) {
    const Guarded *result = kernel_result(kernel);
    memcpy(result->start, kernel->before, result->bytes);
}

/* ---- errors ---- */

/* The bytes between the result's elements must not have changed. */
static void check_gaps(const Kernel *kernel) {
    int strides[5], at[5] = {0};
    Layout layout = result_layout(kernel, strides);
    const Guarded *result = kernel_result(kernel);
    size_t size = size_of(kernel->shape.type), count = result->bytes / size;
    if (count == kernel->values) return;
    unsigned char *is_element = calloc(count, 1);
    REQUIRE(is_element, "no memory");
    do {
        is_element[place(layout, at)] = 1;
    } while (advance(layout.dims, at));
    for (size_t i = 0; i < result->bytes; i++)
        REQUIRE(is_element[i / size] || result->start[i] == POISON, "byte %zu between elements was written", i);
    free(is_element);
}

double kernel_error(const Kernel *kernel) {
    guarded_check(&kernel->x, "x");
    guarded_check(&kernel->w, "w");
    guarded_check(&kernel->y, "y");
    check_gaps(kernel);
    int strides[5], at[5] = {0};
    Layout layout = result_layout(kernel, strides);
    const Guarded *result = kernel_result(kernel);
    double squares = 0;
    size_t i = 0;
    do {
        double off = value_at(result, kernel->shape.type, place(layout, at)) - kernel->expected[i++];
        squares += off * off;
    } while (advance(layout.dims, at));
    return sqrt(squares) / kernel->norm; /* a NaN stays a NaN */
}

double kernel_tolerance(const Kernel *kernel) { return kernel->tolerance; }
