/* Counts device memory on the host: the only allocations that are aligned to 256 bytes. The program that links this
 * file answers every library's posix_memalign and free. */
#define _GNU_SOURCE
#include "allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { DEVICE_ALIGNMENT = 256, MOST_BLOCKS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *start;
    size_t bytes;
} blocks[MOST_BLOCKS];
static size_t live, peak;

/* The index of the block that starts at `start`; for null, of a free entry. */
static int find(const void *start) {
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].start == start) return i;
    return -1;
}

int posix_memalign(void **start, size_t alignment, size_t bytes) {
    *start = memalign(alignment, bytes);
    if (!*start) return ENOMEM;
    if (alignment == DEVICE_ALIGNMENT) {
        pthread_mutex_lock(&lock);
        int at = find(NULL);
        if (at < 0) abort();
        blocks[at].start = *start;
        blocks[at].bytes = bytes;
        live += bytes;
        if (live > peak) peak = live;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

void free(void *start) {
    static void (*next)(void *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "free");
    if (start && (uintptr_t)start % DEVICE_ALIGNMENT == 0) {
        pthread_mutex_lock(&lock);
        int at = find(start);
        if (at >= 0) {
            live -= blocks[at].bytes;
            blocks[at].start = NULL;
        }
        pthread_mutex_unlock(&lock);
    }
    next(start);
}

size_t allocations_peak(void) {
    pthread_mutex_lock(&lock);
    size_t bytes = peak;
    pthread_mutex_unlock(&lock);
    return bytes;
}
