// What is stored, and what is computed with it: of ELEMENT_FLOAT, ELEMENT_HALF and ELEMENT_BFLOAT16 the one that is defined
// says which.
#pragma once

#if defined ELEMENT_FLOAT
#include "ops_float.cuh"
#elif defined ELEMENT_HALF
#include "ops_half.cuh"
#elif defined ELEMENT_BFLOAT16
#include "ops_bfloat16.cuh"
#endif
