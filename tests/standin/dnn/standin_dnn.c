// standin_dnn.c - objects as lists of attributes, and attention as plain loops; see standin_dnn.h.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/library/sdpa.h"
#include "standin/dnn/standin_dnn_impl.h"

enum {
    NOT_INITIALIZED = 1001,
    BAD_PARAM = 2000,
    MAX_HEAD = 256,
    HANDLE = 1000, // a kind of object
};

struct cudnnContext {
    standin_object object;
    fxi_dnn_stream stream;
};

#define DECLARE(member, result, symbol, parameters) result symbol parameters;
FXI_DNN_FUNCTIONS(DECLARE)
#undef DECLARE

standin_library standin_dnn;
static standin_dnn_report counts;
static int64_t refused_seq;

// ---- rules that all calls share ----------------------------------------------------------------

static fxi_dnn_status dnn_breach(const char *what)
{
    (void)standin_breach(what);
    return BAD_PARAM;
}

static dnn_thing *thing_of(const void *object, int kind)
{
    dnn_thing *t = standin_library_find(&standin_dnn, object, kind);
    return t && t->object.kind != HANDLE ? t : NULL;
}

void standin_dnn_reset(void)
{
    standin_library_reset(&standin_dnn);
    counts = (standin_dnn_report){0};
    refused_seq = 0;
}

standin_dnn_report standin_dnn_look(void)
{
    return counts;
}

void standin_dnn_refuse(int64_t n_seq)
{
    refused_seq = n_seq;
}

