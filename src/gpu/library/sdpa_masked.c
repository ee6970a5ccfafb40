// sdpa_masked.c - attention with a mask, as a graph of simple steps: scores are a product of
// queries and keys; those of positions that are not there, or not before the token, become the
// lowest number; their softmax is multiplied with the values. The library knows the pattern, and
// computes it in one kernel.
//
// Token i of the new ones is at position n_kv - n_q + i of its sequence.
#include "gpu/library/sdpa_impl.h"

// Between the tensors that lie in memory.
typedef enum masked_value {
    SCORE = FXI_SDPA_N_TENSOR,
    SCALED,
    ROW,
    COL,
    IS_ROW,
    IS_COL,
    IS_THERE,
    THERE,
    TOKEN,
    TOKEN_KV,
    POSITION,
    BEFORE,
    IS_SEEN,
    SEEN,
    MOST,
    LESS,
    POWER,
    SUM,
    SHARE,
    VALUE_END,
    NONE = 0 // Q, which no step has as a second or third operand
} masked_value;

typedef enum masked_kind { POINTWISE, PRODUCT, REDUCTION } masked_kind;

typedef struct masked_step {
    masked_kind kind;
    int mode;    // of a pointwise step or a reduction
    int compute; // the type it computes in
    int y, x, b, t, axis;
} masked_step;

static const masked_step masked_steps[] = {
    {PRODUCT, 0, FXI_DNN_FLOAT, SCORE, FXI_SDPA_Q, FXI_SDPA_K, NONE, 0},
    {POINTWISE, FXI_DNN_MUL, FXI_DNN_FLOAT, SCALED, SCORE, FXI_SDPA_SCALE, NONE, 0},
    {POINTWISE, FXI_DNN_GEN_INDEX, FXI_DNN_INT32, ROW, SCALED, NONE, NONE, 2},
    {POINTWISE, FXI_DNN_GEN_INDEX, FXI_DNN_INT32, COL, SCALED, NONE, NONE, 3},
    {POINTWISE, FXI_DNN_CMP_LT, FXI_DNN_DATA_BOOLEAN, IS_ROW, ROW, FXI_SDPA_N_Q, NONE, 0},
    {POINTWISE, FXI_DNN_CMP_LT, FXI_DNN_DATA_BOOLEAN, IS_COL, COL, FXI_SDPA_N_KV, NONE, 0},
    {POINTWISE, FXI_DNN_LOGICAL_AND, FXI_DNN_DATA_BOOLEAN, IS_THERE, IS_ROW, IS_COL, NONE, 0},
    {POINTWISE, FXI_DNN_SELECT, FXI_DNN_FLOAT, THERE, SCALED, FXI_SDPA_LOWEST, IS_THERE, 0},
    {POINTWISE, FXI_DNN_GEN_INDEX, FXI_DNN_INT32, TOKEN, THERE, NONE, NONE, 2},
    {POINTWISE, FXI_DNN_ADD, FXI_DNN_INT32, TOKEN_KV, TOKEN, FXI_SDPA_N_KV, NONE, 0},
    {POINTWISE, FXI_DNN_SUB, FXI_DNN_INT32, POSITION, TOKEN_KV, FXI_SDPA_N_Q, NONE, 0},
    {POINTWISE, FXI_DNN_GEN_INDEX, FXI_DNN_INT32, BEFORE, THERE, NONE, NONE, 3},
    {POINTWISE, FXI_DNN_CMP_GE, FXI_DNN_DATA_BOOLEAN, IS_SEEN, POSITION, BEFORE, NONE, 0},
    {POINTWISE, FXI_DNN_SELECT, FXI_DNN_FLOAT, SEEN, THERE, FXI_SDPA_LOWEST, IS_SEEN, 0},
    {REDUCTION, FXI_DNN_REDUCE_MAX, FXI_DNN_FLOAT, MOST, SEEN, NONE, NONE, 0},
    {POINTWISE, FXI_DNN_SUB, FXI_DNN_FLOAT, LESS, SEEN, MOST, NONE, 0},
    {POINTWISE, FXI_DNN_EXP, FXI_DNN_FLOAT, POWER, LESS, NONE, NONE, 0},
    {REDUCTION, FXI_DNN_REDUCE_ADD, FXI_DNN_FLOAT, SUM, POWER, NONE, NONE, 0},
    {POINTWISE, FXI_DNN_DIV, FXI_DNN_FLOAT, SHARE, POWER, SUM, NONE, 0},
    {PRODUCT, 0, FXI_DNN_FLOAT, FXI_SDPA_OUT, SHARE, FXI_SDPA_V, NONE, 0},
};
_Static_assert(sizeof masked_steps / sizeof *masked_steps <= FXI_SDPA_MAX_OPERATION, "too many");

// Steps have results of the type that they compute in, but for the shares, which are multiplied.
static fx_status describe_results(fxi_sdpa *s, const fxi_sdpa_shape *p, fxi_dnn_object *value,
                                  fx_error *err)
{
    const int64_t n = p->n_seq, h = p->n_head, q = p->max_q_tok, kv = p->max_kv_tok;
    const fxi_sdpa_space scores = {{n, h, q, kv}, {h * q * kv, q * kv, kv, 1}},
                         rows = {{n, h, q, 1}, {h * q, q, 1, 1}};
    for (int i = 0; i < FXI_SDPA_N_OF(masked_steps); i++) {
        const masked_step *m = &masked_steps[i];
        const fxi_sdpa_operand t = {.id = m->y,
                                    .type = m->y != SHARE        ? m->compute
                                            : p->type == FXI_F16 ? FXI_DNN_HALF
                                                                 : FXI_DNN_BFLOAT16,
                                    .align_bytes = 16,
                                    .space = m->kind == REDUCTION ? &rows : &scores,
                                    .is_virtual = true};
        if (m->y >= SCORE) FX_TRY(fxi_sdpa_describe(s, &t, &value[m->y], err));
    }
    return FX_OK;
}

