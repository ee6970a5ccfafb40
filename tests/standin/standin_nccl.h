// standin_nccl.h - a stand-in for NVIDIA's NCCL: libnccl.so.2 without a GPU, for tests, on the
// stand-in for the driver (standin.h).
//
// It adds and gathers rows of f32 over ranks of one process. As on devices, that begins when the
// streams of all ranks have come to it, and no stream goes on before it is done. What it is given
// is checked, and a breach is recorded where those of the driver are (standin_report.breach):
//   - communicators were made by it, of different devices, and not destroyed;
//   - with several ranks, work is given in a group, and by the end of the group to every rank of a
//     communicator, the same work in the same order: otherwise the library would wait for ever;
//   - the stream and the memory of a rank are its device's, the memory open and aligned to 4 bytes.
// As with the library, two ranks are added as a + b; with more, the order of a sum depends on its
// size: it begins with rank 0 up to STANDIN_NCCL_SMALL numbers, and beyond them with rank 1.
#ifndef VT_TEST_STANDIN_NCCL_H
#define VT_TEST_STANDIN_NCCL_H

#include <stdint.h>

enum { STANDIN_NCCL_SMALL = 512 };

typedef struct standin_nccl_report { // but for n_comm, since the last reset
    uint64_t n_comm;                 // communicators now, one per rank
    uint64_t n_call, n_failed;       // calls that may fail
    uint64_t n_sum, n_gather;        // of all ranks
    uint64_t n_aborted;              // communicators that were given up
} standin_nccl_report;

void standin_nccl_reset(void); // counts and orders to fail, not communicators
standin_nccl_report standin_nccl_look(void);
// The i-th call from now on (0: the next) that may fail answers `status` and does nothing.
void standin_nccl_fail(uint64_t i, int status);

#endif
