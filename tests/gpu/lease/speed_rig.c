// speed_rig.c - see speed_rig.h.
#include "speed_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "vtensor/vmm.h"

void speed_must(fx_status st, const fx_error *err)
{
    if (st == FX_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

void *speed_take(const speed_rig *r, size_t size_bytes)
{
    void *at;
    fx_error err = {0};
    speed_must(r->d->ops->take(r->d, size_bytes, 0, &at, &err), &err);
    return at;
}

static void *take_apart(speed_rig *r, size_t size_bytes)
{
    fx_error err = {0};
    void *at;
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_cu_alloc(&r->g->cu, size_bytes, &at, &err), &err);
    fxi_cu_leave(&r->g->cu, FX_OK);
    return at;
}

void speed_send(speed_rig *r, void *dst, const void *src, size_t size_bytes)
{
    fx_error err = {0};
    speed_must(r->d->ops->upload(r->d, dst, src, size_bytes, &err), &err);
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_gpu_stage_drain(&r->g->cu, &r->g->stage, &err), &err);
    fxi_cu_leave(&r->g->cu, FX_OK);
}

void speed_fetch(speed_rig *r, void *dst, const void *src, size_t size_bytes)
{
    fx_error err = {0};
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_gpu_stage_download(&r->g->cu, &r->g->stage, dst, src, size_bytes, &err), &err);
    fxi_cu_leave(&r->g->cu, FX_OK);
}

void speed_wait(const speed_rig *r)
{
    fx_error err = {0};
    speed_must(r->d->ops->wait(r->d, &err), &err);
}

int speed_random(speed_rig *r, int n)
{
    r->seed = r->seed * 1664525 + 1013904223;
    return (int)((r->seed >> 8) % (uint32_t)n);
}

// ---- open --------------------------------------------------------------------------------------

// Random numbers of -1 to 1.
static void send_numbers(speed_rig *r, float *to, size_t n)
{
    float *numbers = malloc(n * sizeof *numbers);
    if (!numbers) exit(1);
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)(speed_random(r, 1 << 16) - (1 << 15)) * 0x1p-15f;
    speed_send(r, to, numbers, n * sizeof *numbers);
    free(numbers);
}

// Which sequence and which position the rows of a piece belong to, for all of them.
static void send_places(speed_rig *r, int max_pos)
{
    const size_t n = (size_t)r->n_source * SPEED_MAX_BATCH;
    const size_t most = n > (size_t)max_pos ? n : (size_t)max_pos;
    int32_t *list = malloc(most * sizeof *list);
    if (!list) exit(1);
    for (size_t i = 0; i < n; i++) list[i] = (int32_t)(i / (size_t)r->n_source);
    r->row_seq = speed_take(r, n * sizeof *list);
    speed_send(r, r->row_seq, list, n * sizeof *list);
    for (int i = 0; i < max_pos; i++) list[i] = i;
    r->pos = speed_take(r, (size_t)max_pos * sizeof *list);
    speed_send(r, r->pos, list, (size_t)max_pos * sizeof *list);
    free(list);
}

static void take_arrays(speed_rig *r, const speed_limits *most)
{
    const size_t n_row = (size_t)r->max_row, row = SPEED_N_HEAD * SPEED_HEAD_DIM;
    const size_t n_part = n_row * SPEED_N_HEAD * (size_t)fxi_attn_n_segment(most->max_pos);
    r->max_part = n_part < 1 << 19 ? (int)n_part : 1 << 19;
    r->tile = calloc(n_row, sizeof *r->tile);
    if (!r->tile) exit(1);
    r->seq_at = speed_take(r, SPEED_N_KIND * SPEED_MAX_BATCH * sizeof *r->seq_at);
    r->tile_at = speed_take(r, n_row * sizeof *r->tile_at);
    r->q = speed_take(r, n_row * row * sizeof(float));
    r->out = speed_take(r, n_row * row * sizeof(float));
    r->part = speed_take(r, (size_t)r->max_part * (FXI_CUDA_PART_ACC + SPEED_HEAD_DIM) * 4);
    r->n_source = most->max_pos < 1024 ? most->max_pos : 1024;
    r->source = speed_take(r, 2 * (size_t)r->n_source * row * sizeof(float));
    send_numbers(r, r->q, n_row * row);
    send_numbers(r, r->source, 2 * (size_t)r->n_source * row);
    send_places(r, most->max_pos);
}

