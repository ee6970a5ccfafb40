// forced.c - tokens that must come next: reasoning has used up its budget, or the grammar has no
// other. It follows from the tokens of the sequence alone, so that neither drafts nor preemption
// change it.
#include "engine/request/request.h"

#include <string.h>

// ---- reasoning that ends in time ----------------------------------------------------------------

enum { OPEN_TOK = 16 }; // tokens of an answer within which its reasoning begins

bool fxi_thought_make(fxi_live_request *r, const fxi_vocab *vocab)
{
    const fx_thought *t = r->spec.thought;
    const char *mark[4];
    size_t n = 0;
    r->vocab = vocab;
    for (int i = 0; t && i < 2; i++)
        if (t->open[i]) mark[n++] = t->open[i];
    r->n_thought_open = n;
    for (int i = 0; t && i < 2; i++)
        if (t->close[i]) mark[n++] = t->close[i];
    return !t || fxi_stops_make(&r->thought_marks, mark, n);
}

// Whether one of these marks occurs in the text of tok[0..n): then *end tokens have been read with
// it.
static bool find_thought_mark(const fxi_stop *mark, size_t n_mark, const fxi_live_request *r,
                              const int32_t *tok, int n, int *end)
{
    uint32_t matched[2] = {0};
    for (int i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes = fxi_vocab_control(r->vocab, tok[i])
                                ? fxi_vocab_piece(r->vocab, tok[i], &n_bytes)
                                : fxi_vocab_bytes(r->vocab, tok[i], &n_bytes);
        *end = i + 1;
        for (size_t k = 0; k < n_mark; k++)
            if (fxi_stop_match(&mark[k], &matched[k], bytes, n_bytes)) return true;
    }
    return false;
}

// The tokens that come next since the budget is used up, up to max_tok; 0: it is not, or the answer
// does not reason.
static int close_thought(const fxi_seq *s, int32_t *out, int max_tok)
{
    const fxi_live_request *r = s->request;
    const fx_thought *t = r->spec.thought;
    const int32_t *answer = s->tok + r->spec.n_prompt;
    const int n = fxi_seq_n_generated(s), n_first = n < OPEN_TOK ? n : OPEN_TOK;
    int begin = 0, end;
    if (!t || r->beam || n < t->max_tok) return 0;
    const fxi_stop *open = r->thought_marks.stop, *close = open + r->n_thought_open;
    const size_t n_close = r->thought_marks.n - r->n_thought_open;
    if (!t->opened && !find_thought_mark(open, r->n_thought_open, r, answer, n_first, &begin))
        return 0;
    const int64_t n_over = (int64_t)n - begin - t->max_tok; // of them are close_tok
    if (n_over < 0 || n_over >= (int64_t)t->n_close) return 0;
    if (find_thought_mark(close, n_close, r, answer + begin, n - begin, &end)) return 0;
    const size_t n_left = t->n_close - (size_t)n_over, n_out = (size_t)max_tok;
    memcpy(out, t->close_tok + n_over, (n_left < n_out ? n_left : n_out) * sizeof *out);
    return (int)(n_left < n_out ? n_left : n_out);
}

// ---- both ---------------------------------------------------------------------------------------

// Nothing may revive a banned token, and beams are ranked by their probabilities.
static bool may_force(const fx_request *spec)
{
    const fx_sampling *rules = &spec->sampling;
    return spec->grammar && !spec->beam_width && !rules->n_allow && !rules->n_ban &&
           !rules->n_ban_run;
}

int fxi_seq_forced(fxi_seq *s, int32_t *out, int max_tok)
{
    size_t n = 0;
    const fx_request *spec = &s->request->spec;
    const int n_close = close_thought(s, out, max_tok);
    if (n_close) return n_close;
    if (!may_force(spec) || fxi_gram_matcher_forced(spec->grammar->matcher, s->tok + spec->n_prompt,
                                                    (size_t)fxi_seq_n_generated(s), &s->place, out,
                                                    (size_t)max_tok, &n, NULL))
        return 0;
    return (int)n;
}

// A failure shows when the grammar is followed.
bool fxi_seq_is_ready(fxi_seq *s, size_t *left)
{
    bool is_ready;
    const fx_request *spec = &s->request->spec;
    fx_grammar *g = spec->grammar;
    if (!g->home->worker.has_thread) return true;
    if (fxi_gram_matcher_prepare(g->matcher, s->tok + spec->n_prompt,
                                 (size_t)fxi_seq_n_generated(s), &s->place, may_force(spec), left,
                                 &is_ready, NULL))
        return true;
    if (!is_ready) fxi_grammar_worker_add(&g->home->worker, g, true);
    return is_ready;
}
