// rng.h - a counter-based generator: the i-th number is a function of its key and i only, so a draw
// does not depend on earlier draws, on the caller, or on the batch.
//
// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2,
// 3, SC'11).
#ifndef FXI_BASE_RNG_H
#define FXI_BASE_RNG_H

#include <stdint.h>

// The block for (key, counter): four words of 32 random bits each.
void fxi_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

// 64 random bits for (seed, stream, index).
uint64_t fxi_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);

// A double in [0, 1) with 53 random bits.
double fxi_rng_unit(uint64_t seed, uint64_t stream, uint64_t index);

#endif
