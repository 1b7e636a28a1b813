#ifndef DEVICE_TIME_H_
#define DEVICE_TIME_H_

#include "kernel.h"

cudnnStatus_t hostdnnGetTime(double *milliseconds);

/* Prints the milliseconds of hostdnn's clock. */
static inline void say_time(void) {
    double milliseconds;
    CALL(hostdnnGetTime(&milliseconds));
    printf("time %.6f\n", milliseconds);
}

#endif
