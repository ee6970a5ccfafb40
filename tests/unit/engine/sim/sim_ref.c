// sim_ref.c - the expected answers: choices, best ones and beams, from the tokens alone.
#include "unit/engine/sim/sim_ref.h"

#include <math.h>
#include <string.h>

enum { FIRST_BYTE = 3 }; // token of byte 0

sim_ask sim_ask_make(const sim_law *law, const fx_request *req, int max_tok)
{
    sim_ask k = {.law = law, .req = req, .max_tok = max_tok};
    k.n_seq = req->beam_width ? req->beam_width : req->n_best ? req->n_best : req->n_choice;
    k.end[k.n_end++] = law->eos;
    for (size_t i = 0; i < req->n_stop_token; i++) k.end[k.n_end++] = req->stop_token[i];
    return k;
}

int sim_answer_len(const sim_ask *k, const sim_answer *a)
{
    return a->n_tok - (int)k->req->n_prompt;
}

static void push(const sim_ask *k, sim_answer *a, int32_t tok)
{
    a->tok[a->n_tok++] = tok;
    sim_law_add(k->law, &a->state, tok);
}

void sim_answer_begin(const sim_ask *k, sim_answer *a)
{
    *a = (sim_answer){.stop_from = -1, .stop_token = -1, .stop_string = -1};
    a->state = sim_law_begin(k->law);
    for (size_t i = 0; i < k->req->n_prompt; i++) push(k, a, k->req->prompt[i]);
}

// ---- the next token ----------------------------------------------------------------------------

typedef struct scratch {
    float logit[SIM_N_VOCAB];
    fxi_candidate cand[SIM_N_VOCAB];
    int32_t count[SIM_N_VOCAB];
    int32_t repeat[SIM_MAX_CTX];
} scratch;

// The row after the rules, in s->logit or `row`; NULL: no token is left.
static const float *ruled(const sim_ask *k, const sim_answer *a, const float *row, scratch *s)
{
    const fxi_sample_view v = {.rule = &k->req->sampling,
                               .tok = a->tok,
                               .n_prompt = (int)k->req->n_prompt,
                               .n_tok = a->n_tok,
                               .end = k->end,
                               .n_end = k->n_end};
    fxi_sample_scratch fs = {.logit = s->logit,
                             .cand = s->cand,
                             .count = s->count,
                             .repeat = s->repeat,
                             .max_tok = SIM_MAX_CTX};
    memset(s->count, 0, sizeof s->count);
    return fxi_rules_apply(&v, row, SIM_N_VOCAB, &fs);
}

int32_t sim_answer_next(const sim_ask *k, const sim_answer *a, int choice)
{
    float row[SIM_N_VOCAB];
    scratch s;
    sim_law_logits(k->law, &a->state, row);
    const float *left = ruled(k, a, row, &s);
    if (!left) return -1;
    return fxi_sampler_draw(&k->req->sampling, left, SIM_N_VOCAB, choice, a->n_tok, s.cand);
}

void sim_answer_prob(const sim_ask *k, const sim_answer *a, int32_t tok, int n_top, fx_logprob *top,
                     fx_token_prob *out)
{
    float row[SIM_N_VOCAB];
    sim_law_logits(k->law, &a->state, row);
    fxi_logprob_of(row, SIM_N_VOCAB, tok, n_top, top, out);
}

// ---- adding ------------------------------------------------------------------------------------

static bool is_stop_token(const sim_ask *k, int32_t tok)
{
    for (size_t i = 0; i < k->req->n_stop_token; i++)
        if (k->req->stop_token[i] == tok) return true;
    return !k->req->ignore_eos && tok == k->law->eos;
}

// Whether the text ends with the stop string, which it did not before this token.
static bool ends_with(const sim_answer *a, const char *stop)
{
    const int n = (int)strlen(stop);
    return a->n_text - a->stop_from >= n && memcmp(a->text + a->n_text - n, stop, (size_t)n) == 0;
}

static void find_stop_string(const sim_ask *k, sim_answer *a)
{
    for (int i = 0; i < (int)k->req->n_stop; i++) {
        if (!ends_with(a, k->req->stop[i])) continue;
        a->finish = FX_FINISH_STOP;
        a->stop_string = i;
        if (!k->req->include_stop) a->n_text -= (int)strlen(k->req->stop[i]);
        return;
    }
}

