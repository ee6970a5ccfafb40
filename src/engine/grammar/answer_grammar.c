// answer_grammar.c - compiled grammars with their references, and the vocabulary that they share.
#include "engine/grammar/answer_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "grammar/syntax/gram.h"

// What a grammar may learn before it begins again, and what all may hold unless that is set.
static const fxi_matcher_limits guide_limits = {
    .max_set = 1 << 16, .max_mask = 256, .max_bytes = 16 << 20};

enum { POOL_BYTES = 128 << 20 };

// ---- the vocabulary -----------------------------------------------------------------------------

bool fxi_answer_vocab_init(fxi_answer_vocab *v)
{
    atomic_init(&v->pool.used_bytes, 0);
    atomic_init(&v->pool.limit_bytes, POOL_BYTES);
    if (!fxi_answer_worker_init(&v->worker)) return false;
    if (!pthread_mutex_init(&v->mu, NULL)) return true;
    fxi_answer_worker_free(&v->worker);
    return false;
}

void fxi_answer_vocab_free(fxi_answer_vocab *v)
{
    fxi_answer_worker_free(&v->worker);
    fxi_answer_forget(v);
    fxi_gram_tokens_free(&v->tokens);
    pthread_mutex_destroy(&v->mu);
}

// What a token adds to a text; nothing if it holds the mark, which no text does.
static fxi_str text_of_token(const fxi_vocab *v, int32_t id)
{
    fxi_str s;
    s.p = fxi_vocab_bytes(v, id, &s.n);
    if (s.n && memchr(s.p, FXI_CONTROL_MARK[0], s.n)) s.n = 0;
    return s;
}

// The bytes of all tokens: of control tokens those by which a grammar names them, in `spelled`.
static bool list_token_bytes(const fx_engine *eng, fxi_str *token, fxi_buf *spelled)
{
    const int n = eng->info.n_vocab;
    bool ok = true;
    for (int32_t id = 0; ok && id < n; id++) {
        if (!fxi_vocab_control(eng->vocab, id)) {
            token[id] = text_of_token(eng->vocab, id);
            continue;
        }
        size_t n_piece;
        const char *piece = fxi_vocab_piece(eng->vocab, id, &n_piece);
        token[id].n = n_piece + 2;
        ok = fxi_buf_str(spelled, FXI_CONTROL_MARK) && fxi_buf_add(spelled, piece, n_piece) &&
             fxi_buf_str(spelled, FXI_CONTROL_MARK);
    }
    const char *at = spelled->p; // it moves no more
    for (int32_t id = 0; ok && id < n; id++) {
        if (!fxi_vocab_control(eng->vocab, id)) continue;
        token[id].p = at;
        at += token[id].n;
    }
    return ok;
}

static fx_status make_vocab_tokens(const fx_engine *eng, fxi_gram_tokens *out, fx_error *err)
{
    fxi_buf spelled = {0};
    fxi_str *token = calloc((size_t)eng->info.n_vocab, sizeof *token);
    fx_status st = FX_OK;
    if (!token || !list_token_bytes(eng, token, &spelled))
        st = fxi_fail(err, FX_ENOMEM, "no memory for the vocabulary's bytes");
    if (!st) st = fxi_gram_tokens_make(out, token, (size_t)eng->info.n_vocab, err);
    fxi_buf_free(&spelled);
    free(token);
    return st;
}

static fx_status get_vocab_tokens(const fx_engine *eng, const fxi_gram_tokens **out, fx_error *err)
{
    fxi_answer_vocab *v = &((fx_engine *)eng)->answer_vocab; // with a lock of its own
    pthread_mutex_lock(&v->mu);
    fx_status st = v->has_tokens ? FX_OK : make_vocab_tokens(eng, &v->tokens, err);
    v->has_tokens = v->has_tokens || st == FX_OK;
    pthread_mutex_unlock(&v->mu);
    *out = &v->tokens;
    return st;
}

// As the text goes on, not as one begins.
static bool spell_first_token(void *ud, fxi_str text, int32_t *tok, size_t *n_tok)
{
    const fx_engine *eng = ud;
    fxi_ids ids = {0};
    const bool ok =
        fxi_vocab_encode(eng->vocab, text.p, text.n, 0, &ids, NULL) == FX_OK && ids.n > 0;
    if (ok) *tok = ids.id[0];
    *n_tok = ids.n;
    fxi_ids_free(&ids);
    return ok;
}

