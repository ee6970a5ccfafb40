// kv_chunks.c - see kv_chunks.h.
#include "kv/kv_chunks.h"
#include "kv/kv_managers.h"

#include <string.h>

// Tokens that a slice holds at least, unless the caller says how many.
#define SPLIT_SLICE_TOK  32
#define PACKED_SLICE_TOK 8

// Runs of a sequence in each view: what it shares and what it writes; further, what it has recorded
// and may not write, and what an admission leaves for one more.
#define LEAST_RUNS 2
#define USUAL_RUNS 4

// Part of the budget that released memory may keep before it goes back to the system.
#define SPARE_SHARE 16
// Part of the budget that may be ready for sequences to come. As much of the prefixes is evicted
// ahead of need.
#define READY_SHARE 64

#define LARGE_PAGE_BYTES (64u << 10)

// ---- sizes -------------------------------------------------------------------------------------

// Pre: view_planes divides the group's planes, or is as many or more.
static int views_of(const fxi_kv_group *g, int view_planes)
{
    return view_planes < g->n_plane ? g->n_plane / view_planes : 1;
}

static int most_planes(const fxi_kv_layout *l)
{
    int most = 0;
    for (int g = 0; g < l->n_group; g++)
        if (l->group[g].n_plane > most) most = l->group[g].n_plane;
    return most;
}

// Views of a sequence; 0: with so many planes each, some would lack a plane, or part a layer.
static uint64_t count_views(const fxi_kv_layout *l, int view_planes)
{
    uint64_t n = 0;
    if (view_planes > 1 && view_planes % 2) return 0;
    for (int g = 0; g < l->n_group; g++) {
        const int n_plane = l->group[g].n_plane;
        if (view_planes < n_plane && n_plane % view_planes) return 0;
        n += (uint64_t)views_of(&l->group[g], view_planes);
    }
    return n;
}

// The fewest planes in a view with which all sequences that run have n_run mappings each; all, if
// there are none such.
static int least_view_planes(const fxi_kv_shape *shape, uint64_t max_runs, uint64_t n_run)
{
    const uint64_t n_seq = (uint64_t)(shape->run_seq ? shape->run_seq : shape->max_seq);
    const uint64_t n_rank = (uint64_t)fxi_kv_n_device(shape);
    const int most = most_planes(&shape->layout);
    for (int k = 1; k < most; k++) {
        const uint64_t n = count_views(&shape->layout, k);
        if (n && n <= max_runs / n_run / n_seq / n_rank) return k;
    }
    return most;
}

// The first plane that shares a view slows attention down, further ones do not: planes share views
// only where they must, and then as many as the usual mappings need.
static int choose_view_planes(const fxi_kv_shape *shape, uint64_t max_runs)
{
    const int least = least_view_planes(shape, max_runs, LEAST_RUNS);
    return least == 1 ? 1 : least_view_planes(shape, max_runs, USUAL_RUNS);
}

// Chunks are as small as the memory's granularity and the least tokens of a slice allow.
static fxi_chunk_shape shape_of(const fxi_kv_group *g, int view_planes, int slice_tok,
                                size_t granularity)
{
    const int n_view = views_of(g, view_planes);
    const size_t tok_bytes = (size_t)(g->n_plane / n_view) * g->row_bytes;
    const size_t least = (size_t)slice_tok * tok_bytes;
    const size_t slice_bytes = (least + granularity - 1) / granularity * granularity;
    return (fxi_chunk_shape){.tok_bytes = tok_bytes,
                             .slice_bytes = slice_bytes,
                             .chunk_bytes = slice_bytes * (size_t)n_view,
                             .window_tok = g->window_tok};
}

