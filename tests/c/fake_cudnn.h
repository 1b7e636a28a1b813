/* What fake_cudnn.c offers under cuDNN's names: not cuDNN's signatures, but one for each hazard of
 * the calling conventions, which a trampoline that knows no signature must carry all the same. */
#ifndef FAKE_CUDNN_H
#define FAKE_CUDNN_H

#include <stddef.h>

size_t cudnnGetVersion(void);

/* More integers, of all widths, than there are registers. */
long cudnnActivationForward(long a, int b, short c, signed char d, unsigned e, long f, long g, int h,
                            signed char i, long j, short k, long l);
/* More floats and doubles than there are vector registers. */
double cudnnActivationBackward(double a, float b, double c, float d, double e, float f, double g,
                               float h, double i, float j, double k, float l);
/* Sums `count` pairs of a long and a double. On x86-64, al counts the vector registers. */
double cudnnOpTensor(int count, ...);

/* Comes back through a hidden pointer. */
struct large {
    long values[6];
};
struct large cudnnAddTensor(long scale, struct large by_value, double factor);

/* Comes back in an integer and a vector register. */
struct mixed {
    long integer;
    double real;
};
struct mixed cudnnScaleTensor(struct mixed by_value, int factor);

/* On x86-64, on the x87 stack and in a pair of registers. */
long double cudnnSetTensor(long double real, __int128 wide);

/* Stores what every register that may hold an argument, or must be kept, and two words of the
 * stack hold on entry. In registers.S. */
struct registers {
#if defined(__x86_64__)
    long integers[14]; /* rdi rsi rdx rcx r8 r9 rax r10, rbx rbp r12-r15 */
#else
    long integers[20]; /* x0-x8, x19-x29 */
#endif
    long stack[2];
    unsigned char vectors[8][16];
};
void cudnnSoftmaxForward(void);
struct registers *cudnnSoftmaxBackward(void);

/* How many frames above the called function the one of `function` is; -1 if unwinding does not
 * reach it. */
int cudnnTransformTensor(void *function);
/* The same, seen from the constructor that runs within the first call; and the version that the
 * constructor got when it called back. */
int cudnnDropoutForward(void);
size_t cudnnDropoutBackward(void);
/* How often constructors have run. */
int cudnnIm2Col(void);

/* Ends the calling thread by unwinding it. */
void cudnnFusedOpsExecute(void *result);

#endif
