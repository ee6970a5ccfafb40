// sdpa.c - the graph of attention; see sdpa.h.
#include "gpu/library/sdpa.h"

#include <stdbool.h>
#include <string.h>

enum { N_SIZE = 4, TEXT_BYTES = 200 };

static fx_status check_dnn(const fxi_sdpa *s, fxi_dnn_status r, const char *what, fx_error *err)
{
    char text[TEXT_BYTES] = "";
    if (r == FXI_DNN_SUCCESS) return FX_OK;
    s->dnn->get_last_error(text, sizeof text);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    const bool refused = r / 1000 == FXI_DNN_NOT_SUPPORTED / 1000;
    const fx_status st = r == FXI_DNN_ALLOC_FAILED ? FX_ENOMEM : refused ? FX_EINVAL : FX_EINTERNAL;
    return fxi_fail(err, st, "%s: %s (%.160s)", what, s->dnn->get_error_name(r), text);
}

// ---- objects with attributes -------------------------------------------------------------------

typedef struct dnn_value {
    fxi_dnn_attribute which;
    fxi_dnn_type type;
    int64_t n; // 0: left out
    const void *values;
} dnn_value;

// Makes an object, and sets and finishes it.
static fx_status make_object(const fxi_sdpa *s, fxi_dnn_kind kind, const dnn_value *list, int n,
                             fxi_dnn_object *out, fx_error *err)
{
    FX_TRY(check_dnn(s, s->dnn->make(kind, out), "cudnnBackendCreateDescriptor", err));
    for (int i = 0; i < n; i++)
        if (list[i].n)
            FX_TRY(check_dnn(
                s, s->dnn->set(*out, list[i].which, list[i].type, list[i].n, list[i].values),
                "cudnnBackendSetAttribute", err));
    return check_dnn(s, s->dnn->finish(*out), "cudnnBackendFinalize", err);
}

static void drop_object(const fxi_sdpa *s, fxi_dnn_object object)
{
    if (object) (void)s->dnn->drop(object);
}

#define N_OF(list) ((int)(sizeof(list) / sizeof *(list)))

// ---- tensors -----------------------------------------------------------------------------------

typedef struct sdpa_space {
    int64_t size[N_SIZE], stride[N_SIZE]; // in elements
} sdpa_space;

typedef struct sdpa_operand {
    fxi_sdpa_tensor id;
    int type;            // of its data
    int64_t align_bytes; // of an element, or of a load
    const sdpa_space *space;
    int at; // the tensor of its offsets; -1: none
    bool is_by_value;
} sdpa_operand;

static fx_status describe_tensor(fxi_sdpa *s, const sdpa_operand *t, fx_error *err)
{
    const int64_t id = t->id;
    const bool by_value = t->is_by_value;
    const dnn_value list[] = {
        {FXI_DNN_TENSOR_TYPE, FXI_DNN_DATA_TYPE, 1, &t->type},
        {FXI_DNN_TENSOR_SIZES, FXI_DNN_INT64, N_SIZE, t->space->size},
        {FXI_DNN_TENSOR_STRIDES, FXI_DNN_INT64, N_SIZE, t->space->stride},
        {FXI_DNN_TENSOR_ID, FXI_DNN_INT64, 1, &id},
        {FXI_DNN_TENSOR_ALIGNMENT, FXI_DNN_INT64, 1, &t->align_bytes},
        {FXI_DNN_TENSOR_BY_VALUE, FXI_DNN_BOOLEAN, by_value, &by_value},
        {FXI_DNN_TENSOR_RAGGED, FXI_DNN_OBJECT, t->at >= 0, t->at >= 0 ? &s->tensor[t->at] : NULL},
    };
    return make_object(s, FXI_DNN_TENSOR, list, N_OF(list), &s->tensor[t->id], err);
}

