// kv_vattention.c - the KV manager over the calls of vAttention (vtensor/vattention.h): a sequence
// is a request of its batch, at a row of tensors for the whole batch.
//
// Each step of vAttention is given the lengths of all requests and backs what is missing. So an
// extend that needs another page group takes a step; one that does not only notes the length for
// the next. The look-ahead begins with the forward pass (fxi_kv_step).
#include "kv/kv_managers.h"
#include "kv/kv_status.h"

#include "vtensor/vattention.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct batch_row {
    bool is_used;
    bool is_left; // released, but the device failed: freed later
} batch_row;

typedef struct kv_vattention {
    fxi_kv kv;
    vt_va *va; // owned
    fxi_kv_layout layout;
    size_t tok_bytes;
    uint64_t group_bytes, budget_bytes;
    int ctx_tok, max_seq, n_left;
    bool single_thread;
    uint32_t *len_tok;  // [max_seq] by request
    uint32_t *next_tok; // [max_seq] scratch: what a step is told
    batch_row *row;     // [max_seq]
    uint64_t live_tok, peak_live_tok, peak_mapped_bytes;
} kv_vattention;

static kv_vattention *batch_of(const fxi_kv *kv)
{
    return (kv_vattention *)kv;
}

static uint32_t reqid_of(const kv_vattention *k, const fxi_kv_seq *s)
{
    return (uint32_t)((const batch_row *)s - k->row);
}

// ---- life --------------------------------------------------------------------------------------

static bool rows_are_alike(const fxi_kv_layout *l)
{
    for (int g = 1; g < l->n_group; g++)
        if (l->group[g].row_bytes != l->group[0].row_bytes) return false;
    return true;
}

// How the batch is made: as vt_va_config has it.
typedef struct batch_form {
    const fxi_kv_ops *ops;
    bool megacache, makes_at_start;
} batch_form;

static vt_va_config batch_config(const fxi_kv_shape *shape, const batch_form *form)
{
    vt_vmm *vmm = shape->vmm;
    const size_t granularity = vmm ? vmm->ops->granularity(vmm) : (size_t)sysconf(_SC_PAGESIZE);
    vt_va_config cfg = {
        .row_bytes = shape->layout.group[0].row_bytes,
        .max_tok = (uint32_t)shape->ctx_tok,
        .max_batch = (uint32_t)shape->max_seq,
        .budget_bytes = shape->budget_bytes,
        .megacache = form->megacache,
        .makes_at_start = form->makes_at_start,
        .vmm = vmm,
    };
    for (int g = 0; g < shape->layout.n_group; g++)
        cfg.n_plane += (uint32_t)shape->layout.group[g].n_plane;
    const size_t tok_bytes = cfg.row_bytes * (form->megacache ? cfg.n_plane : 1);
    const size_t least = (size_t)shape->block_tok * tok_bytes;
    cfg.page_bytes = (least + granularity - 1) / granularity * granularity;
    return cfg;
}

static void free_batch(kv_vattention *k)
{
    free(k->len_tok);
    free(k->next_tok);
    free(k->row);
    free(k);
}

static kv_vattention *make_batch(const fxi_kv_shape *shape, const fxi_kv_ops *ops)
{
    kv_vattention *k = calloc(1, sizeof *k);
    if (!k) return NULL;
    k->kv.ops = ops;
    k->layout = shape->layout;
    k->tok_bytes = fxi_kv_tok_bytes(&shape->layout);
    k->budget_bytes = shape->budget_bytes;
    k->ctx_tok = shape->ctx_tok;
    k->max_seq = shape->max_seq;
    k->single_thread = shape->single_thread;
    k->len_tok = calloc((size_t)shape->max_seq, sizeof *k->len_tok);
    k->next_tok = calloc((size_t)shape->max_seq, sizeof *k->next_tok);
    k->row = calloc((size_t)shape->max_seq, sizeof *k->row);
    if (k->len_tok && k->next_tok && k->row) return k;
    free_batch(k);
    return NULL;
}

static void note_mapped(kv_vattention *k)
{
    vt_va_stats st;
    vt_va_get_stats(k->va, &st);
    const uint64_t mapped = st.groups_created * k->group_bytes;
    if (mapped > k->peak_mapped_bytes) k->peak_mapped_bytes = mapped;
}

