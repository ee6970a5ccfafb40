// kv_team.c - the KV manager over a team of libvtensor's managers: a cache that several devices
// share out, each with its own heads of every row.
//
// Every device has a manager with the same planes, chunks and budget, over memory of its own; a
// team (vtensor/team.h) makes each call on all of them, or on none. An fxi_kv_seq is a vt_team_seq,
// an fxi_kv_domain a vt_team_domain. Bytes are those of all devices together.
#include "kv/kv_chunks.h"
#include "kv/kv_collect.h"
#include "kv/kv_managers.h"
#include "kv/kv_meter.h"
#include "kv/kv_status.h"

#include "vtensor/team.h"

#include <stdlib.h>

// Jobs that team_step runs itself on each device where there are no mapper threads.
#define MAX_TEAM_JOB 8

typedef struct kv_team {
    fxi_kv kv;
    int n;                             // devices
    vt_team *team;                     // NULL: not all managers are open
    vt_manager *vt[FXI_MAX_RANK];      // [n] owned
    vt_vmm *meter[FXI_MAX_RANK];       // [n] owned by vt[]
    const vt_vmm *given[FXI_MAX_RANK]; // [n] what the meters are before; while it is opened
    fxi_kv_chunks chunks;              // of each
    bool single_thread;
} kv_team;

static const fxi_kv_ops team_ops;

static kv_team *team_of(const fxi_kv *kv)
{
    return (kv_team *)kv;
}

static vt_team_seq *team_seq(const fxi_kv_seq *s)
{
    return (vt_team_seq *)s;
}

static vt_team_domain *tree_of(const fxi_kv_domain *d)
{
    return (vt_team_domain *)d;
}

static const uint32_t *team_tok(const int32_t *tok)
{
    return (const uint32_t *)tok; // never negative
}

// Whether memory that a device held up is free now.
static bool team_settles(fxi_kv *kv, vt_status st, int *n_try)
{
    if (st != VT_BUSY || (*n_try)++) return false;
    for (int k = 0; k < team_of(kv)->n; k++) st = vt_settle(team_of(kv)->vt[k]);
    return st == VT_OK;
}

// ---- life --------------------------------------------------------------------------------------

static void free_team(kv_team *t)
{
    vt_team_destroy(t->team);
    for (int k = 0; k < t->n; k++) vt_manager_destroy(t->vt[k]);
    free(t);
}

static void team_close(fxi_kv *kv)
{
    free_team(team_of(kv));
}

// What the caller gave stays the caller's.
static void cancel_team(kv_team *t)
{
    for (int k = 0; k < t->n; k++) fxi_meter_leave(t->meter[k], t->given[k]);
    free_team(t);
}

static bool are_cut_alike(const fxi_kv_chunks *a, const fxi_kv_chunks *b)
{
    return a->packing == b->packing && a->view_planes == b->view_planes &&
           a->whole_tok == b->whole_tok;
}

// A manager for device k, which cuts its cache as the others do.
static fx_status open_rank(kv_team *t, const fxi_kv_shape *shape, int k, fx_error *err)
{
    fxi_kv_chunks own = {.n_group = 0};
    vt_vmm *const given = shape->rank_vmm[k];
    vt_status st = fxi_meter_open(given, shape->run_share, &t->meter[k]);
    if (st == VT_OK) fxi_chunks_plan(shape, t->meter[k], &own);
    if (st == VT_OK && !k) t->chunks = own;
    if (st == VT_OK && !are_cut_alike(&own, &t->chunks)) {
        fxi_meter_cancel(t->meter[k], given);
        return fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
    }
    const vt_config cfg = fxi_chunks_config(&own, shape, t->meter[k]);
    if (st == VT_OK) st = vt_manager_create(&cfg, &t->vt[k]);
    if (st == VT_OK) {
        t->given[k] = given;
        t->n++;
        return FX_OK;
    }
    fxi_meter_cancel(t->meter[k], given);
    return fxi_chunks_fail(&own, cfg.budget_bytes, st, err);
}

