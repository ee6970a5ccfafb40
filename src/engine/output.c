// output.c - from sampled tokens to the events of a request.
//
//   at once    each token is emitted when it is sampled, with the text that has become safe to show
//   deferred   (n_best, beam search) tokens and their probabilities are kept; when all sequences
//              have ended, the best answers are emitted token by token
//
// An answer ends at an end-of-text token (unless ignore_eos), at a stop token, or at a stop string
// in its text; never before min_tok. It also ends where its grammar does, and where its client
// stops it.
#include "engine/iteration.h"

#include <stdlib.h>

static const char no_text_memory[] = "no memory for the text";

// ---- events ------------------------------------------------------------------------------------

// A sequence, and the number of the choice that its tokens are emitted as.
typedef struct emitter {
    const fx_engine *eng;
    fxi_seq *s;
    int choice;
} emitter;

static void emit_event(const emitter *e, fx_event ev)
{
    const fxi_live_request *r = e->s->request;
    fxi_text *text = &e->s->text;
    const uint64_t now = fxi_now_us(e->eng), admit = r->admit_us ? r->admit_us : now,
                   first = r->first_us ? r->first_us : now;
    ev.request_id = r->id;
    ev.choice = e->choice;
    ev.text = text->clean.p ? text->clean.p : "";
    ev.n_prompt = (int)r->spec.n_prompt;
    ev.n_cached = r->n_cached;
    ev.queued_us = admit - r->submit_us;
    ev.prefill_us = first - admit;
    ev.decode_us = now - first;
    r->spec.on_event(r->spec.ud, &ev);
    fxi_buf_drop_front(&text->clean, ev.text_bytes);
}

static void emit_token(const emitter *e, int position, size_t show, const fx_token_prob *prob,
                       uint64_t gap_us)
{
    emit_event(e, (fx_event){.text_bytes = show,
                             .text_at = (int)e->s->text.token_at,
                             .token = e->s->tok[position],
                             .position = position,
                             .prob = prob,
                             .stop_token = -1,
                             .stop_string = -1,
                             .gap_us = gap_us,
                             .n_generated = position + 1 - (int)e->s->request->spec.n_prompt});
}

static int n_discarded_tok(const fxi_live_request *r)
{
    int n = 0;
    for (int i = 0; r->defers_output && !r->beam && i < r->n_seq; i++)
        if (r->seq[i].state == FXI_SEQ_DONE) n += fxi_seq_n_generated(&r->seq[i]);
    return n;
}

static void emit_end(const emitter *e, double score)
{
    fxi_seq *s = e->s;
    size_t show = 0;
    if (!fxi_text_end(&s->text, &show)) fxi_seq_fail(s, FX_EINTERNAL, no_text_memory);
    const bool last = --e->s->request->n_left == 0;
    const bool has_failed = s->finish == FX_FINISH_ERROR, has_stopped = s->finish == FX_FINISH_STOP;
    emit_event(e, (fx_event){.text_bytes = show,
                             .token = -1,
                             .position = s->n_tok,
                             .finish = s->finish,
                             .last = last,
                             .stop_token = s->stop_token,
                             .stop_string = s->text.stopped ? s->text.stop_string : -1,
                             .score = score,
                             .error = has_failed ? s->error : NULL,
                             .error_status = has_failed ? s->error_status : FX_OK,
                             .embedding = has_stopped ? s->embd : NULL,
                             .n_embd = has_stopped ? s->n_embd : 0,
                             .n_generated = fxi_seq_n_generated(s),
                             .n_discarded = last ? n_discarded_tok(e->s->request) : 0});
}

void fxi_output_end(const fx_engine *eng, fxi_seq *s)
{
    emit_end(&(emitter){eng, s, s->choice}, 0);
}

void fxi_output_prompt_prob(const fx_engine *eng, fxi_seq *s, int position,
                            const fx_token_prob *prob)
{
    const emitter e = {eng, s, 0};
    emit_event(&e, (fx_event){.token = s->tok[position],
                              .position = position,
                              .prob = prob,
                              .stop_token = -1,
                              .stop_string = -1});
}

// ---- adding tokens -----------------------------------------------------------------------------

static bool is_among(const int32_t *set, size_t n, int32_t tok) // they are sorted
{
    return n && bsearch(&tok, set, n, sizeof *set, fxi_ids_compare);
}

// What one token of an answer means for its end.
typedef struct token_end {
    bool may_stop; // min_tok is reached
    bool ends;     // it is a stop token or an end-of-text token that counts
} token_end;

static token_end end_of_token(const fx_engine *eng, const fxi_seq *s, int position)
{
    const fx_request *spec = &s->request->spec;
    const int32_t tok = s->tok[position];
    const bool may_stop = position + 1 - (int)spec->n_prompt >= spec->sampling.min_tok;
    const bool ends = may_stop && (is_among(spec->stop_token, spec->n_stop_token, tok) ||
                                   (!spec->ignore_eos && fxi_vocab_ends(eng->vocab, tok)));
    return (token_end){may_stop, ends};
}

