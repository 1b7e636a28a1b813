/* A program that calls cuDNN in one of these ways: `linked`, by its own references; `dlopen`, through the name of the
 * library; `not`, not at all. `handle` makes a handle. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "not";
    if (!strcmp(way, "linked") || !strcmp(way, "sleep")) {
        cudnnTensorDescriptor_t tensor;
        if (cudnnCreateTensorDescriptor(&tensor) != CUDNN_STATUS_SUCCESS) return 1;
        if (cudnnDestroyTensorDescriptor(tensor) != CUDNN_STATUS_SUCCESS) return 1;
    }
    if (!strcmp(way, "handle")) {
        cudnnHandle_t handle;
        if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;
        if (cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS) return 1;
    }
    if (!strcmp(way, "dlopen")) {
        void *library = dlopen("libcudnn.so.9", RTLD_NOW);
        size_t (*version)(void);
        if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
        *(void **)&version = dlsym(library, "cudnnGetVersion");
        if (!version) return 1;
        printf("version %zu\n", version());
    }
    if (!strcmp(way, "sleep")) pause();
    return !strcmp(way, "fail") ? 3 : 0;
}
