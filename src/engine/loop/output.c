// output.c - from drawn tokens to the events of a request.
//
//   open groups     each token is emitted at once, with the text that has become safe to show
//   hidden groups   (n_best, beam search) tokens and their probabilities are kept; when all
//                   sequences have ended, the best answers are emitted token by token
//
// An answer ends at an end-of-text token (unless ignore_eos), at a stop token, or at a stop string
// in its text; never before min_tok. It also ends where its grammar does, and where its client
// stops it.
#include "engine/loop/loop.h"

#include <string.h>

static const char no_text_memory[] = "no memory for the text";

// ---- events ------------------------------------------------------------------------------------

// A sequence, and the number of the choice that its tokens are emitted as.
typedef struct emitter {
    const fx_engine *eng;
    fxi_group *group;
    fxi_seq *s;
    int choice;
} emitter;

// Splits the time since fx_submit at the first admission and at the first token.
static void fill_times(const fx_engine *eng, const fxi_group *g, fx_event *ev)
{
    const uint64_t now = fxi_now_us(eng), admit = g->admit_us ? g->admit_us : now,
                   first = g->first_us ? g->first_us : now;
    ev->queued_us = admit - g->submit_us;
    ev->prefill_us = first - admit;
    ev->decode_us = now - first;
}

static void emit_event(const emitter *e, fx_event ev)
{
    const fxi_group *g = e->group;
    fxi_text *text = &e->s->text;
    ev.request_id = g->id;
    ev.choice = e->choice;
    ev.text = text->clean.p ? text->clean.p : "";
    ev.n_prompt = (int)g->req.n_prompt;
    ev.n_cached = g->n_cached;
    fill_times(e->eng, g, &ev);
    g->req.on_event(g->req.ud, &ev);
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
                             .n_generated = position + 1 - (int)e->group->req.n_prompt});
}

static int n_discarded_tok(const fxi_group *g)
{
    int n = 0;
    for (int i = 0; g->is_hidden && !g->beam && i < g->n_seq; i++)
        if (g->seq[i].state == FXI_SEQ_DONE) n += fxi_seq_n_generated(&g->seq[i]);
    return n;
}

static void emit_end(const emitter *e, double score)
{
    fxi_seq *s = e->s;
    size_t show = 0;
    if (!fxi_text_end(&s->text, &show)) fxi_seq_fail(s, no_text_memory);
    e->group->n_left--;
    emit_event(e, (fx_event){.text_bytes = show,
                             .token = -1,
                             .position = s->n_tok,
                             .finish = s->finish,
                             .last = e->group->n_left == 0,
                             .stop_token = s->stop_token,
                             .stop_string = s->stop_string,
                             .score = score,
                             .error = s->finish == FX_FINISH_ERROR ? s->error : NULL,
                             .error_status = s->finish == FX_FINISH_ERROR ? s->error_status : FX_OK,
                             .embedding = s->finish == FX_FINISH_STOP ? s->embd : NULL,
                             .n_embd = s->finish == FX_FINISH_STOP ? s->n_embd : 0,
                             .n_generated = fxi_seq_n_generated(s),
                             .n_discarded = e->group->n_left == 0 ? n_discarded_tok(e->group) : 0});
}

void fxi_output_end(const fx_engine *eng, fxi_seq *s)
{
    emit_end(&(emitter){eng, s->group, s, s->choice}, 0);
}

void fxi_output_prompt_prob(const fx_engine *eng, fxi_seq *s, int position,
                            const fx_token_prob *prob)
{
    const emitter e = {eng, s->group, s, 0};
    emit_event(&e, (fx_event){.token = s->tok[position],
                              .position = position,
                              .prob = prob,
                              .stop_token = -1,
                              .stop_string = -1});
}

// ---- adding tokens -----------------------------------------------------------------------------

static bool is_among(const int32_t *set, size_t n, int32_t tok)
{
    size_t from = 0, to = n; // they are sorted
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (set[mid] == tok) return true;
        if (set[mid] < tok)
            from = mid + 1;
        else
            to = mid;
    }
    return false;
}

static bool is_stop_token(const fx_request *req, int32_t tok)
{
    return is_among(req->stop_token, req->n_stop_token, tok);
}

static const char *token_bytes(const fx_engine *eng, fxi_seq *s, int32_t tok, size_t *n_bytes)
{
    const fx_request *req = &s->group->req;
    if (is_among(req->show_token, req->n_show_token, tok) && fxi_vocab_control(eng->vocab, tok))
        return fxi_vocab_piece(eng->vocab, tok, n_bytes);
    return fxi_text_token(&s->text, eng->vocab, tok, n_bytes);
}

static bool is_end_of_text(const fx_engine *eng, const fx_request *req, int32_t tok)
{
    return !req->ignore_eos && fxi_vocab_ends(eng->vocab, tok);
}

// Adds the text of the token at this position; *show bytes may be emitted. False: no memory.
static bool add_text(const fx_engine *eng, fxi_seq *s, int position, size_t *show)
{
    const fx_request *req = &s->group->req;
    const int32_t tok = s->tok[position];
    const bool may_stop = position + 1 - (int)req->n_prompt >= req->sampling.min_tok;
    const bool ends = may_stop && (is_stop_token(req, tok) || is_end_of_text(eng, req, tok));
    size_t n_bytes = 0;
    const char *bytes = "";
    if (!ends || req->include_stop) bytes = token_bytes(eng, s, tok, &n_bytes);
    return fxi_text_add(&s->text, bytes, n_bytes, may_stop ? &s->group->stops : NULL, show);
}

