// kv_world.c - see kv_world.h.
#include "unit/kv/support/kv_world.h"

#include "unit/cmocka_all.h"
#include "unit/kv/support/kv_look.h"

#include <sched.h>
#include <string.h>

enum { ROW_BYTES = 192, WINDOW_TOK = 40 };

// ---- rows --------------------------------------------------------------------------------------

static uint64_t mix_hash(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t next_state(uint64_t state, int32_t tok)
{
    return mix_hash(state, (uint64_t)tok + 1);
}

static uint64_t row_word(uint64_t state, int group, int plane)
{
    return mix_hash(state, (uint64_t)(group * 64 + plane) + 1000);
}

static int n_device(void)
{
    return kv_world_n_rank ? kv_world_n_rank : 1;
}

// Whether a group has a row that is complete with token t; *row: which.
static bool has_row(const fxi_kv_group *g, int t, int *row)
{
    *row = g->is_state ? t / FXI_KV_STATE_TOK : t;
    return !g->is_state || (t + 1) % FXI_KV_STATE_TOK == 0;
}

// What a device has of it.
static size_t part_bytes(void)
{
    return ROW_BYTES / (size_t)n_device();
}

static char *part_of_row(const fxi_kv_views *v, int rank, int group, int plane, int tok)
{
    fxi_kv_view of = v->group[group];
    if (rank) of.base = v->rank_base[rank - 1][group];
    return fxi_kv_row(&of, plane, tok);
}

static bool is_filled(const char *row, uint64_t word)
{
    uint64_t got;
    for (size_t i = 0; i < part_bytes(); i += sizeof got) {
        memcpy(&got, row + i, sizeof got);
        if (got != word) return false;
    }
    return true;
}

static void write_rows(kv_world *w, const kv_world_seq *s, int from)
{
    const fxi_kv_views v = fxi_kv_get_views(w->kv, s->kv);
    uint64_t state = 1;
    for (int t = 0; t < s->len_tok; t++) {
        state = next_state(state, s->tok[t]);
        for (int g = 0, n; t >= from && g < w->layout.n_group; g++)
            for (int p = 0; p < w->layout.group[g].n_plane * n_device(); p++) {
                if (!has_row(&w->layout.group[g], t, &n)) continue;
                char *row = part_of_row(&v, p % n_device(), g, p / n_device(), n);
                if (fxi_kv_can(w->kv, FXI_KV_ZEROED) && t >= s->dirty_tok)
                    assert_true(is_filled(row, 0));
                const uint64_t word = row_word(state, g, p);
                for (size_t i = 0; i < part_bytes(); i += sizeof word)
                    memcpy(row + i, &word, sizeof word);
            }
    }
}

static void verify_rows(kv_world *w, int i)
{
    const kv_world_seq *s = &w->seq[i];
    const fxi_kv_views v = fxi_kv_get_views(w->kv, s->kv);
    uint64_t state = 1;
    for (int t = 0; t < s->len_tok; t++) {
        state = next_state(state, s->tok[t]);
        for (int g = 0, n; g < w->layout.n_group; g++) {
            const fxi_kv_group *gr = &w->layout.group[g];
            if (!has_row(gr, t, &n)) continue;
            if (t < v.group[g].first_tok) {
                // A token of a windowed group is not needed once window_tok - 1 others have come, a
                // state once the next one is complete.
                const int tok = gr->is_state ? FXI_KV_STATE_TOK : gr->window_tok;
                assert_false(!tok || t > s->len_tok - tok);
                continue;
            }
            for (int p = 0; p < gr->n_plane * n_device(); p++)
                if (!is_filled(part_of_row(&v, p % n_device(), g, p / n_device(), n),
                               row_word(state, g, p)))
                    fail_msg("%s: sequence %d: token %d in plane %d of group %d is not its own",
                             w->kv->ops->name, i, t, p / n_device(), g);
        }
    }
}

// ---- life --------------------------------------------------------------------------------------

size_t kv_world_page_bytes;
int kv_world_n_rank, kv_world_faulty_rank;

static vt_vmm *open_memory(void)
{
    vt_vmm *host;
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    vt_vmm *fault = vt_fault_open(host);
    vt_fault_set_granularity(fault, kv_world_page_bytes);
    return fault;
}

fxi_kv_shape kv_world_shape(uint64_t budget_bytes, bool windows)
{
    fxi_kv_shape s = {.layout = {1, {{.n_plane = 4, .row_bytes = ROW_BYTES}}},
                      .ctx_tok = KV_WORLD_CTX,
                      .step_tok = 64,
                      .max_seq = KV_WORLD_MAX_SEQ,
                      .budget_bytes = budget_bytes,
                      .swap_dir = "/tmp",
                      .swap_bytes = 4 << 20,
                      .single_thread = true};
    if (windows) {
        s.layout.n_group = 2;
        s.layout.group[1] =
            (fxi_kv_group){.n_plane = 2, .row_bytes = ROW_BYTES, .window_tok = WINDOW_TOK};
    }
    return s;
}

void kv_world_add_states(fxi_kv_shape *s)
{
    s->layout.group[s->layout.n_group++] =
        (fxi_kv_group){.n_plane = 2, .row_bytes = ROW_BYTES, .is_state = true};
}

fx_status kv_world_open_kv(const char *manager, const fxi_kv_shape *shape, fxi_kv **out,
                           fx_error *err)
{
    const fxi_kv_ops *ops = fxi_kv_reserve_find(manager);
    return ops ? fxi_kv_open_with(ops, shape, out, err) : fxi_kv_open(manager, shape, out, err);
}

bool kv_world_can(const char *manager, fxi_kv_cap cap)
{
    const fxi_kv_shape shape = kv_world_shape(1 << 20, false);
    fxi_kv *kv;
    assert_int_equal(kv_world_open_kv(manager, &shape, &kv, NULL), FX_OK);
    const bool can = fxi_kv_can(kv, cap);
    fxi_kv_close(kv);
    return can;
}

void kv_world_open(kv_world *w, const char *manager, const fxi_kv_shape *shape)
{
    fx_error err = {0};
    fxi_kv_shape s = *shape;
    memset(w, 0, sizeof *w);
    if (fxi_kv_state_bytes(&s.layout) && !kv_world_can(manager, FXI_KV_STATES)) s.layout.n_group--;
    s.n_rank = kv_world_n_rank;
    for (int k = 0; k < s.n_rank; k++) s.rank_vmm[k] = open_memory();
    if (s.n_rank)
        w->fault = s.rank_vmm[kv_world_faulty_rank];
    else if (!s.vmm)
        s.vmm = w->fault = open_memory();
    w->layout = s.layout;
    w->is_single = s.single_thread;
    if (kv_world_open_kv(manager, &s, &w->kv, &err) != FX_OK) fail_msg("%s: %s", manager, err.text);
    if (!fxi_kv_can(w->kv, FXI_KV_PREFIX)) return;
    for (int d = 0; d < KV_WORLD_N_DOMAIN; d++) {
        const char key = (char)('a' + d);
        assert_int_equal(fxi_kv_domain_open(w->kv, &key, 1, &w->domain[d]), FX_OK);
    }
}

static void go_on(kv_world *w)
{
    fxi_kv_step(w->kv, 0, w->now_ms);
    if (!w->is_single) (void)sched_yield();
}

void kv_world_close(kv_world *w)
{
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        if (w->seq[i].kv) kv_world_release(w, i);
    while (!w->is_single && fxi_kv_held_bytes(w->kv)) go_on(w); // what its thread reads still
    kv_world_verify(w);
    fxi_kv_stats st;
    fxi_kv_get_stats(w->kv, &st);
    assert_int_equal(st.held_bytes, 0);
    assert_int_equal(st.live_bytes, 0);
    assert_int_equal(st.swapped_bytes, 0);
    for (int d = 0; d < KV_WORLD_N_DOMAIN; d++)
        if (w->domain[d]) fxi_kv_domain_close(w->kv, w->domain[d]);
    fxi_kv_close(w->kv);
}

// ---- calls -------------------------------------------------------------------------------------

static bool some_move(const kv_world *w)
{
    int i = 0;
    while (i < KV_WORLD_MAX_SEQ && !w->seq[i].is_moving) i++;
    return i < KV_WORLD_MAX_SEQ;
}

// A call that fails may have freed what an earlier one left, or what a window has passed. Beside a
// thread, a sequence that comes back from the swap gets its memory meanwhile.
static void expect_no_more_held(const kv_world *w, uint64_t bytes)
{
    const uint64_t held = fxi_kv_held_bytes(w->kv);
    if (held > bytes && (w->is_single || !some_move(w)))
        fail_msg("%s: a call has failed, and %llu bytes more are held", w->kv->ops->name,
                 (unsigned long long)(held - bytes));
}

fx_status kv_world_create(kv_world *w, int i, const fxi_kv_expect *expect)
{
    kv_world_seq *s = &w->seq[i];
    assert_null(s->kv);
    const uint64_t held = fxi_kv_held_bytes(w->kv);
    const fx_status st = fxi_kv_create(w->kv, expect, &s->kv);
    assert_int_equal(st == FX_OK, s->kv != NULL);
    if (st != FX_OK) expect_no_more_held(w, held);
    s->len_tok = s->was_tok = 0;
    return st;
}

int kv_world_longest(const kv_world *w, int domain, const int32_t *tok, int n_tok)
{
    int longest = 0;
    for (int r = 0; r < w->n_record; r++) {
        const kv_world_record *rec = &w->record[r];
        int n = 0;
        if (rec->domain != domain) continue;
        while (n < rec->n_tok && n < n_tok && rec->tok[n] == tok[n]) n++;
        if (n > longest) longest = n;
    }
    return longest;
}

static bool any_alive(const kv_world *w)
{
    bool any = false;
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++) any |= w->seq[i].kv && w->seq[i].len_tok;
    return any;
}

