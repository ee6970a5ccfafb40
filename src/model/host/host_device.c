// host_device.c - the host as a device: its table, memory for weights, and the buffers of a pass,
// which are allocated once for the largest batch.
//
// Weights lie in an arena of huge pages, packed in panels for the kernels of this machine
// (kernels/linear.c); threads of the pool pack and copy.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number/qblock.h"
#include "base/system/memory.h"
#include "model/host/host.h"

#define COPY_BYTES ((size_t)64 << 10) // of a task

// ---- memory ------------------------------------------------------------------------------------

static void host_memory(fxi_device *d, fxi_device_memory *out)
{
    (void)d;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    *out =
        (fxi_device_memory){.free_bytes = fxi_free_memory_bytes(""),
                            .total_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0,
                            .is_host = true};
}

// Memory for results and buffers: a block each, so that tools see a write past its end.
typedef struct fxi_host_block {
    _Alignas(64) struct fxi_host_block *next;
} fxi_host_block;

static fx_status host_is_full(size_t size_bytes, fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "cpu: no memory for %zu bytes", size_bytes);
}

static fx_status host_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    fxi_host *h = fxi_host_of(d);
    fxi_host_block *r = aligned_alloc(64, sizeof *r + (size_bytes + 63) / 64 * 64);
    if (!r) return host_is_full(size_bytes, err);
    r->next = h->blocks;
    h->blocks = r;
    *out = r + 1;
    return FX_OK;
}

static fx_status host_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                           fx_error *err)
{
    *out = fxi_arena_take(&fxi_host_of(d)->weights, size_bytes, more_bytes);
    return *out ? FX_OK : host_is_full(size_bytes, err);
}

// ---- weights -----------------------------------------------------------------------------------

typedef struct copy_job {
    char *dst;
    const char *src;
    size_t size_bytes;
} copy_job;

static void copy_task(void *arg, int task)
{
    const copy_job *job = arg;
    const size_t from = (size_t)task * COPY_BYTES, rest = job->size_bytes - from;
    memcpy(job->dst + from, job->src + from, rest < COPY_BYTES ? rest : COPY_BYTES);
}

static fx_status host_upload(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                             fx_error *err)
{
    (void)err;
    copy_job job = {dst, src, size_bytes};
    fxi_pool_run(fxi_host_of(d)->compute.pool, copy_task, &job,
                 (int)((size_bytes + COPY_BYTES - 1) / COPY_BYTES));
    return FX_OK;
}

static fx_status host_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                                  fx_error *err)
{
    const int group = fxi_linear_reads_q8(w) ? 0 : fxi_linear_best_group(fxi_host_of(d)->compute.k);
    for (int i = 0; i < n; i++) w[i].group = group;
    const size_t one = fxi_linear_bytes(w);
    void *data;
    FX_TRY(host_take(d, (size_t)n * one, more_bytes, &data, err));
    for (int i = 0; i < n; i++) w[i].data = (char *)data + (size_t)i * one;
    return FX_OK;
}

enum { PACK_PANELS = 4 }; // of a task: panels that share lines go to one thread

typedef struct pack_job {
    fxi_linear part; // what is put
    const void *rows;
} pack_job;

static void pack_task(void *arg, int task)
{
    const pack_job *job = arg;
    const int n_panel = fxi_linear_n_panel(job->part.n_out), first = task * PACK_PANELS;
    for (int p = first; p < first + PACK_PANELS && p < n_panel; p++)
        fxi_linear_pack_panel(&job->part, job->rows, p);
}

static fx_status host_put_linear(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                                 const void *rows, fx_error *err)
{
    (void)err;
    pack_job job = {fxi_linear_part(w, row0, n_row), rows};
    fxi_pool_run(fxi_host_of(d)->compute.pool, pack_task, &job,
                 (fxi_linear_n_panel(n_row) + PACK_PANELS - 1) / PACK_PANELS);
    return FX_OK;
}

static fx_status host_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                                fxi_linear *out, fx_error *err)
{
    (void)d, (void)err;
    *out = fxi_linear_part(w, row0, n_row);
    return FX_OK;
}

// ---- buffers -----------------------------------------------------------------------------------

// What the layers of a model need of their inputs, in numbers of the form that some layer reads.
typedef struct needs {
    size_t mid_f32, mid_q8, ex_f32, ex_q8;
    size_t n_expert, n_place; // 0: there are none
    size_t q, kv, gate;       // widest of a row
} needs;

