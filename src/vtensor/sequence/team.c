// team.c - the managers of a tensor-parallel group: each call of vtensor.h on all of them, all or
// nothing.
//
// Everything here is made of calls of vtensor.h, one for each rank in turn. They are all or nothing
// by these means:
//   asked before    truncate and fork fail for reasons that can be known (sequence.h)
//   in two halves   an extend: no rank lets a window pass before all of them have the memory
//   undone          what is new is released, what an extend has backed is given back
//   turned round    ranks arrive in the swap or back at different times; if one fails, the others
//                   turn round, and the call answers VT_BUSY until they have arrived
//   harmless        what a rank has prepared or recorded beyond the others is never seen
#include "vtensor/team.h"

#include <assert.h>
#include <stdlib.h>

#include "sequence.h"

struct vt_team {
    uint32_t n;
    vt_team_seq *newest;           // all sequences of the team
    vt_team_domain *newest_domain; // all domains
    vt_manager *m[];               // [n]
};

struct vt_team_domain {
    vt_team *t;
    vt_team_domain *newer, *older;
    uint32_t n_open;
    vt_domain *d[]; // [n]
};

typedef enum team_way { TEAM_STAYS = 0, TEAM_GOES_OUT, TEAM_COMES_IN } team_way;

struct vt_team_seq {
    vt_team *t;
    vt_team_seq *newer, *older;
    uint32_t len_tok; // in every rank
    bool is_swapped;  // or moving
    team_way way;
    bool had_none;  // when a swap_out began, no rank was swapped out
    vt_status owed; // the failure for which ranks turn round
    bool is_lost;   // ranks differ
    vt_seq *seq[];  // [n]
};

// ---- Groups and domains

vt_status vt_team_create(vt_manager *const *m, uint32_t n, vt_team **out)
{
    *out = NULL;
    if (n == 0 || n > VT_MAX_RANK) return VT_EINVAL;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (m[i] == m[k]) return VT_EINVAL;
    vt_team *t = calloc(1, sizeof *t + n * sizeof *m);
    if (!t) return VT_ENOMEM;
    t->n = n;
    for (uint32_t k = 0; k < n; k++) t->m[k] = m[k];
    *out = t;
    return VT_OK;
}

uint32_t vt_team_n_rank(const vt_team *t)
{
    return t->n;
}

vt_manager *vt_team_manager(const vt_team *t, uint32_t rank)
{
    assert(rank < t->n);
    return t->m[rank];
}

static void close_ranks(vt_team_domain *d, uint32_t n)
{
    while (n-- > 0) vt_domain_close(d->d[n]);
    free(d);
}

static vt_status domain_make(vt_team *t, const void *key, size_t key_bytes, vt_team_domain **out)
{
    vt_team_domain *d = calloc(1, sizeof *d + t->n * sizeof d->d[0]);
    if (!d) return VT_ENOMEM;
    for (uint32_t k = 0; k < t->n; k++) {
        vt_status st = vt_domain_open(t->m[k], key, key_bytes, &d->d[k]);
        if (st == VT_OK) continue;
        close_ranks(d, k);
        return st;
    }
    d->t = t;
    d->d[0]->team = d;
    d->older = t->newest_domain;
    if (d->older) d->older->newer = d;
    t->newest_domain = d;
    *out = d;
    return VT_OK;
}

// Rank 0 finds by the key the one that is open.
vt_status vt_team_domain_open(vt_team *t, const void *key, size_t key_bytes, vt_team_domain **out)
{
    vt_domain *first;
    *out = NULL;
    VT_TRY(vt_domain_open(t->m[0], key, key_bytes, &first));
    *out = first->team;
    vt_status st = *out ? VT_OK : domain_make(t, key, key_bytes, out);
    vt_domain_close(first);
    if (st == VT_OK) (*out)->n_open++;
    return st;
}

static void domain_free(vt_team_domain *d)
{
    *(d->newer ? &d->newer->older : &d->t->newest_domain) = d->older;
    if (d->older) d->older->newer = d->newer;
    d->d[0]->team = NULL;
    close_ranks(d, d->t->n);
}

void vt_team_domain_close(vt_team_domain *d)
{
    if (d && --d->n_open == 0) domain_free(d);
}

void vt_team_destroy(vt_team *t)
{
    if (!t) return;
    while (t->newest) vt_team_seq_release(t->newest);
    while (t->newest_domain) domain_free(t->newest_domain);
    free(t);
}

void vt_team_domain_forget(vt_team_domain *d)
{
    for (uint32_t k = 0; k < d->t->n; k++) vt_domain_forget(d->d[k]);
}