// Adds the text of a token; *show bytes may be emitted. False: no memory.
static bool add_text(const fx_engine *eng, fxi_seq *s, int32_t tok, token_end end, size_t *show)
{
    const fx_request *spec = &s->request->spec;
    size_t n_bytes = 0;
    const char *bytes = "";
    if (!end.ends || spec->include_stop) {
        const bool is_shown = is_among(spec->show_token, spec->n_show_token, tok) &&
                              fxi_vocab_control(eng->vocab, tok);
        bytes = is_shown ? fxi_vocab_piece(eng->vocab, tok, &n_bytes)
                         : fxi_text_token(&s->text, eng->vocab, tok, &n_bytes);
    }
    return fxi_text_add(&s->text, bytes, n_bytes, end.may_stop ? &s->request->stops : NULL, show);
}

// Whether nothing may follow in the grammar, or it cannot be followed: then s->finish is decided.
static bool ends_grammar(fxi_seq *s)
{
    const char *error;
    if (fxi_seq_follow(s, NULL, &error)) return s->place.is_complete;
    fxi_seq_fail(s, FX_EINTERNAL, error);
    return true;
}

static void decide_finish(fxi_seq *s, int32_t tok, bool ends)
{
    const fxi_live_request *r = s->request;
    // By its client. Where output is deferred, whole answers are compared.
    const bool is_stopped =
        !r->defers_output &&
        atomic_load_explicit(&r->stopped, memory_order_relaxed) >> s->choice & 1;
    if (s->text.stopped) {
        s->finish = FX_FINISH_STOP;
    } else if (ends) {
        s->finish = FX_FINISH_STOP;
        s->stop_token = tok;
    } else if (is_stopped) {
        s->finish = FX_FINISH_STOP;
    } else if (r->spec.grammar && ends_grammar(s)) {
        if (s->finish == FX_FINISH_NONE) s->finish = FX_FINISH_STOP;
    } else if (fxi_seq_n_generated(s) >= r->max_tok) {
        s->finish = FX_FINISH_LENGTH;
    }
}

void fxi_output_add(const fx_engine *eng, fxi_seq *s, int32_t tok, const fx_token_prob *prob)
{
    fxi_live_request *r = s->request;
    const emitter e = {eng, s, s->choice};
    const uint64_t now = fxi_now_us(eng), gap_us = s->last_us ? now - s->last_us : 0;
    s->last_us = now;
    if (!r->first_us) r->first_us = now;
    size_t show;
    if (!fxi_seq_reserve(s, s->n_tok + 1)) {
        fxi_seq_fail(s, FX_EINTERNAL, "no memory for the answer");
        return;
    }
    s->tok[s->n_tok++] = tok;
    if (prob) s->sum_logprob += (double)prob->logprob;
    const token_end end = end_of_token(eng, s, s->n_tok - 1);
    bool ok = add_text(eng, s, tok, end, &show);
    if (r->defers_output && r->spec.logprobs) ok = ok && prob && fxi_prob_log_add(&s->prob, prob);
    if (!ok) {
        fxi_seq_fail(s, FX_EINTERNAL, no_text_memory);
        return;
    }
    if (r->defers_output)
        fxi_buf_drop_front(&s->text.clean, show);
    else
        emit_token(&e, s->n_tok - 1, show, r->spec.logprobs ? prob : NULL, gap_us);
    decide_finish(s, tok, end.ends);
}

// ---- deferred output ---------------------------------------------------------------------------

// Emits a whole answer. Its text was dropped while it was generated, and is built again.
static void emit_answer(const emitter *e, double score)
{
    fxi_seq *s = e->s;
    const bool has_probs = e->s->request->spec.logprobs;
    const int n_prompt = (int)e->s->request->spec.n_prompt;
    size_t show = 0;
    fxi_text_restart(&s->text);
    s->text.bytes.strip_space = e->s->request->begins.strip_space;
    for (int i = n_prompt; i < s->n_tok; i++) {
        fx_token_prob p;
        if (has_probs) p = fxi_prob_log_at(&s->prob, i - n_prompt);
        if (!add_text(e->eng, s, s->tok[i], end_of_token(e->eng, s, i), &show)) {
            fxi_seq_fail(s, FX_EINTERNAL, no_text_memory);
            break;
        }
        emit_token(e, i, show, has_probs ? &p : NULL, 0);
    }
    emit_end(e, score);
}

static double mean_logprob(const fxi_seq *s)
{
    const int n = fxi_seq_n_generated(s);
    return n ? s->sum_logprob / n : 0;
}

static bool is_better(const fxi_seq *a, const fxi_seq *b)
{
    if (fxi_seq_ended_well(a) != fxi_seq_ended_well(b)) return fxi_seq_ended_well(a);
    return mean_logprob(a) > mean_logprob(b); // on a tie, the earlier choice stays
}

// The DONE sequence with the best mean logprob; it becomes UNBORN, so that it is taken only once.
static fxi_seq *take_best(fxi_live_request *r)
{
    fxi_seq *best = NULL;
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        if (s->state == FXI_SEQ_DONE && (!best || is_better(s, best))) best = s;
    }
    best->state = FXI_SEQ_UNBORN;
    return best;
}

void fxi_output_deferred(const fx_engine *eng, fxi_live_request *r)
{
    const fxi_beam *b = r->beam;
    for (int k = 0; k < r->spec.n_choice; k++) {
        const bool has_hypothesis = b && b->is_over && k < b->n_done; // not cut short
        fxi_seq *s = has_hypothesis ? &b->done[k].s : take_best(r);
        const double score = has_hypothesis ? b->done[k].score : mean_logprob(s);
        emit_answer(&(emitter){eng, s, k}, fxi_seq_ended_well(s) ? score : 0);
    }
}
