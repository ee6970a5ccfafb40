// family_steps.c - one step of a random trace over all operations, and what it may answer:
//
//   - VT_NOSPACE is wrong if what is held and what the step needs fit the budget together, or if
//     the step needs no memory; with several groups, if memory has no limit;
//   - a match finds no more than was recorded, and all of it if nothing was evicted; with several
//     groups, what has ended with its sequence.
#include "assert_vt.h"

#include <string.h>

#include "family.h"
#include "vtensor/core/manager.h"
#include "walk.h"

// ---- What is foreseen

// What was held before a step, and by how much it may grow.
typedef struct before {
    vt_stats st;
    uint64_t need; // chunks at most
    bool swaps;    // of the swap
} before;

static uint64_t held(const vt_stats *st)
{
    return st->chunks_owned + st->chunks_shared + st->chunks_cached;
}

static bool fits(const family *f, const before *b)
{
    if (f->setup.max_runs > 0) return false; // or there may be no mapping for it
    if (b->swaps) return b->st.chunks_swapped + b->need <= f->setup.swap_chunks;
    return b->need == 0 || held(&b->st) + b->need <= b->st.budget_bytes / f->chunk_bytes;
}

// What a job that runs beside may take meanwhile is not foreseen.
static void judge(const family *f, const before *b, vt_status st)
{
    if (!vt_is_shortage(st) || f->faulty || f->setup.mapper == VT_MAPPER_THREAD) return;
    if (st == VT_BUSY && (f->setup.device || f->n_moving > 0)) return;
    if (f->setup.n_group) {
        assert_true(f->setup.budget_chunks != UINT64_MAX || f->setup.device);
        return;
    }
    if (fits(f, b)) fail_msg("no space, where %d chunks more had fit", (int)b->need);
}

static before look(const family *f, uint64_t need)
{
    return (before){.st = family_stats(f), .need = need};
}

static uint32_t in_common(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

// The tale that has the most of them; NULL: none has any.
static const tale *best_tale(const tales *t, const uint32_t *tok, uint32_t n_tok, uint32_t *best)
{
    const tale *like = NULL;
    *best = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t n = in_common(t->at[k].tok, t->at[k].n_tok, tok, n_tok);
        if (n > *best) like = &t->at[k];
        if (n > *best) *best = n;
    }
    return like;
}

static void fail_hit(const family *f, const tale *like, uint32_t best, uint32_t n_hit)
{
    vt_stats st = family_stats(f);
    fail_msg("operation %u: %u tokens are found of %u that operation %u recorded (%s, %u tokens); "
             "prefixes: %d nodes, %d tokens, %d evicted; device errors: %d, quarantined spans: %d",
             f->n_step, n_hit, best, like ? like->in_step : 0, like ? like->by : "none",
             like ? like->n_tok : 0, (int)st.prefix_nodes, (int)st.prefix_tok,
             (int)st.prefix_evicted, (int)st.device_errors, (int)st.quarantined_spans);
}

// A node of the tree that has more tokens takes no chunk that lacks their rows, so where a window
// has passed in the longer one, the shorter one cannot be matched.
static bool is_continued(const tales *t, const tale *of)
{
    for (uint32_t k = 0; k < t->n; k++)
        if (t->at[k].n_tok > of->n_tok &&
            in_common(t->at[k].tok, t->at[k].n_tok, of->tok, of->n_tok) == of->n_tok)
            return true;
    return false;
}

// Without a limit of memory nothing is evicted: what ended with its sequence can be matched as long
// as it is. With a state a match ends where some sequence did.
static void foresee_shapes(const family *f, const tales *t, const uint32_t *tok, uint32_t n_tok,
                           uint32_t n_hit)
{
    uint32_t least = 0;
    bool has_end = n_hit == 0;
    for (uint32_t k = 0; k < t->n; k++) {
        const tale *of = &t->at[k];
        uint32_t n = in_common(of->tok, of->n_tok, tok, n_tok);
        has_end |= of->has_end && of->n_tok == n_hit && n == n_hit;
        if (of->is_sure && n == of->n_tok && n > least && !(f->has_window && is_continued(t, of)))
            least = n;
    }
    if (f->has_state && !has_end) fail_msg("a match of %u tokens, where no state was", n_hit);
    if (f->setup.budget_chunks == UINT64_MAX && !f->faulty) assert_true(n_hit >= least);
}