void sim_answer_add(const sim_ask *k, sim_answer *a, int32_t tok)
{
    fx_logprob top[1];
    fx_token_prob p;
    sim_answer_prob(k, a, tok, 0, top, &p);
    a->sum_logprob += (double)p.logprob;
    push(k, a, tok);
    const int n = sim_answer_len(k, a);
    const bool may_stop = n >= k->req->sampling.min_tok;
    const bool stops = may_stop && is_stop_token(k, tok);
    if (may_stop && a->stop_from < 0) a->stop_from = a->n_text;
    const bool adds_text = tok >= FIRST_BYTE && (!stops || k->req->include_stop);
    if (adds_text) a->text[a->n_text++] = (char)(tok - FIRST_BYTE);
    if (adds_text && may_stop) find_stop_string(k, a);
    if (a->finish != FX_FINISH_NONE) return;
    if (stops) {
        a->finish = FX_FINISH_STOP;
        a->stop_token = tok;
    } else if (n >= k->max_tok) {
        a->finish = FX_FINISH_LENGTH;
    }
}

void sim_answer_all(const sim_ask *k, sim_answer *a, int choice)
{
    sim_answer_begin(k, a);
    if (!k->max_tok) a->finish = FX_FINISH_LENGTH;
    while (a->finish == FX_FINISH_NONE) {
        const int32_t tok = sim_answer_next(k, a, choice);
        if (tok < 0)
            a->finish = FX_FINISH_ERROR;
        else
            sim_answer_add(k, a, tok);
    }
}

// ---- beam search -------------------------------------------------------------------------------

typedef struct continuation {
    int beam;
    int32_t tok;
    float logprob;
    double sum;
    bool taken;
} continuation;

enum { MAX_NEXT = 2 * SIM_MAX_SEQ * SIM_MAX_SEQ };

void sim_beams_begin(const sim_ask *k, sim_beams *b)
{
    b->n_done = 0;
    b->n_live = 1;
    b->is_over = false;
    sim_answer_begin(k, &b->live[0]);
}

static int list_continuations(const sim_ask *k, const sim_beams *b, continuation *c)
{
    int n = 0;
    for (int i = 0; i < b->n_live; i++) {
        float row[SIM_N_VOCAB];
        scratch s;
        fx_logprob next[2 * SIM_MAX_SEQ];
        sim_law_logits(k->law, &b->live[i].state, row);
        const float *left = ruled(k, &b->live[i], row, &s);
        const int n_next = left ? fxi_logprob_top(left, SIM_N_VOCAB, 2 * k->n_seq, next) : 0;
        for (int j = 0; j < n_next; j++)
            c[n++] = (continuation){i, next[j].token, next[j].logprob,
                                    b->live[i].beam_sum + (double)next[j].logprob, false};
    }
    return n;
}

static bool goes_before(const continuation *x, const continuation *y)
{
    if (x->sum != y->sum) return x->sum > y->sum;
    if (x->beam != y->beam) return x->beam < y->beam;
    return x->logprob > y->logprob || (x->logprob == y->logprob && x->tok < y->tok);
}

static const continuation *take_best(continuation *c, int n)
{
    continuation *best = NULL;
    for (int i = 0; i < n; i++)
        if (!c[i].taken && (!best || goes_before(&c[i], best))) best = &c[i];
    if (best) best->taken = true;
    return best;
}

static double score_of(const sim_ask *k, double sum, int n_tok)
{
    return sum / pow(n_tok, (double)k->req->length_penalty);
}

static void put_done(const sim_ask *k, sim_beams *b, const sim_answer *a)
{
    const double score = score_of(k, a->beam_sum, sim_answer_len(k, a));
    int at = b->n_done;
    while (at > 0 && score > b->score[at - 1]) at--;
    if (at == k->n_seq) return;
    if (b->n_done < k->n_seq) b->n_done++;
    for (int i = b->n_done - 1; i > at; i--) {
        b->done[i] = b->done[i - 1];
        b->score[i] = b->score[i - 1];
    }
    b->done[at] = *a;
    b->score[at] = score;
}

static bool is_settled(const sim_ask *k, const sim_beams *b)
{
    if (b->n_done < k->n_seq) return false;
    if (k->req->early_stop == FX_STOP_EARLY) return true;
    int n_tok = sim_answer_len(k, &b->next[0]);
    if (k->req->early_stop == FX_STOP_NEVER && k->req->length_penalty > 0) n_tok = k->max_tok;
    return score_of(k, b->next[0].beam_sum, n_tok) <= b->score[k->n_seq - 1];
}

void sim_beams_step(const sim_ask *k, sim_beams *b)
{
    continuation c[MAX_NEXT];
    const int n_cont = list_continuations(k, b, c);
    int n = 0;
    for (int i = 0; i < 2 * k->n_seq && n < k->n_seq; i++) {
        const continuation *best = take_best(c, n_cont);
        if (!best) break;
        sim_answer *a = &b->next[n];
        *a = b->live[best->beam];
        sim_answer_add(k, a, best->tok);
        a->beam_sum = best->sum;
        if (a->finish == FX_FINISH_NONE)
            n++;
        else
            put_done(k, b, a);
    }
    b->is_over = n == 0 || is_settled(k, b);
    b->n_live = n;
    for (int i = 0; i < n; i++) b->live[i] = b->next[i];
}
