// call_object.c - a call as a JSON object with its name and its arguments, in any order, and other
// members, which say nothing. Arguments may be an object, the text of one, null or absent.
#include <string.h>

#include "answer/answer_impl.h"

enum { O_OPEN, O_FIRST, O_QUOTE, O_KEY, O_COLON, O_VALUE, O_NAME, O_ARGS, O_TEXT, O_SKIP, O_NEXT };

static const char *const name_keys[] = {"name", "tool_name", "function"};
static const char *const args_keys[] = {"arguments", "parameters"};

static fxi_body_step object_go_on(fxi_answer *a, int step)
{
    a->call.step = step;
    return FXI_BODY_MORE;
}

// At a byte that stands alone, with white space in front.
static fxi_body_step expect_byte(fxi_answer *a, char c, char wanted, int next)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    return c == wanted ? object_go_on(a, next) : fxi_body_bad(a, 1);
}

// Adds a byte of a string to d->word. *ended: it was the closing quote.
static fxi_body_step object_string(fxi_answer *a, char c, bool *ended)
{
    fxi_call_draft *d = &a->call;
    *ended = c == '"' && !d->escaped;
    if (*ended) return FXI_BODY_MORE;
    d->escaped = c == '\\' && !d->escaped;
    return fxi_buf_add(&d->word, &c, 1) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

// d->word becomes what it stands for.
static bool decode_word(fxi_call_draft *d)
{
    fxi_buf b = {0};
    const bool ok = fxi_json_unescape(&b, d->word.p, d->word.n);
    if (ok) fxi_buf_clear(&d->word);
    const bool all = ok && (!b.n || fxi_buf_add(&d->word, b.p, b.n));
    fxi_buf_free(&b);
    return all;
}

static bool is_any(const fxi_buf *w, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == w->n && !memcmp(list[i], w->p, w->n)) return true;
    return false;
}

// ---- steps --------------------------------------------------------------------------------------

static fxi_body_step end_object(fxi_answer *a)
{
    fxi_call_draft *d = &a->call;
    if (!d->name.n) return fxi_body_bad(a, 0);
    const fxi_body_step step = fxi_emit_call(a);
    if (step != FXI_BODY_MORE) return step;
    if (!d->has_args && !fxi_emit_args(a, "{}", 2)) return FXI_BODY_NO_MEMORY;
    return FXI_BODY_DONE;
}

static fxi_body_step object_open(fxi_answer *a, char c)
{
    return expect_byte(a, c, '{', O_FIRST);
}

static fxi_body_step object_first(fxi_answer *a, char c)
{
    return c == '}' ? fxi_body_bad(a, 0) : expect_byte(a, c, '"', O_KEY);
}

static fxi_body_step object_quote(fxi_answer *a, char c)
{
    return expect_byte(a, c, '"', O_KEY);
}

static fxi_body_step object_key(fxi_answer *a, char c)
{
    bool ended;
    fxi_call_draft *d = &a->call;
    const fxi_body_step step = object_string(a, c, &ended);
    if (step != FXI_BODY_MORE || !ended) return step;
    d->wants_name = is_any(&d->word, name_keys, sizeof name_keys / sizeof name_keys[0]);
    d->wants_args = is_any(&d->word, args_keys, sizeof args_keys / sizeof args_keys[0]);
    fxi_buf_clear(&d->word);
    return object_go_on(a, O_COLON);
}

static fxi_body_step object_colon(fxi_answer *a, char c)
{
    return expect_byte(a, c, ':', O_VALUE);
}

static fxi_body_step object_next(fxi_answer *a, char c)
{
    return c == '}' ? end_object(a) : expect_byte(a, c, ',', O_QUOTE);
}

static fxi_body_step object_skip(fxi_answer *a, char c)
{
    const fxi_scan_step step = fxi_json_scan_byte(&a->call.scan, c);
    if (step == FXI_SCAN_BAD) return fxi_body_bad(a, 1);
    if (step == FXI_SCAN_MORE) return FXI_BODY_MORE;
    a->call.step = O_NEXT;
    return step == FXI_SCAN_BEFORE ? object_next(a, c) : FXI_BODY_MORE;
}

static fxi_body_step object_args(fxi_answer *a, char c)
{
    const fxi_body_step step = fxi_read_args(a, c);
    return step == FXI_BODY_DONE ? object_go_on(a, O_NEXT) : step;
}

static fxi_body_step begin_args(fxi_answer *a, char c)
{
    const fxi_body_step step = a->call.name.n ? fxi_emit_call(a) : FXI_BODY_MORE;
    if (step != FXI_BODY_MORE) return step;
    a->call.step = O_ARGS;
    return object_args(a, c);
}

static fxi_body_step object_value(fxi_answer *a, char c)
{
    fxi_call_draft *d = &a->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    d->scan = (fxi_json_scan){0};
    if (d->wants_name && c == '"' && !d->name.n) return object_go_on(a, O_NAME);
    if (d->wants_args && d->has_args) return fxi_body_bad(a, 1);
    if (d->wants_args && c == '{') return begin_args(a, c);
    if (d->wants_args && c == '"') return object_go_on(a, O_TEXT);
    if (d->wants_args && c != 'n') return fxi_body_bad(a, 1);
    d->step = O_SKIP;
    return object_skip(a, c);
}

static fxi_body_step object_name(fxi_answer *a, char c)
{
    bool ended;
    fxi_call_draft *d = &a->call;
    const fxi_body_step step = object_string(a, c, &ended);
    if (d->word.n > FXI_NAME_BYTES) return fxi_body_bad(a, 0);
    if (step != FXI_BODY_MORE || !ended) return step;
    if (!decode_word(d)) return FXI_BODY_NO_MEMORY;
    const fxi_body_step named = fxi_take_name(a);
    if (named != FXI_BODY_MORE) return named;
    d->step = O_NEXT;
    return d->args.n ? fxi_emit_call(a) : FXI_BODY_MORE;
}

// Arguments as the text of an object.
static fxi_body_step object_text(fxi_answer *a, char c)
{
    bool ended;
    fxi_call_draft *d = &a->call;
    fxi_body_step step = object_string(a, c, &ended);
    if (step != FXI_BODY_MORE || !ended) return step;
    if (!decode_word(d)) return FXI_BODY_NO_MEMORY;
    const char *p = d->word.p ? d->word.p : "";
    if (p[strspn(p, " \n\r\t")] != '{' || !fxi_json_scan_all(p, d->word.n))
        return fxi_body_bad(a, 0);
    step = d->name.n ? fxi_emit_call(a) : FXI_BODY_MORE;
    if (step != FXI_BODY_MORE) return step;
    if (!fxi_emit_args(a, p, d->word.n)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&d->word);
    return object_go_on(a, O_NEXT);
}

fxi_body_step fxi_call_object(fxi_answer *a, char c)
{
    static fxi_body_step (*const take[])(fxi_answer *, char) = {
        [O_OPEN] = object_open, [O_FIRST] = object_first, [O_QUOTE] = object_quote,
        [O_KEY] = object_key,   [O_COLON] = object_colon, [O_VALUE] = object_value,
        [O_NAME] = object_name, [O_ARGS] = object_args,   [O_TEXT] = object_text,
        [O_SKIP] = object_skip, [O_NEXT] = object_next,
    };
    return take[a->call.step](a, c);
}
