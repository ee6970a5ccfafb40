// gram_matcher.c - match states; tokens that must come next; what is computed ahead.
//
// The background thread first computes what was asked for, then the normalized states that can be
// reached from the start, the nearest first, leaving out the spaces that models seldom write. It
// stops when most of the mask cache is used or enough was spent. It works in portions and yields
// after each to threads that wait for the matcher.
#include "grammar/matcher/gram_matcher.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/automaton/gram_auto.h"
#include "grammar/matcher/masks.h"

enum {
    FIRST_EPOCH = 1,
    MAX_ASKED = 64,
    MAX_FORCED_BYTES = 96,
    PORTION = 4000,          // of work, in units of masks.h: 20 us
    MAX_PREPARE_STEPS = 512, // of a move that is made within a budget
    SPELL_COST = 4000,       // of a text by the tokens of the vocabulary
    AHEAD_SPEND = 4000000,   // on what was not asked for: 10 to 20 ms
};
#define NOT_SPELLED (-1) // yet
#define NOT_FORCED  (-2)

// States in the order in which they are reached from the start, to be computed before they are
// needed.
typedef struct look_ahead {
    uint32_t *state;   // [n]
    uint8_t *is_seen;  // [n_seen] by state: it is in the list
    size_t n, cap, at; // at: the next to be computed
    size_t n_seen, cap_seen;
    size_t spent; // in units of masks.h
} look_ahead;

struct fxi_gram_matcher {
    // constant
    fxi_gram gram;
    const fxi_gram_tokens *tokens;
    fxi_matcher_speller speller;
    fxi_matcher_limits limits;
    atomic_int n_wait; // threads that wait for mu: fxi_gram_matcher_work yields
    // guarded by mu
    pthread_mutex_t mu;
    fxi_auto *a;           // NULL: out of memory during the last reset
    fxi_gram_masks *masks; // NULL with it
    int32_t *forced;       // [n_forced] by state: the token that must come next
    size_t n_forced, cap_forced;
    uint32_t epoch;            // > 0: a match state of zeros never has it
    uint32_t asked[MAX_ASKED]; // [n_asked] states that fxi_gram_matcher_prepare has left
    size_t n_asked, n_left;
    uint32_t failed; // a state whose computation failed; the sampler gets the error
    look_ahead ahead;
    size_t n_charged;   // its bytes that are counted in the pool
    size_t least_bytes; // what it held after the last reset,
    size_t path_bytes;  // and with the longest text that it has followed from there
    bool is_working;    // a thread is in fxi_gram_matcher_work,
    fxi_mask_walk walk; // which this belongs to
};

// ---- memory -------------------------------------------------------------------------------------

static void lock_matcher(fxi_gram_matcher *m)
{
    atomic_fetch_add(&m->n_wait, 1);
    pthread_mutex_lock(&m->mu);
    atomic_fetch_sub(&m->n_wait, 1);
}

static size_t held_bytes(const fxi_gram_matcher *m)
{
    size_t n = sizeof *m + fxi_gram_n_bytes(&m->gram) + m->cap_forced * sizeof *m->forced +
               m->ahead.cap * sizeof *m->ahead.state + m->ahead.cap_seen +
               fxi_mask_walk_n_bytes(m->tokens);
    if (m->a) n += fxi_auto_n_bytes(m->a) + fxi_gram_masks_n_bytes(m->masks);
    return n;
}

static void charge_pool(fxi_gram_matcher *m, size_t n)
{
    fxi_matcher_pool *pool = m->limits.pool;
    if (pool) atomic_fetch_add(&pool->used_bytes, n - m->n_charged);
    m->n_charged = n;
}

// Charges the pool, too.
static void unlock_matcher(fxi_gram_matcher *m)
{
    charge_pool(m, held_bytes(m));
    pthread_mutex_unlock(&m->mu);
}

// Whether it holds more than it may; but a text that alone takes most of the limit must not cause a
// reset for each token.
static bool is_too_large(const fxi_gram_matcher *m)
{
    const fxi_matcher_pool *pool = m->limits.pool;
    return (m->limits.max_bytes && m->n_charged > m->limits.max_bytes &&
            m->n_charged > 2 * m->path_bytes) ||
           (pool && m->n_charged > FXI_MATCHER_LEAST_BYTES &&
            atomic_load(&pool->used_bytes) > atomic_load(&pool->limit_bytes));
}