static void foresee_hit(const family *f, uint32_t domain, const uint32_t *tok, uint32_t n_tok)
{
    const tales *t = &f->told[domain];
    uint32_t best, n_hit = vt_match(f->domain[domain], tok, n_tok);
    const tale *like = best_tale(t, tok, n_tok, &best);
    if (t->full || n_hit == best) return;
    if (f->setup.n_group && n_hit < best) {
        foresee_shapes(f, t, tok, n_tok, n_hit);
        return;
    }
    bool may_be_gone = family_stats(f).prefix_evicted > t->had_evicted;
    if (n_hit > best || !may_be_gone) fail_hit(f, like, best, n_hit);
}

// ---- Steps. Each for the sequence at place i, which lives.

static uint32_t draw(family *f, uint64_t below)
{
    return (uint32_t)family_draw(f, below);
}

// What extend answers where nothing is shared and no call fails.
static vt_status foresee(const family *f, uint32_t i, uint32_t len_tok)
{
    uint64_t n_chunk = 0, n_used = 0;
    if (len_tok > FAMILY_MAX_TOK) return VT_EINVAL;
    if (family_chunks_for(f, len_tok) <= family_chunks_for(f, f->kin[i].len_tok)) return VT_OK;
    for (uint32_t k = 0; k < f->setup.n_seq; k++) {
        if (!f->kin[k].s) continue;
        uint32_t len = k == i ? len_tok : f->kin[k].len_tok;
        n_chunk += family_chunks_for(f, len);
        n_used += len > 0;
    }
    uint64_t n_view = f->setup.layout == VT_LAYOUT_SPLIT ? f->setup.n_plane : 1;
    if (n_chunk > f->setup.budget_chunks) return VT_NOSPACE;
    if (f->setup.max_runs > 0 && n_used * n_view > f->setup.max_runs) return VT_NOMAPS;
    return VT_OK;
}

// Mostly a little more, sometimes a lot, sometimes less or too much.
static uint32_t draw_len(family *f, uint32_t len_tok)
{
    switch (draw(f, 8)) {
    case 0: return draw(f, FAMILY_MAX_TOK + 1);
    case 1: return FAMILY_MAX_TOK + draw(f, 3);
    case 2: return len_tok / 2;
    default: return len_tok + draw(f, 24);
    }
}

static vt_status step_extend(family *f, uint32_t i)
{
    uint32_t len_tok = draw_len(f, f->kin[i].len_tok);
    vt_status want = foresee(f, i, len_tok), st = family_extend(f, i, len_tok);
    bool has_quarantine = family_stats(f).quarantined_spans > 0; // its memory is missing elsewhere
    // After failures a sequence may be mapped in more runs than one.
    bool is_scattered = has_quarantine || (st == VT_NOMAPS && f->setup.max_runs > 0);
    if (!f->faulty || ((st == VT_OK || st == VT_EINVAL) && !has_quarantine))
        assert_status(want, st);
    else
        assert_true(vt_fault_fired(f->fault) > 0 || st == want || is_scattered);
    return st;
}

// The lengths come one by one: what a step draws does not depend on the compiler.
static vt_status step_grow(family *f, uint32_t i)
{
    if (f->setup.plain) return step_extend(f, i);
    const kin *k = &f->kin[i];
    uint32_t left = FAMILY_MAX_TOK - k->len_tok, n_more = 1 + draw(f, 40);
    if (n_more > left) n_more = left;
    uint64_t more = family_chunks_for(f, k->len_tok + n_more) - family_chunks_for(f, k->len_tok);
    before b = look(f, more + 1); // and a copy of the tail
    vt_status st = family_grow(f, i, n_more);
    judge(f, &b, st);
    return st;
}

static vt_status step_fork(family *f, uint32_t i)
{
    uint32_t child = draw(f, f->setup.n_seq);
    if (f->kin[child].s) return VT_OK;
    before b = look(f, 1);                             // a copy of the tail
    const bool whole = f->setup.n_group && draw(f, 2); // else windows and states rarely allow it
    uint32_t len_tok = whole ? f->kin[i].len_tok : draw(f, f->kin[i].len_tok + 1);
    vt_status st = family_fork(f, i, child, len_tok);
    judge(f, &b, st);
    return st;
}

static vt_status step_cut(family *f, uint32_t i)
{
    const bool all = f->setup.n_group && draw(f, 4) == 0;
    vt_status st = family_cut(f, i, all ? 0 : draw(f, f->kin[i].len_tok + 1));
    assert_false(vt_is_shortage(st));
    return st;
}

