// family.c - see family.h. It uses the internals of the manager for one thing: what a sequence has
// mapped after its own chunks must read as zero as well.
#include "assert_vt.h"

#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "router.h"
#include "standin_assert.h"
#include "vtensor/core/manager.h"
#include "walk.h"

// splitmix64
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t family_draw(family *f, uint64_t below)
{
    return mix(f->rng += 0x9e3779b97f4a7c15u) % below;
}

uint32_t family_token(family *f)
{
    return family_draw(f, 12) > 0 ? 0 : (uint32_t)family_draw(f, 3);
}

// ---- What must be read

// Of the tokens [0, n_tok).
static uint64_t path_of(const kin *k, uint32_t n_tok)
{
    uint64_t h = k->domain + 7;
    for (uint32_t t = 0; t < n_tok; t++) h = mix(h * 31 + k->tok[t] + 1);
    return h;
}

static uint8_t byte_of(uint64_t path, uint32_t plane, size_t i)
{
    return (uint8_t)(mix(path + plane * 1000003u + i) >> 13) | 1; // never zero
}

uint32_t family_row_tok(const family *f, uint32_t plane)
{
    const vt_group *g = &f->of_plane[plane];
    return g->kind == VT_GROUP_BLOCKS ? g->window_tok : 1;
}

// Where the row of a token is.
uint8_t *family_row(const family *f, const kin *k, uint32_t plane, uint32_t tok)
{
    return (uint8_t *)vt_seq_plane(k->s, plane) +
           tok / family_row_tok(f, plane) * vt_plane_stride(f->m, plane);
}

static bool is_state(const family *f, uint32_t plane)
{
    return f->of_plane[plane].kind == VT_GROUP_STATE;
}

uint32_t family_needed_from(const family *f, const kin *k, uint32_t plane)
{
    const uint32_t window = f->of_plane[plane].window_tok, row = family_row_tok(f, plane);
    if (row > 1) return k->from_tok < row ? 0 : (k->from_tok / row - 1) * row;
    return window > 0 && k->from_tok > window - 1 ? k->from_tok - (window - 1) : 0;
}

static void verify_row(const family *f, const kin *k, uint32_t plane, uint32_t tok, uint64_t path)
{
    const uint8_t *row = family_row(f, k, plane, tok);
    for (size_t i = 0; i < f->of_plane[plane].row_bytes; i++)
        if (row[i] != byte_of(path, plane, i))
            fail_msg("sequence %d, token %u of %u, plane %u, byte %zu", (int)(k - f->kin), tok,
                     k->len_tok, plane, i);
}

// Queued copies and wiping are done before the test looks.
static void await_device(const family *f)
{
    uint64_t ticket;
    bool is_passed;
    if (f->setup.backend != ON_CUDA) return;
    assert_ok(f->inner->ops->fence(f->inner, &ticket));
    assert_ok(f->inner->ops->passed(f->inner, ticket, true, &is_passed));
}

static void verify_plane(const family *f, const kin *k, uint32_t plane)
{
    uint32_t front = vt_seq_front(k->s, plane);
    uint64_t path = path_of(k, 0);
    assert_true(front <= family_needed_from(f, k, plane));
    if (f->setup.backend == ON_FAKE || k->len_tok == 0) return;
    if (is_state(f, plane)) verify_row(f, k, plane, 0, path_of(k, k->len_tok));
    const uint32_t row = family_row_tok(f, plane);
    for (uint32_t t = 0; t < k->len_tok && !is_state(f, plane); t++) {
        path = mix(path * 31 + k->tok[t] + 1);
        if (t >= front && (t + 1) % row == 0) verify_row(f, k, plane, t, path);
    }
}

static void verify_bytes(const family *f, const kin *k)
{
    await_device(f);
    for (uint32_t p = 0; p < f->n_plane; p++) verify_plane(f, k, p);
}

