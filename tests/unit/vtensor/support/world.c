// world.c - see world.h. It uses the manager's internals in two places only: for the warm chunks
// after a sequence's own, which must be zero as well, and for the sizes of a chunk.
#include "assert_vt.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/core/manager.h"
#include "world.h"

// splitmix64
uint64_t world_draw(world *w, uint64_t below)
{
    uint64_t z = (w->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static vt_vmm *inner_open(world *w)
{
    vt_vmm *inner = NULL;
    if (w->setup.host) {
        assert_status(VT_OK, vt_vmm_host_open(&inner));
        return inner;
    }
    inner = vt_fake_open();
    assert_non_null(inner);
    vt_fake_set_epitaph(inner, &w->end);
    if (w->setup.max_runs > 0) vt_fake_set_max_runs(inner, w->setup.max_runs);
    return inner;
}

// The bytes of a chunk are the manager's to choose; so it is asked with a budget for all.
static size_t chunk_bytes_of(const vt_config *cfg)
{
    vti_geo g;
    assert_status(VT_OK, vti_geo_init(&g, cfg, VT_FAKE_PAGE_BYTES));
    return g.group[0].chunk_bytes;
}

void world_open(world *w, const world_setup *setup, uint64_t seed)
{
    *w = (world){.setup = *setup, .rng = seed};
    assert_true(setup->max_seq <= WORLD_MAX_SEQ);
    w->inner = inner_open(w);
    w->fault = vt_fault_open(w->inner);
    assert_non_null(w->fault);
    vt_config cfg = vt_config_default();
    cfg.n_plane = setup->n_plane;
    cfg.row_bytes = setup->row_bytes;
    cfg.max_tok = setup->max_tok;
    cfg.max_seq = setup->max_seq;
    cfg.layout = setup->layout;
    cfg.vmm = w->fault;
    cfg.mapper = VT_MAPPER_OWNER; // nothing happens beside
    cfg.budget_bytes = UINT64_MAX;
    size_t chunk = chunk_bytes_of(&cfg);
    if (setup->budget_chunks > 0) cfg.budget_bytes = setup->budget_chunks * chunk + chunk / 2;
    if (setup->spare_chunks != UINT64_MAX) cfg.spare_high_bytes = setup->spare_chunks * chunk;
    cfg.swap_bytes = setup->swap_chunks * chunk;
    cfg.swap_dir = "/tmp";
    assert_status(VT_OK, vt_manager_create(&cfg, &w->m));
}

void world_close(world *w)
{
    for (uint32_t i = 0; i < WORLD_MAX_SEQ; i++) free(w->seq[i].bytes);
    vt_manager_destroy(w->m);
    if (w->setup.host) return;
    if (w->end.violation) fail_msg("the contract is broken: %s", w->end.violation);
    assert_int_equal(w->end.reserved_bytes, 0);
    assert_int_equal(w->end.n_created, 0);
    assert_int_equal(w->end.n_mapped, 0);
}

static uint8_t *row_of(const world *w, const world_seq *q, uint32_t plane, uint32_t tok)
{
    return q->bytes + ((size_t)plane * w->setup.max_tok + tok) * w->setup.row_bytes;
}

static uint8_t *real_row_of(const world_seq *q, uint32_t plane, uint32_t tok)
{
    return (uint8_t *)vt_seq_plane(q->s, plane) + tok * vt_seq_stride(q->s);
}

static bool reads_zero(const uint8_t *p, size_t size_bytes)
{
    return size_bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, size_bytes - 1) == 0);
}

static void verify_clean_at(world *w, const vti_span *sp, uint32_t position)
{
    const vti_lane_geo *gr = &w->m->geo.group[0];
    for (uint32_t v = 0; v < gr->n_view; v++) {
        uintptr_t addr = vti_lane_addr(&w->m->geo, sp, 0, v, position);
        if (w->setup.host)
            assert_true(reads_zero((const uint8_t *)addr, gr->slice_bytes));
        else
            assert_true(vt_fake_is_zero(w->inner, addr, gr->slice_bytes));
    }
}

