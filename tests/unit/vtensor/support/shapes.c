// shapes.c - see shapes.h.
#include "assert_vt.h"

#include <string.h>

#include "router.h"
#include "shapes.h"
#include "standin_assert.h"
#include "walk.h"

typedef struct one_seq {
    vt_seq *s; // NULL: none
    uint32_t len_tok;
    uint32_t from_tok; // tokens from here on may still be computed: their windows are there
    uint32_t n_pending;
    bool is_busy;
    uint32_t tok[SHAPE_MAX_TOK];
} one_seq;

typedef struct tale {
    uint32_t n_tok;
    bool has_end; // the sequence had exactly these tokens
    bool is_sure; // and has ended
    uint32_t tok[SHAPE_MAX_TOK];
} tale;

static struct {
    const shape_setup *sh;
    shape_where at;
    vt_mapper mapper;
    vt_manager *m;
    vt_vmm *fault, *inner;
    vt_domain *d;
    vt_fake_report end;
    uint32_t n_plane, group_of[SHAPE_MAX_PLANE];
    one_seq seq[SHAPE_N_SEQ];
    tale told[SHAPE_MAX_TALE];
    uint32_t n_told;
    bool told_all; // no tale was left out
    bool has_state, has_window, faulty;
    uint64_t rng, now_ms;
} w;

static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t draw(uint32_t below)
{
    return (uint32_t)(mix_bits(w.rng += 0x9e3779b97f4a7c15u) % below);
}

static uint32_t draw_token(void)
{
    return draw(12) > 0 ? 0 : draw(3);
}

// ---- What must be read

static const vt_group *group_at(uint32_t plane)
{
    return &w.sh->group[w.group_of[plane]];
}

static uint64_t path_step(uint64_t path, uint32_t tok)
{
    return mix_bits(path * 31 + tok + 1);
}

static uint64_t path_of(const one_seq *q, uint32_t n_tok)
{
    uint64_t h = 7;
    for (uint32_t t = 0; t < n_tok; t++) h = path_step(h, q->tok[t]);
    return h;
}

static uint8_t byte_of(uint64_t path, uint32_t plane, size_t i)
{
    return (uint8_t)(mix_bits(path + plane * 1000003u + i) >> 13) | 1; // never zero
}

static uint8_t *row_at(const one_seq *q, uint32_t plane, uint32_t tok)
{
    return (uint8_t *)vt_seq_plane(q->s, plane) + tok * vt_plane_stride(w.m, plane);
}

static void await_device(void)
{
    uint64_t ticket;
    bool is_passed;
    if (w.at != SHAPE_ON_CUDA) return;
    assert_ok(w.inner->ops->fence(w.inner, &ticket));
    assert_ok(w.inner->ops->passed(w.inner, ticket, true, &is_passed));
}

static bool has_bytes(void)
{
    return w.at == SHAPE_ON_HOST || w.at == SHAPE_ON_CUDA;
}

static void verify_bytes(const one_seq *q, uint32_t plane, const uint8_t *row, uint64_t path)
{
    for (size_t i = 0; i < group_at(plane)->row_bytes && has_bytes(); i++)
        if (row[i] != byte_of(path, plane, i))
            fail_msg("sequence %d of %u tokens, plane %u, byte %zu of row %zu", (int)(q - w.seq),
                     q->len_tok, plane, i,
                     group_at(plane)->kind == VT_GROUP_STATE
                         ? 0
                         : (size_t)(row - row_at(q, plane, 0)) / vt_plane_stride(w.m, plane));
}

// The first token whose row is needed by a token from from_tok on.
static uint32_t needed_from(const one_seq *q, uint32_t plane)
{
    uint32_t window = group_at(plane)->window_tok;
    return window > 0 && q->from_tok > window - 1 ? q->from_tok - (window - 1) : 0;
}

