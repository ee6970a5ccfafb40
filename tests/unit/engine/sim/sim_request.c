// sim_request.c - checks every event of a request against the reference.
#include "unit/engine/sim/sim_request.h"

#include <stdio.h>
#include <string.h>

#define CHECK(r, is_right, ...)                                                                 \
    do {                                                                                        \
        if (!(is_right) && !(r)->wrong[0]) snprintf((r)->wrong, sizeof(r)->wrong, __VA_ARGS__); \
    } while (0)

void sim_request_begin(sim_request *r, const sim_law *law, uint64_t id, int max_tok)
{
    r->id = id;
    r->ask = sim_ask_make(law, &r->req, max_tok);
    r->prompt_state = sim_law_begin(law);
    sim_law_add(law, &r->prompt_state, r->prompt[0]);
    r->n_prompt_emitted = 1; // the first is never emitted
    for (int i = 0; i < r->req.n_choice; i++) {
        sim_answer_begin(&r->ask, &r->choice[i].a);
        if (!max_tok) r->choice[i].a.finish = FX_FINISH_LENGTH;
    }
}

void sim_request_end(sim_request *r)
{
    for (int i = 0; i < SIM_MAX_SEQ; i++) fxi_buf_free(&r->choice[i].text);
    r->id = 0;
}

int sim_request_n_left(const sim_request *r)
{
    return (int)r->req.n_prompt + r->ask.n_seq * (r->ask.max_tok + 1);
}

static bool defers_output(const sim_request *r)
{
    return r->req.beam_width || r->ask.n_seq > r->req.n_choice;
}

// ---- probabilities -----------------------------------------------------------------------------

static bool same_prob(const fx_token_prob *a, const fx_token_prob *b)
{
    if (a->logprob != b->logprob || a->rank != b->rank || a->n_top != b->n_top) return false;
    for (int i = 0; i < a->n_top; i++)
        if (a->top[i].token != b->top[i].token || a->top[i].logprob != b->top[i].logprob)
            return false;
    return true;
}

static void check_prob(sim_request *r, const fx_event *ev, const sim_answer *a, int n_top)
{
    fx_logprob top[FX_MAX_TOP];
    fx_token_prob want;
    sim_answer_prob(&r->ask, a, ev->token, n_top, top, &want);
    CHECK(r, ev->prob && same_prob(ev->prob, &want), "the probability at %d is wrong",
          ev->position);
}

static void take_prompt_prob(sim_request *r, const fx_event *ev)
{
    sim_answer a = {.state = r->prompt_state};
    CHECK(r, r->req.prompt_logprobs && ev->choice == 0,
          "a prompt token is emitted without request");
    CHECK(r, ev->position == r->n_prompt_emitted, "prompt token %d is emitted, %d is next",
          ev->position, r->n_prompt_emitted);
    CHECK(r, ev->token == r->prompt[ev->position], "the prompt token is wrong");
    check_prob(r, ev, &a, r->req.n_prompt_top);
    sim_law_add(r->ask.law, &r->prompt_state, ev->token);
    r->n_prompt_emitted++;
}

// ---- tokens ------------------------------------------------------------------------------------

static void take_token(sim_request *r, sim_choice *c, const fx_event *ev)
{
    const bool open = !defers_output(r);
    CHECK(r, !r->may.no_token || !open, "choice %d: a token after the cancellation", ev->choice);
    CHECK(r, c->a.finish == FX_FINISH_NONE, "choice %d: a token after its end", ev->choice);
    CHECK(r, ev->position == c->a.n_tok, "choice %d: token %d is emitted, %d is next", ev->choice,
          ev->position, c->a.n_tok);
    CHECK(r, !r->req.prompt_logprobs || r->n_prompt_emitted == (int)r->req.n_prompt,
          "a token before the prompt's probabilities");
    if (open) {
        const int32_t want = sim_answer_next(&r->ask, &c->a, ev->choice);
        CHECK(r, ev->token == want, "choice %d: token %d at %d, expected %d", ev->choice, ev->token,
              ev->position, want);
    }
    if (r->wrong[0]) return;
    CHECK(r, r->req.logprobs || !ev->prob, "a probability is emitted without request");
    if (r->req.logprobs) check_prob(r, ev, &c->a, r->req.n_top);
    sim_answer_add(&r->ask, &c->a, ev->token);
    CHECK(r, ev->n_generated == sim_answer_len(&r->ask, &c->a), "n_generated is %d",
          ev->n_generated);
}

