/* Trains a small convolutional network by gradient descent, and knows only cudnn.h: the loss must fall to a twentieth.
 * Two convolutions with bias and activation, then one as large as its input, which computes two numbers for each image:
 * the brightness of its left half and of its upper half. Algorithms come from cudnnGetConvolution*Algorithm_v7. */
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 32
#define SIZE 10
#define LAYERS 3
#define STEPS 300
#define RATE 0.05f

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudnnStatus_t status_ = (call);                                                           \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                                    \
            char why_[256];                                                                       \
            cudnnGetLastErrorString(why_, sizeof why_);                                           \
            fprintf(stderr, "%s: %s (%s)\n", #call, cudnnGetErrorString(status_), why_);          \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

struct tensor {
    cudnnTensorDescriptor_t desc;
    float *data, *gradient;
    size_t count;
};

struct layer {
    cudnnFilterDescriptor_t wDesc;
    cudnnTensorDescriptor_t biasDesc;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t activation; /* null: none */
    struct tensor before, after;            /* the activation and its gradients */
    float *w, *dw, *bias, *dbias;
    size_t weights;
    int channels;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t backward_data;
    cudnnConvolutionBwdFilterAlgo_t backward_filter;
};

static const float one = 1, zero = 0;
static cudnnHandle_t handle;
static void *workspace;
static size_t workspace_size;

static float uniform(void)
{
    static unsigned state = 12345;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24) * 2 - 1;
}

static float *numbers(size_t count, float scale)
{
    float *all = malloc(count * sizeof *all);
    if (!all)
        exit(2);
    for (size_t i = 0; i < count; i++)
        all[i] = scale * uniform();
    return all;
}

static struct tensor tensor(int n, int c, int h, int w)
{
    struct tensor t;
    size_t bytes;
    CHECK(cudnnCreateTensorDescriptor(&t.desc));
    CHECK(cudnnSetTensor4dDescriptor(t.desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    CHECK(cudnnGetTensorSizeInBytes(t.desc, &bytes));
    t.count = bytes / sizeof(float);
    t.data = numbers(t.count, 1);
    t.gradient = numbers(t.count, 1);
    return t;
}

static void need(size_t bytes)
{
    if (bytes > workspace_size)
        workspace_size = bytes;
}

static struct layer layer(const struct tensor *x, int k, int filter, int pad, int stride, int mode)
{
    struct layer l;
    int n, c, h, w, unused, count;
    size_t bytes;
    cudnnDataType_t type;
    CHECK(cudnnGetTensor4dDescriptor(x->desc, &type, &n, &c, &h, &w, &unused, &unused, &unused, &unused));
    CHECK(cudnnCreateFilterDescriptor(&l.wDesc));
    CHECK(cudnnSetFilter4dDescriptor(l.wDesc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, filter, filter));
    CHECK(cudnnCreateConvolutionDescriptor(&l.conv));
    CHECK(cudnnSetConvolution2dDescriptor(l.conv, pad, pad, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CHECK(cudnnGetConvolution2dForwardOutputDim(l.conv, x->desc, l.wDesc, &n, &c, &h, &w));
    l.before = tensor(n, c, h, w);
    l.after = tensor(n, c, h, w);
    l.channels = c;
    l.biasDesc = tensor(1, c, 1, 1).desc;
    CHECK(cudnnGetFilterSizeInBytes(l.wDesc, &bytes));
    l.weights = bytes / sizeof(float);
    l.w = numbers(l.weights, 1.7f / (float)(filter * filter) / (float)(k < 4 ? 2 : 1));
    l.dw = numbers(l.weights, 1);
    l.bias = numbers((size_t)c, 0.1f);
    l.dbias = numbers((size_t)c, 1);
    l.activation = NULL;
    if (mode >= 0) {
        CHECK(cudnnCreateActivationDescriptor(&l.activation));
        CHECK(cudnnSetActivationDescriptor(l.activation, (cudnnActivationMode_t)mode, CUDNN_PROPAGATE_NAN, 0));
    }

    cudnnConvolutionFwdAlgoPerf_t f[8];
    cudnnConvolutionBwdDataAlgoPerf_t bd[8];
    cudnnConvolutionBwdFilterAlgoPerf_t bf[8];
    cudnnTensorDescriptor_t y = l.before.desc;
    CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x->desc, l.wDesc, l.conv, y, 8, &count, f));
    CHECK(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, l.wDesc, y, l.conv, x->desc, 8, &count, bd));
    CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x->desc, y, l.conv, l.wDesc, 8, &count, bf));
    l.forward = f[0].algo;
    l.backward_data = bd[0].algo;
    l.backward_filter = bf[0].algo;
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x->desc, l.wDesc, l.conv, y, l.forward, &bytes));
    need(bytes);
    CHECK(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, l.wDesc, y, l.conv, x->desc, l.backward_data, &bytes));
    need(bytes);
    CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x->desc, y, l.conv, l.wDesc, l.backward_filter,
                                                         &bytes));
    need(bytes);
    return l;
}

