// grammars.c - compiled grammars with their references; the worker, a thread that expands them
// before they are asked for, and for sequences that sit out passes until it is done; the vocabulary
// that they share; and those that were asked for last, by what they were compiled from: a request
// that asks for one again finds what earlier ones have learnt of it.
#include "engine/grammar/grammars.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/vocab.h"
#include "grammar/syntax/gram.h"

// What a grammar may learn before it begins again, and what all may hold unless that is set.
static const fxi_matcher_limits preset_limits = {
    .max_set = 1 << 16, .max_mask = 256, .max_bytes = 16 << 20};

enum { POOL_BYTES = 128 << 20, MAX_KEY_BYTES = 256 << 10 };

void fx_grammar_retain(fx_grammar *g)
{
    atomic_fetch_add(&g->n_ref, 1);
}

void fx_grammar_release(fx_grammar *g)
{
    if (!g || atomic_fetch_sub(&g->n_ref, 1) > 1) return;
    fxi_gram_matcher_free(g->matcher);
    fxi_buf_free(&g->key);
    free(g);
}

// ---- the worker: grammars with work ------------------------------------------------------------

// Puts g into the list at this link.
static void put_work(fx_grammar **at, fx_grammar *g)
{
    g->next_work = *at;
    *at = g;
}

static fx_grammar *unlink_work(fx_grammar **at)
{
    fx_grammar *g = *at;
    *at = g->next_work;
    return g;
}

// The link to g; NULL: to the end of the list.
static fx_grammar **work_link(fxi_grammar_worker *w, const fx_grammar *g)
{
    fx_grammar **at = &w->first;
    while (*at && *at != g) at = &(*at)->next_work;
    return at;
}

void fxi_grammar_worker_add(fxi_grammar_worker *w, fx_grammar *g, bool is_urgent)
{
    pthread_mutex_lock(&w->mu);
    if (w->has_thread && !w->is_ending && !g->is_queued) {
        g->is_queued = true;
        fx_grammar_retain(g);
        put_work(is_urgent ? &w->first : work_link(w, NULL), g);
    } else if (is_urgent) { // to the front, unless the worker has it in hand
        fx_grammar **at = work_link(w, g);
        if (*at) put_work(&w->first, unlink_work(at));
    }
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}

