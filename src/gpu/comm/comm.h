// comm.h - several GPUs of one process as ranks that add and gather together, by NVIDIA's NCCL.
//
// A sum or a gather is work in the compute stream of every rank: it begins when all of them have
// come to it, and each rank has the result when its stream goes on. All ranks get it in one call
// here, which is one group of NCCL's.
//
// Order of sums: with two ranks the sum is a + b whatever the library does. With three or more, the
// order of NCCL's sums depends on the machine and on n. A caller that needs one order
// gathers and adds.
//
// They are refused by a build without NCCL (FX_NCCL=OFF), and where libnccl.so.2 is missing.
//
// Threads: one at a time. No context need be current: calls enter that of rank 0 and leave it.
// Errors: as cu.h, with lines such as "cuda:0, cuda:1: ncclAllReduce: unhandled cuda error". After
// one the ranks do not go together any more: abort and close are all that is left.
#ifndef FXI_GPU_COMM_H
#define FXI_GPU_COMM_H

#include <stdbool.h>

#include "gpu/comm/nccl_api.h"
#include "gpu/driver/cu.h"

enum { FXI_COMM_MAX_RANK = 8, FXI_COMM_LABEL_BYTES = FXI_COMM_MAX_RANK * (FXI_CU_LABEL_BYTES + 2) };

typedef struct fxi_comm {
    fxi_nccl_api api;
    int n_rank; // 0: not open
    bool is_broken;
    fxi_cu *cu[FXI_COMM_MAX_RANK];
    fxi_nccl_comm comm[FXI_COMM_MAX_RANK];
    char label[FXI_COMM_LABEL_BYTES]; // "cuda:0, cuda:1"
} fxi_comm;

// Makes ranks of open devices, all different; they are borrowed until close. Errors: also
// FX_EINVAL: there is no NCCL, or one rank, or too many. *c is then closed.
fx_status fxi_comm_open(fxi_comm *c, fxi_cu *const *cu, int n_rank, fx_error *err);
// Gives up what the ranks still do together, so that none of them waits for one that is lost; for
// any state. Only close may follow.
void fxi_comm_abort(fxi_comm *c);
void fxi_comm_close(fxi_comm *c); // also one that is not open, or all zero. Pre: nothing runs

// data[rank][n], memory of that rank's device: each of them becomes the sum of all. n is not 0.
fx_status fxi_comm_sum(fxi_comm *c, float *const *data, size_t n, fx_error *err);
// from[rank][n] go to to[rank][n_rank][n] in the order of the ranks. Where from[rank] is not the
// place of it in to[rank], the two do not overlap.
fx_status fxi_comm_gather(fxi_comm *c, float *const *from, float *const *to, size_t n,
                          fx_error *err);

#endif
