// kv_vtensor.c - the KV manager over libvtensor: each sequence is one contiguous range of
// addresses.
//
// A group of the layout is a group of planes of libvtensor, with its window. An fxi_kv_seq is a
// vt_seq, an fxi_kv_domain a vt_domain.
//
// The host's pages are small, and mapping one costs little: each plane has a span of its own
// (SPLIT), where the rows of successive tokens are neighbours. Pages of devices are large, and each
// mapping is a call of the driver: the planes of a group lie side by side in one span (PACKED), so
// that a chunk is one slice with few tokens of all planes, not one of many tokens for each plane
// (vAttention's tensor slicing, arXiv 2405.04437, section 6.1).
#include "kv/kv_managers.h"
#include "kv/kv_status.h"

#include "kv/kv_meter.h"
#include "vtensor/vtensor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Tokens that a slice holds at least, unless the caller says how many.
#define SPLIT_SLICE_TOK  32
#define PACKED_SLICE_TOK 8

// Part of the budget that released memory may keep before it goes back to the system.
#define SPARE_SHARE 16

#define LARGE_PAGE_BYTES (64u << 10)

// Jobs that kvv_step runs itself where there is no mapper thread.
#define MAX_JOB_PER_STEP 8

typedef struct chunk_shape { // of a group
    size_t tok_bytes;        // of a token in a slice
    size_t slice_bytes;
    uint64_t chunk_bytes; // of all its slices
    int window_tok;       // as the group's
} chunk_shape;

typedef struct kv_vtensor {
    fxi_kv kv;
    vt_manager *vt; // owned
    vt_vmm *meter;  // owned by vt
    fxi_kv_layout layout;
    vt_layout packing;
    vt_group group[FXI_KV_MAX_GROUP]; // as libvtensor was told
    chunk_shape chunk[FXI_KV_MAX_GROUP];
    uint32_t plane0[FXI_KV_MAX_GROUP]; // the first plane of each group
    int ctx_tok, step_tok;
    int whole_tok; // smallest number of tokens whose rows end where a chunk ends, in all groups
    bool single_thread;
} kv_vtensor;

static kv_vtensor *manager_of(const fxi_kv *kv)
{
    return (kv_vtensor *)kv;
}

static vt_seq *vt_of(const fxi_kv_seq *s)
{
    return (vt_seq *)s;
}

static vt_domain *domain_of(const fxi_kv_domain *d)
{
    return (vt_domain *)d;
}

// libvtensor's token ids are unsigned; ours are never negative.
static const uint32_t *vt_tok(const int32_t *tok)
{
    return (const uint32_t *)tok;
}

// Whether memory that the device held up is free now: the engine has nothing else to do meanwhile.
// A device that fails is reported by the next try.
static bool may_try_again(fxi_kv *kv, vt_status st, int *n_try)
{
    return st == VT_BUSY && (*n_try)++ == 0 && vt_settle(manager_of(kv)->vt) == VT_OK;
}

// ---- life --------------------------------------------------------------------------------------

// Chunks are as small as the memory's granularity and the least tokens of a slice allow.
static chunk_shape shape_of(const fxi_kv_group *g, vt_layout packing, int slice_tok,
                            size_t granularity)
{
    const bool packed = packing == VT_LAYOUT_PACKED;
    const size_t tok_bytes = packed ? (size_t)g->n_plane * g->row_bytes : g->row_bytes;
    const size_t least = (size_t)slice_tok * tok_bytes;
    const size_t slice_bytes = (least + granularity - 1) / granularity * granularity;
    return (chunk_shape){.tok_bytes = tok_bytes,
                         .slice_bytes = slice_bytes,
                         .chunk_bytes = packed ? slice_bytes : slice_bytes * (size_t)g->n_plane,
                         .window_tok = g->window_tok};
}