vt_domain *vt_team_domain_rank(const vt_team_domain *d, uint32_t rank)
{
    assert(rank < d->t->n);
    return d->d[rank];
}

// ---- All managers

vt_status vt_team_step(vt_team *t, vt_ahead policy, uint32_t n_tok, uint64_t now_ms)
{
    vt_status first = VT_OK;
    for (uint32_t k = 0; k < t->n; k++) {
        vt_status st = vt_step(t->m[k], policy, n_tok, now_ms);
        if (first == VT_OK) first = st;
    }
    return first;
}

typedef vt_status budget_fn(vt_manager *m, uint64_t budget_bytes);

static vt_status budgets_change(vt_team *t, budget_fn *fn, const uint64_t *budget_bytes)
{
    uint64_t had[VT_MAX_RANK];
    for (uint32_t k = 0; k < t->n; k++) {
        vt_stats stats;
        vt_get_stats(t->m[k], &stats);
        had[k] = stats.budget_bytes;
        vt_status st = fn(t->m[k], budget_bytes[k]), undone = VT_OK;
        if (st == VT_OK) continue;
        // Undoing it cannot fail: a rank still fits into the budget that it had.
        while (k-- > 0 && undone == VT_OK) undone = fn(t->m[k], had[k]);
        return undone == VT_OK ? st : undone;
    }
    return VT_OK;
}

vt_status vt_team_set_budget(vt_team *t, const uint64_t *budget_bytes)
{
    return budgets_change(t, vt_set_budget, budget_bytes);
}

vt_status vt_team_aim_budget(vt_team *t, const uint64_t *budget_bytes)
{
    return budgets_change(t, vt_aim_budget, budget_bytes);
}

void vt_team_give_back(vt_team *t, uint64_t keep_bytes, bool forget)
{
    for (uint32_t k = 0; k < t->n; k++) vt_give_back(t->m[k], keep_bytes, forget);
}

typedef vt_status free_fn(vt_manager *m, uint64_t bytes, uint64_t *freed_bytes);

static vt_status free_in_all(vt_team *t, free_fn *fn, uint64_t bytes, uint64_t *freed_bytes)
{
    vt_status first = VT_OK;
    uint64_t sum = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        uint64_t n = 0;
        vt_status st = fn(t->m[k], bytes, &n);
        if (first == VT_OK) first = st;
        sum += n;
    }
    if (freed_bytes) *freed_bytes = sum;
    return first;
}

vt_status vt_team_evict(vt_team *t, uint64_t want_bytes, uint64_t *freed_bytes)
{
    return free_in_all(t, vt_evict, want_bytes, freed_bytes);
}

vt_status vt_team_trim(vt_team *t, uint64_t keep_bytes, uint64_t *freed_bytes)
{
    return free_in_all(t, vt_trim, keep_bytes, freed_bytes);
}

// ---- Check

static const char *broken_lengths(const vt_team *t)
{
    for (const vt_team_seq *s = t->newest; s; s = s->older)
        for (uint32_t k = 0; k < t->n && !vt_team_seq_is_lost(s); k++) {
            HOLDS(vt_seq_len(s->seq[k]) == s->len_tok, "a rank's sequence has another length");
            HOLDS(s->is_swapped || !vt_seq_is_swapped(s->seq[k]), "only a rank is swapped out");
        }
    return NULL;
}

vt_status vt_team_check(vt_team *t, const char **what)
{
    const char *broken = broken_lengths(t);
    if (what) *what = broken;
    if (broken) return VT_EINVAL;
    for (uint32_t k = 0; k < t->n; k++) VT_TRY(vt_check(t->m[k], what));
    return VT_OK;
}

// ---- Sequences

bool vt_team_seq_is_lost(const vt_team_seq *s)
{
    for (uint32_t k = 0; k < s->t->n; k++)
        if (vt_seq_is_lost(s->seq[k])) return true;
    return s->is_lost;
}

static vt_team_seq *seq_new(vt_team *t)
{
    vt_team_seq *s = calloc(1, sizeof *s + t->n * sizeof s->seq[0]);
    if (!s) return NULL;
    s->t = t;
    s->older = t->newest;
    if (s->older) s->older->newer = s;
    t->newest = s;
    return s;
}

// Those of ranks that have none are NULL.
void vt_team_seq_release(vt_team_seq *s)
{
    if (!s) return;
    for (uint32_t k = 0; k < s->t->n; k++) vt_seq_release(s->seq[k]);
    *(s->newer ? &s->newer->older : &s->t->newest) = s->older;
    if (s->older) s->older->newer = s->newer;
    free(s);
}