void speed_rig_open(speed_rig *r, const char *math, const speed_limits *most)
{
    fx_error err = {0};
    const fxi_gpu_options opt = {.name = "cuda:0", .math = math};
    *r = (speed_rig){
        .max_row = most->max_batch * most->max_tok, .max_layer = most->max_layer, .seed = 1};
    speed_must(fxi_gpu_open(&opt, &r->d, &err), &err);
    r->g = fxi_gpu_of(r->d);
    take_arrays(r, most);
}

void speed_rig_close(speed_rig *r)
{
    r->d->ops->close(r->d);
    free(r->tile);
}

// ---- bandwidth ---------------------------------------------------------------------------------

typedef struct speed_piece {
    char *at;
    size_t size_bytes;
} speed_piece;

static void zero_bytes(const speed_rig *r, char *at, size_t size_bytes)
{
    const fxi_cu *cu = &r->g->cu;
    fx_error err = {0};
    speed_must(fxi_cu_done(cu, cu->api.memset_async((vti_cu_ptr)at, 0, size_bytes, cu->compute),
                           &err, "cuMemsetD8Async"),
               &err);
}

static void fill_piece(const speed_rig *r, const speed_piece *p)
{
    zero_bytes(r, p->at, p->size_bytes);
}

static void copy_piece(const speed_rig *r, const speed_piece *p)
{
    const fxi_cu *cu = &r->g->cu;
    const size_t half = p->size_bytes / 2;
    const vti_cu_ptr at = (vti_cu_ptr)p->at;
    fx_error err = {0};
    speed_must(fxi_cu_done(cu, cu->api.memcpy_dtod_async(at + half, at, half, cu->compute), &err,
                           "cuMemcpyDtoDAsync"),
               &err);
}

// Rows of 64 KiB, a block each; what is found goes over the results of attention.
static void search_piece(const speed_rig *r, const speed_piece *p)
{
    enum { ROW = 1 << 14 };
    fx_error err = {0};
    const int n_row = (int)(p->size_bytes / (ROW * sizeof(float)));
    const fxi_cuda_argmax_args args = {.y = (const float *)(const void *)p->at,
                                       .count = {n_row, NULL},
                                       .n = ROW,
                                       .best = (int32_t *)(void *)r->out,
                                       .value = r->out + n_row};
    speed_must(fxi_gpu_launch(r->g, FXI_CUDA_ARGMAX, &args, &err), &err);
}

double speed_bandwidth(speed_rig *r, size_t size_bytes)
{
    static void (*const moves[])(const speed_rig *r,
                                 const speed_piece *p) = {fill_piece, copy_piece, search_piece};
    enum { N_ROUND = 8 };
    fx_error err = {0};
    void *at;
    double most = 0;
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_cu_alloc(&r->g->cu, size_bytes, &at, &err), &err);
    const speed_piece p = {at, size_bytes};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        moves[i](r, &p);
        speed_must(fxi_cu_wait(&r->g->cu, r->g->cu.compute, &err), &err);
        const double t0 = fxi_now_s();
        for (int k = 0; k < N_ROUND; k++) moves[i](r, &p);
        speed_must(fxi_cu_wait(&r->g->cu, r->g->cu.compute, &err), &err);
        const double per_s = N_ROUND * (double)size_bytes / (fxi_now_s() - t0);
        if (per_s > most) most = per_s;
    }
    fxi_cu_free(&r->g->cu, at);
    fxi_cu_leave(&r->g->cu, FX_OK);
    return most;
}