static size_t common_divisor(size_t a, size_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static int whole_tok_of(const fxi_kv_chunks *c)
{
    size_t whole = 1;
    for (int g = 0; g < c->n_group; g++) {
        const fxi_chunk_shape *s = &c->chunk[g];
        const size_t n = s->slice_bytes / common_divisor(s->slice_bytes, s->tok_bytes);
        whole = whole / common_divisor(whole, n) * n;
    }
    return whole < INT32_MAX ? (int)whole : INT32_MAX;
}

void fxi_chunks_plan(const fxi_kv_shape *shape, struct vt_vmm *vmm, fxi_kv_chunks *c)
{
    const size_t granularity = vmm->ops->granularity(vmm);
    const fxi_kv_layout part = fxi_kv_part_of(shape); // this manager's
    uint32_t n_plane = 0;
    *c = (fxi_kv_chunks){.n_group = shape->layout.n_group};
    c->packing = granularity >= LARGE_PAGE_BYTES ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    c->view_planes = c->packing == VT_LAYOUT_PACKED
                         ? most_planes(&shape->layout)
                         : choose_view_planes(shape, vmm->ops->max_runs(vmm));
    const int preset = c->packing == VT_LAYOUT_PACKED ? PACKED_SLICE_TOK : SPLIT_SLICE_TOK;
    const int slice_tok = shape->block_tok ? shape->block_tok : preset;
    for (int g = 0; g < c->n_group; g++) {
        const fxi_kv_group *own = &part.group[g];
        c->chunk[g] = shape_of(own, c->view_planes, slice_tok, granularity);
        c->group[g] = (vt_group){.n_plane = (uint32_t)own->n_plane,
                                 .row_bytes = own->row_bytes,
                                 .window_tok = (uint32_t)own->window_tok,
                                 .slice_bytes = c->chunk[g].slice_bytes};
        c->plane0[g] = n_plane;
        n_plane += c->group[g].n_plane;
    }
    c->step_tok = shape->step_tok ? shape->step_tok : shape->ctx_tok;
    c->whole_tok = whole_tok_of(c);
}

vt_config fxi_chunks_config(const fxi_kv_chunks *c, const fxi_kv_shape *shape, struct vt_vmm *vmm)
{
    const uint64_t n = (uint64_t)fxi_kv_n_device(shape);
    vt_config cfg = vt_config_default();
    cfg.vmm = vmm;
    cfg.group = c->group;
    cfg.n_group = (uint32_t)c->n_group;
    cfg.layout = c->packing;
    cfg.view_planes = (uint64_t)c->view_planes;
    cfg.max_tok = (uint32_t)shape->ctx_tok;
    cfg.max_seq = (uint32_t)shape->max_seq;
    cfg.budget_bytes = shape->budget_bytes / n;
    cfg.spare_high_bytes = cfg.budget_bytes / SPARE_SHARE;
    cfg.spare_low_bytes = cfg.budget_bytes / READY_SHARE;
    cfg.swap_dir = shape->swap_dir;
    cfg.swap_bytes = shape->swap_bytes / n;
    cfg.no_guard = shape->is_unguarded;
    cfg.mapper = shape->single_thread ? VT_MAPPER_OWNER : VT_MAPPER_THREAD;
    return cfg;
}

// A budget below the largest chunk is the caller's mistake, anything else the system's.
fx_status fxi_chunks_fail(const fxi_kv_chunks *c, uint64_t budget_bytes, vt_status st,
                          fx_error *err)
{
    size_t most = 0;
    for (int g = 0; g < c->n_group; g++)
        if (c->chunk[g].chunk_bytes > most) most = c->chunk[g].chunk_bytes;
    if (st == VT_NOSPACE && most > budget_bytes)
        return fxi_fail(err, FX_ENOSPACE,
                        "KV cache: %llu bytes are less than its smallest unit of %zu",
                        (unsigned long long)budget_bytes, most);
    const char *trouble = vt_vmm_host_trouble();
    if (trouble)
        return fxi_fail(err, fxi_kv_status_of(st), "KV cache: cannot get %llu bytes: %s",
                        (unsigned long long)budget_bytes, trouble);
    if (st == VT_NOSPACE)
        return fxi_fail(err, FX_ENOSPACE, "KV cache: cannot get %llu bytes",
                        (unsigned long long)budget_bytes);
    return fxi_fail(err, fxi_kv_status_of(st), "KV cache: manager: %s", vt_status_name(st));
}

// ---- views -------------------------------------------------------------------------------------

void fxi_chunks_view(const fxi_kv_chunks *c, const vt_manager *m, const vt_seq *s,
                     fxi_kv_views *out)
{
    for (int g = 0; g < c->n_group; g++) {
        const uint32_t plane = c->plane0[g];
        out->group[g] = (fxi_kv_view){
            .base = vt_seq_plane(s, plane),
            .plane_stride_bytes = vt_plane_distance(m, plane),
            .tok_stride_bytes = vt_plane_stride(m, plane),
            .first_tok = (int)vt_seq_front(s, plane),
        };
        if (c->packing == VT_LAYOUT_PACKED || c->view_planes == 1) continue;
        out->group[g].view_planes = (int)vt_view_planes(m, plane);
        out->group[g].view_stride_bytes = vt_view_distance(m, plane);
    }
}

// ---- costs -------------------------------------------------------------------------------------

static uint64_t chunks_up_to(const fxi_chunk_shape *c, int len_tok)
{
    return ((uint64_t)len_tok * c->tok_bytes + c->slice_bytes - 1) / c->slice_bytes;
}

// Chunks that tokens [0, len_tok) fill.
static uint64_t chunks_filled(const fxi_chunk_shape *c, int len_tok)
{
    return len_tok > 0 ? (uint64_t)len_tok * c->tok_bytes / c->slice_bytes : 0;
}

// The first token that a sequence of len_tok tokens still needs.
static int front_of(const fxi_chunk_shape *c, int len_tok)
{
    const int w = (int)c->window_tok;
    return w && len_tok >= w ? len_tok + 1 - w : 0;
}

// Most chunks that a sequence holds while it grows to end_tok: an extend begins with the window of
// the old length.
static uint64_t peak_chunks(const fxi_kv_chunks *k, const fxi_chunk_shape *c, int end_tok)
{
    const uint64_t all = chunks_up_to(c, end_tok);
    if (!c->window_tok) return all;
    const uint64_t some = chunks_up_to(c, (int)c->window_tok - 1 + k->step_tok) + 1;
    return some < all ? some : all;
}

// Chunks of a sequence of end_tok tokens that another one holds too, which has its first hit_tok.
static uint64_t shared_chunks(const fxi_chunk_shape *c, int end_tok, int hit_tok)
{
    const uint64_t from = chunks_filled(c, front_of(c, end_tok)), to = chunks_filled(c, hit_tok);
    return to > from ? to - from : 0;
}

// Each sequence of several may hold one chunk more while it gets a copy of a shared one.
static uint64_t group_cost(const fxi_kv_chunks *k, const fxi_chunk_shape *c,
                           const fxi_kv_need *need)
{
    const uint64_t n = (uint64_t)need->n_seq, whole = peak_chunks(k, c, need->end_tok);
    const uint64_t hit = shared_chunks(c, need->end_tok, need->hit_tok);
    if (n == 1) return whole - (hit < whole ? hit : whole);
    if (need->is_apart) return n * (whole + 1);
    const uint64_t shared = shared_chunks(c, need->end_tok, need->each.begin_tok);
    const uint64_t prompt = peak_chunks(k, c, need->each.begin_tok);
    return prompt + n * (whole - (shared < whole ? shared : whole) + 1);
}

uint64_t fxi_chunks_cost(const fxi_kv_chunks *k, const fxi_kv_need *need)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++)
        sum += group_cost(k, &k->chunk[g], need) * k->chunk[g].chunk_bytes;
    return sum;
}