static fx_status open_ranks(kv_team *t, const fxi_kv_shape *shape, fx_error *err)
{
    for (int k = 0; k < shape->n_rank; k++) FX_TRY(open_rank(t, shape, k, err));
    const vt_status st = vt_team_create(t->vt, (uint32_t)t->n, &t->team);
    return st == VT_OK ? FX_OK : fxi_fail(err, fxi_kv_status_of(st), "KV cache: no memory");
}

fx_status fxi_kv_team_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    kv_team *t = calloc(1, sizeof *t);
    if (!t) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    const fx_status st = open_ranks(t, shape, err);
    if (st != FX_OK) {
        cancel_team(t);
        return st;
    }
    t->kv.ops = &team_ops;
    t->single_thread = shape->single_thread;
    *out = &t->kv;
    return FX_OK;
}

// ---- prefixes ----------------------------------------------------------------------------------

static fx_status team_domain_open(fxi_kv *kv, const char *key, size_t key_bytes,
                                  fxi_kv_domain **out)
{
    vt_team_domain *d = NULL;
    fx_status st = fxi_kv_status_of(vt_team_domain_open(team_of(kv)->team, key, key_bytes, &d));
    *out = (fxi_kv_domain *)d;
    return st;
}

static void team_domain_close(fxi_kv *kv, fxi_kv_domain *d)
{
    (void)kv;
    vt_team_domain_close(tree_of(d));
}

static int team_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok)
{
    (void)kv;
    return (int)vt_team_match(tree_of(d), team_tok(tok), (uint32_t)n_tok);
}

// A guess, so one tree suffices.
static int team_tell_next(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok,
                          int32_t *out, int max_n)
{
    (void)kv;
    return (int)vt_prefix_continue(vt_team_domain_rank(tree_of(d), 0), team_tok(tok),
                                   (uint32_t)n_tok, (uint32_t *)out, (uint32_t)max_n);
}

static uint32_t likely_len(const fxi_kv_expect *e)
{
    return (uint32_t)(e->begin_tok + e->output_tok);
}

static fx_status team_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                            const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    vt_team_seq *s = NULL;
    uint32_t hit = 0;
    vt_status st;
    int n_try = 0;
    do
        st = vt_team_seq_match(tree_of(d), team_tok(tok), (uint32_t)n_tok, likely_len(expect), &s,
                               &hit);
    while (team_settles(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    *n_hit = (int)hit;
    return fxi_kv_status_of(st);
}

static fx_status team_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                             int n_tok, const fxi_kv_keep *keep)
{
    (void)kv;
    const vt_retention r = {.priority = (uint8_t)keep->priority, .until_ms = keep->until_ms};
    return fxi_kv_status_of(vt_team_seq_record(team_seq(s), tree_of(d), team_tok(tok),
                                               (uint32_t)n_tok, r.priority ? &r : NULL));
}