static void need_width(size_t *widest, int n)
{
    if ((size_t)n > *widest) *widest = (size_t)n;
}

static void need_mid(needs *n, const fxi_linear *down, size_t rows)
{
    size_t *dst = fxi_linear_reads_q8(down) ? &n->mid_q8 : &n->mid_f32;
    const size_t elems = rows * (size_t)down->n_in;
    if (down->data && elems > *dst) *dst = elems;
}

static needs count_needs(const fxi_transformer *m, size_t n_tok)
{
    needs n = {0};
    for (int i = 0; i < m->model.shape.n_layer; i++) {
        const fxi_layer *l = &m->layer[i];
        const fxi_experts *x = l->experts;
        need_width(&n.q, l->q.w.n_out);
        need_width(&n.kv, l->k.w.n_out);
        need_width(&n.gate, l->gate.w.n_out);
        need_mid(&n, &l->ffn.down.w, n_tok);
        if (!x) continue;
        const fxi_linear *in[] = {x->gate.w, x->up.w};
        n.n_expert = (size_t)m->rules.n_expert;
        n.n_place = n_tok * (size_t)m->rules.n_used;
        for (int k = 0; k < 2; k++)
            if (in[k])
                *(fxi_linear_reads_q8(in[k]) ? &n.ex_q8 : &n.ex_f32) =
                    n.n_place * (size_t)m->model.shape.dim;
        need_mid(&n, &x->down.w[0], n.n_place);
        need_mid(&n, &x->shared.down.w, n_tok);
    }
    return n;
}

typedef struct host_buffer {
    void **dst;
    size_t n, elem_bytes;
} host_buffer;

static fx_status prepare_host(fxi_device *d, const fxi_transformer *m, const fxi_pass_limits *most,
                              fx_error *err)
{
    fxi_host *h = fxi_host_of(d);
    const fxi_model_shape *s = &m->model.shape;
    fxi_host_buffers *b = &h->s;
    h->m = m;
    const size_t n = (size_t)most->max_tok, dim = (size_t)s->dim;
    const needs need = count_needs(m, n);
    const size_t n_narrow = (size_t)m->embd_in.n_in, widest = dim > need.q ? dim : need.q;
    const size_t n_act = n * (widest > n_narrow ? widest : n_narrow),
                 n_logit = (size_t)most->max_logit, n_vocab = (size_t)m->output.w.n_out;
    const size_t n_expert = need.n_expert, n_place = need.n_place;
    const host_buffer list[] = {
        {(void **)&b->x, n * dim, sizeof(float)},
        {(void **)&b->h, n * dim, sizeof(float)},
        {(void **)&b->held, m->rules.is_parallel ? n * dim : 0, sizeof(float)},
        {(void **)&b->narrow, n * n_narrow, sizeof(float)},
        {(void **)&b->q, n * need.q, sizeof(float)},
        {(void **)&b->att, n * need.q, sizeof(float)},
        {(void **)&b->k, n * need.kv, sizeof(float)},
        {(void **)&b->v, n * need.kv, sizeof(float)},
        {(void **)&b->gate, n * need.gate, sizeof(float)},
        {(void **)&b->run, m->rules.recurrence.n_state ? n + 1 : 0, sizeof(int)},
        {(void **)&b->attn,
         fxi_compute_attn_scratch(&h->compute, s->n_head, s->n_kv_head, s->head_dim, m->ctx_tok),
         sizeof(float)},
        {(void **)&b->ffn, fxi_compute_ffn_scratch(&h->compute), sizeof(float)},
        {(void **)&b->act_q, n_act, 1},
        {(void **)&b->act_d, n_act / 32 + n, sizeof(float)},
        {(void **)&b->act_sum, n_act / 16 + n, sizeof(int32_t)},
        {(void **)&b->mid, need.mid_f32, sizeof(float)},
        {(void **)&b->mid_q, need.mid_q8, 1},
        {(void **)&b->mid_d, need.mid_q8 / 32, sizeof(float)},
        {(void **)&b->mid_sum, need.mid_q8 / 16, sizeof(int32_t)},
        {(void **)&b->logits, n_logit * n_vocab, sizeof(float)}, // used if the caller has no room
        {(void **)&b->tok_seq, n, sizeof(void *)},
        {(void **)&b->tok_pos, n, sizeof(int)},
        {(void **)&b->block[0], n, sizeof(fxi_attn_block)},
        {(void **)&b->block[1], m->rules.window ? n : 0, sizeof(fxi_attn_block)},
        {(void **)&b->wanted, n > n_logit ? n : n_logit, sizeof(int)},
        {(void **)&b->router, n * n_expert, sizeof(float)},
        {(void **)&b->share, n_place, sizeof(float)},
        {(void **)&b->sh_gate, n_expert ? n : 0, sizeof(float)},
        {(void **)&b->chosen, n_place, sizeof(int)},
        {(void **)&b->place, n_place, sizeof(int)},
        {(void **)&b->place_row, n_place, sizeof(int)},
        {(void **)&b->expert0, n_expert ? n_expert + 1 : 0, sizeof(int)},
        {(void **)&b->ex, need.ex_f32, sizeof(float)},
        {(void **)&b->ex_q, need.ex_q8, 1},
        {(void **)&b->ex_d, need.ex_q8 / 32, sizeof(float)},
        {(void **)&b->ex_sum, need.ex_q8 / 16, sizeof(int32_t)},
        {(void **)&b->ex_out, n_place * dim, sizeof(float)},
        {(void **)&b->sh_out, m->rules.n_shared_ffn ? n * dim : 0, sizeof(float)},
        {(void **)&b->part, n_expert, sizeof(fxi_ffn_part)},
        {(void **)&b->job, n_expert, sizeof(fxi_linear_job)},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].n &&
            host_take_host(d, list[i].n * list[i].elem_bytes + 64, list[i].dst, NULL) != FX_OK)
            return fxi_fail(err, FX_ENOMEM, "cpu: no memory for a batch of %d tokens",
                            most->max_tok);
    return FX_OK;
}