static vt_status step_record(family *f, uint32_t i)
{
    vt_retention keep = {.priority = (uint8_t)draw(f, 3)};
    keep.pinned = draw(f, 6) == 0;
    keep.until_ms = draw(f, 2) * (f->now_ms + 100);
    const kin *k = &f->kin[i];
    uint32_t n_tok = draw(f, 2) ? k->len_tok : draw(f, k->len_tok + 1);
    bool plain = draw(f, 2);
    uint32_t had = vt_match(f->domain[k->domain], k->tok, n_tok);
    vt_status st = family_record(f, i, n_tok, plain ? NULL : &keep);
    uint32_t has = vt_match(f->domain[k->domain], k->tok, n_tok);
    if (st == VT_NOPINS) assert_true(!plain && keep.pinned);
    if (!f->setup.n_group) assert_true(has >= had);
    if (f->setup.n_group) { // a part of it may be shared even after a failure
        if (st == VT_EINVAL || n_tok == 0) return st;
        family_tell(f, k->domain, k->tok, n_tok);
        tales *t = &f->told[k->domain];
        if (!t->full) t->at[t->n - 1].has_end = n_tok == k->len_tok;
    } else if (has > had) {
        family_tell(f, k->domain, k->tok, has);
    }
    return st;
}

static vt_status step_retain(family *f, uint32_t i)
{
    vt_retention keep = {.priority = (uint8_t)draw(f, 3)};
    const kin *k = &f->kin[i];
    uint32_t n_hit, n_tok = draw(f, k->len_tok + 1);
    vt_status st = vt_retain(f->domain[k->domain], k->tok, n_tok, &keep, &n_hit);
    assert_int_equal(n_hit, vt_match(f->domain[k->domain], k->tok, n_tok));
    return st;
}

// Spare chunks, but for those that live sequences have mapped after their tokens.
static uint64_t n_spare_beside(const family *f)
{
    return family_stats(f).chunks_spare -
           f->m->vset.mapped_free_bytes[VTI_SPAN_LIVE] / f->chunk_bytes;
}

// What is too much goes back to the system in portions: unmapped in one step, destroyed in another.
static vt_status step_release(family *f, uint32_t i)
{
    uint64_t most = f->setup.high_chunks;
    family_release(f, i);
    if (!f->setup.plain || most == 0) return VT_OK;
    if (most == UINT64_MAX) most = 0;
    for (int k = 0; k < 20 && n_spare_beside(f) > most; k++) {
        vt_status st = vt_step(f->m, VT_AHEAD_NONE, 0, f->now_ms);
        if (!f->faulty) assert_ok(st);
        vt_work(f->m, UINT32_MAX, NULL);
    }
    if (!f->faulty) assert_true(n_spare_beside(f) <= most);
    return VT_OK;
}

static void note_moving(family *f, kin *k, vt_status st)
{
    f->n_moving += (st == VT_BUSY) - (int)k->is_moving;
    k->is_moving = st == VT_BUSY;
}

// Every other one waits until it has arrived; the others are on their way for some steps.
static vt_status swap_some(family *f, uint32_t i, vt_status (*swap)(vt_seq *s))
{
    kin *k = &f->kin[i];
    vt_status st = swap(k->s);
    if (st == VT_BUSY && draw(f, 2)) st = vt_seq_wait(k->s);
    note_moving(f, k, st);
    if (st == VT_BUSY) assert_true(vt_seq_is_swapped(k->s));
    return st == VT_BUSY ? VT_OK : st;
}

// What goes out with it and what comes may take each other's place meanwhile.
static vt_status step_swap_out(family *f, uint32_t i)
{
    before b = look(f, family_chunks_for(f, f->kin[i].len_tok));
    b.swaps = true;
    vt_status st = swap_some(f, i, vt_seq_swap_out);
    if (f->n_moving == 0) judge(f, &b, st);
    return st;
}

static vt_status step_swap_in(family *f, uint32_t i)
{
    before b = look(f, family_chunks_for(f, f->kin[i].len_tok));
    const int n_moved = f->n_moving; // one that moved already may answer how that went
    vt_status st = swap_some(f, i, vt_seq_swap_in);
    if (n_moved == 0 && f->n_moving == 0) judge(f, &b, st);
    if (st == VT_OK && !f->kin[i].is_moving) assert_false(vt_seq_is_swapped(f->kin[i].s));
    return st;
}