static bool reads_zero(const family *f, const uint8_t *at, size_t size_bytes)
{
    if (f->setup.backend == ON_FAKE) return vt_fake_is_zero(f->inner, (uintptr_t)at, size_bytes);
    for (size_t i = 0; i < size_bytes; i++)
        if (at[i] != 0) return false;
    return true;
}

static void write_row(const family *f, uint8_t *row, uint32_t plane, uint64_t path)
{
    size_t row_bytes = f->of_plane[plane].row_bytes;
    if (f->setup.backend == ON_FAKE) vt_fake_touch(f->inner, (uintptr_t)row, row_bytes);
    for (size_t i = 0; i < row_bytes && f->setup.backend != ON_FAKE; i++)
        row[i] = byte_of(path, plane, i);
}

// What was extended, and a state that begins, reads as zero.
static void verify_zero(const family *f, const kin *k, uint32_t plane, uint32_t first)
{
    const uint32_t row = family_row_tok(f, plane), begin = (first + row) / row * row - 1;
    for (uint32_t t = begin; t < (is_state(f, plane) ? first == 0 : k->len_tok); t += row)
        if (!reads_zero(f, family_row(f, k, plane, t), f->of_plane[plane].row_bytes))
            fail_msg("token %u, plane %u is not zero", t, plane);
}

static void write_rows(const family *f, const kin *k, uint32_t first)
{
    await_device(f);
    for (uint32_t p = 0; p < f->n_plane; p++) verify_zero(f, k, p, first);
    for (uint32_t p = 0; p < f->n_plane; p++) {
        if (is_state(f, p)) write_row(f, family_row(f, k, p, 0), p, path_of(k, k->len_tok));
        for (uint32_t t = first; t < k->len_tok && !is_state(f, p); t++)
            if ((t + 1) % family_row_tok(f, p) == 0)
                write_row(f, family_row(f, k, p, t), p, path_of(k, t + 1));
    }
}

// After a sequence's own chunks there are zeroes, but for what it has cut off itself and what the
// device has failed to wipe, which waits to be unmapped.
static void verify_clean(const family *f, const kin *k)
{
    const vti_geo *geo = &f->m->geo;
    const vti_span *sp = k->s->span;
    bool is_known =
        f->setup.mapper == VT_MAPPER_OWNER && !vt_seq_is_swapped(k->s) && !vt_seq_is_lost(k->s);
    if (!is_known) return;
    await_device(f);
    for (uint32_t g = 0; g < geo->n_group; g++) {
        const vti_lane *l = &sp->lane[g];
        size_t slice = geo->group[g].slice_bytes;
        for (uint32_t p = l->n_owned; p < l->n_end && !l->needs_zeroing; p++) {
            size_t own = l->dirty_end > p * slice ? l->dirty_end - p * slice : 0;
            if (l->at[p] == VTI_NO_CHUNK || own >= slice) continue;
            for (uint32_t v = 0; v < geo->group[g].n_view; v++) {
                const uint8_t *at = (const uint8_t *)vti_lane_addr(geo, sp, g, v, p);
                assert_true(reads_zero(f, at + own, slice - own));
            }
        }
    }
}

// ---- Opening and closing

static vt_vmm *open_host(family *f)
{
    (void)f;
    vt_vmm *vmm = NULL;
    assert_status(VT_OK, vt_vmm_host_open(&vmm));
    return vmm;
}

static vt_vmm *open_fake(family *f)
{
    vt_vmm *vmm = vt_fake_open();
    assert_non_null(vmm);
    vt_fake_set_epitaph(vmm, &f->end);
    if (f->setup.max_runs > 0) vt_fake_set_max_runs(vmm, f->setup.max_runs);
    vt_fake_set_async(vmm, f->setup.device);
    return vmm;
}

