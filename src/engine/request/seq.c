// seq.c - sequences as data: the text that may be shown, tokens, the place in the grammar, the end;
// and what a beam search keeps.
#include "base/text/utf8.h" // defines: fxi_utf8_count
#include "engine/request/request.h"

#include <stdlib.h>
#include <string.h>

// ---- stop strings ------------------------------------------------------------------------------

// How much of the stop string the text ends with, once `byte` follows `matched` of it.
static uint32_t match_byte(const fxi_stop *s, uint32_t matched, char byte)
{
    while (matched && s->text[matched] != byte) matched = s->border[matched];
    return matched + (s->text[matched] == byte);
}

bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n)
{
    *out = (fxi_stops){0};
    if (!n) return true;
    out->stop = calloc(n, sizeof *out->stop);
    if (!out->stop) return false;
    for (; out->n < n; out->n++) {
        fxi_stop *s = &out->stop[out->n];
        *s = (fxi_stop){.text = text[out->n], .n_bytes = strlen(text[out->n])};
        s->border = malloc((s->n_bytes + 1) * sizeof *s->border);
        if (!s->border) return false;
        s->border[0] = s->border[1] = 0;
        for (size_t k = 2; k <= s->n_bytes; k++)
            s->border[k] = match_byte(s, s->border[k - 1], s->text[k - 1]);
    }
    return true;
}

void fxi_stops_free(fxi_stops *s)
{
    for (size_t i = 0; i < s->n; i++) free(s->stop[i].border);
    free(s->stop);
    *s = (fxi_stops){0};
}

// Advances *matched over bytes[0..n). True: the stop string ends after the first *end of them.
static bool match_bytes(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n,
                        size_t *end)
{
    for (size_t i = 0; i < n; i++) {
        *matched = match_byte(s, *matched, bytes[i]);
        if (*matched < s->n_bytes) continue;
        *end = i + 1;
        return true;
    }
    return false;
}

bool fxi_stop_match(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n)
{
    size_t end;
    return match_bytes(s, matched, bytes, n, &end);
}

// Searches the bytes of `clean` from offset `from`. Offset in `clean` of the first stop string, and
// its index; SIZE_MAX if there is none.
static size_t find_stop(fxi_text *t, size_t from, const fxi_stops *stops, size_t *which)
{
    size_t first = SIZE_MAX, end;
    for (size_t i = 0; i < t->n_stop; i++) {
        const fxi_stop *s = &stops->stop[i];
        if (!match_bytes(s, &t->matched[i], t->clean.p + from, t->clean.n - from, &end)) continue;
        const size_t at = from + end - s->n_bytes;
        if (at >= first) continue;
        first = at;
        *which = i;
    }
    return first;
}

static bool begin_stops(fxi_text *t, size_t n_stop)
{
    if (t->matched) return true;
    t->matched = calloc(n_stop, sizeof *t->matched);
    t->n_stop = n_stop;
    return t->matched != NULL;
}

static void forget_stops(fxi_text *t)
{
    for (size_t i = 0; i < t->n_stop; i++) t->matched[i] = 0;
}

// ---- text --------------------------------------------------------------------------------------

const char *fxi_text_token(fxi_text *t, const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    if (t->show_control && fxi_vocab_control(v, id)) return fxi_vocab_piece(v, id, n_bytes);
    return fxi_decoder_bytes(&t->bytes, v, id, n_bytes);
}

bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const fxi_stops *stops, size_t *show)
{
    const size_t from = t->clean.n;
    *show = 0;
    t->token_at = t->n_char;
    if (!fxi_decoder_add(&t->bytes, bytes, n, &t->clean)) return false;
    t->n_char += fxi_utf8_count(t->clean.p + from, t->clean.n - from);
    if (!stops || !stops->n) {
        forget_stops(t);
        *show = t->clean.n;
        return true;
    }
    if (!begin_stops(t, stops->n)) return false;
    size_t which = 0, held = 0;
    const size_t at = find_stop(t, from, stops, &which);
    for (size_t i = 0; i < t->n_stop; i++) // what may begin a stop string
        if (t->matched[i] > held) held = t->matched[i];
    *show = t->clean.n - held;
    if (at == SIZE_MAX) return true;
    // The answer ends before the stop string, or after it with include_stop.
    t->stopped = true;
    t->stop_string = (int)which;
    *show = t->clean.n = at + (t->include_stop ? stops->stop[which].n_bytes : 0);
    t->clean.p[t->clean.n] = 0;
    return true;
}

bool fxi_text_end(fxi_text *t, size_t *show)
{
    *show = 0;
    if (!t->stopped && !fxi_decoder_end(&t->bytes, &t->clean)) return false;
    *show = t->clean.n;
    return true;
}

bool fxi_text_copy(fxi_text *to, const fxi_text *from)
{
    *to = *from;
    to->clean = (fxi_buf){0};
    to->matched = NULL;
    if (!fxi_decoder_copy(&to->bytes, &from->bytes) ||
        !fxi_buf_add(&to->clean, from->clean.p, from->clean.n))
        return false;
    if (!from->matched) return true;
    if (!begin_stops(to, from->n_stop)) return false;
    memcpy(to->matched, from->matched, from->n_stop * sizeof *to->matched);
    return true;
}