// Less than a block may be missing at the end, if the manager is not EXACT, or if a sequence may
// still write there.
static void check_hit(const kv_world *w, int domain, const int32_t *tok, int n_tok, int hit)
{
    enum { BLOCK_TOK = 64 };
    const int longest = kv_world_longest(w, domain, tok, n_tok);
    assert_true(hit >= 0 && hit <= longest);
    if (w->is_lossy || w->layout.n_group > 1) return;
    assert_true(longest - hit < BLOCK_TOK);
    if (fxi_kv_can(w->kv, FXI_KV_EXACT) && !any_alive(w)) assert_int_equal(hit, longest);
}

fx_status kv_world_match(kv_world *w, int i, int domain, const int32_t *tok, int n_tok, int *n_hit)
{
    kv_world_seq *s = &w->seq[i];
    const fxi_kv_expect expect = {.begin_tok = n_tok};
    assert_null(s->kv);
    const int peek = fxi_kv_peek(w->kv, w->domain[domain], tok, n_tok);
    const fx_status st = fxi_kv_match(w->kv, w->domain[domain], tok, n_tok, &expect, &s->kv, n_hit);
    assert_int_equal(st == FX_OK, s->kv != NULL);
    s->len_tok = s->was_tok = 0;
    if (st != FX_OK) return st;
    assert_true(*n_hit <= peek);
    check_hit(w, domain, tok, n_tok, *n_hit);
    memcpy(s->tok, tok, (size_t)*n_hit * sizeof *tok);
    s->len_tok = s->was_tok = s->shared_tok = *n_hit;
    return FX_OK;
}

