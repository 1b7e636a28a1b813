#ifndef ALLOCATIONS_H_
#define ALLOCATIONS_H_

#include <stddef.h>

/* The most bytes that were allocated at once as device memory is on the host. */
size_t allocations_peak(void);

#endif
