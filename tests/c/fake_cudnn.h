/* The functions of fake_cudnn.c under cuDNN's names. They do not have cuDNN's signatures: each has one hazard of the
 * calling conventions, which a trampoline must carry without knowing any signature. */
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

/* Stores, on entry, every register that may hold an argument or must be preserved, and two words of the stack. In
 * registers.S. */
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

/* The number of frames from the called function up to the frame of `function`; -1 if unwinding does not reach it. */
int cudnnTransformTensor(void *function);
/* The same, from the constructor that runs within the first call; and the version that this constructor got when it
 * called back. */
int cudnnDropoutForward(void);
size_t cudnnDropoutBackward(void);
/* The number of times that constructors have run. */
int cudnnIm2Col(void);

/* Ends the calling thread by unwinding it. */
void cudnnFusedOpsExecute(void *result);

#endif
