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
//   python   name(key=value, ..). Values are literals: strings, numbers, True, False, None, lists,
//            tuples, dictionaries. They are emitted as JSON
#include "output_parser/parser_impl.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

// Returns the step from the calling function unless the call continues.
#define BODY_TRY(expr)                                              \
    do {                                                            \
        fxi_body_step body_try_step_ = (expr);                      \
        if (body_try_step_ != FXI_BODY_MORE) return body_try_step_; \
    } while (0)

// ---- events -------------------------------------------------------------------------------------
//
// Neighbouring bytes of one kind are emitted together, at the end of the current bytes, or before
// an event of another kind.

void fxi_parser_keep(fxi_output_parser *o, fxi_buf *b, const char *p, size_t n)
{
    if (n && !o->failed) o->failed = !fxi_buf_add(b, p, n);
}

void fxi_emit_flush(fxi_output_parser *o)
{
    const fxi_output_event ev = {.kind = o->kind, .p = o->out.p, .n = o->out.n};
    if (ev.n && !o->failed) o->failed = !o->fn(o->ud, &ev);
    fxi_buf_clear(&o->out);
}

void fxi_emit_event(fxi_output_parser *o, const fxi_output_event *ev)
{
    fxi_emit_flush(o);
    if (!o->failed) o->failed = !o->fn(o->ud, ev);
}

void fxi_emit_run(fxi_output_parser *o, fxi_output_kind kind, const char *p, size_t n)
{
    if (o->kind != kind) fxi_emit_flush(o);
    o->kind = kind;
    fxi_parser_keep(o, &o->out, p, n);
}

static fxi_body_step bad_call(fxi_output_parser *o, size_t n_back)
{
    o->n_back = n_back;
    return FXI_BODY_BAD;
}

// The call's name is known, and its arguments begin.
static fxi_body_step emit_call(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    const fxi_output_event ev = {FXI_OUTPUT_CALL, d->name.p, d->name.n, d->id.p, d->id.n, 0};
    if (d->begun) return FXI_BODY_MORE;
    if (o->bare && o->spec.has_tool && !o->spec.has_tool(o->spec.tools, d->name.p, d->name.n))
        return bad_call(o, 0); // only marks make a call of any name
    fxi_emit_event(o, &ev);
    d->begun = true;
    o->emitted = d->args.n ? o->at + 1 : o->at;
    fxi_emit_run(o, FXI_OUTPUT_ARGS, d->args.p, d->args.n);
    fxi_buf_clear(&d->args);
    return FXI_BODY_MORE;
}

// Arguments of the call: emitted, or kept until its name is known.
static void emit_args(fxi_output_parser *o, const char *p, size_t n)
{
    o->call.has_args = true;
    if (!o->call.begun) {
        fxi_parser_keep(o, &o->call.args, p, n);
        return;
    }
    o->emitted = o->at + 1;
    fxi_emit_run(o, FXI_OUTPUT_ARGS, p, n);
}

static void emit_string(fxi_output_parser *o, const char *text)
{
    emit_args(o, text, strlen(text));
}

static void emit_escaped(fxi_output_parser *o, const char *p, size_t n)
{
    char escape[FXI_ESCAPE_BYTES];
    for (size_t i = 0; i < n; i++) emit_args(o, escape, fxi_json_escape(p[i], escape));
}

static void emit_comma(fxi_output_parser *o)
{
    if (o->call.comma) emit_string(o, ", ");
    o->call.comma = false;
}

static fxi_body_step end_args(fxi_output_parser *o)
{
    emit_string(o, "}");
    return FXI_BODY_DONE;
}

// ---- shared by the bodies -----------------------------------------------------------------------

void fxi_call_free(fxi_call_draft *d)
{
    fxi_buf_free(&d->name);
    fxi_buf_free(&d->id);
    fxi_buf_free(&d->args);
    fxi_buf_free(&d->word);
    fxi_buf_free(&d->key);
}

void fxi_call_begin(fxi_call_draft *d, fxi_call_body body)
{
    fxi_call_free(d);
    *d = (fxi_call_draft){.body = body};
}