// What a step computes, and between which values.
static fx_status make_pointwise(fxi_sdpa *s, const masked_step *m, const fxi_dnn_object *value,
                                fxi_dnn_object *out, fx_error *err)
{
    const int64_t axis = m->axis;
    fxi_dnn_object what;
    const fxi_sdpa_value mode[] = {{FXI_DNN_POINTWISE_MODE, FXI_DNN_MODE, 1, &m->mode},
                                   {FXI_DNN_POINTWISE_COMPUTE, FXI_DNN_DATA_TYPE, 1, &m->compute},
                                   {FXI_DNN_POINTWISE_AXIS, FXI_DNN_INT64, axis > 0, &axis}};
    FX_TRY(fxi_sdpa_make(s, FXI_DNN_POINTWISE, mode, FXI_SDPA_N_OF(mode), &what, err));
    const fxi_sdpa_value list[] = {
        {FXI_DNN_POINTWISE_WHAT, FXI_DNN_OBJECT, 1, &what},
        {FXI_DNN_POINTWISE_X, FXI_DNN_OBJECT, 1, &value[m->x]},
        {FXI_DNN_POINTWISE_B, FXI_DNN_OBJECT, m->b != NONE, &value[m->b]},
        {FXI_DNN_POINTWISE_T, FXI_DNN_OBJECT, m->t != NONE, &value[m->t]},
        {FXI_DNN_POINTWISE_Y, FXI_DNN_OBJECT, 1, &value[m->y]},
    };
    return fxi_sdpa_make(s, FXI_DNN_OPERATION_POINTWISE, list, FXI_SDPA_N_OF(list), out, err);
}

static fx_status make_product(fxi_sdpa *s, const masked_step *m, const fxi_dnn_object *value,
                              fxi_dnn_object *out, fx_error *err)
{
    fxi_dnn_object what;
    const fxi_sdpa_value mode[] = {{FXI_DNN_MATMUL_COMPUTE, FXI_DNN_DATA_TYPE, 1, &m->compute}};
    FX_TRY(fxi_sdpa_make(s, FXI_DNN_MATMUL, mode, FXI_SDPA_N_OF(mode), &what, err));
    const fxi_sdpa_value list[] = {{FXI_DNN_MATMUL_WHAT, FXI_DNN_OBJECT, 1, &what},
                                   {FXI_DNN_MATMUL_A, FXI_DNN_OBJECT, 1, &value[m->x]},
                                   {FXI_DNN_MATMUL_B, FXI_DNN_OBJECT, 1, &value[m->b]},
                                   {FXI_DNN_MATMUL_C, FXI_DNN_OBJECT, 1, &value[m->y]}};
    return fxi_sdpa_make(s, FXI_DNN_OPERATION_MATMUL, list, FXI_SDPA_N_OF(list), out, err);
}

static fx_status make_reduction(fxi_sdpa *s, const masked_step *m, const fxi_dnn_object *value,
                                fxi_dnn_object *out, fx_error *err)
{
    fxi_dnn_object what;
    const fxi_sdpa_value mode[] = {
        {FXI_DNN_REDUCTION_OPERATOR, FXI_DNN_REDUCTION_TYPE, 1, &m->mode},
        {FXI_DNN_REDUCTION_COMPUTE, FXI_DNN_DATA_TYPE, 1, &m->compute}};
    FX_TRY(fxi_sdpa_make(s, FXI_DNN_REDUCTION, mode, FXI_SDPA_N_OF(mode), &what, err));
    const fxi_sdpa_value list[] = {{FXI_DNN_REDUCTION_WHAT, FXI_DNN_OBJECT, 1, &what},
                                   {FXI_DNN_REDUCTION_X, FXI_DNN_OBJECT, 1, &value[m->x]},
                                   {FXI_DNN_REDUCTION_Y, FXI_DNN_OBJECT, 1, &value[m->y]}};
    return fxi_sdpa_make(s, FXI_DNN_OPERATION_REDUCTION, list, FXI_SDPA_N_OF(list), out, err);
}

fx_status fxi_sdpa_mask(fxi_sdpa *s, const fxi_sdpa_shape *shape, const fxi_dnn_object *tensor,
                        fxi_dnn_object *operation, int *n_operation, fx_error *err)
{
    static fx_status (*const make[])(fxi_sdpa * s, const masked_step *m,
                                     const fxi_dnn_object *value, fxi_dnn_object *out,
                                     fx_error *err) = {
        [POINTWISE] = make_pointwise, [PRODUCT] = make_product, [REDUCTION] = make_reduction};
    fxi_dnn_object value[VALUE_END] = {0};
    for (int i = 0; i < FXI_SDPA_N_TENSOR; i++) value[i] = tensor[i];
    FX_TRY(describe_results(s, shape, value, err));
    *n_operation = FXI_SDPA_N_OF(masked_steps);
    for (int i = 0; i < *n_operation; i++) {
        const masked_step *m = &masked_steps[i];
        FX_TRY(make[m->kind](s, m, value, &operation[i], err));
    }
    return FX_OK;
}