// Whether nothing may follow in the grammar, or it cannot be followed: then s->finish is decided.
static bool ends_grammar(fxi_seq *s)
{
    const char *error;
    if (fxi_seq_follow(s, NULL, &error)) return s->place.is_complete;
    fxi_seq_fail(s, error);
    return true;
}

// Whether the client has had enough of it. Hidden groups choose among whole answers.
static bool is_stopped(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    return !g->is_hidden &&
           atomic_load_explicit(&g->stopped, memory_order_relaxed) >> s->choice & 1;
}

static void decide_finish(const fx_engine *eng, fxi_seq *s, int32_t tok)
{
    const fxi_group *g = s->group;
    const int n_gen = fxi_seq_n_generated(s);
    const bool may_stop = n_gen >= g->req.sampling.min_tok;
    if (s->text.stopped) {
        s->finish = FX_FINISH_STOP;
        s->stop_string = s->text.stop_string;
    } else if (may_stop && (is_stop_token(&g->req, tok) || is_end_of_text(eng, &g->req, tok))) {
        s->finish = FX_FINISH_STOP;
        s->stop_token = tok;
    } else if (is_stopped(s)) {
        s->finish = FX_FINISH_STOP;
    } else if (g->req.grammar && ends_grammar(s)) {
        if (s->finish == FX_FINISH_NONE) s->finish = FX_FINISH_STOP;
    } else if (n_gen >= g->max_tok) {
        s->finish = FX_FINISH_LENGTH;
    }
}

// Notes the time of a token, and returns how long the one before it is ago; 0: it is the first.
static uint64_t time_token(const fx_engine *eng, fxi_seq *s)
{
    const uint64_t now = fxi_now_us(eng), gap = s->last_us ? now - s->last_us : 0;
    s->last_us = now;
    if (!s->group->first_us) s->group->first_us = now;
    return gap;
}

void fxi_output_add(const fx_engine *eng, fxi_seq *s, int32_t tok, const fx_token_prob *prob)
{
    const fxi_group *g = s->group;
    const emitter e = {eng, s->group, s, s->choice};
    const uint64_t gap_us = time_token(eng, s);
    size_t show;
    if (!fxi_seq_reserve(s, s->n_tok + 1)) {
        fxi_seq_fail(s, "no memory for the answer");
        return;
    }
    s->tok[s->n_tok++] = tok;
    if (prob) s->sum_logprob += (double)prob->logprob;
    bool ok = add_text(eng, s, s->n_tok - 1, &show);
    if (g->is_hidden && g->req.logprobs) ok = ok && prob && fxi_prob_log_add(&s->prob, prob);
    if (!ok) {
        fxi_seq_fail(s, no_text_memory);
        return;
    }
    if (g->is_hidden)
        fxi_buf_drop_front(&s->text.clean, show);
    else
        emit_token(&e, s->n_tok - 1, show, g->req.logprobs ? prob : NULL, gap_us);
    decide_finish(eng, s, tok);
}

// ---- hidden groups -----------------------------------------------------------------------------

// Emits a whole answer. Its text was dropped while it was generated, and is built again.
static void emit_answer(const fx_engine *eng, const emitter *e, double score)
{
    fxi_seq *s = e->s;
    const int n_prompt = (int)e->group->req.n_prompt;
    size_t show = 0;
    fxi_text_restart(&s->text);
    s->text.bytes.strip_space = e->group->begins.strip_space;
    for (int i = n_prompt; i < s->n_tok; i++) {
        fx_token_prob p;
        if (e->group->req.logprobs) p = fxi_prob_log_at(&s->prob, i - n_prompt);
        if (!add_text(eng, s, i, &show)) {
            fxi_seq_fail(s, no_text_memory);
            break;
        }
        emit_token(e, i, show, e->group->req.logprobs ? &p : NULL, 0);
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
static fxi_seq *take_best(fxi_group *g)
{
    fxi_seq *best = NULL;
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        if (s->state == FXI_SEQ_DONE && (!best || is_better(s, best))) best = s;
    }
    best->state = FXI_SEQ_UNBORN;
    return best;
}

// The k-th best hypothesis; NULL: there are fewer, or the search was cut short.
static fxi_seq *beam_answer(const fxi_group *g, int k, double *score)
{
    const fxi_beam *b = g->beam;
    if (!b || !b->is_over || k >= b->n_done) return NULL;
    *score = b->done[k].score;
    return &b->done[k].s;
}

void fxi_output_hidden(const fx_engine *eng, fxi_group *g)
{
    for (int k = 0; k < g->req.n_choice; k++) {
        double score = 0;
        fxi_seq *s = beam_answer(g, k, &score);
        if (!s) {
            s = take_best(g); // also where a beam search was cut short
            score = mean_logprob(s);
        }
        emit_answer(eng, &(emitter){eng, g, s, k}, fxi_seq_ended_well(s) ? score : 0);
    }
}