static vt_status step_prepare(family *f, uint32_t i)
{
    vt_seq *s = f->kin[i].s;
    uint32_t len_tok = f->kin[i].len_tok + draw(f, 80), deadline = draw(f, 5);
    vt_status st = vt_seq_prepare(s, len_tok, deadline);
    if (st == VT_OK && draw(f, 2)) st = vt_seq_wait(s);
    return st;
}

static vt_status step_ahead(family *f, uint32_t i)
{
    (void)i;
    vt_ahead policy = (vt_ahead)draw(f, 3);
    uint32_t n_tok = draw(f, 50);
    vt_status st = vt_step(f->m, policy, n_tok, f->now_ms += draw(f, 20));
    vt_work(f->m, draw(f, 4), NULL);
    assert_false(vt_is_shortage(st));
    return st;
}

static vt_status step_trim(family *f, uint32_t i)
{
    (void)i;
    uint64_t freed, keep = draw(f, 4) * f->chunk_bytes, had = family_stats(f).mapped_bytes;
    vt_status st = vt_trim(f->m, keep, &freed);
    vt_stats is = family_stats(f);
    if (f->setup.mapper == VT_MAPPER_OWNER) assert_int_equal(freed, had - is.mapped_bytes);
    if (st == VT_OK && !f->faulty && !f->setup.device) assert_true(is.spare_bytes <= keep);
    return st;
}

static vt_status step_evict(family *f, uint32_t i)
{
    (void)i;
    uint64_t freed, want = draw(f, 8) * f->chunk_bytes;
    vt_stats was = family_stats(f);
    vt_status st = vt_evict(f->m, want, &freed);
    vt_stats is = family_stats(f);
    if (f->setup.mapper == VT_MAPPER_OWNER)
        assert_int_equal(freed, was.mapped_bytes - is.mapped_bytes);
    // Less by what sequences that have ended held still. A span that is quarantined holds what it
    // maps, and a sequence that comes back gets memory meanwhile.
    if (!f->faulty && f->n_moving == 0)
        assert_true(is.chunks_owned + is.chunks_shared <= was.chunks_owned + was.chunks_shared);
    return st;
}

static vt_status step_forget(family *f, uint32_t i)
{
    uint32_t d = f->kin[i].domain;
    f->told[d].n = 0;
    f->told[d].full = false;
    for (uint32_t k = 0; k < FAMILY_MAX_SEQ; k++)
        if (f->kin[k].domain == d) f->kin[k].n_pending = 0;
    vt_domain_forget(f->domain[d]);
    assert_int_equal(vt_match(f->domain[d], f->kin[i].tok, f->kin[i].len_tok), 0);
    return VT_OK;
}

static vt_status step_reopen(family *f, uint32_t i)
{
    uint32_t d = f->kin[i].domain;
    vt_domain_close(f->domain[d]);
    return vt_domain_open(f->m, &d, sizeof d, &f->domain[d]);
}

// Whether something is on its way to the system already, or may be.
static bool has_jobs(const family *f)
{
    bool any = f->m->job.in_flight;
    for (uint32_t k = 0; k < f->m->vset.n_span; k++)
        any |= vti_span_in_flight(&f->m->vset, f->m->vset.span[k]);
    return any;
}

static vt_status step_budget(family *f, uint32_t i)
{
    (void)i;
    const uint64_t n_chunk = 2 + draw(f, 60);
    // What an ended sequence held alone may go as soon as the device has done with it.
    const bool goes = f->setup.device || has_jobs(f);
    vt_stats was = family_stats(f);
    vt_status st = vt_set_budget(f->m, n_chunk * f->chunk_bytes);
    vt_stats is = family_stats(f);
    assert_int_equal(is.budget_bytes, st == VT_OK ? n_chunk * f->chunk_bytes : was.budget_bytes);
    if (st == VT_NOSPACE && !f->faulty && f->setup.mapper == VT_MAPPER_OWNER) {
        assert_true(held(&was) > n_chunk); // nothing is changed and nothing lost
        assert_int_equal(is.prefix_nodes, was.prefix_nodes);
        assert_true(is.chunks_created == was.chunks_created ||
                    (goes && is.chunks_created < was.chunks_created));
    }
    return st;
}