// ---- the device --------------------------------------------------------------------------------

static fx_status host_open_vmm(fxi_device *d, struct vt_vmm **out, fx_error *err)
{
    (void)d, (void)err;
    *out = NULL;
    return FX_OK;
}

// Nothing runs in the background.
static fx_status host_done(fxi_device *d, fx_error *err)
{
    (void)d, (void)err;
    return FX_OK;
}

static void close_host(fxi_device *d)
{
    fxi_host *h = fxi_host_of(d);
    fxi_arena_free(&h->weights);
    for (fxi_host_block *r = h->blocks, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(h);
}

static const fxi_device_ops host_ops = {
    .close = close_host,
    .memory = host_memory,
    .open_vmm = host_open_vmm,
    .take_host = host_take_host,
    .take = host_take,
    .upload = host_upload,
    .take_linear = host_take_linear,
    .put_linear = host_put_linear,
    .view_rows = host_view_rows,
    .prepare = prepare_host,
    .begin = fxi_host_begin,
    .embed = fxi_host_embed,
    .add_norm = fxi_host_add_norm,
    .linear = fxi_host_linear,
    .rope_store = fxi_host_rope_store,
    .keep_rows = fxi_host_keep_rows,
    .attention = fxi_host_attention,
    .recur_store = fxi_host_recur_store,
    .recur = fxi_host_recur,
    .ffn = fxi_host_ffn,
    .experts = fxi_host_experts,
    .rows = fxi_host_return_rows,
    .logits = fxi_host_logits,
    .best = fxi_host_best,
    .submit = host_done,
    .wait = host_done,
};

fx_status fxi_host_device_open(fxi_pool *pool, const char *kernel_path, fxi_device **out,
                               fx_error *err)
{
    *out = NULL;
    const fxi_kernels *k = fxi_kernels_get(kernel_path);
    if (!k)
        return fxi_fail(err, FX_EINVAL, "kernel path '%s' is unknown or not run by this machine",
                        kernel_path);
    fxi_host *h = calloc(1, sizeof *h);
    if (!h) return fxi_fail(err, FX_ENOMEM, "cpu: no memory");
    h->dev = (fxi_device){.ops = &host_ops, .name = "cpu", .path = k->name};
    h->compute = (fxi_compute){k, pool};
    for (int t = 0; t < FXI_DTYPE_END; t++)
        if (fxi_qformat_find((fxi_dtype)t)) h->q8_types |= (uint64_t)1 << t;
    *out = &h->dev;
    return FX_OK;
}
