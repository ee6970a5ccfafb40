// speed_cache.c - caches of a case, side by side in memory: libvtensor's and pages as an engine has
// them, through the managers that it uses (kv.h), and plain memory laid out like libvtensor's.
//
// A busy manager's sequences grow side by side, so here they do, too, in random order: neighbouring
// chunks of a sequence were not made one after the other, and tables name blocks in any order. One
// sequence alone gets others beside it, which nobody reads.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speed_rig.h"
#include "vtensor/vmm.h"

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
    fx_error err = {0};
    size_t n = 0, each = 0;
    for (int i = 0; i < c->batch; i++) {
        fxi_kv_view *v = &cache->view[i];
        *v = fxi_kv_get_views(cache->kv, cache->seq[i]).group[0];
        if (!v->table) continue;
        each = ((size_t)c->n_pos + ((size_t)1 << v->block_shift) - 1) >> v->block_shift;
        if (!cache->table) {
            void *at;
            speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
            const size_t size_bytes = each * (size_t)c->batch * sizeof *v->table;
            speed_must(fxi_cu_alloc(&r->g->cu, size_bytes, &at, &err), &err);
            fxi_cu_leave(&r->g->cu);
            cache->table = at;
        }
        speed_send(r, cache->table + n, v->table, each * sizeof *v->table);
        v->table = cache->table + n;
        n += each;
    }
}

// ---- plain memory ------------------------------------------------------------------------------

static void open_plain(speed_rig *r, const speed_case *c, speed_cache *cache,
                       const fxi_kv_view *like)
{
    fx_error err = {0};
    void *at;
    const size_t row = plane_row_bytes(c), n_pos = (size_t)c->n_pos;
    const fxi_kv_view dense = {.plane_stride_bytes = n_pos * row, .tok_stride_bytes = row};
    const size_t each = like ? n_pos * like->tok_stride_bytes : 2 * n_pos * row;
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_cu_alloc(&r->g->cu, each * (size_t)c->batch, &at, &err), &err);
    fxi_cu_leave(&r->g->cu);
    cache->plain = at;
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
                                           .n_row = n,
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

// ---- all of them -------------------------------------------------------------------------------

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
        fxi_cu_leave(&r->g->cu);
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
    speed_must(
        fxi_cu_zero(&r->g->cu, r->g->cu.compute, cache->view[0].base + middle, size_bytes, &err),
        &err);
    fxi_cu_leave(&r->g->cu);
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
