// standin_dnn_graph.c - graphs of simple steps, one after the other, for each sequence and head.
//
// What a step leaves is a table of f32: a row for each query of the sequence, and as many columns
// as the tensor has. Integers and truth values are small enough to be exact in it.
#include "standin/dnn/standin_dnn_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE = 48, MAX_STEP = 32 };

typedef struct graph_value {
    const dnn_thing *tensor; // to tell it from others, while the work is made
    bool is_virtual;
    int type;
    int64_t size[4], stride[4];
    char *at;              // in memory, or of the host for one by value; NULL: virtual
    const int64_t *offset; // NULL: it has none
    float *cell;           // of a virtual one, while it is computed
} graph_value;

typedef struct graph_step {
    int kind, mode, axis;
    int x, b, t, y; // -1: none
} graph_step;

typedef struct graph_work {
    int n_value, n_step;
    graph_value value[MAX_VALUE];
    graph_step step[MAX_STEP];
    float by_value[MAX_VALUE]; // copied when it is given
    void *workspace;
} graph_work;

// ---- making ------------------------------------------------------------------------------------

// < 0: it cannot be taken, or there is none.
static int take_value(graph_work *w, const dnn_thing *tensor, const dnn_thing *variant)
{
    for (int i = 0; i < w->n_value; i++)
        if (w->value[i].tensor == tensor) return i;
    if (!tensor || w->n_value == MAX_VALUE) return -1;
    graph_value *v = &w->value[w->n_value];
    const dnn_value *type = standin_dnn_value(tensor, FXI_DNN_TENSOR_TYPE);
    const dnn_thing *offset = standin_dnn_linked(tensor, FXI_DNN_TENSOR_RAGGED, 0);
    *v = (graph_value){.tensor = tensor,
                       .is_virtual = standin_dnn_value(tensor, FXI_DNN_TENSOR_VIRTUAL) != NULL,
                       .at = standin_dnn_operand(variant, tensor),
                       .offset = offset ? standin_dnn_operand(variant, offset) : NULL};
    if (type) memcpy(&v->type, type->bytes, sizeof v->type);
    for (int i = 0; i < 4; i++) {
        v->size[i] = standin_dnn_number(tensor, FXI_DNN_TENSOR_SIZES, i);
        v->stride[i] = standin_dnn_number(tensor, FXI_DNN_TENSOR_STRIDES, i);
    }
    if (v->is_virtual == (v->at != NULL) || (offset && !v->offset)) return -1;
    if (standin_dnn_value(tensor, FXI_DNN_TENSOR_BY_VALUE)) {
        memcpy(&w->by_value[w->n_value], v->at, sizeof(float));
        v->at = (char *)&w->by_value[w->n_value];
    }
    return w->n_value++;
}

static int mode_of(const dnn_thing *what, fxi_dnn_attribute which)
{
    const dnn_value *v = standin_dnn_value(what, which);
    int mode = -1;
    if (v) memcpy(&mode, v->bytes, sizeof mode);
    return mode;
}

// Where a step's description and operands are named.
static const struct {
    fxi_dnn_kind kind;
    fxi_dnn_attribute what, mode, x, b, t, y; // 0: none
} step_kinds[] = {
    {FXI_DNN_OPERATION_MATMUL, FXI_DNN_MATMUL_WHAT, FXI_DNN_MATMUL_COMPUTE, FXI_DNN_MATMUL_A,
     FXI_DNN_MATMUL_B, 0, FXI_DNN_MATMUL_C},
    {FXI_DNN_OPERATION_POINTWISE, FXI_DNN_POINTWISE_WHAT, FXI_DNN_POINTWISE_MODE,
     FXI_DNN_POINTWISE_X, FXI_DNN_POINTWISE_B, FXI_DNN_POINTWISE_T, FXI_DNN_POINTWISE_Y},
    {FXI_DNN_OPERATION_REDUCTION, FXI_DNN_REDUCTION_WHAT, FXI_DNN_REDUCTION_OPERATOR,
     FXI_DNN_REDUCTION_X, 0, 0, FXI_DNN_REDUCTION_Y},
};

