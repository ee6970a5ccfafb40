// va_world.c - see va_world.h.
#include <stdlib.h>
#include <string.h>

#include "standin_assert.h"
#include "va_world.h"

// splitmix64
uint64_t va_draw(va_world *w, uint64_t below)
{
    uint64_t z = (w->rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

va_setup va_small(void)
{
    return (va_setup){.host = true,
                      .n_plane = 2,
                      .row_bytes = 128,
                      .page_bytes = 4096,
                      .max_tok = 320,
                      .max_batch = 4,
                      .budget_groups = 20};
}

static vt_vmm *cuda_open(void)
{
    vt_vmm *inner = NULL;
    vt_vmm_cuda_config cfg = {.device = 0, .stream = NULL};
    standin_reset();
    standin_use_context(0);
    assert_ok(vt_vmm_cuda_open(&cfg, &inner, NULL));
    return inner;
}

static vt_vmm *inner_open(va_world *w)
{
    vt_vmm *inner = NULL;
    if (w->setup.cuda) return cuda_open();
    if (w->setup.host) {
        assert_ok(vt_vmm_host_open(&inner));
        return inner;
    }
    inner = vt_fake_open();
    assert_non_null(inner);
    vt_fake_set_epitaph(inner, &w->end);
    vt_fake_set_async(inner, w->setup.device);
    vt_fake_set_dirty_create(inner, w->setup.device);
    if (w->setup.max_runs > 0) vt_fake_set_max_runs(inner, w->setup.max_runs);
    if (w->setup.max_chunks > 0) vt_fake_set_max_chunks(inner, w->setup.max_chunks);
    return inner;
}

static uint32_t or_none(uint32_t value)
{
    return value > 0 ? value : VT_VA_NONE;
}

void va_open(va_world *w, const va_setup *setup, uint64_t seed)
{
    if (w->va) va_close(w);
    *w = (va_world){.setup = *setup, .rng = seed};
    assert_true(setup->max_batch <= VA_WORLD_MAX_BATCH);
    w->inner = inner_open(w);
    w->fault = vt_fault_open(w->inner);
    assert_non_null(w->fault);
    vt_va_config cfg = {.n_plane = setup->n_plane,
                        .row_bytes = setup->row_bytes,
                        .max_tok = setup->max_tok,
                        .max_batch = setup->max_batch,
                        .page_bytes = setup->page_bytes,
                        .megacache = setup->megacache,
                        .eager_groups = setup->eager_groups,
                        .next_groups = or_none(setup->next_groups),
                        .low_percent = or_none(setup->low_percent),
                        .high_percent = setup->high_percent,
                        .vmm = w->fault};
    assert_ok(vt_va_init(&cfg, &w->va));
    w->group_bytes = va_stats(w).group_bytes;
    uint64_t budget_bytes = setup->budget_groups * w->group_bytes + w->group_bytes / 2;
    assert_ok(vt_va_reserve_physical_pages(w->va, budget_bytes));
}

void va_open_small(va_world *w, bool host, bool device)
{
    va_setup s = va_small();
    s.host = host;
    s.device = device;
    va_open(w, &s, 1);
}

static bool has_bytes(const va_world *w)
{
    return w->setup.host || w->setup.cuda;
}

void va_close_broken(va_world *w)
{
    for (uint32_t i = 0; i < VA_WORLD_MAX_BATCH; i++) free(w->req[i].bytes);
    vt_va_cleanup(w->va);
    w->va = NULL;
    if (w->end.violation) fail_msg("the contract is broken: %s", w->end.violation);
}

void va_close(va_world *w)
{
    va_close_broken(w);
    if (w->setup.cuda) standin_assert_empty();
    if (has_bytes(w)) return;
    assert_int_equal(w->end.reserved_bytes, 0);
    assert_int_equal(w->end.n_created, 0);
    assert_int_equal(w->end.n_mapped, 0);
}

vt_va_stats va_stats(const va_world *w)
{
    vt_va_stats st;
    vt_va_get_stats(w->va, &st);
    return st;
}

uint32_t va_mapped(const va_world *w, uint32_t reqid)
{
    return vt_va_look(w->va, reqid).n_mapped;
}

uint8_t *va_row(const va_world *w, uint32_t reqid, uint32_t plane, uint32_t tok)
{
    return (uint8_t *)vt_va_tensor(w->va, plane) + reqid * vt_va_request_stride(w->va) +
           tok * vt_va_token_stride(w->va);
}

static uint8_t *want_row(const va_world *w, uint32_t reqid, uint32_t plane, uint32_t tok)
{
    size_t row = (size_t)plane * w->setup.max_tok + tok;
    return w->req[reqid].bytes + row * w->setup.row_bytes;
}

void va_finish_work(const va_world *w)
{
    uint64_t ticket;
    bool is_passed;
    assert_ok(w->inner->ops->fence(w->inner, &ticket));
    if (w->setup.device)
        vt_fake_finish(w->inner, ticket);
    else
        assert_ok(w->inner->ops->passed(w->inner, ticket, true, &is_passed));
}

// The stand-in does queued work when somebody waits for it; bytes are looked at and written by
// hand.
static void sync_bytes(const va_world *w)
{
    if (w->setup.cuda) va_finish_work(w);
}

static uint32_t n_view(const va_world *w)
{
    return w->setup.megacache ? 1 : w->setup.n_plane;
}

static bool reads_zero(const va_world *w, const uint8_t *p, size_t size_bytes)
{
    if (size_bytes == 0) return true;
    if (!has_bytes(w)) return vt_fake_is_zero(w->inner, (uintptr_t)p, size_bytes);
    return p[0] == 0 && memcmp(p, p + 1, size_bytes - 1) == 0;
}

// What is mapped from token `first` on reads as zero, in every view. No job may be out.
static void verify_zero_from(const va_world *w, uint32_t reqid, uint32_t first)
{
    sync_bytes(w);
    size_t mapped = va_mapped(w, reqid) * va_stats(w).page_bytes;
    size_t used = first * vt_va_token_stride(w->va);
    for (uint32_t v = 0; v < n_view(w) && mapped > used; v++)
        assert_true(reads_zero(w, va_row(w, reqid, v, first), mapped - used));
}

vt_status va_alloc(va_world *w, uint32_t len_tok, uint32_t *reqid)
{
    vt_status st = vt_va_alloc_reqid(w->va, len_tok, reqid);
    if (st != VT_OK) return st;
    va_world_req *r = &w->req[*reqid];
    assert_false(r->is_active);
    *r = (va_world_req){.is_active = true, .len_tok = len_tok};
    r->bytes = calloc((size_t)w->setup.n_plane * w->setup.max_tok, w->setup.row_bytes);
    assert_non_null(r->bytes);
    w->len[*reqid] = len_tok;
    verify_zero_from(w, *reqid, 0);
    return VT_OK;
}

vt_status va_free(va_world *w, uint32_t reqid)
{
    va_world_req *r = &w->req[reqid];
    vt_status st = vt_va_free_reqid(w->va, reqid);
    if (st != VT_OK) return st;
    assert_true(r->is_active);
    free(r->bytes);
    *r = (va_world_req){0};
    w->len[reqid] = 0;
    return VT_OK;
}

// Rows that the request had before it became shorter: its own bytes, or zeroes where they went.
static void adopt_row(va_world *w, uint32_t reqid, uint32_t plane, uint32_t tok)
{
    uint8_t *want = want_row(w, reqid, plane, tok);
    const uint8_t *is = va_row(w, reqid, plane, tok);
    for (size_t i = 0; i < w->setup.row_bytes; i++) {
        assert_true(is[i] == want[i] || is[i] == 0);
        want[i] = is[i];
    }
}

static void give(va_world *w, uint32_t reqid, uint32_t len_tok)
{
    va_world_req *r = &w->req[reqid];
    sync_bytes(w);
    uint32_t back = len_tok < r->top_tok ? len_tok : r->top_tok;
    for (uint32_t p = 0; p < w->setup.n_plane && has_bytes(w); p++)
        for (uint32_t t = r->given_tok; t < back; t++) adopt_row(w, reqid, p, t);
    r->len_tok = r->given_tok = len_tok;
    if (r->top_tok < len_tok) r->top_tok = len_tok;
}

// The kernels of the step.
static void launch(va_world *w, uint32_t reqid)
{
    size_t used = w->req[reqid].given_tok * vt_va_token_stride(w->va);
    for (uint32_t v = 0; v < n_view(w) && used > 0; v++)
        vt_fake_run(w->inner, (uintptr_t)va_row(w, reqid, v, 0), used);
}

static vt_status after_step(va_world *w, vt_status st)
{
    for (uint32_t i = 0; i < w->setup.max_batch; i++) {
        if (!w->req[i].is_active) continue;
        if (st == VT_OK) give(w, i, w->len[i]);
        if (st == VT_OK && w->setup.device) launch(w, i);
        assert_int_equal(vt_va_look(w->va, i).len_tok, w->req[i].len_tok);
    }
    return st;
}

vt_status va_step(va_world *w, bool eager_reclaim)
{
    return after_step(w, vt_va_step(w->va, w->len, eager_reclaim));
}

vt_status va_step_async(va_world *w)
{
    return after_step(w, vt_va_step_async(w->va, w->len));
}

vt_status va_set_budget(va_world *w, uint64_t n_group)
{
    vt_status st = vt_va_reserve_physical_pages(w->va, n_group * w->group_bytes);
    if (st == VT_OK) w->setup.budget_groups = n_group;
    return st;
}

uint32_t va_begin(va_world *w, uint32_t len_tok)
{
    uint32_t reqid;
    assert_ok(va_alloc(w, len_tok, &reqid));
    assert_ok(va_step(w, false));
    va_write(w, reqid, 0, len_tok);
    return reqid;
}

uint32_t va_leave_behind(va_world *w, uint32_t n_group)
{
    uint32_t reqid = va_begin(w, n_group * VA_PAGE_TOK);
    assert_ok(va_free(w, reqid));
    return reqid;
}

static void write_row(va_world *w, uint32_t reqid, uint32_t plane, uint32_t tok)
{
    uint8_t *want = want_row(w, reqid, plane, tok), *is = va_row(w, reqid, plane, tok);
    uint64_t x = va_draw(w, UINT64_MAX);
    for (size_t i = 0; i < w->setup.row_bytes; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        want[i] = (uint8_t)(x >> 56) | 1; // never zero
    }
    if (has_bytes(w))
        memcpy(is, want, w->setup.row_bytes);
    else
        vt_fake_touch(w->inner, (uintptr_t)is, w->setup.row_bytes);
}

void va_write(va_world *w, uint32_t reqid, uint32_t first, uint32_t end)
{
    assert_true(end <= w->req[reqid].given_tok);
    for (uint32_t p = 0; p < w->setup.n_plane; p++)
        for (uint32_t t = first; t < end; t++) write_row(w, reqid, p, t);
}

static uint64_t groups_for(const va_world *w, uint32_t len_tok)
{
    uint64_t used = (uint64_t)len_tok * vt_va_token_stride(w->va);
    uint64_t page = va_stats(w).page_bytes;
    return used / page + (used % page != 0);
}

vt_status va_foresee(const va_world *w)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->setup.max_batch; i++) {
        if (w->len[i] > (w->req[i].is_active ? w->setup.max_tok : 0)) return VT_EINVAL;
        uint32_t given = w->req[i].given_tok;
        n += groups_for(w, w->len[i] > given ? w->len[i] : given);
    }
    return n <= w->setup.budget_groups ? VT_OK : VT_NOSPACE;
}

