// gpu_missing.h - libraries and functions that a test has disappear: for programs whose dlopen and
// dlsym the linker sends here (gpu_test's WRAP).
#ifndef TEST_GPU_MISSING_H
#define TEST_GPU_MISSING_H

extern const char *gpu_missing_library; // files with this in their names; NULL: none
extern const char *gpu_missing_symbol;  // NULL: none

#endif
