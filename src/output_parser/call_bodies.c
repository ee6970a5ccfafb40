// call_bodies.c - the calls of tools in their notations, a byte at a time.
//
//   object   a JSON object with a name and arguments, in any order; other members mean nothing.
//            Arguments may be an object, the text of one, null or absent
//   head     the tool's name, a mark, and a JSON object:
//              Mistral    name[ARGS]{..}   name[CALL_ID]id[ARGS]{..}   name{..}
//              DeepSeek   name, a mark, {..}
//              Kimi       functions.name:0, a mark, {..}: what stands before the mark is the id
//              harmony    the name stands in the header of the message; {..}
//   tags     the tool's name and one tag per argument. Values have no quotes: the tool's schema
//            says which are text. Others are JSON, Python's True, False and None, or, if they are
//            neither, text after all. A line break at each end of a value belongs to the tag. No
//            tag ends a value within a JSON string
#include "output_parser/parser_impl.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// ---- events -------------------------------------------------------------------------------------
//
// Neighbouring bytes of one kind are emitted together, at the end of the current bytes, or before
// an event of another kind.

bool fxi_emit_flush(fxi_output_parser *o)
{
    const fxi_output_event ev = {.kind = o->kind, .p = o->out.p, .n = o->out.n};
    bool ok = !o->out.n || o->fn(o->ud, &ev);
    fxi_buf_clear(&o->out);
    return ok;
}

bool fxi_emit_run(fxi_output_parser *o, fxi_output_kind kind, const char *p, size_t n)
{
    if (o->kind != kind && !fxi_emit_flush(o)) return false;
    o->kind = kind;
    return !n || fxi_buf_add(&o->out, p, n);
}

