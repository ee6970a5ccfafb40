// kv_vtensor.c - the KV manager over libvtensor: each sequence is one contiguous range of
// addresses.
//
// Planes 2 l and 2 l + 1 hold the keys and values of layer l. An fxi_kv_seq is a vt_seq, an
// fxi_kv_domain a vt_domain.
#include "kv/kv_managers.h"

#include "kv/kv_meter.h"
#include "vtensor/vtensor.h"

#include <stdlib.h>
#include <string.h>

// Jobs that kvv_step runs itself where there is no mapper thread.
#define MAX_JOB_PER_STEP 8

typedef struct kv_vtensor {
    fxi_kv kv;
    vt_manager *vt; // owned
    vt_vmm *meter;  // owned by vt
    int whole_tok;  // smallest number of tokens whose rows end where a chunk ends
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

static fx_status kv_status_of(vt_status st)
{
    static const fx_status map[] = {
        [VT_OK] = FX_OK,
        [VT_NOSPACE] = FX_ENOSPACE,
        [VT_EDEVICE] = FX_EIO,
        [VT_EINVAL] = FX_EINVAL,
        [VT_ENOMEM] = FX_ENOMEM,
        [VT_NOMAPS] = FX_ENOSPACE,
        [VT_NOSPANS] = FX_ENOSPACE,
        [VT_NOPINS] = FX_ENOSPACE,
        [VT_NOSWAP] = FX_ENOSPACE,
        [VT_BUSY] = FX_ENOSPACE,
    };
    return map[st];
}

// Whether memory that the device held up is free now: the engine has nothing else to do meanwhile.
// A device that fails is reported by the next try.
static bool may_try_again(fxi_kv *kv, vt_status st, int *n_try)
{
    return st == VT_BUSY && (*n_try)++ == 0 && vt_settle(manager_of(kv)->vt) == VT_OK;
}

// ---- life --------------------------------------------------------------------------------------

static vt_config config_of(const fxi_kv_shape *shape)
{
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2 * (uint32_t)shape->n_layer;
    cfg.row_bytes = shape->row_bytes;
    cfg.max_tok = (uint32_t)shape->ctx_tok;
    cfg.max_seq = (uint32_t)shape->max_seq;
    cfg.budget_bytes = shape->budget_bytes;
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

static fx_status kvv_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    kv_vtensor *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    vt_config cfg = config_of(shape);
    vt_status st = fxi_meter_open(shape->vmm, &k->meter);
    cfg.vmm = k->meter;
    if (st == VT_OK) st = vt_manager_create(&cfg, &k->vt);
    if (st != VT_OK) {
        fxi_meter_cancel(k->meter, shape->vmm);
        free(k);
        return fxi_fail(err, kv_status_of(st), "KV cache: manager: %s", vt_status_name(st));
    }
    k->kv.ops = &fxi_kv_vtensor;
    const size_t slice_bytes = (size_t)vt_bytes_for(k->vt, 1) / cfg.n_plane;
    k->whole_tok = (int)(slice_bytes / common_divisor(slice_bytes, shape->row_bytes));
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
    fx_status st = kv_status_of(vt_domain_open(manager_of(kv)->vt, key, key_bytes, &d));
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

static fx_status kvv_seq_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                               int expect_tok, fxi_kv_seq **out, int *n_hit)
{
    vt_seq *s = NULL;
    uint32_t hit = 0;
    vt_status st;
    int n_try = 0;
    do
        st = vt_seq_match(domain_of(d), vt_tok(tok), (uint32_t)n_tok, (uint32_t)expect_tok, &s,
                          &hit);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    *n_hit = (int)hit;
    return kv_status_of(st);
}

static fx_status kvv_seq_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                                int n_tok, const fxi_kv_keep *keep)
{
    (void)kv;
    const vt_retention r = {.priority = (uint8_t)keep->priority, .until_ms = keep->until_ms};
    const bool is_plain = !r.priority; // no retention: keeps a higher priority recorded before
    return kv_status_of(
        vt_seq_record(vt_of(s), domain_of(d), vt_tok(tok), (uint32_t)n_tok, is_plain ? NULL : &r));
}

// A row that crosses the border of two chunks makes neither shareable without the other.
static int kvv_whole_tok(const fxi_kv *kv, int n_tok)
{
    const int whole_tok = manager_of(kv)->whole_tok;
    return n_tok / whole_tok * whole_tok;
}

// ---- sequences ---------------------------------------------------------------------------------

