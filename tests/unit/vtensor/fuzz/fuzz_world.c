// fuzz_world.c - see fuzz_world.h: the setups that a seed draws, and the comparison of bytes.
#include "fuzz_world.h"

#include <stdlib.h>
#include <string.h>

#include "assert_vt.h"
#include "vtensor/core/manager.h"

uint32_t fuzz_draw(fuzz_world *w, uint32_t below)
{
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((w->rng >> 33) % below);
}

void fuzz_fail(const fuzz_world *w, const char *what, uint32_t i)
{
    fail_msg("VT_FUZZ_SEED=%llu, call %u, %s (%s), sequence %u: %s", (unsigned long long)w->seed,
             w->n_call, w->call, vt_status_name(w->st), i, what);
    abort(); // not reached
}

// ---- Setups

static void draw_groups(fuzz_world *w)
{
    fuzz_setup *su = &w->setup;
    const size_t row_bytes[] = {128, 120, 60, 1000};
    size_t slice_bytes = fuzz_draw(w, 4) == 0 ? 65536 : 4096 << fuzz_draw(w, 2);
    su->group[0] = (vt_group){VT_GROUP_TOKENS, 1 + fuzz_draw(w, 2), row_bytes[fuzz_draw(w, 4)], 0,
                              slice_bytes};
    su->cfg.n_group = 1;
    if (fuzz_draw(w, 2) == 0)
        su->group[su->cfg.n_group++] =
            (vt_group){VT_GROUP_TOKENS, 2, row_bytes[fuzz_draw(w, 3)], 1 + fuzz_draw(w, 100), 4096};
    if (fuzz_draw(w, 4) == 0)
        su->group[su->cfg.n_group++] =
            (vt_group){VT_GROUP_STATE, 1, 100 + fuzz_draw(w, 6000), 0, 4096};
    for (uint32_t g = 0; g < su->cfg.n_group; g++)
        for (uint32_t p = 0; p < su->group[g].n_plane; p++)
            w->plane[w->n_plane++] =
                (fuzz_plane){su->group[g].row_bytes, su->group[g].kind == VT_GROUP_STATE};
}

static void draw_setup(fuzz_world *w)
{
    fuzz_setup *su = &w->setup;
    su->cfg = vt_config_default();
    draw_groups(w);
    su->cfg.group = su->group;
    su->cfg.max_tok = FUZZ_MAX_TOK;
    su->cfg.max_seq = FUZZ_N_SEQ;
    su->cfg.layout = fuzz_draw(w, 2) ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    su->cfg.mapper = fuzz_draw(w, 2) ? VT_MAPPER_THREAD : VT_MAPPER_OWNER;
    su->cfg.no_guard = fuzz_draw(w, 8) == 0;
    su->cfg.swap_bytes = fuzz_draw(w, 2) ? 1 << 20 : 0;
    su->cfg.swap_dir = FX_BINARY_DIR;
    su->max_runs = fuzz_draw(w, 3) == 0 ? 40 + fuzz_draw(w, 200) : 0;
    su->fault_one_in = fuzz_draw(w, 2) ? 2 + fuzz_draw(w, 30) : 0;
}

// Room for about as much as two to five sequences of full length need.
static void draw_budget(fuzz_world *w)
{
    uint64_t full = 0;
    for (uint32_t g = 0; g < w->setup.cfg.n_group; g++) {
        const vt_group *gr = &w->setup.group[g];
        uint64_t bytes = gr->row_bytes * (gr->kind == VT_GROUP_STATE ? 1 : FUZZ_MAX_TOK);
        full += gr->n_plane * (bytes + 2 * gr->slice_bytes);
    }
    w->setup.cfg.budget_bytes = full + fuzz_draw(w, 256) * full / 64;
    w->setup.cfg.spare_high_bytes = fuzz_draw(w, 2) ? UINT64_MAX : full / 2;
    if (fuzz_draw(w, 2)) w->setup.cfg.spare_low_bytes = full / 8;
}

void fuzz_open(fuzz_world *w, uint64_t seed)
{
    vt_vmm *host;
    *w = (fuzz_world){.seed = seed, .rng = seed * 0x9E3779B97F4A7C15u, .call = "open"};
    (void)fuzz_draw(w, 2);
    draw_setup(w);
    draw_budget(w);
    assert_ok(vt_vmm_host_open(&host));
    w->fault = vt_fault_open(host);
    assert_non_null(w->fault);
    if (w->setup.max_runs > 0) vt_fault_set_max_runs(w->fault, w->setup.max_runs);
    w->setup.cfg.vmm = w->fault;
    assert_ok(vt_manager_create(&w->setup.cfg, &w->m));
    for (uint32_t t = 0; t < FUZZ_N_TENANT; t++)
        assert_ok(vt_domain_open(w->m, &t, sizeof t, &w->domain[t]));
}

void fuzz_close(fuzz_world *w)
{
    const char *what = NULL;
    vt_fault_disarm(w->fault);
    if (vt_check(w->m, &what) != VT_OK)
        fuzz_fail(w, what ? what : "vt_check cannot tell", FUZZ_N_SEQ);
    vt_manager_destroy(w->m);
}

// ---- Bytes

// Eight bytes of the row of token t in a plane, again and again.
static uint64_t row_pattern(const fuzz_seq *q, uint64_t hash, uint32_t plane)
{
    const uint64_t each = 0x0101010101010101u;
    uint64_t h = (hash + plane) * 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
    return (h & 0x3F * each) | ((q->tenant + 1) * 0x40 * each);
}

