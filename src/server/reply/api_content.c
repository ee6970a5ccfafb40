// api_content.c - a choice's text, parsed as it comes (output_parser.h): what a stream emits at
// once, a whole reply keeps in parts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "server/reply/api_reply.h"

static fxi_output_spec answer_spec(const fxi_reply *r)
{
    return (fxi_output_spec){.calls = r->spec.calls,
                             .reasoning = r->spec.reasoning,
                             .either = r->spec.either,
                             .forced = r->spec.forced_calls,
                             .has_tool = fxi_tools_has,
                             .param = fxi_tools_param,
                             .fits = r->spec.unmarked_calls ? fxi_tools_fit : NULL,
                             .tools = (void *)r->spec.tools};
}

bool fxi_content_init(fxi_reply *r, fxi_choice *c)
{
    const fxi_output_spec spec = answer_spec(r);
    if (!spec.calls && !spec.reasoning && !spec.fits && !r->writer->open_item) return true;
    c->answer = fxi_output_parser_new(&spec);
    return c->answer != NULL;
}

// A mark has fewer bytes than LAST_TOKENS tokens, white space after it included.
bool fxi_reasoning_is_open(const fx_engine *eng, const fxi_reason_format *reasoning,
                           const fx_tokens *tok, bool *is_open)
{
    enum { LAST_TOKENS = 24 };
    const fxi_output_spec spec = {.reasoning = reasoning};
    const size_t n = tok->n < LAST_TOKENS ? tok->n : LAST_TOKENS;
    char *text = NULL;
    size_t n_bytes = 0;
    *is_open = false;
    if (!reasoning) return true;
    if (fx_detokenize(eng, tok->id + tok->n - n, n, true, NULL, &text, &n_bytes, NULL) != FX_OK)
        return false;
    *is_open = fxi_output_parser_opens_reasoning(&spec, text, n_bytes);
    free(text);
    return true;
}

bool fxi_content_prompt(fxi_reply *r, int prompt, const fx_tokens *tok)
{
    bool is_open;
    fxi_choice *c = &r->choice[prompt * r->spec.n_per_prompt];
    if (!fxi_reasoning_is_open(r->eng, r->spec.reasoning, tok, &is_open)) return false;
    for (int k = 0; is_open && k < r->spec.n_per_prompt; k++)
        fxi_output_parser_open_reasoning(c[k].answer);
    return true;
}

// ---- parts --------------------------------------------------------------------------------------

static fxi_content_part *add_content_part(fxi_choice *c, fxi_output_kind kind)
{
    if (c->n_content == c->cap_content) {
        const size_t cap = c->cap_content ? 2 * c->cap_content : 4;
        fxi_content_part *more = realloc(c->content, cap * sizeof *more);
        if (!more) return NULL;
        c->content = more;
        c->cap_content = cap;
    }
    fxi_content_part *p = &c->content[c->n_content++];
    *p = (fxi_content_part){.kind = kind};
    return p;
}

static bool keep_content_text(fxi_choice *c, const fxi_output_event *ev)
{
    fxi_content_part *p = c->n_content ? &c->content[c->n_content - 1] : NULL;
    if (!p || p->kind != ev->kind) p = add_content_part(c, ev->kind);
    return p && fxi_buf_add(&p->text, ev->p, ev->n);
}

static bool keep_event(fxi_reply *r, int k, const fxi_output_event *ev)
{
    fxi_choice *c = &r->choice[k];
    fxi_content_part *last = c->n_content ? &c->content[c->n_content - 1] : NULL;
    switch (ev->kind) {
    case FXI_OUTPUT_CALL:
        last = add_content_part(c, FXI_OUTPUT_CALL);
        if (!last) return false;
        fxi_tools_call_id(r, k, c->n_call++, ev, last->id);
        return fxi_buf_add(&last->name, ev->p, ev->n);
    case FXI_OUTPUT_ARGS: return fxi_buf_add(&last->text, ev->p, ev->n);
    case FXI_OUTPUT_BROKEN: // the call becomes the text that it was
        c->n_call--;
        last->kind = FXI_OUTPUT_TEXT;
        fxi_buf_clear(&last->text);
        return fxi_buf_add(&last->text, ev->p, ev->n);
    case FXI_OUTPUT_DONE: return last->is_done = true;
    default: return keep_content_text(c, ev);
    }
}

// ---- items --------------------------------------------------------------------------------------

bool fxi_content_close(fxi_reply *r, const char *status)
{
    const bool was_open = r->item_open;
    r->item_open = false;
    return !was_open || r->writer->close_item(r, r->n_item - 1, status);
}

