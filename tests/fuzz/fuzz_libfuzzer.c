// fuzz_libfuzzer.c - a fuzz target as libFuzzer calls it; FUZZ_RUN is the target's function.
#include "fuzz.h"

int FUZZ_RUN(const uint8_t *data, size_t n_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    return FUZZ_RUN(data, n_bytes);
}