void fxi_text_restart(fxi_text *t)
{
    fxi_buf_clear(&t->bytes.raw);
    fxi_buf_clear(&t->clean);
    forget_stops(t);
    t->stopped = false;
    t->n_char = t->token_at = 0;
}

void fxi_text_free(fxi_text *t)
{
    fxi_decoder_free(&t->bytes);
    fxi_buf_free(&t->clean);
    free(t->matched);
    t->matched = NULL;
    t->n_stop = 0;
}

// ---- one sequence -------------------------------------------------------------------------------

bool fxi_seq_reserve(fxi_seq *s, int n_tok)
{
    if (n_tok <= s->cap_tok) return true;
    const int cap = n_tok + n_tok / 2 + 16;
    int32_t *tok = realloc(s->tok, (size_t)cap * sizeof *tok);
    if (!tok) return false;
    s->tok = tok;
    s->cap_tok = cap;
    return true;
}

bool fxi_seq_copy(fxi_seq *to, const fxi_seq *from)
{
    if (!fxi_seq_reserve(to, from->n_tok + 1)) return false;
    memcpy(to->tok, from->tok, (size_t)from->n_tok * sizeof *to->tok);
    to->n_tok = from->n_tok;
    to->state = from->state;
    to->n_computed = from->n_computed;
    to->n_recorded = from->n_recorded;
    to->n_prompt_emitted = from->n_prompt_emitted;
    to->sum_logprob = from->sum_logprob;
    to->beam_sum = from->beam_sum;
    to->place = from->place;
    return fxi_prob_log_copy(&to->prob, &from->prob) && fxi_text_copy(&to->text, &from->text);
}

void fxi_seq_clear(fxi_seq *s)
{
    const fxi_live_request *r = s->request;
    free(s->tok);
    fxi_text_free(&s->text);
    fxi_prob_log_free(&s->prob);
    free(s->embd);
    *s = (fxi_seq){.request = s->request, .choice = s->choice, .stop_token = -1};
    s->text.bytes = r->begins;
    s->text.include_stop = r->spec.include_stop;
    s->text.show_control = r->spec.show_control;
}

int fxi_seq_n_generated(const fxi_seq *s)
{
    return s->n_tok ? s->n_tok - (int)s->request->spec.n_prompt : 0;
}

// ---- ends --------------------------------------------------------------------------------------

void fxi_seq_fail(fxi_seq *s, fx_status status, const char *error)
{
    s->finish = FX_FINISH_ERROR;
    s->error = error;
    s->error_status = status;
}

bool fxi_seq_ended_well(const fxi_seq *s)
{
    return s->finish == FX_FINISH_STOP || s->finish == FX_FINISH_LENGTH;
}

// ---- rules -------------------------------------------------------------------------------------

static const char *bytes_of_token(const void *vocab, int32_t id, size_t *n_bytes)
{
    return fxi_vocab_bytes(vocab, id, n_bytes);
}

fxi_sample_view fxi_seq_view(const fxi_seq *s)
{
    const fxi_live_request *r = s->request;
    return (fxi_sample_view){.rule = &r->spec.sampling,
                             .tok = s->tok,
                             .n_prompt = (int)r->spec.n_prompt,
                             .n_tok = s->n_tok,
                             .end = r->end,
                             .n_end = r->n_end,
                             .text_of = bytes_of_token,
                             .texts = r->vocab};
}

bool fxi_seq_follow(fxi_seq *s, uint64_t *mask, const char **error)
{
    const fx_request *spec = &s->request->spec;
    const fx_status st =
        fxi_gram_matcher_mask(spec->grammar->matcher, s->tok + spec->n_prompt,
                              (size_t)fxi_seq_n_generated(s), &s->place, mask, NULL);
    if (st == FX_OK) return true;
    *error = st == FX_ENOMEM
                 ? "no memory to follow the grammar"
                 : "the answer is nested too deeply, or its grammar is too ambiguous, to continue";
    return false;
}

bool fxi_seq_allowed(fxi_seq *s, uint64_t *allowed, const char **error)
{
    const fxi_live_request *r = s->request;
    if (!r->spec.grammar) return true;
    if (!fxi_seq_follow(s, allowed, error)) return false;
    for (int i = r->spec.ignore_eos ? r->n_eot : 0; s->place.may_end && i < r->n_end; i++)
        allowed[r->end[i] / 64] |= (uint64_t)1 << (r->end[i] % 64);
    return true;
}

// ---- beam search --------------------------------------------------------------------------------

bool fxi_beam_make(fxi_live_request *r)
{
    const size_t width = (size_t)r->spec.beam_width;
    fxi_beam *b = r->beam = calloc(1, sizeof *b);
    if (!b) return false;
    b->width = (int)width;
    b->done = calloc(width, sizeof *b->done);
    b->cand = malloc(2 * width * width * sizeof *b->cand);
    b->next = calloc(width, sizeof *b->next);
    return b->done && b->cand && b->next;
}

void fxi_beam_free(fxi_beam *b)
{
    if (!b) return;
    for (int i = 0; b->done && i < b->n_done; i++) fxi_seq_clear(&b->done[i].s);
    free(b->done);
    free(b->cand);
    free(b->next);
    free(b);
}