static void grow_to(kv_world *w, kv_world_seq *s, int len_tok, const int32_t *tok)
{
    const int from = s->len_tok;
    s->was_tok = from;
    if (len_tok <= from) return;
    assert_true(memcmp(tok, s->tok, (size_t)from * sizeof *tok) == 0);
    memcpy(s->tok, tok, (size_t)len_tok * sizeof *tok);
    s->len_tok = len_tok;
    write_rows(w, s, from);
}

fx_status kv_world_extend(kv_world *w, int i, int len_tok, const int32_t *tok)
{
    const uint64_t held = fxi_kv_held_bytes(w->kv);
    const fx_status st = fxi_kv_extend(w->kv, w->seq[i].kv, len_tok);
    if (st == FX_OK)
        grow_to(w, &w->seq[i], len_tok, tok);
    else
        expect_no_more_held(w, held);
    return st;
}

fx_status kv_world_extend_many(kv_world *w, const int *which, const int *len_tok,
                               const int32_t *const *tok, int n)
{
    fxi_kv_seq *s[KV_WORLD_MAX_SEQ];
    int n_done = -1;
    for (int k = 0; k < n; k++) s[k] = w->seq[which[k]].kv;
    const fx_status st = fxi_kv_extend_many(w->kv, s, len_tok, n, &n_done);
    assert_in_range(n_done, 0, n);
    assert_int_equal(st == FX_OK, n_done == n);
    for (int k = 0; k < n_done; k++) grow_to(w, &w->seq[which[k]], len_tok[k], tok[k]);
    return st;
}

fx_status kv_world_truncate(kv_world *w, int i, int len_tok)
{
    kv_world_seq *s = &w->seq[i];
    const fx_status st = fxi_kv_truncate(w->kv, s->kv, len_tok);
    if (st != FX_OK || len_tok >= s->len_tok) return st;
    if (s->dirty_tok < s->len_tok) s->dirty_tok = s->len_tok;
    s->len_tok = len_tok;
    return FX_OK;
}

fx_status kv_world_fork(kv_world *w, int from, int to, int len_tok)
{
    kv_world_seq *s = &w->seq[to];
    assert_null(s->kv);
    const fx_status st = fxi_kv_fork(w->kv, w->seq[from].kv, len_tok, &s->kv);
    assert_int_equal(st == FX_OK, s->kv != NULL);
    if (st != FX_OK) return st;
    memcpy(s->tok, w->seq[from].tok, (size_t)len_tok * sizeof *s->tok);
    s->len_tok = s->was_tok = s->shared_tok = len_tok;
    if (w->seq[from].shared_tok < len_tok) w->seq[from].shared_tok = len_tok;
    s->dirty_tok = w->seq[from].dirty_tok;
    return FX_OK;
}

