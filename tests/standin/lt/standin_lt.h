// standin_lt.h - a stand-in for NVIDIA's cuBLASLt: libcublasLt.so.13 without a GPU, for tests, on
// the stand-in for the driver (standin.h).
//
// It follows the library's documentation as far as Y = W^T A goes, by plain loops in f32, done when
// the stream comes to it. What it is given is checked, and a breach is recorded where those of the
// driver are (standin_report.breach):
//   - whatever it is handed was created by it and not destroyed, and a context is current;
//   - W and A are of the same type, f16 or bf16, Y of f32; rows, columns and leading dimensions fit
//     together, C is D, and nothing is added (beta 0);
//   - the algorithm is one that it gave for the same sizes and types, and the workspace is as large
//     as that needs: it is filled with garbage;
//   - all memory is the device's, open, aligned to 256 bytes.
// As with the library, the order of sums depends on the number of columns of A: above 16 a sum is
// made in two halves.
#ifndef VT_TEST_STANDIN_LT_H
#define VT_TEST_STANDIN_LT_H

#include "standin/library/standin_library.h"

extern standin_library standin_lt; // its objects are all that it makes

typedef struct standin_lt_report { // since the last reset
    uint64_t n_find, n_multiply;
} standin_lt_report;

void standin_lt_reset(void); // also standin_lt
standin_lt_report standin_lt_look(void);

// From now on the heuristic knows no algorithm for products of so many columns; 0: it knows all.
void standin_lt_refuse(uint64_t n_col);

#endif