const char *cudnnGetErrorString(fxi_dnn_status status)
{
    static const struct {
        int status;
        const char *name;
    } names[] = {{FXI_DNN_SUCCESS, "CUDNN_STATUS_SUCCESS"},
                 {NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
                 {BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
                 {FXI_DNN_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
                 {FXI_DNN_ALLOC_FAILED, "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
                 {5000, "CUDNN_STATUS_EXECUTION_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status) return names[i].name;
    return "an unknown status";
}

void cudnnGetLastErrorString(char *text, size_t size_bytes)
{
    snprintf(text, size_bytes, "stand-in");
}

// ---- handles -----------------------------------------------------------------------------------

fxi_dnn_status cudnnCreate(fxi_dnn_handle *handle)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    if (standin_context_depth() == 0) return standin_library_leave(NOT_INITIALIZED);
    *handle = standin_library_make(&standin_dnn, HANDLE, sizeof **handle);
    return standin_library_leave(*handle ? r : FXI_DNN_ALLOC_FAILED);
}

fxi_dnn_status cudnnDestroy(fxi_dnn_handle handle)
{
    standin_library_hold();
    const bool dropped = standin_library_drop(&standin_dnn, handle, HANDLE);
    return standin_library_leave(dropped ? FXI_DNN_SUCCESS
                                         : dnn_breach("cuDNN: closes what it did not open"));
}

fxi_dnn_status cudnnSetStream(fxi_dnn_handle handle, fxi_dnn_stream stream)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r == FXI_DNN_SUCCESS) handle->stream = stream;
    return standin_library_leave(r);
}

// ---- objects -----------------------------------------------------------------------------------

fxi_dnn_status cudnnBackendCreateDescriptor(fxi_dnn_kind kind, fxi_dnn_object *object)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    *object = standin_library_make(&standin_dnn, kind, sizeof(dnn_thing));
    return standin_library_leave(*object ? r : FXI_DNN_ALLOC_FAILED);
}

fxi_dnn_status cudnnBackendDestroyDescriptor(fxi_dnn_object object)
{
    standin_library_hold();
    dnn_thing *t = thing_of(object, -1);
    if (!t) return standin_library_leave(dnn_breach("cuDNN: drops what it did not make"));
    for (dnn_value *v = t->values, *next; v; v = next) {
        next = v->next;
        free(v);
    }
    (void)standin_library_drop(&standin_dnn, t, -1);
    return standin_library_leave(FXI_DNN_SUCCESS);
}

static size_t elem_bytes_of(fxi_dnn_type type)
{
    if (type == FXI_DNN_BOOLEAN || type == FXI_DNN_CHAR) return 1;
    return type == FXI_DNN_DATA_TYPE || type == FXI_DNN_HEURISTIC_MODE ? 4 : 8;
}

static bool knows_objects(fxi_dnn_type type, int64_t n, const void *values)
{
    const void *const *list = values;
    for (int64_t i = 0; type == FXI_DNN_OBJECT && i < n; i++) {
        const dnn_thing *t = thing_of(list[i], -1);
        if (!t || !t->finished) return false;
    }
    return true;
}

fxi_dnn_status cudnnBackendSetAttribute(fxi_dnn_object object, fxi_dnn_attribute which,
                                        fxi_dnn_type type, int64_t n, const void *values)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    dnn_thing *t = thing_of(object, -1);
    if (!t || t->finished || n < 1)
        return standin_library_leave(
            dnn_breach("cuDNN: an attribute of no object, or of a finished one"));
    if (!knows_objects(type, n, values))
        return standin_library_leave(
            dnn_breach("cuDNN: an attribute that is an unfinished object"));
    const size_t size_bytes = (size_t)n * elem_bytes_of(type);
    dnn_value *v = malloc(sizeof *v + size_bytes);
    if (!v) return standin_library_leave(FXI_DNN_ALLOC_FAILED);
    *v = (dnn_value){.next = t->values, .which = which, .n = n};
    memcpy(v->bytes, values, size_bytes);
    t->values = v;
    return standin_library_leave(r);
}

const dnn_value *standin_dnn_value(const dnn_thing *t, fxi_dnn_attribute which)
{
    for (const dnn_value *v = t ? t->values : NULL; v; v = v->next)
        if (v->which == which) return v;
    return NULL;
}

dnn_thing *standin_dnn_linked(const dnn_thing *t, fxi_dnn_attribute which, int i)
{
    const dnn_value *v = standin_dnn_value(t, which);
    void *object = NULL;
    if (v && i < v->n) memcpy(&object, v->bytes + (size_t)i * sizeof object, sizeof object);
    return thing_of(object, -1);
}

static dnn_thing *linked(const dnn_thing *t, fxi_dnn_attribute which)
{
    return standin_dnn_linked(t, which, 0);
}

int64_t standin_dnn_number(const dnn_thing *t, fxi_dnn_attribute which, int i)
{
    const dnn_value *v = standin_dnn_value(t, which);
    int64_t n = 0;
    if (v && i < v->n) memcpy(&n, v->bytes + (size_t)i * sizeof n, sizeof n);
    return n;
}

void *standin_dnn_operand(const dnn_thing *variant, const dnn_thing *tensor)
{
    const dnn_value *ids = standin_dnn_value(variant, FXI_DNN_VARIANT_IDS),
                    *pointers = standin_dnn_value(variant, FXI_DNN_VARIANT_POINTERS);
    const int64_t id = standin_dnn_number(tensor, FXI_DNN_TENSOR_ID, 0);
    void *at = NULL;
    for (int64_t i = 0; ids && pointers && tensor && i < ids->n && i < pointers->n; i++)
        if (standin_dnn_number(variant, FXI_DNN_VARIANT_IDS, (int)i) == id)
            memcpy(&at, pointers->bytes + (size_t)i * sizeof at, sizeof at);
    return at;
}

fxi_dnn_status cudnnBackendFinalize(fxi_dnn_object object)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    dnn_thing *t = thing_of(object, -1);
    if (!t || t->finished)
        return standin_library_leave(dnn_breach("cuDNN: finishes what is none, or again"));
    if (t->object.kind == FXI_DNN_PLAN &&
        (!linked(t, FXI_DNN_PLAN_CONFIG) || !linked(t, FXI_DNN_PLAN_DEVICE)))
        return standin_library_leave(dnn_breach("cuDNN: a plan of nothing, or for no device"));
    counts.n_plan += t->object.kind == FXI_DNN_PLAN;
    t->finished = true;
    return standin_library_leave(r);
}

// ---- answers -----------------------------------------------------------------------------------