void va_verify_given(va_world *w)
{
    for (uint32_t i = 0; i < w->setup.max_batch && has_bytes(w); i++)
        for (uint32_t p = 0; p < w->setup.n_plane; p++)
            for (uint32_t t = 0; t < w->req[i].given_tok; t++)
                assert_memory_equal(va_row(w, i, p, t), want_row(w, i, p, t), w->setup.row_bytes);
}

static void verify_gauges(const va_world *w, uint64_t n_need, uint64_t n_tok, uint32_t n_active)
{
    vt_va_stats st = va_stats(w);
    uint64_t budget = w->setup.budget_groups;
    assert_int_equal(st.groups_created, st.groups_active + st.groups_surplus + st.groups_idle +
                                            st.groups_lost + st.groups_spare);
    assert_int_equal(st.groups_budget, budget);
    assert_true(st.groups_created <= budget);
    assert_int_equal(st.requests_active, n_active);
    assert_int_equal(st.live_bytes, n_tok * w->setup.n_plane * w->setup.row_bytes);
    n_need += st.groups_lost;
    assert_int_equal(vt_va_num_free_kvblocks(w->va), n_need < budget ? budget - n_need : 0);
}

static void verify_request(va_world *w, uint32_t reqid)
{
    const va_world_req *r = &w->req[reqid];
    vt_va_request is = vt_va_look(w->va, reqid);
    assert_int_equal(is.is_active, r->is_active);
    assert_int_equal(is.len_tok, r->len_tok);
    assert_int_equal(is.n_need, groups_for(w, r->len_tok));
    assert_int_equal(is.n_given, groups_for(w, r->given_tok));
    assert_true(is.n_mapped >= is.n_given);
    if (r->is_active) verify_zero_from(w, reqid, r->top_tok);
}