static void fill_groups(kv_vtensor *k, const fxi_kv_shape *shape)
{
    vt_vmm *vmm = shape->vmm;
    const size_t granularity = vmm ? vmm->ops->granularity(vmm) : (size_t)sysconf(_SC_PAGESIZE);
    uint32_t n_plane = 0;
    k->layout = shape->layout;
    k->packing = granularity >= LARGE_PAGE_BYTES ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    const int preset = k->packing == VT_LAYOUT_PACKED ? PACKED_SLICE_TOK : SPLIT_SLICE_TOK;
    const int slice_tok = shape->block_tok ? shape->block_tok : preset;
    for (int g = 0; g < k->layout.n_group; g++) {
        const fxi_kv_group *from = &k->layout.group[g];
        k->chunk[g] = shape_of(from, k->packing, slice_tok, granularity);
        k->group[g] = (vt_group){.n_plane = (uint32_t)from->n_plane,
                                 .row_bytes = from->row_bytes,
                                 .window_tok = (uint32_t)from->window_tok,
                                 .slice_bytes = k->chunk[g].slice_bytes};
        k->plane0[g] = n_plane;
        n_plane += k->group[g].n_plane;
    }
}

static vt_config config_of(const kv_vtensor *k, const fxi_kv_shape *shape)
{
    vt_config cfg = vt_config_default();
    cfg.group = k->group;
    cfg.n_group = (uint32_t)k->layout.n_group;
    cfg.layout = k->packing;
    cfg.max_tok = (uint32_t)shape->ctx_tok;
    cfg.max_seq = (uint32_t)shape->max_seq;
    cfg.budget_bytes = shape->budget_bytes;
    cfg.spare_high_bytes = shape->budget_bytes / SPARE_SHARE;
    cfg.swap_dir = shape->swap_dir;
    cfg.swap_bytes = shape->swap_bytes;
    cfg.no_guard = shape->is_unguarded;
    cfg.mapper = shape->single_thread ? VT_MAPPER_OWNER : VT_MAPPER_THREAD;
    return cfg;
}

static size_t common_divisor(size_t a, size_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static int whole_tok_of(const kv_vtensor *k)
{
    size_t whole = 1;
    for (int g = 0; g < k->layout.n_group; g++) {
        const chunk_shape *c = &k->chunk[g];
        const size_t n = c->slice_bytes / common_divisor(c->slice_bytes, c->tok_bytes);
        whole = whole / common_divisor(whole, n) * n;
    }
    return whole < INT32_MAX ? (int)whole : INT32_MAX;
}

// A budget below the largest chunk is the caller's mistake, anything else the system's.
static fx_status fail_open(const kv_vtensor *k, uint64_t budget_bytes, vt_status st, fx_error *err)
{
    size_t most = 0;
    for (int g = 0; g < k->layout.n_group; g++)
        if (k->chunk[g].chunk_bytes > most) most = k->chunk[g].chunk_bytes;
    if (st == VT_NOSPACE && most > budget_bytes)
        return fxi_fail(err, FX_ENOSPACE,
                        "%llu bytes of KV memory; the smallest unit of it takes %zu",
                        (unsigned long long)budget_bytes, most);
    return fxi_fail(err, fxi_kv_status_of(st), "KV cache: manager: %s", vt_status_name(st));
}

static fx_status kvv_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    kv_vtensor *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    fill_groups(k, shape);
    vt_config cfg = config_of(k, shape);
    vt_status st = fxi_meter_open(shape->vmm, &k->meter);
    cfg.vmm = k->meter;
    if (st == VT_OK) st = vt_manager_create(&cfg, &k->vt);
    if (st != VT_OK) {
        fxi_meter_cancel(k->meter, shape->vmm);
        const fx_status failed = fail_open(k, cfg.budget_bytes, st, err);
        free(k);
        return failed;
    }
    k->kv.ops = &fxi_kv_vtensor;
    k->ctx_tok = shape->ctx_tok;
    k->step_tok = shape->step_tok ? shape->step_tok : shape->ctx_tok;
    k->whole_tok = whole_tok_of(k);
    k->single_thread = shape->single_thread;
    *out = &k->kv;
    return FX_OK;
}

static void kvv_close(fxi_kv *kv)
{
    vt_manager_destroy(manager_of(kv)->vt);
    free(manager_of(kv));
}

// ---- prefixes ----------------------------------------------------------------------------------

static fx_status kvv_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    vt_domain *d = NULL;
    fx_status st = fxi_kv_status_of(vt_domain_open(manager_of(kv)->vt, key, key_bytes, &d));
    *out = (fxi_kv_domain *)d;
    return st;
}

