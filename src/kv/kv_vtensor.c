// kv_vtensor.c - the KV manager over libvtensor: each sequence is one contiguous range of
// addresses.
//
// One device has one manager: an fxi_kv_seq is a vt_seq, an fxi_kv_domain a vt_domain. Where
// several devices share a cache out, each with its own heads of every row, every device has a
// manager with the same planes, chunks and budget, over memory of its own, and a team
// (vtensor/team.h) makes each call on all of them, or on none: a sequence is a vt_team_seq, a
// domain a vt_team_domain. Bytes are those of all devices together. kv_chunks.h has how memory is
// divided.
#include <stdlib.h>

#include "kv/kv_chunks.h"
#include "kv/kv_managers.h"
#include "kv/kv_meter.h"
#include "vtensor/team.h"
#include "vtensor/vtensor.h"

// Jobs that a step runs itself on each device where there is no mapper thread.
#define MAX_JOB_PER_STEP 8

typedef struct kv_vtensor {
    fxi_kv kv;
    int n;                        // devices
    vt_team *team;                // of several devices; NULL: there is one
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

// The only device's.
static vt_manager *vt_of(const fxi_kv *kv)
{
    return manager_of(kv)->vt[0];
}

static vt_seq *one_seq(const fxi_kv_seq *s)
{
    return (vt_seq *)s;
}

static vt_team_seq *team_seq(const fxi_kv_seq *s)
{
    return (vt_team_seq *)s;
}

static vt_domain *one_tree(const fxi_kv_domain *d)
{
    return (vt_domain *)d;
}

static vt_team_domain *team_tree(const fxi_kv_domain *d)
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

static void free_managers(kv_vtensor *k)
{
    vt_team_destroy(k->team);
    for (int i = 0; i < k->n; i++) vt_manager_destroy(k->vt[i]);
    free(k);
}

static void kvv_close(fxi_kv *kv)
{
    free_managers(manager_of(kv));
}

// A manager for the next device, which cuts its cache as the others do.
static fx_status open_device_manager(kv_vtensor *k, const fxi_kv_shape *shape, fx_error *err)
{
    const int i = k->n;
    fxi_kv_chunks own = {.n_group = 0};
    vt_status st = fxi_meter_open(shape->n_rank ? shape->rank_vmm[i] : shape->vmm, shape->run_share,
                                  &k->meter[i]);
    if (st != VT_OK) return fxi_chunks_fail(&own, shape->budget_bytes, st, err);
    fxi_chunks_plan(shape, k->meter[i], &own);
    if (!i) k->chunks = own;
    const bool is_cut_alike = own.packing == k->chunks.packing &&
                              own.view_planes == k->chunks.view_planes &&
                              own.whole_tok == k->chunks.whole_tok;
    const vt_config cfg = fxi_chunks_config(&own, shape, k->meter[i]);
    if (is_cut_alike) st = vt_manager_create(&cfg, &k->vt[i]);
    if (is_cut_alike && st == VT_OK) {
        k->n++;
        return FX_OK;
    }
    k->meter[i]->ops->close(k->meter[i]);
    return is_cut_alike
               ? fxi_chunks_fail(&own, cfg.budget_bytes, st, err)
               : fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
}

static fx_status open_managers(kv_vtensor *k, const fxi_kv_shape *shape, fx_error *err)
{
    while (k->n < fxi_kv_n_device(shape)) FX_TRY(open_device_manager(k, shape, err));
    if (!shape->n_rank) {
        k->kv.max_mapping = fxi_chunks_max_mapping(k->vt[0]);
        return FX_OK;
    }
    const vt_status st = vt_team_create(k->vt, (uint32_t)k->n, &k->team);
    return st == VT_OK ? FX_OK : fxi_fail(err, fxi_kv_status_of(st), "KV cache: out of memory");
}

static fx_status kvv_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    kv_vtensor *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
    k->kv.ops = &fxi_kv_vtensor;
    k->single_thread = shape->single_thread;
    const fx_status st = open_managers(k, shape, err);
    if (st != FX_OK) { // what the caller gave stays the caller's
        free_managers(k);
        return st;
    }
    for (int i = 0; i < k->n; i++) fxi_meter_own(k->meter[i]);
    *out = &k->kv;
    return FX_OK;
}

// ---- prefixes ----------------------------------------------------------------------------------

static fx_status kvv_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    vt_team_domain *of_team = NULL;
    vt_domain *one = NULL;
    const vt_status st = team_of(kv) ? vt_team_domain_open(team_of(kv), key, key_bytes, &of_team)
                                     : vt_domain_open(vt_of(kv), key, key_bytes, &one);
    *out = of_team ? (fxi_kv_domain *)of_team : (fxi_kv_domain *)one;
    return fxi_kv_status_of(st);
}

static void kvv_domain_close(fxi_kv *kv, fxi_kv_domain *d)
{
    if (team_of(kv))
        vt_team_domain_close(team_tree(d));
    else
        vt_domain_close(one_tree(d));
}

