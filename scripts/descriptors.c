/* Uses cuDNN without a GPU: version, descriptors set and read back, the error of cudnnCreate.
 * Prints everything, so that a run on the real library can be compared with a run through the shim. */
#include <cudnn.h>
#include <stdio.h>

#define SHOW(call) printf("%s: %s\n", #call, cudnnGetErrorString(call))

int main(void) {
    cudnnTensorDescriptor_t tensor;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnHandle_t handle = NULL;
    int n, c, h, w, strides[4], dims[4], groups;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;

    printf("version %zu\n", cudnnGetVersion());
    SHOW(cudnnCreateTensorDescriptor(&tensor));
    SHOW(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 5, 7, 11, 13));
    SHOW(cudnnGetTensor4dDescriptor(tensor, &type, &n, &c, &h, &w, &strides[0], &strides[1], &strides[2], &strides[3]));
    printf("tensor: type %d, %d %d %d %d, strides %d %d %d %d\n", (int)type, n, c, h, w, strides[0], strides[1],
           strides[2], strides[3]);
    SHOW(cudnnCreateFilterDescriptor(&filter));
    SHOW(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 6, 7, 3, 5));
    SHOW(cudnnGetFilter4dDescriptor(filter, &type, &format, &dims[0], &dims[1], &dims[2], &dims[3]));
    printf("filter: type %d, format %d, %d %d %d %d\n", (int)type, (int)format, dims[0], dims[1], dims[2], dims[3]);
    SHOW(cudnnCreateConvolutionDescriptor(&convolution));
    SHOW(cudnnSetConvolution2dDescriptor(convolution, 1, 2, 2, 1, 1, 2, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    SHOW(cudnnSetConvolutionGroupCount(convolution, 1));
    SHOW(cudnnGetConvolutionGroupCount(convolution, &groups));
    SHOW(cudnnGetConvolution2dForwardOutputDim(convolution, tensor, filter, &n, &c, &h, &w));
    printf("groups %d, output %d %d %d %d\n", groups, n, c, h, w);
    /* The shim must refuse values as the real library refuses them. */
    SHOW(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 1, 1, 1));
    SHOW(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    SHOW(cudnnSetConvolutionGroupCount(convolution, 0));
    SHOW(cudnnCreate(&handle));
    SHOW(cudnnDestroyConvolutionDescriptor(convolution));
    SHOW(cudnnDestroyFilterDescriptor(filter));
    SHOW(cudnnDestroyTensorDescriptor(tensor));
    return 0;
}