static fx_status describe_tensors(fxi_sdpa *s, const fxi_sdpa_shape *p, fx_error *err)
{
    const int type = p->type == FXI_F16 ? FXI_DNN_HALF : FXI_DNN_BFLOAT16;
    const int64_t n = p->n_seq, dim = p->head_dim, row = p->n_head * dim, step = p->token_step;
    const sdpa_space queries = {{n, p->n_head, 1, dim}, {row, dim, row, 1}};
    const sdpa_space cache = {{n, p->n_kv_head, p->max_kv_tok, dim},
                              {p->max_kv_tok * step, dim, step, 1}};
    const sdpa_space one = {{1, 1, 1, 1}, {1, 1, 1, 1}}, counts = {{n, 1, 1, 1}, {1, 1, 1, 1}},
                     offsets = {{n + 1, 1, 1, 1}, {1, 1, 1, 1}};
    const sdpa_operand list[] = {
        {FXI_SDPA_Q_AT, FXI_DNN_DATA_INT64, 8, &offsets, -1, false},
        {FXI_SDPA_KV_AT, FXI_DNN_DATA_INT64, 8, &offsets, -1, false},
        {FXI_SDPA_Q, type, 16, &queries, FXI_SDPA_Q_AT, false},
        {FXI_SDPA_K, type, 16, &cache, FXI_SDPA_KV_AT, false},
        {FXI_SDPA_V, type, 16, &cache, FXI_SDPA_KV_AT, false},
        {FXI_SDPA_OUT, type, 16, &queries, FXI_SDPA_Q_AT, false},
        {FXI_SDPA_SCALE, FXI_DNN_FLOAT, 4, &one, -1, true},
        {FXI_SDPA_N_Q, FXI_DNN_INT32, 4, &counts, -1, false},
        {FXI_SDPA_N_KV, FXI_DNN_INT32, 4, &counts, -1, false},
    };
    for (int i = 0; i < N_OF(list); i++) FX_TRY(describe_tensor(s, &list[i], err));
    return FX_OK;
}

// ---- the graph ---------------------------------------------------------------------------------

static fx_status make_graph(fxi_sdpa *s, fx_error *err)
{
    const dnn_value operands[] = {
        {FXI_DNN_SDPA_Q, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_Q]},
        {FXI_DNN_SDPA_K, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_K]},
        {FXI_DNN_SDPA_V, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_V]},
        {FXI_DNN_SDPA_OUT, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_OUT]},
        {FXI_DNN_SDPA_SCALE, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_SCALE]},
        {FXI_DNN_SDPA_N_Q, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_N_Q]},
        {FXI_DNN_SDPA_N_KV, FXI_DNN_OBJECT, 1, &s->tensor[FXI_SDPA_N_KV]},
    };
    const dnn_value operations[] = {{FXI_DNN_GRAPH_OPERATIONS, FXI_DNN_OBJECT, 1, &s->operation}};
    FX_TRY(make_object(s, FXI_DNN_SDPA, operands, N_OF(operands), &s->operation, err));
    return make_object(s, FXI_DNN_GRAPH, operations, N_OF(operations), &s->graph, err);
}

static fx_status ask_heuristic(fxi_sdpa *s, const fxi_sdpa_device *d, fx_error *err)
{
    const int mode = FXI_DNN_MODE_A;
    const dnn_value device[] = {
        {FXI_DNN_DEVICE_HANDLE, FXI_DNN_HANDLE, d->handle != NULL, &d->handle},
        {FXI_DNN_DEVICE_JSON, FXI_DNN_CHAR, d->handle ? 0 : (int64_t)strlen(d->json), d->json}};
    const dnn_value question[] = {
        {FXI_DNN_HEURISTIC_GRAPH, FXI_DNN_OBJECT, 1, &s->graph},
        {FXI_DNN_HEURISTIC_MODE_VALUE, FXI_DNN_HEURISTIC_MODE, 1, &mode},
        {FXI_DNN_HEURISTIC_DEVICE, FXI_DNN_OBJECT, 1, &s->device},
    };
    FX_TRY(make_object(s, FXI_DNN_DEVICE, device, N_OF(device), &s->device, err));
    return make_object(s, FXI_DNN_HEURISTIC, question, N_OF(question), &s->heuristic, err);
}

// Takes the ways to compute it. The library looks at as many of its ideas as there is room for, and
// leaves out those that do not work here.
static fx_status take_configs(fxi_sdpa *s, fx_error *err)
{
    for (int i = 0; i < FXI_SDPA_MAX_CONFIG; i++)
        FX_TRY(check_dnn(s, s->dnn->make(FXI_DNN_ENGINE_CONFIG, &s->config[i]),
                         "cudnnBackendCreateDescriptor", err));
    return check_dnn(s,
                     s->dnn->get(s->heuristic, FXI_DNN_HEURISTIC_RESULTS, FXI_DNN_OBJECT,
                                 FXI_SDPA_MAX_CONFIG, &s->n_config, s->config),
                     "cudnnBackendGetAttribute", err);
}

