// standin_lt.c - products as plain loops, and the checks around them; see standin_lt.h.
#include "standin/lt/standin_lt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/library/lt_api.h"
#include "standin/state.h"

enum {
    NOT_INITIALIZED = 1,
    NOT_SUPPORTED = 15,
    ALIGN = 256,
    HALVES_FROM = 17,
    USED_WORKSPACE = 4096,
    GARBAGE = 0xA5,
    MAGIC = 0x4C54616C,
};

enum { HANDLE, PRODUCT, LAYOUT, PREFERENCE }; // kinds of objects

struct cublasLtContext {
    standin_object object;
};

struct fxi_lt_product_ {
    standin_object object;
    int32_t trans_a;
};

struct fxi_lt_layout_ {
    standin_object object;
    fxi_lt_number type;
    uint64_t n_row, n_col;
    int64_t ld;
};

struct fxi_lt_preference_ {
    standin_object object;
    uint64_t workspace_bytes;
};

#define DECLARE(member, result, symbol, parameters) result symbol parameters;
FXI_LT_FUNCTIONS(DECLARE)
#undef DECLARE

standin_library standin_lt;
static standin_lt_report counts;
static uint64_t refused_cols;

// ---- rules that all calls share ----------------------------------------------------------------

static fxi_lt_status breach(const char *what)
{
    (void)standin_breach(what);
    return 7; // INVALID_VALUE
}

static bool lives(const void *object, int kind)
{
    return standin_library_find(&standin_lt, object, kind) != NULL;
}

static fxi_lt_status make_object(int kind, size_t size_bytes, void **out)
{
    *out = standin_library_make(&standin_lt, kind, size_bytes);
    return *out ? FXI_LT_SUCCESS : FXI_LT_ALLOC_FAILED;
}

static fxi_lt_status drop_object(void *object, int kind)
{
    standin_library_hold();
    const bool dropped = standin_library_drop(&standin_lt, object, kind);
    return standin_library_leave(dropped ? FXI_LT_SUCCESS
                                         : breach("cuBLASLt: destroys what it did not make"));
}

void standin_lt_reset(void)
{
    standin_library_reset(&standin_lt);
    counts = (standin_lt_report){0};
    refused_cols = 0;
}

standin_lt_report standin_lt_look(void)
{
    return counts;
}

void standin_lt_refuse(uint64_t n_col)
{
    refused_cols = n_col;
}

const char *cublasLtGetStatusName(fxi_lt_status status)
{
    static const char *const names[] = {"CUBLAS_STATUS_SUCCESS",
                                        "CUBLAS_STATUS_NOT_INITIALIZED",
                                        [FXI_LT_ALLOC_FAILED] = "CUBLAS_STATUS_ALLOC_FAILED",
                                        [7] = "CUBLAS_STATUS_INVALID_VALUE",
                                        [13] = "CUBLAS_STATUS_EXECUTION_FAILED",
                                        [NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED"};
    const char *name =
        status >= 0 && status < (int)(sizeof names / sizeof *names) ? names[status] : NULL;
    return name ? name : "CUBLAS_STATUS_UNKNOWN";
}

// ---- what describes a product ------------------------------------------------------------------

fxi_lt_status cublasLtCreate(fxi_lt_handle *handle)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (standin_context_depth() == 0) return standin_library_leave(NOT_INITIALIZED);
    return standin_library_leave(make_object(HANDLE, sizeof **handle, (void **)handle));
}

fxi_lt_status cublasLtDestroy(fxi_lt_handle handle)
{
    return drop_object(handle, HANDLE);
}

fxi_lt_status cublasLtMatmulDescCreate(fxi_lt_product *product, fxi_lt_compute compute,
                                       fxi_lt_number scale)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (compute != FXI_LT_COMPUTE_32F || scale != FXI_LT_32F)
        return standin_library_leave(breach("cuBLASLt: arithmetic that is not f32"));
    return standin_library_leave(make_object(PRODUCT, sizeof **product, (void **)product));
}

fxi_lt_status cublasLtMatmulDescDestroy(fxi_lt_product product)
{
    return drop_object(product, PRODUCT);
}

fxi_lt_status cublasLtMatmulDescSetAttribute(fxi_lt_product product, fxi_lt_attribute which,
                                             const void *value, size_t size_bytes)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (!lives(product, PRODUCT) || which != FXI_LT_PRODUCT_TRANSA ||
        size_bytes != sizeof product->trans_a)
        return standin_library_leave(breach("cuBLASLt: an odd attribute of a product"));
    memcpy(&product->trans_a, value, size_bytes);
    return standin_library_leave(FXI_LT_SUCCESS);
}

fxi_lt_status cublasLtMatrixLayoutCreate(fxi_lt_layout *layout, fxi_lt_number type, uint64_t n_row,
                                         uint64_t n_col, int64_t ld)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (!n_row || !n_col || ld < (int64_t)n_row)
        return standin_library_leave(breach("cuBLASLt: a layout of nothing, or rows that overlap"));
    r = make_object(LAYOUT, sizeof **layout, (void **)layout);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    (*layout)->type = type;
    (*layout)->n_row = n_row;
    (*layout)->n_col = n_col;
    (*layout)->ld = ld;
    return standin_library_leave(r);
}

