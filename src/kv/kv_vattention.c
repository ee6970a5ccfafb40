// kv_vattention.c - the KV manager over the calls of vAttention (vtensor/vattention.h): a sequence
// is a request of its batch, at a row of tensors for the whole batch.
//
// Each step of vAttention is given the lengths of all requests and backs what is missing. So an
// extend that needs another page group takes a step; one that does not only notes the length for
// the next. The look-ahead begins with the forward pass (fxi_kv_step).
//
// Devices that share a cache out (ranks) have a batch each, all of one geometry, with 1 / n of
// every row and of the budget; one device is one rank. A sequence has a request in each. Which one,
// each batch chooses: look-aheads run at their own pace, so what is mapped differs. Every call is
// done on all ranks or on none:
//
//   create          failed on a rank: the requests of those before it are freed
//   extend          all prepare a step, and only then commit it (vt_va_step_prepare)
//   set_budget      failed on a rank: those before it, which have shrunk, grow back
//   release, step   a rank that fails is taken up by the next create or step (repair_batch)
//
// Mappings do not run out: a batch opens only if its rank's share of the system's suffices for one
// in each tensor for each request (VT_NOMAPS). So max_mapping is 0. Bytes are those of all ranks
// together.
#include "kv/kv_chunks.h"
#include "kv/kv_managers.h"
#include "kv/kv_meter.h"

#include "vtensor/vattention.h"

#include <stdlib.h>
#include <string.h>

typedef struct batch_row {
    int n_held;                   // ranks [0, n_held) have a request for it; 0: unused
    bool is_left;                 // released, but a device failed: freed later
    uint32_t reqid[FXI_MAX_RANK]; // [n_held] that of rank 0 is the row's number
} batch_row;

typedef struct kv_vattention {
    fxi_kv kv;
    int n;                       // ranks
    vt_va *va[FXI_MAX_RANK];     // [n] owned
    vt_vmm *meter[FXI_MAX_RANK]; // [n] owned by va[]
    fxi_kv_layout layout;        // of all ranks together
    size_t tok_bytes;
    uint64_t page_bytes, group_bytes; // of each rank
    uint64_t budget_bytes;
    int ctx_tok, max_seq, n_left;
    bool single_thread;
    uint32_t *len_tok;  // [max_seq] by row; owned with the next two
    uint32_t *next_tok; // [max_seq] scratch: what a step is told
    uint32_t *rank_tok; // [max_seq] scratch: the same by request of another rank than 0
    batch_row *row;     // [max_seq]
    uint64_t live_tok, peak_live_tok, peak_mapped_bytes;
} kv_vattention;

static kv_vattention *batch_of(const fxi_kv *kv)
{
    return (kv_vattention *)kv;
}

static uint32_t number_of_row(const kv_vattention *k, const fxi_kv_seq *s)
{
    return (uint32_t)((const batch_row *)s - k->row);
}

// ---- life --------------------------------------------------------------------------------------

static vt_va_config rank_config(const fxi_kv *kv, const fxi_kv_shape *shape, vt_vmm *vmm)
{
    const size_t granularity = vmm->ops->granularity(vmm), n = (size_t)fxi_kv_n_device(shape);
    vt_va_config cfg = {
        .row_bytes = shape->layout.group[0].row_bytes / n,
        .max_tok = (uint32_t)shape->ctx_tok,
        .max_batch = (uint32_t)shape->max_seq,
        .budget_bytes = shape->budget_bytes / n,
        .megacache = kv->ops == &fxi_kv_vattention_mega,
        .makes_at_start = kv->ops == &fxi_kv_vattention_start,
        .vmm = vmm,
    };
    for (int g = 0; g < shape->layout.n_group; g++)
        cfg.n_plane += (uint32_t)shape->layout.group[g].n_plane;
    const size_t tok_bytes = cfg.row_bytes * (cfg.megacache ? cfg.n_plane : 1);
    const size_t least = (size_t)shape->block_tok * tok_bytes;
    cfg.page_bytes = (least + granularity - 1) / granularity * granularity;
    return cfg;
}

static void kva_close(fxi_kv *kv)
{
    kv_vattention *k = batch_of(kv);
    for (int r = 0; r < k->n; r++) vt_va_cleanup(k->va[r]);
    free(k->len_tok);
    free(k->row);
}

