/* Takes the real cuDNN's place, to see how calls arrive. VERSION is the version that it reports; CONSTRUCTOR makes it
 * call back while it is being loaded. */
#define _GNU_SOURCE
#include "fake_cudnn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <unwind.h>

#ifndef VERSION
#define VERSION 91900
#endif

size_t cudnnGetVersion(void) { return VERSION; }

long cudnnActivationForward(long a, int b, short c, signed char d, unsigned e, long f, long g, int h,
                            signed char i, long j, short k, long l) {
    return a + 3 * b + 5 * c + 7 * d + 11 * (long)e + 13 * f + 17 * g + 19 * h + 23 * i + 29 * j +
           31 * k + 37 * l;
}

double cudnnActivationBackward(double a, float b, double c, float d, double e, float f, double g,
                               float h, double i, float j, double k, float l) {
    return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i + 29 * j + 31 * k +
           37 * l;
}

double cudnnOpTensor(int count, ...) {
    va_list rest;
    va_start(rest, count);
    double sum = 0;
    for (int i = 0; i < count; i++) {
        long integer = va_arg(rest, long);
        sum += (i + 1) * (integer + 2 * va_arg(rest, double));
    }
    va_end(rest);
    return sum;
}

struct large cudnnAddTensor(long scale, struct large by_value, double factor) {
    for (int i = 0; i < 6; i++) by_value.values[i] = scale * by_value.values[i] + (long)(factor * i);
    return by_value;
}

struct mixed cudnnScaleTensor(struct mixed by_value, int factor) {
    return (struct mixed){by_value.integer * factor, by_value.real / factor};
}

long double cudnnSetTensor(long double real, __int128 wide) { return real + (long)(wide >> 64); }

struct search {
    void *function;
    int frames;
    int found;
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument) {
    struct search *search = argument;
    if (_Unwind_FindEnclosingFunction((void *)(_Unwind_GetIP(context) - 1)) == search->function) {
        search->found = search->frames;
        return _URC_END_OF_STACK;
    }
    search->frames++;
    return _URC_NO_REASON;
}

__attribute__((noinline)) static int frames_to(void *function) {
    struct search search = {function, -1, -1}; /* the first frame visited is this one */
    _Unwind_Backtrace(visit, &search);
    return search.found;
}

int cudnnTransformTensor(void *function) {
    int frames = frames_to(function);
    __asm__ volatile(""); /* no tail call: this function keeps its frame */
    return frames;
}

static int constructed, constructor_frames = -1;
static size_t constructor_version;

int cudnnDropoutForward(void) { return constructor_frames; }
size_t cudnnDropoutBackward(void) { return constructor_version; }
int cudnnIm2Col(void) { return constructed; }

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void construct(void) {
    constructed++;
    void *caller = dlsym(RTLD_DEFAULT, "first_caller"); /* the program exports it */
    if (caller) constructor_frames = frames_to(caller);
    size_t (*version)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "cudnnGetVersion");
    if (version) constructor_version = version();
}
#endif

void cudnnFusedOpsExecute(void *result) { pthread_exit(result); }