static int take_operand(graph_work *w, const dnn_thing *op, fxi_dnn_attribute which,
                        const dnn_thing *variant, bool *odd)
{
    const dnn_thing *tensor = which ? standin_dnn_linked(op, which, 0) : NULL;
    if (!tensor) return -1;
    const int i = take_value(w, tensor, variant);
    *odd |= i < 0;
    return i;
}

static bool take_step(graph_work *w, const dnn_thing *op, const dnn_thing *variant)
{
    graph_step *s = &w->step[w->n_step++];
    bool odd = false;
    for (size_t k = 0; k < sizeof step_kinds / sizeof *step_kinds; k++) {
        if (op->object.kind != step_kinds[k].kind) continue;
        const dnn_thing *what = standin_dnn_linked(op, step_kinds[k].what, 0);
        *s = (graph_step){
            .kind = step_kinds[k].kind,
            .mode = mode_of(what, step_kinds[k].mode),
            .axis = (int)standin_dnn_number(what, FXI_DNN_POINTWISE_AXIS, 0),
            .x = take_operand(w, op, step_kinds[k].x, variant, &odd),
            .b = take_operand(w, op, step_kinds[k].b, variant, &odd),
            .t = take_operand(w, op, step_kinds[k].t, variant, &odd),
            .y = take_operand(w, op, step_kinds[k].y, variant, &odd),
        };
        return !odd && s->x >= 0 && s->y >= 0;
    }
    return false;
}

void *standin_dnn_graph_make(const dnn_thing *graph, const dnn_thing *variant, void *workspace)
{
    graph_work *w = calloc(1, sizeof *w);
    const dnn_thing *op;
    bool ok = w != NULL;
    for (int i = 0; ok && (op = standin_dnn_linked(graph, FXI_DNN_GRAPH_OPERATIONS, i)); i++)
        ok = w->n_step < MAX_STEP && take_step(w, op, variant);
    if (ok) w->workspace = workspace;
    if (ok) return w;
    free(w);
    return NULL;
}

// ---- one sequence and head ---------------------------------------------------------------------

typedef struct graph_place {
    graph_work *w;
    int64_t seq, head, n_head, n_q, n_kv;
    const char *odd; // NULL: nothing is
} graph_place;

static float load_half(const graph_value *v, const uint16_t *at)
{
    return v->type == FXI_DNN_BFLOAT16 ? fxi_bf16_to_f32(*at) : fxi_f16_to_f32(*at);
}

// An element of a tensor in memory, at the sequence's own offset; heads of the cache are shared.
static uint16_t *find_half(const graph_place *p, const graph_value *v, int64_t i, int64_t k)
{
    const int64_t head = p->head / (p->n_head / v->size[1]);
    return (uint16_t *)(void *)v->at + v->offset[p->seq] + head * v->stride[1] + i * v->stride[2] +
           k * v->stride[3];
}

static float *cell_of(const graph_value *v, int64_t row, int64_t col)
{
    return &v->cell[row * v->size[3] + (v->size[3] > 1 ? col : 0)];
}

static float read_value(const graph_place *p, int i, int64_t row, int64_t col)
{
    const graph_value *v = i >= 0 ? &p->w->value[i] : NULL;
    if (!v) return 0;
    if (v->is_virtual) return *cell_of(v, row, col);
    if (v->type == FXI_DNN_INT32) return (float)((const int32_t *)(const void *)v->at)[p->seq];
    return *(const float *)(const void *)v->at;
}