static int team_whole_tok(const fxi_kv *kv, int n_tok)
{
    const int whole_tok = team_of(kv)->chunks.whole_tok;
    return n_tok / whole_tok * whole_tok;
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status team_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    vt_team_seq *s = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_create(team_of(kv)->team, likely_len(expect), &s);
    while (team_settles(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    return fxi_kv_status_of(st);
}

static fx_status team_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    vt_team_seq *child = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_fork(team_seq(s), (uint32_t)len_tok, &child);
    while (team_settles(kv, st, &n_try));
    *out = (fxi_kv_seq *)child;
    return fxi_kv_status_of(st);
}

static fx_status team_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    vt_status st;
    int n_try = 0;
    do st = vt_team_seq_extend(team_seq(s), (uint32_t)len_tok);
    while (team_settles(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status team_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                  int *n_done)
{
    vt_status st;
    int n_try = 0;
    *n_done = 0;
    do {
        uint32_t n_more = 0;
        st = vt_team_seq_extend_many((vt_team_seq *const *)(s + *n_done),
                                     (const uint32_t *)len_tok + *n_done, (uint32_t)(n - *n_done),
                                     &n_more);
        *n_done += (int)n_more;
    } while (team_settles(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status team_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    (void)kv;
    return fxi_kv_status_of(vt_team_seq_truncate(team_seq(s), (uint32_t)len_tok));
}

static void team_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    (void)kv;
    vt_status st = vt_team_seq_prepare(team_seq(s), (uint32_t)len_tok, (uint32_t)deadline_step);
    (void)st; // a hint: extend works without it
}

static fx_status swap_status(vt_status st, bool *is_moving)
{
    *is_moving = st == VT_BUSY;
    return *is_moving ? FX_OK : fxi_kv_status_of(st);
}

static fx_status team_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    (void)kv;
    return swap_status(vt_team_seq_swap_out(team_seq(s)), is_moving);
}

static fx_status team_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    (void)kv;
    return swap_status(vt_team_seq_swap_in(team_seq(s)), is_moving);
}

static void team_release(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    vt_team_seq_release(team_seq(s));
}

static void team_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_team *t = team_of(kv);
    fxi_chunks_view(&t->chunks, t->vt[0], vt_team_seq_rank(team_seq(s), 0), out);
    for (int k = 1; k < t->n; k++)
        for (int g = 0; g < t->chunks.n_group; g++)
            out->rank_base[k - 1][g] =
                vt_seq_plane(vt_team_seq_rank(team_seq(s), (uint32_t)k), t->chunks.plane0[g]);
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t of_all(const fxi_kv *kv, uint64_t bytes)
{
    return bytes * (uint64_t)team_of(kv)->n;
}

static uint64_t of_each(const fxi_kv *kv, uint64_t bytes)
{
    return bytes / (uint64_t)team_of(kv)->n;
}

static int member_len(const fxi_kv_seq *s)
{
    return (int)vt_team_seq_len(team_seq(s));
}

static uint64_t team_bytes_for(const fxi_kv *kv, int len_tok)
{
    return of_all(kv, vt_bytes_for(team_of(kv)->vt[0], (uint32_t)len_tok));
}

static uint64_t team_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return of_all(kv, fxi_chunks_cost(&team_of(kv)->chunks, need));
}

static uint64_t team_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    return of_all(kv, fxi_chunks_gain(&team_of(kv)->chunks, member_len(s), n_recorded));
}

static uint64_t team_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    return of_all(kv, fxi_chunks_growth(&team_of(kv)->chunks, member_len(s), end_tok));
}

static uint64_t team_held(const fxi_kv *kv)
{
    uint64_t n = 0;
    for (int k = 0; k < team_of(kv)->n; k++) n += vt_held_bytes(team_of(kv)->vt[k]);
    return n;
}

static void team_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    const kv_team *t = team_of(kv);
    const vt_ahead policy = ahead_tok > 0 ? VT_AHEAD_SLACK : VT_AHEAD_NONE;
    vt_status st = vt_team_step(t->team, policy, (uint32_t)ahead_tok, now_ms);
    (void)st; // what could not be unmapped is retried in the next step
    for (int k = 0; t->single_thread && k < t->n; k++) vt_work(t->vt[k], MAX_TEAM_JOB, NULL);
}

static void team_tick(fxi_kv *kv, uint64_t now_ms)
{
    for (int k = 0; k < team_of(kv)->n; k++) vt_tick(team_of(kv)->vt[k], now_ms);
}

static void share_budget(const fxi_kv *kv, uint64_t budget_bytes, uint64_t each[FXI_MAX_RANK])
{
    for (int k = 0; k < team_of(kv)->n; k++) each[k] = of_each(kv, budget_bytes);
}

static fx_status team_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    uint64_t each[FXI_MAX_RANK];
    vt_status st;
    int n_try = 0;
    share_budget(kv, budget_bytes, each);
    do st = vt_team_set_budget(team_of(kv)->team, each);
    while (team_settles(kv, st, &n_try));
    return fxi_kv_status_of(st);
}