static void kvv_domain_close(fxi_kv *kv, fxi_kv_domain *d)
{
    (void)kv;
    vt_domain_close(domain_of(d));
}

static int kvv_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok)
{
    (void)kv;
    return (int)vt_match(domain_of(d), vt_tok(tok), (uint32_t)n_tok);
}

static int kvv_tell_next(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok,
                         int32_t *out, int max_n)
{
    (void)kv;
    return (int)vt_prefix_continue(domain_of(d), vt_tok(tok), (uint32_t)n_tok, (uint32_t *)out,
                                   (uint32_t)max_n);
}

static uint32_t expected_len(const fxi_kv_expect *e)
{
    return (uint32_t)(e->begin_tok + e->output_tok);
}

static fx_status kvv_seq_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                               const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    vt_seq *s = NULL;
    uint32_t hit = 0;
    vt_status st;
    int n_try = 0;
    do
        st = vt_seq_match(domain_of(d), vt_tok(tok), (uint32_t)n_tok, expected_len(expect), &s,
                          &hit);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    *n_hit = (int)hit;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                                int n_tok, const fxi_kv_keep *keep)
{
    (void)kv;
    const vt_retention r = {.priority = (uint8_t)keep->priority, .until_ms = keep->until_ms};
    const bool is_plain = !r.priority; // no retention: keeps a higher priority recorded before
    return fxi_kv_status_of(
        vt_seq_record(vt_of(s), domain_of(d), vt_tok(tok), (uint32_t)n_tok, is_plain ? NULL : &r));
}

// A row that crosses the border of two chunks makes neither shareable without the other.
static int kvv_whole_tok(const fxi_kv *kv, int n_tok)
{
    const int whole_tok = manager_of(kv)->whole_tok;
    return n_tok / whole_tok * whole_tok;
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status kvv_seq_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    vt_seq *s = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_seq_create(manager_of(kv)->vt, expected_len(expect), &s);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    vt_seq *child = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_seq_fork(vt_of(s), (uint32_t)len_tok, &child);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)child;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    vt_status st;
    int n_try = 0;
    do st = vt_seq_extend(vt_of(s), (uint32_t)len_tok);
    while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                     int *n_done)
{
    vt_status st;
    int n_try = 0;
    *n_done = 0;
    do {
        uint32_t n_more = 0;
        st = vt_seq_extend_many((vt_seq *const *)(s + *n_done), (const uint32_t *)len_tok + *n_done,
                                (uint32_t)(n - *n_done), &n_more);
        *n_done += (int)n_more;
    } while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    (void)kv;
    return fxi_kv_status_of(vt_seq_truncate(vt_of(s), (uint32_t)len_tok));
}

static void kvv_seq_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    (void)kv;
    vt_status st = vt_seq_prepare(vt_of(s), (uint32_t)len_tok, (uint32_t)deadline_step);
    (void)st; // a hint: extend works without it
}

static fx_status move_status_of(vt_status st, bool *is_moving)
{
    *is_moving = st == VT_BUSY;
    return *is_moving ? FX_OK : fxi_kv_status_of(st);
}

static fx_status kvv_seq_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    (void)kv;
    return move_status_of(vt_seq_swap_out(vt_of(s)), is_moving);
}

static fx_status kvv_seq_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    (void)kv;
    return move_status_of(vt_seq_swap_in(vt_of(s)), is_moving);
}

static void kvv_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    vt_seq_release(vt_of(s));
}

static void kvv_seq_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_vtensor *k = manager_of(kv);
    for (int g = 0; g < k->layout.n_group; g++) {
        const uint32_t plane = k->plane0[g];
        out->group[g] = (fxi_kv_view){
            .base = vt_seq_plane(vt_of(s), plane),
            .plane_stride_bytes = vt_plane_distance(k->vt, plane),
            .tok_stride_bytes = vt_plane_stride(k->vt, plane),
            .first_tok = (int)vt_seq_front(vt_of(s), plane),
        };
    }
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return vt_bytes_for(manager_of(kv)->vt, (uint32_t)len_tok);
}

static uint64_t chunks_up_to(const chunk_shape *c, int len_tok)
{
    return ((uint64_t)len_tok * c->tok_bytes + c->slice_bytes - 1) / c->slice_bytes;
}

