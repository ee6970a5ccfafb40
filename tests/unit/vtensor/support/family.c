// family.c - see family.h. It uses the internals of the manager for one thing: what a sequence has
// mapped after its own chunks must read as zero as well.
#include "assert_vt.h"

#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "standin_assert.h"
#include "vtensor/core/manager.h"

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

static uint8_t *row_of(const kin *k, uint32_t plane, uint32_t tok)
{
    return (uint8_t *)vt_seq_plane(k->s, plane) + tok * vt_seq_stride(k->s);
}

static void verify_row(const family *f, const kin *k, uint32_t plane, uint32_t tok, uint64_t path)
{
    const uint8_t *row = row_of(k, plane, tok);
    for (size_t i = 0; i < f->setup.row_bytes; i++)
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

static void verify_bytes(const family *f, const kin *k)
{
    if (f->setup.backend == ON_FAKE) return;
    await_device(f);
    uint64_t path = path_of(k, 0);
    for (uint32_t t = 0; t < k->len_tok; t++) {
        path = mix(path * 31 + k->tok[t] + 1);
        for (uint32_t p = 0; p < f->setup.n_plane; p++) verify_row(f, k, p, t, path);
    }
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
    if (f->setup.backend == ON_FAKE) {
        vt_fake_touch(f->inner, (uintptr_t)row, f->setup.row_bytes);
        return;
    }
    for (size_t i = 0; i < f->setup.row_bytes; i++) row[i] = byte_of(path, plane, i);
}

// What was extended reads as zero, and is written.
static void write_rows(const family *f, const kin *k, uint32_t first)
{
    await_device(f);
    for (uint32_t t = first; t < k->len_tok; t++) {
        uint64_t path = path_of(k, t + 1);
        for (uint32_t p = 0; p < f->setup.n_plane; p++) {
            uint8_t *row = row_of(k, p, t);
            if (!reads_zero(f, row, f->setup.row_bytes))
                fail_msg("token %u, plane %u is not zero", t, p);
            write_row(f, row, p, path);
        }
    }
}

// After a sequence's own chunks there are zeroes, but for what it has cut off itself and what the
// device has failed to wipe, which waits to be unmapped.
static void verify_clean(const family *f, const kin *k)
{
    const vti_geo *geo = &f->m->geo;
    const vti_span *sp = k->s->span;
    const vti_lane *l = &sp->lane[0];
    size_t slice = geo->group[0].slice_bytes;
    bool is_known = f->setup.mapper == VT_MAPPER_OWNER && !l->needs_zeroing &&
                    !vt_seq_is_swapped(k->s) && !vt_seq_is_lost(k->s);
    if (!is_known) return;
    await_device(f);
    for (uint32_t p = l->n_owned; p < l->n_end; p++) {
        size_t own = l->dirty_end > p * slice ? l->dirty_end - p * slice : 0;
        if (l->at[p] == VTI_NO_CHUNK || own >= slice) continue;
        for (uint32_t v = 0; v < geo->group[0].n_view; v++) {
            const uint8_t *at = (const uint8_t *)vti_lane_addr(geo, sp, 0, v, p);
            assert_true(reads_zero(f, at + own, slice - own));
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

void family_open(family *f, const family_setup *setup, uint64_t seed)
{
    static vt_vmm *(*const open[N_BACKEND])(family *) = {open_host, open_fake, open_cuda};
    *f = (family){.setup = *setup, .rng = seed};
    f->inner = open[setup->backend](f);
    f->fault = vt_fault_open(f->inner);
    assert_non_null(f->fault);
    vt_config cfg = vt_config_default();
    cfg.n_plane = setup->n_plane;
    cfg.row_bytes = setup->row_bytes;
    cfg.max_tok = FAMILY_MAX_TOK;
    cfg.max_seq = setup->n_seq;
    cfg.layout = setup->layout;
    cfg.mapper = setup->mapper;
    cfg.slice_bytes = setup->slice_pages * f->inner->ops->granularity(f->inner);
    f->chunk_bytes = cfg.slice_bytes * (setup->layout == VT_LAYOUT_SPLIT ? setup->n_plane : 1);
    cfg.budget_bytes = times(setup->budget_chunks, f->chunk_bytes);
    if (setup->plain && setup->budget_chunks != UINT64_MAX)
        cfg.budget_bytes += f->chunk_bytes / 2; // too little for one
    cfg.spare_low_bytes = setup->low_chunks * f->chunk_bytes;
    if (setup->high_chunks > 0) cfg.spare_high_bytes = setup->high_chunks * f->chunk_bytes;
    if (setup->high_chunks == UINT64_MAX) cfg.spare_high_bytes = 0;
    cfg.swap_bytes = setup->swap_chunks * f->chunk_bytes;
    cfg.swap_dir = "/tmp";
    cfg.vmm = f->fault;
    assert_status(VT_OK, vt_manager_create(&cfg, &f->m));
    for (uint32_t d = 0; d < FAMILY_N_DOMAIN; d++)
        assert_status(VT_OK, vt_domain_open(f->m, &d, sizeof d, &f->domain[d]));
}

void family_close(family *f)
{
    vt_fault_disarm(f->fault);
    for (uint32_t d = 0; d < FAMILY_N_DOMAIN; d++) vt_domain_close(f->domain[d]);
    vt_manager_destroy(f->m);
    if (f->setup.backend == ON_CUDA) standin_assert_empty();
    if (f->setup.backend != ON_FAKE) return;
    if (f->end.violation) fail_msg("the contract is broken: %s", f->end.violation);
    assert_int_equal(f->end.reserved_bytes, 0);
    assert_int_equal(f->end.n_created, 0);
    assert_int_equal(f->end.n_mapped, 0);
}

// ---- Operations

static void born(kin *k, uint32_t domain)
{
    k->domain = domain;
    k->len_tok = 0;
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
    born(k, i % FAMILY_N_DOMAIN);
    verify_clean(f, k);
    return VT_OK;
}

vt_status family_match(family *f, uint32_t i, const uint32_t *tok, uint32_t n_tok)
{
    kin *k = &f->kin[i];
    uint32_t n_hit = 0, domain = i % FAMILY_N_DOMAIN;
    assert_null(k->s);
    uint32_t expect = vt_match(f->domain[domain], tok, n_tok);
    vt_status st = vt_seq_match(f->domain[domain], tok, n_tok, 0, &k->s, &n_hit);
    assert_true((st == VT_OK) == (k->s != NULL));
    if (st != VT_OK) return st;
    assert_int_equal(n_hit, expect);
    assert_int_equal(n_hit, vt_seq_len(k->s));
    born(k, domain);
    k->len_tok = n_hit;
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
    born(c, k->domain);
    c->len_tok = len_tok;
    memcpy(c->tok, k->tok, sizeof k->tok);
    verify_bytes(f, c);
    return VT_OK;
}

vt_status family_cut(family *f, uint32_t i, uint32_t len_tok)
{
    kin *k = &f->kin[i];
    vt_status st = vt_seq_truncate(k->s, len_tok);
    if (st == VT_OK && len_tok < k->len_tok) k->len_tok = len_tok;
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
    if (st != VT_OK) return st;
    assert_true(vt_match(f->domain[k->domain], k->tok, n_tok) >= shared_at_once(f, k, n_tok));
    return st;
}

// A release evicts nothing, so all that it records is found at once.
static void verify_recorded(const family *f, const kin *k)
{
    uint32_t n_hit = vt_match(f->domain[k->domain], k->tok, k->n_pending);
    vt_stats st = family_stats(f);
    if (n_hit < k->n_pending && !f->faulty)
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
    if (is_told) family_tell(f, k->domain, k->tok, k->n_pending);
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

static void verify_sums(const family *f, uint64_t n_seq, uint64_t n_tok, uint64_t n_chunk)
{
    vt_stats st = family_stats(f);
    assert_int_equal(st.seqs, n_seq);
    assert_int_equal(st.live_bytes, n_tok * f->setup.n_plane * f->setup.row_bytes);
    assert_int_equal(st.chunks_created,
                     st.chunks_owned + st.chunks_shared + st.chunks_cached + st.chunks_spare);
    assert_int_equal(st.mapped_bytes, st.chunks_created * st.chunk_bytes);
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
}

void family_verify(family *f)
{
    const char *what = NULL;
    uint64_t n_seq = 0, n_tok = 0, n_chunk = 0;
    for (uint32_t i = 0; i < FAMILY_MAX_SEQ; i++) {
        if (!f->kin[i].s) continue;
        n_seq++;
        n_tok += f->kin[i].len_tok;
        n_chunk += family_chunks_for(f, f->kin[i].len_tok);
    }
    family_look(f);
    // What a failing device has left of released sequences is let go of now, and nothing else is.
    if (f->setup.plain) assert_ok(vt_trim(f->m, UINT64_MAX, NULL));
    verify_sums(f, n_seq, n_tok, n_chunk);
    if (vt_check(f->m, &what) != VT_OK) fail_msg("vt_check: %s", what);
    if (f->setup.backend != ON_FAKE) return;
    vt_fake_report now = vt_fake_look(f->inner);
    if (now.violation) fail_msg("the contract is broken: %s", now.violation);
}