static fx_status open_batch(const fxi_kv_shape *shape, const batch_form *form, fxi_kv **out,
                            fx_error *err)
{
    *out = NULL;
    if (!rows_are_alike(&shape->layout))
        return fxi_fail(err, FX_EINVAL, "KV cache: vAttention has rows of one size only");
    kv_vattention *k = make_batch(shape, form->ops);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    const vt_va_config cfg = batch_config(shape, form);
    const vt_status st = vt_va_init(&cfg, &k->va);
    if (st != VT_OK) {
        free_batch(k);
        if (vt_vmm_host_trouble())
            return fxi_fail(err, fxi_kv_status_of(st), "KV cache: %s", vt_vmm_host_trouble());
        return fxi_fail(err, fxi_kv_status_of(st),
                        st == VT_NOMAPS ? "KV cache: too many sequences for the system's mappings"
                                        : "KV cache: the batch's tensors could not be made");
    }
    vt_va_stats stats;
    vt_va_get_stats(k->va, &stats);
    k->group_bytes = stats.group_bytes;
    note_mapped(k);
    *out = &k->kv;
    return FX_OK;
}

static fx_status open_usual(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    return open_batch(shape, &(batch_form){.ops = &fxi_kv_vattention}, out, err);
}

static fx_status open_mega(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    const batch_form form = {.ops = &fxi_kv_vattention_mega, .megacache = true};
    return open_batch(shape, &form, out, err);
}

static fx_status open_start(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    const batch_form form = {.ops = &fxi_kv_vattention_start, .makes_at_start = true};
    return open_batch(shape, &form, out, err);
}

static void kva_close(fxi_kv *kv)
{
    vt_va_cleanup(batch_of(kv)->va);
    free_batch(batch_of(kv));
}

// ---- sequences ---------------------------------------------------------------------------------

static bool free_row(kv_vattention *k, batch_row *r)
{
    if (vt_va_free_reqid(k->va, (uint32_t)(r - k->row)) != VT_OK) return false;
    *r = (batch_row){0};
    return true;
}

// Takes up what a failing device has left: requests that were released, or are half mapped.
static void repair_batch(kv_vattention *k)
{
    const vt_status st = vt_va_recover(k->va);
    (void)st; // the next step tries again
    for (int i = 0; i < k->max_seq && k->n_left; i++)
        if (k->row[i].is_left && free_row(k, &k->row[i])) k->n_left--;
}

static fx_status kva_seq_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    kv_vattention *k = batch_of(kv);
    uint32_t reqid;
    *out = NULL;
    repair_batch(k);
    const vt_status st = vt_va_alloc_reqid(k->va, (uint32_t)expect->begin_tok, &reqid);
    if (st != VT_OK) return fxi_kv_status_of(st);
    k->row[reqid] = (batch_row){.is_used = true};
    k->len_tok[reqid] = 0;
    *out = (fxi_kv_seq *)&k->row[reqid];
    return FX_OK;
}

static void set_live(kv_vattention *k, uint32_t reqid, uint32_t len_tok)
{
    k->live_tok += (uint64_t)len_tok - k->len_tok[reqid];
    k->len_tok[reqid] = len_tok;
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
}

// The last step has backed the page groups of the noted length, and no more.
static bool needs_step(const kv_vattention *k, const fxi_kv_seq *s, int len_tok)
{
    const uint64_t n_backed = vt_va_kvblocks_for(k->va, k->len_tok[reqid_of(k, s)]);
    return vt_va_kvblocks_for(k->va, (uint32_t)len_tok) > n_backed;
}

// One step for all of the sequences. On an error they keep their old lengths.
static fx_status back_batch(kv_vattention *k, fxi_kv_seq *const *s, const int *len_tok, int n)
{
    for (int i = 0; i < k->max_seq; i++) k->next_tok[i] = k->len_tok[i];
    for (int i = 0; i < n; i++) {
        uint32_t *next = &k->next_tok[reqid_of(k, s[i])];
        if ((uint32_t)len_tok[i] > *next) *next = (uint32_t)len_tok[i];
    }
    const vt_status st = vt_va_step(k->va, k->next_tok, false);
    note_mapped(k);
    return fxi_kv_status_of(st);
}

static void note_backed(kv_vattention *k, const fxi_kv_seq *s, int len_tok)
{
    const uint32_t reqid = reqid_of(k, s), len = (uint32_t)len_tok;
    if (len > k->len_tok[reqid]) set_live(k, reqid, len);
}

static fx_status kva_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    kv_vattention *k = batch_of(kv);
    if (len_tok > k->ctx_tok) return FX_EINVAL;
    if (needs_step(k, s, len_tok)) FX_TRY(back_batch(k, &s, &len_tok, 1));
    note_backed(k, s, len_tok);
    return FX_OK;
}

static bool all_can_step(const kv_vattention *k, fxi_kv_seq *const *s, const int *len_tok, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (len_tok[i] > k->ctx_tok) return false;
        any |= needs_step(k, s[i], len_tok[i]);
    }
    return any;
}

