// cuda_launch.c - the table of kernels, and the shape of each one's grid.
#include "kernels/cuda/cuda_launch.h"

#include "base/number/qblock.h"
#include "kernels/cuda/cuda_plan.h"

// How many blocks of a linear layer share out the rows of a panel: beyond that, a block goes on
// with the next ones.
enum { MAX_ROW_BLOCK = 64 };

static fxi_cuda_grid make_grid(int x, int y, int z, uint32_t n_thread)
{
    const int side[3] = {x, y, z};
    fxi_cuda_grid g = {.block = {n_thread, 1, 1}};
    for (int i = 0; i < 3; i++) g.grid[i] = side[i] > 0 ? (uint32_t)side[i] : 0;
    return g;
}

// A block per row. Arguments begin with their count.
static void shape_rows(const void *args, fxi_cuda_grid *out)
{
    *out = make_grid(((const fxi_cuda_count *)args)->most, 1, 1, 256);
}

static void shape_route(const void *args, fxi_cuda_grid *out)
{
    *out = make_grid(((const fxi_cuda_count *)args)->most, 1, 1, 32);
}

static void shape_place(const void *args, fxi_cuda_grid *out)
{
    *out = make_grid(((const fxi_cuda_count *)args)->most > 0, 1, 1, 256);
}

// ---- linear layers -----------------------------------------------------------------------------

// Blocks of so many panels and rows.
static fxi_cuda_grid linear_grid(const fxi_cuda_linear_args *a, int n_panel, int n_row,
                                 uint32_t n_thread)
{
    const int n = (a->count.most + n_row - 1) / n_row;
    return make_grid((fxi_linear_n_panel(a->w.n_out) + n_panel - 1) / n_panel,
                     n < MAX_ROW_BLOCK ? n : MAX_ROW_BLOCK, a->n_expert, n_thread);
}

#define LINEAR_SHAPE(name, n_panel, n_row, n_thread)               \
    static void shape_##name(const void *args, fxi_cuda_grid *out) \
    {                                                              \
        *out = linear_grid(args, n_panel, n_row, n_thread);        \
    }

LINEAR_SHAPE(float, 1, 8, 128)
LINEAR_SHAPE(blocks, 1, 8, 256)
LINEAR_SHAPE(some, 1, 32, 256)
LINEAR_SHAPE(many, 4, 64, 128)

// ---- attention ---------------------------------------------------------------------------------

// As attention.cu divides it: queries and sums of a tile, keys or values of 32 positions (16 of
// large heads) a float wider than they are, weights of a segment.
static uint32_t exact_bytes(int head_dim)
{
    const int n_pos = head_dim <= 256 ? 32 : 16;
    const int n = 2 * FXI_CUDA_TILE_ROW * head_dim + n_pos * (head_dim + 1) +
                  FXI_CUDA_TILE_ROW * FXI_ATTN_SEGMENT;
    return (uint32_t)n * (uint32_t)sizeof(float);
}

// As attention_mma.cu does: sums, m and l of four parts; queries of large heads as f16 or bf16.
static uint32_t mma_bytes(int head_dim)
{
    const uint32_t n = (uint32_t)head_dim, sums = 4 * FXI_CUDA_TILE_ROW * (n + 2) * 4;
    return n > 128 ? sums + FXI_CUDA_TILE_ROW * n * 2 : sums;
}

// As prefill_mma.cu does: keys and values of 64 positions, padded, and a segment's sums.
static uint32_t wide_bytes(int head_dim)
{
    const uint32_t n = (uint32_t)head_dim, key = (n * 2 + 63) / 128 * 128 + 64, value = n * 2 + 16;
    return 64 * (key + value) + FXI_CUDA_WIDE_ROW * n * 4;
}

#define ATTENTION_SHAPE(name, bytes)                                                 \
    static void shape_##name(const void *args, fxi_cuda_grid *out)                   \
    {                                                                                \
        const fxi_cuda_attn_args *a = args;                                          \
        *out = make_grid(a->max_range, fxi_cuda_attn_heads(a->n_head, a->n_kv_head), \
                         a->count.most, 128);                                        \
        out->shared_bytes = bytes(a->head_dim);                                      \
    }

ATTENTION_SHAPE(attention, exact_bytes)
ATTENTION_SHAPE(attention_mma, mma_bytes)
ATTENTION_SHAPE(attention_wide, wide_bytes)

static void shape_merge(const void *args, fxi_cuda_grid *out)
{
    const fxi_cuda_attn_args *a = args;
    *out = make_grid(a->n_head, FXI_CUDA_TILE_ROW, a->max_range > 1 ? a->count.most : 0, 128);
}

// ---- the table ---------------------------------------------------------------------------------

