#include "dynamic/fours.cuh"
#include "dynamic/level.cuh"