// ---- grammars -----------------------------------------------------------------------------------

static fx_status make_guide(const fx_engine *eng, const fx_part *root, fxi_gram_matcher **out,
                            fx_error *err)
{
    fxi_gram form = {0};
    const fxi_gram_tokens *tokens;
    uint32_t node = 0;
    fx_status st = get_vocab_tokens(eng, &tokens, err);
    if (!st) st = fxi_answer_part(&form, eng->vocab, root, &node, err);
    if (!st) st = fxi_gram_finish(&form, node, err);
    const fxi_matcher_speller speller = {spell_first_token, (void *)eng, FXI_CONTROL_MARK[0]};
    fxi_matcher_limits limits = guide_limits;
    limits.pool = &((fx_engine *)eng)->answer_vocab.pool; // atomic
    if (!st) return fxi_gram_matcher_make(&form, tokens, speller, limits, out, err);
    fxi_gram_free(&form);
    return st;
}

// What an answer may begin with is known before the first one begins.
static fx_status prepare_start(fxi_gram_matcher *g, fx_error *err)
{
    fxi_match_state at = {0};
    size_t left = FXI_MATCHER_NO_LIMIT;
    bool is_ready;
    FX_TRY(fxi_gram_matcher_prepare(g, NULL, 0, &at, true, &left, &is_ready, err));
    left = FXI_MATCHER_NO_LIMIT;
    return fxi_gram_matcher_prepare(g, NULL, 0, &at, false, &left, &is_ready, err);
}

static fx_status make_answer_grammar(const fx_engine *eng, const fx_part *root, fx_grammar **out,
                                     fx_error *err)
{
    fx_grammar *g = calloc(1, sizeof *g);
    if (!g) return fxi_fail(err, FX_ENOMEM, "no memory for a grammar");
    g->eng = eng;
    g->worker = &((fx_engine *)eng)->answer_vocab.worker; // with a lock of its own
    atomic_init(&g->n_ref, 1);
    fx_status st = make_guide(eng, root, &g->guide, err);
    if (!st) st = prepare_start(g->guide, err);
    if (st)
        fx_grammar_release(g);
    else
        *out = g;
    return st;
}

static bool is_over(const fxi_matcher_pool *p)
{
    return atomic_load(&p->used_bytes) > atomic_load(&p->limit_bytes);
}

// Forgets those that were asked for first while grammars hold more memory than they may. False:
// those in use alone hold more.
static bool make_room(fxi_answer_vocab *v)
{
    const fxi_matcher_pool *p = &v->pool;
    while (is_over(p)) {
        fx_grammar *g = fxi_answer_take_oldest(v);
        if (!g) break;
        fx_grammar_release(g);
    }
    if (is_over(p)) fxi_answer_worker_forget(&v->worker); // it may have the last references
    return !is_over(p);
}

fx_status fx_grammar_compile(const fx_engine *eng, const fx_part *root, fx_grammar **out,
                             fx_error *err)
{
    fxi_answer_vocab *v = &((fx_engine *)eng)->answer_vocab; // with a lock of its own
    fxi_buf key = {0};
    if (!make_room(v))
        return fxi_fail(err, FX_EQUEUE, "the grammars in use hold %zu MiB, all that grammars may",
                        atomic_load(&v->pool.used_bytes) >> 20);
    const bool has_key = fxi_answer_key(root, &key);
    *out = has_key ? fxi_answer_find(v, &key) : NULL;
    fx_status st = *out ? FX_OK : make_answer_grammar(eng, root, out, err);
    if (!st) {
        fxi_answer_worker_start(&v->worker);
        fxi_answer_worker_add(&v->worker, *out, false);
    }
    if (!st && has_key && !(*out)->key.n) {
        (*out)->key = key;
        fxi_answer_keep(v, *out);
        return FX_OK;
    }
    fxi_buf_free(&key);
    return st;
}

// ---- memory -------------------------------------------------------------------------------------

size_t fx_grammar_memory(const fx_engine *eng)
{
    return atomic_load(&eng->answer_vocab.pool.used_bytes);
}

void fx_set_grammar_memory(fx_engine *eng, size_t bytes)
{
    atomic_store(&eng->answer_vocab.pool.limit_bytes, bytes);
}