static vt_vmm *open_cuda(family *f)
{
    (void)f;
    vt_vmm *vmm = NULL;
    vt_vmm_cuda_config cfg = {.device = 0, .stream = NULL};
    standin_reset();
    standin_use_context(0);
    assert_status(VT_OK, vt_vmm_cuda_open(&cfg, &vmm, NULL));
    return vmm;
}

static uint64_t times(uint64_t n, size_t chunk_bytes)
{
    return n == UINT64_MAX ? UINT64_MAX : n * chunk_bytes;
}

static void count_planes(family *f)
{
    const family_setup *setup = &f->setup;
    const vt_group plain = {.n_plane = setup->n_plane, .row_bytes = setup->row_bytes};
    for (uint32_t g = 0; g < (setup->n_group ? setup->n_group : 1); g++) {
        const vt_group *from = setup->n_group ? &setup->group[g] : &plain;
        f->has_state |= from->kind == VT_GROUP_STATE;
        f->has_window |= from->window_tok > 0;
        for (uint32_t p = 0; p < from->n_plane; p++) f->of_plane[f->n_plane++] = *from;
    }
}

static vt_config config_of(const family *f)
{
    const family_setup *setup = &f->setup;
    vt_config cfg = vt_config_default();
    cfg.n_plane = setup->n_plane;
    cfg.row_bytes = setup->row_bytes;
    cfg.n_group = setup->n_group;
    cfg.group = setup->group;
    cfg.max_tok = FAMILY_MAX_TOK;
    cfg.max_seq = setup->n_seq;
    cfg.layout = setup->layout;
    cfg.view_planes = setup->view_planes;
    cfg.mapper = setup->mapper;
    cfg.slice_bytes = setup->slice_pages * f->inner->ops->granularity(f->inner);
    cfg.budget_bytes = times(setup->budget_chunks, f->chunk_bytes);
    if (setup->plain && setup->budget_chunks != UINT64_MAX)
        cfg.budget_bytes += f->chunk_bytes / 2; // too little for one
    cfg.spare_low_bytes = setup->low_chunks * f->chunk_bytes;
    if (setup->high_chunks > 0) cfg.spare_high_bytes = setup->high_chunks * f->chunk_bytes;
    if (setup->high_chunks == UINT64_MAX) cfg.spare_high_bytes = 0;
    cfg.swap_bytes = setup->swap_chunks * f->chunk_bytes;
    cfg.swap_dir = "/tmp";
    cfg.n_event = setup->n_group ? ROUTER_N_EVENT : 0;
    cfg.vmm = f->fault;
    return cfg;
}

void family_open(family *f, const family_setup *setup, uint64_t seed)
{
    static vt_vmm *(*const open[N_BACKEND])(family *) = {open_host, open_fake, open_cuda};
    *f = (family){.setup = *setup, .rng = seed, .n_domain = setup->n_group ? 1 : FAMILY_N_DOMAIN};
    f->inner = open[setup->backend](f);
    f->fault = vt_fault_open(f->inner);
    assert_non_null(f->fault);
    count_planes(f);
    const uint32_t n_view = setup->layout == VT_LAYOUT_SPLIT ? f->n_plane
                            : setup->n_group                 ? setup->n_group
                                                             : 1;
    f->chunk_bytes = n_view * setup->slice_pages * f->inner->ops->granularity(f->inner);
    const vt_config cfg = config_of(f);
    assert_status(VT_OK, vt_manager_create(&cfg, &f->m));
    if (setup->n_group) router_open(f->m, setup->n_group, setup->group);
    for (uint32_t d = 0; d < f->n_domain; d++)
        assert_status(VT_OK, vt_domain_open(f->m, &d, sizeof d, &f->domain[d]));
}

void family_close(family *f)
{
    vt_fault_disarm(f->fault);
    for (uint32_t d = 0; d < f->n_domain; d++) vt_domain_close(f->domain[d]);
    vt_manager_destroy(f->m);
    if (f->setup.backend == ON_CUDA) standin_assert_empty();
    if (f->setup.backend != ON_FAKE) return;
    if (f->end.violation) fail_msg("the contract is broken: %s", f->end.violation);
    assert_int_equal(f->end.reserved_bytes, 0);
    assert_int_equal(f->end.n_created, 0);
    assert_int_equal(f->end.n_mapped, 0);
}