// One step backs all of them, if it can; what it has backed, the single extends only note.
static fx_status kva_seq_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                     int *n_done)
{
    kv_vattention *k = batch_of(kv);
    if (all_can_step(k, s, len_tok, n) && back_batch(k, s, len_tok, n) == FX_OK)
        for (int i = 0; i < n; i++) note_backed(k, s[i], len_tok[i]);
    for (*n_done = 0; *n_done < n; ++*n_done)
        FX_TRY(kva_seq_extend(kv, s[*n_done], len_tok[*n_done]));
    return FX_OK;
}

// Its page groups stay until a step wants them for others.
static fx_status kva_seq_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    kv_vattention *k = batch_of(kv);
    const uint32_t reqid = reqid_of(k, s);
    if ((uint32_t)len_tok < k->len_tok[reqid]) set_live(k, reqid, (uint32_t)len_tok);
    return FX_OK;
}

// The look-ahead follows the lengths of each step.
static void kva_seq_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    (void)kv, (void)s, (void)len_tok, (void)deadline_step;
}

static void kva_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    kv_vattention *k = batch_of(kv);
    batch_row *r = (batch_row *)s;
    set_live(k, reqid_of(k, s), 0);
    if (free_row(k, r)) return;
    r->is_left = true;
    k->n_left++;
}

static void kva_seq_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_vattention *k = batch_of(kv);
    uint32_t plane = 0;
    for (int g = 0; g < k->layout.n_group; g++) {
        char *first = vt_va_tensor(k->va, plane), *second = vt_va_tensor(k->va, plane + 1);
        out->group[g] = (fxi_kv_view){
            .base = first + reqid_of(k, s) * vt_va_request_stride(k->va),
            .plane_stride_bytes = second ? (size_t)(second - first) : 0,
            .tok_stride_bytes = vt_va_token_stride(k->va),
        };
        plane += (uint32_t)k->layout.group[g].n_plane;
    }
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t kva_bytes_for(const fxi_kv *kv, int len_tok)
{
    const kv_vattention *k = batch_of(kv);
    return vt_va_kvblocks_for(k->va, (uint32_t)len_tok) * k->group_bytes;
}

// Nothing is shared.
static uint64_t kva_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return (uint64_t)need->n_seq * kva_bytes_for(kv, need->end_tok);
}

static uint64_t kva_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    const kv_vattention *k = batch_of(kv);
    const vt_va_request r = vt_va_look(k->va, reqid_of(k, s));
    const uint64_t has = r.n_need < r.n_mapped ? r.n_need : r.n_mapped;
    const uint64_t wants = vt_va_kvblocks_for(k->va, (uint32_t)end_tok);
    return wants > has ? (wants - has) * k->group_bytes : 0;
}

static void kva_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    kv_vattention *k = batch_of(kv);
    (void)now_ms;
    repair_batch(k);
    if (ahead_tok <= 0) return;
    const vt_status st = vt_va_step_async(k->va, k->len_tok);
    (void)st; // the next extend maps what is missing
    if (k->single_thread) vt_va_wait(k->va);
    note_mapped(k);
}

static fx_status kva_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    kv_vattention *k = batch_of(kv);
    repair_batch(k);
    const vt_status st = vt_va_reserve_physical_pages(k->va, budget_bytes);
    if (st == VT_OK) k->budget_bytes = budget_bytes;
    return fxi_kv_status_of(st);
}

// A budget that holds no more for a moment: what is beyond it goes back to the system.
static fx_status kva_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    kv_vattention *k = batch_of(kv);
    vt_va_stats st;
    vt_va_wait(k->va);
    vt_va_get_stats(k->va, &st);
    uint64_t n_need = st.groups_lost;
    for (uint32_t i = 0; i < (uint32_t)k->max_seq; i++) n_need += vt_va_look(k->va, i).n_need;
    const uint64_t most = n_need * k->group_bytes + keep_bytes;
    if (most < n_need * k->group_bytes || st.groups_created * k->group_bytes <= most) return FX_OK;
    const vt_status shrunk = vt_va_reserve_physical_pages(k->va, most);
    const vt_status grown = vt_va_reserve_physical_pages(k->va, k->budget_bytes);
    return fxi_kv_status_of(shrunk == VT_OK ? grown : shrunk);
}

static uint64_t kva_held(const fxi_kv *kv)
{
    vt_va_stats st;
    vt_va_get_stats(batch_of(kv)->va, &st);
    return (st.groups_active + st.groups_lost) * batch_of(kv)->group_bytes;
}