// What is beyond it goes in later steps.
static vt_status step_aim(family *f, uint32_t i)
{
    (void)i;
    uint64_t n_chunk = 2 + draw(f, 60);
    vt_stats was = family_stats(f);
    vt_status st = vt_aim_budget(f->m, n_chunk * f->chunk_bytes);
    vt_stats is = family_stats(f);
    assert_int_equal(is.budget_bytes, st == VT_OK ? n_chunk * f->chunk_bytes : was.budget_bytes);
    if (st == VT_NOSPACE && !f->faulty && f->setup.mapper == VT_MAPPER_OWNER) {
        assert_true(held(&was) > n_chunk);
        assert_int_equal(is.prefix_nodes, was.prefix_nodes);
    }
    return st;
}

static vt_status step_give_back(family *f, uint32_t i)
{
    (void)i;
    vt_give_back(f->m, draw(f, 8) * f->chunk_bytes, draw(f, 4) == 0);
    return VT_OK;
}

static vt_status step_snapshot(family *f, uint32_t i)
{
    (void)i;
    vt_snapshot *snap;
    vt_status st = vt_snapshot_take(f->m, &snap);
    assert_int_equal(snap->n_chunk, family_stats(f).chunks_created);
    walk_verify(f->m, snap);
    vt_snapshot_free(snap);
    return st;
}

typedef struct step {
    const char *name;
    vt_status (*run)(family *f, uint32_t i);
    uint32_t weight;
} step;

static const step steps[] = {
    {"grow", step_grow, 40},        {"fork", step_fork, 10},      {"cut", step_cut, 10},
    {"record", step_record, 20},    {"retain", step_retain, 2},   {"release", step_release, 9},
    {"swap out", step_swap_out, 6}, {"swap in", step_swap_in, 8}, {"prepare", step_prepare, 10},
    {"ahead", step_ahead, 12},      {"trim", step_trim, 1},       {"evict", step_evict, 1},
    {"forget", step_forget, 1},     {"reopen", step_reopen, 1},   {"budget", step_budget, 2},
    {"snapshot", step_snapshot, 1}, {"aim", step_aim, 2},         {"give back", step_give_back, 1},
};

enum { N_STEP = sizeof steps / sizeof steps[0] };

static uint32_t weight_of(const family *f, const step *s)
{
    bool is_plain = s->run == step_grow || s->run == step_release || s->run == step_trim ||
                    s->run == step_ahead;
    bool sets_limit =
        s->run == step_budget || s->run == step_aim || s->run == step_give_back ||
        ((s->run == step_trim || s->run == step_evict) && f->setup.budget_chunks == UINT64_MAX);
    // foresee_shapes relies on what the limit was, and a router on the counts of the domain.
    if (f->setup.n_group && (sets_limit || s->run == step_reopen)) return 0;
    return is_plain || !f->setup.plain ? s->weight : 0;
}

static const step *draw_step(family *f)
{
    uint32_t sum = 0, at;
    for (int k = 0; k < N_STEP; k++) sum += weight_of(f, &steps[k]);
    at = draw(f, sum);
    const step *s = steps;
    while (at >= weight_of(f, s)) at -= weight_of(f, s++);
    return s;
}

// Half of the prompts begin as one did that was recorded.
static uint32_t draw_prompt(family *f, uint32_t domain, uint32_t *tok)
{
    const tales *t = &f->told[domain];
    uint32_t n_tok = draw(f, FAMILY_MAX_TOK + 1), n_old = 0;
    if (t->n > 0 && draw(f, 2)) {
        const tale *old = &t->at[draw(f, t->n)];
        n_old = old->n_tok < n_tok ? old->n_tok : n_tok;
        memcpy(tok, old->tok, n_old * sizeof *tok);
    }
    for (uint32_t i = n_old; i < n_tok; i++) tok[i] = family_token(f);
    return n_tok;
}

static vt_status come_to_life(family *f, uint32_t i)
{
    uint32_t tok[FAMILY_MAX_TOK];
    bool plain = f->setup.plain || draw(f, 3) == 0;
    before b = look(f, plain ? 0 : 1);
    vt_status st;
    f->step_name = plain ? "create" : "match";
    if (plain) {
        st = family_create(f, i, draw(f, FAMILY_MAX_TOK));
    } else {
        uint32_t n_tok = draw_prompt(f, i % f->n_domain, tok);
        foresee_hit(f, i % f->n_domain, tok, n_tok);
        st = family_match(f, i, tok, n_tok);
    }
    judge(f, &b, st);
    return st;
}

// ---- A device that runs beside

