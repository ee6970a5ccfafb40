// kv_vtensor.c - the KV manager over libvtensor: each sequence is one contiguous range of
// addresses.
//
// Every device has a manager over memory of its own, and all of them the same planes, chunks and
// budget; where several share a cache out, each has its own heads of every row. A team
// (vtensor/team.h) makes each call on all of them, or on none: an fxi_kv_seq is a vt_team_seq, an
// fxi_kv_domain a vt_team_domain. One device is a team of one. Bytes are those of all devices
// together. kv_chunks.h has how memory is divided.
#include "kv/kv_chunks.h"
#include "kv/kv_managers.h"
#include "kv/kv_meter.h"
#include "vtensor/team.h"
#include "vtensor/vtensor.h"

#include <string.h>

// Part of the budget that released memory may keep before it goes back to the system.
#define SPARE_SHARE 16
// Part of the budget that may be ready for sequences to come. As much of the prefixes is evicted
// ahead of need.
#define READY_SHARE 64

// Jobs that a step runs itself on each device where there is no mapper thread.
#define MAX_JOB_PER_STEP 8

typedef struct kv_vtensor {
    fxi_kv kv;
    int n;                        // devices
    vt_team *team;                // of their managers; NULL: it is being opened
    vt_manager *vt[FXI_MAX_RANK]; // [n] owned
    vt_vmm *meter[FXI_MAX_RANK];  // [n] owned by vt[]
    fxi_kv_chunks chunks;         // of each
    bool single_thread;
} kv_vtensor;

static kv_vtensor *manager_of(const fxi_kv *kv)
{
    return (kv_vtensor *)kv;
}

static vt_team *team_of(const fxi_kv *kv)
{
    return manager_of(kv)->team;
}

static vt_team_seq *seq_of(const fxi_kv_seq *s)
{
    return (vt_team_seq *)s;
}

static vt_team_domain *tree_of(const fxi_kv_domain *d)
{
    return (vt_team_domain *)d;
}

// libvtensor's token ids are unsigned; ours are never negative.
static const uint32_t *vt_tok(const int32_t *tok)
{
    return (const uint32_t *)tok;
}

// Whether memory that a device held up is free now: the engine has nothing else to do meanwhile. A
// device that fails is reported by the next try.
static bool may_try_again(fxi_kv *kv, vt_status st, int *n_try)
{
    if (st != VT_BUSY || (*n_try)++) return false;
    for (int k = 0; k < manager_of(kv)->n; k++) st = vt_settle(manager_of(kv)->vt[k]);
    return st == VT_OK;
}

// ---- life --------------------------------------------------------------------------------------

static void kvv_close(fxi_kv *kv)
{
    kv_vtensor *k = manager_of(kv);
    vt_team_destroy(k->team);
    for (int i = 0; i < k->n; i++) vt_manager_destroy(k->vt[i]);
}

static vt_config config_of(const fxi_kv_chunks *c, const fxi_kv_shape *shape, struct vt_vmm *vmm)
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
static fx_status fail_manager(const fxi_kv_chunks *c, uint64_t budget_bytes, vt_status st,
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

// A manager for the next device, which cuts its cache as the others do.
static fx_status open_device_manager(kv_vtensor *k, const fxi_kv_shape *shape, fx_error *err)
{
    const int i = k->n;
    fxi_kv_chunks own = {.n_group = 0};
    vt_status st = fxi_meter_open(fxi_kv_given_memory(shape, i), shape->run_share, &k->meter[i]);
    if (st != VT_OK) return fail_manager(&own, shape->budget_bytes, st, err);
    fxi_chunks_plan(shape, k->meter[i], &own);
    if (!i) k->chunks = own;
    const bool is_cut_alike = own.packing == k->chunks.packing &&
                              own.view_planes == k->chunks.view_planes &&
                              own.whole_tok == k->chunks.whole_tok;
    const vt_config cfg = config_of(&own, shape, k->meter[i]);
    if (is_cut_alike) st = vt_manager_create(&cfg, &k->vt[i]);
    if (is_cut_alike && st == VT_OK) {
        k->n++;
        return FX_OK;
    }
    k->meter[i]->ops->close(k->meter[i]);
    return is_cut_alike
               ? fail_manager(&own, cfg.budget_bytes, st, err)
               : fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
}

static fx_status kvv_open(fxi_kv *kv, const fxi_kv_shape *shape, fx_error *err)
{
    kv_vtensor *k = manager_of(kv);
    fx_status st = FX_OK;
    k->single_thread = shape->single_thread;
    while (st == FX_OK && k->n < fxi_kv_n_device(shape)) st = open_device_manager(k, shape, err);
    if (st == FX_OK && vt_team_create(k->vt, (uint32_t)k->n, &k->team) != VT_OK)
        st = fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
    if (st != FX_OK) {
        kvv_close(kv);
        return st;
    }
    const uint64_t max_runs = k->meter[0]->ops->max_runs(k->meter[0]);
    if (!shape->n_rank && max_runs < UINT64_MAX) kv->max_mapping = max_runs;
    return FX_OK;
}

// ---- prefixes ----------------------------------------------------------------------------------

static fx_status kvv_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    vt_team_domain *d;
    const vt_status st = vt_team_domain_open(team_of(kv), key, key_bytes, &d);
    *out = (fxi_kv_domain *)d;
    return fxi_kv_status_of(st);
}