static void kva_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    const kv_vattention *k = batch_of(kv);
    vt_va_stats st;
    vt_va_get_stats(k->va, &st);
    const uint64_t active = st.groups_active * k->group_bytes, live = k->live_tok * k->tok_bytes;
    const uint64_t mapped = st.groups_created * k->group_bytes;
    const uint64_t lost = st.groups_lost * k->group_bytes, used = live < active ? live : active;
    *out = (fxi_kv_stats){
        .budget_bytes = k->budget_bytes,
        .usable_bytes = k->budget_bytes,
        .mapped_bytes = mapped,
        .used_bytes = used,
        .internal_bytes = active - used,
        .external_bytes = lost,
        .spare_bytes = mapped - active - lost,
        .held_bytes = active + lost,
        .live_bytes = live,
        .peak_mapped_bytes = mapped > k->peak_mapped_bytes ? mapped : k->peak_mapped_bytes,
        .peak_live_bytes = k->peak_live_tok * k->tok_bytes,
    };
}

// ---- pictures ----------------------------------------------------------------------------------

// Memory that is mapped beyond what a sequence needs waits for the next one, as vAttention keeps
// it: it is spare.
static void paint_group_state(void *ud, const vt_va_group *g)
{
    const fxi_kv_painter *to = ud;
    to->chunk(to->ud, 0, g->name, 1, g->is_needed ? FXI_KV_CHUNK_OWNED : FXI_KV_CHUNK_SPARE);
}

typedef struct row_painter {
    const kv_vattention *k;
    const fxi_kv_painter *to;
} row_painter;

static void paint_group_place(void *ud, const vt_va_group *g)
{
    const row_painter *p = ud;
    if (g->is_needed)
        p->to->segment(p->to->ud, (const fxi_kv_seq *)&p->k->row[g->reqid], 0, (int)g->at, g->name,
                       1);
}

static fx_status kva_paint(fxi_kv *kv, const fxi_kv_painter *to)
{
    const kv_vattention *k = batch_of(kv);
    row_painter p = {k, to};
    vt_va_stats st;
    vt_va_get_stats(k->va, &st);
    to->group(to->ud, k->group_bytes, (int)(st.page_bytes / k->layout.group[0].row_bytes), 0);
    vt_va_each_group(k->va, paint_group_state, (void *)to);
    vt_va_each_group(k->va, paint_group_place, &p);
    return FX_OK;
}

// ---- checks ------------------------------------------------------------------------------------

static const char *check_rows(const kv_vattention *k)
{
    uint64_t live_tok = 0;
    int n_left = 0;
    for (uint32_t i = 0; i < (uint32_t)k->max_seq; i++) {
        const batch_row *r = &k->row[i];
        const vt_va_request has = vt_va_look(k->va, i);
        const uint64_t n_group = vt_va_kvblocks_for(k->va, k->len_tok[i]);
        live_tok += k->len_tok[i];
        n_left += r->is_left;
        if (r->is_used != has.is_active) return "a request is not a sequence";
        if (r->is_left && k->len_tok[i]) return "a sequence that was released has tokens";
        if (n_group > has.n_mapped) return "a sequence has lost memory";
        if (n_group > has.n_need) return "a sequence may lose memory";
    }
    if (n_left != k->n_left) return "rows that are left are counted wrong";
    return live_tok == k->live_tok ? NULL : "live tokens are counted wrong";
}

static fx_status kva_check(fxi_kv *kv, const char **what)
{
    const kv_vattention *k = batch_of(kv);
    const vt_status st = vt_va_check(k->va, what);
    if (st != VT_OK) return fxi_kv_status_of(st);
    *what = check_rows(k);
    return *what ? FX_EINVAL : FX_OK;
}

#define BATCH_OPS(name_, open_, elastic_, set_budget_, trim_)                               \
    {                                                                                       \
        .name = name_, .caps = (elastic_) | FXI_KV_ZEROED | FXI_KV_TRUNCATE, .open = open_, \
        .close = kva_close, .seq_create = kva_seq_create, .seq_extend = kva_seq_extend,     \
        .seq_extend_many = kva_seq_extend_many, .seq_truncate = kva_seq_truncate,           \
        .seq_prepare = kva_seq_prepare, .seq_release = kva_seq_release,                     \
        .seq_views = kva_seq_views, .bytes_for = kva_bytes_for, .cost = kva_cost,           \
        .seq_growth = kva_seq_growth, .held = kva_held, .step = kva_step,                   \
        .set_budget = set_budget_, .trim = trim_, .stats = kva_stats, .paint = kva_paint,   \
        .check = kva_check,                                                                 \
    }

const fxi_kv_ops fxi_kv_vattention =
    BATCH_OPS("vattention", open_usual, FXI_KV_ELASTIC, kva_set_budget, kva_trim);
const fxi_kv_ops fxi_kv_vattention_mega =
    BATCH_OPS("vattention-mega", open_mega, FXI_KV_ELASTIC, kva_set_budget, kva_trim);
const fxi_kv_ops fxi_kv_vattention_start = BATCH_OPS("vattention-start", open_start, 0, NULL, NULL);
