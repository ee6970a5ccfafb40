// request.c - a request's life outside the scheduler: checked and copied at submit, fed with
// tokens, ended.
#include "engine/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- checks ------------------------------------------------------------------------------------

static fx_status check_sampling(const fx_sampling *p, fx_error *err)
{
    if (!(p->temperature >= 0) || !isfinite(p->temperature))
        return fxi_fail(err, FX_EINVAL, "temperature must be a number >= 0");
    if (!(p->top_p > 0 && p->top_p <= 1))
        return fxi_fail(err, FX_EINVAL, "top_p must be in (0, 1]");
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return fxi_fail(err, FX_EINVAL, "min_p must be in [0, 1]");
    if (p->top_k < 0) return fxi_fail(err, FX_EINVAL, "top_k must be >= 0");
    return FX_OK;
}

static fx_status check_prompt(const fx_engine *eng, const fx_request *req, fx_error *err)
{
    if (!req->n_prompt) return fxi_fail(err, FX_EINVAL, "the prompt has no tokens");
    if (req->n_prompt >= (size_t)eng->info.ctx_tok)
        return fxi_fail(
            err, FX_ECONTEXT,
            "the prompt has %zu tokens, the context holds %d with at least one to answer",
            req->n_prompt, eng->info.ctx_tok);
    for (size_t i = 0; i < req->n_prompt; i++)
        if (req->prompt[i] < 0 || req->prompt[i] >= eng->info.n_vocab)
            return fxi_fail(err, FX_EINVAL,
                            "prompt token %zu: id %d is outside the vocabulary of %d", i,
                            req->prompt[i], eng->info.n_vocab);
    return FX_OK;
}

static fx_status check(const fx_engine *eng, const fx_request *req, fx_error *err)
{
    if (!req->on_event) return fxi_fail(err, FX_EINVAL, "a request needs an on_event");
    if (req->n_choice < 1 || req->n_choice > FXI_MAX_CHOICE)
        return fxi_fail(err, FX_EINVAL, "n must be from 1 to %d", FXI_MAX_CHOICE);
    for (size_t i = 0; i < req->n_stop; i++)
        if (!req->stop[i][0]) return fxi_fail(err, FX_EINVAL, "a stop string is empty");
    FX_TRY(check_sampling(&req->sampling, err));
    return check_prompt(eng, req, err);
}

// ---- making ------------------------------------------------------------------------------------

static bool copy_stops(fx_request *req, const char *const *stop)
{
    const char **copy = calloc(req->n_stop ? req->n_stop : 1, sizeof *copy);
    if (!copy) return false;
    req->stop = copy;
    for (size_t i = 0; i < req->n_stop; i++)
        if (!(copy[i] = strdup(stop[i]))) return false;
    return true;
}

static bool copy_prompt(fx_request *req, const int32_t *prompt)
{
    int32_t *copy = malloc(req->n_prompt * sizeof *copy);
    if (copy) memcpy(copy, prompt, req->n_prompt * sizeof *copy);
    req->prompt = copy;
    return copy != NULL;
}

static bool only_control(const fx_engine *eng, const fx_request *req)
{
    for (size_t i = 0; i < req->n_prompt; i++)
        if (!fxi_vocab_control(eng->vocab, req->prompt[i])) return false;
    return true;
}

static void init_seq(const fx_engine *eng, fxi_group *g, int choice)
{
    g->seq[choice] = (fxi_seq){.group = g, .choice = choice, .state = FXI_SEQ_WAITING};
    g->seq[choice].text.strip_space =
        fxi_vocab_adds_space(eng->vocab) && only_control(eng, &g->req);
}

static int clamp_max_tok(const fx_engine *eng, const fx_request *req)
{
    int room = eng->info.ctx_tok - (int)req->n_prompt;
    return req->max_tok < 0 || req->max_tok > room ? room : req->max_tok;
}

