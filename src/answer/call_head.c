// call_head.c - a call as its tool's name, a mark, and a JSON object.
//
//   Mistral    name[ARGS]{..}   name[CALL_ID]id[ARGS]{..}   name{..}
//   DeepSeek   name, a mark, {..}
//   Kimi       functions.name:0, a mark, {..}: what stands before the mark is the id
//   harmony    the name stands in the header of the message; {..}
#include <string.h>

#include "answer/answer_impl.h"

enum { H_NAME, H_OPEN, H_ARGS };

static const char call_id[] = "[CALL_ID]";

static bool head_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// "functions.NAME:0" in d->word: all of it is the id.
static bool split_id(fxi_call_draft *d)
{
    static const char front[] = "functions.";
    const size_t n_front = sizeof front - 1;
    while (d->word.n && fxi_is_blank(d->word.p[d->word.n - 1])) d->word.p[--d->word.n] = 0;
    const char *p = d->word.p;
    size_t n = d->word.n, from = 0;
    while (from < n && fxi_is_blank(p[from])) from++;
    if (!fxi_buf_add(&d->id, p + from, n - from)) return false;
    while (n > from && head_is_digit(p[n - 1])) n--;
    if (n > from && n < d->word.n && p[n - 1] == ':') d->word.n = n - 1;
    if (d->word.n - from > n_front && !memcmp(p + from, front, n_front))
        fxi_buf_drop_front(&d->word, from + n_front);
    return true;
}

// "NAME[CALL_ID]ID".
static bool cut_id(fxi_call_draft *d)
{
    char *at = memmem(d->word.p, d->word.n, call_id, sizeof call_id - 1);
    if (!at) return true;
    const size_t n = (size_t)(at - d->word.p), from = n + sizeof call_id - 1;
    if (!fxi_buf_add(&d->id, d->word.p + from, d->word.n - from)) return false;
    d->word.p[d->word.n = n] = 0;
    return true;
}

static fxi_body_step head_name(fxi_answer *a, char c)
{
    int which;
    fxi_call_draft *d = &a->call;
    const fxi_call_format *f = a->spec.calls;
    const fxi_body_step step =
        fxi_read_until(a, c, f->name_end, sizeof f->name_end / sizeof f->name_end[0], &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    if (!(f->head_is_id ? split_id(d) : cut_id(d))) return FXI_BODY_NO_MEMORY;
    const fxi_body_step named = fxi_take_name(a);
    if (named != FXI_BODY_MORE) return named;
    d->step = H_OPEN;
    a->n_back = 1;
    return f->name_end[which][0] == '{' ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

static fxi_body_step head_open(fxi_answer *a, char c)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (c != '{') return fxi_body_bad(a, 1);
    const fxi_body_step step = fxi_emit_call(a);
    a->call.step = H_ARGS;
    return step == FXI_BODY_MORE ? fxi_read_args(a, c) : step;
}

fxi_body_step fxi_call_head(fxi_answer *a, char c)
{
    static fxi_body_step (*const take[])(fxi_answer *, char) = {
        [H_NAME] = head_name, [H_OPEN] = head_open, [H_ARGS] = fxi_read_args};
    return take[a->call.step](a, c);
}

void fxi_call_head_named(fxi_call_draft *d)
{
    d->step = H_OPEN;
}