// The warm chunks from position `first` on read as zero, in every view. No sequence here is ever
// truncated, so there is nothing of its own; what the device failed to wipe waits to be unmapped.
static void verify_clean(world *w, const world_seq *q, uint32_t first)
{
    const vti_lane *l = &q->s->span->lane[0];
    if (vt_seq_is_lost(q->s) || l->needs_zeroing) return;
    for (uint32_t p = first; p < l->n_end; p++)
        if (l->at[p] != VTI_NO_CHUNK) verify_clean_at(w, q->s->span, p);
}

vt_status world_create(world *w, uint32_t which)
{
    world_seq *q = &w->seq[which];
    assert_null(q->s);
    vt_status st = vt_seq_create(w->m, 0, &q->s);
    if (st != VT_OK) {
        assert_null(q->s);
        return st;
    }
    q->len_tok = 0;
    q->bytes = calloc((size_t)w->setup.n_plane * w->setup.max_tok, w->setup.row_bytes);
    assert_non_null(q->bytes);
    w->n_seq++;
    verify_clean(w, q, 0);
    return VT_OK;
}

vt_status world_extend(world *w, uint32_t which, uint32_t len_tok)
{
    world_seq *q = &w->seq[which];
    uint32_t had = q->s->span->lane[0].n_owned;
    void *base = vt_seq_plane(q->s, 0);
    bool is_free = len_tok <= vt_seq_backed(q->s);
    uint64_t n_call = vt_fault_calls(w->fault);
    vt_status st = vt_seq_extend(q->s, len_tok);
    assert_ptr_equal(base, vt_seq_plane(q->s, 0));
    if (is_free) assert_true(st == VT_OK && vt_fault_calls(w->fault) == n_call);
    if (st == VT_OK && len_tok > q->len_tok) q->len_tok = len_tok;
    verify_clean(w, q, had);
    return st;
}

static void write_row(world *w, world_seq *q, uint32_t plane, uint32_t tok)
{
    uint8_t *row = row_of(w, q, plane, tok);
    for (size_t i = 0; i < w->setup.row_bytes; i++) row[i] = (uint8_t)(1 + world_draw(w, 255));
    uint8_t *real = real_row_of(q, plane, tok);
    if (w->setup.host)
        memcpy(real, row, w->setup.row_bytes);
    else
        vt_fake_touch(w->inner, (uintptr_t)real, w->setup.row_bytes);
}

void world_write(world *w, uint32_t which)
{
    world_seq *q = &w->seq[which];
    if (q->len_tok == 0) return;
    uint32_t first = (uint32_t)world_draw(w, q->len_tok);
    uint32_t n_tok = (uint32_t)world_draw(w, 12);
    uint32_t end = q->len_tok - first < n_tok ? q->len_tok : first + n_tok;
    for (uint32_t p = 0; p < w->setup.n_plane; p++) {
        for (uint32_t t = first; t < end; t++) write_row(w, q, p, t);
        write_row(w, q, p, q->len_tok - 1); // the last one, beside the zeroes
    }
}

void world_release(world *w, uint32_t which)
{
    world_seq *q = &w->seq[which];
    vt_seq_release(q->s);
    free(q->bytes);
    *q = (world_seq){0};
    w->n_seq--;
}

static uint64_t chunks_for(const world *w, uint32_t len_tok)
{
    uint64_t per_view = (uint64_t)len_tok * vt_seq_stride(&(vt_seq){.m = w->m});
    uint64_t slice = w->m->geo.group[0].slice_bytes;
    return (per_view + slice - 1) / slice;
}

