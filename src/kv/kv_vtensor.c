// kv_vtensor.c - the KV manager over libvtensor: each sequence is one contiguous range of
// addresses.
//
// An fxi_kv_seq is a vt_seq, an fxi_kv_domain a vt_domain. kv_chunks.h has how memory is divided.
#include "kv/kv_chunks.h"
#include "kv/kv_collect.h"
#include "kv/kv_managers.h"
#include "kv/kv_status.h"

#include "kv/kv_meter.h"
#include "vtensor/vtensor.h"

#include <stdlib.h>

// Jobs that kvv_step runs itself where there is no mapper thread.
#define MAX_JOB_PER_STEP 8

typedef struct kv_vtensor {
    fxi_kv kv;
    vt_manager *vt; // owned
    vt_vmm *meter;  // owned by vt
    fxi_kv_chunks chunks;
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

static fx_status open_one(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    kv_vtensor *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    vt_status st = fxi_meter_open(shape->vmm, shape->run_share, &k->meter);
    if (st == VT_OK) fxi_chunks_plan(shape, k->meter, &k->chunks);
    const vt_config cfg = fxi_chunks_config(&k->chunks, shape, k->meter);
    if (st == VT_OK) st = vt_manager_create(&cfg, &k->vt);
    if (st != VT_OK) {
        fxi_meter_cancel(k->meter, shape->vmm);
        const fx_status failed = fxi_chunks_fail(&k->chunks, cfg.budget_bytes, st, err);
        free(k);
        return failed;
    }
    k->kv.ops = &fxi_kv_vtensor;
    k->kv.max_mapping = fxi_chunks_max_mapping(k->vt);
    k->single_thread = shape->single_thread;
    *out = &k->kv;
    return FX_OK;
}

static fx_status kvv_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    return (shape->n_rank ? fxi_kv_team_open : open_one)(shape, out, err);
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
    const int whole_tok = manager_of(kv)->chunks.whole_tok;
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
    fxi_chunks_view(&manager_of(kv)->chunks, manager_of(kv)->vt, vt_of(s), out);
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return vt_bytes_for(manager_of(kv)->vt, (uint32_t)len_tok);
}

static uint64_t kvv_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return fxi_chunks_cost(&manager_of(kv)->chunks, need);
}

static uint64_t kvv_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    return fxi_chunks_gain(&manager_of(kv)->chunks, (int)vt_seq_len(vt_of(s)), n_recorded);
}

static uint64_t kvv_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    return fxi_chunks_growth(&manager_of(kv)->chunks, (int)vt_seq_len(vt_of(s)), end_tok);
}

static uint64_t kvv_held(const fxi_kv *kv)
{
    return vt_held_bytes(manager_of(kv)->vt);
}

static uint64_t kvv_mappings(const fxi_kv *kv, const fxi_kv_seq *s)
{
    return vt_mappings_for(manager_of(kv)->vt, (const vt_seq *)s);
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

static fx_status kvv_aim_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    return fxi_kv_status_of(vt_aim_budget(manager_of(kv)->vt, budget_bytes));
}

static void kvv_give_back(fxi_kv *kv, uint64_t keep_bytes, bool forgets)
{
    vt_give_back(manager_of(kv)->vt, keep_bytes, forgets);
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
    *out = fxi_chunks_stats(manager_of(kv)->vt);
}

static void kvv_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    *out = fxi_chunks_ages(manager_of(kv)->vt);
}

static void kvv_moved(const fxi_kv *kv, fxi_kv_moved *out)
{
    *out = fxi_meter_moved(manager_of(kv)->meter);
}

static void kvv_driver_calls(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP])
{
    fxi_meter_add(manager_of(kv)->meter, out);
}

static void kvv_collect(fxi_kv *kv, fxi_kv_snapshot *to)
{
    fxi_chunks_collect(&manager_of(kv)->chunks, manager_of(kv)->vt, to);
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