fx_status kv_world_record_seq(kv_world *w, int i, int domain, int n_tok)
{
    kv_world_seq *s = &w->seq[i];
    const fxi_kv_keep keep = {0};
    if (s->shared_tok < n_tok) s->shared_tok = n_tok;
    const fx_status st = fxi_kv_record(w->kv, s->kv, w->domain[domain], s->tok, n_tok, &keep);
    if (st != FX_OK) return st;
    if (w->n_record == KV_WORLD_MAX_RECORD) { // the oldest make room
        memmove(w->record, w->record + 1, sizeof w->record - sizeof *w->record);
        w->n_record--;
        w->is_lossy = true;
    }
    kv_world_record *rec = &w->record[w->n_record++];
    *rec = (kv_world_record){.domain = domain, .n_tok = n_tok};
    memcpy(rec->tok, s->tok, (size_t)n_tok * sizeof *s->tok);
    return FX_OK;
}

void kv_world_step(kv_world *w, int ahead_tok, uint64_t now_ms)
{
    w->now_ms = now_ms;
    fxi_kv_step(w->kv, ahead_tok, now_ms);
}

fx_status kv_world_swap_ask(kv_world *w, int i, bool out)
{
    kv_world_seq *s = &w->seq[i];
    const fx_status st = (out ? fxi_kv_swap_out : fxi_kv_swap_in)(w->kv, s->kv, &s->is_moving);
    if (st == FX_OK)
        s->is_out = s->is_moving || out;
    else
        s->is_moving = s->is_out; // the way that it was on may go on
    return st;
}

// One that fails on its way out is where it was, or still out, if work ahead has taken its memory:
// a swap_in tells.
static fx_status swap_whole(kv_world *w, int i, bool out)
{
    kv_world_seq *s = &w->seq[i];
    fx_status st = kv_world_swap_ask(w, i, out);
    const bool has_moved = s->is_moving;
    while (st == FX_OK && s->is_moving) {
        go_on(w);
        st = kv_world_swap_ask(w, i, out);
    }
    if (st != FX_OK && out && has_moved) (void)kv_world_swap_ask(w, i, false);
    return st;
}

fx_status kv_world_swap_out(kv_world *w, int i)
{
    return swap_whole(w, i, true);
}

fx_status kv_world_swap_in(kv_world *w, int i)
{
    return swap_whole(w, i, false);
}

void kv_world_release(kv_world *w, int i)
{
    fxi_kv_release(w->kv, w->seq[i].kv);
    w->seq[i] = (kv_world_seq){0};
}

fx_status kv_world_forget(kv_world *w)
{
    w->is_lossy = true;
    return fxi_kv_forget_idle(w->kv);
}

// ---- what holds at any time --------------------------------------------------------------------

static void verify_sums(kv_world *w)
{
    fxi_kv_stats st;
    uint64_t live_tok = 0, out_tok = 0; // of what is out, a part may still be in memory
    fxi_kv_get_stats(w->kv, &st);
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        *(w->seq[i].is_out ? &out_tok : &live_tok) += (uint64_t)w->seq[i].len_tok;
    const uint64_t held = st.used_bytes + st.reserved_bytes + st.internal_bytes + st.external_bytes;
    assert_int_equal(st.held_bytes, held);
    assert_int_equal(st.mapped_bytes, held + st.cached_bytes + st.spare_bytes);
    assert_true(st.usable_bytes <= st.budget_bytes);
    assert_true(st.mapped_bytes <= st.budget_bytes);
    assert_true(held + st.cached_bytes <= st.usable_bytes);
    assert_true(st.peak_mapped_bytes >= st.mapped_bytes);
    assert_true(st.peak_live_bytes >= st.live_bytes);
    if (w->layout.n_group > 1) return; // rows behind a window are not counted
    const uint64_t tok_bytes = fxi_kv_tok_bytes(&w->layout);
    assert_in_range(st.live_bytes, live_tok * tok_bytes, (live_tok + out_tok) * tok_bytes);
    if (!out_tok) assert_true(st.used_bytes <= st.live_bytes);
}

void kv_world_verify(kv_world *w)
{
    const char *what = "no answer";
    for (int i = 0; i < KV_WORLD_MAX_SEQ; i++)
        if (w->seq[i].kv && !w->seq[i].is_out) verify_rows(w, i);
    verify_sums(w);
    if (fxi_kv_check(w->kv, &what) != FX_OK) fail_msg("%s: %s", w->kv->ops->name, what);
    kv_look_verify(w);
}