static bool make_batch(kv_vattention *k, const fxi_kv_shape *shape)
{
    k->layout = shape->layout;
    k->tok_bytes = fxi_kv_tok_bytes(&shape->layout);
    k->budget_bytes = shape->budget_bytes;
    k->ctx_tok = shape->ctx_tok;
    k->max_seq = shape->max_seq;
    k->single_thread = shape->single_thread;
    k->len_tok = calloc(3 * (size_t)shape->max_seq, sizeof *k->len_tok);
    k->next_tok = k->len_tok + shape->max_seq;
    k->rank_tok = k->next_tok + shape->max_seq;
    k->row = calloc((size_t)shape->max_seq, sizeof *k->row);
    return k->len_tok && k->row;
}

static fx_status fail_open(vt_status st, fx_error *err)
{
    if (vt_vmm_host_trouble())
        return fxi_fail(err, fxi_kv_status_of(st), "KV cache: %s", vt_vmm_host_trouble());
    return fxi_fail(err, fxi_kv_status_of(st),
                    st == VT_NOMAPS ? "KV cache: too many sequences for the system's mappings"
                                    : "KV cache: the batch's tensors could not be made");
}

static fx_status open_rank(kv_vattention *k, const fxi_kv_shape *shape, fx_error *err)
{
    const int rank = k->n;
    const double share = (shape->run_share > 0 ? shape->run_share : 1) / fxi_kv_n_device(shape);
    vt_status st = fxi_meter_open(fxi_kv_given_memory(shape, rank), share, &k->meter[rank]);
    if (st != VT_OK) return fail_open(st, err);
    const vt_va_config cfg = rank_config(&k->kv, shape, k->meter[rank]);
    st = vt_va_init(&cfg, &k->va[rank]);
    if (st != VT_OK) {
        k->meter[rank]->ops->close(k->meter[rank]);
        return fail_open(st, err);
    }
    k->n++;
    // All strides follow from the size of a page.
    vt_va_stats va;
    vt_va_get_stats(k->va[rank], &va);
    if (rank && va.page_bytes != k->page_bytes)
        return fxi_fail(err, FX_EINVAL, "KV cache: the devices have memory pages of two sizes");
    k->page_bytes = va.page_bytes;
    k->group_bytes = va.group_bytes;
    return FX_OK;
}

// Bytes of page groups, in all ranks.
typedef struct batch_bytes {
    uint64_t created, active, lost;
} batch_bytes;

static batch_bytes sum_group_bytes(const kv_vattention *k)
{
    batch_bytes sum = {0};
    for (int r = 0; r < k->n; r++) {
        vt_va_stats st;
        vt_va_get_stats(k->va[r], &st);
        sum.created += st.groups_created * k->group_bytes;
        sum.active += st.groups_active * k->group_bytes;
        sum.lost += st.groups_lost * k->group_bytes;
    }
    return sum;
}

static void note_mapped(kv_vattention *k)
{
    const uint64_t mapped = sum_group_bytes(k).created;
    if (mapped > k->peak_mapped_bytes) k->peak_mapped_bytes = mapped;
}

static fx_status kva_open(fxi_kv *kv, const fxi_kv_shape *shape, fx_error *err)
{
    kv_vattention *k = batch_of(kv);
    fx_status st = FX_OK;
    for (int g = 1; g < shape->layout.n_group; g++)
        if (shape->layout.group[g].row_bytes != shape->layout.group[0].row_bytes)
            return fxi_fail(err, FX_EINVAL, "KV cache: vAttention has rows of one size only");
    if (!make_batch(k, shape)) st = fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
    while (k->n < fxi_kv_n_device(shape) && st == FX_OK) st = open_rank(k, shape, err);
    if (st == FX_OK)
        note_mapped(k);
    else
        kva_close(kv);
    return st;
}

// ---- sequences ---------------------------------------------------------------------------------

// That of rank 0, which names the row, last.
static bool free_row(kv_vattention *k, batch_row *row)
{
    for (; row->n_held; row->n_held--)
        if (vt_va_free_reqid(k->va[row->n_held - 1], row->reqid[row->n_held - 1]) != VT_OK)
            return false;
    row->is_left = false;
    return true;
}

