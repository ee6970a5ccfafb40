// cuda_launch.h - the CUDA kernels by name, and the grid that each needs for its arguments.
//
// Plain C without a call of a driver: whoever has one launches
//     cuLaunchKernel(function of name, grid, block, shared_bytes, stream, {&args})
// More than 48 KiB of shared memory must be allowed before
// (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES); what a kernel has itself counts, too.
#ifndef FXI_KERNELS_CUDA_LAUNCH_H
#define FXI_KERNELS_CUDA_LAUNCH_H

#include "kernels/cuda/cuda_args.h"

// Each kernel: its id, its name after "fxi_cuda_", its arguments after "fxi_cuda_", and its shape
// (cuda_launch.c).
#define FXI_CUDA_BLOCK_TYPES(X) \
    X(Q4_0, q4_0)               \
    X(Q4_1, q4_1)               \
    X(Q5_0, q5_0)               \
    X(Q5_1, q5_1)               \
    X(Q8_0, q8_0)               \
    X(Q2_K, q2_k)               \
    X(Q3_K, q3_k)               \
    X(Q4_K, q4_k)               \
    X(Q5_K, q5_k)               \
    X(Q6_K, q6_k)               \
    X(IQ4_NL, iq4_nl)           \
    X(IQ4_XS, iq4_xs)           \
    X(MXFP4, mxfp4)

// Head sizes of attention by tensor cores.
#define FXI_CUDA_MMA_HEADS(X, type, name) \
    X(type, name, 64)                     \
    X(type, name, 80)                     \
    X(type, name, 96)                     \
    X(type, name, 128)                    \
    X(type, name, 256)

// The same, of wide tiles.
#define FXI_CUDA_WIDE_HEADS(X, type, name) \
    X(type, name, 64)                      \
    X(type, name, 80)                      \
    X(type, name, 96)                      \
    X(type, name, 128)

#define FXI_CUDA_KERNELS(X)                             \
    X(EMBED, embed, embed, rows)                        \
    X(ADD_NORM, add_norm, add_norm, rows)               \
    X(ROWS, rows, rows, rows)                           \
    X(ADD_RANKS, add_ranks, add_ranks, rows)            \
    X(JOIN, join, join, rows)                           \
    X(ROPE_STORE, rope_store, rope_store, rows)         \
    X(ATTENTION, attention, attn, attention)            \
    X(ATTN_MERGE, attn_merge, attn, merge)              \
    X(ROUTE, route, route, route)                       \
    X(PLACE, place, place, place)                       \
    X(GATHER, gather, gather, rows)                     \
    X(COMBINE, combine, combine, rows)                  \
    X(LOGITS, logits, logits, rows)                     \
    X(ARGMAX, argmax, argmax, rows)                     \
    X(LINEAR_F32, linear_f32, linear, float)            \
    X(LINEAR_F16, linear_f16, linear, float)            \
    X(LINEAR_BF16, linear_bf16, linear, float)          \
    X(LINEAR_F16_FEW, linear_f16_few, linear, blocks)   \
    X(LINEAR_F16_SOME, linear_f16_some, linear, some)   \
    X(LINEAR_F16_MANY, linear_f16_many, linear, many)   \
    X(LINEAR_BF16_FEW, linear_bf16_few, linear, blocks) \
    X(LINEAR_BF16_SOME, linear_bf16_some, linear, some) \
    X(LINEAR_BF16_MANY, linear_bf16_many, linear, many)

typedef enum fxi_cuda_kernel_id {
#define FXI_CUDA_ID(id, name, args, grid) FXI_CUDA_##id,
    FXI_CUDA_KERNELS(FXI_CUDA_ID)
#undef FXI_CUDA_ID
#define FXI_CUDA_ID(id, name) FXI_CUDA_LINEAR_##id,
        FXI_CUDA_BLOCK_TYPES(FXI_CUDA_ID)
#undef FXI_CUDA_ID
#define FXI_CUDA_ID(type, name, head) FXI_CUDA_ATTN_##type##_##head,
            FXI_CUDA_MMA_HEADS(FXI_CUDA_ID, F16, f16) FXI_CUDA_MMA_HEADS(FXI_CUDA_ID, BF16, bf16)
#undef FXI_CUDA_ID
#define FXI_CUDA_ID(type, name, head) FXI_CUDA_ATTN_##type##_##head##_MANY,
                FXI_CUDA_WIDE_HEADS(FXI_CUDA_ID, F16, f16)
                    FXI_CUDA_WIDE_HEADS(FXI_CUDA_ID, BF16, bf16)
#undef FXI_CUDA_ID
                        FXI_CUDA_KERNEL_END
} fxi_cuda_kernel_id;

// What a launch needs. A grid may have a dimension 0: nothing is to be done, and must not be
// launched.
typedef struct fxi_cuda_grid {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes; // dynamic
} fxi_cuda_grid;

typedef struct fxi_cuda_kernel {
    const char *name; // of the function in the module
    size_t arg_bytes; // of its struct, its one argument
    void (*shape)(const void *args, fxi_cuda_grid *out);
} fxi_cuda_kernel;

const fxi_cuda_kernel *fxi_cuda_kernel_find(fxi_cuda_kernel_id id);

// The order of sums (kernels.h is the CPU's).
typedef enum fxi_cuda_math {
    FXI_CUDA_CPU_EXACT, // the CPU's: the same bits
    // Block types as exact; f16 and bf16 weights and attention by tensor cores, in one fixed order
    // whatever the batch.
    FXI_CUDA_BATCH_INVARIANT
} fxi_cuda_math;

// The form of activations that a linear layer reads.
typedef enum fxi_cuda_form {
    FXI_CUDA_FORM_X, // f32
    FXI_CUDA_FORM_F16,
    FXI_CUDA_FORM_B16,
    FXI_CUDA_FORM_Q8
} fxi_cuda_form;

fxi_cuda_form fxi_cuda_linear_form(fxi_dtype type, fxi_cuda_math math);
// The kernel of linear layers with weights of this type, for up to n_row rows. Which one it is for
// how many rows never changes a bit.
fxi_cuda_kernel_id fxi_cuda_linear_find(fxi_dtype type, fxi_cuda_math math, int n_row);
// The kernel of attention over a cache of this type. Where the tensor cores have none for the type
// or the size of heads, it is the exact one. Rows of caches that they read are aligned to 16 bytes.
fxi_cuda_kernel_id fxi_cuda_attention_find(fxi_dtype kv_type, int head_dim, fxi_cuda_math math);
// The one of wide tiles, with the same bits. FXI_CUDA_KERNEL_END: there is none.
fxi_cuda_kernel_id fxi_cuda_attention_wide_find(fxi_dtype kv_type, int head_dim,
                                                fxi_cuda_math math);

#endif