// ---- ends --------------------------------------------------------------------------------------

// An error of the request itself: its rules leave no token, or fewer answers.
static bool has_own_error(const sim_request *r, const sim_choice *c, int choice)
{
    return defers_output(r) ||
           sim_answer_next(&r->ask, &c->a, choice) < 0; // hidden ones: checked later
}

static void check_broken_off(sim_request *r, const sim_choice *c, const fx_event *ev)
{
    const bool allowed = ev->finish == FX_FINISH_CANCEL  ? r->may.cancel
                         : ev->finish == FX_FINISH_ABORT ? r->may.abort
                                                         : r->may.error;
    const bool own = ev->finish == FX_FINISH_ERROR && has_own_error(r, c, ev->choice);
    CHECK(r, allowed || own, "choice %d is cut short (%d: %s)", ev->choice, (int)ev->finish,
          ev->error ? ev->error : "no error");
    CHECK(r, c->a.finish == FX_FINISH_NONE || !r->ask.max_tok, "choice %d had ended well",
          ev->choice);
    CHECK(r, !ev->error == (ev->finish != FX_FINISH_ERROR),
          "an error line does not fit the finish");
    CHECK(r, !ev->error == !ev->error_status, "a status does not fit the error line");
    CHECK(r, own || ev->error_status != FX_EINVAL, "the request is not at fault: %s", ev->error);
}

static void take_end(sim_request *r, sim_choice *c, const fx_event *ev)
{
    c->finish = ev->finish;
    c->score = ev->score;
    r->n_ended++;
    if (ev->finish == FX_FINISH_STOP || ev->finish == FX_FINISH_LENGTH) {
        CHECK(r, ev->finish == c->a.finish, "choice %d ends by %d after %d tokens, not by %d",
              ev->choice, (int)ev->finish, sim_answer_len(&r->ask, &c->a), (int)c->a.finish);
        CHECK(r, ev->stop_token == c->a.stop_token, "stop token %d", ev->stop_token);
        CHECK(r, ev->stop_string == c->a.stop_string, "stop string %d", ev->stop_string);
    } else {
        check_broken_off(r, c, ev);
    }
    CHECK(r,
          c->text.n == (size_t)c->a.n_text &&
              memcmp(c->text.p ? c->text.p : "", c->a.text, c->text.n) == 0,
          "choice %d: the text is not that of its tokens", ev->choice);
    CHECK(r, defers_output(r) || ev->score == 0, "a score is emitted without request");
    CHECK(r, ev->last == (r->n_ended == r->req.n_choice), "the wrong event is the last one");
}

// ---- all events --------------------------------------------------------------------------------

static void check_event(sim_request *r, const fx_event *ev)
{
    CHECK(r, r->id && ev->request_id == r->id, "an event of request %llu reaches %llu",
          (unsigned long long)ev->request_id, (unsigned long long)r->id);
    CHECK(r, !r->is_over, "an event after the last one");
    CHECK(r, ev->choice >= 0 && ev->choice < r->req.n_choice, "an event of choice %d", ev->choice);
    CHECK(r, ev->n_prompt == (int)r->req.n_prompt, "n_prompt is %d", ev->n_prompt);
    CHECK(r, ev->n_cached >= 0 && ev->n_cached < ev->n_prompt, "n_cached is %d", ev->n_cached);
    CHECK(r, !r->req.no_cache || ev->n_cached == 0, "cached without a cache");
}

void sim_request_event(sim_request *r, const fx_event *ev)
{
    check_event(r, ev);
    if (r->wrong[0]) return;
    sim_choice *c = &r->choice[ev->choice];
    r->n_event++;
    CHECK(r, c->finish == FX_FINISH_NONE, "choice %d: an event after its end", ev->choice);
    if (!fxi_buf_add(&c->text, ev->text, ev->text_bytes)) CHECK(r, false, "no memory for a text");
    if (ev->token >= 0 && ev->position < ev->n_prompt)
        take_prompt_prob(r, ev);
    else if (ev->token >= 0)
        take_token(r, c, ev);
    if (ev->finish == FX_FINISH_NONE) return;
    take_end(r, c, ev);
    r->is_over = ev->last;
    const char *what = ev->last && defers_output(r) && !r->wrong[0] ? sim_verdict(r) : NULL;
    CHECK(r, !what, "%s", what ? what : "");
}