static dnn_thing *operation_of(const dnn_thing *graph)
{
    return linked(graph, FXI_DNN_GRAPH_OPERATIONS);
}

// A graph that begins so is one of simple steps.
static bool is_product(const dnn_thing *operation)
{
    return operation && operation->object.kind == FXI_DNN_OPERATION_MATMUL;
}

static bool supports(const dnn_thing *heuristic)
{
    const dnn_thing *op = operation_of(linked(heuristic, FXI_DNN_HEURISTIC_GRAPH)),
                    *q = linked(op, is_product(op) ? FXI_DNN_MATMUL_A : FXI_DNN_SDPA_Q);
    const int64_t n_seq = standin_dnn_number(q, FXI_DNN_TENSOR_SIZES, 0),
                  dim = standin_dnn_number(q, FXI_DNN_TENSOR_SIZES, 3);
    return q && n_seq != refused_seq && dim % 8 == 0 && dim <= 128;
}

// The one way to compute it: the first configuration that there is room for names the graph.
static fxi_dnn_status give_configs(const dnn_thing *heuristic, int64_t *n, void *values)
{
    void *first;
    memcpy(&first, values, sizeof first);
    dnn_thing *config = thing_of(first, FXI_DNN_ENGINE_CONFIG);
    const dnn_thing *graph = linked(heuristic, FXI_DNN_HEURISTIC_GRAPH);
    if (!config || config->finished) return dnn_breach("cuDNN: room for configurations is none");
    *n = supports(heuristic);
    if (!*n) return FXI_DNN_SUCCESS;
    dnn_value *v = malloc(sizeof *v + sizeof graph);
    if (!v) return FXI_DNN_ALLOC_FAILED;
    *v = (dnn_value){.which = FXI_DNN_HEURISTIC_GRAPH, .n = 1};
    memcpy(v->bytes, &graph, sizeof graph);
    config->values = v;
    config->finished = true;
    return FXI_DNN_SUCCESS;
}

fxi_dnn_status cudnnBackendGetAttribute(const fxi_dnn_object object, fxi_dnn_attribute which,
                                        fxi_dnn_type type, int64_t n_wanted, int64_t *n,
                                        void *values)
{
    const int64_t workspace_bytes = STANDIN_DNN_WORKSPACE_BYTES;
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    const dnn_thing *t = thing_of(object, -1);
    if (!t || !t->finished || n_wanted < 1)
        return standin_library_leave(dnn_breach("cuDNN: asks what is not finished"));
    if (t->object.kind == FXI_DNN_HEURISTIC && which == FXI_DNN_HEURISTIC_RESULTS)
        return standin_library_leave(give_configs(t, n, values));
    if (t->object.kind != FXI_DNN_PLAN || which != FXI_DNN_PLAN_WORKSPACE || type != FXI_DNN_INT64)
        return standin_library_leave(dnn_breach("cuDNN: an odd question"));
    *n = 1;
    memcpy(values, &workspace_bytes, sizeof workspace_bytes);
    return standin_library_leave(r);
}

// ---- attention ---------------------------------------------------------------------------------

typedef struct sdpa_task {
    const uint16_t *q, *k, *v;
    uint16_t *out;
    void *workspace;
    float scale;
    const int32_t *n_q, *n_kv;
    const int64_t *q_at, *kv_at;
    int64_t n_seq, n_head, n_kv_head, dim, max_kv, step;
    bool is_bf16;
} sdpa_task;

static float widen_half(const sdpa_task *t, uint16_t x)
{
    return t->is_bf16 ? fxi_bf16_to_f32(x) : fxi_f16_to_f32(x);
}

static uint16_t narrow_half(const sdpa_task *t, float x)
{
    return t->is_bf16 ? fxi_f32_to_bf16(x) : fxi_f32_to_f16(x);
}

static float dot_half(const sdpa_task *t, const uint16_t *a, const uint16_t *b)
{
    float sum = 0;
    for (int64_t i = 0; i < t->dim; i++) sum += widen_half(t, a[i]) * widen_half(t, b[i]);
    return sum;
}