static void leave_row(kv_vattention *k, batch_row *row)
{
    if (free_row(k, row)) return;
    row->is_left = true;
    k->n_left++;
}

// Takes up what a failing device has left: requests that were released, or are half mapped.
static void repair_batch(kv_vattention *k)
{
    for (int r = 0; r < k->n; r++) {
        const vt_status st = vt_va_recover(k->va[r]);
        (void)st; // the next step tries again
    }
    for (int i = 0; i < k->max_seq && k->n_left; i++)
        if (k->row[i].is_left && free_row(k, &k->row[i])) k->n_left--;
}

static fx_status kva_seq_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    kv_vattention *k = batch_of(kv);
    batch_row made = {0};
    *out = NULL;
    repair_batch(k);
    vt_status st = VT_OK;
    for (int r = 0; r < k->n && st == VT_OK; r++) {
        st = vt_va_alloc_reqid(k->va[r], (uint32_t)expect->begin_tok, &made.reqid[r]);
        made.n_held += st == VT_OK;
    }
    if (!made.n_held) return fxi_kv_status_of(st);
    batch_row *row = &k->row[made.reqid[0]];
    *row = made;
    if (st == VT_OK)
        *out = (fxi_kv_seq *)row;
    else
        leave_row(k, row);
    return fxi_kv_status_of(st);
}

static void set_live(kv_vattention *k, uint32_t row, uint32_t len_tok)
{
    k->live_tok += (uint64_t)len_tok - k->len_tok[row];
    k->len_tok[row] = len_tok;
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
}

static uint64_t n_group_for(const kv_vattention *k, uint32_t len_tok)
{
    return vt_va_kvblocks_for(k->va[0], len_tok);
}

// The last step has backed the page groups of the noted length, and no more.
static bool needs_step(const kv_vattention *k, const fxi_kv_seq *s, int len_tok)
{
    return n_group_for(k, (uint32_t)len_tok) > n_group_for(k, k->len_tok[number_of_row(k, s)]);
}

// Lengths of rows as rank r is told them: by its requests.
static const uint32_t *by_request(const kv_vattention *k, int r, const uint32_t *tok)
{
    if (!r) return tok;
    memset(k->rank_tok, 0, (size_t)k->max_seq * sizeof *k->rank_tok);
    for (int i = 0; i < k->max_seq; i++)
        if (k->row[i].n_held > r) k->rank_tok[k->row[i].reqid[r]] = tok[i];
    return k->rank_tok;
}

// One step for all of the sequences. On an error they keep their old lengths.
static fx_status back_batch(kv_vattention *k, fxi_kv_seq *const *s, const int *len_tok, int n)
{
    memcpy(k->next_tok, k->len_tok, (size_t)k->max_seq * sizeof *k->next_tok);
    for (int i = 0; i < n; i++) {
        uint32_t *next = &k->next_tok[number_of_row(k, s[i])];
        if ((uint32_t)len_tok[i] > *next) *next = (uint32_t)len_tok[i];
    }
    vt_status st = VT_OK;
    for (int r = 0; r < k->n && st == VT_OK; r++)
        st = vt_va_step_prepare(k->va[r], by_request(k, r, k->next_tok), false);
    for (int r = 0; r < k->n && st == VT_OK; r++) vt_va_step_commit(k->va[r]);
    note_mapped(k);
    return fxi_kv_status_of(st);
}

static void note_backed(kv_vattention *k, const fxi_kv_seq *s, int len_tok)
{
    const uint32_t row = number_of_row(k, s), len = (uint32_t)len_tok;
    if (len > k->len_tok[row]) set_live(k, row, len);
}

static fx_status kva_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    kv_vattention *k = batch_of(kv);
    if (len_tok > k->ctx_tok) return FX_EINVAL;
    if (needs_step(k, s, len_tok)) FX_TRY(back_batch(k, &s, &len_tok, 1));
    note_backed(k, s, len_tok);
    return FX_OK;
}

