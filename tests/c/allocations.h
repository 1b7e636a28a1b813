#ifndef ALLOCATIONS_H_
#define ALLOCATIONS_H_

#include <stddef.h>

/* The most bytes of device memory on the host that were allocated at once. */
size_t allocations_peak(void);

#endif