static int kvv_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok)
{
    return (int)(team_of(kv) ? vt_team_match(team_tree(d), vt_tok(tok), (uint32_t)n_tok)
                             : vt_match(one_tree(d), vt_tok(tok), (uint32_t)n_tok));
}

// A guess, so the tree of one device suffices.
static int kvv_lookup_continuation(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok,
                                   int n_tok, int32_t *out, int max_n)
{
    const vt_domain *tree = team_of(kv) ? vt_team_domain_rank(team_tree(d), 0) : one_tree(d);
    return (int)vt_prefix_continue(tree, vt_tok(tok), (uint32_t)n_tok, (uint32_t *)out,
                                   (uint32_t)max_n);
}

static uint32_t expected_len(const fxi_kv_expect *e)
{
    return (uint32_t)(e->begin_tok + e->output_tok);
}

static fx_status kvv_seq_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                               const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    const uint32_t n = (uint32_t)n_tok, len = expected_len(expect);
    vt_team_seq *of_team = NULL;
    vt_seq *one = NULL;
    uint32_t hit = 0;
    vt_status st;
    int n_try = 0;
    do
        st = team_of(kv) ? vt_team_seq_match(team_tree(d), vt_tok(tok), n, len, &of_team, &hit)
                         : vt_seq_match(one_tree(d), vt_tok(tok), n, len, &one, &hit);
    while (may_try_again(kv, st, &n_try));
    *out = of_team ? (fxi_kv_seq *)of_team : (fxi_kv_seq *)one;
    *n_hit = (int)hit;
    return fxi_kv_status_of(st);
}

// Without a priority it keeps a higher one recorded before.
static fx_status kvv_seq_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                                int n_tok, const fxi_kv_keep *keep)
{
    const vt_retention r = {.priority = (uint8_t)keep->priority, .until_ms = keep->until_ms};
    const vt_retention *kept = r.priority ? &r : NULL;
    const uint32_t n = (uint32_t)n_tok;
    return fxi_kv_status_of(
        team_of(kv) ? vt_team_seq_record(team_seq(s), team_tree(d), vt_tok(tok), n, kept)
                    : vt_seq_record(one_seq(s), one_tree(d), vt_tok(tok), n, kept));
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
    vt_team_seq *of_team = NULL;
    vt_seq *one = NULL;
    vt_status st;
    int n_try = 0;
    do
        st = team_of(kv) ? vt_team_seq_create(team_of(kv), expected_len(expect), &of_team)
                         : vt_seq_create(vt_of(kv), expected_len(expect), &one);
    while (may_try_again(kv, st, &n_try));
    *out = of_team ? (fxi_kv_seq *)of_team : (fxi_kv_seq *)one;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    vt_team_seq *of_team = NULL;
    vt_seq *one = NULL;
    vt_status st;
    int n_try = 0;
    do
        st = team_of(kv) ? vt_team_seq_fork(team_seq(s), (uint32_t)len_tok, &of_team)
                         : vt_seq_fork(one_seq(s), (uint32_t)len_tok, &one);
    while (may_try_again(kv, st, &n_try));
    *out = of_team ? (fxi_kv_seq *)of_team : (fxi_kv_seq *)one;
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    vt_status st;
    int n_try = 0;
    do
        st = team_of(kv) ? vt_team_seq_extend(team_seq(s), (uint32_t)len_tok)
                         : vt_seq_extend(one_seq(s), (uint32_t)len_tok);
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
        fxi_kv_seq *const *from = s + *n_done;
        const uint32_t *len = (const uint32_t *)len_tok + *n_done;
        const uint32_t n_left = (uint32_t)(n - *n_done);
        uint32_t n_more = 0;
        st = team_of(kv) ? vt_team_seq_extend_many((vt_team_seq *const *)from, len, n_left, &n_more)
                         : vt_seq_extend_many((vt_seq *const *)from, len, n_left, &n_more);
        *n_done += (int)n_more;
    } while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_seq_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    return fxi_kv_status_of(team_of(kv) ? vt_team_seq_truncate(team_seq(s), (uint32_t)len_tok)
                                        : vt_seq_truncate(one_seq(s), (uint32_t)len_tok));
}

static void kvv_seq_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    const uint32_t len = (uint32_t)len_tok, deadline = (uint32_t)deadline_step;
    const vt_status st = team_of(kv) ? vt_team_seq_prepare(team_seq(s), len, deadline)
                                     : vt_seq_prepare(one_seq(s), len, deadline);
    (void)st; // a hint: extend works without it
}

static fx_status move_status_of(vt_status st, bool *is_moving)
{
    *is_moving = st == VT_BUSY;
    return *is_moving ? FX_OK : fxi_kv_status_of(st);
}

static fx_status kvv_seq_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    return move_status_of(
        team_of(kv) ? vt_team_seq_swap_out(team_seq(s)) : vt_seq_swap_out(one_seq(s)), is_moving);
}

static fx_status kvv_seq_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    return move_status_of(
        team_of(kv) ? vt_team_seq_swap_in(team_seq(s)) : vt_seq_swap_in(one_seq(s)), is_moving);
}

