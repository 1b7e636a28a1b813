/* Prints which libraries this process has. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    Dl_info info;
    printf("hostdnn %d\n", dlsym(RTLD_DEFAULT, "hostdnnGetVersion") != NULL);
    printf("ucudnn %d\n", dlsym(RTLD_DEFAULT, "ucudnnGetVersion") != NULL);
    void *call = dlsym(RTLD_DEFAULT, "cudnnConvolutionForward");
    printf("call %s\n", call && dladdr(call, &info) ? info.dli_fname : "none");
    printf("version %zu\n", cudnnGetVersion());
    return 0;
}