// Takes a byte of the JSON object that is the call's arguments. A control character
// within a string, which JSON does not allow, is emitted as its escape.
static fxi_body_step read_args(fxi_output_parser *o, char c)
{
    const bool is_raw = fxi_json_scan_in_text(&o->call.scan) && (unsigned char)c < 0x20;
    const fxi_scan_step step = fxi_json_scan_byte(&o->call.scan, c);
    if (step == FXI_SCAN_BAD || step == FXI_SCAN_BEFORE) return bad_call(o, 1);
    if (is_raw)
        emit_escaped(o, &c, 1);
    else
        emit_args(o, &c, 1);
    return step == FXI_SCAN_DONE ? FXI_BODY_DONE : FXI_BODY_MORE;
}

// Reads into d->word until one of the marks, which a NULL ends, has been read; it is cut off. DONE:
// d->mark has been read. BAD after FXI_NAME_BYTES.
static fxi_body_step read_until(fxi_output_parser *o, char c, const char *const *marks)
{
    fxi_buf *w = &o->call.word;
    if (w->n == FXI_NAME_BYTES) return bad_call(o, 1);
    fxi_parser_keep(o, w, &c, 1);
    for (; *marks; marks++) {
        const size_t n = strlen(*marks);
        if (n > w->n || memcmp(w->p + w->n - n, *marks, n) != 0) continue;
        w->p[w->n -= n] = 0;
        o->call.mark = *marks;
        return FXI_BODY_DONE;
    }
    return FXI_BODY_MORE;
}

// Reads one of these marks, after white space. DONE: d->mark has been read. BAD: none begins so.
static fxi_body_step read_body_mark(fxi_output_parser *o, char c, const char *const *marks)
{
    fxi_buf *w = &o->call.word;
    if (!w->n && fxi_is_blank(c)) return FXI_BODY_MORE;
    fxi_parser_keep(o, w, &c, 1);
    bool begins = o->failed;
    for (; *marks && !o->failed; marks++) {
        if (strlen(*marks) < w->n || memcmp(*marks, w->p, w->n) != 0) continue;
        begins = true;
        if ((*marks)[w->n]) continue;
        fxi_buf_clear(w);
        o->call.mark = *marks;
        return FXI_BODY_DONE;
    }
    return begins ? FXI_BODY_MORE : bad_call(o, w->n);
}

static fxi_str strip_blanks(fxi_str s)
{
    while (s.n && fxi_is_blank(s.p[0])) s = (fxi_str){s.p + 1, s.n - 1};
    while (s.n && fxi_is_blank(s.p[s.n - 1])) s.n--;
    return s;
}

// d->name = `name` without white space around it; the word is read. BAD: it is not a name.
static fxi_body_step take_call_name(fxi_output_parser *o, fxi_str name)
{
    name = strip_blanks(name);
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] <= ' ' || strchr("{}[]<>\"'\\,;|`", name.p[i]))
            return bad_call(o, 0);
    if (!name.n) return bad_call(o, 0);
    fxi_parser_keep(o, &o->call.name, name.p, name.n);
    fxi_buf_clear(&o->call.word);
    return FXI_BODY_MORE;
}

static fxi_str word_of(const fxi_call_draft *d)
{
    return (fxi_str){d->word.p, d->word.n};
}

// What JSON writes for Python's True, False or None; NULL: it is none of them.
static const char *json_word(fxi_str s)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < COUNT(words); i++)
        if (fxi_str_is(s, words[i][0])) return words[i][1];
    return NULL;
}

static fxi_body_step body_go_on(fxi_output_parser *o, int step)
{
    o->call.step = step;
    return FXI_BODY_MORE;
}

// Expects this byte, after white space.
static fxi_body_step expect_byte(fxi_output_parser *o, char c, char wanted, int next)
{
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    return c == wanted ? body_go_on(o, next) : bad_call(o, 1);
}

// ---- object -------------------------------------------------------------------------------------

enum { O_OPEN, O_FIRST, O_QUOTE, O_KEY, O_COLON, O_VALUE, O_NAME, O_ARGS, O_TEXT, O_SKIP, O_NEXT };

// Adds a byte of a string to d->word. DONE: it was the closing quote.
static fxi_body_step object_string(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (c == '"' && !d->escaped) return FXI_BODY_DONE;
    d->escaped = c == '\\' && !d->escaped;
    fxi_parser_keep(o, &d->word, &c, 1);
    return FXI_BODY_MORE;
}