static void verify_plane(const one_seq *q, uint32_t plane)
{
    if (group_at(plane)->kind == VT_GROUP_STATE) {
        if (q->len_tok > 0) verify_bytes(q, plane, row_at(q, plane, 0), path_of(q, q->len_tok));
        return;
    }
    uint32_t front = vt_seq_front(q->s, plane);
    uint64_t path = path_of(q, 0);
    assert_true(front <= needed_from(q, plane));
    for (uint32_t t = 0; t < q->len_tok; t++) {
        path = path_step(path, q->tok[t]);
        if (t >= front) verify_bytes(q, plane, row_at(q, plane, t), path);
    }
}

static void verify_seq(const one_seq *q)
{
    await_device();
    assert_int_equal(vt_seq_len(q->s), q->len_tok);
    if (vt_seq_is_swapped(q->s) || vt_seq_is_lost(q->s)) return;
    for (uint32_t p = 0; p < w.n_plane; p++) verify_plane(q, p);
}

static bool is_zero(const uint8_t *row, size_t n)
{
    if (!has_bytes()) return vt_fake_is_zero(w.inner, (uintptr_t)row, n);
    for (size_t i = 0; i < n; i++)
        if (row[i] != 0) return false;
    return true;
}

static void write_row(uint8_t *row, uint32_t plane, uint64_t path)
{
    size_t n = group_at(plane)->row_bytes;
    if (!has_bytes()) vt_fake_touch(w.inner, (uintptr_t)row, n);
    for (size_t i = 0; i < n && has_bytes(); i++) row[i] = byte_of(path, plane, i);
}

// New rows, and a state that begins, read as zero.
static void verify_zero(const one_seq *q, uint32_t plane, uint32_t first)
{
    bool is_state = group_at(plane)->kind == VT_GROUP_STATE;
    uint32_t end = !is_state ? q->len_tok : first == 0;
    for (uint32_t t = first; t < end; t++)
        if (!is_zero(row_at(q, plane, t), group_at(plane)->row_bytes))
            fail_msg("token %u, plane %u is not zero", t, plane);
}

static void write_plane(const one_seq *q, uint32_t plane, uint32_t first)
{
    bool is_state = group_at(plane)->kind == VT_GROUP_STATE;
    for (uint32_t t = first; t < q->len_tok && !is_state; t++)
        write_row(row_at(q, plane, t), plane, path_of(q, t + 1));
    if (is_state) write_row(row_at(q, plane, 0), plane, path_of(q, q->len_tok));
}

// ---- Opening and closing

static vt_vmm *open_inner(shape_where at)
{
    vt_vmm *vmm = NULL;
    vt_vmm_cuda_config cfg = {.device = 0, .stream = NULL};
    if (at == SHAPE_ON_HOST) {
        assert_ok(vt_vmm_host_open(&vmm));
    } else if (at == SHAPE_ON_CUDA) {
        standin_reset();
        standin_use_context(0);
        assert_ok(vt_vmm_cuda_open(&cfg, &vmm, NULL));
    } else {
        assert_non_null(vmm = vt_fake_open());
        vt_fake_set_epitaph(vmm, &w.end);
        vt_fake_set_async(vmm, at == SHAPE_ON_DEVICE);
        if (at == SHAPE_ON_FAKE) vt_fake_set_max_runs(vmm, 1 << 20); // with store
    }
    return vmm;
}

static void count_planes(void)
{
    for (uint32_t g = 0; g < w.sh->n_group; g++) {
        w.has_state |= w.sh->group[g].kind == VT_GROUP_STATE;
        w.has_window |= w.sh->group[g].window_tok > 0;
        for (uint32_t p = 0; p < w.sh->group[g].n_plane; p++) w.group_of[w.n_plane++] = g;
    }
}

static uint64_t budget_of(const vt_config *cfg)
{
    size_t page = w.inner->ops->granularity(w.inner);
    uint64_t planes = cfg->layout == VT_LAYOUT_SPLIT ? w.n_plane : w.sh->n_group;
    return w.sh->budget_bytes == UINT64_MAX ? UINT64_MAX : w.sh->budget_bytes * planes * page;
}