static fx_status team_aim_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    uint64_t each[FXI_MAX_RANK];
    share_budget(kv, budget_bytes, each);
    return fxi_kv_status_of(vt_team_aim_budget(team_of(kv)->team, each));
}

static void team_give_back(fxi_kv *kv, uint64_t keep_bytes, bool forgets)
{
    vt_team_give_back(team_of(kv)->team, of_each(kv, keep_bytes), forgets);
}

static fx_status team_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    return fxi_kv_status_of(vt_team_trim(team_of(kv)->team, of_each(kv, keep_bytes), NULL));
}

static fx_status team_forget_idle(fxi_kv *kv)
{
    return fxi_kv_status_of(vt_team_evict(team_of(kv)->team, UINT64_MAX, NULL));
}

// ---- numbers -----------------------------------------------------------------------------------

static void team_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    enum { N = sizeof(fxi_kv_stats) / sizeof(uint64_t) };
    union {
        fxi_kv_stats all;
        uint64_t number[N];
    } sum = {.number = {0}}, one;
    _Static_assert(sizeof(fxi_kv_stats) == N * sizeof(uint64_t), "all of them are counts");
    for (int k = 0; k < team_of(kv)->n; k++) {
        one.all = fxi_chunks_stats(team_of(kv)->vt[k]);
        for (int i = 0; i < N; i++) sum.number[i] += one.number[i];
    }
    *out = sum.all;
}

// Of the first device: the others record and match the same.
static void team_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    *out = fxi_chunks_ages(team_of(kv)->vt[0]);
}

static void team_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    for (int k = 0; k < team_of(kv)->n; k++) {
        const fxi_kv_moved m = fxi_meter_moved(team_of(kv)->meter[k]);
        out->bytes += m.bytes;
        out->ns += m.ns;
    }
}

static void team_driver_calls(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP])
{
    for (int k = 0; k < team_of(kv)->n; k++) fxi_meter_add(team_of(kv)->meter[k], out);
}

static void team_collect(fxi_kv *kv, fxi_kv_snapshot *to)
{
    fxi_chunks_collect_team(&team_of(kv)->chunks, team_of(kv)->team, to);
}

static fx_status team_check(fxi_kv *kv, const char **what)
{
    return fxi_kv_status_of(vt_team_check(team_of(kv)->team, what));
}

static const fxi_kv_ops team_ops = {
    .name = "vtensor",
    .caps = FXI_KV_PREFIX | FXI_KV_EXACT | FXI_KV_FORK | FXI_KV_SWAP | FXI_KV_ELASTIC |
            FXI_KV_WINDOWS | FXI_KV_ZEROED | FXI_KV_BESIDE | FXI_KV_TRUNCATE | FXI_KV_CONTINUE,
    .open = fxi_kv_team_open,
    .close = team_close,
    .domain_open = team_domain_open,
    .domain_close = team_domain_close,
    .peek = team_peek,
    .tell_next = team_tell_next,
    .seq_create = team_create,
    .seq_match = team_match,
    .seq_fork = team_fork,
    .seq_extend = team_extend,
    .seq_extend_many = team_extend_many,
    .seq_truncate = team_truncate,
    .seq_prepare = team_prepare,
    .seq_record = team_record,
    .whole_tok = team_whole_tok,
    .seq_swap_out = team_swap_out,
    .seq_swap_in = team_swap_in,
    .swap_gain = team_swap_gain,
    .seq_release = team_release,
    .seq_views = team_views,
    .bytes_for = team_bytes_for,
    .cost = team_cost,
    .seq_growth = team_growth,
    .held = team_held,
    .step = team_step,
    .tick = team_tick,
    .set_budget = team_set_budget,
    .trim = team_trim,
    .forget_idle = team_forget_idle,
    .aim_budget = team_aim_budget,
    .give_back = team_give_back,
    .stats = team_stats,
    .prefix_ages = team_prefix_ages,
    .moved = team_moved,
    .driver_calls = team_driver_calls,
    .collect = team_collect,
    .check = team_check,
};
