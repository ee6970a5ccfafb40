// answer_grammar.c - compiled grammars with their references, and the vocabulary that they share.
#include "engine/grammar/answer_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "grammar/form/gram_form.h"

// What a grammar may learn before it begins again. A state takes about 100 bytes and a row of the
// table of moves, a mask a bit per token.
static const fxi_guide_limits guide_limits = {.max_set = 1 << 16, .max_mask = 256};

// ---- the vocabulary -----------------------------------------------------------------------------

bool fxi_answer_vocab_init(fxi_answer_vocab *v)
{
    return pthread_mutex_init(&v->mu, NULL) == 0;
}

void fxi_answer_vocab_free(fxi_answer_vocab *v)
{
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

static fx_status make_guide(const fx_engine *eng, const fx_part *root, fxi_guide **out,
                            fx_error *err)
{
    fxi_gram form = {0};
    const fxi_gram_tokens *tokens;
    uint32_t node = 0;
    fx_status st = get_vocab_tokens(eng, &tokens, err);
    if (!st) st = fxi_answer_part(&form, eng->vocab, root, &node, err);
    if (!st) st = fxi_gram_finish(&form, node, err);
    const fxi_guide_speller speller = {spell_first_token, (void *)eng, FXI_CONTROL_MARK[0]};
    if (!st) return fxi_guide_make(&form, tokens, speller, guide_limits, out, err);
    fxi_gram_free(&form);
    return st;
}

fx_status fx_grammar_compile(const fx_engine *eng, const fx_part *root, fx_grammar **out,
                             fx_error *err)
{
    fx_grammar *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) return fxi_fail(err, FX_ENOMEM, "no memory for a grammar");
    g->eng = eng;
    atomic_init(&g->n_ref, 1);
    const fx_status st = make_guide(eng, root, &g->guide, err);
    if (st)
        fx_grammar_release(g);
    else
        *out = g;
    return st;
}

void fx_grammar_retain(fx_grammar *g)
{
    atomic_fetch_add(&g->n_ref, 1);
}

void fx_grammar_release(fx_grammar *g)
{
    if (!g || atomic_fetch_sub(&g->n_ref, 1) > 1) return;
    fxi_guide_free(g->guide);
    free(g);
}
