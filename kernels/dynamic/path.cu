#include "dynamic/persistent.cuh"
