// sdpa.c - the graph of attention; see sdpa.h.
#include "gpu/library/sdpa_impl.h"

#include <float.h>
#include <string.h>

// ---- tensors -----------------------------------------------------------------------------------

// tensor: [FXI_SDPA_N_TENSOR]
static fx_status describe_tensors(fxi_sdpa *s, const fxi_sdpa_shape *p, fxi_dnn_object *tensor,
                                  fx_error *err)
{
    const int type = p->type == FXI_F16 ? FXI_DNN_HALF : FXI_DNN_BFLOAT16;
    const int64_t n = p->n_seq, dim = p->head_dim, row = p->n_head * dim, step = p->token_step,
                  q = p->max_q_tok, kv = p->max_kv_tok, n_kv = p->n_kv_head;
    const fxi_sdpa_space queries = {{n, p->n_head, q, dim}, {q * row, dim, row, 1}},
                         values = {{n, n_kv, kv, dim}, {kv * step, dim, step, 1}},
                         turned = {{n, n_kv, dim, kv}, {kv * step, dim, 1, step}};
    const fxi_sdpa_space one = {{1, 1, 1, 1}, {1, 1, 1, 1}}, counts = {{n, 1, 1, 1}, {1, 1, 1, 1}},
                         offsets = {{n + 1, 1, 1, 1}, {1, 1, 1, 1}};
    const struct {
        fxi_sdpa_tensor id;
        int type;
        int64_t align_bytes;
        const fxi_sdpa_space *space;
        int at; // -1: no offsets
        bool is_by_value;
    } list[] = {
        {FXI_SDPA_Q_AT, FXI_DNN_DATA_INT64, 8, &offsets, -1, false},
        {FXI_SDPA_KV_AT, FXI_DNN_DATA_INT64, 8, &offsets, -1, false},
        {FXI_SDPA_Q, type, 16, &queries, FXI_SDPA_Q_AT, false},
        {FXI_SDPA_K, type, 16, s->is_masked ? &turned : &values, FXI_SDPA_KV_AT, false},
        {FXI_SDPA_V, type, 16, &values, FXI_SDPA_KV_AT, false},
        {FXI_SDPA_OUT, type, 16, &queries, FXI_SDPA_Q_AT, false},
        {FXI_SDPA_SCALE, FXI_DNN_FLOAT, 4, &one, -1, true},
        {FXI_SDPA_N_Q, FXI_DNN_INT32, 4, &counts, -1, false},
        {FXI_SDPA_N_KV, FXI_DNN_INT32, 4, &counts, -1, false},
        {FXI_SDPA_LOWEST, FXI_DNN_FLOAT, 4, &one, -1, true},
    };
    for (int i = 0; i < FXI_SDPA_N_OF(list) - !s->is_masked; i++) {
        const fxi_sdpa_operand t = {list[i].id,
                                    list[i].type,
                                    list[i].align_bytes,
                                    list[i].space,
                                    list[i].at >= 0 ? tensor[list[i].at] : NULL,
                                    list[i].is_by_value,
                                    false};
        FX_TRY(fxi_sdpa_describe(s, &t, &tensor[t.id], err));
    }
    return FX_OK;
}

// ---- the graph ---------------------------------------------------------------------------------

// The library's own operation.
static fx_status attend_unmasked(fxi_sdpa *s, const fxi_dnn_object *tensor, fxi_dnn_object *out,
                                 fx_error *err)
{
    const fxi_sdpa_value operands[] = {
        {FXI_DNN_SDPA_Q, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_Q]},
        {FXI_DNN_SDPA_K, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_K]},
        {FXI_DNN_SDPA_V, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_V]},
        {FXI_DNN_SDPA_OUT, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_OUT]},
        {FXI_DNN_SDPA_SCALE, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_SCALE]},
        {FXI_DNN_SDPA_N_Q, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_N_Q]},
        {FXI_DNN_SDPA_N_KV, FXI_DNN_OBJECT, 1, &tensor[FXI_SDPA_N_KV]},
    };
    return fxi_sdpa_make(s, FXI_DNN_SDPA, operands, FXI_SDPA_N_OF(operands), out, err);
}

static fx_status make_graph(fxi_sdpa *s, const fxi_sdpa_shape *p, fx_error *err)
{
    fxi_dnn_object tensor[FXI_SDPA_N_TENSOR] = {0}, operation[FXI_SDPA_MAX_OPERATION];
    int n = 1;
    FX_TRY(describe_tensors(s, p, tensor, err));
    if (s->is_masked)
        FX_TRY(fxi_sdpa_mask(s, p, tensor, operation, &n, err));
    else
        FX_TRY(attend_unmasked(s, tensor, operation, err));
    const fxi_sdpa_value list[] = {{FXI_DNN_GRAPH_OPERATIONS, FXI_DNN_OBJECT, n, operation}};
    return fxi_sdpa_make(s, FXI_DNN_GRAPH, list, FXI_SDPA_N_OF(list), &s->graph, err);
}