// ---- Operations

static void born(kin *k, uint32_t domain, uint32_t len_tok)
{
    k->domain = domain;
    k->len_tok = k->from_tok = len_tok;
    k->n_pending = 0;
    k->is_busy = false;
}

vt_status family_create(family *f, uint32_t i, uint32_t expect_tok)
{
    kin *k = &f->kin[i];
    assert_null(k->s);
    vt_status st = vt_seq_create(f->m, expect_tok, &k->s);
    assert_true((st == VT_OK) == (k->s != NULL));
    if (st != VT_OK) return st;
    born(k, i % f->n_domain, 0);
    verify_clean(f, k);
    return VT_OK;
}

vt_status family_match(family *f, uint32_t i, const uint32_t *tok, uint32_t n_tok)
{
    kin *k = &f->kin[i];
    uint32_t n_hit = 0, domain = i % f->n_domain;
    assert_null(k->s);
    uint32_t expect = vt_match(f->domain[domain], tok, n_tok);
    vt_status st = vt_seq_match(f->domain[domain], tok, n_tok, 0, &k->s, &n_hit);
    assert_true((st == VT_OK) == (k->s != NULL));
    if (st != VT_OK) return st;
    assert_int_equal(n_hit, expect);
    assert_int_equal(n_hit, vt_seq_len(k->s));
    born(k, domain, n_hit);
    memcpy(k->tok, tok, n_hit * sizeof *tok);
    verify_bytes(f, k);
    return VT_OK;
}

vt_status family_extend(family *f, uint32_t i, uint32_t len_tok)
{
    kin *k = &f->kin[i];
    uint32_t had = k->len_tok;
    void *base = vt_seq_plane(k->s, 0);
    bool is_free =
        len_tok <= vt_seq_backed(k->s) && !vt_seq_is_swapped(k->s) && !vt_seq_is_lost(k->s);
    uint64_t n_call = vt_fault_calls(f->fault);
    bool threaded = f->setup.mapper == VT_MAPPER_THREAD;
    vt_status st = vt_seq_extend(k->s, len_tok);
    assert_ptr_equal(base, vt_seq_plane(k->s, 0));
    k->is_busy = st == VT_BUSY || (k->is_busy && st != VT_OK);
    if (is_free) assert_true(st == VT_OK && (threaded || vt_fault_calls(f->fault) == n_call));
    verify_clean(f, k);
    if (st != VT_OK) return st;
    assert_true(vt_seq_backed(k->s) >= len_tok);
    if (len_tok <= had) return VT_OK;
    k->from_tok = had;
    while (k->len_tok < len_tok) k->tok[k->len_tok++] = family_token(f);
    write_rows(f, k, had);
    return VT_OK;
}

vt_status family_grow(family *f, uint32_t i, uint32_t n_more)
{
    return family_extend(f, i, f->kin[i].len_tok + n_more);
}

void family_grown(family *f, uint32_t i, uint32_t n_tok)
{
    assert_ok(family_create(f, i, 0));
    if (n_tok > 0) assert_ok(family_grow(f, i, n_tok));
}

vt_status family_fork(family *f, uint32_t i, uint32_t child, uint32_t len_tok)
{
    kin *k = &f->kin[i], *c = &f->kin[child];
    assert_null(c->s);
    vt_status st = vt_seq_fork(k->s, len_tok, &c->s);
    assert_true((st == VT_OK) == (c->s != NULL));
    if (st != VT_OK) return st;
    born(c, k->domain, len_tok);
    memcpy(c->tok, k->tok, sizeof k->tok);
    verify_bytes(f, c);
    return VT_OK;
}