// One step backs all of them, if it can; what it has backed, the single extends only note.
static fx_status kva_seq_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                     int *n_done)
{
    kv_vattention *k = batch_of(kv);
    bool may_step = true, some_need = false;
    for (int i = 0; i < n; i++) {
        may_step &= len_tok[i] <= k->ctx_tok;
        some_need |= may_step && needs_step(k, s[i], len_tok[i]);
    }
    if (may_step && some_need && back_batch(k, s, len_tok, n) == FX_OK)
        for (int i = 0; i < n; i++) note_backed(k, s[i], len_tok[i]);
    for (*n_done = 0; *n_done < n; ++*n_done)
        FX_TRY(kva_seq_extend(kv, s[*n_done], len_tok[*n_done]));
    return FX_OK;
}

// Its page groups stay until a step wants them for others.
static fx_status kva_seq_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    kv_vattention *k = batch_of(kv);
    const uint32_t row = number_of_row(k, s);
    if ((uint32_t)len_tok < k->len_tok[row]) set_live(k, row, (uint32_t)len_tok);
    return FX_OK;
}

static void kva_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    kv_vattention *k = batch_of(kv);
    set_live(k, number_of_row(k, s), 0);
    leave_row(k, (batch_row *)s);
}

// Where rank r has a plane of the sequence.
static char *plane_of(const kv_vattention *k, int r, const fxi_kv_seq *s, uint32_t plane)
{
    const size_t request = ((const batch_row *)s)->reqid[r];
    return (char *)vt_va_tensor(k->va[r], plane) + request * vt_va_request_stride(k->va[r]);
}

static void kva_seq_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    const kv_vattention *k = batch_of(kv);
    uint32_t plane = 0;
    for (int g = 0; g < k->layout.n_group; g++) {
        char *first = vt_va_tensor(k->va[0], plane), *second = vt_va_tensor(k->va[0], plane + 1);
        out->group[g] = (fxi_kv_view){
            .base = plane_of(k, 0, s, plane),
            .plane_stride_bytes = second ? (size_t)(second - first) : 0,
            .tok_stride_bytes = vt_va_token_stride(k->va[0]),
        };
        for (int r = 1; r < k->n; r++) out->rank_base[r - 1][g] = plane_of(k, r, s, plane);
        plane += (uint32_t)k->layout.group[g].n_plane;
    }
}

// ---- memory ------------------------------------------------------------------------------------

static uint64_t kva_bytes_for(const fxi_kv *kv, int len_tok)
{
    const kv_vattention *k = batch_of(kv);
    return n_group_for(k, (uint32_t)len_tok) * k->group_bytes * (uint64_t)k->n;
}

// Nothing is shared.
static uint64_t kva_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return (uint64_t)need->n_seq * kva_bytes_for(kv, need->end_tok);
}

static uint64_t kva_seq_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    const kv_vattention *k = batch_of(kv);
    const uint64_t wants = n_group_for(k, (uint32_t)end_tok);
    uint64_t n_more = 0;
    for (int i = 0; i < k->n; i++) {
        const vt_va_request r = vt_va_look(k->va[i], ((const batch_row *)s)->reqid[i]);
        n_more += wants > r.n_given ? wants - r.n_given : 0;
    }
    return n_more * k->group_bytes;
}

static void kva_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    kv_vattention *k = batch_of(kv);
    (void)now_ms;
    repair_batch(k);
    if (ahead_tok <= 0) return;
    for (int r = 0; r < k->n; r++) {
        const vt_status st = vt_va_step_async(k->va[r], by_request(k, r, k->len_tok));
        (void)st; // the next extend maps what is missing
    }
    for (int r = 0; k->single_thread && r < k->n; r++) vt_va_wait(k->va[r]);
    note_mapped(k);
}

static vt_status set_budgets(kv_vattention *k, uint64_t each_bytes)
{
    const uint64_t had_bytes = k->budget_bytes / (uint64_t)k->n;
    for (int r = 0; r < k->n; r++) {
        const vt_status st = vt_va_reserve_physical_pages(k->va[r], each_bytes);
        if (st == VT_OK) continue;
        while (r-- > 0) {
            const vt_status back = vt_va_reserve_physical_pages(k->va[r], had_bytes);
            (void)back; // they shrank, or this one would not have failed: growing cannot fail
        }
        return st;
    }
    return VT_OK;
}