static void kvv_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    if (team_of(kv))
        vt_team_seq_release(team_seq(s));
    else
        vt_seq_release(one_seq(s));
}

// What device i has of the sequence.
static const vt_seq *seq_on(const kv_vtensor *k, const fxi_kv_seq *s, int i)
{
    return k->team ? vt_team_seq_rank(team_seq(s), (uint32_t)i) : one_seq(s);
}

static void kvv_seq_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_vtensor *k = manager_of(kv);
    fxi_chunks_view(&k->chunks, k->vt[0], seq_on(k, s, 0), out);
    for (int i = 1; i < k->n; i++)
        for (int g = 0; g < k->chunks.n_group; g++)
            out->rank_base[i - 1][g] = vt_seq_plane(seq_on(k, s, i), k->chunks.plane0[g]);
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

static int len_of(const fxi_kv *kv, const fxi_kv_seq *s)
{
    return (int)(team_of(kv) ? vt_team_seq_len(team_seq(s)) : vt_seq_len(one_seq(s)));
}

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return of_all(kv, vt_bytes_for(vt_of(kv), (uint32_t)len_tok));
}

static uint64_t kvv_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return of_all(kv, fxi_chunks_cost(&manager_of(kv)->chunks, need));
}

static uint64_t kvv_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    return of_all(kv, fxi_chunks_gain(&manager_of(kv)->chunks, len_of(kv, s), n_recorded));
}

static uint64_t kvv_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    return of_all(kv, fxi_chunks_growth(&manager_of(kv)->chunks, len_of(kv, s), end_tok));
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
    return vt_mappings_for(vt_of(kv), one_seq(s));
}

static void kvv_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_vtensor *k = manager_of(kv);
    const vt_ahead policy = ahead_tok > 0 ? VT_AHEAD_SLACK : VT_AHEAD_NONE;
    const vt_status st = k->team ? vt_team_step(k->team, policy, (uint32_t)ahead_tok, now_ms)
                                 : vt_step(k->vt[0], policy, (uint32_t)ahead_tok, now_ms);
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
    do
        st = team_of(kv) ? vt_team_set_budget(team_of(kv), each)
                         : vt_set_budget(vt_of(kv), budget_bytes);
    while (may_try_again(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status kvv_aim_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    uint64_t each[FXI_MAX_RANK];
    share_budget(kv, budget_bytes, each);
    return fxi_kv_status_of(team_of(kv) ? vt_team_aim_budget(team_of(kv), each)
                                        : vt_aim_budget(vt_of(kv), budget_bytes));
}

static void kvv_give_back(fxi_kv *kv, uint64_t keep_bytes, bool forgets)
{
    if (team_of(kv))
        vt_team_give_back(team_of(kv), of_each(kv, keep_bytes), forgets);
    else
        vt_give_back(vt_of(kv), keep_bytes, forgets);
}

static fx_status kvv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    return fxi_kv_status_of(team_of(kv) ? vt_team_trim(team_of(kv), of_each(kv, keep_bytes), NULL)
                                        : vt_trim(vt_of(kv), keep_bytes, NULL));
}

static fx_status kvv_forget_idle(fxi_kv *kv)
{
    return fxi_kv_status_of(team_of(kv) ? vt_team_evict(team_of(kv), UINT64_MAX, NULL)
                                        : vt_evict(vt_of(kv), UINT64_MAX, NULL));
}

// ---- numbers -----------------------------------------------------------------------------------

static void kvv_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    enum { N = sizeof(fxi_kv_stats) / sizeof(uint64_t) };
    union {
        fxi_kv_stats all;
        uint64_t number[N];
    } sum = {.all = fxi_chunks_stats(vt_of(kv))}, one;
    _Static_assert(sizeof(fxi_kv_stats) == N * sizeof(uint64_t), "all of them are counts");
    for (int k = 1; k < manager_of(kv)->n; k++) {
        one.all = fxi_chunks_stats(manager_of(kv)->vt[k]);
        for (int i = 0; i < N; i++) sum.number[i] += one.number[i];
    }
    *out = sum.all;
}

// Of the first device: the others record and match the same.
static void kvv_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    *out = fxi_chunks_ages(vt_of(kv));
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
    const kv_vtensor *k = manager_of(kv);
    if (k->team)
        fxi_chunks_collect_team(&k->chunks, k->team, to);
    else
        fxi_chunks_collect(&k->chunks, k->vt[0], to);
}

static fx_status kvv_check(fxi_kv *kv, const char **what)
{
    return fxi_kv_status_of(team_of(kv) ? vt_team_check(team_of(kv), what)
                                        : vt_check(vt_of(kv), what));
}

const fxi_kv_ops fxi_kv_vtensor = {
    .name = "vtensor",
    .caps = FXI_KV_PREFIX | FXI_KV_EXACT | FXI_KV_FORK | FXI_KV_SWAP | FXI_KV_ELASTIC |
            FXI_KV_WINDOWS | FXI_KV_ZEROED | FXI_KV_ASYNC_SWAP | FXI_KV_CONTINUE,
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