static bool write_item(fxi_reply *r, int k, const fxi_output_event *ev)
{
    const size_t i = r->choice[k].n_content - 1;
    if (ev->kind == FXI_OUTPUT_DONE || ev->kind == FXI_OUTPUT_BROKEN)
        return fxi_content_close(r, "completed");
    if (i == r->n_item) {
        if (!fxi_content_close(r, "completed")) return false;
        r->n_item = i + 1;
        r->item_open = true;
        if (!r->writer->open_item(r, i)) return false;
    }
    return ev->kind == FXI_OUTPUT_CALL || r->writer->delta(r, i, ev);
}

// What has been streamed of the call stays a part, and its rest becomes another one.
static bool break_streamed(fxi_reply *r, int k, const fxi_output_event *ev)
{
    fxi_choice *c = &r->choice[k];
    const fxi_output_event rest = {
        .kind = FXI_OUTPUT_TEXT, .p = ev->p + ev->n_emitted, .n = ev->n - ev->n_emitted};
    c->content[c->n_content - 1].is_broken = true;
    return write_item(r, k, ev) &&
           (!rest.n || (keep_content_text(c, &rest) && write_item(r, k, &rest)));
}

// ---- events -------------------------------------------------------------------------------------

typedef struct answer_listener {
    fxi_reply *r;
    int k;
} answer_listener;

bool fxi_content_is_full(const fxi_reply *r, int k)
{
    const fxi_choice *c = &r->choice[k];
    return (r->spec.one_call && c->n_done) || c->watch.over;
}

static bool tell_answer(const answer_listener *l, const fxi_output_event *ev)
{
    fxi_choice *c = &l->r->choice[l->k];
    c->n_done += ev->kind == FXI_OUTPUT_DONE;
    if (!l->r->spec.stream) return keep_event(l->r, l->k, ev);
    if (l->r->writer->content) return l->r->writer->content(l->r, l->k, ev);
    return ev->kind == FXI_OUTPUT_BROKEN ? break_streamed(l->r, l->k, ev)
                                         : keep_event(l->r, l->k, ev) && write_item(l->r, l->k, ev);
}

// ---- repeated calls -----------------------------------------------------------------------------
//
// Small models that must call repeat one call without end. An answer that must be calls ends where
// one repeats an earlier one, name and arguments, which is not emitted: a call is held back while
// it is the beginning of one that was made.

static bool repeats_so_far(const fxi_call_watch *w)
{
    const char *p = w->made.p, *end = w->made.p + w->made.n;
    while (p < end) {
        if (w->now.n <= (size_t)(end - p) && !memcmp(p, w->now.p, w->now.n)) return true;
        p += strlen(p) + 1; // its name
        p += strlen(p) + 1;
    }
    return false;
}

// It differs from all that were made.
static bool emit_held(const answer_listener *l)
{
    fxi_call_watch *w = &l->r->choice[l->k].watch;
    const size_t n_name = strlen(w->now.p);
    const fxi_output_event call = {
        .kind = FXI_OUTPUT_CALL, .p = w->now.p, .n = n_name, .id = w->id.p, .n_id = w->id.n};
    const fxi_output_event args = {
        .kind = FXI_OUTPUT_ARGS, .p = w->now.p + n_name + 1, .n = strlen(w->now.p + n_name + 1)};
    w->held = false;
    return tell_answer(l, &call) && (!args.n || tell_answer(l, &args));
}

static bool begin_watched(const answer_listener *l, const fxi_output_event *ev)
{
    fxi_call_watch *w = &l->r->choice[l->k].watch;
    fxi_buf_clear(&w->now);
    fxi_buf_clear(&w->id);
    if (!fxi_buf_add(&w->now, ev->p, ev->n) || !fxi_buf_add(&w->now, "", 1) ||
        (ev->n_id && !fxi_buf_add(&w->id, ev->id, ev->n_id)))
        return false;
    w->held = repeats_so_far(w);
    return w->held || tell_answer(l, ev);
}

static bool continue_watched(const answer_listener *l, const fxi_output_event *ev)
{
    fxi_call_watch *w = &l->r->choice[l->k].watch;
    const bool is_done = ev->kind == FXI_OUTPUT_DONE, was_held = w->held;
    if (!fxi_buf_add(&w->now, is_done ? "" : ev->p, is_done ? 1 : ev->n)) return false;
    if (was_held && repeats_so_far(w)) {
        w->over = is_done;
        return true;
    }
    if (is_done && !fxi_buf_add(&w->made, w->now.p, w->now.n)) return false;
    if (was_held && !emit_held(l)) return false;
    return (was_held && !is_done) || tell_answer(l, ev);
}