// Keys are described as they are multiplied, [dim][position].
static void multiply_scores(graph_place *p, const graph_step *s)
{
    const graph_value *q = &p->w->value[s->x], *k = &p->w->value[s->b], *y = &p->w->value[s->y];
    for (int64_t row = 0; row < p->n_q; row++)
        for (int64_t col = 0; col < y->size[3]; col++) {
            float sum = col < p->n_kv ? 0 : NAN;
            for (int64_t i = 0; col < p->n_kv && i < q->size[3]; i++)
                sum +=
                    load_half(q, find_half(p, q, row, i)) * load_half(k, find_half(p, k, i, col));
            *cell_of(y, row, col) = sum;
        }
}

static void multiply_values(graph_place *p, const graph_step *s)
{
    const graph_value *x = &p->w->value[s->x], *v = &p->w->value[s->b], *y = &p->w->value[s->y];
    const bool bf16 = x->type == FXI_DNN_BFLOAT16;
    for (int64_t row = 0; row < p->n_q; row++) {
        for (int64_t col = p->n_kv; col < x->size[3]; col++)
            if (*cell_of(x, row, col) != 0) p->odd = "cuDNN: a share of what is not there";
        for (int64_t i = 0; i < y->size[3]; i++) {
            float sum = 0;
            for (int64_t col = 0; col < p->n_kv; col++) {
                const float share = *cell_of(x, row, col);
                const float half = bf16 ? fxi_bf16_to_f32(fxi_f32_to_bf16(share))
                                        : fxi_f16_to_f32(fxi_f32_to_f16(share));
                sum += half * load_half(v, find_half(p, v, col, i));
            }
            *find_half(p, y, row, i) = bf16 ? fxi_f32_to_bf16(sum) : fxi_f32_to_f16(sum);
        }
    }
}

static void run_product(graph_place *p, const graph_step *s)
{
    const graph_value *x = &p->w->value[s->x], *y = &p->w->value[s->y];
    if (!x->is_virtual && y->is_virtual)
        multiply_scores(p, s);
    else if (x->is_virtual && !y->is_virtual)
        multiply_values(p, s);
    else
        p->odd = "cuDNN: a product that is none of attention's";
}

static float compute_point(graph_place *p, const graph_step *s, float x, float b, float t)
{
    switch (s->mode) {
    case FXI_DNN_ADD: return x + b;
    case FXI_DNN_SUB: return x - b;
    case FXI_DNN_MUL: return x * b;
    case FXI_DNN_DIV: return x / b;
    case FXI_DNN_EXP: return expf(x);
    case FXI_DNN_CMP_GE: return x >= b;
    case FXI_DNN_CMP_LT: return x < b;
    case FXI_DNN_LOGICAL_AND: return x != 0 && b != 0;
    case FXI_DNN_SELECT: return t != 0 ? x : b;
    default: p->odd = "cuDNN: a step that the stand-in does not know"; return 0;
    }
}

static void run_pointwise(graph_place *p, const graph_step *s)
{
    const graph_value *y = &p->w->value[s->y];
    for (int64_t row = 0; row < p->n_q; row++)
        for (int64_t col = 0; col < y->size[3]; col++)
            *cell_of(y, row, col) =
                s->mode == FXI_DNN_GEN_INDEX
                    ? (float)(s->axis == 2 ? row : col)
                    : compute_point(p, s, read_value(p, s->x, row, col),
                                    read_value(p, s->b, row, col), read_value(p, s->t, row, col));
}

static void run_reduction(graph_place *p, const graph_step *s)
{
    const graph_value *x = &p->w->value[s->x], *y = &p->w->value[s->y];
    for (int64_t row = 0; row < p->n_q; row++) {
        float all = s->mode == FXI_DNN_REDUCE_MAX ? -FLT_MAX : 0;
        for (int64_t col = 0; col < x->size[3]; col++) {
            const float one = *cell_of(x, row, col);
            all = s->mode != FXI_DNN_REDUCE_MAX ? all + one : one > all || isnan(one) ? one : all;
        }
        *cell_of(y, row, 0) = all;
    }
}

// ---- running -----------------------------------------------------------------------------------