static fx_status reset_matcher(fxi_gram_matcher *m, fx_error *err)
{
    fxi_gram_masks_free(m->masks);
    fxi_auto_free(m->a);
    m->masks = NULL;
    free(m->forced);
    m->forced = NULL;
    m->n_forced = m->cap_forced = 0;
    m->n_asked = 0;
    m->failed = FXI_AUTO_DEAD;
    free(m->ahead.state);
    free(m->ahead.is_seen);
    m->ahead = (look_ahead){0};
    m->epoch += m->epoch == UINT32_MAX ? 2 : 1;
    fx_status st = fxi_auto_make(&m->gram, m->limits.max_set, &m->a, err);
    if (!st) st = fxi_gram_masks_make(m->tokens, m->a, m->limits.max_mask, &m->masks, err);
    if (!st) {
        charge_pool(m, held_bytes(m));
        m->least_bytes = m->path_bytes = m->n_charged;
        return FX_OK;
    }
    fxi_auto_free(m->a);
    m->a = NULL;
    return st;
}

fx_status fxi_gram_matcher_make(fxi_gram *gram, const fxi_gram_tokens *tokens,
                                fxi_matcher_speller speller, fxi_matcher_limits limits,
                                fxi_gram_matcher **out, fx_error *err)
{
    fxi_gram_matcher *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m || pthread_mutex_init(&m->mu, NULL)) {
        fxi_gram_free(gram);
        free(m);
        return fxi_fail_memory(err);
    }
    m->gram = *gram;
    *gram = (fxi_gram){0};
    m->tokens = tokens;
    m->speller = speller;
    m->limits = limits;
    const fx_status st =
        fxi_mask_walk_make(&m->walk, tokens) ? reset_matcher(m, err) : fxi_fail_memory(err);
    if (st)
        fxi_gram_matcher_free(m);
    else
        *out = m;
    return st;
}

void fxi_gram_matcher_free(fxi_gram_matcher *m)
{
    if (!m) return;
    charge_pool(m, 0);
    fxi_gram_masks_free(m->masks);
    fxi_auto_free(m->a);
    fxi_gram_free(&m->gram);
    fxi_mask_walk_free(&m->walk);
    free(m->ahead.state);
    free(m->ahead.is_seen);
    free(m->forced);
    pthread_mutex_destroy(&m->mu);
    free(m);
}

// ---- following a text ---------------------------------------------------------------------------

static fx_status step_token(fxi_gram_matcher *m, fxi_match_state *at, int32_t tok, fx_error *err)
{
    const bool is_known = tok >= 0 && (size_t)tok < m->tokens->n_vocab;
    const fxi_str s = is_known ? fxi_gram_token_bytes(m->tokens, (uint32_t)tok) : (fxi_str){0};
    for (size_t i = 0; i < s.n && at->state != FXI_AUTO_DEAD; i++)
        FX_TRY(fxi_auto_step(m->a, at->state, (uint8_t)s.p[i], &at->state, err));
    return FX_OK;
}

static bool has_next(const fxi_auto *a, uint32_t state)
{
    const fxi_byte_set may = fxi_auto_bytes(a, state);
    return fxi_byte_any(&may);
}

// This function and the static ones below need mu.
static fx_status follow_text(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                             fxi_match_state *at, fx_error *err)
{
    if (!m->a || is_too_large(m)) FX_TRY(reset_matcher(m, err));
    const bool is_new = at->epoch != m->epoch || at->n_tok > n_tok;
    const size_t before = is_new ? held_bytes(m) : 0;
    if (is_new) *at = (fxi_match_state){.epoch = m->epoch, .state = fxi_auto_start(m->a)};
    while (at->n_tok < n_tok) {
        FX_TRY(step_token(m, at, tok[at->n_tok], err));
        at->n_tok++;
    }
    if (is_new) {
        const size_t path_bytes = m->least_bytes + held_bytes(m) - before;
        if (path_bytes > m->path_bytes) m->path_bytes = path_bytes;
    }
    at->may_end = fxi_auto_is_final(m->a, at->state);
    at->is_complete = at->may_end && !has_next(m->a, at->state);
    at->is_dead = at->state == FXI_AUTO_DEAD;
    return FX_OK;
}