uint64_t fxi_chunks_gain(const fxi_kv_chunks *k, int len_tok, int n_recorded)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++) {
        const fxi_chunk_shape *c = &k->chunk[g];
        const uint64_t passed = chunks_filled(c, front_of(c, len_tok));
        const uint64_t kept = chunks_filled(c, n_recorded), end = chunks_up_to(c, len_tok);
        const uint64_t from = kept > passed ? kept : passed;
        sum += end > from ? (end - from) * c->chunk_bytes : 0;
    }
    return sum;
}

uint64_t fxi_chunks_growth(const fxi_kv_chunks *k, int len_tok, int end_tok)
{
    uint64_t sum = 0;
    for (int g = 0; g < k->n_group; g++) {
        const fxi_chunk_shape *c = &k->chunk[g];
        const uint64_t has = chunks_up_to(c, len_tok) - chunks_filled(c, front_of(c, len_tok));
        const uint64_t wants = peak_chunks(k, c, end_tok);
        sum += wants > has ? (wants - has) * c->chunk_bytes : 0;
    }
    return sum;
}

// ---- numbers -----------------------------------------------------------------------------------

fxi_kv_stats fxi_chunks_stats(const vt_manager *m)
{
    vt_stats st;
    vt_get_stats(m, &st);
    const uint64_t held = st.owned_bytes + st.shared_bytes - st.quarantined_bytes;
    const uint64_t unused = st.slack_bytes + st.leaving_bytes;
    const uint64_t internal = unused < held ? unused : held;
    return (fxi_kv_stats){
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
        .returning_bytes = st.returning_bytes,
        .n_evicted = st.prefix_evicted,
        .peak_mapped_bytes = st.peak_mapped_bytes,
        .peak_live_bytes = st.peak_live_bytes,
    };
}

uint64_t fxi_chunks_max_mapping(const vt_manager *m)
{
    vt_stats st;
    vt_get_stats(m, &st);
    return st.max_mappings < UINT64_MAX ? st.max_mappings : 0;
}

static fx_histogram ages_of(const vt_ages *a)
{
    fx_histogram to = {.sum = a->sum_ms};
    _Static_assert(sizeof to.count == sizeof a->count, "the same sizes are told apart");
    memcpy(to.count, a->count, sizeof to.count);
    return to;
}

fxi_kv_prefix_ages fxi_chunks_ages(const vt_manager *m)
{
    vt_prefix_ages a;
    vt_get_prefix_ages(m, &a);
    return (fxi_kv_prefix_ages){ages_of(&a.life), ages_of(&a.idle), ages_of(&a.reuse)};
}