static void kvv_domain_close(fxi_kv *kv, fxi_kv_domain *d)
{
    (void)kv;
    vt_team_domain_close(tree_of(d));
}

static int kvv_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok)
{
    (void)kv;
    return (int)vt_team_match(tree_of(d), vt_tok(tok), (uint32_t)n_tok);
}

// A guess, so the tree of one device suffices.
static int kvv_lookup_continuation(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok,
                                   int n_tok, int32_t *out, int max_n)
{
    (void)kv;
    return (int)vt_prefix_continue(vt_team_domain_rank(tree_of(d), 0), vt_tok(tok), (uint32_t)n_tok,
                                   (uint32_t *)out, (uint32_t)max_n);
}

static uint32_t expected_len(const fxi_kv_expect *e)
{
    return (uint32_t)(e->begin_tok + e->output_tok);
}

static fx_status kvv_seq_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                               const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    vt_team_seq *s;
    uint32_t hit;
    vt_status st;
    int n_try = 0;
    do
        st = vt_team_seq_match(tree_of(d), vt_tok(tok), (uint32_t)n_tok, expected_len(expect), &s,
                               &hit);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    *n_hit = (int)hit;
    return fxi_kv_status_of(st);
}

// Without a priority it keeps a higher one recorded before.
static fx_status kvv_seq_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                                int n_tok, const fxi_kv_keep *keep)
{
    (void)kv;
    const vt_retention r = {.priority = (uint8_t)keep->priority, .until_ms = keep->until_ms};
    return fxi_kv_status_of(vt_team_seq_record(seq_of(s), tree_of(d), vt_tok(tok), (uint32_t)n_tok,
                                               r.priority ? &r : NULL));
}

// A row that crosses the border of two chunks makes neither shareable without the other.
static int kvv_whole_tok(const fxi_kv *kv, int n_tok)
{
    const int whole_tok = manager_of(kv)->chunks.whole_tok;
    return n_tok / whole_tok * whole_tok;
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status kvv_seq_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    vt_team_seq *s;
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_create(team_of(kv), expected_len(expect), &s);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    vt_team_seq *child;
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_fork(seq_of(s), (uint32_t)len_tok, &child);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)child;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_extend(seq_of(s), (uint32_t)len_tok);
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
        st = vt_team_seq_extend_many((vt_team_seq *const *)s + *n_done,
                                     (const uint32_t *)len_tok + *n_done, (uint32_t)(n - *n_done),
                                     &n_more);
        *n_done += (int)n_more;
    } while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    (void)kv;
    return fxi_kv_status_of(vt_team_seq_truncate(seq_of(s), (uint32_t)len_tok));
}

static void kvv_seq_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    (void)kv;
    const vt_status st = vt_team_seq_prepare(seq_of(s), (uint32_t)len_tok, (uint32_t)deadline_step);
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
    return move_status_of(vt_team_seq_swap_out(seq_of(s)), is_moving);
}

