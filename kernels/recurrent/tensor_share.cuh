// A block's share of each time step, as in share.cuh, on tensor cores.
#pragma once

#include "recurrent/recurrence.cuh"

#include "common/matrix/tensor.cuh"

// The factor that h is in a product.
typedef Element Factor;
__device__ __forceinline__ Factor to_factor(Element element) { return to_tensor(element); }
__device__ __forceinline__ Factor to_factor_of_new(float h) { return to_tensor(to_element(h)); }

// The thread's part of R; and R h of the thread's own pairs.
typedef TensorPart<UNITS, BATCH_TILE, LANES, HIDDEN, DEPTH, PRODUCTS, REGISTER_WEIGHTS> Weights;
typedef Weights::Own Own;
constexpr int LANE_PAIRS = Weights::pairs;
typedef float Sums[LANE_PAIRS][PRODUCTS];

// A tile's h, row by row.
constexpr int PADDED_HIDDEN = Weights::padded;
constexpr int TILE_FACTORS = BATCH_TILE * PADDED_HIDDEN;