// Chunks that tokens [0, len_tok) fill.
static uint64_t chunks_filled(const chunk_shape *c, int len_tok)
{
    return len_tok > 0 ? (uint64_t)len_tok * c->tok_bytes / c->slice_bytes : 0;
}

// The first token that a sequence of len_tok tokens still needs.
static int front_of(const chunk_shape *c, int len_tok)
{
    const int w = (int)c->window_tok;
    return w && len_tok >= w ? len_tok + 1 - w : 0;
}

// Most chunks that a sequence holds while it grows to end_tok: an extend begins with the window of
// the old length.
static uint64_t peak_chunks(const kv_vtensor *k, const chunk_shape *c, int end_tok)
{
    const uint64_t all = chunks_up_to(c, end_tok);
    if (!c->window_tok) return all;
    const uint64_t some = chunks_up_to(c, (int)c->window_tok - 1 + k->step_tok) + 1;
    return some < all ? some : all;
}

// Chunks of a sequence of end_tok tokens that another one holds too, which has its first hit_tok.
static uint64_t shared_chunks(const chunk_shape *c, int end_tok, int hit_tok)
{
    const uint64_t from = chunks_filled(c, front_of(c, end_tok)), to = chunks_filled(c, hit_tok);
    return to > from ? to - from : 0;
}

// Each sequence of several may hold one chunk more while it gets a copy of a shared one.
static uint64_t group_cost(const kv_vtensor *k, const chunk_shape *c, const fxi_kv_need *need)
{
    const uint64_t n = (uint64_t)need->n_seq, whole = peak_chunks(k, c, need->end_tok);
    const uint64_t hit = shared_chunks(c, need->end_tok, need->hit_tok);
    if (n == 1) return whole - (hit < whole ? hit : whole);
    if (need->is_apart) return n * (whole + 1);
    const uint64_t shared = shared_chunks(c, need->end_tok, need->each.begin_tok);
    const uint64_t prompt = peak_chunks(k, c, need->each.begin_tok);
    return prompt + n * (whole - (shared < whole ? shared : whole) + 1);
}

static uint64_t kvv_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    const kv_vtensor *k = manager_of(kv);
    uint64_t sum = 0;
    for (int g = 0; g < k->layout.n_group; g++)
        sum += group_cost(k, &k->chunk[g], need) * k->chunk[g].chunk_bytes;
    return sum;
}

static uint64_t kvv_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    const kv_vtensor *k = manager_of(kv);
    const int len_tok = (int)vt_seq_len(vt_of(s));
    uint64_t sum = 0;
    for (int g = 0; g < k->layout.n_group; g++) {
        const chunk_shape *c = &k->chunk[g];
        const uint64_t passed = chunks_filled(c, front_of(c, len_tok));
        const uint64_t kept = chunks_filled(c, n_recorded), end = chunks_up_to(c, len_tok);
        const uint64_t from = kept > passed ? kept : passed;
        sum += end > from ? (end - from) * c->chunk_bytes : 0;
    }
    return sum;
}

static uint64_t kvv_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    const kv_vtensor *k = manager_of(kv);
    const int len_tok = (int)vt_seq_len(vt_of(s));
    uint64_t sum = 0;
    for (int g = 0; g < k->layout.n_group; g++) {
        const chunk_shape *c = &k->chunk[g];
        const uint64_t has = chunks_up_to(c, len_tok) - chunks_filled(c, front_of(c, len_tok));
        const uint64_t wants = peak_chunks(k, c, end_tok);
        sum += wants > has ? (wants - has) * c->chunk_bytes : 0;
    }
    return sum;
}

static void kvv_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_vtensor *k = manager_of(kv);
    vt_ahead policy = ahead_tok > 0 ? VT_AHEAD_SLACK : VT_AHEAD_NONE;
    vt_status st = vt_step(k->vt, policy, (uint32_t)ahead_tok, now_ms);
    (void)st; // what could not be unmapped is retried in the next step
    if (k->single_thread) vt_work(k->vt, MAX_JOB_PER_STEP, NULL);
}

static void kvv_tick(fxi_kv *kv, uint64_t now_ms)
{
    vt_tick(manager_of(kv)->vt, now_ms);
}