// The call's name is known, and its arguments begin.
static fxi_body_step emit_call(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    const fxi_output_event ev = {FXI_OUTPUT_CALL, d->name.p, d->name.n, d->id.p, d->id.n, 0};
    if (d->begun) return FXI_BODY_MORE;
    if (o->bare && o->spec.has_tool && !o->spec.has_tool(o->spec.tools, d->name.p, d->name.n))
        return fxi_body_bad(o, 0); // only marks make a call of any name
    if (!fxi_emit_flush(o) || !o->fn(o->ud, &ev)) return FXI_BODY_NO_MEMORY;
    d->begun = true;
    o->emitted = d->args.n ? o->at + 1 : o->at;
    const bool ok = fxi_emit_run(o, FXI_OUTPUT_ARGS, d->args.p, d->args.n);
    fxi_buf_clear(&d->args);
    return ok ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

// Arguments of the call: emitted, or kept until its name is known.
static bool emit_args(fxi_output_parser *o, const char *p, size_t n)
{
    o->call.has_args = true;
    if (!o->call.begun) return fxi_buf_add(&o->call.args, p, n);
    o->emitted = o->at + 1;
    return fxi_emit_run(o, FXI_OUTPUT_ARGS, p, n);
}

// ---- shared by the bodies -----------------------------------------------------------------------

void fxi_call_begin(fxi_call_draft *d, fxi_call_body body)
{
    fxi_buf *const kept[] = {&d->name, &d->id, &d->args, &d->word, &d->key};
    for (size_t i = 0; i < COUNT(kept); i++) fxi_buf_clear(kept[i]);
    *d = (fxi_call_draft){.body = body,
                          .name = d->name,
                          .id = d->id,
                          .args = d->args,
                          .word = d->word,
                          .key = d->key};
}

void fxi_call_free(fxi_call_draft *d)
{
    fxi_buf_free(&d->name);
    fxi_buf_free(&d->id);
    fxi_buf_free(&d->args);
    fxi_buf_free(&d->word);
    fxi_buf_free(&d->key);
}

// Takes a byte of the JSON object that is the call's arguments. A control character
// within a string, which JSON does not allow, is emitted as its escape.
static fxi_body_step read_args(fxi_output_parser *o, char c)
{
    const bool is_raw = fxi_json_scan_in_text(&o->call.scan) && (unsigned char)c < 0x20;
    const fxi_scan_step step = fxi_json_scan_byte(&o->call.scan, c);
    fxi_buf escape = {0};
    if (step == FXI_SCAN_BAD || step == FXI_SCAN_BEFORE) return fxi_body_bad(o, 1);
    bool ok = is_raw ? fxi_json_escape(&escape, &c, 1) && emit_args(o, escape.p, escape.n)
                     : emit_args(o, &c, 1);
    fxi_buf_free(&escape);
    if (!ok) return FXI_BODY_NO_MEMORY;
    return step == FXI_SCAN_DONE ? FXI_BODY_DONE : FXI_BODY_MORE;
}

// Reads into d->word until one of marks[0..max) has been read, which is cut off. *which: its
// number; -1: not yet. BAD after FXI_NAME_BYTES.
static fxi_body_step read_until(fxi_output_parser *o, char c, const char *const *marks, size_t max,
                                int *which)
{
    fxi_buf *w = &o->call.word;
    *which = -1;
    if (w->n == FXI_NAME_BYTES) return fxi_body_bad(o, 1);
    if (!fxi_buf_add(w, &c, 1)) return FXI_BODY_NO_MEMORY;
    for (size_t i = 0; i < max && marks[i]; i++) {
        const size_t n = strlen(marks[i]);
        if (n > w->n || memcmp(w->p + w->n - n, marks[i], n) != 0) continue;
        w->p[w->n -= n] = 0;
        *which = (int)i;
        break;
    }
    return FXI_BODY_MORE;
}

// Reads one of marks[0..max), after white space. *which as above. BAD: none begins so.
static fxi_body_step read_body_mark(fxi_output_parser *o, char c, const char *const *marks,
                                    size_t max, int *which)
{
    fxi_buf *w = &o->call.word;
    *which = -1;
    if (!w->n && fxi_is_blank(c)) return FXI_BODY_MORE;
    if (!fxi_buf_add(w, &c, 1)) return FXI_BODY_NO_MEMORY;
    bool goes_on = false;
    for (size_t i = 0; i < max && marks[i]; i++) {
        goes_on |= !strncmp(marks[i], w->p, w->n) && strlen(w->p) == w->n;
        if (!goes_on || strlen(marks[i]) != w->n || strcmp(marks[i], w->p) != 0) continue;
        fxi_buf_clear(w);
        *which = (int)i;
        return FXI_BODY_MORE;
    }
    return goes_on ? FXI_BODY_MORE : fxi_body_bad(o, w->n);
}

// d->name = d->word, without white space around it. BAD: it is not a name.
static fxi_body_step take_call_name(fxi_output_parser *o)
{
    const fxi_buf *w = &o->call.word;
    size_t from = 0, to = w->n;
    while (from < to && fxi_is_blank(w->p[from])) from++;
    while (from < to && fxi_is_blank(w->p[to - 1])) to--;
    for (size_t i = from; i < to; i++)
        if ((unsigned char)w->p[i] <= ' ' || strchr("{}[]<>\"'\\,;|`", w->p[i]))
            return fxi_body_bad(o, 0);
    if (from == to) return fxi_body_bad(o, 0);
    if (!fxi_buf_add(&o->call.name, w->p + from, to - from)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&o->call.word);
    return FXI_BODY_MORE;
}

// What JSON writes for Python's True, False or None; NULL: it is none of them.
static const char *json_word(const char *p, size_t n)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i][0]) == n && !memcmp(words[i][0], p, n)) return words[i][1];
    return NULL;
}

static fxi_body_step more_if(bool ok)
{
    return ok ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

// ---- object -------------------------------------------------------------------------------------

enum { O_OPEN, O_FIRST, O_QUOTE, O_KEY, O_COLON, O_VALUE, O_NAME, O_ARGS, O_TEXT, O_SKIP, O_NEXT };

static const char *const name_keys[] = {"name", "tool_name", "function"};
static const char *const args_keys[] = {"arguments", "parameters"};

static fxi_body_step object_go_on(fxi_output_parser *o, int step)
{
    o->call.step = step;
    return FXI_BODY_MORE;
}

// Expects this byte, after white space.
static fxi_body_step expect_byte(fxi_output_parser *o, char c, char wanted, int next)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    return c == wanted ? object_go_on(o, next) : fxi_body_bad(o, 1);
}

// Adds a byte of a string to d->word. *ended: it was the closing quote.
static fxi_body_step object_string(fxi_output_parser *o, char c, bool *ended)
{
    fxi_call_draft *d = &o->call;
    *ended = c == '"' && !d->escaped;
    if (*ended) return FXI_BODY_MORE;
    d->escaped = c == '\\' && !d->escaped;
    return more_if(fxi_buf_add(&d->word, &c, 1));
}