static bool break_watched(const answer_listener *l, const fxi_output_event *ev)
{
    fxi_call_watch *w = &l->r->choice[l->k].watch;
    const fxi_output_event text = {.kind = FXI_OUTPUT_TEXT, .p = ev->p, .n = ev->n};
    const bool was_held = w->held;
    w->held = false;
    return tell_answer(l, was_held ? &text : ev);
}

static bool on_answer(void *ud, const fxi_output_event *ev)
{
    static bool (*const watch[])(const answer_listener *, const fxi_output_event *) = {
        [FXI_OUTPUT_TEXT] = tell_answer,      [FXI_OUTPUT_REASONING] = tell_answer,
        [FXI_OUTPUT_CALL] = begin_watched,    [FXI_OUTPUT_ARGS] = continue_watched,
        [FXI_OUTPUT_DONE] = continue_watched, [FXI_OUTPUT_BROKEN] = break_watched,
    };
    const answer_listener *l = ud;
    const fxi_reply_spec *spec = &l->r->spec;
    if (ev->kind == FXI_OUTPUT_REASONING && spec->drop_reasoning) return true;
    if (fxi_content_is_full(l->r, l->k)) return true;
    return spec->forced_calls ? watch[ev->kind](l, ev) : tell_answer(l, ev);
}

// The last call of an answer that was cut off may not be complete.
static void mark_cut_call(fxi_choice *c)
{
    fxi_content_part *last = c->n_content ? &c->content[c->n_content - 1] : NULL;
    if (last && last->kind == FXI_OUTPUT_CALL && !last->is_done) last->is_broken = true;
}

bool fxi_content_event(fxi_reply *r, int k, const fx_event *ev)
{
    fxi_choice *c = &r->choice[k];
    answer_listener l = {r, k};
    const bool was = fxi_output_parser_is_reasoning(c->answer);
    if (!fxi_output_parser_add(c->answer, ev->text, ev->text_bytes, on_answer, &l)) return false;
    c->n_reasoning += ev->token >= 0 && (was || fxi_output_parser_is_reasoning(c->answer));
    if (ev->finish == FX_FINISH_NONE) return true;
    const bool is_cut = ev->finish == FX_FINISH_LENGTH;
    if (!fxi_output_parser_end(c->answer, is_cut, on_answer, &l)) return false;
    if (is_cut) mark_cut_call(c);
    return true;
}

size_t fxi_content_bytes(const fxi_choice *c)
{
    const fxi_call_watch *w = &c->watch;
    size_t n = c->cap_content * sizeof *c->content + w->made.cap + w->now.cap + w->id.cap;
    if (c->answer) n += fxi_output_parser_bytes(c->answer);
    for (size_t i = 0; i < c->n_content; i++) n += c->content[i].text.cap + c->content[i].name.cap;
    return n;
}

void fxi_content_free(fxi_choice *c)
{
    for (size_t i = 0; i < c->n_content; i++) {
        fxi_buf_free(&c->content[i].text);
        fxi_buf_free(&c->content[i].name);
    }
    fxi_buf_free(&c->watch.made);
    fxi_buf_free(&c->watch.now);
    fxi_buf_free(&c->watch.id);
    free(c->content);
    fxi_output_parser_free(c->answer);
}

// ---- ids ----------------------------------------------------------------------------------------

void fxi_tools_call_id(const fxi_reply *r, int k, int n, const fxi_output_event *ev, char *id)
{
    static const char digit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const uint64_t index = (uint64_t)k << 32 | (uint32_t)n;
    uint64_t v = fxi_rng_u64(r->seed, 1, index);
    const fxi_str own = {ev->id, ev->n_id};
    if (own.n > 0 && own.n < FXI_CALL_ID_BYTES && fxi_str_is_plain(own, "_.:-"))
        snprintf(id, FXI_CALL_ID_BYTES, "%.*s", (int)ev->n_id, ev->id);
    else if (r->spec.calls && r->spec.calls->short_ids) {
        for (int i = 0; i < 9; i++, v /= 62) id[i] = digit[v % 62];
        id[9] = 0;
    } else
        snprintf(id, FXI_CALL_ID_BYTES, "call_%016llx%08x", (unsigned long long)v,
                 (unsigned)fxi_rng_u64(r->seed, 2, index));
}