// ---- caches of a case, next to each other in memory: libvtensor's and pages as an engine has
// them, through the managers that it uses (kv.h), and plain memory laid out like libvtensor's.
//
// A busy manager's sequences grow together, so here they do, too, in random order: neighbouring
// chunks of a sequence were not made one after the other, and tables name blocks in any order. A
// single sequence gets others to grow with, which nobody reads.

enum { GROW_TOK = 16, MIN_SEQ = 4 };

static const char *const manager_names[SPEED_N_KIND] = {
    [SPEED_VTENSOR] = "vtensor", [SPEED_PAGED16] = "paged", [SPEED_PAGED256] = "paged"};
static const int manager_block[SPEED_N_KIND] = {[SPEED_PAGED16] = 16, [SPEED_PAGED256] = 256};

const char *const speed_memory_names[SPEED_N_KIND] = {"vtensor", "plain", "plain", "pool", "pool"};
const char *const speed_layout_names[SPEED_N_KIND] = {"packed", "packed", "dense", "paged-16",
                                                      "paged-256"};

static size_t plane_row_bytes(const speed_case *c)
{
    return (size_t)c->n_kv_head * SPEED_HEAD_DIM * sizeof(uint16_t);
}

size_t speed_case_bytes(const speed_case *c)
{
    return (size_t)c->batch * (size_t)c->n_pos * plane_row_bytes(c) * 2;
}

// ---- sizes -------------------------------------------------------------------------------------

static int grown_seqs(const speed_case *c, int kind)
{
    return kind == SPEED_VTENSOR && c->batch < MIN_SEQ ? MIN_SEQ : c->batch;
}

// What a cache takes; a manager at most, with a unit of memory for each sequence that is not full.
static double bytes_of_kind(const speed_case *c, int kind, int n_layer, size_t granularity)
{
    const int layers = kind == SPEED_DENSE ? 1 : n_layer;
    const double tok = 2.0 * layers * (double)plane_row_bytes(c);
    const double unit = tok * (manager_block[kind] ? manager_block[kind] : 8);
    const double slack = manager_names[kind] ? unit + 2 * (double)granularity : 0;
    return grown_seqs(c, kind) * (c->n_pos * tok + slack) + 2 * (double)granularity;
}

// As many layers as there is memory for; 0: not even one. Beyond 10 GB each, more layers show
// nothing more.
static int fitting_layers(const speed_rig *r, const speed_case *c, int n_kind, size_t granularity)
{
    fxi_device_memory m;
    r->d->ops->memory(r->d, &m);
    for (int n = r->max_layer; n > 0; n /= 2) {
        double sum = 0;
        for (int k = 0; k < n_kind; k++) sum += bytes_of_kind(c, k, n, granularity);
        const bool is_long = n > 1 && n * (double)speed_case_bytes(c) > 10e9;
        if (sum < 0.9 * (double)m.free_bytes && !is_long) return n;
    }
    return 0;
}

// ---- a manager's -------------------------------------------------------------------------------

static struct vt_vmm *open_memory(const speed_rig *r)
{
    fx_error err = {0};
    struct vt_vmm *vmm;
    speed_must(r->d->ops->open_vmm(r->d, &vmm, &err), &err);
    return vmm;
}

static void open_manager(speed_rig *r, const speed_case *c, speed_cache *cache, int kind)
{
    fx_error err = {0};
    struct vt_vmm *vmm = open_memory(r);
    fxi_kv_shape shape = {
        .layout = {.n_group = 1,
                   .group = {{.n_plane = 2 * cache->n_layer, .row_bytes = plane_row_bytes(c)}}},
        .ctx_tok = c->n_pos,
        .max_seq = SPEED_MAX_BATCH,
        .block_tok = manager_block[kind],
        .tile_tok = FXI_KV_TILE_TOK,
        .vmm = vmm};
    shape.budget_bytes =
        (uint64_t)bytes_of_kind(c, kind, cache->n_layer, vmm->ops->granularity(vmm));
    speed_must(fxi_kv_open(manager_names[kind], &shape, &cache->kv, &err), &err);
}

static uint64_t mapped_bytes(const speed_cache *cache)
{
    fxi_kv_stats s;
    fxi_kv_get_stats(cache->kv, &s);
    return s.mapped_bytes;
}