static fx_status mask_locked(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                             fxi_match_state *at, uint64_t *mask, fx_error *err)
{
    const uint64_t *found;
    size_t left = FXI_MASK_NO_LIMIT;
    FX_TRY(follow_text(m, tok, n_tok, at, err));
    if (!mask) return FX_OK;
    FX_TRY(fxi_gram_masks_of(m->masks, at->state, &left, &found, err));
    memcpy(mask, found, fxi_matcher_n_word(m->tokens->n_vocab) * sizeof *mask);
    return FX_OK;
}

// Other texts may have exhausted a limit: tries once more after a reset, for this text alone. Drops
// a match state if its token was followed only in part.
fx_status fxi_gram_matcher_mask(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                fxi_match_state *at, uint64_t *mask, fx_error *err)
{
    lock_matcher(m);
    fx_status st = mask_locked(m, tok, n_tok, at, mask, err);
    if (st == FX_EINVAL) {
        st = reset_matcher(m, err);
        if (!st) st = mask_locked(m, tok, n_tok, at, mask, err);
    }
    if (st) *at = (fxi_match_state){0};
    unlock_matcher(m);
    return st;
}

// ---- forced tokens ------------------------------------------------------------------------------

// Cuts a forced text before it is spelled: a control token stands for itself and ends the text
// before it; an incomplete character is left out. *is_whole: nothing after the text merges with it.
static fxi_str cut_forced(const fxi_gram_matcher *m, fxi_str s, bool *is_whole)
{
    const char *mark = s.n ? memchr(s.p, m->speller.mark, s.n) : NULL;
    if (mark) *is_whole = true;
    if (mark) s.n = (size_t)(mark - s.p);
    const size_t n = fxi_utf8_check(s.p, s.n);
    if (n < s.n) *is_whole = false;
    return (fxi_str){s.p, n};
}

// The token that spells the beginning of this text; NOT_FORCED: none must come.
static int32_t spell_first(const fxi_gram_matcher *m, fxi_str s, bool is_whole)
{
    int32_t tok;
    size_t n_tok;
    const fxi_str text = cut_forced(m, s, &is_whole);
    if (!text.n || !m->speller.first(m->speller.ud, text, &tok, &n_tok)) return NOT_FORCED;
    if (tok < 0 || (size_t)tok >= m->tokens->n_vocab || (n_tok < 2 && !is_whole)) return NOT_FORCED;
    const fxi_str bytes = fxi_gram_token_bytes(m->tokens, (uint32_t)tok);
    return bytes.n && bytes.n <= text.n && !memcmp(bytes.p, text.p, bytes.n) ? tok : NOT_FORCED;
}

static fx_status find_forced(fxi_gram_matcher *m, uint32_t state, int32_t *tok, fx_error *err)
{
    fxi_buf text = {0};
    uint32_t at = state;
    *tok = NOT_FORCED;
    fx_status st = fxi_auto_forced_text(m->a, &at, MAX_FORCED_BYTES, &text, err);
    const bool ends = !st && fxi_auto_is_final(m->a, at) && !has_next(m->a, at);
    if (!st && text.n) *tok = spell_first(m, (fxi_str){text.p, text.n}, ends);
    fxi_buf_free(&text);
    return st;
}

static bool knows_forced(const fxi_gram_matcher *m, uint32_t state)
{
    return state < m->n_forced && m->forced[state] != NOT_SPELLED;
}

// *tok: the token that must come next; NOT_FORCED: none.
static fx_status forced_at(fxi_gram_matcher *m, uint32_t state, int32_t *tok, fx_error *err)
{
    if (!fxi_grow_to(&m->forced, sizeof *m->forced, state, 0xff, &m->n_forced, &m->cap_forced))
        return fxi_fail_memory(err);
    *tok = m->forced[state];
    if (*tok != NOT_SPELLED) return FX_OK;
    FX_TRY(find_forced(m, state, tok, err));
    m->forced[state] = *tok;
    return FX_OK;
}

static fx_status forced_locked(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                               fxi_match_state *at, int32_t *out, size_t max_tok, size_t *n,
                               fx_error *err)
{
    *n = 0;
    FX_TRY(follow_text(m, tok, n_tok, at, err));
    for (fxi_match_state ahead = *at; *n < max_tok; ++*n) {
        FX_TRY(forced_at(m, ahead.state, &out[*n], err));
        if (out[*n] < 0) break;
        FX_TRY(step_token(m, &ahead, out[*n], err));
    }
    return FX_OK;
}