fxi_lt_status cublasLtMatrixLayoutDestroy(fxi_lt_layout layout)
{
    return drop_object(layout, LAYOUT);
}

fxi_lt_status cublasLtMatrixLayoutSetAttribute(fxi_lt_layout layout, fxi_lt_side which,
                                               const void *value, size_t size_bytes)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (!lives(layout, LAYOUT) || which != FXI_LT_LAYOUT_COLS || size_bytes != sizeof layout->n_col)
        return standin_library_leave(breach("cuBLASLt: an odd attribute of a layout"));
    memcpy(&layout->n_col, value, size_bytes);
    return standin_library_leave(layout->n_col ? FXI_LT_SUCCESS
                                               : breach("cuBLASLt: a layout of no columns"));
}

fxi_lt_status cublasLtMatmulPreferenceCreate(fxi_lt_preference *preference)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    return standin_library_leave(make_object(PREFERENCE, sizeof **preference, (void **)preference));
}

fxi_lt_status cublasLtMatmulPreferenceDestroy(fxi_lt_preference preference)
{
    return drop_object(preference, PREFERENCE);
}

fxi_lt_status cublasLtMatmulPreferenceSetAttribute(fxi_lt_preference preference, fxi_lt_wish which,
                                                   const void *value, size_t size_bytes)
{
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    if (!lives(preference, PREFERENCE) || which != FXI_LT_WISH_WORKSPACE ||
        size_bytes != sizeof preference->workspace_bytes)
        return standin_library_leave(breach("cuBLASLt: an odd attribute of a preference"));
    memcpy(&preference->workspace_bytes, value, size_bytes);
    return standin_library_leave(FXI_LT_SUCCESS);
}

// ---- algorithms --------------------------------------------------------------------------------

static bool is_half(fxi_lt_number type)
{
    return type == FXI_LT_16F || type == FXI_LT_16BF;
}

// What is wrong with the descriptions; NULL: nothing.
static const char *odd_product(fxi_lt_handle handle, fxi_lt_product p, const fxi_lt_layout l[4])
{
    if (!lives(handle, HANDLE) || !lives(p, PRODUCT))
        return "cuBLASLt: a handle or product that is none";
    for (int i = 0; i < 4; i++)
        if (!lives(l[i], LAYOUT)) return "cuBLASLt: a layout that is none";
    if (p->trans_a != FXI_LT_OP_T) return "cuBLASLt: the first matrix is not transposed";
    if (!is_half(l[0]->type) || l[1]->type != l[0]->type || l[2]->type != FXI_LT_32F)
        return "cuBLASLt: types that do not go together";
    if (l[0]->n_row != l[1]->n_row || l[2]->n_row != l[0]->n_col || l[2]->n_col != l[1]->n_col)
        return "cuBLASLt: sizes that do not go together";
    return l[2] == l[3] ? NULL : "cuBLASLt: C is not D";
}

static fxi_lt_algo algo_for(const fxi_lt_layout l[4])
{
    return (fxi_lt_algo){{MAGIC, l[0]->n_row, l[0]->n_col, l[1]->n_col, (uint64_t)l[0]->type,
                          (uint64_t)l[0]->ld, (uint64_t)l[1]->ld, (uint64_t)l[2]->ld}};
}

fxi_lt_status cublasLtMatmulAlgoGetHeuristic(fxi_lt_handle handle, fxi_lt_product product,
                                             fxi_lt_layout a, fxi_lt_layout b, fxi_lt_layout c,
                                             fxi_lt_layout d, fxi_lt_preference preference,
                                             int n_wanted, fxi_lt_candidate candidate[],
                                             int *n_found)
{
    const fxi_lt_layout all[4] = {a, b, c, d};
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    const char *odd = odd_product(handle, product, all);
    if (odd) return standin_library_leave(breach(odd));
    if (!lives(preference, PREFERENCE) || preference->workspace_bytes < USED_WORKSPACE ||
        n_wanted < 1)
        return standin_library_leave(breach("cuBLASLt: an odd wish for algorithms"));
    counts.n_find++;
    *n_found = refused_cols != b->n_col;
    if (*n_found)
        candidate[0] = (fxi_lt_candidate){
            .algo = algo_for(all), .workspace_bytes = USED_WORKSPACE, .waves = 1};
    return standin_library_leave(FXI_LT_SUCCESS);
}

// ---- products ----------------------------------------------------------------------------------

typedef struct lt_task {
    const uint16_t *w, *a;
    float *y;
    void *workspace;
    uint64_t n_in, n_out, n_col;
    int64_t ld_w, ld_a, ld_y;
    bool is_bf16;
} lt_task;

