// api_said.c - a choice's text, taken apart as it comes (answer.h): what a stream tells at once, a
// whole reply keeps in parts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "server/reply/api_reply.h"

static fxi_answer_spec answer_spec(const fxi_reply *r)
{
    return (fxi_answer_spec){.calls = r->spec.calls,
                             .reasoning = r->spec.reasoning,
                             .has_tool = fxi_tools_has,
                             .param = fxi_tools_param,
                             .tools = r->spec.tools};
}

bool fxi_said_init(fxi_reply *r, fxi_choice *c)
{
    const fxi_answer_spec spec = answer_spec(r);
    if (!spec.calls && !spec.reasoning) return true;
    c->answer = fxi_answer_new(&spec);
    return c->answer != NULL;
}

// A mark has fewer bytes than LAST_TOKENS tokens, white space behind it included.
bool fxi_said_prompt(fxi_reply *r, int prompt, const fx_tokens *tok)
{
    enum { LAST_TOKENS = 24 };
    const fxi_answer_spec spec = answer_spec(r);
    const size_t n = tok->n < LAST_TOKENS ? tok->n : LAST_TOKENS;
    fxi_choice *c = &r->choice[prompt * r->spec.n_per_prompt];
    char *text = NULL;
    size_t n_bytes = 0;
    if (!spec.reasoning) return true;
    if (fx_detokenize(r->eng, tok->id + tok->n - n, n, true, NULL, &text, &n_bytes, NULL) != FX_OK)
        return false;
    if (fxi_answer_opens_reasoning(&spec, text, n_bytes))
        for (int k = 0; k < r->spec.n_per_prompt; k++) fxi_answer_open_reasoning(c[k].answer);
    free(text);
    return true;
}

// ---- ids ----------------------------------------------------------------------------------------

static bool is_plain_id(const char *id, size_t n)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";
    for (size_t i = 0; i < n; i++)
        if (!id[i] || !strchr(fine, id[i])) return false;
    return n > 0 && n < FXI_CALL_ID_BYTES;
}

// 9 letters and digits.
static void write_short_id(uint64_t v, char *id)
{
    static const char digit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (int i = 0; i < 9; i++, v /= 62) id[i] = digit[v % 62];
    id[9] = 0;
}

void fxi_said_call_id(const fxi_reply *r, int k, int n, const fxi_answer_event *ev, char *id)
{
    const uint64_t index = (uint64_t)k << 32 | (uint32_t)n, v = fxi_rng_u64(r->seed, 1, index);
    if (is_plain_id(ev->id, ev->n_id))
        snprintf(id, FXI_CALL_ID_BYTES, "%.*s", (int)ev->n_id, ev->id);
    else if (r->spec.calls->short_ids)
        write_short_id(v, id);
    else
        snprintf(id, FXI_CALL_ID_BYTES, "call_%016llx%08x", (unsigned long long)v,
                 (unsigned)fxi_rng_u64(r->seed, 2, index));
}

// ---- parts --------------------------------------------------------------------------------------

static fxi_said_part *last_part(fxi_choice *c, fxi_said kind)
{
    fxi_said_part *p = c->n_said ? &c->said[c->n_said - 1] : NULL;
    return p && p->kind == kind ? p : NULL;
}

static fxi_said_part *add_part(fxi_choice *c, fxi_said kind)
{
    if (c->n_said == c->cap_said) {
        const size_t cap = c->cap_said ? 2 * c->cap_said : 4;
        fxi_said_part *more = realloc(c->said, cap * sizeof *more);
        if (!more) return NULL;
        c->said = more;
        c->cap_said = cap;
    }
    fxi_said_part *p = &c->said[c->n_said++];
    *p = (fxi_said_part){.kind = kind};
    return p;
}

static bool keep_text(fxi_choice *c, const fxi_answer_event *ev)
{
    fxi_said_part *p = last_part(c, ev->kind);
    if (!p) p = add_part(c, ev->kind);
    return p && fxi_buf_add(&p->text, ev->p, ev->n);
}

static bool keep_call(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    fxi_choice *c = &r->choice[k];
    fxi_said_part *p = add_part(c, FXI_SAID_CALL);
    if (!p) return false;
    fxi_said_call_id(r, k, c->n_call++, ev, p->id);
    return fxi_buf_add(&p->name, ev->p, ev->n);
}

static bool keep_args(fxi_choice *c, const fxi_answer_event *ev)
{
    return fxi_buf_add(&c->said[c->n_said - 1].text, ev->p, ev->n);
}

// The call becomes the text that it was.
static bool keep_broken(fxi_choice *c, const fxi_answer_event *ev)
{
    fxi_said_part *p = &c->said[c->n_said - 1];
    c->n_call--;
    p->kind = FXI_SAID_TEXT;
    fxi_buf_clear(&p->text);
    return fxi_buf_add(&p->text, ev->p, ev->n);
}

static bool keep_said(fxi_reply *r, int k, const fxi_answer_event *ev)
{
    fxi_choice *c = &r->choice[k];
    switch (ev->kind) {
    case FXI_SAID_CALL: return keep_call(r, k, ev);
    case FXI_SAID_ARGS: return keep_args(c, ev);
    case FXI_SAID_BROKEN: return keep_broken(c, ev);
    case FXI_SAID_DONE: return true;
    default: return keep_text(c, ev);
    }
}

// ---- events -------------------------------------------------------------------------------------

typedef struct said_listener {
    fxi_reply *r;
    int k;
} said_listener;

// Whether it belongs to a call beyond the one that the request wants.
static bool is_surplus(const fxi_reply *r, fxi_choice *c, const fxi_answer_event *ev)
{
    const bool of_call = ev->kind != FXI_SAID_TEXT && ev->kind != FXI_SAID_REASONING;
    if (ev->kind == FXI_SAID_CALL) c->is_surplus = r->spec.one_call && c->n_done;
    return of_call && c->is_surplus;
}

static bool hear_said(void *ud, const fxi_answer_event *ev)
{
    const said_listener *l = ud;
    fxi_choice *c = &l->r->choice[l->k];
    if (ev->kind == FXI_SAID_REASONING && l->r->spec.drop_reasoning) return true;
    if (is_surplus(l->r, c, ev)) return true;
    c->n_done += ev->kind == FXI_SAID_DONE;
    return l->r->spec.stream ? fxi_stream_said(l->r, l->k, ev) : keep_said(l->r, l->k, ev);
}

bool fxi_said_event(fxi_reply *r, int k, const fx_event *ev)
{
    fxi_choice *c = &r->choice[k];
    said_listener l = {r, k};
    const bool was = fxi_answer_is_reasoning(c->answer);
    if (!fxi_answer_add(c->answer, ev->text, ev->text_bytes, hear_said, &l)) return false;
    c->n_reasoning += ev->token >= 0 && (was || fxi_answer_is_reasoning(c->answer));
    return ev->finish == FX_FINISH_NONE || fxi_answer_end(c->answer, hear_said, &l);
}

size_t fxi_said_bytes(const fxi_choice *c)
{
    size_t n = c->cap_said * sizeof *c->said;
    if (c->answer) n += fxi_answer_bytes(c->answer);
    for (size_t i = 0; i < c->n_said; i++) n += c->said[i].text.cap + c->said[i].name.cap;
    return n;
}

void fxi_said_free(fxi_choice *c)
{
    for (size_t i = 0; i < c->n_said; i++) {
        fxi_buf_free(&c->said[i].text);
        fxi_buf_free(&c->said[i].name);
    }
    free(c->said);
    fxi_answer_free(c->answer);
}