static fx_status kvv_seq_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    (void)kv;
    return move_status_of(vt_team_seq_swap_in(seq_of(s)), is_moving);
}

static void kvv_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    vt_team_seq_release(seq_of(s));
}

static void kvv_seq_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_vtensor *k = manager_of(kv);
    const vt_manager *m = k->vt[0];
    const vt_seq *first = vt_team_seq_rank(seq_of(s), 0);
    const bool shares_views = k->chunks.packing == VT_LAYOUT_SPLIT && k->chunks.view_planes > 1;
    for (int g = 0; g < k->chunks.n_group; g++) {
        const uint32_t plane = k->chunks.plane0[g];
        out->group[g] = (fxi_kv_view){
            .base = vt_seq_plane(first, plane),
            .plane_stride_bytes = vt_plane_distance(m, plane),
            .tok_stride_bytes = vt_plane_stride(m, plane),
            .first_tok = (int)vt_seq_front(first, plane),
            .view_planes = shares_views ? (int)vt_view_planes(m, plane) : 0,
            .view_stride_bytes = shares_views ? vt_view_distance(m, plane) : 0,
        };
        for (uint32_t i = 1; i < (uint32_t)k->n; i++)
            out->rank_base[i - 1][g] = vt_seq_plane(vt_team_seq_rank(seq_of(s), i), plane);
    }
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t of_all(const fxi_kv *kv, uint64_t bytes)
{
    return bytes * (uint64_t)manager_of(kv)->n;
}

static uint64_t of_each(const fxi_kv *kv, uint64_t bytes)
{
    return bytes / (uint64_t)manager_of(kv)->n;
}

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return of_all(kv, vt_bytes_for(manager_of(kv)->vt[0], (uint32_t)len_tok));
}

static uint64_t kvv_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return of_all(kv, fxi_chunks_cost(&manager_of(kv)->chunks, need));
}

static uint64_t kvv_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    return of_all(
        kv, fxi_chunks_gain(&manager_of(kv)->chunks, (int)vt_team_seq_len(seq_of(s)), n_recorded));
}

static uint64_t kvv_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    return of_all(
        kv, fxi_chunks_growth(&manager_of(kv)->chunks, (int)vt_team_seq_len(seq_of(s)), end_tok));
}

static uint64_t kvv_held(const fxi_kv *kv)
{
    uint64_t n = 0;
    for (int i = 0; i < manager_of(kv)->n; i++) n += vt_held_bytes(manager_of(kv)->vt[i]);
    return n;
}

// Of one device; several are not limited (max_mapping).
static uint64_t kvv_mappings(const fxi_kv *kv, const fxi_kv_seq *s)
{
    return vt_mappings_for(manager_of(kv)->vt[0], s ? vt_team_seq_rank(seq_of(s), 0) : NULL);
}

static void kvv_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_vtensor *k = manager_of(kv);
    const vt_ahead policy = ahead_tok > 0 ? VT_AHEAD_SLACK : VT_AHEAD_NONE;
    const vt_status st = vt_team_step(k->team, policy, (uint32_t)ahead_tok, now_ms);
    (void)st; // what could not be unmapped is retried in the next step
    for (int i = 0; k->single_thread && i < k->n; i++) vt_work(k->vt[i], MAX_JOB_PER_STEP, NULL);
}

static void kvv_tick(fxi_kv *kv, uint64_t now_ms)
{
    for (int i = 0; i < manager_of(kv)->n; i++) vt_tick(manager_of(kv)->vt[i], now_ms);
}

static void share_budget(const fxi_kv *kv, uint64_t budget_bytes, uint64_t each[FXI_MAX_RANK])
{
    for (int i = 0; i < manager_of(kv)->n; i++) each[i] = of_each(kv, budget_bytes);
}

static fx_status kvv_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    uint64_t each[FXI_MAX_RANK];
    vt_status st;
    int n_try = 0;
    share_budget(kv, budget_bytes, each);
    do st = vt_team_set_budget(team_of(kv), each);
    while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_aim_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    uint64_t each[FXI_MAX_RANK];
    share_budget(kv, budget_bytes, each);
    return fxi_kv_status_of(vt_team_aim_budget(team_of(kv), each));
}