vt_status family_cut(family *f, uint32_t i, uint32_t len_tok)
{
    kin *k = &f->kin[i];
    vt_status st = vt_seq_truncate(k->s, len_tok);
    if (st == VT_OK && len_tok < k->len_tok) k->len_tok = len_tok;
    if (k->from_tok > k->len_tok) k->from_tok = k->len_tok;
    if (k->n_pending > k->len_tok) k->n_pending = k->len_tok;
    assert_int_equal(vt_seq_len(k->s), k->len_tok);
    return st;
}

// Of a token, in each view of a chunk.
static size_t row_bytes_of(const family *f)
{
    return f->setup.row_bytes * (f->setup.layout == VT_LAYOUT_SPLIT ? 1 : f->setup.n_plane);
}

static size_t slice_bytes_of(const family *f)
{
    return f->chunk_bytes / (f->setup.layout == VT_LAYOUT_SPLIT ? f->setup.n_plane : 1);
}

uint64_t family_chunks_for(const family *f, uint32_t len_tok)
{
    if (f->setup.n_group) return 0;
    return (len_tok * row_bytes_of(f) + slice_bytes_of(f) - 1) / slice_bytes_of(f);
}

// While a sequence lives, blocks in full chunks can be matched, and what follows when it ends.
static uint32_t shared_at_once(const family *f, const kin *k, uint32_t n_tok)
{
    uint32_t block = (uint32_t)family_stats(f).block_tok, n = n_tok - n_tok % block;
    uint64_t full = k->len_tok * row_bytes_of(f) / slice_bytes_of(f);
    while (n > 0 && family_chunks_for(f, n) > full) n -= block;
    return n;
}

vt_status family_record(family *f, uint32_t i, uint32_t n_tok, const vt_retention *keep)
{
    kin *k = &f->kin[i];
    vt_status st = vt_seq_record(k->s, f->domain[k->domain], k->tok, n_tok, keep);
    if (st == VT_EINVAL || n_tok == 0) return st;
    k->n_pending = st == VT_OK ? n_tok : 0;
    if (st != VT_OK || f->setup.n_group) return st;
    assert_true(vt_match(f->domain[k->domain], k->tok, n_tok) >= shared_at_once(f, k, n_tok));
    return st;
}

// A release evicts nothing, so all that it records is found at once.
static void verify_recorded(const family *f, const kin *k)
{
    uint32_t n_hit = vt_match(f->domain[k->domain], k->tok, k->n_pending);
    vt_stats st = family_stats(f);
    if (n_hit < k->n_pending && !f->faulty && !f->setup.n_group)
        fail_msg(
            "operation %u: the release of sequence %d, of %u tokens, recorded %u of %u; device "
            "errors: %d, quarantined spans: %d",
            f->n_step, (int)(k - f->kin), k->len_tok, n_hit, k->n_pending, (int)st.device_errors,
            (int)st.quarantined_spans);
}

void family_release(family *f, uint32_t i)
{
    kin *k = &f->kin[i];
    bool is_whole = !vt_seq_is_swapped(k->s) && !vt_seq_is_lost(k->s);
    bool is_told = k->n_pending > 0 && is_whole;
    if (is_told) {
        family_tell(f, k->domain, k->tok, k->n_pending);
        tales *t = &f->told[k->domain];
        if (!t->full)
            t->at[t->n - 1].has_end = t->at[t->n - 1].is_sure = k->n_pending == k->len_tok;
    }
    vt_seq_release(k->s);
    k->s = NULL;
    if (is_told) verify_recorded(f, k);
    f->n_moving -= k->is_moving;
    k->is_moving = false;
}