vt_status world_foresee(const world *w, uint32_t which, uint32_t len_tok)
{
    uint64_t n_chunk = 0, n_used = 0;
    if (len_tok > w->setup.max_tok) return VT_EINVAL;
    if (chunks_for(w, len_tok) <= chunks_for(w, w->seq[which].len_tok)) return VT_OK;
    for (uint32_t i = 0; i < WORLD_MAX_SEQ; i++) {
        uint32_t len = i == which ? len_tok : w->seq[i].len_tok;
        n_chunk += chunks_for(w, len);
        n_used += len > 0;
    }
    uint64_t n_view = w->setup.layout == VT_LAYOUT_SPLIT ? w->setup.n_plane : 1;
    if (w->setup.budget_chunks > 0 && n_chunk > w->setup.budget_chunks) return VT_NOSPACE;
    if (w->setup.max_runs > 0 && n_used * n_view > w->setup.max_runs) return VT_NOMAPS;
    return VT_OK;
}

static void verify_bytes(world *w, const world_seq *q)
{
    for (uint32_t p = 0; p < w->setup.n_plane; p++)
        for (uint32_t t = 0; t < q->len_tok; t++)
            assert_memory_equal(real_row_of(q, p, t), row_of(w, q, p, t), w->setup.row_bytes);
}

static void verify_seq(world *w, const world_seq *q)
{
    assert_int_equal(vt_seq_len(q->s), q->len_tok);
    if (vt_seq_is_lost(q->s)) return;
    assert_true(vt_seq_backed(q->s) >= q->len_tok);
    assert_true(vt_seq_backed(q->s) <= w->setup.max_tok);
    if (w->setup.host) verify_bytes(w, q);
    verify_clean(w, q, q->s->span->lane[0].n_owned);
}

static void verify_stats(world *w, uint64_t n_owned, uint64_t n_tok)
{
    vt_stats st = world_stats(w);
    uint64_t live = n_tok * w->setup.n_plane * w->setup.row_bytes;
    assert_int_equal(st.seqs, w->n_seq);
    if (st.quarantined_spans == 0) assert_int_equal(st.chunks_owned, n_owned);
    assert_int_equal(st.chunks_owned + st.chunks_spare, st.chunks_created);
    assert_int_equal(st.mapped_bytes, st.chunks_created * st.chunk_bytes);
    assert_int_equal(st.live_bytes, live);
    if (st.quarantined_spans == 0)
        assert_int_equal(st.slack_bytes, n_owned * st.chunk_bytes - live);
    assert_true(st.mapped_bytes <= st.budget_bytes && st.mapped_bytes <= st.peak_mapped_bytes);
    assert_true(st.live_bytes <= st.peak_live_bytes && st.mappings <= st.max_mappings);
}

void world_verify(world *w)
{
    const char *what = NULL;
    uint64_t n_owned = 0, n_tok = 0;
    // What a failing device has left of released sequences is let go of now, and nothing else is.
    assert_status(VT_OK, vt_trim(w->m, UINT64_MAX, NULL));
    for (uint32_t i = 0; i < WORLD_MAX_SEQ; i++) {
        const world_seq *q = &w->seq[i];
        if (!q->s) continue;
        verify_seq(w, q);
        n_owned += chunks_for(w, q->len_tok);
        n_tok += q->len_tok;
    }
    verify_stats(w, n_owned, n_tok);
    if (vt_check(w->m, &what) != VT_OK) fail_msg("vt_check: %s", what);
    if (w->setup.host) return;
    vt_fake_report now = vt_fake_look(w->inner);
    if (now.violation) fail_msg("the contract is broken: %s", now.violation);
}

vt_stats world_stats(const world *w)
{
    vt_stats st;
    vt_get_stats(w->m, &st);
    return st;
}

uint64_t world_spare(const world *w)
{
    vt_stats st = world_stats(w);
    return st.chunks_spare - w->m->vset.mapped_free_bytes[VTI_SPAN_LIVE] / st.chunk_bytes;
}

vt_config world_small_config(void)
{
    vt_config c = vt_config_default();
    c.n_plane = 2;
    c.row_bytes = 128;
    c.max_tok = 100;
    c.max_seq = 2;
    c.budget_bytes = 1 << 20;
    return c;
}