void shapes_open(const shape_setup *sh, shape_where at, vt_layout layout, vt_mapper mapper,
                 uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.sh = sh, w.at = at, w.mapper = mapper, w.rng = seed, w.told_all = true;
    w.inner = open_inner(at);
    w.fault = vt_fault_open(w.inner);
    assert_non_null(w.fault);
    count_planes();
    vt_config cfg = vt_config_default();
    cfg.group = sh->group;
    cfg.n_group = sh->n_group;
    cfg.max_tok = SHAPE_MAX_TOK;
    cfg.max_seq = SHAPE_N_SEQ;
    cfg.layout = layout;
    cfg.view_planes = (seed + (uint64_t)(sh - shapes_all)) % 3;
    cfg.budget_bytes = budget_of(&cfg);
    cfg.mapper = mapper;
    cfg.swap_bytes = sh->swap ? (uint64_t)16 << 20 : 0; // more than all sequences have
    cfg.swap_dir = "/tmp";
    cfg.n_event = ROUTER_N_EVENT;
    cfg.vmm = w.fault;
    assert_ok(vt_manager_create(&cfg, &w.m));
    router_open(w.m, sh->n_group, sh->group);
    assert_ok(vt_domain_open(w.m, "shapes", 6, &w.d));
}

void shapes_close(void)
{
    vt_fault_disarm(w.fault);
    vt_domain_close(w.d);
    vt_manager_destroy(w.m);
    if (w.at == SHAPE_ON_CUDA) standin_assert_empty();
    if (w.at != SHAPE_ON_FAKE && w.at != SHAPE_ON_DEVICE) return;
    if (w.end.violation) fail_msg("the contract is broken: %s", w.end.violation);
    assert_int_equal(w.end.reserved_bytes, 0);
    assert_int_equal(w.end.n_created, 0);
}

static uint64_t live_bytes_of(const one_seq *q)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < w.n_plane; p++) {
        const vt_group *g = group_at(p);
        if (g->kind == VT_GROUP_STATE)
            n += q->len_tok > 0 ? g->row_bytes : 0;
        else if (g->window_tok == 0)
            n += q->len_tok * g->row_bytes;
    }
    return n;
}

void shapes_look(void)
{
    for (uint32_t i = 0; i < SHAPE_N_SEQ; i++)
        if (w.seq[i].s) verify_seq(&w.seq[i]);
    router_follow();
}

void shapes_verify(void)
{
    const char *what = NULL;
    uint64_t least = 0;
    vt_fault_disarm(w.fault);
    shapes_look();
    router_verify(w.d);
    vt_snapshot *snap;
    assert_ok(vt_snapshot_take(w.m, &snap));
    walk_verify(w.m, snap);
    vt_snapshot_free(snap);
    for (uint32_t i = 0; i < SHAPE_N_SEQ; i++)
        if (w.seq[i].s) least += live_bytes_of(&w.seq[i]);
    vt_status st = vt_check(w.m, &what);
    if (st != VT_OK) fail_msg("vt_check: %s", what ? what : vt_status_name(st));
    vt_stats s;
    vt_get_stats(w.m, &s);
    assert_true(s.live_bytes >= least && s.mapped_bytes <= s.budget_bytes);
    assert_int_equal(s.mapped_bytes,
                     s.owned_bytes + s.shared_bytes + s.cached_bytes + s.spare_bytes);
    if (w.at != SHAPE_ON_FAKE && w.at != SHAPE_ON_DEVICE) return;
    vt_fake_report now = vt_fake_look(w.inner);
    if (now.violation) fail_msg("the contract is broken: %s", now.violation);
}

// ---- What was recorded

static void tell(const one_seq *q, uint32_t n_tok, bool has_ended)
{
    if (w.n_told == SHAPE_MAX_TALE) w.told_all = false;
    if (!w.told_all || n_tok == 0) return;
    tale *t = &w.told[w.n_told++];
    t->n_tok = n_tok;
    t->has_end = n_tok == q->len_tok;
    t->is_sure = t->has_end && has_ended;
    memcpy(t->tok, q->tok, n_tok * sizeof *t->tok);
}

static uint32_t in_common(const tale *t, const uint32_t *tok, uint32_t n_tok)
{
    uint32_t n = 0;
    while (n < t->n_tok && n < n_tok && t->tok[n] == tok[n]) n++;
    return n;
}