fx_status fxi_gram_matcher_forced(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                  fxi_match_state *at, int32_t *out, size_t max_tok, size_t *n,
                                  fx_error *err)
{
    *n = 0;
    if (!m->speller.first) return FX_OK;
    lock_matcher(m);
    fx_status st = forced_locked(m, tok, n_tok, at, out, max_tok, n, err);
    if (st == FX_EINVAL) {
        st = reset_matcher(m, err);
        if (!st) st = forced_locked(m, tok, n_tok, at, out, max_tok, n, err);
    }
    if (st) *at = (fxi_match_state){0};
    unlock_matcher(m);
    return st;
}

// ---- preparing ----------------------------------------------------------------------------------

static bool is_asked(const fxi_gram_matcher *m, uint32_t state)
{
    for (size_t i = 0; i < m->n_asked; i++)
        if (m->asked[i] == state) return true;
    return false;
}

// Whether only one byte can follow, so that a token may be forced.
static bool may_spell(const fxi_gram_matcher *m, uint32_t state, bool may_force)
{
    return may_force && m->speller.first && fxi_auto_forced(m->a, state) >= 0;
}

// Computes the token that must come next or, if there is none, the mask. FX_ENOSPACE: `left` does
// not suffice.
static fx_status find_within(fxi_gram_matcher *m, uint32_t state, bool may_force, size_t *left,
                             fx_error *err)
{
    const uint64_t *mask;
    int32_t tok = NOT_FORCED;
    if (may_spell(m, state, may_force)) {
        if (*left < SPELL_COST && !knows_forced(m, state)) return FX_ENOSPACE;
        FX_TRY(forced_at(m, state, &tok, err));
        if (*left != FXI_MATCHER_NO_LIMIT) *left -= *left < SPELL_COST ? *left : SPELL_COST;
    }
    return tok >= 0 ? FX_OK : fxi_gram_masks_of(m->masks, state, left, &mask, err);
}

static bool is_found(fxi_gram_matcher *m, uint32_t state, bool may_force)
{
    int32_t tok = NOT_FORCED;
    if (m->failed == state) return true;
    if (may_spell(m, state, may_force)) {
        if (!knows_forced(m, state)) return false;
        (void)forced_at(m, state, &tok, NULL);
    }
    return tok >= 0 || fxi_gram_masks_find(m->masks, state);
}

// Whether the state is ready. Errors other than that of the budget are left to the sampler.
static bool prepare_state(fxi_gram_matcher *m, uint32_t state, bool may_force, size_t *left)
{
    if (state == FXI_AUTO_DEAD || is_found(m, state, may_force)) return true;
    if (is_asked(m, state)) return false;
    if (*left != FXI_MATCHER_NO_LIMIT) fxi_auto_limit_steps(m->a, MAX_PREPARE_STEPS);
    const fx_status st = *left ? find_within(m, state, may_force, left, NULL) : FX_ENOSPACE;
    fxi_auto_limit_steps(m->a, 0);
    if (st != FX_ENOSPACE) return true;
    m->n_left++;
    if (m->n_asked < MAX_ASKED) m->asked[m->n_asked++] = state; // else the caller asks again later
    return false;
}

fx_status fxi_gram_matcher_prepare(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                   fxi_match_state *at, bool may_force, size_t *left,
                                   bool *is_ready, fx_error *err)
{
    *is_ready = true;
    lock_matcher(m);
    const fx_status st = follow_text(m, tok, n_tok, at, err);
    if (!st) *is_ready = prepare_state(m, at->state, may_force, left);
    if (st) *at = (fxi_match_state){0};
    unlock_matcher(m);
    return st;
}

// ---- looking ahead ------------------------------------------------------------------------------

static bool push_ahead(look_ahead *q, uint32_t state)
{
    if (!fxi_grow_to(&q->is_seen, 1, state, 0, &q->n_seen, &q->cap_seen)) return false;
    if (q->is_seen[state]) return true;
    if (!fxi_grow(&q->state, sizeof *q->state, q->n, &q->cap)) return false;
    q->is_seen[state] = 1;
    q->state[q->n++] = state;
    return true;
}