// Decodes the escapes of d->word.
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

static fxi_body_step end_object(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    if (!d->name.n) return fxi_body_bad(o, 0);
    const fxi_body_step step = emit_call(o);
    if (step != FXI_BODY_MORE) return step;
    if (!d->has_args && !emit_args(o, "{}", 2)) return FXI_BODY_NO_MEMORY;
    return FXI_BODY_DONE;
}

static fxi_body_step object_key(fxi_output_parser *o, char c)
{
    bool ended;
    fxi_call_draft *d = &o->call;
    const fxi_body_step step = object_string(o, c, &ended);
    if (step != FXI_BODY_MORE || !ended) return step;
    d->wants_name = is_any(&d->word, name_keys, COUNT(name_keys));
    d->wants_args = is_any(&d->word, args_keys, COUNT(args_keys));
    fxi_buf_clear(&d->word);
    return object_go_on(o, O_COLON);
}

static fxi_body_step object_next(fxi_output_parser *o, char c)
{
    return c == '}' ? end_object(o) : expect_byte(o, c, ',', O_QUOTE);
}

static fxi_body_step object_skip(fxi_output_parser *o, char c)
{
    const fxi_scan_step step = fxi_json_scan_byte(&o->call.scan, c);
    if (step == FXI_SCAN_BAD) return fxi_body_bad(o, 1);
    if (step == FXI_SCAN_MORE) return FXI_BODY_MORE;
    o->call.step = O_NEXT;
    return step == FXI_SCAN_BEFORE ? object_next(o, c) : FXI_BODY_MORE;
}

static fxi_body_step object_args(fxi_output_parser *o, char c)
{
    const fxi_body_step step = read_args(o, c);
    return step == FXI_BODY_DONE ? object_go_on(o, O_NEXT) : step;
}

static fxi_body_step begin_args(fxi_output_parser *o, char c)
{
    const fxi_body_step step = o->call.name.n ? emit_call(o) : FXI_BODY_MORE;
    if (step != FXI_BODY_MORE) return step;
    o->call.step = O_ARGS;
    return object_args(o, c);
}

static fxi_body_step object_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    d->scan = (fxi_json_scan){0};
    if (d->wants_name && c == '"' && !d->name.n) return object_go_on(o, O_NAME);
    if (d->wants_args && d->has_args) return fxi_body_bad(o, 1);
    if (d->wants_args && c == '{') return begin_args(o, c);
    if (d->wants_args && c == '"') return object_go_on(o, O_TEXT);
    if (d->wants_args && c != 'n') return fxi_body_bad(o, 1);
    d->step = O_SKIP;
    return object_skip(o, c);
}

static fxi_body_step object_name(fxi_output_parser *o, char c)
{
    bool ended;
    fxi_call_draft *d = &o->call;
    const fxi_body_step step = object_string(o, c, &ended);
    if (d->word.n > FXI_NAME_BYTES) return fxi_body_bad(o, 0);
    if (step != FXI_BODY_MORE || !ended) return step;
    if (!decode_word(d)) return FXI_BODY_NO_MEMORY;
    const fxi_body_step named = take_call_name(o);
    if (named != FXI_BODY_MORE) return named;
    d->step = O_NEXT;
    return d->args.n ? emit_call(o) : FXI_BODY_MORE;
}

// Arguments as the text of an object.
static fxi_body_step object_text(fxi_output_parser *o, char c)
{
    bool ended;
    fxi_call_draft *d = &o->call;
    fxi_body_step step = object_string(o, c, &ended);
    if (step != FXI_BODY_MORE || !ended) return step;
    if (!decode_word(d)) return FXI_BODY_NO_MEMORY;
    const char *p = d->word.p ? d->word.p : "";
    if (p[strspn(p, " \n\r\t")] != '{' || !fxi_json_scan_all(p, d->word.n))
        return fxi_body_bad(o, 0);
    step = d->name.n ? emit_call(o) : FXI_BODY_MORE;
    if (step != FXI_BODY_MORE) return step;
    if (!emit_args(o, p, d->word.n)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&d->word);
    return object_go_on(o, O_NEXT);
}