// All sequences to all positions, a few tokens of one of them at a time.
static void grow_together(speed_rig *r, const speed_case *c, speed_cache *cache, int n_seq)
{
    const fx_error full = {.text = "a cache is smaller than was reckoned"};
    const fxi_kv_expect expect = {.begin_tok = c->n_pos};
    int len[SPEED_MAX_BATCH] = {0}, open[SPEED_MAX_BATCH];
    int n_open = n_seq, last = -1, n_new = 0, n_apart = 0;
    for (int i = 0; i < n_seq; i++) {
        open[i] = i;
        speed_must(fxi_kv_create(cache->kv, &expect, &cache->seq[i]), &full);
    }
    while (n_open) {
        const int at = speed_random(r, n_open), i = open[at];
        const uint64_t before = mapped_bytes(cache);
        len[i] = len[i] + GROW_TOK < c->n_pos ? len[i] + GROW_TOK : c->n_pos;
        speed_must(fxi_kv_extend(cache->kv, cache->seq[i], len[i]), &full);
        if (len[i] == c->n_pos) open[at] = open[--n_open];
        if (mapped_bytes(cache) == before) continue;
        n_new++;
        n_apart += i != last;
        last = i;
    }
    cache->scattered = n_new ? (double)n_apart / n_new : 0;
}

// The views of its sequences; tables go to the device.
static void take_views(speed_rig *r, const speed_case *c, speed_cache *cache)
{
    size_t n = 0, each = 0;
    for (int i = 0; i < c->batch; i++) {
        fxi_kv_view *v = &cache->view[i];
        *v = fxi_kv_get_views(cache->kv, cache->seq[i]).group[0];
        if (!v->table) continue;
        each = ((size_t)c->n_pos + ((size_t)1 << v->block_shift) - 1) >> v->block_shift;
        if (!cache->table) cache->table = take_apart(r, each * (size_t)c->batch * sizeof *v->table);
        speed_send(r, cache->table + n, v->table, each * sizeof *v->table);
        v->table = cache->table + n;
        n += each;
    }
}

// ---- plain memory ------------------------------------------------------------------------------

static void open_plain(speed_rig *r, const speed_case *c, speed_cache *cache,
                       const fxi_kv_view *like)
{
    const size_t row = plane_row_bytes(c), n_pos = (size_t)c->n_pos;
    const fxi_kv_view dense = {.plane_stride_bytes = n_pos * row, .tok_stride_bytes = row};
    const size_t each = like ? n_pos * like->tok_stride_bytes : 2 * n_pos * row;
    cache->plain = take_apart(r, each * (size_t)c->batch);
    for (int i = 0; i < c->batch; i++) {
        cache->view[i] = like ? *like : dense;
        cache->view[i].base = cache->plain + (size_t)i * each;
    }
}

// The copy of a layout takes as much as the layout's tokens: its planes must lie within them.
static void require_packed(const fxi_kv_view *v, int n_layer, const speed_case *c)
{
    const fx_error err = {.text = "libvtensor does not lay planes out side by side here"};
    const bool is_packed = v->tok_stride_bytes == 2 * (size_t)n_layer * plane_row_bytes(c);
    speed_must(is_packed ? FX_OK : FX_EINVAL, &err);
}

// ---- contents ----------------------------------------------------------------------------------

// Rows of a sequence, from pos on, in a layer: any of the random numbers.
static void store_rows(speed_rig *r, const speed_case *c, int kind, int i, int layer, int pos)
{
    const int n = c->n_pos - pos < r->n_source ? c->n_pos - pos : r->n_source;
    const size_t n_begin = (size_t)r->n_source * (SPEED_N_HEAD - 1);
    fx_error err = {0};
    float *k = r->source + (size_t)speed_random(r, (int)n_begin) * SPEED_HEAD_DIM;
    float *v = r->source + (size_t)speed_random(r, (int)n_begin) * SPEED_HEAD_DIM;
    const fxi_cuda_rope_store_args args = {.q = r->source,
                                           .k = k,
                                           .v = v,
                                           .seq = r->seq_at + kind * SPEED_MAX_BATCH,
                                           .row_seq = r->row_seq + (ptrdiff_t)i * r->n_source,
                                           .pos = r->pos + pos,
                                           .count = {n, NULL},
                                           .n_head = 0,
                                           .n_kv_head = c->n_kv_head,
                                           .head_dim = SPEED_HEAD_DIM,
                                           .kv_type = FXI_F16,
                                           .kv_layer = layer};
    speed_must(fxi_gpu_launch(r->g, FXI_CUDA_ROPE_STORE, &args, &err), &err);
}

