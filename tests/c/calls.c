/* Prints the library that a program gets as cuDNN, and the results of its functions. With DLOPEN the program loads
 * libcudnn.so.9 itself; otherwise it is linked with the library. With an argument it first goes to that folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define FUNCTION(name, type) ((type)dlsym(library, name))

int main(int count, char **arguments) {
    if (count > 1 && chdir(arguments[1])) return perror(arguments[1]), 1;
#ifdef DLOPEN
    void *library = dlopen("libcudnn.so.9", RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
#else
    void *library = RTLD_DEFAULT;
#endif
    Dl_info info;
    if (!dladdr(dlsym(library, "cudnnGetVersion"), &info)) return 1;
    printf("from %s\n", info.dli_fname);
    printf("version %zu\n", FUNCTION("cudnnGetVersion", size_t(*)(void))());
    printf("status %d\n", FUNCTION("cudnnSetStream", int (*)(void *, void *))(NULL, NULL));
    printf("size %zu\n", FUNCTION("cudnnGetCudartVersion", size_t(*)(void))());
    printf("text %s\n", FUNCTION("cudnnGetErrorString", const char *(*)(int))(0));
    char message[16] = "untouched";
    FUNCTION("cudnnGetLastErrorString", void (*)(char *, size_t))(message, 7);
    printf("message %s\n", message);
    FUNCTION("cudnnGetLastErrorString", void (*)(char *, size_t))(NULL, 0);
    printf("version again %zu\n", FUNCTION("cudnnGetVersion", size_t(*)(void))());
    return 0;
}