static fx_status kvv_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    vt_status st;
    int n_try = 0;
    do st = vt_set_budget(manager_of(kv)->vt, budget_bytes);
    while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    return fxi_kv_status_of(vt_trim(manager_of(kv)->vt, keep_bytes, NULL));
}

static fx_status kvv_forget_idle(fxi_kv *kv)
{
    return fxi_kv_status_of(vt_evict(manager_of(kv)->vt, UINT64_MAX, NULL));
}

static void kvv_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    vt_stats st;
    vt_get_stats(manager_of(kv)->vt, &st);
    const uint64_t held = st.owned_bytes + st.shared_bytes - st.quarantined_bytes;
    const uint64_t unused = st.slack_bytes + st.leaving_bytes;
    const uint64_t internal = unused < held ? unused : held;
    *out = (fxi_kv_stats){
        .budget_bytes = st.budget_bytes,
        .usable_bytes = st.budget_bytes,
        .mapped_bytes = st.mapped_bytes,
        .used_bytes = held - internal,
        .internal_bytes = internal,
        .external_bytes = st.quarantined_bytes,
        .cached_bytes = st.cached_bytes,
        .shared_bytes = st.shared_bytes,
        .spare_bytes = st.spare_bytes,
        .held_bytes = held + st.quarantined_bytes,
        .live_bytes = st.live_bytes,
        .retired_bytes = st.quarantined_bytes,
        .n_mapping = st.mappings,
        .max_mapping = st.max_mappings,
        .swapped_bytes = st.swapped_bytes,
        .n_evicted = st.prefix_evicted,
        .peak_mapped_bytes = st.peak_mapped_bytes,
        .peak_live_bytes = st.peak_live_bytes,
    };
}

static fxi_kv_ages ages_of(const vt_ages *a)
{
    fxi_kv_ages to = {.sum_ms = a->sum_ms};
    _Static_assert(sizeof to.count == sizeof a->count, "the same sizes are told apart");
    memcpy(to.count, a->count, sizeof to.count);
    return to;
}

static void kvv_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    vt_prefix_ages a;
    vt_get_prefix_ages(manager_of(kv)->vt, &a);
    *out = (fxi_kv_prefix_ages){ages_of(&a.life), ages_of(&a.idle), ages_of(&a.reuse)};
}

static void kvv_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    *out = fxi_meter_moved(manager_of(kv)->meter);
}

static void kvv_driver_calls(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP])
{
    fxi_meter_read(manager_of(kv)->meter, out);
}

// ---- pictures ----------------------------------------------------------------------------------

static void paint_chunks(const vt_snapshot *snap, const fxi_kv_painter *to)
{
    static const fxi_kv_chunk_state states[VT_N_CHUNK_STATE] = {
        [VT_CHUNK_SPARE] = FXI_KV_CHUNK_SPARE,
        [VT_CHUNK_CACHED] = FXI_KV_CHUNK_CACHED,
        [VT_CHUNK_OWNED] = FXI_KV_CHUNK_OWNED,
        [VT_CHUNK_SHARED] = FXI_KV_CHUNK_SHARED,
    };
    for (const vt_chunk_info *c = snap->chunk; c < snap->chunk + snap->n_chunk; c++)
        to->chunk(to->ud, (int)c->group, c->index, states[c->state]);
}

static uint64_t painted_name(uint64_t at)
{
    return at & VT_AT_SWAP ? FXI_KV_SWAP_CHUNK | (at & ~VT_AT_SWAP) : at;
}

// Calls fn for every position of a live span at which there is something.
static void each_position(const vt_snapshot *snap, const fxi_kv_painter *to,
                          void (*fn)(const fxi_kv_painter *to, const vt_seq *s, int group, int at,
                                     uint64_t chunk))
{
    const uint64_t *at = snap->at;
    for (uint32_t i = 0; i < snap->n_span; i++)
        for (uint32_t g = 0; g < snap->n_group; at += snap->group_position[g++])
            for (uint32_t p = 0; snap->span[i].seq && p < snap->group_position[g]; p++)
                if (at[p] != VT_AT_NOTHING)
                    fn(to, snap->span[i].seq, (int)g, (int)p, painted_name(at[p]));
}