static void judge_hit(const uint32_t *tok, uint32_t n_tok, uint32_t n_hit)
{
    uint32_t most = 0;
    bool has_end = n_hit == 0;
    for (uint32_t k = 0; k < w.n_told; k++) {
        uint32_t n = in_common(&w.told[k], tok, n_tok);
        if (n > most) most = n;
        has_end |= w.told[k].has_end && w.told[k].n_tok == n_hit && n == n_hit;
    }
    if (!w.told_all) return;
    if (n_hit > most) fail_msg("%u tokens found of %u that were recorded", n_hit, most);
    if (w.has_state && !has_end) fail_msg("a match of %u tokens, where no state was", n_hit);
}

// A node of the tree that has more tokens takes no chunk that lacks their rows, so where a window
// has passed in the longer one, the shorter one cannot be matched.
static bool is_continued(const tale *t)
{
    for (uint32_t k = 0; k < w.n_told; k++)
        if (w.told[k].n_tok > t->n_tok && in_common(&w.told[k], t->tok, t->n_tok) == t->n_tok)
            return true;
    return false;
}

// Without a limit of memory nothing is evicted: what ended with its sequence can be matched as long
// as it is.
static uint32_t least_hit(const uint32_t *tok, uint32_t n_tok)
{
    uint32_t least = 0;
    for (uint32_t k = 0; k < w.n_told; k++) {
        const tale *t = &w.told[k];
        if (!t->is_sure || t->n_tok > n_tok || t->n_tok <= least) continue;
        if (in_common(t, tok, n_tok) == t->n_tok && !(w.has_window && is_continued(t)))
            least = t->n_tok;
    }
    return w.sh->budget_bytes == UINT64_MAX && w.told_all && !w.faulty ? least : 0;
}

// ---- Steps

static vt_status step_grow(one_seq *q)
{
    uint32_t had = q->len_tok, n_more = 1 + draw(40);
    if (n_more > SHAPE_MAX_TOK - had) n_more = SHAPE_MAX_TOK - had;
    vt_status st = vt_seq_extend(q->s, had + n_more);
    q->is_busy = st == VT_BUSY;
    if (st != VT_OK || n_more == 0) return st;
    q->from_tok = had;
    while (q->len_tok < had + n_more) q->tok[q->len_tok++] = draw_token();
    await_device();
    for (uint32_t p = 0; p < w.n_plane; p++) verify_zero(q, p, had);
    for (uint32_t p = 0; p < w.n_plane; p++) write_plane(q, p, had);
    return st;
}

static void seq_begins(one_seq *q, uint32_t len_tok)
{
    q->len_tok = q->from_tok = len_tok;
    q->n_pending = 0;
    q->is_busy = false;
}

static vt_status step_fork(one_seq *q)
{
    one_seq *c = &w.seq[draw(SHAPE_N_SEQ)];
    uint32_t len_tok = draw(2) ? q->len_tok : draw(q->len_tok + 1);
    if (c->s) return VT_OK;
    vt_status st = vt_seq_fork(q->s, len_tok, &c->s);
    if (st != VT_OK) return st;
    seq_begins(c, len_tok);
    memcpy(c->tok, q->tok, sizeof q->tok);
    verify_seq(c);
    return st;
}

static vt_status step_cut(one_seq *q)
{
    uint32_t len_tok = draw(4) ? draw(q->len_tok + 1) : 0;
    vt_status st = vt_seq_truncate(q->s, len_tok);
    if (st != VT_OK || len_tok >= q->len_tok) return st;
    q->len_tok = len_tok;
    if (q->from_tok > len_tok) q->from_tok = len_tok;
    if (q->n_pending > len_tok) q->n_pending = len_tok;
    return st;
}

static vt_status step_record(one_seq *q)
{
    uint32_t n_tok = draw(3) ? q->len_tok : draw(q->len_tok + 1);
    vt_status st = vt_seq_record(q->s, w.d, q->tok, n_tok, NULL);
    if (st == VT_EINVAL || n_tok == 0) return st;
    q->n_pending = st == VT_OK ? n_tok : 0;
    tell(q, n_tok, false); // a part of it may be shared even after a failure
    return st;
}

