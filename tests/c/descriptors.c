/* Sets descriptors of the real cuDNN, reads them back, and prints every status and value. Needs no GPU. */
#include <cudnn.h>
#include <stdio.h>
#include <string.h>

/* hostdnn's header lacks these. */
cudnnStatus_t cudnnCreateLRNDescriptor(void **lrn);
cudnnStatus_t cudnnSetLRNDescriptor(void *lrn, unsigned n, double alpha, double beta, double k);
cudnnStatus_t cudnnGetLRNDescriptor(void *lrn, unsigned *n, double *alpha, double *beta, double *k);

static void status(const char *call, int status) {
    printf("\n%s: %d %s\n", call, status, cudnnGetErrorString(status));
}
#define STATUS(call) status(#call, call)

int main(void) {
    printf("version %zu, cudart %zu\n", cudnnGetVersion(), cudnnGetCudartVersion());
    int major = -1, v[12];
    STATUS(cudnnGetProperty(0, &major));
    printf("major %d\n", major);
    cudnnHandle_t handle = NULL;
    printf("create %d\n", cudnnCreate(&handle));

    cudnnTensorDescriptor_t tensor;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t activation;
    cudnnBackendDescriptor_t backend;
    void *lrn;
    memset(v, -1, sizeof v);
    STATUS(cudnnCreateTensorDescriptor(&tensor));
    STATUS(cudnnSetTensor4dDescriptorEx(tensor, 2, 5, 6, 7, 8, 1000, 100, 10, 1));
    STATUS(cudnnGetTensor4dDescriptor(tensor, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7, v + 8));
    for (int i = 0; i < 9; i++) printf("%d ", v[i]);
    STATUS(cudnnSetTensor4dDescriptor(tensor, 0, 0, -1, 6, 7, 8));
    STATUS(cudnnSetTensor4dDescriptor(tensor, 0, 0, 5, 6, 27, 27));
    size_t size = 0;
    STATUS(cudnnGetTensorSizeInBytes(tensor, &size));
    printf("%zu bytes\n", size);

    const int dims[4] = {9, 3, 5, 5};
    STATUS(cudnnCreateFilterDescriptor(&filter));
    STATUS(cudnnSetFilterNdDescriptor(filter, 0, 0, 4, dims));
    STATUS(cudnnGetFilterNdDescriptor(filter, 4, v, v + 1, v + 2, v + 3));
    for (int i = 0; i < 7; i++) printf("%d ", v[i]);

    STATUS(cudnnCreateConvolutionDescriptor(&convolution));
    STATUS(cudnnSetConvolution2dDescriptor(convolution, 2, 1, 3, 2, 1, 2, 1, 0));
    STATUS(cudnnGetConvolution2dDescriptor(convolution, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7));
    for (int i = 0; i < 8; i++) printf("%d ", v[i]);
    STATUS(cudnnSetConvolutionGroupCount(convolution, 2));
    STATUS(cudnnGetConvolutionGroupCount(convolution, v + 8));
    STATUS(cudnnGetConvolution2dForwardOutputDim(convolution, tensor, filter, v, v + 1, v + 2, v + 3));
    printf("groups %d, output %d %d %d %d\n", v[8], v[0], v[1], v[2], v[3]);

    double a, b, c;
    unsigned n;
    STATUS(cudnnCreateActivationDescriptor(&activation));
    STATUS(cudnnSetActivationDescriptor(activation, 3, 1, 6.25));
    STATUS(cudnnGetActivationDescriptor(activation, v, v + 1, &a));
    printf("%d %d %g\n", v[0], v[1], a);
    STATUS(cudnnCreateLRNDescriptor(&lrn));
    STATUS(cudnnSetLRNDescriptor(lrn, 5, 1e-4, 0.75, 2));
    STATUS(cudnnGetLRNDescriptor(lrn, &n, &a, &b, &c));
    printf("%u %g %g %g\n", n, a, b, c);

    const int64_t shape[4] = {5, 6, 27, 27}, strides[4] = {4374, 729, 27, 1}, id = 42, alignment = 16;
    int64_t read[4] = {0}, count = 0;
    const int type = 0;
    STATUS(cudnnBackendCreateDescriptor(17, &backend)); /* a tensor */
    STATUS(cudnnBackendSetAttribute(backend, 901, 1, 1, &type)); /* its type */
    STATUS(cudnnBackendSetAttribute(backend, 902, 3, 4, shape)); /* its dimensions */
    STATUS(cudnnBackendSetAttribute(backend, 903, 3, 4, strides));
    STATUS(cudnnBackendSetAttribute(backend, 906, 3, 1, &id));
    STATUS(cudnnBackendSetAttribute(backend, 900, 3, 1, &alignment));
    STATUS(cudnnBackendFinalize(backend));
    STATUS(cudnnBackendGetAttribute(backend, 902, 3, 4, &count, read));
    printf("%ld: %ld %ld %ld %ld\n", (long)count, (long)read[0], (long)read[1], (long)read[2], (long)read[3]);
    STATUS(cudnnBackendDestroyDescriptor(backend));
    STATUS(cudnnDestroyConvolutionDescriptor(convolution));
    STATUS(cudnnDestroyFilterDescriptor(filter));
    STATUS(cudnnDestroyTensorDescriptor(tensor));
    return 0;
}