// Decodes the escapes of d->word.
static void decode_word(fxi_output_parser *o)
{
    fxi_buf b = {0};
    if (!fxi_json_unescape(&b, o->call.word.p, o->call.word.n)) o->failed = true;
    fxi_buf_free(&o->call.word);
    o->call.word = b;
}

static fxi_body_step object_next(fxi_output_parser *o, char c)
{
    if (c != '}') return expect_byte(o, c, ',', O_QUOTE);
    if (!o->call.name.n) return bad_call(o, 0);
    BODY_TRY(emit_call(o));
    if (!o->call.has_args) emit_string(o, "{}");
    return FXI_BODY_DONE;
}

static fxi_body_step object_key(fxi_output_parser *o, char c)
{
    static const char *const name_keys[] = {"name", "tool_name", "function"};
    static const char *const args_keys[] = {"arguments", "parameters"};
    fxi_call_draft *d = &o->call;
    if (object_string(o, c) == FXI_BODY_MORE) return FXI_BODY_MORE;
    d->wants_name = fxi_str_is_any(word_of(d), name_keys, COUNT(name_keys));
    d->wants_args = fxi_str_is_any(word_of(d), args_keys, COUNT(args_keys));
    fxi_buf_clear(&d->word);
    return body_go_on(o, O_COLON);
}

static fxi_body_step object_skip(fxi_output_parser *o, char c)
{
    const fxi_scan_step step = fxi_json_scan_byte(&o->call.scan, c);
    if (step == FXI_SCAN_BAD) return bad_call(o, 1);
    if (step == FXI_SCAN_MORE) return FXI_BODY_MORE;
    o->call.step = O_NEXT;
    return step == FXI_SCAN_BEFORE ? object_next(o, c) : FXI_BODY_MORE;
}

static fxi_body_step object_args(fxi_output_parser *o, char c)
{
    const fxi_body_step step = read_args(o, c);
    return step == FXI_BODY_DONE ? body_go_on(o, O_NEXT) : step;
}

static fxi_body_step object_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    d->scan = (fxi_json_scan){0};
    if (d->wants_name && c == '"' && !d->name.n) return body_go_on(o, O_NAME);
    if (d->wants_args && d->has_args) return bad_call(o, 1);
    if (d->wants_args && c == '{') {
        if (d->name.n) BODY_TRY(emit_call(o));
        d->step = O_ARGS;
        return object_args(o, c);
    }
    if (d->wants_args && c == '"') return body_go_on(o, O_TEXT);
    if (d->wants_args && c != 'n') return bad_call(o, 1);
    d->step = O_SKIP;
    return object_skip(o, c);
}

static fxi_body_step object_name(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    const fxi_body_step step = object_string(o, c);
    if (d->word.n > FXI_NAME_BYTES) return bad_call(o, 0);
    if (step == FXI_BODY_MORE) return FXI_BODY_MORE;
    decode_word(o);
    BODY_TRY(take_call_name(o, word_of(d)));
    d->step = O_NEXT;
    return d->args.n ? emit_call(o) : FXI_BODY_MORE;
}

// Arguments as the text of an object.
static fxi_body_step object_text(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (object_string(o, c) == FXI_BODY_MORE) return FXI_BODY_MORE;
    decode_word(o);
    const char *p = d->word.p ? d->word.p : "";
    if (p[strspn(p, " \n\r\t")] != '{' || !fxi_json_scan_all(p, d->word.n)) return bad_call(o, 0);
    if (d->name.n) BODY_TRY(emit_call(o));
    emit_args(o, p, d->word.n);
    fxi_buf_clear(&d->word);
    return body_go_on(o, O_NEXT);
}

