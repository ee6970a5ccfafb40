// team_seq.c - sequences of a team; see team_parts.h for how each operation is all or nothing.
#include <assert.h>
#include <stdlib.h>

#include "team_parts.h"
#include "vtensor/core/common.h"
#include "vtensor/sequence/seq_undo.h"

bool vt_team_seq_is_lost(const vt_team_seq *s)
{
    for (uint32_t k = 0; k < s->t->n; k++)
        if (vt_seq_is_lost(s->seq[k])) return true;
    return s->is_lost;
}

// ---- New sequences

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
    if (s->newer)
        s->newer->older = s->older;
    else
        s->t->newest = s->older;
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
    uint32_t n = vt_team_match(d, tok, n_tok), n_got = n;
    *out = NULL;
    *n_hit = 0;
    if (expect_tok < n_tok) expect_tok = n_tok;
    vt_team_seq *s = seq_new(d->t);
    if (!s) return VT_ENOMEM;
    vt_status st = VT_OK;
    for (uint32_t k = 0; k < d->t->n && st == VT_OK; k++) {
        st = vt_seq_match(d->d[k], tok, n, expect_tok, &s->seq[k], &n_got);
        assert(st != VT_OK || n_got == n);
    }
    VT_TRY(seq_born(s, st, n, out));
    *n_hit = n;
    return VT_OK;
}

// ---- Lengths

// Ranks [0, n) give back what they have beyond the length.
static void cancel_extends(vt_team_seq *s, uint32_t n)
{
    while (n-- > 0)
        if (vti_seq_extend_cancel(s->seq[n]) != VT_OK) s->is_lost = true;
}

vt_status vt_team_seq_extend(vt_team_seq *s, uint32_t len_tok)
{
    if (s->is_swapped) return VT_EINVAL;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    if (len_tok <= s->len_tok) return VT_OK;
    for (uint32_t k = 0; k < s->t->n; k++) {
        vt_status st = vti_seq_extend_begin(s->seq[k], len_tok);
        if (st == VT_OK) continue;
        cancel_extends(s, k);
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

// Every rank goes on. *st: the first failure. True: some are still on their way.
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
    s->way = VTI_TEAM_STAYS;
    s->is_swapped = false;
    for (uint32_t k = 0; k < s->t->n; k++) s->is_swapped |= vt_seq_is_swapped(s->seq[k]);
    return st;
}

static void set_out(vt_team_seq *s, vti_team_way way)
{
    if (s->way == way) return;
    s->had_none = !s->is_swapped;
    s->is_swapped = true;
    s->way = way;
    s->owed = VT_OK;
}

// Goes on in one direction; after a failure in the other, as far as ranks can (`turns`: whether
// they should).
static vt_status go_on(vt_team_seq *s, swap_fn *forth, swap_fn *back, bool turns)
{
    vt_status st;
    if (s->owed == VT_OK) {
        bool is_busy = ask_ranks(s, forth, &s->owed);
        if (s->owed == VT_OK) return is_busy ? VT_BUSY : team_arrived(s, VT_OK);
    }
    if (turns && ask_ranks(s, back, &st)) return VT_BUSY;
    return team_arrived(s, s->owed);
}

vt_status vt_team_seq_swap_out(vt_team_seq *s)
{
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    set_out(s, VTI_TEAM_GOES_OUT);
    return go_on(s, vt_seq_swap_out, vt_seq_swap_in, s->had_none);
}

vt_status vt_team_seq_swap_in(vt_team_seq *s)
{
    if (!s->is_swapped) return VT_OK;
    if (vt_team_seq_is_lost(s)) return VT_EDEVICE;
    set_out(s, VTI_TEAM_COMES_IN);
    return go_on(s, vt_seq_swap_in, vt_seq_swap_out, true);
}

// ---- Ahead of need

vt_status vt_team_seq_prepare(vt_team_seq *s, uint32_t len_tok, uint32_t deadline)
{
    if (s->is_swapped) return VT_EINVAL;
    for (uint32_t k = 0; k < s->t->n; k++) VT_TRY(vt_seq_prepare(s->seq[k], len_tok, deadline));
    return VT_OK;
}

static vt_status await_arrival(vt_team_seq *s)
{
    swap_fn *forth = s->way == VTI_TEAM_GOES_OUT ? vt_seq_swap_out : vt_seq_swap_in;
    swap_fn *back = s->way == VTI_TEAM_GOES_OUT ? vt_seq_swap_in : vt_seq_swap_out;
    bool turns = s->way == VTI_TEAM_COMES_IN || s->had_none;
    vt_status st;
    while ((st = go_on(s, forth, back, turns)) == VT_BUSY)
        for (uint32_t k = 0; k < s->t->n; k++) vti_seq_arrive(s->seq[k]);
    return st;
}

vt_status vt_team_seq_wait(vt_team_seq *s)
{
    if (s->way != VTI_TEAM_STAYS) return await_arrival(s);
    for (uint32_t k = 0; k < s->t->n; k++) VT_TRY(vt_seq_wait(s->seq[k]));
    return VT_OK;
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