// One query, in one walk over the positions.
static void attend_query(const sdpa_task *t, int64_t seq, int64_t head)
{
    const int64_t kv = seq[t->kv_at] + head / (t->n_head / t->n_kv_head) * t->dim;
    const uint16_t *q = t->q + seq[t->q_at] + head * t->dim;
    float m = -INFINITY, l = 0, acc[MAX_HEAD] = {0};
    for (int32_t pos = 0; pos < t->n_kv[seq]; pos++) {
        const uint16_t *value = t->v + kv + pos * t->step;
        const float s = t->scale * dot_half(t, q, t->k + kv + pos * t->step);
        const float to = fmaxf(m, s), old = expf(m - to), p = expf(s - to);
        for (int64_t i = 0; i < t->dim; i++) acc[i] = acc[i] * old + p * widen_half(t, value[i]);
        l = l * old + p;
        m = to;
    }
    for (int64_t i = 0; i < t->dim; i++)
        t->out[seq[t->q_at] + head * t->dim + i] = narrow_half(t, acc[i] / l);
}

static const char *odd_sequence(const sdpa_task *t, int64_t seq)
{
    const size_t row_bytes = (size_t)(t->n_kv_head * t->dim) * 2;
    if (t->n_q[seq] != 1 || t->n_kv[seq] < 1 || t->n_kv[seq] > t->max_kv)
        return "cuDNN: a sequence with an odd number of queries or positions";
    for (int32_t pos = 0; pos < t->n_kv[seq]; pos++) {
        const int64_t at = t->kv_at[seq] + pos * t->step;
        if (!standin_is_open((vti_cu_ptr)(t->k + at), row_bytes) ||
            !standin_is_open((vti_cu_ptr)(t->v + at), row_bytes))
            return "cuDNN: keys or values that are not there when they are read";
    }
    return NULL;
}

static void run_attention(void *arg)
{
    const sdpa_task *t = arg;
    memset(t->workspace, STANDIN_DNN_GARBAGE, STANDIN_DNN_WORKSPACE_BYTES);
    for (int64_t seq = 0; seq < t->n_seq; seq++) {
        const char *odd = odd_sequence(t, seq);
        if (odd) {
            (void)standin_breach(odd);
            return;
        }
        for (int64_t head = 0; head < t->n_head; head++) attend_query(t, seq, head);
    }
}

// ---- executions --------------------------------------------------------------------------------

static void take_sizes(const dnn_thing *q, const dnn_thing *k, sdpa_task *t)
{
    const dnn_value *type = standin_dnn_value(q, FXI_DNN_TENSOR_TYPE);
    int data_type = 0;
    if (type) memcpy(&data_type, type->bytes, sizeof data_type);
    t->is_bf16 = data_type == FXI_DNN_BFLOAT16;
    t->n_seq = standin_dnn_number(q, FXI_DNN_TENSOR_SIZES, 0);
    t->n_head = standin_dnn_number(q, FXI_DNN_TENSOR_SIZES, 1);
    t->dim = standin_dnn_number(q, FXI_DNN_TENSOR_SIZES, 3);
    t->n_kv_head = standin_dnn_number(k, FXI_DNN_TENSOR_SIZES, 1);
    t->max_kv = standin_dnn_number(k, FXI_DNN_TENSOR_SIZES, 2);
    t->step = standin_dnn_number(k, FXI_DNN_TENSOR_STRIDES, 2);
}

