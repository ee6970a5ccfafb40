// gpu.h - an NVIDIA GPU as a device of models (model/device.h).
//
// Weights, the operands of passes and, through the memory that it opens, caches lie on the GPU.
// Steps of a pass only give work to it; `wait` sleeps until it is done. libcuda.so.1 is loaded when
// a device is opened, so a program with this room runs on machines without a GPU, too.
#ifndef FXI_GPU_H
#define FXI_GPU_H

#include "base/system/pool.h"
#include "model/device.h"

// Whether a device's name is of this kind: "cuda" or "cuda:N", or a list of them.
bool fxi_gpu_is_name(const char *name);
bool fxi_gpu_is_list(const char *name); // of several: "cuda:0,cuda:1"

typedef struct fxi_gpu_options {
    const char *name; // "cuda:0"; "cuda" is the same
    // The order of sums. "batch-invariant" (NULL): attention and layers of 16-bit weights on tensor
    // cores, in an order that depends on nothing but the sequence; "cpu-exact": the CPU's order, so
    // the same bits as the host's. "law" and "exact" are their old names.
    const char *math;
    fxi_pool *pool; // packs weights while a model is loaded; borrowed until then
    bool no_graphs; // every launch of a pass is a call of the driver, also while decoding
} fxi_gpu_options;

// Opens a GPU. Its close frees all. Errors, each a line that begins with the device's name:
// FX_EINVAL: there is no driver, no such GPU, one that is too old, or this build has no kernels for
// it; FX_ENOMEM; FX_EINTERNAL: the driver failed.
fx_status fxi_gpu_open(const fxi_gpu_options *opt, fxi_device **out, fx_error *err);

// Opens the GPUs of a list, of one or more names with commas between them, as one device with ranks
// (model/device.h): those of the list, in its order. More than one need NCCL. They add the results
// of a half of a layer in the order of the ranks, so the bits depend on how many there are, and on
// nothing else; of one, they are those of that GPU alone. Errors: also
// FX_EINVAL: the list names a GPU twice or too many, or there is no NCCL.
fx_status fxi_gpu_ranks_open(const fxi_gpu_options *opt, fxi_device **out, fx_error *err);

#endif