static vt_status seq_born(vt_team_seq *s, vt_status st, uint32_t len_tok, vt_team_seq **out)
{
    if (st == VT_OK) {
        s->len_tok = len_tok;
        *out = s;
    } else {
        vt_team_seq_release(s);
    }
    return st;
}

vt_status vt_team_seq_create(vt_team *t, uint32_t expect_tok, vt_team_seq **out)
{
    *out = NULL;
    vt_team_seq *s = seq_new(t);
    if (!s) return VT_ENOMEM;
    vt_status st = VT_OK;
    for (uint32_t k = 0; k < t->n && st == VT_OK; k++)
        st = vt_seq_create(t->m[k], expect_tok, &s->seq[k]);
    return seq_born(s, st, 0, out);
}

vt_status vt_team_seq_fork(vt_team_seq *s, uint32_t len_tok, vt_team_seq **out)
{
    vt_team *t = s->t;
    *out = NULL;
    if (s->is_swapped) return VT_EINVAL;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    for (uint32_t k = 0; k < t->n; k++) VT_TRY(vti_seq_can_fork(s->seq[k], len_tok));
    vt_team_seq *child = seq_new(t);
    if (!child) return VT_ENOMEM;
    vt_status st = VT_OK;
    for (uint32_t k = 0; k < t->n && st == VT_OK; k++)
        st = vt_seq_fork(s->seq[k], len_tok, &child->seq[k]);
    return seq_born(child, st, len_tok, out);
}

// A prefix of what a rank can serve may be one that it cannot (a state is recorded at some lengths
// only), so all are asked again until they agree.
uint32_t vt_team_match(const vt_team_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    uint32_t n_agree = 0;
    for (uint32_t k = 0; n_agree < d->t->n; k = (k + 1) % d->t->n) {
        uint32_t n_hit = vt_match(d->d[k], tok, n_tok);
        n_agree = n_hit == n_tok ? n_agree + 1 : 1;
        n_tok = n_hit;
    }
    return n_tok;
}

vt_status vt_team_seq_match(vt_team_domain *d, const uint32_t *tok, uint32_t n_tok,
                            uint32_t expect_tok, vt_team_seq **out, uint32_t *n_hit)
{
    uint32_t n = d->t->n > 1 ? vt_team_match(d, tok, n_tok) : n_tok, n_got = n;
    *out = NULL;
    *n_hit = 0;
    if (expect_tok < n_tok) expect_tok = n_tok;
    vt_team_seq *s = seq_new(d->t);
    if (!s) return VT_ENOMEM;
    vt_status st = VT_OK;
    for (uint32_t k = 0; k < d->t->n && st == VT_OK; k++) {
        st = vt_seq_match(d->d[k], tok, n, expect_tok, &s->seq[k], &n_got);
        assert(st != VT_OK || n_got == n || d->t->n == 1);
    }
    VT_TRY(seq_born(s, st, n_got, out));
    *n_hit = n_got;
    return VT_OK;
}

// ---- Lengths

vt_status vt_team_seq_extend(vt_team_seq *s, uint32_t len_tok)
{
    if (s->is_swapped) return VT_EINVAL;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    if (len_tok <= s->len_tok) return VT_OK;
    for (uint32_t k = 0; k < s->t->n; k++) {
        vt_status st = vti_seq_extend_begin(s->seq[k], len_tok);
        if (st == VT_OK) continue;
        while (k-- > 0) // gives back what it has beyond the length
            if (vti_seq_extend_cancel(s->seq[k]) != VT_OK) s->is_lost = true;
        return st;
    }
    for (uint32_t k = 0; k < s->t->n; k++) vti_seq_extend_end(s->seq[k], len_tok);
    s->len_tok = len_tok;
    return VT_OK;
}

vt_status vt_team_seq_extend_many(vt_team_seq *const *seq, const uint32_t *len_tok, uint32_t n,
                                  uint32_t *n_done)
{
    vt_status st = VT_OK;
    uint32_t i = 0;
    while (i < n && (st = vt_team_seq_extend(seq[i], len_tok[i])) == VT_OK) i++;
    if (n_done) *n_done = i;
    return st;
}

// What truncate may answer is known before.
vt_status vt_team_seq_truncate(vt_team_seq *s, uint32_t len_tok)
{
    if (len_tok >= s->len_tok) return VT_OK;
    if (s->is_swapped) return VT_EINVAL;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    for (uint32_t k = 0; k < s->t->n; k++) VT_TRY(vti_seq_can_truncate(s->seq[k], len_tok));
    for (uint32_t k = 0; k < s->t->n; k++)
        if (vt_seq_truncate(s->seq[k], len_tok) != VT_OK) s->is_lost = true;
    s->len_tok = len_tok;
    return s->is_lost ? VT_EDEVICE : VT_OK;
}