// A kernel reads what a sequence may read.
static void launch(family *f, const kin *k)
{
    for (uint32_t p = 0; p < f->n_plane && k->len_tok > 0; p++) {
        uint32_t from = family_needed_from(f, k, p);
        const uint32_t end = k->len_tok - k->len_tok % family_row_tok(f, p);
        if (end <= from) continue;
        const uint8_t *first = family_row(f, k, p, from);
        const bool is_state = f->of_plane[p].kind == VT_GROUP_STATE;
        const uint8_t *last = family_row(f, k, p, is_state ? from : end - 1);
        vt_fake_run(f->inner, (uintptr_t)first, (size_t)(last - first) + f->of_plane[p].row_bytes);
    }
}

// Kernels for one of the sequences, and now and then all are done.
static void run_device(family *f)
{
    const kin *k = &f->kin[draw(f, f->setup.n_seq)];
    if (k->s && !k->is_busy && !vt_seq_is_swapped(k->s) && !vt_seq_is_lost(k->s)) launch(f, k);
    uint64_t ticket;
    if (draw(f, 8) > 0) return;
    assert_ok(f->inner->ops->fence(f->inner, &ticket));
    vt_fake_finish(f->inner, ticket);
}

// ---- The step

// A sequence at one moment, for the message of a failure.
typedef struct condition {
    bool lives, swapped, lost;
    uint32_t len_tok, backed_tok;
} condition;

static condition condition_of(const kin *k)
{
    if (!k->s) return (condition){0};
    return (condition){true, vt_seq_is_swapped(k->s), vt_seq_is_lost(k->s), vt_seq_len(k->s),
                       vt_seq_backed(k->s)};
}

static void print_condition(const char *when, const condition *c)
{
    print_message("  %s: %s%s%s, %u tokens, backed up to %u\n", when,
                  c->lives ? "it lives" : "there is none",
                  c->swapped ? ", swapped or on its way" : "", c->lost ? ", lost" : "", c->len_tok,
                  c->backed_tok);
}

static void verify_answer(const family *f, uint32_t i, vt_status st, const condition *was)
{
    bool is_right = st != VT_ENOMEM && (f->faulty || st != VT_EDEVICE) &&
                    (st != VT_EINVAL || was->swapped || f->setup.swap_chunks == 0 || f->has_state ||
                     f->has_window);
    if (is_right) return;
    const kin *k = &f->kin[i];
    const condition is = condition_of(k);
    print_condition("before", was);
    print_condition("after", &is);
    fail_msg("operation %u: %s of sequence %u answers %s; on its way when last asked: %d; %d on "
             "their way, %d device errors",
             f->n_step, f->step_name, i, vt_status_name(st), k->is_moving, f->n_moving,
             (int)family_stats(f).device_errors);
}

static vt_status run_drawn_step(family *f, uint32_t i)
{
    const step *s = draw_step(f);
    f->step_name = s->name;
    return s->run(f, i);
}

void family_step(family *f, bool faulty)
{
    f->faulty = faulty;
    f->n_step++;
    if (f->setup.device) run_device(f);
    uint32_t i = draw(f, f->setup.n_seq);
    if (f->kin[i].s && vt_seq_is_lost(f->kin[i].s)) family_release(f, i);
    const condition was = condition_of(&f->kin[i]);
    vt_status st = was.lives ? run_drawn_step(f, i) : come_to_life(f, i);
    vt_fault_disarm(f->fault);
    verify_answer(f, i, st, &was);
}

// ---- One operation, for sweeps

bool family_has_op(uint32_t op)
{
    return op <= N_STEP;
}

// Draws the same each time, so that a retry finds what the first try left undone.
vt_status family_run_op(family *f, uint32_t op, uint32_t i, uint64_t seed)
{
    uint64_t rng = f->rng;
    bool makes = op == N_STEP;
    if (makes == (f->kin[i].s != NULL)) return VT_OK;
    if (!makes && weight_of(f, &steps[op]) == 0) return VT_OK;
    f->rng = seed;
    f->faulty = true;
    vt_status st = makes ? come_to_life(f, i) : steps[op].run(f, i);
    f->rng = rng;
    return st;
}

bool family_release_lost(family *f)
{
    bool any = false;
    for (uint32_t i = 0; i < FAMILY_MAX_SEQ; i++) {
        if (!f->kin[i].s || !vt_seq_is_lost(f->kin[i].s)) continue;
        family_release(f, i);
        any = true;
    }
    return any;
}
