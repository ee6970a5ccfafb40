// team.c - a team and its domains, and what is done to all its managers at once.
#include "team_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "vtensor/core/common.h"

// ---- Life

static bool are_distinct(vt_manager *const *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (m[i] == m[k]) return false;
    return true;
}

vt_status vt_team_create(vt_manager *const *m, uint32_t n, vt_team **out)
{
    *out = NULL;
    if (n == 0 || n > VT_MAX_RANK || !are_distinct(m, n)) return VT_EINVAL;
    vt_team *t = calloc(1, sizeof *t + n * sizeof *m);
    if (!t) return VT_ENOMEM;
    t->n = n;
    for (uint32_t k = 0; k < n; k++) t->m[k] = m[k];
    *out = t;
    return VT_OK;
}

void vt_team_destroy(vt_team *t)
{
    if (!t) return;
    while (t->newest) vt_team_seq_release(t->newest);
    while (t->newest_domain) vt_team_domain_close(t->newest_domain);
    free(t);
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

// ---- Domains

static void close_ranks(vt_team_domain *d, uint32_t n)
{
    while (n-- > 0) vt_domain_close(d->d[n]);
    free(d);
}

vt_status vt_team_domain_open(vt_team *t, const void *key, size_t key_bytes, vt_team_domain **out)
{
    *out = NULL;
    vt_team_domain *d = calloc(1, sizeof *d + t->n * sizeof d->d[0]);
    if (!d) return VT_ENOMEM;
    for (uint32_t k = 0; k < t->n; k++) {
        vt_status st = vt_domain_open(t->m[k], key, key_bytes, &d->d[k]);
        if (st == VT_OK) continue;
        close_ranks(d, k);
        return st;
    }
    d->t = t;
    d->older = t->newest_domain;
    if (d->older) d->older->newer = d;
    t->newest_domain = d;
    *out = d;
    return VT_OK;
}

void vt_team_domain_close(vt_team_domain *d)
{
    if (!d) return;
    if (d->newer)
        d->newer->older = d->older;
    else
        d->t->newest_domain = d->older;
    if (d->older) d->older->newer = d->newer;
    close_ranks(d, d->t->n);
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

static uint64_t budget_of(const vt_manager *m)
{
    vt_stats st;
    vt_get_stats(m, &st);
    return st.budget_bytes;
}

typedef vt_status budget_fn(vt_manager *m, uint64_t budget_bytes);

// Taking it back cannot fail: a rank still fits into the budget that it had.
static vt_status budgets_reset(vt_team *t, budget_fn *fn, const uint64_t *had, uint32_t n)
{
    vt_status st = VT_OK;
    while (n-- > 0 && st == VT_OK) st = fn(t->m[n], had[n]);
    return st;
}

static vt_status budgets_change(vt_team *t, budget_fn *fn, const uint64_t *budget_bytes)
{
    uint64_t had[VT_MAX_RANK];
    for (uint32_t k = 0; k < t->n; k++) {
        had[k] = budget_of(t->m[k]);
        vt_status st = fn(t->m[k], budget_bytes[k]);
        if (st == VT_OK) continue;
        vt_status undone = budgets_reset(t, fn, had, k);
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