static float widen(uint16_t x, bool is_bf16)
{
    float y;
    const uint32_t bits = (uint32_t)x << 16;
    if (is_bf16) {
        memcpy(&y, &bits, sizeof y);
        return y;
    }
    const int exponent = x >> 10 & 31, fraction = x & 1023;
    const float sign = x >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
                            : ldexpf((float)fraction, -24));
}

static float dot(const lt_task *t, const uint16_t *w, const uint16_t *a, uint64_t from, uint64_t to)
{
    float sum = 0;
    for (uint64_t k = from; k < to; k++) sum += widen(w[k], t->is_bf16) * widen(a[k], t->is_bf16);
    return sum;
}

static void run_task(void *arg)
{
    const lt_task *t = arg;
    const uint64_t half = t->n_col >= HALVES_FROM ? t->n_in / 2 : t->n_in;
    memset(t->workspace, GARBAGE, USED_WORKSPACE);
    for (uint64_t j = 0; j < t->n_col; j++)
        for (uint64_t i = 0; i < t->n_out; i++) {
            const uint16_t *w = t->w + i * (uint64_t)t->ld_w, *a = t->a + j * (uint64_t)t->ld_a;
            t->y[j * (uint64_t)t->ld_y + i] = dot(t, w, a, 0, half) + dot(t, w, a, half, t->n_in);
        }
}

static uint64_t span(const struct fxi_lt_layout_ *l)
{
    const uint64_t each = l->type == FXI_LT_32F ? 4 : 2;
    return ((l->n_col - 1) * (uint64_t)l->ld + l->n_row) * each;
}

static fxi_lt_status give_product(const lt_task *t, const fxi_lt_layout l[4], vti_cu_stream stream)
{
    const uintptr_t at[] = {(uintptr_t)t->w, (uintptr_t)t->a, (uintptr_t)t->y,
                            (uintptr_t)t->workspace};
    lt_task *copy = malloc(sizeof *copy);
    if (!copy) return FXI_LT_ALLOC_FAILED;
    *copy = *t;
    standin_task task = {.run = run_task, .arg = copy};
    for (int i = 0; i < 4; i++) {
        task.range[i].at = at[i];
        task.range[i].size_bytes = i < 3 ? span(l[i]) : USED_WORKSPACE;
        task.range[i].writes = i >= 2;
    }
    return standin_give_task(stream, &task) == VTI_CU_SUCCESS ? FXI_LT_SUCCESS : 13;
}

static bool is_aligned(const void *at)
{
    return (uintptr_t)at % ALIGN == 0;
}

// What is wrong with a product whose descriptions are right; NULL: nothing.
static const char *odd_operands(const lt_task *t, const fxi_lt_layout l[4], const fxi_lt_algo *algo,
                                size_t workspace_bytes)
{
    const fxi_lt_algo mine = algo_for(l);
    if (!algo || memcmp(algo, &mine, sizeof mine) != 0)
        return "cuBLASLt: an algorithm that is not for this product";
    if (!is_aligned(t->w) || !is_aligned(t->a) || !is_aligned(t->y) || !is_aligned(t->workspace))
        return "cuBLASLt: memory that is not aligned";
    return workspace_bytes >= USED_WORKSPACE ? NULL : "cuBLASLt: the workspace is too small";
}

fxi_lt_status cublasLtMatmul(fxi_lt_handle handle, fxi_lt_product product, const void *alpha,
                             const void *a, fxi_lt_layout a_layout, const void *b,
                             fxi_lt_layout b_layout, const void *beta, const void *c,
                             fxi_lt_layout c_layout, void *d, fxi_lt_layout d_layout,
                             const fxi_lt_algo *algo, void *workspace, size_t workspace_bytes,
                             vti_cu_stream stream)
{
    const fxi_lt_layout all[4] = {a_layout, b_layout, c_layout, d_layout};
    fxi_lt_status r = standin_library_enter(&standin_lt);
    if (r != FXI_LT_SUCCESS) return standin_library_leave(r);
    const char *odd = odd_product(handle, product, all);
    if (odd) return standin_library_leave(breach(odd));
    if (*(const float *)alpha != 1 || *(const float *)beta != 0 || c != d)
        return standin_library_leave(breach("cuBLASLt: something is scaled or added"));
    const lt_task t = {.w = a,
                       .a = b,
                       .y = d,
                       .workspace = workspace,
                       .n_in = a_layout->n_row,
                       .n_out = a_layout->n_col,
                       .n_col = b_layout->n_col,
                       .ld_w = a_layout->ld,
                       .ld_a = b_layout->ld,
                       .ld_y = d_layout->ld,
                       .is_bf16 = a_layout->type == FXI_LT_16BF};
    odd = odd_operands(&t, all, algo, workspace_bytes);
    if (odd) return standin_library_leave(breach(odd));
    counts.n_multiply++;
    if (standin_context_depth() == 0)
        return standin_library_leave(breach("cuBLASLt: no context is current"));
    return standin_library_leave(give_product(&t, all, stream));
}