typedef struct group_census {
    const va_world *w;
    uint64_t n, n_mapped, n_needed;
    uint32_t next_at[VA_WORLD_MAX_BATCH];
    bool seen[1 << 12]; // by name
} group_census;

static void count_group(void *ud, const vt_va_group *g)
{
    group_census *c = ud;
    assert_true(g->name < sizeof c->seen && !c->seen[g->name]);
    c->seen[g->name] = true;
    c->n++;
    c->n_needed += g->is_needed;
    if (g->reqid == UINT32_MAX) return;
    c->n_mapped++;
    assert_int_equal(g->at, c->next_at[g->reqid]++);
    const vt_va_request r = vt_va_look(c->w->va, g->reqid);
    assert_int_equal(g->is_needed, g->at < r.n_given);
}

static void count_own_group(void *ud, const vt_va_group *g)
{
    assert_int_equal(g->at, (*(uint32_t *)ud)++);
}

static void verify_own_groups(const group_census *c, uint32_t reqid)
{
    uint32_t n = 0;
    vt_va_each_group_of(c->w->va, reqid, count_own_group, &n);
    assert_int_equal(n, c->next_at[reqid]);
}

// Each group that exists is told of once, in its place.
static void verify_groups(const va_world *w)
{
    static group_census c;
    c = (group_census){.w = w};
    vt_va_each_group(w->va, count_group, &c);
    for (uint32_t i = 0; i < w->setup.max_batch; i++) verify_own_groups(&c, i);
    const vt_va_stats st = va_stats(w);
    assert_int_equal(c.n, st.groups_created);
    assert_int_equal(c.n - c.n_mapped, st.groups_spare);
    assert_int_equal(c.n_needed, st.groups_active);
}

void va_verify(va_world *w)
{
    const char *what = NULL;
    uint64_t n_need = 0, n_tok = 0;
    uint32_t n_active = 0;
    vt_va_wait(w->va);
    va_verify_given(w);
    for (uint32_t i = 0; i < w->setup.max_batch; i++) {
        verify_request(w, i);
        n_need += groups_for(w, w->req[i].len_tok);
        n_tok += w->req[i].len_tok;
        n_active += w->req[i].is_active;
    }
    verify_gauges(w, n_need, n_tok, n_active);
    verify_groups(w);
    if (vt_va_check(w->va, &what) != VT_OK) fail_msg("vt_va_check: %s", what);
    if (has_bytes(w)) return;
    vt_fake_report now = vt_fake_look(w->inner);
    if (now.violation) fail_msg("the contract is broken: %s", now.violation);
}

void va_done(va_world *w)
{
    if (!w->va) return;
    va_verify(w);
    va_close(w);
}