static void seq_ends(one_seq *q)
{
    bool is_whole = !vt_seq_is_swapped(q->s) && !vt_seq_is_lost(q->s);
    if (q->n_pending > 0 && is_whole) tell(q, q->n_pending, true);
    vt_seq_release(q->s);
    q->s = NULL;
}

static vt_status step_release(one_seq *q)
{
    seq_ends(q);
    return VT_OK;
}

// Every other one is left on its way.
static vt_status swap_some(one_seq *q, vt_status st)
{
    if (st == VT_BUSY && draw(2)) st = vt_seq_wait(q->s);
    return st == VT_BUSY ? VT_OK : st;
}

static vt_status step_swap_out(one_seq *q)
{
    return w.sh->swap ? swap_some(q, vt_seq_swap_out(q->s)) : VT_OK;
}

static vt_status step_swap_in(one_seq *q)
{
    return swap_some(q, vt_seq_swap_in(q->s));
}

static vt_status step_prepare(one_seq *q)
{
    vt_status st = vt_seq_prepare(q->s, q->len_tok + draw(80), draw(4));
    return st == VT_OK && draw(2) ? vt_seq_wait(q->s) : st;
}

static vt_status step_ahead(one_seq *q)
{
    (void)q;
    vt_status st = vt_step(w.m, (vt_ahead)draw(3), draw(50), ++w.now_ms);
    vt_work(w.m, draw(4), NULL);
    return st;
}

static vt_status step_memory(one_seq *q)
{
    (void)q;
    return draw(2) ? vt_trim(w.m, 0, NULL) : vt_evict(w.m, draw(2) ? 1 : 100000, NULL);
}

static const struct {
    vt_status (*run)(one_seq *q);
    uint32_t weight;
} steps[] = {
    {step_grow, 40},    {step_fork, 10},    {step_cut, 8},     {step_record, 18},
    {step_release, 12}, {step_swap_out, 5}, {step_swap_in, 7}, {step_prepare, 10},
    {step_ahead, 12},   {step_memory, 2},
};

static vt_status run_one(one_seq *q)
{
    uint32_t sum = 0, k = 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) sum += steps[i].weight;
    uint32_t at = draw(sum);
    while (at >= steps[k].weight) at -= steps[k++].weight;
    if (steps[k].run == step_memory && w.sh->budget_bytes == UINT64_MAX) return VT_OK;
    return steps[k].run(q);
}

// Half of the prompts begin as something that was recorded.
static vt_status come_to_life(one_seq *q)
{
    uint32_t n_hit, n_old = 0, n_tok = draw(SHAPE_MAX_TOK + 1);
    if (w.n_told > 0 && draw(2)) {
        const tale *t = &w.told[draw(w.n_told)];
        n_old = t->n_tok < n_tok ? t->n_tok : n_tok;
        memcpy(q->tok, t->tok, n_old * sizeof *t->tok);
    }
    for (uint32_t i = n_old; i < n_tok; i++) q->tok[i] = draw_token();
    uint32_t expect = vt_match(w.d, q->tok, n_tok);
    judge_hit(q->tok, n_tok, expect);
    assert_true(expect >= least_hit(q->tok, n_tok));
    vt_status st = vt_seq_match(w.d, q->tok, n_tok, 0, &q->s, &n_hit);
    assert_true((st == VT_OK) == (q->s != NULL));
    if (st != VT_OK) return st;
    assert_int_equal(n_hit, expect);
    seq_begins(q, n_hit);
    verify_seq(q);
    return st;
}

// ---- A device that runs beside: a kernel reads what a sequence may read.

static void launch_one(const one_seq *q)
{
    for (uint32_t p = 0; p < w.n_plane; p++) {
        bool is_state = group_at(p)->kind == VT_GROUP_STATE;
        uint32_t from = is_state ? 0 : needed_from(q, p);
        for (uint32_t t = from; t < (is_state ? 1 : q->len_tok) && q->len_tok > 0; t += 9)
            vt_fake_run(w.inner, (uintptr_t)row_at(q, p, t), group_at(p)->row_bytes);
    }
}