fxi_body_step fxi_call_object(fxi_output_parser *o, char c)
{
    switch (o->call.step) {
    case O_OPEN: return expect_byte(o, c, '{', O_FIRST);
    case O_FIRST: return c == '}' ? fxi_body_bad(o, 0) : expect_byte(o, c, '"', O_KEY);
    case O_QUOTE: return expect_byte(o, c, '"', O_KEY);
    case O_KEY: return object_key(o, c);
    case O_COLON: return expect_byte(o, c, ':', O_VALUE);
    case O_VALUE: return object_value(o, c);
    case O_NAME: return object_name(o, c);
    case O_ARGS: return object_args(o, c);
    case O_TEXT: return object_text(o, c);
    case O_SKIP: return object_skip(o, c);
    default: return object_next(o, c);
    }
}

// ---- head ---------------------------------------------------------------------------------------

enum { H_NAME, H_OPEN, H_ARGS };

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
    while (n > from && p[n - 1] >= '0' && p[n - 1] <= '9') n--;
    if (n > from && n < d->word.n && p[n - 1] == ':') d->word.n = n - 1;
    if (d->word.n - from > n_front && !memcmp(p + from, front, n_front))
        fxi_buf_drop_front(&d->word, from + n_front);
    return true;
}

// "NAME[CALL_ID]ID".
static bool cut_id(fxi_call_draft *d)
{
    static const char call_id[] = "[CALL_ID]";
    char *at = memmem(d->word.p, d->word.n, call_id, sizeof call_id - 1);
    if (!at) return true;
    const size_t n = (size_t)(at - d->word.p), from = n + sizeof call_id - 1;
    if (!fxi_buf_add(&d->id, d->word.p + from, d->word.n - from)) return false;
    d->word.p[d->word.n = n] = 0;
    return true;
}

static fxi_body_step head_name(fxi_output_parser *o, char c)
{
    int which;
    fxi_call_draft *d = &o->call;
    const fxi_call_format *f = o->spec.calls;
    const fxi_body_step step = read_until(o, c, f->name_end, COUNT(f->name_end), &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    if (!(f->head_is_id ? split_id(d) : cut_id(d))) return FXI_BODY_NO_MEMORY;
    const fxi_body_step named = take_call_name(o);
    if (named != FXI_BODY_MORE) return named;
    d->step = H_OPEN;
    o->n_back = 1;
    return f->name_end[which][0] == '{' ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

static fxi_body_step head_open(fxi_output_parser *o, char c)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (c != '{') return fxi_body_bad(o, 1);
    const fxi_body_step step = emit_call(o);
    o->call.step = H_ARGS;
    return step == FXI_BODY_MORE ? read_args(o, c) : step;
}

fxi_body_step fxi_call_head(fxi_output_parser *o, char c)
{
    static fxi_body_step (*const take[])(fxi_output_parser *, char) = {
        [H_NAME] = head_name, [H_OPEN] = head_open, [H_ARGS] = read_args};
    return take[o->call.step](o, c);
}

void fxi_call_head_named(fxi_call_draft *d)
{
    d->step = H_OPEN;
}

// ---- tags ---------------------------------------------------------------------------------------

enum { T_NAME, T_NEXT, T_KEY, T_GAP, T_VALUE };

static bool emit_quoted(fxi_output_parser *o, const char *before, const char *p, size_t n,
                        const char *after)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, before) && (!n || fxi_json_escape(&b, p, n)) &&
              fxi_buf_str(&b, after) && (!b.n || emit_args(o, b.p, b.n));
    fxi_buf_free(&b);
    return ok;
}