static fx_status kva_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    kv_vattention *k = batch_of(kv);
    repair_batch(k);
    const vt_status st = set_budgets(k, budget_bytes / (uint64_t)k->n);
    if (st == VT_OK) k->budget_bytes = budget_bytes;
    return fxi_kv_status_of(st);
}

// A budget that holds no more for a moment: what is beyond it goes back to the system.
static vt_status trim_rank(kv_vattention *k, int r, uint64_t keep_bytes)
{
    vt_va_stats st;
    vt_va_wait(k->va[r]);
    vt_va_get_stats(k->va[r], &st);
    uint64_t n_need = st.groups_lost;
    for (uint32_t i = 0; i < (uint32_t)k->max_seq; i++) n_need += vt_va_look(k->va[r], i).n_need;
    const uint64_t needs = n_need * k->group_bytes, most = needs + keep_bytes;
    if (most < needs || st.groups_created * k->group_bytes <= most) return VT_OK;
    const vt_status shrunk = vt_va_reserve_physical_pages(k->va[r], most);
    const vt_status grown =
        vt_va_reserve_physical_pages(k->va[r], k->budget_bytes / (uint64_t)k->n);
    return shrunk == VT_OK ? grown : shrunk;
}

static fx_status kva_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    kv_vattention *k = batch_of(kv);
    vt_status first = VT_OK;
    for (int r = 0; r < k->n; r++) {
        const vt_status st = trim_rank(k, r, keep_bytes / (uint64_t)k->n);
        if (first == VT_OK) first = st;
    }
    return fxi_kv_status_of(first);
}

// ---- numbers -----------------------------------------------------------------------------------

static uint64_t kva_held(const fxi_kv *kv)
{
    const batch_bytes b = sum_group_bytes(batch_of(kv));
    return b.active + b.lost;
}

static void kva_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    const kv_vattention *k = batch_of(kv);
    const batch_bytes b = sum_group_bytes(k);
    const uint64_t live = k->live_tok * k->tok_bytes, used = live < b.active ? live : b.active;
    *out = (fxi_kv_stats){
        .budget_bytes = k->budget_bytes,
        .usable_bytes = k->budget_bytes,
        .mapped_bytes = b.created,
        .used_bytes = used,
        .internal_bytes = b.active - used,
        .external_bytes = b.lost,
        .spare_bytes = b.created - b.active - b.lost,
        .held_bytes = b.active + b.lost,
        .live_bytes = live,
        .peak_mapped_bytes = b.created > k->peak_mapped_bytes ? b.created : k->peak_mapped_bytes,
        .peak_live_bytes = k->peak_live_tok * k->tok_bytes,
    };
}

static void kva_driver_calls(const fxi_kv *kv, fx_op_stats out[FX_N_DRIVER_OP])
{
    for (int r = 0; r < batch_of(kv)->n; r++) fxi_meter_add(batch_of(kv)->meter[r], out);
}

// ---- snapshots ---------------------------------------------------------------------------------

// What the callbacks of vAttention add to.
typedef struct group_view {
    fxi_kv_snapshot *to;
    uint32_t rank, n_rank; // rank: the group of its chunks, too
    int seq;               // whose groups are added: to->seq[seq]
} group_view;

// Memory that is mapped beyond what a sequence needs is kept for the next one, as vAttention does:
// it is spare.
static void collect_group_state(void *ud, const vt_va_group *g)
{
    const group_view *v = ud;
    fxi_kv_snapshot_add_chunks(v->to, (int)v->rank, fxi_kv_rank_name(g->name, v->rank, v->n_rank),
                               1, g->is_needed ? FX_CHUNK_owned : FX_CHUNK_spare);
}

static void collect_group_place(void *ud, const vt_va_group *g)
{
    const group_view *v = ud;
    if (g->is_needed)
        fxi_kv_snapshot_add_segments(v->to, v->seq, (int)v->rank, g->at,
                                     fxi_kv_rank_name(g->name, v->rank, v->n_rank), 1);
}