static fx_status kvv_seq_create(fxi_kv *kv, int expect_tok, fxi_kv_seq **out)
{
    vt_seq *s = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_seq_create(manager_of(kv)->vt, (uint32_t)expect_tok, &s);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)s;
    return kv_status_of(st);
}

static fx_status kvv_seq_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    vt_seq *child = NULL;
    vt_status st;
    int n_try = 0;
    do st = vt_seq_fork(vt_of(s), (uint32_t)len_tok, &child);
    while (may_try_again(kv, st, &n_try));
    *out = (fxi_kv_seq *)child;
    return kv_status_of(st);
}

static fx_status kvv_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    vt_status st;
    int n_try = 0;
    do st = vt_seq_extend(vt_of(s), (uint32_t)len_tok);
    while (may_try_again(kv, st, &n_try));
    return kv_status_of(st);
}

static void kvv_seq_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    (void)kv;
    vt_status st = vt_seq_prepare(vt_of(s), (uint32_t)len_tok, (uint32_t)deadline_step);
    (void)st; // a hint: extend works without it
}

static fx_status kvv_seq_swap_out(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    return kv_status_of(vt_seq_swap_out(vt_of(s)));
}

static fx_status kvv_seq_swap_in(fxi_kv *kv, fxi_kv_seq *s)
{
    vt_status st;
    int n_try = 0;
    do st = vt_seq_swap_in(vt_of(s));
    while (may_try_again(kv, st, &n_try));
    return kv_status_of(st);
}

static void kvv_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    vt_seq_release(vt_of(s));
}

static fxi_kv_view kvv_seq_view(const fxi_kv *kv, const fxi_kv_seq *s)
{
    (void)kv;
    return (fxi_kv_view){
        .base = vt_seq_plane(vt_of(s), 0),
        .plane_stride_bytes = vt_seq_plane_stride(vt_of(s)),
        .tok_stride_bytes = vt_seq_stride(vt_of(s)),
    };
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return vt_bytes_for(manager_of(kv)->vt, (uint32_t)len_tok);
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
    return kv_status_of(st);
}

static fx_status kvv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    return kv_status_of(vt_trim(manager_of(kv)->vt, keep_bytes, NULL));
}

static fx_status kvv_forget_idle(fxi_kv *kv)
{
    return kv_status_of(vt_evict(manager_of(kv)->vt, UINT64_MAX, NULL));
}

static void kvv_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    vt_stats st;
    vt_get_stats(manager_of(kv)->vt, &st);
    *out = (fxi_kv_stats){
        .budget_bytes = st.budget_bytes,
        .mapped_bytes = st.mapped_bytes,
        .held_bytes = st.owned_bytes + st.shared_bytes,
        .cached_bytes = st.cached_bytes,
        .shared_bytes = st.shared_bytes,
        .spare_bytes = st.spare_bytes,
        .slack_bytes = st.slack_bytes,
        .live_bytes = st.live_bytes,
        .swapped_bytes = st.swapped_bytes,
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

static void kvv_driver_calls(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP])
{
    fxi_meter_read(manager_of(kv)->meter, out);
}

static fx_status kvv_check(fxi_kv *kv, const char **what)
{
    return kv_status_of(vt_check(manager_of(kv)->vt, what));
}

const fxi_kv_ops fxi_kv_vtensor = {
    .name = "vtensor",
    .caps = FXI_KV_SWAP,
    .open = kvv_open,
    .close = kvv_close,
    .domain_open = kvv_domain_open,
    .domain_close = kvv_domain_close,
    .peek = kvv_peek,
    .seq_create = kvv_seq_create,
    .seq_match = kvv_seq_match,
    .seq_fork = kvv_seq_fork,
    .seq_extend = kvv_seq_extend,
    .seq_prepare = kvv_seq_prepare,
    .seq_record = kvv_seq_record,
    .whole_tok = kvv_whole_tok,
    .seq_swap_out = kvv_seq_swap_out,
    .seq_swap_in = kvv_seq_swap_in,
    .seq_release = kvv_seq_release,
    .seq_view = kvv_seq_view,
    .bytes_for = kvv_bytes_for,
    .step = kvv_step,
    .tick = kvv_tick,
    .set_budget = kvv_set_budget,
    .trim = kvv_trim,
    .forget_idle = kvv_forget_idle,
    .stats = kvv_stats,
    .prefix_ages = kvv_prefix_ages,
    .driver_calls = kvv_driver_calls,
    .check = kvv_check,
};