static void paint_swapped(const fxi_kv_painter *to, const vt_seq *s, int group, int at,
                          uint64_t chunk)
{
    (void)s;
    (void)at;
    if (chunk >= FXI_KV_SWAP_CHUNK) to->chunk(to->ud, group, chunk, FXI_KV_CHUNK_SWAPPED);
}

static void paint_segment(const fxi_kv_painter *to, const vt_seq *s, int group, int at,
                          uint64_t chunk)
{
    to->segment(to->ud, (const fxi_kv_seq *)s, group, at, chunk);
}

typedef struct node_painter {
    const fxi_kv_painter *to;
    uint64_t domain_id;
} node_painter;

static bool paint_node(void *ud, const vt_prefix_info *node)
{
    const node_painter *np = ud;
    const fxi_kv_node shown = {.id = node->id,
                               .parent_id = node->parent_id,
                               .domain_id = np->domain_id,
                               .held_bytes = node->held_bytes,
                               .n_tok = (int)node->n_tok,
                               .n_seq = (int)node->n_seq};
    np->to->node(np->to->ud, &shown);
    return true;
}

static bool paint_domain(void *ud, vt_domain *d, const void *key, size_t key_bytes)
{
    node_painter np = {.to = ud, .domain_id = vt_domain_id(d)};
    (void)key;
    (void)key_bytes;
    vt_prefix_each(d, paint_node, &np);
    return true;
}

static fx_status kvv_paint(fxi_kv *kv, const fxi_kv_painter *to)
{
    const kv_vtensor *k = manager_of(kv);
    vt_snapshot *snap;
    const vt_status st = vt_snapshot_take(k->vt, &snap);
    if (st != VT_OK) return fxi_kv_status_of(st);
    for (int g = 0; g < k->layout.n_group; g++)
        to->group(to->ud, k->chunk[g].chunk_bytes,
                  (int)(k->chunk[g].slice_bytes / k->chunk[g].tok_bytes));
    paint_chunks(snap, to);
    each_position(snap, to, paint_swapped);
    each_position(snap, to, paint_segment);
    vt_snapshot_free(snap);
    vt_domain_each(k->vt, paint_domain, (void *)to);
    return FX_OK;
}

static fx_status kvv_check(fxi_kv *kv, const char **what)
{
    return fxi_kv_status_of(vt_check(manager_of(kv)->vt, what));
}

const fxi_kv_ops fxi_kv_vtensor = {
    .name = "vtensor",
    .caps = FXI_KV_PREFIX | FXI_KV_EXACT | FXI_KV_FORK | FXI_KV_SWAP | FXI_KV_ELASTIC |
            FXI_KV_WINDOWS | FXI_KV_ZEROED | FXI_KV_BESIDE | FXI_KV_TRUNCATE | FXI_KV_CONTINUE,
    .open = kvv_open,
    .close = kvv_close,
    .domain_open = kvv_domain_open,
    .domain_close = kvv_domain_close,
    .peek = kvv_peek,
    .tell_next = kvv_tell_next,
    .seq_create = kvv_seq_create,
    .seq_match = kvv_seq_match,
    .seq_fork = kvv_seq_fork,
    .seq_extend = kvv_seq_extend,
    .seq_extend_many = kvv_seq_extend_many,
    .seq_truncate = kvv_seq_truncate,
    .seq_prepare = kvv_seq_prepare,
    .seq_record = kvv_seq_record,
    .whole_tok = kvv_whole_tok,
    .seq_swap_out = kvv_seq_swap_out,
    .seq_swap_in = kvv_seq_swap_in,
    .swap_gain = kvv_swap_gain,
    .seq_release = kvv_seq_release,
    .seq_views = kvv_seq_views,
    .bytes_for = kvv_bytes_for,
    .cost = kvv_cost,
    .seq_growth = kvv_seq_growth,
    .step = kvv_step,
    .tick = kvv_tick,
    .set_budget = kvv_set_budget,
    .trim = kvv_trim,
    .forget_idle = kvv_forget_idle,
    .stats = kvv_stats,
    .prefix_ages = kvv_prefix_ages,
    .moved = kvv_moved,
    .driver_calls = kvv_driver_calls,
    .paint = kvv_paint,
    .check = kvv_check,
};
