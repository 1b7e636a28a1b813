/* Sets descriptors of the real cuDNN, reads them back, and prints every status and value. Needs no GPU and no vendor
 * header: it declares the functions that it calls. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
const char *cudnnGetErrorString(int status);
int cudnnCreate(void **handle);
int cudnnGetProperty(int property, int *value);
int cudnnCreateTensorDescriptor(void **tensor);
int cudnnSetTensor4dDescriptor(void *tensor, int format, int type, int n, int c, int h, int w);
int cudnnSetTensor4dDescriptorEx(void *tensor, int type, int n, int c, int h, int w, int n_stride, int c_stride,
                                 int h_stride, int w_stride);
int cudnnGetTensor4dDescriptor(void *tensor, int *type, int *n, int *c, int *h, int *w, int *n_stride,
                               int *c_stride, int *h_stride, int *w_stride);
int cudnnGetTensorSizeInBytes(void *tensor, size_t *size);
int cudnnDestroyTensorDescriptor(void *tensor);
int cudnnCreateFilterDescriptor(void **filter);
int cudnnSetFilterNdDescriptor(void *filter, int type, int format, int rank, const int *dims);
int cudnnGetFilterNdDescriptor(void *filter, int wanted, int *type, int *format, int *rank, int *dims);
int cudnnDestroyFilterDescriptor(void *filter);
int cudnnCreateConvolutionDescriptor(void **convolution);
int cudnnSetConvolution2dDescriptor(void *convolution, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int type);
int cudnnGetConvolution2dDescriptor(void *convolution, int *pad_h, int *pad_w, int *stride_h, int *stride_w,
                                    int *dilation_h, int *dilation_w, int *mode, int *type);
int cudnnSetConvolutionGroupCount(void *convolution, int count);
int cudnnGetConvolutionGroupCount(void *convolution, int *count);
int cudnnGetConvolution2dForwardOutputDim(void *convolution, void *tensor, void *filter, int *n, int *c, int *h,
                                          int *w);
int cudnnDestroyConvolutionDescriptor(void *convolution);
int cudnnCreateActivationDescriptor(void **activation);
int cudnnSetActivationDescriptor(void *activation, int mode, int nan, double coefficient);
int cudnnGetActivationDescriptor(void *activation, int *mode, int *nan, double *coefficient);
int cudnnCreateLRNDescriptor(void **lrn);
int cudnnSetLRNDescriptor(void *lrn, unsigned n, double alpha, double beta, double k);
int cudnnGetLRNDescriptor(void *lrn, unsigned *n, double *alpha, double *beta, double *k);
int cudnnBackendCreateDescriptor(int type, void **descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t wanted, int64_t *count, void *values);
int cudnnBackendFinalize(void *descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor);

static void status(const char *call, int status) {
    printf("\n%s: %d %s\n", call, status, cudnnGetErrorString(status));
}
#define STATUS(call) status(#call, call)

int main(void) {
    printf("version %zu, cudart %zu\n", cudnnGetVersion(), cudnnGetCudartVersion());
    int major = -1, v[12];
    STATUS(cudnnGetProperty(0, &major));
    printf("major %d\n", major);
    void *handle = NULL;
    printf("create %d\n", cudnnCreate(&handle));

    void *tensor, *filter, *convolution, *activation, *lrn, *backend;
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
