// The sums of all gates of a pair of a unit and a row, in shared memory: one access reads them, if their number allows.
#pragma once

template <int Gates> struct alignas(Gates % 4 ? sizeof(float) : 4 * sizeof(float)) GateSums {
    float gate[Gates];
};