static fxi_body_step object_byte(fxi_output_parser *o, char c)
{
    switch (o->call.step) {
    case O_OPEN: return expect_byte(o, c, '{', O_FIRST);
    case O_FIRST: return c == '}' ? bad_call(o, 0) : expect_byte(o, c, '"', O_KEY);
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

// NAME of "functions.NAME"; all of it without that front.
static fxi_str function_name(fxi_str s)
{
    static const char front[] = "functions.";
    const size_t n = sizeof front - 1;
    return s.n > n && !memcmp(s.p, front, n) ? (fxi_str){s.p + n, s.n - n} : s;
}

// The name in "functions.NAME:0", all of which is the id.
static fxi_str split_id(fxi_output_parser *o)
{
    fxi_str name = strip_blanks(word_of(&o->call));
    fxi_parser_keep(o, &o->call.id, name.p, name.n);
    size_t n = name.n;
    while (n && name.p[n - 1] >= '0' && name.p[n - 1] <= '9') n--;
    if (n && n < name.n && name.p[n - 1] == ':') name.n = n - 1;
    return function_name(name);
}

// The name in "NAME[CALL_ID]ID" or "NAME".
static fxi_str cut_id(fxi_output_parser *o)
{
    static const char call_id[] = "[CALL_ID]";
    const fxi_str all = word_of(&o->call);
    const char *at = memmem(all.p, all.n, call_id, sizeof call_id - 1);
    if (!at) return all;
    const char *id = at + sizeof call_id - 1;
    fxi_parser_keep(o, &o->call.id, id, (size_t)(all.p + all.n - id));
    return (fxi_str){all.p, (size_t)(at - all.p)};
}

static fxi_body_step head_name(fxi_output_parser *o, char c)
{
    const fxi_call_format *f = o->spec.calls;
    const fxi_body_step step = read_until(o, c, f->name_end);
    if (step != FXI_BODY_DONE) return step;
    BODY_TRY(take_call_name(o, f->head_is_id ? split_id(o) : cut_id(o)));
    o->call.step = H_OPEN;
    o->n_back = 1;
    return o->call.mark[0] == '{' ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

static fxi_body_step head_byte(fxi_output_parser *o, char c)
{
    if (o->call.step == H_NAME) return head_name(o, c);
    if (o->call.step == H_OPEN) {
        if (fxi_is_blank(c)) return FXI_BODY_MORE;
        if (c != '{') return bad_call(o, 1);
        BODY_TRY(emit_call(o));
        o->call.step = H_ARGS;
    }
    return read_args(o, c);
}

void fxi_call_begin_named(fxi_output_parser *o, fxi_str recipient)
{
    const fxi_str name = function_name(recipient);
    fxi_call_begin(&o->call, FXI_BODY_HEAD);
    fxi_parser_keep(o, &o->call.name, name.p, name.n);
    o->call.step = H_OPEN;
}

// ---- tags ---------------------------------------------------------------------------------------

enum { T_NAME, T_NEXT, T_KEY, T_GAP, T_VALUE };

// If the mark that ends the name also opens a key or ends the call, it is read again.
static fxi_body_step tags_name(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    const fxi_call_format *f = o->spec.calls;
    const fxi_body_step step = read_until(o, c, f->name_end);
    if (step != FXI_BODY_DONE) return step;
    BODY_TRY(take_call_name(o, word_of(d)));
    BODY_TRY(emit_call(o));
    emit_string(o, "{");
    d->step = T_NEXT;
    o->n_back = strlen(d->mark);
    const bool again = !strcmp(d->mark, f->key_open) || !strcmp(d->mark, f->call_end);
    return again ? FXI_BODY_AGAIN : FXI_BODY_MORE;
}

static fxi_body_step tags_next(fxi_output_parser *o, char c)
{
    const char *const marks[] = {o->spec.calls->key_open, o->spec.calls->call_end, NULL};
    const fxi_body_step step = read_body_mark(o, c, marks);
    if (step != FXI_BODY_DONE) return step;
    return o->call.mark == marks[0] ? body_go_on(o, T_KEY) : end_args(o);
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
    emit_comma(o);
    emit_string(o, "\"");
    emit_escaped(o, d->key.p, d->key.n);
    emit_string(o, d->kind == FXI_PARAM_TEXT ? "\": \"" : "\": ");
    d->comma = true;
    return FXI_BODY_MORE;
}

static fxi_body_step tags_key(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    const fxi_body_step step = read_until(o, c, (const char *[]){o->spec.calls->key_end, NULL});
    if (step != FXI_BODY_DONE) return step;
    if (!d->word.n) return bad_call(o, 0);
    fxi_buf_clear(&d->key);
    fxi_parser_keep(o, &d->key, d->word.p, d->word.n);
    fxi_buf_clear(&d->word);
    return o->spec.calls->value_open ? body_go_on(o, T_GAP) : begin_value(o);
}

static fxi_body_step tags_gap(fxi_output_parser *o, char c)
{
    const char *const marks[] = {o->spec.calls->value_open, NULL};
    const fxi_body_step step = read_body_mark(o, c, marks);
    return step == FXI_BODY_DONE ? begin_value(o) : step;
}

// The value is complete, in d->args unless it is text.
static fxi_body_step end_value(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    const fxi_str s = strip_blanks((fxi_str){d->args.p ? d->args.p : "", d->args.n});
    const char *word = json_word(s);
    if (d->kind == FXI_PARAM_TEXT) {
        emit_string(o, "\"");
    } else if (word) {
        emit_string(o, word);
    } else if (fxi_json_scan_all(s.p, s.n)) {
        emit_args(o, s.p, s.n);
    } else {
        emit_string(o, "\"");
        emit_escaped(o, s.p, s.n);
        emit_string(o, "\"");
    }
    return body_go_on(o, T_NEXT);
}

static void add_to_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (d->in_json) d->in_json = fxi_json_scan_byte(&d->scan, c) == FXI_SCAN_MORE;
    if (d->kind == FXI_PARAM_TEXT)
        emit_escaped(o, &c, 1);
    else
        fxi_parser_keep(o, &d->args, &c, 1);
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
    if (d->in_json && !d->word.n && fxi_json_scan_in_text(&d->scan)) {
        add_to_value(o, c);
        return FXI_BODY_MORE;
    }
    fxi_parser_keep(o, &d->word, &c, 1);
    int match = 0;
    while (d->word.n && !(match = match_end(o))) {
        add_to_value(o, d->word.p[0]);
        fxi_buf_drop_front(&d->word, 1);
    }
    if (match != 2) return FXI_BODY_MORE;
    fxi_buf_clear(&d->word);
    return end_value(o);
}

// ---- Python's notation --------------------------------------------------------------------------

enum { P_NAME, P_KEY, P_VALUE, P_WORD, P_STRING, P_ESCAPE, P_HEX, P_DICT_KEY, P_AFTER };

static fxi_body_step emit_and_go_on(fxi_output_parser *o, const char *text, int next)
{
    emit_string(o, text);
    return body_go_on(o, next);
}

static char level_of(const fxi_call_draft *d)
{
    return d->depth ? d->level[d->depth - 1] : '(';
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static fxi_body_step python_name(fxi_output_parser *o, char c)
{
    static const char *const open[] = {"(", NULL};
    if (!is_word_byte(c) && c != '(' && c != '.' && c != '-') return bad_call(o, 1);
    const fxi_body_step step = read_until(o, c, open);
    if (step != FXI_BODY_DONE) return step;
    BODY_TRY(take_call_name(o, word_of(&o->call)));
    BODY_TRY(emit_call(o));
    return emit_and_go_on(o, "{", P_KEY);
}

static fxi_body_step python_key(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    fxi_buf *w = &d->word;
    if (fxi_is_blank(c)) {
        d->escaped = w->n > 0; // the key has ended
        return FXI_BODY_MORE;
    }
    if (c == ')' && !w->n) return end_args(o);
    if (c == '=' && w->n) {
        d->escaped = false;
        emit_comma(o);
        emit_string(o, "\"");
        emit_args(o, w->p, w->n);
        fxi_buf_clear(w);
        return emit_and_go_on(o, "\": ", P_VALUE);
    }
    if (d->escaped || !is_word_byte(c) || w->n == FXI_NAME_BYTES) return bad_call(o, 1);
    fxi_parser_keep(o, w, &c, 1);
    return FXI_BODY_MORE;
}

static fxi_body_step close_level(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    d->comma = false;
    return emit_and_go_on(o, d->level[--d->depth] == '{' ? "}" : "]", P_AFTER);
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
    emit_comma(o);
    return emit_and_go_on(o, "\"", P_STRING);
}

static fxi_body_step python_value(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (level_of(d) != '{' && python_closes(d, c)) return close_level(o);
    if (c == '"' || c == '\'') return begin_string(o, c);
    if (c == '[' || c == '(' || c == '{') {
        if (d->depth == FXI_VALUE_DEPTH) return bad_call(o, 1);
        emit_comma(o);
        d->level[d->depth++] = c;
        return c == '{' ? emit_and_go_on(o, "{", P_DICT_KEY) : emit_and_go_on(o, "[", P_VALUE);
    }
    if (!is_word_byte(c) && c != '-') return bad_call(o, 1);
    fxi_parser_keep(o, &d->word, &c, 1);
    return body_go_on(o, P_WORD);
}

static fxi_body_step python_after(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (python_closes(d, c)) return close_level(o);
    if (c == ')' && !d->depth) return end_args(o);
    if (c != ',') return bad_call(o, 1);
    d->comma = true;
    return body_go_on(o, !d->depth ? P_KEY : level_of(d) == '{' ? P_DICT_KEY : P_VALUE);
}

static fxi_body_step python_word(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if ((is_word_byte(c) || c == '.' || c == '+' || c == '-') && d->word.n < FXI_NAME_BYTES) {
        fxi_parser_keep(o, &d->word, &c, 1);
        return FXI_BODY_MORE;
    }
    const char *word = json_word(word_of(d)), *w = word ? word : d->word.p;
    if (!fxi_json_scan_all(w, strlen(w))) return bad_call(o, 1);
    emit_comma(o);
    emit_string(o, w);
    fxi_buf_clear(&d->word);
    d->step = P_AFTER;
    return python_after(o, c);
}

static fxi_body_step python_string(fxi_output_parser *o, char c)
{
    if (c == '\\') return body_go_on(o, P_ESCAPE);
    if (c == o->call.quote) return emit_and_go_on(o, "\"", P_AFTER);
    emit_escaped(o, &c, 1);
    return FXI_BODY_MORE;
}

// An escape that Python does not know stands for itself, with its backslash.
static fxi_body_step python_escape(fxi_output_parser *o, char c)
{
    const char same[] = {'\\', c, 0};
    o->call.n_hex = c == 'x' ? 2 : 4;
    if (c == 'x') return emit_and_go_on(o, "\\u00", P_HEX);
    if (c == 'u') return emit_and_go_on(o, "\\u", P_HEX);
    if (c == '\n') return emit_and_go_on(o, "", P_STRING);
    if (c == '\'') return emit_and_go_on(o, "'", P_STRING);
    if (c && strchr("\"\\bfnrt", c)) return emit_and_go_on(o, same, P_STRING);
    emit_and_go_on(o, "\\\\", P_STRING);
    return python_string(o, c);
}

static fxi_body_step python_hex(fxi_output_parser *o, char c)
{
    if (fxi_hex_digit(c) < 0) return bad_call(o, 1);
    emit_args(o, &c, 1);
    return body_go_on(o, --o->call.n_hex ? P_HEX : P_STRING);
}

static fxi_body_step python_dict_key(fxi_output_parser *o, char c)
{
    fxi_call_draft *d = &o->call;
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (python_closes(d, c)) return close_level(o);
    if (c != '"' && c != '\'') return bad_call(o, 1);
    d->level[d->depth - 1] = ':'; // until its colon
    return begin_string(o, c);
}

// After a value, or a dictionary's key.
static fxi_body_step python_end(fxi_output_parser *o, char c)
{
    if (level_of(&o->call) != ':') return python_after(o, c);
    if (fxi_is_blank(c)) return FXI_BODY_MORE;
    if (c != ':') return bad_call(o, 1);
    o->call.level[o->call.depth - 1] = '{';
    return emit_and_go_on(o, ": ", P_VALUE);
}

// ---- all ----------------------------------------------------------------------------------------

fxi_body_step fxi_call_byte(fxi_output_parser *o, char c)
{
    static fxi_body_step (*const of_tags[])(fxi_output_parser *, char) = {
        [T_NAME] = tags_name, [T_NEXT] = tags_next,   [T_KEY] = tags_key,
        [T_GAP] = tags_gap,   [T_VALUE] = tags_value,
    };
    static fxi_body_step (*const of_python[])(fxi_output_parser *, char) = {
        [P_NAME] = python_name, [P_KEY] = python_key,           [P_VALUE] = python_value,
        [P_WORD] = python_word, [P_STRING] = python_string,     [P_ESCAPE] = python_escape,
        [P_HEX] = python_hex,   [P_DICT_KEY] = python_dict_key, [P_AFTER] = python_end,
    };
    switch (o->call.body) {
    case FXI_BODY_OBJECT: return object_byte(o, c);
    case FXI_BODY_TAGS: return of_tags[o->call.step](o, c);
    case FXI_BODY_PYTHON: return of_python[o->call.step](o, c);
    default: return head_byte(o, c);
    }
}