static void run_device(void)
{
    uint64_t ticket;
    const one_seq *q = &w.seq[draw(SHAPE_N_SEQ)];
    if (q->s && !q->is_busy && !vt_seq_is_swapped(q->s) && !vt_seq_is_lost(q->s)) launch_one(q);
    if (draw(6) > 0) return;
    assert_ok(w.inner->ops->fence(w.inner, &ticket));
    vt_fake_finish(w.inner, ticket);
}

void shapes_step(bool faulty)
{
    w.faulty = faulty;
    if (w.at == SHAPE_ON_DEVICE) run_device();
    one_seq *q = &w.seq[draw(SHAPE_N_SEQ)];
    if (q->s && vt_seq_is_lost(q->s)) seq_ends(q);
    vt_status st = q->s ? run_one(q) : come_to_life(q);
    vt_fault_disarm(w.fault);
    assert_int_not_equal(st, VT_ENOMEM);
    if (!w.faulty) assert_int_not_equal(st, VT_EDEVICE);
    bool is_limited = w.sh->budget_bytes != UINT64_MAX || w.faulty || w.at == SHAPE_ON_DEVICE;
    if (vt_is_shortage(st)) assert_true(is_limited || w.mapper == VT_MAPPER_THREAD);
}

// ---- One operation, for sweeps

enum { N_STEP_KIND = sizeof steps / sizeof steps[0] };

bool shapes_has_op(uint32_t op)
{
    return op <= N_STEP_KIND;
}

// Draws the same each time, so that a retry finds what the first try left undone.
vt_status shapes_run_op(uint32_t op, uint32_t place, uint64_t seed)
{
    one_seq *q = &w.seq[place];
    uint64_t rng = w.rng;
    bool makes = op == N_STEP_KIND;
    if (makes == (q->s != NULL)) return VT_OK;
    w.rng = seed;
    w.faulty = true;
    vt_status st = makes ? come_to_life(q) : steps[op].run(q);
    w.rng = rng;
    return st;
}

bool shapes_release_lost(void)
{
    bool any = false;
    for (uint32_t i = 0; i < SHAPE_N_SEQ; i++) {
        if (!w.seq[i].s || !vt_seq_is_lost(w.seq[i].s)) continue;
        seq_ends(&w.seq[i]);
        any = true;
    }
    return any;
}

vt_vmm *shapes_fault(void)
{
    return w.fault;
}

vt_manager *shapes_manager(void)
{
    return w.m;
}

#define TOKENS(planes, bytes, window)                                                        \
    {                                                                                        \
        .kind = VT_GROUP_TOKENS, .n_plane = planes, .row_bytes = bytes, .window_tok = window \
    }
#define STATE(planes, bytes)                                          \
    {                                                                 \
        .kind = VT_GROUP_STATE, .n_plane = planes, .row_bytes = bytes \
    }

const shape_setup shapes_all[SHAPE_N_SETUP] = {
    {"wide keys, narrow values, scales",
     3,
     {TOKENS(2, 200, 0), TOKENS(1, 60, 0), TOKENS(2, 2, 0)},
     UINT64_MAX,
     true},
    {"the same, tight", 3, {TOKENS(2, 200, 0), TOKENS(1, 60, 0), TOKENS(2, 2, 0)}, 16, true},
    {"a window beside full layers", 2, {TOKENS(1, 128, 0), TOKENS(2, 128, 50)}, UINT64_MAX, true},
    {"windows, tight", 3, {TOKENS(1, 160, 0), TOKENS(2, 128, 33), TOKENS(1, 96, 70)}, 20, true},
    {"a window alone", 1, {TOKENS(2, 200, 40)}, 14, false},
    {"a state beside tokens", 2, {TOKENS(2, 128, 0), STATE(2, 5000)}, UINT64_MAX, true},
    {"state, window and scales, tight",
     4,
     {TOKENS(1, 200, 0), TOKENS(1, 200, 40), TOKENS(1, 2, 0), STATE(1, 9000)},
     26,
     true},
};