static void forward(struct layer *l, const struct tensor *x)
{
    CHECK(cudnnConvolutionForward(handle, &one, x->desc, x->data, l->wDesc, l->w, l->conv, l->forward, workspace,
                                  workspace_size, &zero, l->before.desc, l->before.data));
    CHECK(cudnnAddTensor(handle, &one, l->biasDesc, l->bias, &one, l->before.desc, l->before.data));
    if (l->activation)
        CHECK(cudnnActivationForward(handle, l->activation, &one, l->before.desc, l->before.data, &zero,
                                     l->after.desc, l->after.data));
    else
        CHECK(cudnnTransformTensor(handle, &one, l->before.desc, l->before.data, &zero, l->after.desc,
                                   l->after.data));
}

static void backward(struct layer *l, struct tensor *x, int input_too)
{
    struct tensor *y = &l->before;
    if (l->activation)
        CHECK(cudnnActivationBackward(handle, l->activation, &one, l->after.desc, l->after.data, l->after.desc,
                                      l->after.gradient, y->desc, y->data, &zero, y->desc, y->gradient));
    else
        memcpy(y->gradient, l->after.gradient, y->count * sizeof(float));
    CHECK(cudnnConvolutionBackwardBias(handle, &one, y->desc, y->gradient, &zero, l->biasDesc, l->dbias));
    CHECK(cudnnConvolutionBackwardFilter(handle, &one, x->desc, x->data, y->desc, y->gradient, l->conv,
                                         l->backward_filter, workspace, workspace_size, &zero, l->wDesc, l->dw));
    if (input_too)
        CHECK(cudnnConvolutionBackwardData(handle, &one, l->wDesc, l->w, y->desc, y->gradient, l->conv,
                                           l->backward_data, workspace, workspace_size, &zero, x->desc,
                                           x->gradient));
    for (size_t i = 0; i < l->weights; i++)
        l->w[i] -= RATE * l->dw[i];
    for (int i = 0; i < l->channels; i++)
        l->bias[i] -= RATE * l->dbias[i];
}

int main(void)
{
    CHECK(cudnnCreate(&handle));
    struct tensor x = tensor(BATCH, 1, SIZE, SIZE);
    struct layer net[LAYERS];
    net[0] = layer(&x, 8, 3, 1, 1, CUDNN_ACTIVATION_RELU);
    net[1] = layer(&net[0].after, 8, 3, 1, 2, CUDNN_ACTIVATION_TANH);
    net[2] = layer(&net[1].after, 2, SIZE / 2, 0, 1, -1);
    workspace = malloc(workspace_size + 1);
    if (!workspace)
        return 2;

    float target[BATCH][2];
    for (int n = 0; n < BATCH; n++) {
        target[n][0] = target[n][1] = 0;
        for (int i = 0; i < SIZE * SIZE; i++) {
            float pixel = x.data[n * SIZE * SIZE + i] / 10;
            target[n][0] += i % SIZE < SIZE / 2 ? pixel : 0;
            target[n][1] += i / SIZE < SIZE / 2 ? pixel : 0;
        }
    }

    float first = 0, loss = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < LAYERS; i++)
            forward(&net[i], i ? &net[i - 1].after : &x);
        struct tensor *out = &net[LAYERS - 1].after;
        loss = 0;
        for (size_t i = 0; i < out->count; i++) {
            float difference = out->data[i] - target[i / 2][i % 2];
            loss += difference * difference / BATCH;
            out->gradient[i] = 2 * difference / BATCH;
        }
        if (step == 0)
            first = loss;
        for (int i = LAYERS; i-- > 0;)
            backward(&net[i], i ? &net[i - 1].after : &x, i > 0);
    }
    printf("loss %g, after %d steps %g\n", first, STEPS, loss);
    CHECK(cudnnDestroy(handle));
    return !(loss < first / 20);
}