static void fill_cache(speed_rig *r, const speed_case *c, const speed_cache *cache, int kind)
{
    fxi_cuda_seq seq[SPEED_MAX_BATCH];
    memset(seq, 0, sizeof seq);
    for (int i = 0; i < c->batch; i++)
        seq[i] = (fxi_cuda_seq){.view = {cache->view[i]},
                                .row0 = i * c->n_tok,
                                .n_tok = c->n_tok,
                                .pos = c->n_pos - c->n_tok};
    speed_send(r, r->seq_at + kind * SPEED_MAX_BATCH, seq, sizeof seq);
    r->seed = 7;
    for (int layer = 0; layer < cache->n_layer; layer++)
        for (int i = 0; i < c->batch; i++)
            for (int pos = 0; pos < c->n_pos; pos += r->n_source)
                store_rows(r, c, kind, i, layer, pos);
    speed_wait(r);
}

// ---- all caches -------------------------------------------------------------------------------

static size_t memory_granularity(const speed_rig *r)
{
    struct vt_vmm *vmm = open_memory(r);
    const size_t granularity = vmm->ops->granularity(vmm);
    vmm->ops->close(vmm);
    return granularity;
}

bool speed_caches_open(speed_rig *r, const speed_case *c, speed_cache *cache, int n_kind)
{
    const int n_layer = fitting_layers(r, c, n_kind, memory_granularity(r));
    if (!n_layer) return false;
    for (int kind = 0; kind < n_kind; kind++) {
        speed_cache *k = &cache[kind];
        *k = (speed_cache){.n_layer = kind == SPEED_DENSE ? 1 : n_layer};
        if (manager_names[kind]) {
            open_manager(r, c, k, kind);
            grow_together(r, c, k, grown_seqs(c, kind));
            take_views(r, c, k);
        } else {
            require_packed(&cache[SPEED_VTENSOR].view[0], n_layer, c);
            open_plain(r, c, k, kind == SPEED_PLAIN ? &cache[SPEED_VTENSOR].view[0] : NULL);
        }
        fill_cache(r, c, k, kind);
    }
    return true;
}

void speed_caches_close(speed_rig *r, speed_cache *cache, int n_kind)
{
    fx_error err = {0};
    speed_wait(r);
    for (int kind = 0; kind < n_kind; kind++) {
        fxi_kv_close(cache[kind].kv);
        speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
        fxi_cu_free(&r->g->cu, cache[kind].plain);
        fxi_cu_free(&r->g->cu, cache[kind].table);
        fxi_cu_leave(&r->g->cu, FX_OK);
    }
}

// ---- plants ------------------------------------------------------------------------------------

static void plant_stride(speed_rig *r, const speed_case *c, speed_cache *cache)
{
    (void)r;
    for (int i = 0; i < c->batch; i++) cache->view[i].tok_stride_bytes -= plane_row_bytes(c);
}

static void plant_chunk(speed_rig *r, const speed_case *c, speed_cache *cache)
{
    fx_error err = {0};
    const size_t middle = (size_t)c->n_pos / 2 * cache->view[0].tok_stride_bytes;
    const size_t size_bytes = GROW_TOK * cache->view[0].tok_stride_bytes;
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    zero_bytes(r, cache->view[0].base + middle, size_bytes);
    fxi_cu_leave(&r->g->cu, FX_OK);
}

