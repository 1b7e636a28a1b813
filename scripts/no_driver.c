/* libcuda.so.1 of a machine without a driver: every function refuses. cuDNN 9.28's engines name it as needed, so that they
 * load only where it is; with this one they plan for a GPU that is not there, as older engines do. */

/* CUDA_ERROR_STUB_LIBRARY, which the stub in CUDA's toolkit returns too. */
enum { STUB_LIBRARY = 34 };

#define REFUSES(name) \
    int name(void); \
    int name(void) { return STUB_LIBRARY; }

REFUSES(cuGetErrorString)
REFUSES(cuModuleGetFunction)
REFUSES(cuModuleLoadData)
REFUSES(cuModuleUnload)
REFUSES(cuTensorMapEncodeIm2col)
REFUSES(cuTensorMapEncodeTiled)