// If the mark that ends the name also opens a key or ends the call, it is read again.
static fxi_body_step tags_name(fxi_output_parser *o, char c)
{
    int which;
    fxi_call_draft *d = &o->call;
    const fxi_call_format *f = o->spec.calls;
    fxi_body_step step = read_until(o, c, f->name_end, COUNT(f->name_end), &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    const fxi_body_step named = take_call_name(o);
    if (named != FXI_BODY_MORE) return named;
    step = emit_call(o);
    if (step != FXI_BODY_MORE) return step;
    if (!emit_args(o, "{", 1)) return FXI_BODY_NO_MEMORY;
    d->step = T_NEXT;
    d->is_first = true;
    o->n_back = strlen(f->name_end[which]);
    const bool again =
        !strcmp(f->name_end[which], f->key_open) || !strcmp(f->name_end[which], f->call_end);
    return again ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

static fxi_body_step tags_next(fxi_output_parser *o, char c)
{
    int which;
    const char *const marks[] = {o->spec.calls->key_open, o->spec.calls->call_end};
    const fxi_body_step step = read_body_mark(o, c, marks, COUNT(marks), &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    o->call.step = T_KEY;
    if (which == 0) return FXI_BODY_MORE;
    return emit_args(o, "}", 1) ? FXI_BODY_DONE : FXI_BODY_NO_MEMORY;
}

static fxi_body_step begin_value(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    d->step = T_VALUE;
    d->kind = FXI_PARAM_UNKNOWN;
    if (o->spec.param)
        d->kind = o->spec.param(o->spec.tools, d->name.p, d->name.n, d->key.p, d->key.n);
    d->escaped = true; // nothing of the value has come
    d->in_json = d->kind != FXI_PARAM_TEXT;
    d->scan = (fxi_json_scan){0};
    fxi_buf_clear(&d->word);
    fxi_buf_clear(&d->args);
    if (!emit_quoted(o, d->is_first ? "\"" : ", \"", d->key.p, d->key.n, "\": "))
        return FXI_BODY_NO_MEMORY;
    d->is_first = false;
    return more_if(d->kind != FXI_PARAM_TEXT || emit_args(o, "\"", 1));
}

static fxi_body_step tags_key(fxi_output_parser *o, char c)
{
    int which;
    fxi_call_draft *d = &o->call;
    const fxi_call_format *f = o->spec.calls;
    const fxi_body_step step = read_until(o, c, &f->key_end, 1, &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    fxi_buf_clear(&d->key);
    if (!d->word.n) return fxi_body_bad(o, 0);
    if (!fxi_buf_add(&d->key, d->word.p, d->word.n)) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&d->word);
    d->step = T_GAP;
    return f->value_open ? FXI_BODY_MORE : begin_value(o);
}

static fxi_body_step tags_gap(fxi_output_parser *o, char c)
{
    int which;
    const fxi_body_step step = read_body_mark(o, c, &o->spec.calls->value_open, 1, &which);
    return step != FXI_BODY_MORE || which < 0 ? step : begin_value(o);
}

// The value is complete, in d->args unless it is text.
static fxi_body_step end_value(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    d->step = T_NEXT;
    if (d->kind == FXI_PARAM_TEXT) return more_if(emit_args(o, "\"", 1));
    const char *p = d->args.p ? d->args.p : "";
    size_t n = d->args.n, from = 0;
    while (from < n && fxi_is_blank(p[from])) from++;
    while (n > from && fxi_is_blank(p[n - 1])) n--;
    p += from;
    n -= from;
    if (fxi_json_scan_all(p, n)) return more_if(emit_args(o, p, n));
    const char *word = json_word(p, n);
    return more_if(word ? emit_args(o, word, strlen(word)) : emit_quoted(o, "\"", p, n, "\""));
}

static bool add_to_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (d->in_json) d->in_json = fxi_json_scan_byte(&d->scan, c) == FXI_SCAN_MORE;
    if (d->kind != FXI_PARAM_TEXT) return fxi_buf_add(&d->args, &c, 1);
    return emit_quoted(o, "", &c, 1, "");
}

// Whether d->word ends the value: 0 no, 1 it may yet, 2 yes.
static int match_end(const fxi_output_parser *o)
{
    const fxi_buf *w = &o->call.word;
    const char *end = o->spec.calls->value_end;
    const size_t skip = w->p[0] == '\n', n = w->n - skip;
    if (n > strlen(end) || memcmp(end, w->p + skip, n) != 0) return 0;
    return end[n] ? 1 : 2;
}

static fxi_body_step tags_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    const bool is_first = d->escaped;
    d->escaped = false;
    if (is_first && c == '\n') return FXI_BODY_MORE;
    if (d->in_json && !d->word.n && fxi_json_scan_in_text(&d->scan))
        return more_if(add_to_value(o, c));
    if (!fxi_buf_add(&d->word, &c, 1)) return FXI_BODY_NO_MEMORY;
    int match;
    while (d->word.n && !(match = match_end(o))) {
        if (!add_to_value(o, d->word.p[0])) return FXI_BODY_NO_MEMORY;
        fxi_buf_drop_front(&d->word, 1);
    }
    if (!d->word.n || match == 1) return FXI_BODY_MORE;
    fxi_buf_clear(&d->word);
    return end_value(o);
}

fxi_body_step fxi_call_tags(fxi_output_parser *o, char c)
{
    static fxi_body_step (*const take[])(fxi_output_parser *, char) = {[T_NAME] = tags_name,
                                                                       [T_NEXT] = tags_next,
                                                                       [T_KEY] = tags_key,
                                                                       [T_GAP] = tags_gap,
                                                                       [T_VALUE] = tags_value};
    return take[o->call.step](o, c);
}

// ---- Python's notation --------------------------------------------------------------------------

// A call in Python's notation, name(key=value, ..). Values are literals: strings, numbers, True,
// False, None, lists, tuples, dictionaries. They are emitted as JSON.

enum { P_NAME, P_KEY, P_VALUE, P_WORD, P_STRING, P_ESCAPE, P_HEX, P_DICT_KEY, P_AFTER };

static fxi_body_step emit_bytes(fxi_output_parser *o, const char *p, size_t n, int next)
{
    o->call.step = next;
    return emit_args(o, p, n) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

static bool emit_comma(fxi_output_parser *o)
{
    const bool comma = o->call.comma;
    o->call.comma = false;
    return !comma || emit_args(o, ", ", 2);
}

static char level_of(const fxi_call_draft *d)
{
    return d->depth ? d->level[d->depth - 1] : '(';
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// ---- name and keys ------------------------------------------------------------------------------

static fxi_body_step python_name(fxi_output_parser *o, char c)
{
    static const char *const open[] = {"("};
    int which;
    if (!is_word_byte(c) && c != '(' && c != '.' && c != '-') return fxi_body_bad(o, 1);
    fxi_body_step step = read_until(o, c, open, 1, &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    const fxi_body_step named = take_call_name(o);
    if (named != FXI_BODY_MORE) return named;
    step = emit_call(o);
    return step == FXI_BODY_MORE ? emit_bytes(o, "{", 1, P_KEY) : step;
}

static fxi_body_step end_call(fxi_output_parser *o)
{
    return emit_args(o, "}", 1) ? FXI_BODY_DONE : FXI_BODY_NO_MEMORY;
}

static bool emit_key(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    bool ok = emit_comma(o) && emit_args(o, "\"", 1) && emit_args(o, d->word.p, d->word.n) &&
              emit_args(o, "\": ", 3);
    fxi_buf_clear(&d->word);
    return ok;
}

static fxi_body_step python_key(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    fxi_buf *w = &d->word;
    if (fxi_is_blank(c)) {
        d->escaped = w->n > 0; // the key has ended
        return FXI_BODY_MORE;
    }
    if (c == ')' && !w->n) return end_call(o);
    if (c == '=' && w->n) {
        d->escaped = false;
        d->step = P_VALUE;
        return emit_key(o) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
    }
    if (d->escaped || !is_word_byte(c) || w->n == FXI_NAME_BYTES) return fxi_body_bad(o, 1);
    return fxi_buf_add(w, &c, 1) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

// ---- values -------------------------------------------------------------------------------------

static fxi_body_step open_level(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (d->depth == FXI_VALUE_DEPTH) return fxi_body_bad(o, 1);
    if (!emit_comma(o)) return FXI_BODY_NO_MEMORY;
    d->level[d->depth++] = c;
    return emit_bytes(o, c == '{' ? "{" : "[", 1, c == '{' ? P_DICT_KEY : P_VALUE);
}

static fxi_body_step close_level(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    d->comma = false;
    const char c = d->level[--d->depth];
    return emit_bytes(o, c == '{' ? "}" : "]", 1, P_AFTER);
}

// Whether c closes the level; the one of the call's arguments is closed where a key may stand.
static bool python_closes(const fxi_call_draft *d, char c)
{
    static const char open[] = "[({", close[] = "])}";
    const char *at = d->depth ? strchr(open, level_of(d)) : NULL;
    return at && c == close[at - open];
}

static fxi_body_step begin_string(fxi_output_parser *o, char c)
{
    o->call.quote = c;
    if (!emit_comma(o)) return FXI_BODY_NO_MEMORY;
    return emit_bytes(o, "\"", 1, P_STRING);
}

static fxi_body_step python_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (level_of(d) != '{' && python_closes(d, c)) return close_level(o);
    if (c == '"' || c == '\'') return begin_string(o, c);
    if (c == '[' || c == '(' || c == '{') return open_level(o, c);
    if (!is_word_byte(c) && c != '-') return fxi_body_bad(o, 1);
    d->step = P_WORD;
    return fxi_buf_add(&d->word, &c, 1) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

static fxi_body_step python_after(fxi_output_parser *o, char c)
{
    static const int next_of[] = {['('] = P_VALUE, ['['] = P_VALUE, ['{'] = P_DICT_KEY};
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (python_closes(d, c)) return close_level(o);
    if (c == ')' && !d->depth) return end_call(o);
    if (c != ',') return fxi_body_bad(o, 1);
    d->comma = true;
    d->step = d->depth ? next_of[(unsigned char)level_of(d)] : P_KEY;
    return FXI_BODY_MORE;
}

static fxi_body_step python_word(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if ((is_word_byte(c) || c == '.' || c == '+' || c == '-') && d->word.n < FXI_NAME_BYTES)
        return fxi_buf_add(&d->word, &c, 1) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
    const char *word = json_word(d->word.p, d->word.n), *w = word ? word : d->word.p;
    if (!fxi_json_scan_all(w, strlen(w))) return fxi_body_bad(o, 1);
    if (!emit_comma(o) || !emit_args(o, w, strlen(w))) return FXI_BODY_NO_MEMORY;
    fxi_buf_clear(&d->word);
    d->step = P_AFTER;
    return python_after(o, c);
}

// ---- strings ------------------------------------------------------------------------------------

static fxi_body_step python_string(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    fxi_buf b = {0};
    if (c == '\\') {
        d->step = P_ESCAPE;
        return FXI_BODY_MORE;
    }
    if (c == d->quote) return emit_bytes(o, "\"", 1, P_AFTER);
    bool ok = fxi_json_escape(&b, &c, 1) && emit_args(o, b.p, b.n);
    fxi_buf_free(&b);
    return ok ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

// An escape that Python does not know stands for itself, with its backslash.
static fxi_body_step python_escape(fxi_output_parser *o, char c)
{
    const char same[] = {'\\', c, 0};
    o->call.n_hex = c == 'x' ? 2 : 4;
    if (c == 'x') return emit_bytes(o, "\\u00", 4, P_HEX);
    if (c == 'u') return emit_bytes(o, "\\u", 2, P_HEX);
    if (c == '\n') return emit_bytes(o, "", 0, P_STRING);
    if (c == '\'') return emit_bytes(o, "'", 1, P_STRING);
    if (c && strchr("\"\\bfnrt", c)) return emit_bytes(o, same, 2, P_STRING);
    const fxi_body_step step = emit_bytes(o, "\\\\", 2, P_STRING);
    return step == FXI_BODY_MORE ? python_string(o, c) : step;
}

static fxi_body_step python_hex(fxi_output_parser *o, char c)
{
    if (!c || !strchr("0123456789abcdefABCDEF", c)) return fxi_body_bad(o, 1);
    return emit_bytes(o, &c, 1, --o->call.n_hex ? P_HEX : P_STRING);
}

// ---- dictionaries -------------------------------------------------------------------------------

static fxi_body_step python_dict_key(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (python_closes(d, c)) return close_level(o);
    if (c != '"' && c != '\'') return fxi_body_bad(o, 1);
    d->level[d->depth - 1] = ':'; // until its colon
    return begin_string(o, c);
}

static fxi_body_step python_colon(fxi_output_parser *o, char c)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (c != ':') return fxi_body_bad(o, 1);
    o->call.level[o->call.depth - 1] = '{';
    return emit_bytes(o, ": ", 2, P_VALUE);
}

// After a value, or a dictionary's key.
static fxi_body_step python_end(fxi_output_parser *o, char c)
{
    return level_of(&o->call) == ':' ? python_colon(o, c) : python_after(o, c);
}

fxi_body_step fxi_call_python(fxi_output_parser *o, char c)
{
    static fxi_body_step (*const take[])(fxi_output_parser *, char) = {
        [P_NAME] = python_name, [P_KEY] = python_key,           [P_VALUE] = python_value,
        [P_WORD] = python_word, [P_STRING] = python_string,     [P_ESCAPE] = python_escape,
        [P_HEX] = python_hex,   [P_DICT_KEY] = python_dict_key, [P_AFTER] = python_end,
    };
    return take[o->call.step](o, c);
}
