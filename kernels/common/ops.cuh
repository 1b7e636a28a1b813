// The element type, and arithmetic with it: the one of ELEMENT_FLOAT, ELEMENT_HALF and ELEMENT_BFLOAT16 that is
// defined.
#pragma once

#if defined ELEMENT_FLOAT
#include "common/ops_float.cuh"
#elif defined ELEMENT_HALF
#include "common/ops_half.cuh"
#elif defined ELEMENT_BFLOAT16
#include "common/ops_bfloat16.cuh"
#endif