static fx_status ask_heuristic(fxi_sdpa *s, const fxi_sdpa_device *d, fxi_dnn_object *out,
                               fx_error *err)
{
    const int mode = FXI_DNN_MODE_A;
    const fxi_sdpa_value device[] = {
        {FXI_DNN_DEVICE_HANDLE, FXI_DNN_HANDLE, d->handle != NULL, &d->handle},
        {FXI_DNN_DEVICE_JSON, FXI_DNN_CHAR, d->handle ? 0 : (int64_t)strlen(d->json), d->json}};
    const fxi_sdpa_value question[] = {
        {FXI_DNN_HEURISTIC_GRAPH, FXI_DNN_OBJECT, 1, &s->graph},
        {FXI_DNN_HEURISTIC_MODE_VALUE, FXI_DNN_HEURISTIC_MODE, 1, &mode},
        {FXI_DNN_HEURISTIC_DEVICE, FXI_DNN_OBJECT, 1, &s->device},
    };
    FX_TRY(fxi_sdpa_make(s, FXI_DNN_DEVICE, device, FXI_SDPA_N_OF(device), &s->device, err));
    return fxi_sdpa_make(s, FXI_DNN_HEURISTIC, question, FXI_SDPA_N_OF(question), out, err);
}

// Takes the ways to compute it. The library looks at as many of its ideas as there is room for, and
// leaves out those that do not work here.
static fx_status take_configs(fxi_sdpa *s, fxi_dnn_object heuristic, fx_error *err)
{
    for (int i = 0; i < FXI_SDPA_MAX_CONFIG; i++)
        FX_TRY(fxi_sdpa_check(s, s->dnn->make(FXI_DNN_ENGINE_CONFIG, &s->config[i]),
                              "cudnnBackendCreateDescriptor", err));
    return fxi_sdpa_check(s,
                          s->dnn->get(heuristic, FXI_DNN_HEURISTIC_RESULTS, FXI_DNN_OBJECT,
                                      FXI_SDPA_MAX_CONFIG, &s->n_config, s->config),
                          "cudnnBackendGetAttribute", err);
}

static fx_status describe_all(fxi_sdpa *s, const fxi_sdpa_shape *shape,
                              const fxi_sdpa_device *device, fx_error *err)
{
    fxi_dnn_object heuristic;
    FX_TRY(make_graph(s, shape, err));
    FX_TRY(ask_heuristic(s, device, &heuristic, err));
    FX_TRY(take_configs(s, heuristic, err));
    if (s->n_config > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "cuDNN has no attention of %d heads of %d %s numbers over %d heads of KV cache",
                    shape->n_head, shape->head_dim, fxi_dtype_find(shape->type)->name,
                    shape->n_kv_head);
}

fx_status fxi_sdpa_open(fxi_sdpa *s, const fxi_dnn_api *dnn, const fxi_sdpa_shape *shape,
                        const fxi_sdpa_device *device, fx_error *err)
{
    *s = (fxi_sdpa){.dnn = dnn, .is_masked = shape->max_q_tok > 1};
    fx_status st = describe_all(s, shape, device, err);
    if (st != FX_OK) fxi_sdpa_close(s);
    return st;
}

// ---- plans and executions ----------------------------------------------------------------------

static void drop_object(const fxi_sdpa *s, fxi_dnn_object object)
{
    if (object) (void)s->dnn->drop(object);
}

static fx_status plan_config(fxi_sdpa *s, fxi_dnn_object config, fx_error *err)
{
    const fxi_sdpa_value list[] = {{FXI_DNN_PLAN_CONFIG, FXI_DNN_OBJECT, 1, &config},
                                   {FXI_DNN_PLAN_DEVICE, FXI_DNN_OBJECT, 1, &s->device}};
    int64_t n = 0;
    FX_TRY(fxi_sdpa_make_alone(s, FXI_DNN_PLAN, list, FXI_SDPA_N_OF(list), &s->plan, err));
    return fxi_sdpa_check(
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
    static const float lowest = -FLT_MAX;
    int64_t ids[FXI_SDPA_N_TENSOR];
    const void *pointers[FXI_SDPA_N_TENSOR] = {[FXI_SDPA_LOWEST] = &lowest};
    const int64_t n = s->is_masked ? FXI_SDPA_N_TENSOR : FXI_SDPA_N_DATA;
    fxi_dnn_object variant = NULL;
    memcpy(pointers, data, FXI_SDPA_N_DATA * sizeof *pointers);
    for (int i = 0; i < n; i++) ids[i] = i;
    const fxi_sdpa_value list[] = {
        {FXI_DNN_VARIANT_IDS, FXI_DNN_INT64, n, ids},
        {FXI_DNN_VARIANT_POINTERS, FXI_DNN_POINTER, n, pointers},
        {FXI_DNN_VARIANT_WORKSPACE, FXI_DNN_POINTER, s->workspace_bytes > 0, &workspace},
    };
    fx_status st =
        fxi_sdpa_make_alone(s, FXI_DNN_VARIANT, list, FXI_SDPA_N_OF(list), &variant, err);
    if (st == FX_OK)
        st = fxi_sdpa_check(s, s->dnn->execute(handle, s->plan, variant), "cudnnBackendExecute",
                            err);
    drop_object(s, variant);
    return st;
}

void fxi_sdpa_close(fxi_sdpa *s)
{
    drop_object(s, s->plan);
    for (int i = 0; i < FXI_SDPA_MAX_CONFIG; i++) drop_object(s, s->config[i]);
    while (s->n_object > 0) drop_object(s, s->object[--s->n_object]);
    *s = (fxi_sdpa){0};
}