// Leaves all work undone, until it is added again.
static void drop_grammar_work(fxi_grammar_worker *w)
{
    pthread_mutex_lock(&w->mu);
    while (w->first) {
        fx_grammar *g = unlink_work(&w->first);
        g->is_queued = false;
        pthread_mutex_unlock(&w->mu);
        fx_grammar_release(g);
        pthread_mutex_lock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
}

// ---- the worker: its thread --------------------------------------------------------------------

// One step for one grammar; mu is held, but released meanwhile. A sequence that needs something
// just when its grammar leaves the list asks again.
static void work_once(fxi_grammar_worker *w)
{
    fx_grammar *g = unlink_work(&w->first);
    pthread_mutex_unlock(&w->mu);
    const bool has_more = fxi_gram_matcher_work(g->matcher);
    if (w->on_progress) w->on_progress(w->ud);
    pthread_mutex_lock(&w->mu);
    if (has_more && !w->is_ending) {
        put_work(work_link(w, NULL), g);
        return;
    }
    g->is_queued = false;
    pthread_mutex_unlock(&w->mu);
    fx_grammar_release(g);
    pthread_mutex_lock(&w->mu);
}

static void *grammar_worker_main(void *arg)
{
    fxi_grammar_worker *w = arg;
    pthread_mutex_lock(&w->mu);
    while (!w->is_ending)
        if (w->first && !w->is_paused)
            work_once(w);
        else
            pthread_cond_wait(&w->wake, &w->mu);
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

void fxi_grammar_worker_stop(fxi_grammar_worker *w)
{
    pthread_mutex_lock(&w->mu);
    const bool has_thread = w->has_thread;
    w->is_ending = true;
    w->has_thread = false;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
    if (has_thread) pthread_join(w->thread, NULL);
    drop_grammar_work(w);
}

// ---- the grammars of an engine -----------------------------------------------------------------

bool fxi_grammars_init(fxi_grammars *v)
{
    atomic_init(&v->pool.used_bytes, 0);
    atomic_init(&v->pool.limit_bytes, POOL_BYTES);
    return !pthread_mutex_init(&v->worker.mu, NULL) && !pthread_cond_init(&v->worker.wake, NULL) &&
           !pthread_mutex_init(&v->mu, NULL);
}

void fxi_grammars_free(fxi_grammars *v)
{
    fxi_grammar_worker_stop(&v->worker);
    pthread_cond_destroy(&v->worker.wake);
    pthread_mutex_destroy(&v->worker.mu);
    fxi_grammars_forget(v);
    fxi_gram_tokens_free(&v->tokens);
    pthread_mutex_destroy(&v->mu);
}

// ---- the vocabulary ----------------------------------------------------------------------------

// The bytes of all tokens: none for a token with the mark, which is in no text; for a control token
// those by which a grammar names it, in `spelled`.
static bool list_token_bytes(const fxi_grammars *v, fxi_str *token, fxi_buf *spelled)
{
    bool ok = true;
    for (int32_t id = 0; ok && id < v->n_vocab; id++) {
        fxi_str *t = &token[id];
        if (!fxi_vocab_control(v->vocab, id)) {
            t->p = fxi_vocab_bytes(v->vocab, id, &t->n);
            if (t->n && memchr(t->p, FXI_CONTROL_MARK[0], t->n)) t->n = 0;
            continue;
        }
        size_t n_piece;
        const char *piece = fxi_vocab_piece(v->vocab, id, &n_piece);
        t->n = n_piece + 2;
        ok = fxi_buf_str(spelled, FXI_CONTROL_MARK) && fxi_buf_add(spelled, piece, n_piece) &&
             fxi_buf_str(spelled, FXI_CONTROL_MARK);
    }
    const char *at = spelled->p; // it moves no more
    for (int32_t id = 0; ok && id < v->n_vocab; id++) {
        if (!fxi_vocab_control(v->vocab, id)) continue;
        token[id].p = at;
        at += token[id].n;
    }
    return ok;
}

static fx_status make_vocab_tokens(fxi_grammars *v, fx_error *err)
{
    fxi_buf spelled = {0};
    fxi_str *token = calloc((size_t)v->n_vocab, sizeof *token);
    fx_status st = FX_OK;
    if (!token || !list_token_bytes(v, token, &spelled))
        st = fxi_fail(err, FX_ENOMEM, "no memory for the vocabulary's bytes");
    if (!st) st = fxi_gram_tokens_make(&v->tokens, token, (size_t)v->n_vocab, err);
    fxi_buf_free(&spelled);
    free(token);
    return st;
}

// As the text continues, not as one begins.
static bool spell_first_token(void *ud, fxi_str text, int32_t *tok, size_t *n_tok)
{
    const fxi_grammars *v = ud;
    fxi_ids ids = {0};
    const bool ok = fxi_vocab_encode(v->vocab, text.p, text.n, 0, &ids, NULL) == FX_OK && ids.n > 0;
    if (ok) *tok = ids.id[0];
    *n_tok = ids.n;
    fxi_ids_free(&ids);
    return ok;
}

// ---- those that are kept -----------------------------------------------------------------------

// Parts are told apart by their kind, their numbers and their texts with their lengths. False: out
// of memory, or the key is too long.
static bool add_part_key(fxi_buf *key, const fx_part *p, int depth)
{
    const size_t n_schema = p->schema ? p->schema_bytes : 0;
    bool ok = depth <= FX_PART_MAX_DEPTH && key->n + p->n_bytes + n_schema < MAX_KEY_BYTES &&
              fxi_buf_fmt(key, "%d %u %u %zu %zu %zu ", (int)p->kind, p->min, p->max, p->n_bytes,
                          p->schema ? n_schema + 1 : 0, p->n_part) &&
              fxi_buf_add(key, p->n_bytes ? p->text : "", p->n_bytes) &&
              fxi_buf_add(key, p->schema, n_schema);
    for (size_t i = 0; ok && i < p->n_part; i++) ok = add_part_key(key, &p->part[i], depth + 1);
    return ok;
}

// Moves the i-th to the front.
static void touch_kept(fxi_grammars *v, size_t i)
{
    fx_grammar *g = v->kept[i];
    memmove(v->kept + 1, v->kept, i * sizeof *v->kept);
    v->kept[0] = g;
}

// A reference to the one with this key; NULL: it is not kept.
static fx_grammar *find_kept(fxi_grammars *v, const fxi_buf *key)
{
    fx_grammar *found = NULL;
    pthread_mutex_lock(&v->mu);
    for (size_t i = 0; !found && i < v->n_kept; i++) {
        const fxi_buf *own = &v->kept[i]->key;
        if (own->n != key->n || memcmp(own->p, key->p, key->n) != 0) continue;
        touch_kept(v, i);
        found = v->kept[0];
        fx_grammar_retain(found);
    }
    pthread_mutex_unlock(&v->mu);
    return found;
}

void fxi_grammars_forget(fxi_grammars *v)
{
    while (v->n_kept) fx_grammar_release(v->kept[--v->n_kept]);
}

static bool is_over(const fxi_matcher_pool *p)
{
    return atomic_load(&p->used_bytes) > atomic_load(&p->limit_bytes);
}

// Forgets those that were asked for first while grammars hold more memory than they may. False:
// those in use alone hold more.
static bool make_room(fxi_grammars *v)
{
    while (is_over(&v->pool)) {
        pthread_mutex_lock(&v->mu);
        fx_grammar *oldest = v->n_kept ? v->kept[--v->n_kept] : NULL;
        pthread_mutex_unlock(&v->mu);
        if (!oldest) break;
        fx_grammar_release(oldest);
    }
    if (is_over(&v->pool)) drop_grammar_work(&v->worker); // it may have the last references
    return !is_over(&v->pool);
}

// ---- compiling ---------------------------------------------------------------------------------

static fx_status make_request_matcher(fxi_grammars *v, const fx_part *root, fxi_gram_matcher **out,
                                      fx_error *err)
{
    fxi_gram gram = {0};
    uint32_t node = 0;
    pthread_mutex_lock(&v->mu);
    fx_status st = v->has_tokens ? FX_OK : make_vocab_tokens(v, err);
    v->has_tokens = st == FX_OK;
    pthread_mutex_unlock(&v->mu);
    if (!st) st = fxi_grammar_part(&gram, v->vocab, root, &node, err);
    if (!st) st = fxi_gram_finish(&gram, node, err);
    const fxi_matcher_speller speller = {spell_first_token, v, FXI_CONTROL_MARK[0]};
    fxi_matcher_limits limits = preset_limits;
    limits.pool = &v->pool;
    if (!st) return fxi_gram_matcher_make(&gram, &v->tokens, speller, limits, out, err);
    fxi_gram_free(&gram);
    return st;
}

static fx_status make_grammar(fxi_grammars *v, const fx_part *root, fx_grammar **out, fx_error *err)
{
    fx_grammar *g = calloc(1, sizeof *g);
    if (!g) return fxi_fail(err, FX_ENOMEM, "no memory for a grammar");
    g->home = v;
    atomic_init(&g->n_ref, 1);
    fx_status st = make_request_matcher(v, root, &g->matcher, err);
    // What an answer may begin with, forced or not, is found out before the first one begins.
    for (int forces = 1; !st && forces >= 0; forces--) {
        fxi_match_state at = {0};
        size_t left = FXI_MATCHER_NO_LIMIT;
        bool is_ready;
        st = fxi_gram_matcher_prepare(g->matcher, NULL, 0, &at, forces, &left, &is_ready, err);
    }
    if (st)
        fx_grammar_release(g);
    else
        *out = g;
    return st;
}

fx_status fxi_grammars_compile(fxi_grammars *v, const fx_part *root, fx_grammar **out,
                               fx_error *err)
{
    fxi_buf key = {0};
    if (!make_room(v))
        return fxi_fail(err, FX_EQUEUE, "the grammars in use hold %zu MiB, and may hold no more",
                        atomic_load(&v->pool.used_bytes) >> 20);
    const bool has_key = add_part_key(&key, root, 0);
    *out = has_key ? find_kept(v, &key) : NULL;
    const fx_status st = *out ? FX_OK : make_grammar(v, root, out, err);
    if (!st) {
        pthread_mutex_lock(&v->worker.mu);
        if (!v->worker.has_thread && !v->worker.is_ending)
            v->worker.has_thread =
                !pthread_create(&v->worker.thread, NULL, grammar_worker_main, &v->worker);
        pthread_mutex_unlock(&v->worker.mu);
        fxi_grammar_worker_add(&v->worker, *out, false);
    }
    if (!st && has_key && !(*out)->key.n) {
        (*out)->key = key;
        fx_grammar *last = NULL; // the one that was asked for first makes way
        fx_grammar_retain(*out);
        pthread_mutex_lock(&v->mu);
        if (v->n_kept == FXI_GRAMMARS_KEPT) last = v->kept[--v->n_kept];
        v->kept[v->n_kept] = *out;
        touch_kept(v, v->n_kept++);
        pthread_mutex_unlock(&v->mu);
        fx_grammar_release(last);
        return FX_OK;
    }
    fxi_buf_free(&key);
    return st;
}