// Bytes of one class lead to the same state. Spaces that models seldom write are left out.
static fx_status push_next(fxi_gram_matcher *m, uint32_t state, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(m->a, state);
    const uint8_t *class_of = fxi_auto_classes(m->a);
    fxi_byte_set seen = {{0}};
    for (int b = 0; b < 256; b++) {
        uint32_t next;
        if (!fxi_byte_in(&may, (uint8_t)b) || fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        if (b == '\n' || b == '\t' || b == '\r') continue;
        FX_TRY(fxi_auto_step(m->a, state, (uint8_t)b, &next, err));
        FX_TRY(fxi_gram_masks_normalize(m->masks, next, &next, err));
        if (!push_ahead(&m->ahead, next)) return fxi_fail_memory(err);
    }
    return FX_OK;
}

// A matcher that was reset has no room for what is not asked for.
static bool may_look_ahead(const fxi_gram_matcher *m)
{
    const fxi_matcher_pool *pool = m->limits.pool;
    if (pool && atomic_load(&pool->used_bytes) > atomic_load(&pool->limit_bytes) / 4 * 3)
        return false;
    return m->epoch == FIRST_EPOCH && m->ahead.spent < AHEAD_SPEND &&
           4 * m->masks->n_kept < 3 * m->limits.max_mask &&
           2 * fxi_auto_n_set(m->a) < m->limits.max_set;
}

// ---- background work ----------------------------------------------------------------------------

// Between two portions. False: the matcher was reset.
static bool yield_to_waiters(void *ud, size_t *left)
{
    fxi_gram_matcher *m = ud;
    const uint32_t epoch = m->epoch;
    *left = PORTION;
    if (!atomic_load(&m->n_wait)) return true;
    pthread_mutex_unlock(&m->mu);
    while (atomic_load(&m->n_wait)) sched_yield();
    pthread_mutex_lock(&m->mu);
    return m->epoch == epoch && m->a;
}

static fx_status work_on(fxi_gram_matcher *m, uint32_t state)
{
    fxi_mask_walk *w = &m->walk;
    int32_t tok = NOT_FORCED;
    if (m->speller.first && fxi_auto_forced(m->a, state) >= 0)
        FX_TRY(forced_at(m, state, &tok, NULL));
    if (tok >= 0 && !is_asked(m, state)) return FX_OK;
    FX_TRY(fxi_gram_masks_normalize(m->masks, state, &state, NULL));
    if (fxi_gram_masks_find(m->masks, state)) return FX_OK;
    w->moves = &m->masks->moves;
    w->budget.pause = yield_to_waiters;
    w->budget.ud = m;
    fxi_mask_budget_open(&w->budget, m->a, PORTION);
    FX_TRY(fxi_mask_walk_run(w, state, NULL));
    return fxi_gram_masks_keep(m->masks, state, w->mask, NULL);
}

static void work_on_asked(fxi_gram_matcher *m)
{
    const uint32_t state = m->asked[0], epoch = m->epoch;
    const fx_status st = work_on(m, state);
    if (m->epoch != epoch) return; // it was reset meanwhile
    for (size_t i = 0; i < m->n_asked; i++)
        if (m->asked[i] == state) m->asked[i] = m->asked[--m->n_asked];
    if (st) m->failed = state;
}

static void work_ahead(fxi_gram_matcher *m)
{
    look_ahead *q = &m->ahead;
    const uint32_t epoch = m->epoch;
    const size_t before = fxi_auto_n_work(m->a);
    if (!q->n) (void)push_ahead(q, fxi_auto_start(m->a));
    fx_status st = q->at < q->n ? work_on(m, q->state[q->at]) : FX_ENOMEM;
    if (m->epoch != epoch) return;
    if (!st) st = push_next(m, q->state[q->at++], NULL);
    q->spent += m->tokens->n_word + 10 * (fxi_auto_n_work(m->a) - before);
    if (st) q->spent = AHEAD_SPEND;
}

bool fxi_gram_matcher_work(fxi_gram_matcher *m)
{
    bool is_done = true;
    pthread_mutex_lock(&m->mu);
    if (m->a && !m->is_working) {
        m->is_working = true;
        is_done = false;
        if (m->n_asked)
            work_on_asked(m);
        else if (may_look_ahead(m))
            work_ahead(m);
        else
            is_done = true;
        m->is_working = false;
    }
    unlock_matcher(m);
    return !is_done;
}

// ---- figures ------------------------------------------------------------------------------------

fxi_matcher_stats fxi_gram_matcher_read(fxi_gram_matcher *m)
{
    fxi_matcher_stats s = {0};
    lock_matcher(m);
    if (m->a) {
        s.n_set = fxi_auto_n_set(m->a);
        s.n_mask_made = m->masks->n_made;
    }
    s.n_restart = m->epoch - 1;
    s.n_left = m->n_left;
    s.n_bytes = held_bytes(m);
    unlock_matcher(m);
    return s;
}