// The counts, which steps read, and whether all that is read and written is there.
static void check_sequence(graph_place *p)
{
    const graph_step *first = &p->w->step[0], *last = &p->w->step[p->w->n_step - 1];
    const graph_value *all[] = {&p->w->value[first->x], &p->w->value[first->b],
                                &p->w->value[last->b], &p->w->value[last->y]};
    const int64_t n_kv_max = p->w->value[first->y].size[3], n_q_max = all[0]->size[2];
    if (p->n_q < 1 || p->n_q > n_q_max || p->n_kv < p->n_q || p->n_kv > n_kv_max) {
        p->odd = "cuDNN: a sequence with an odd number of queries or positions";
        return;
    }
    for (int i = 0; i < 4; i++) {
        const bool is_turned = i == 1;
        const int64_t n = i == 0 || i == 3 ? p->n_q : p->n_kv,
                      dim = all[i]->size[is_turned ? 2 : 3];
        for (int64_t k = 0; k < n; k++) {
            const uint16_t *at =
                is_turned ? find_half(p, all[i], 0, k) : find_half(p, all[i], k, 0);
            if (!standin_is_open((vti_cu_ptr)at, (size_t)dim * sizeof *at))
                p->odd = "cuDNN: queries, keys or values that are not there when they are read";
            if (i == 3)
                standin_kernel_memory((vti_cu_ptr)at, (size_t)dim * sizeof *at, EMU_MEMORY_WRITTEN);
        }
    }
}

static void run_head(graph_place *p)
{
    static void (*const run[])(graph_place * p, const graph_step *s) = {
        [FXI_DNN_OPERATION_MATMUL] = run_product,
        [FXI_DNN_OPERATION_POINTWISE] = run_pointwise,
        [FXI_DNN_OPERATION_REDUCTION] = run_reduction};
    check_sequence(p);
    for (int i = 0; i < p->w->n_step && !p->odd; i++) run[p->w->step[i].kind](p, &p->w->step[i]);
}

// Numbers of queries and positions are the counts that the masks compare rows and columns with.
static const int32_t *find_counts(const graph_work *w, int axis)
{
    for (int i = 0; i + 1 < w->n_step; i++) {
        if (w->step[i].mode != FXI_DNN_GEN_INDEX || w->step[i].axis != axis) continue;
        for (int k = i + 1; k < w->n_step; k++)
            if (w->step[k].x == w->step[i].y && w->step[k].mode == FXI_DNN_CMP_LT)
                return (const int32_t *)(const void *)w->value[w->step[k].b].at;
    }
    return NULL;
}

static bool take_cells(graph_work *w, int64_t n_row)
{
    bool ok = true;
    for (int i = 0; i < w->n_value; i++)
        if (w->value[i].is_virtual) {
            w->value[i].cell = calloc((size_t)(n_row * w->value[i].size[3]), sizeof(float));
            ok &= w->value[i].cell != NULL;
        }
    return ok;
}

static const char *run_sequences(graph_work *w)
{
    const graph_value *q = &w->value[w->step[0].x];
    const int32_t *n_q = find_counts(w, 2), *n_kv = find_counts(w, 3);
    if (!n_q || !n_kv || !q->at || !q->offset)
        return "cuDNN: a graph without masks, or ragged queries";
    for (int64_t seq = 0; seq < q->size[0]; seq++)
        for (int64_t head = 0; head < q->size[1]; head++) {
            graph_place p = {w, seq, head, q->size[1], n_q[seq], n_kv[seq], NULL};
            run_head(&p);
            if (p.odd) return p.odd;
        }
    return NULL;
}

void standin_dnn_graph_run(void *work)
{
    graph_work *w = work;
    memset(w->workspace, STANDIN_DNN_GARBAGE, STANDIN_DNN_WORKSPACE_BYTES);
    const bool ok = take_cells(w, w->value[w->step[0].x].size[2]);
    const char *odd = ok ? run_sequences(w) : "no memory";
    if (odd) (void)standin_breach(odd);
    for (int i = 0; i < w->n_value; i++) free(w->value[i].cell);
}