fx_status fxi_group_make(const fx_engine *eng, const fx_request *req, fxi_group **out,
                         fx_error *err)
{
    *out = NULL;
    FX_TRY(check(eng, req, err));
    fxi_group *g = calloc(1, sizeof *g + (size_t)req->n_choice * sizeof g->seq[0]);
    if (!g) return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    g->req = *req;
    g->req.prompt = NULL;
    g->req.stop = NULL;
    if (!copy_prompt(&g->req, req->prompt) || !copy_stops(&g->req, req->stop)) {
        fxi_group_free(g);
        return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    }
    g->max_tok = clamp_max_tok(eng, req);
    g->n_left = req->n_choice;
    for (int i = 0; i < req->n_choice; i++) init_seq(eng, g, i);
    *out = g;
    return FX_OK;
}

void fxi_group_free(fxi_group *g)
{
    for (size_t i = 0; g->req.stop && i < g->req.n_stop; i++) free((char *)g->req.stop[i]);
    free((void *)g->req.stop);
    free((void *)g->req.prompt);
    for (int i = 0; i < g->req.n_choice; i++) {
        free(g->seq[i].tok);
        fxi_text_free(&g->seq[i].text);
    }
    free(g);
}

// ---- feeding -----------------------------------------------------------------------------------

static const char no_text_memory[] = "no memory for the text";

static int n_generated(const fxi_seq *s)
{
    return s->n_tok ? s->n_tok - (int)s->group->req.n_prompt : 0;
}

// Tells the callback about `show` bytes of clean text, which are dropped then.
static void tell(fxi_seq *s, int32_t tok, size_t show, fx_finish why)
{
    const fxi_group *g = s->group;
    fx_event ev = {
        .request_id = g->id,
        .choice = s->choice,
        .text = s->text.clean.p ? s->text.clean.p : "",
        .text_bytes = show,
        .token = tok,
        .finish = why,
        .last = why != FX_FINISH_NONE && g->n_left == 0,
        .error = why == FX_FINISH_ERROR ? s->error : NULL,
        .n_prompt = (int)g->req.n_prompt,
        .n_generated = n_generated(s),
    };
    g->req.on_event(g->req.ud, &ev);
    fxi_buf_drop_front(&s->text.clean, show);
}

static fx_finish finish_after(const fx_engine *eng, const fxi_seq *s, int32_t tok)
{
    if (s->text.stopped) return FX_FINISH_STOP;
    if (!s->group->req.ignore_eos && fxi_vocab_ends(eng->vocab, tok)) return FX_FINISH_STOP;
    return n_generated(s) >= s->group->max_tok ? FX_FINISH_LENGTH : FX_FINISH_NONE;
}

void fxi_seq_fail(fxi_seq *s, const char *error)
{
    s->finish = FX_FINISH_ERROR;
    s->error = error;
}

void fxi_seq_append(fx_engine *eng, fxi_seq *s, int32_t tok)
{
    const fx_request *req = &s->group->req;
    size_t n_bytes, show;
    const char *bytes = fxi_vocab_bytes(eng->vocab, tok, &n_bytes);
    s->tok[s->n_tok++] = tok; // room was made at admission
    if (!fxi_text_add(&s->text, bytes, n_bytes, req->stop, req->n_stop, &show)) {
        fxi_seq_fail(s, no_text_memory);
        return;
    }
    tell(s, tok, show, FX_FINISH_NONE);
    s->finish = finish_after(eng, s, tok);
}

void fxi_seq_finish(fx_engine *eng, fxi_seq *s, fx_finish why)
{
    fxi_group *g = s->group;
    size_t show = 0;
    s->finish = why;
    if (!fxi_text_end(&s->text, &show)) fxi_seq_fail(s, no_text_memory);
    s->state = FXI_SEQ_DONE;
    g->n_left--;
    tell(s, -1, show, s->finish);
    if (g->n_left == 0) fxi_engine_forget(eng, g);
}