static sdpa_task *task_of(const dnn_thing *plan, const dnn_thing *variant)
{
    const dnn_thing *op =
        operation_of(linked(linked(plan, FXI_DNN_PLAN_CONFIG), FXI_DNN_HEURISTIC_GRAPH));
    const dnn_thing *q = linked(op, FXI_DNN_SDPA_Q), *k = linked(op, FXI_DNN_SDPA_K);
    const float *scale = standin_dnn_operand(variant, linked(op, FXI_DNN_SDPA_SCALE));
    const dnn_value *room = standin_dnn_value(variant, FXI_DNN_VARIANT_WORKSPACE);
    sdpa_task *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    take_sizes(q, k, t);
    t->q = standin_dnn_operand(variant, q);
    t->k = standin_dnn_operand(variant, k);
    t->v = standin_dnn_operand(variant, linked(op, FXI_DNN_SDPA_V));
    t->out = standin_dnn_operand(variant, linked(op, FXI_DNN_SDPA_OUT));
    t->n_q = standin_dnn_operand(variant, linked(op, FXI_DNN_SDPA_N_Q));
    t->n_kv = standin_dnn_operand(variant, linked(op, FXI_DNN_SDPA_N_KV));
    t->q_at = standin_dnn_operand(variant, linked(q, FXI_DNN_TENSOR_RAGGED));
    t->kv_at = standin_dnn_operand(variant, linked(k, FXI_DNN_TENSOR_RAGGED));
    if (scale) t->scale = *scale;
    if (room) memcpy(&t->workspace, room->bytes, sizeof t->workspace);
    return t;
}

static bool has_operands(const sdpa_task *t)
{
    return t->q && t->k && t->v && t->out && t->n_q && t->n_kv && t->q_at && t->kv_at &&
           t->workspace && t->scale != 0 && t->n_kv_head > 0 && t->dim <= MAX_HEAD;
}

static fxi_dnn_status execute_graph(fxi_dnn_handle handle, const dnn_thing *graph,
                                    const dnn_thing *variant)
{
    const dnn_value *room = standin_dnn_value(variant, FXI_DNN_VARIANT_WORKSPACE);
    void *workspace = NULL;
    if (room) memcpy(&workspace, room->bytes, sizeof workspace);
    const standin_task task = {
        .run = standin_dnn_graph_run,
        .arg = workspace ? standin_dnn_graph_make(graph, variant, workspace) : NULL,
        .range = {{(vti_cu_ptr)workspace, STANDIN_DNN_WORKSPACE_BYTES, true}}};
    if (!task.arg) return dnn_breach("cuDNN: a graph that is odd, or without all operands");
    counts.n_execute++;
    counts.n_masked++;
    return standin_give_task(handle->stream, &task) == VTI_CU_SUCCESS ? FXI_DNN_SUCCESS : 5000;
}

fxi_dnn_status cudnnBackendExecute(fxi_dnn_handle handle, fxi_dnn_object plan,
                                   fxi_dnn_object variant)
{
    fxi_dnn_status r = standin_library_enter(&standin_dnn);
    if (r != FXI_DNN_SUCCESS) return standin_library_leave(r);
    const dnn_thing *p = thing_of(plan, FXI_DNN_PLAN), *v = thing_of(variant, FXI_DNN_VARIANT);
    if (!p || !p->finished || !v || !v->finished || !handle->stream)
        return standin_library_leave(
            dnn_breach("cuDNN: executes what is no plan, or without a stream"));
    const dnn_thing *graph = linked(linked(p, FXI_DNN_PLAN_CONFIG), FXI_DNN_HEURISTIC_GRAPH);
    if (is_product(operation_of(graph)))
        return standin_library_leave(execute_graph(handle, graph, v));
    sdpa_task *t = task_of(p, v);
    if (!t) return standin_library_leave(FXI_DNN_ALLOC_FAILED);
    if (!has_operands(t)) {
        free(t);
        return standin_library_leave(dnn_breach("cuDNN: an execution without all operands"));
    }
    const size_t n = (size_t)(t->n_seq * t->n_head * t->dim) * 2;
    const standin_task task = {
        .run = run_attention,
        .arg = t,
        .range = {{(vti_cu_ptr)t->q, n, false},
                  {(vti_cu_ptr)t->out, n, true},
                  {(vti_cu_ptr)t->kv_at, ((size_t)t->n_seq + 1) * sizeof(int64_t), false},
                  {(vti_cu_ptr)t->workspace, STANDIN_DNN_WORKSPACE_BYTES, true}}};
    counts.n_execute++;
    return standin_library_leave(standin_give_task(handle->stream, &task) == VTI_CU_SUCCESS ? r
                                                                                            : 5000);
}