static const fxi_cuda_kernel kernels[FXI_CUDA_KERNEL_END] = {
#define ROW(id, name, args, shape) \
    [FXI_CUDA_##id] = {"fxi_cuda_" #name, sizeof(fxi_cuda_##args##_args), shape_##shape},
    FXI_CUDA_KERNELS(ROW)
#undef ROW
#define ROW(id, name) \
    [FXI_CUDA_LINEAR_##id] = {"fxi_cuda_linear_" #name, sizeof(fxi_cuda_linear_args), shape_blocks},
        FXI_CUDA_BLOCK_TYPES(ROW)
#undef ROW
#define ROW(type, name, head)                                            \
    [FXI_CUDA_ATTN_##type##_##head] = {"fxi_cuda_attn_" #name "_" #head, \
                                       sizeof(fxi_cuda_attn_args), shape_attention_mma},
            FXI_CUDA_MMA_HEADS(ROW, F16, f16) FXI_CUDA_MMA_HEADS(ROW, BF16, bf16)
#undef ROW
#define ROW(type, name, head)                                                           \
    [FXI_CUDA_ATTN_##type##_##head##_MANY] = {"fxi_cuda_attn_" #name "_" #head "_many", \
                                              sizeof(fxi_cuda_attn_args), shape_attention_wide},
                FXI_CUDA_WIDE_HEADS(ROW, F16, f16) FXI_CUDA_WIDE_HEADS(ROW, BF16, bf16)
#undef ROW
};

const fxi_cuda_kernel *fxi_cuda_kernel_find(fxi_cuda_kernel_id id)
{
    return &kernels[id];
}

fxi_cuda_form fxi_cuda_linear_form(fxi_dtype type, fxi_cuda_math math)
{
    if (fxi_qformat_find(type)) return FXI_CUDA_FORM_Q8;
    if (math == FXI_CUDA_CPU_EXACT || type == FXI_F32) return FXI_CUDA_FORM_X;
    return type == FXI_F16 ? FXI_CUDA_FORM_F16 : FXI_CUDA_FORM_B16;
}

// Rows up to which a tensor-core kernel of 8 and of 32 rows is the faster one: it shares a panel
// out among warps, which reading the weights needs; from then on the arithmetic counts.
enum { MOST_FEW = 8, MOST_SOME = 128 };

fxi_cuda_kernel_id fxi_cuda_linear_find(fxi_dtype type, fxi_cuda_math math, int n_row)
{
    static const fxi_cuda_kernel_id ids[FXI_DTYPE_END] = {[FXI_F32] = FXI_CUDA_LINEAR_F32,
                                                          [FXI_F16] = FXI_CUDA_LINEAR_F16,
                                                          [FXI_BF16] = FXI_CUDA_LINEAR_BF16,
#define ROW(id, name) [FXI_##id] = FXI_CUDA_LINEAR_##id,
                                                          FXI_CUDA_BLOCK_TYPES(ROW)
#undef ROW
    };
    static const fxi_cuda_kernel_id mma[2][3] = {
        {FXI_CUDA_LINEAR_F16_FEW, FXI_CUDA_LINEAR_F16_SOME, FXI_CUDA_LINEAR_F16_MANY},
        {FXI_CUDA_LINEAR_BF16_FEW, FXI_CUDA_LINEAR_BF16_SOME, FXI_CUDA_LINEAR_BF16_MANY}};
    if (math == FXI_CUDA_CPU_EXACT || (type != FXI_F16 && type != FXI_BF16)) return ids[type];
    return mma[type == FXI_BF16][n_row <= MOST_FEW ? 0 : n_row <= MOST_SOME ? 1 : 2];
}

typedef struct mma_kernel {
    fxi_dtype type;
    int head_dim;
    fxi_cuda_kernel_id id;
} mma_kernel;

static fxi_cuda_kernel_id find_mma(const mma_kernel *list, size_t n, fxi_dtype type, int head_dim,
                                   fxi_cuda_kernel_id other)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].type == type && list[i].head_dim == head_dim) return list[i].id;
    return other;
}

fxi_cuda_kernel_id fxi_cuda_attention_find(fxi_dtype kv_type, int head_dim, fxi_cuda_math math)
{
    static const mma_kernel mma[] = {
#define ROW(type, name, head) {FXI_##type, head, FXI_CUDA_ATTN_##type##_##head},
        FXI_CUDA_MMA_HEADS(ROW, F16, f16) FXI_CUDA_MMA_HEADS(ROW, BF16, bf16)
#undef ROW
    };
    return find_mma(mma, math == FXI_CUDA_CPU_EXACT ? 0 : sizeof mma / sizeof *mma, kv_type,
                    head_dim, FXI_CUDA_ATTENTION);
}

fxi_cuda_kernel_id fxi_cuda_attention_wide_find(fxi_dtype kv_type, int head_dim, fxi_cuda_math math)
{
    static const mma_kernel wide[] = {
#define ROW(type, name, head) {FXI_##type, head, FXI_CUDA_ATTN_##type##_##head##_MANY},
        FXI_CUDA_WIDE_HEADS(ROW, F16, f16) FXI_CUDA_WIDE_HEADS(ROW, BF16, bf16)
#undef ROW
    };
    return find_mma(wide, math == FXI_CUDA_CPU_EXACT ? 0 : sizeof wide / sizeof *wide, kv_type,
                    head_dim, FXI_CUDA_KERNEL_END);
}