// ---- Swap

typedef vt_status swap_fn(vt_seq *s);

// Continues every rank. *st: the first failure. True: some are still on their way.
static bool ask_ranks(vt_team_seq *s, swap_fn *fn, vt_status *st)
{
    bool is_busy = false;
    *st = VT_OK;
    for (uint32_t k = 0; k < s->t->n; k++) {
        vt_status one = fn(s->seq[k]);
        is_busy |= one == VT_BUSY;
        if (one != VT_BUSY && *st == VT_OK) *st = one;
    }
    return is_busy;
}

static vt_status team_arrived(vt_team_seq *s, vt_status st)
{
    s->way = TEAM_STAYS;
    s->is_swapped = false;
    for (uint32_t k = 0; k < s->t->n; k++) s->is_swapped |= vt_seq_is_swapped(s->seq[k]);
    return st;
}

static void set_way(vt_team_seq *s, team_way way)
{
    if (s->way == way) return;
    s->had_none = !s->is_swapped;
    s->is_swapped = true;
    s->way = way;
    s->owed = VT_OK;
}

// Goes on in one direction; after a failure in the other, as far as ranks can. Where some were out
// before a swap_out, they stay so.
static vt_status go_on(vt_team_seq *s)
{
    const bool out = s->way == TEAM_GOES_OUT, turns = !out || s->had_none;
    vt_status st;
    if (s->owed == VT_OK) {
        bool is_busy = ask_ranks(s, out ? vt_seq_swap_out : vt_seq_swap_in, &s->owed);
        if (s->owed == VT_OK) return is_busy ? VT_BUSY : team_arrived(s, VT_OK);
    }
    if (turns && ask_ranks(s, out ? vt_seq_swap_in : vt_seq_swap_out, &st)) return VT_BUSY;
    return team_arrived(s, s->owed);
}

vt_status vt_team_seq_swap_out(vt_team_seq *s)
{
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    set_way(s, TEAM_GOES_OUT);
    return go_on(s);
}

vt_status vt_team_seq_swap_in(vt_team_seq *s)
{
    if (!s->is_swapped) return VT_OK;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    set_way(s, TEAM_COMES_IN);
    return go_on(s);
}

// ---- Ahead of need

vt_status vt_team_seq_prepare(vt_team_seq *s, uint32_t len_tok, uint32_t deadline)
{
    if (s->is_swapped) return VT_EINVAL;
    for (uint32_t k = 0; k < s->t->n; k++) VT_TRY(vt_seq_prepare(s->seq[k], len_tok, deadline));
    return VT_OK;
}

vt_status vt_team_seq_wait(vt_team_seq *s)
{
    if (s->way == TEAM_STAYS) {
        for (uint32_t k = 0; k < s->t->n; k++) VT_TRY(vt_seq_wait(s->seq[k]));
        return VT_OK;
    }
    vt_status st;
    while ((st = go_on(s)) == VT_BUSY)
        for (uint32_t k = 0; k < s->t->n; k++) vti_seq_arrive(s->seq[k]);
    return st;
}

// ---- Record

vt_status vt_team_seq_record(vt_team_seq *s, vt_team_domain *d, const uint32_t *tok, uint32_t n_tok,
                             const vt_retention *keep)
{
    if (d->t != s->t || s->is_swapped) return VT_EINVAL;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    for (uint32_t k = 0; k < s->t->n; k++) {
        vt_status st = vt_seq_record(s->seq[k], d->d[k], tok, n_tok, keep);
        if (st == VT_OK) continue;
        while (k-- > 0) vti_seq_unrecord(s->seq[k], d->d[k], tok, n_tok, keep != NULL);
        return st;
    }
    return VT_OK;
}

// ---- Getters

vt_seq *vt_team_seq_rank(const vt_team_seq *s, uint32_t rank)
{
    assert(rank < s->t->n);
    return s->seq[rank];
}

uint32_t vt_team_seq_len(const vt_team_seq *s)
{
    return s->len_tok;
}

uint32_t vt_team_seq_backed(const vt_team_seq *s)
{
    uint32_t least = vt_seq_backed(s->seq[0]);
    for (uint32_t k = 1; k < s->t->n; k++)
        if (vt_seq_backed(s->seq[k]) < least) least = vt_seq_backed(s->seq[k]);
    return s->is_swapped ? s->len_tok : least;
}

bool vt_team_seq_is_swapped(const vt_team_seq *s)
{
    return s->is_swapped;
}

void vt_team_seq_each(const vt_team *t, bool (*fn)(void *ud, vt_team_seq *s), void *ud)
{
    for (vt_team_seq *s = t->newest; s && fn(ud, s); s = s->older) continue;
}