void family_tell(family *f, uint32_t domain, const uint32_t *tok, uint32_t n_tok)
{
    tales *t = &f->told[domain];
    if (t->n == 0) t->had_evicted = family_stats(f).prefix_evicted;
    t->full |= t->n == FAMILY_MAX_TALE;
    if (t->full) return;
    tale *new = &t->at[t->n++];
    *new = (tale){.by = f->step_name ? f->step_name : "", .in_step = f->n_step, .n_tok = n_tok};
    memcpy(new->tok, tok, n_tok * sizeof *tok);
}

// ---- Everything

vt_stats family_stats(const family *f)
{
    vt_stats st;
    vt_get_stats(f->m, &st);
    return st;
}

// What a sequence has in planes without a window; of one that has one, it has at least nothing.
static uint64_t live_bytes_of(const family *f, const kin *k)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < f->n_plane && k->len_tok > 0; p++)
        if (f->of_plane[p].window_tok == 0)
            n += f->of_plane[p].row_bytes * (is_state(f, p) ? 1 : k->len_tok);
    return n;
}

static void verify_sums(const family *f, uint64_t n_seq, uint64_t live_bytes, uint64_t n_chunk)
{
    vt_stats st = family_stats(f);
    assert_int_equal(st.seqs, n_seq);
    assert_true(f->has_window ? st.live_bytes >= live_bytes : st.live_bytes == live_bytes);
    assert_int_equal(st.chunks_created,
                     st.chunks_owned + st.chunks_shared + st.chunks_cached + st.chunks_spare);
    assert_int_equal(st.mapped_bytes,
                     st.owned_bytes + st.shared_bytes + st.cached_bytes + st.spare_bytes);
    if (!f->setup.n_group) assert_int_equal(st.mapped_bytes, st.chunks_created * st.chunk_bytes);
    assert_true(st.mapped_bytes <= st.budget_bytes ||
                st.mapped_bytes - st.budget_bytes <= st.returning_bytes);
    if (f->setup.plain && st.quarantined_spans == 0) {
        assert_int_equal(st.chunks_owned, n_chunk);
        assert_int_equal(st.slack_bytes, n_chunk * st.chunk_bytes - st.live_bytes);
    }
    assert_true(st.mapped_bytes <= st.peak_mapped_bytes);
    assert_true(st.mappings <= st.max_mappings && st.live_bytes <= st.peak_live_bytes);
}

void family_look(family *f)
{
    for (uint32_t i = 0; i < FAMILY_MAX_SEQ; i++) {
        const kin *k = &f->kin[i];
        if (!k->s) continue;
        assert_int_equal(vt_seq_len(k->s), k->len_tok);
        if (vt_seq_is_swapped(k->s) || vt_seq_is_lost(k->s)) continue;
        verify_bytes(f, k);
        verify_clean(f, k);
    }
    if (f->setup.n_group) router_follow();
}

void family_verify(family *f)
{
    const char *what = NULL;
    uint64_t n_seq = 0, live_bytes = 0, n_chunk = 0;
    for (uint32_t i = 0; i < FAMILY_MAX_SEQ; i++) {
        if (!f->kin[i].s) continue;
        n_seq++;
        live_bytes += live_bytes_of(f, &f->kin[i]);
        n_chunk += family_chunks_for(f, f->kin[i].len_tok);
    }
    family_look(f);
    if (f->setup.n_group) {
        vt_snapshot *snap;
        router_verify(f->domain[0]);
        assert_ok(vt_snapshot_take(f->m, &snap));
        walk_verify(f->m, snap);
        vt_snapshot_free(snap);
    }
    // What a failing device has left of released sequences is let go of now, and nothing else is.
    if (f->setup.plain) assert_ok(vt_trim(f->m, UINT64_MAX, NULL));
    verify_sums(f, n_seq, live_bytes, n_chunk);
    if (vt_check(f->m, &what) != VT_OK) fail_msg("vt_check: %s", what);
    if (f->setup.backend != ON_FAKE) return;
    vt_fake_report now = vt_fake_look(f->inner);
    if (now.violation) fail_msg("the contract is broken: %s", now.violation);
}