static void plant_hole(speed_rig *r, const speed_case *c, speed_cache *cache)
{
    const fx_error err = {.text = "the hole cannot be made"};
    speed_wait(r);
    speed_must(fxi_kv_truncate(cache->kv, cache->seq[0], c->n_pos / 2), &err);
    speed_must(fxi_kv_trim(cache->kv, 0), &err);
}

void speed_cache_plant(speed_rig *r, const speed_case *c, speed_cache *cache, speed_plant plant)
{
    static void (*const plants[SPEED_N_PLANT])(speed_rig * r, const speed_case *c,
                                               speed_cache *cache) = {
        [SPEED_PLANT_STRIDE] = plant_stride,
        [SPEED_PLANT_CHUNK] = plant_chunk,
        [SPEED_PLANT_HOLE] = plant_hole};
    if (plants[plant]) plants[plant](r, c, cache);
}

// ---- launches go through a cache's layers in turn, as passes do, so that small caches are not
// read from the device's own cache

static fxi_cuda_attn_args attend_args(const speed_rig *r, const speed_case *c, int kind)
{
    return (fxi_cuda_attn_args){.seq = r->seq_at + kind * SPEED_MAX_BATCH,
                                .tile = r->tile_at,
                                .q = r->q,
                                .out = r->out,
                                .part = r->part,
                                .n_head = SPEED_N_HEAD,
                                .n_kv_head = c->n_kv_head,
                                .head_dim = SPEED_HEAD_DIM,
                                .kv_type = FXI_F16,
                                .scale = 0.088f};
}

void speed_job_open(speed_job *j, speed_rig *r, const speed_case *c, const speed_cache *cache,
                    speed_kind kind)
{
    fxi_cuda_seq seq[SPEED_MAX_BATCH] = {0};
    fxi_cuda_plan plan = {.n_head = SPEED_N_HEAD,
                          .n_kv_head = c->n_kv_head,
                          .n_block = 2 * r->g->cu.n_sm,
                          .max_part = r->max_part,
                          .is_wide = r->g->math == FXI_CUDA_BATCH_INVARIANT};
    for (int i = 0; i < c->batch; i++)
        seq[i] = (fxi_cuda_seq){.view = {cache->view[i]},
                                .row0 = i * c->n_tok,
                                .n_tok = c->n_tok,
                                .pos = c->n_pos - c->n_tok};
    for (int i = 0; i < c->batch; i++) fxi_cuda_plan_add(&plan, seq, i, c->n_tok, r->tile);
    fxi_cuda_plan_end(&plan, r->tile);
    speed_send(r, r->seq_at + kind * SPEED_MAX_BATCH, seq, sizeof seq);
    speed_send(r, r->tile_at, r->tile, (size_t)plan.n_tile * sizeof *r->tile);
    *j = (speed_job){.r = r, .cache = cache, .few = attend_args(r, c, kind)};
    j->few.max_range = plan.max_range;
    j->wide = j->few;
    j->few.count.most = plan.n_tile - plan.n_wide;
    j->wide.count.most = plan.n_wide;
    j->wide.tile += j->few.count.most;
}

// Both kinds of tiles, and what merges the parts of those that are spread.
void speed_job_launch(speed_job *j)
{
    fx_error err = {0};
    fxi_gpu *g = j->r->g;
    fxi_cuda_attn_args all = j->few;
    j->few.kv_layer = j->wide.kv_layer = j->layer;
    j->layer = (j->layer + 1) % j->cache->n_layer;
    all.count.most += j->wide.count.most;
    speed_must(
        fxi_gpu_launch(g, fxi_cuda_attention_find(FXI_F16, SPEED_HEAD_DIM, g->math), &j->few, &err),
        &err);
    if (j->wide.count.most)
        speed_must(fxi_gpu_launch(g, fxi_cuda_attention_wide_find(FXI_F16, SPEED_HEAD_DIM, g->math),
                                  &j->wide, &err),
                   &err);
    if (all.max_range > 1) speed_must(fxi_gpu_launch(g, FXI_CUDA_ATTN_MERGE, &all, &err), &err);
}
