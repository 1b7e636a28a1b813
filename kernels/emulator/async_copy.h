// The emulator's `async_copy.cuh`.
#pragma once

#include "schedule.h"

template <int BYTES> inline void copy_async(void *to, const void *from, bool is_there) {
    static_assert(BYTES == 2 || BYTES == 4 || BYTES == 8 || BYTES == 16, "2, 4, 8 or 16 bytes");
    emulator::copy_async(to, is_there ? from : nullptr, BYTES);
}

inline void end_group() { emulator::end_group(); }

template <int BUT> inline void wait_for_groups() { emulator::wait_for_groups(BUT); }