static uint64_t next_hash(uint64_t hash, uint32_t tok)
{
    hash = (hash + tok + 1) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 31;
}

static bool row_is(const char *row, size_t size_bytes, uint64_t pattern)
{
    for (size_t i = 0; i < size_bytes; i += 8)
        if (memcmp(row + i, &pattern, size_bytes - i < 8 ? size_bytes - i : 8) != 0) return false;
    return true;
}

static void row_set(char *row, size_t size_bytes, uint64_t pattern)
{
    for (size_t i = 0; i < size_bytes; i += 8)
        memcpy(row + i, &pattern, size_bytes - i < 8 ? size_bytes - i : 8);
}

static char *row_at(const fuzz_world *w, const fuzz_seq *q, uint32_t plane, uint32_t t)
{
    return (char *)vt_seq_plane(q->s, plane) + t * vt_plane_stride(w->m, plane);
}

static void write_state(const fuzz_world *w, uint32_t i, uint32_t plane, uint64_t hash, bool is_new)
{
    char *row = row_at(w, &w->seq[i], plane, 0);
    if (is_new && !row_is(row, w->plane[plane].row_bytes, 0))
        fuzz_fail(w, "a new state is not zero", i);
    row_set(row, w->plane[plane].row_bytes, row_pattern(&w->seq[i], hash, plane));
}

void fuzz_write(const fuzz_world *w, uint32_t i, uint32_t from)
{
    const fuzz_seq *q = &w->seq[i];
    uint64_t hash = 0;
    for (uint32_t t = 0; t < q->len_tok; t++) {
        hash = next_hash(hash, q->tok[t]);
        for (uint32_t p = 0; p < w->n_plane && t >= from; p++) {
            char *row = row_at(w, q, p, t);
            if (w->plane[p].is_state) continue;
            if (!row_is(row, w->plane[p].row_bytes, 0)) fuzz_fail(w, "a new row is not zero", i);
            row_set(row, w->plane[p].row_bytes, row_pattern(q, hash, p));
        }
    }
    for (uint32_t p = 0; p < w->n_plane && q->len_tok > from; p++)
        if (w->plane[p].is_state) write_state(w, i, p, hash, from == 0);
}

static void look_within(const fuzz_world *w, uint32_t i)
{
    const fuzz_seq *q = &w->seq[i];
    uint32_t front[FUZZ_MAX_PLANE];
    uint64_t hash = 0;
    for (uint32_t p = 0; p < w->n_plane; p++)
        front[p] = w->plane[p].is_state ? UINT32_MAX : vt_seq_front(q->s, p);
    for (uint32_t t = 0; t < q->len_tok; t++) {
        hash = next_hash(hash, q->tok[t]);
        for (uint32_t p = 0; p < w->n_plane; p++)
            if (t >= front[p] &&
                !row_is(row_at(w, q, p, t), w->plane[p].row_bytes, row_pattern(q, hash, p)))
                fuzz_fail(w, "a row is not what was written", i);
    }
    for (uint32_t p = 0; p < w->n_plane && q->len_tok > 0; p++)
        if (w->plane[p].is_state &&
            !row_is(row_at(w, q, p, 0), w->plane[p].row_bytes, row_pattern(q, hash, p)))
            fuzz_fail(w, "a state is not what was written", i);
}

// Zero or the tenant's own.
static bool are_own(const uint64_t *word, size_t n, uint32_t tenant)
{
    const uint64_t each = 0x0101010101010101u, marks = 0xC0 * each,
                   own = (tenant + 1) * 0x40 * each;
    for (size_t k = 0; k < n; k++) {
        if (word[k] == 0 || (word[k] & marks) == own) continue;
        const uint8_t *b = (const uint8_t *)&word[k];
        for (int j = 0; j < 8; j++)
            if (b[j] != 0 && b[j] >> 6 != tenant + 1) return false;
    }
    return true;
}

// A sequence whose mapped bytes are looked at.
typedef struct fuzz_looker {
    const fuzz_world *w;
    uint32_t i;
} fuzz_looker;

static void look_at_run(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n)
{
    const fuzz_looker *lk = ud;
    const fuzz_seq *q = &lk->w->seq[lk->i];
    const vti_geo *geo = &lk->w->m->geo;
    const vti_lane_geo *gr = &geo->group[group];
    for (uint32_t p = position; p < position + n && !(at & VT_AT_SWAP); p++)
        for (uint32_t v = 0; v < gr->n_view; v++)
            if (!are_own((const uint64_t *)vti_lane_addr(geo, q->s->span, group, v, p),
                         gr->slice_bytes / 8, q->tenant))
                fuzz_fail(lk->w, "bytes of another tenant are readable", lk->i);
}

// While a job of the span is with the mapper, what is beyond the length may go or come at any time.
static void look_at_all(const fuzz_world *w, uint32_t i)
{
    fuzz_looker looker = {w, i};
    if (!vti_span_in_flight(&w->m->vset, w->seq[i].s->span))
        vt_seq_map(w->seq[i].s, look_at_run, &looker);
}

void fuzz_look(const fuzz_world *w)
{
    for (uint32_t i = 0; i < FUZZ_N_SEQ; i++) {
        const fuzz_seq *q = &w->seq[i];
        if (!q->s || vt_seq_is_lost(q->s)) continue;
        if (vt_seq_len(q->s) != q->len_tok) fuzz_fail(w, "it has another length", i);
        if (vt_seq_is_swapped(q->s)) continue;
        look_within(w, i);
        look_at_all(w, i);
    }
}
