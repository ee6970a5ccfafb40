// call_tags.c - a call as its tool's name and one tag per argument. Values have no quotes: the
// tool's schema says which are text. Others are JSON, Python's True, False and None, or, where they
// are neither, text after all. A line break at each end of a value belongs to the tag. Within a
// string of JSON no tag ends a value.
#include <string.h>

#include "answer/answer_impl.h"

enum { T_NAME, T_NEXT, T_KEY, T_GAP, T_VALUE };

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static fxi_body_step more_if(bool ok)
{
    return ok ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

static bool emit_quoted(fxi_answer *a, const char *before, const char *p, size_t n,
                        const char *after)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, before) && (!n || fxi_json_escape(&b, p, n)) &&
              fxi_buf_str(&b, after) && (!b.n || fxi_emit_args(a, b.p, b.n));
    fxi_buf_free(&b);
    return ok;
}

// ---- the name -----------------------------------------------------------------------------------

// Where the mark that ends the name is one that stands in the call anyway, it is read once more.
static fxi_body_step tags_name(fxi_answer *a, char c)
{
    int which;
    fxi_call_draft *d = &a->call;
    const fxi_call_format *f = a->spec.calls;
    fxi_body_step step = fxi_read_until(a, c, f->name_end, COUNT(f->name_end), &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    const fxi_body_step named = fxi_take_name(a);
    if (named != FXI_BODY_MORE) return named;
    step = fxi_emit_call(a);
    if (step != FXI_BODY_MORE) return step;
    if (!fxi_emit_args(a, "{", 1)) return FXI_BODY_NO_MEMORY;
    d->step = T_NEXT;
    d->is_first = true;
    a->n_back = strlen(f->name_end[which]);
    const bool again =
        !strcmp(f->name_end[which], f->key_open) || !strcmp(f->name_end[which], f->call_end);
    return again ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

// ---- keys ---------------------------------------------------------------------------------------

static fxi_body_step tags_next(fxi_answer *a, char c)
{
    int which;
    const char *const marks[] = {a->spec.calls->key_open, a->spec.calls->call_end};
    const fxi_body_step step = fxi_read_mark(a, c, marks, COUNT(marks), &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    a->call.step = T_KEY;
    if (which == 0) return FXI_BODY_MORE;
    return fxi_emit_args(a, "}", 1) ? FXI_BODY_DONE : FXI_BODY_NO_MEMORY;
}

static fxi_param_kind tags_kind(const fxi_answer *a)
{
    const fxi_call_draft *d = &a->call;
    if (!a->spec.param) return FXI_PARAM_UNKNOWN;
    return a->spec.param(a->spec.tools, d->name.p, d->name.n, d->key.p, d->key.n);
}

static fxi_body_step begin_value(fxi_answer *a)
{
    fxi_call_draft *d = &a->call;
    d->step = T_VALUE;
    d->kind = tags_kind(a);
    d->escaped = true; // nothing of the value has come
    d->in_json = d->kind != FXI_PARAM_TEXT;
    d->scan = (fxi_json_scan){0};
    fxi_buf_clear(&d->word);
    fxi_buf_clear(&d->args);
    if (!emit_quoted(a, d->is_first ? "\"" : ", \"", d->key.p, d->key.n, "\": "))
        return FXI_BODY_NO_MEMORY;
    d->is_first = false;
    return more_if(d->kind != FXI_PARAM_TEXT || fxi_emit_args(a, "\"", 1));
}

static fxi_body_step tags_key(fxi_answer *a, char c)
{
    int which;
    fxi_call_draft *d = &a->call;
    const fxi_call_format *f = a->spec.calls;
    const fxi_body_step step = fxi_read_until(a, c, &f->key_end, 1, &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    fxi_buf_clear(&d->key);
    if (!d->word.n) return fxi_body_bad(a, 0);
    if (!fxi_buf_add(&d->key, d->word.p, d->word.n)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&d->word);
    d->step = T_GAP;
    return f->value_open ? FXI_BODY_MORE : begin_value(a);
}

static fxi_body_step tags_gap(fxi_answer *a, char c)
{
    int which;
    const fxi_body_step step = fxi_read_mark(a, c, &a->spec.calls->value_open, 1, &which);
    return step != FXI_BODY_MORE || which < 0 ? step : begin_value(a);
}

// ---- values -------------------------------------------------------------------------------------

static bool emit_word(fxi_answer *a, const char *p, size_t n)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i][0]) == n && !memcmp(words[i][0], p, n))
            return fxi_emit_args(a, words[i][1], strlen(words[i][1]));
    return emit_quoted(a, "\"", p, n, "\"");
}

// A whole value, which is kept in d->args.
static fxi_body_step end_value(fxi_answer *a)
{
    fxi_call_draft *d = &a->call;
    d->step = T_NEXT;
    if (d->kind == FXI_PARAM_TEXT) return more_if(fxi_emit_args(a, "\"", 1));
    const char *p = d->args.p ? d->args.p : "";
    size_t n = d->args.n, from = 0;
    while (from < n && fxi_is_blank(p[from])) from++;
    while (n > from && fxi_is_blank(p[n - 1])) n--;
    return more_if(fxi_json_scan_all(p + from, n - from) ? fxi_emit_args(a, p + from, n - from)
                                                         : emit_word(a, p + from, n - from));
}

static bool add_to_value(fxi_answer *a, char c)
{
    fxi_call_draft *d = &a->call;
    if (d->in_json) d->in_json = fxi_json_scan_byte(&d->scan, c) == FXI_SCAN_MORE;
    if (d->kind != FXI_PARAM_TEXT) return fxi_buf_add(&d->args, &c, 1);
    return emit_quoted(a, "", &c, 1, "");
}

// Of what waits in d->word: 0 it is no end, 1 it may become one, 2 it is one.
static int match_end(const fxi_answer *a)
{
    const fxi_buf *w = &a->call.word;
    const char *end = a->spec.calls->value_end;
    const size_t skip = w->p[0] == '\n', n = w->n - skip;
    if (n > strlen(end) || memcmp(end, w->p + skip, n) != 0) return 0;
    return end[n] ? 1 : 2;
}

static fxi_body_step tags_value(fxi_answer *a, char c)
{
    fxi_call_draft *d = &a->call;
    const bool is_first = d->escaped;
    d->escaped = false;
    if (is_first && c == '\n') return FXI_BODY_MORE;
    if (d->in_json && !d->word.n && fxi_json_scan_in_text(&d->scan))
        return more_if(add_to_value(a, c));
    if (!fxi_buf_add(&d->word, &c, 1)) return FXI_BODY_NO_MEMORY;
    int match;
    while (d->word.n && !(match = match_end(a))) {
        if (!add_to_value(a, d->word.p[0])) return FXI_BODY_NO_MEMORY;
        fxi_buf_drop_front(&d->word, 1);
    }
    if (!d->word.n || match == 1) return FXI_BODY_MORE;
    fxi_buf_clear(&d->word);
    return end_value(a);
}

fxi_body_step fxi_call_tags(fxi_answer *a, char c)
{
    static fxi_body_step (*const take[])(fxi_answer *, char) = {[T_NAME] = tags_name,
                                                                [T_NEXT] = tags_next,
                                                                [T_KEY] = tags_key,
                                                                [T_GAP] = tags_gap,
                                                                [T_VALUE] = tags_value};
    return take[a->call.step](a, c);
}