static void kvv_give_back(fxi_kv *kv, uint64_t keep_bytes, bool forgets)
{
    vt_team_give_back(team_of(kv), of_each(kv, keep_bytes), forgets);
}

static fx_status kvv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    return fxi_kv_status_of(vt_team_trim(team_of(kv), of_each(kv, keep_bytes), NULL));
}

static fx_status kvv_forget_idle(fxi_kv *kv)
{
    return fxi_kv_status_of(vt_team_evict(team_of(kv), UINT64_MAX, NULL));
}

// ---- numbers -----------------------------------------------------------------------------------

static fxi_kv_stats kv_stats(const vt_manager *m)
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

static void kvv_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    enum { N = sizeof(fxi_kv_stats) / sizeof(uint64_t) };
    union {
        fxi_kv_stats all;
        uint64_t number[N];
    } sum = {.all = kv_stats(manager_of(kv)->vt[0])}, one;
    _Static_assert(sizeof(fxi_kv_stats) == N * sizeof(uint64_t), "all of them are counts");
    for (int k = 1; k < manager_of(kv)->n; k++) {
        one.all = kv_stats(manager_of(kv)->vt[k]);
        for (int i = 0; i < N; i++) sum.number[i] += one.number[i];
    }
    *out = sum.all;
}

static fx_histogram ages_of(const vt_ages *a)
{
    fx_histogram to = {.sum = a->sum_ms};
    _Static_assert(sizeof to.count == sizeof a->count, "the same sizes are told apart");
    memcpy(to.count, a->count, sizeof to.count);
    return to;
}

// Of the first device: the others record and match the same.
static void kvv_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    vt_prefix_ages a;
    vt_get_prefix_ages(manager_of(kv)->vt[0], &a);
    *out = (fxi_kv_prefix_ages){ages_of(&a.life), ages_of(&a.idle), ages_of(&a.reuse)};
}

static void kvv_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    for (int i = 0; i < manager_of(kv)->n; i++) {
        const fxi_kv_moved m = fxi_meter_moved(manager_of(kv)->meter[i]);
        out->bytes += m.bytes;
        out->ns += m.ns;
    }
}

static void kvv_driver_calls(const fxi_kv *kv, fx_op_stats out[FX_N_DRIVER_OP])
{
    for (int i = 0; i < manager_of(kv)->n; i++) fxi_meter_add(manager_of(kv)->meter[i], out);
}

static void kvv_collect(fxi_kv *kv, fxi_kv_snapshot *to)
{
    fxi_chunks_collect(&manager_of(kv)->chunks, team_of(kv), to);
}

static fx_status kvv_check(fxi_kv *kv, const char **what)
{
    return fxi_kv_status_of(vt_team_check(team_of(kv), what));
}

const fxi_kv_ops fxi_kv_vtensor = {
    .name = "vtensor",
    .caps = FXI_KV_PREFIX | FXI_KV_EXACT | FXI_KV_FORK | FXI_KV_SWAP | FXI_KV_ELASTIC |
            FXI_KV_WINDOWS | FXI_KV_ZEROED | FXI_KV_ASYNC_SWAP | FXI_KV_CONTINUE | FXI_KV_STATES,
    .struct_bytes = sizeof(kv_vtensor),
    .open = kvv_open,
    .close = kvv_close,
    .domain_open = kvv_domain_open,
    .domain_close = kvv_domain_close,
    .peek = kvv_peek,
    .lookup_continuation = kvv_lookup_continuation,
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
    .held = kvv_held,
    .mappings = kvv_mappings,
    .step = kvv_step,
    .tick = kvv_tick,
    .set_budget = kvv_set_budget,
    .trim = kvv_trim,
    .forget_idle = kvv_forget_idle,
    .aim_budget = kvv_aim_budget,
    .give_back = kvv_give_back,
    .stats = kvv_stats,
    .prefix_ages = kvv_prefix_ages,
    .moved = kvv_moved,
    .driver_calls = kvv_driver_calls,
    .collect = kvv_collect,
    .check = kvv_check,
};