static fx_status describe_all(fxi_sdpa *s, const fxi_sdpa_shape *shape,
                              const fxi_sdpa_device *device, fx_error *err)
{
    FX_TRY(describe_tensors(s, shape, err));
    FX_TRY(make_graph(s, err));
    FX_TRY(ask_heuristic(s, device, err));
    FX_TRY(take_configs(s, err));
    if (s->n_config > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "cuDNN has no attention of %d heads of %d %s numbers over %d heads of KV cache",
                    shape->n_head, shape->head_dim, fxi_dtype_find(shape->type)->name,
                    shape->n_kv_head);
}

fx_status fxi_sdpa_open(fxi_sdpa *s, const fxi_dnn_api *dnn, const fxi_sdpa_shape *shape,
                        const fxi_sdpa_device *device, fx_error *err)
{
    *s = (fxi_sdpa){.dnn = dnn};
    fx_status st = describe_all(s, shape, device, err);
    if (st != FX_OK) fxi_sdpa_close(s);
    return st;
}

// ---- plans and executions ----------------------------------------------------------------------

static fx_status plan_config(fxi_sdpa *s, fxi_dnn_object config, fx_error *err)
{
    const dnn_value list[] = {{FXI_DNN_PLAN_CONFIG, FXI_DNN_OBJECT, 1, &config},
                              {FXI_DNN_PLAN_DEVICE, FXI_DNN_OBJECT, 1, &s->device}};
    int64_t n = 0;
    FX_TRY(make_object(s, FXI_DNN_PLAN, list, N_OF(list), &s->plan, err));
    return check_dnn(
        s, s->dnn->get(s->plan, FXI_DNN_PLAN_WORKSPACE, FXI_DNN_INT64, 1, &n, &s->workspace_bytes),
        "cudnnBackendGetAttribute", err);
}

fx_status fxi_sdpa_plan(fxi_sdpa *s, int64_t max_workspace_bytes, fx_error *err)
{
    fx_status st = FX_OK;
    for (int i = 0; i < s->n_config; i++) {
        st = plan_config(s, s->config[i], err);
        if (st == FX_OK && s->workspace_bytes <= max_workspace_bytes) return FX_OK;
        drop_object(s, s->plan);
        s->plan = NULL;
    }
    if (st != FX_OK) return st;
    return fxi_fail(err, FX_EINVAL, "cuDNN's attention needs more than %lld bytes of workspace",
                    (long long)max_workspace_bytes);
}

fx_status fxi_sdpa_run(const fxi_sdpa *s, fxi_dnn_handle handle, void *const *data, void *workspace,
                       fx_error *err)
{
    int64_t ids[FXI_SDPA_N_TENSOR];
    fxi_dnn_object variant = NULL;
    for (int i = 0; i < FXI_SDPA_N_TENSOR; i++) ids[i] = i;
    const dnn_value list[] = {
        {FXI_DNN_VARIANT_IDS, FXI_DNN_INT64, FXI_SDPA_N_TENSOR, ids},
        {FXI_DNN_VARIANT_POINTERS, FXI_DNN_POINTER, FXI_SDPA_N_TENSOR, data},
        {FXI_DNN_VARIANT_WORKSPACE, FXI_DNN_POINTER, s->workspace_bytes > 0, &workspace},
    };
    fx_status st = make_object(s, FXI_DNN_VARIANT, list, N_OF(list), &variant, err);
    if (st == FX_OK)
        st = check_dnn(s, s->dnn->execute(handle, s->plan, variant), "cudnnBackendExecute", err);
    drop_object(s, variant);
    return st;
}

void fxi_sdpa_close(fxi_sdpa *s)
{
    const fxi_dnn_object all[] = {s->plan, s->heuristic, s->device, s->graph, s->operation};
    for (int i = 0; i < FXI_SDPA_MAX_CONFIG; i++) drop_object(s, s->config[i]);
    for (int i = 0; i < N_OF(all); i++) drop_object(s, all[i]);
    for (int i = 0; i < FXI_SDPA_N_TENSOR; i++) drop_object(s, s->tensor[i]);
    *s = (fxi_sdpa){0};
}