static void kva_collect(fxi_kv *kv, fxi_kv_snapshot *to)
{
    const kv_vattention *k = batch_of(kv);
    group_view v = {.to = to, .n_rank = (uint32_t)k->n};
    const uint64_t row_bytes = k->layout.group[0].row_bytes / (uint64_t)k->n;
    for (int r = 0; r < k->n; r++)
        fxi_kv_snapshot_add_group(to, k->group_bytes, (int)(k->page_bytes / row_bytes), r);
    for (v.rank = 0; v.rank < v.n_rank; v.rank++)
        vt_va_each_group(k->va[v.rank], collect_group_state, &v);
    for (v.seq = 0; v.seq < to->n_seq; v.seq++) {
        const batch_row *row = (const batch_row *)to->seq[v.seq];
        for (v.rank = 0; (int)v.rank < row->n_held; v.rank++)
            vt_va_each_group_of(k->va[v.rank], row->reqid[v.rank], collect_group_place, &v);
    }
}

// ---- checks ------------------------------------------------------------------------------------

static const char *check_seq_row(const kv_vattention *k, uint32_t i)
{
    const batch_row *row = &k->row[i];
    const uint64_t n_group = n_group_for(k, k->len_tok[i]);
    if (k->len_tok[i] && (row->is_left || !row->n_held)) return "tokens of no sequence";
    if (row->n_held && row->reqid[0] != i) return "a row is not that of its request";
    if (row->n_held && !row->is_left && row->n_held != k->n) return "a rank has no request";
    for (int r = 0; r < row->n_held; r++) {
        const vt_va_request has = vt_va_look(k->va[r], row->reqid[r]);
        if (!has.is_active) return "a sequence is not a request";
        if (n_group > has.n_mapped) return "a sequence has lost memory";
        if (n_group > has.n_given) return "a sequence may lose memory";
    }
    return NULL;
}

static const char *check_rows(const kv_vattention *k)
{
    uint64_t live_tok = 0, n_held = 0, n_active = 0;
    int n_left = 0;
    for (uint32_t i = 0; i < (uint32_t)k->max_seq; i++) {
        const char *what = check_seq_row(k, i);
        if (what) return what;
        live_tok += k->len_tok[i];
        n_left += k->row[i].is_left;
        n_held += (uint64_t)k->row[i].n_held;
    }
    for (int r = 0; r < k->n; r++) {
        vt_va_stats st;
        vt_va_get_stats(k->va[r], &st);
        n_active += st.requests_active;
        if (st.groups_budget != k->budget_bytes / (uint64_t)k->n / k->group_bytes)
            return "a rank has another budget";
    }
    if (n_active != n_held) return "a request is not a sequence";
    if (n_left != k->n_left) return "rows that are left are counted wrong";
    return live_tok == k->live_tok ? NULL : "live tokens are counted wrong";
}

static fx_status kva_check(fxi_kv *kv, const char **what)
{
    const kv_vattention *k = batch_of(kv);
    for (int r = 0; r < k->n; r++) {
        const vt_status st = vt_va_check(k->va[r], what);
        if (st != VT_OK) return fxi_kv_status_of(st);
    }
    *what = check_rows(k);
    return *what ? FX_EINVAL : FX_OK;
}

#define BATCH_OPS(name_, elastic_, set_budget_, trim_)                                            \
    {                                                                                             \
        .name = name_, .caps = (elastic_) | FXI_KV_ZEROED, .struct_bytes = sizeof(kv_vattention), \
        .open = kva_open, .close = kva_close, .seq_create = kva_seq_create,                       \
        .seq_extend = kva_seq_extend, .seq_extend_many = kva_seq_extend_many,                     \
        .seq_truncate = kva_seq_truncate, .seq_release = kva_seq_release,                         \
        .seq_views = kva_seq_views, .bytes_for = kva_bytes_for, .cost = kva_cost,                 \
        .seq_growth = kva_seq_growth, .held = kva_held, .step = kva_step,                         \
        .set_budget = set_budget_, .trim = trim_, .stats = kva_stats,                             \
        .driver_calls = kva_driver_calls, .collect = kva_collect, .check = kva_check,             \
    }

const fxi_kv_ops fxi_kv_vattention =
    BATCH_OPS("vattention", FXI_KV_ELASTIC, kva_set_budget, kva_trim);
const fxi_kv_ops fxi_kv_vattention_mega =
    BATCH_OPS("vattention-mega", FXI_KV_ELASTIC, kva_set_budget, kva_trim);
const fxi_kv_ops fxi_kv_vattention_start = BATCH_OPS("vattention-start", 0, NULL, NULL);
