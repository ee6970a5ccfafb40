// call_python.c - a call in Python's notation, name(key=value, ..). Values are literals: strings,
// numbers, True, False, None, lists, tuples, dictionaries. They are emitted as JSON.
#include <string.h>

#include "output_parser/parser_impl.h"

enum { P_NAME, P_KEY, P_VALUE, P_WORD, P_STRING, P_ESCAPE, P_HEX, P_DICT_KEY, P_AFTER };

static fxi_body_step emit_bytes(fxi_output_parser *o, const char *p, size_t n, int next)
{
    o->call.step = next;
    return fxi_emit_args(o, p, n) ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

static bool emit_comma(fxi_output_parser *o)
{
    const bool comma = o->call.comma;
    o->call.comma = false;
    return !comma || fxi_emit_args(o, ", ", 2);
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
    fxi_body_step step = fxi_read_until(o, c, open, 1, &which);
    if (step != FXI_BODY_MORE || which < 0) return step;
    const fxi_body_step named = fxi_take_name(o);
    if (named != FXI_BODY_MORE) return named;
    step = fxi_emit_call(o);
    return step == FXI_BODY_MORE ? emit_bytes(o, "{", 1, P_KEY) : step;
}

static fxi_body_step end_call(fxi_output_parser *o)
{
    return fxi_emit_args(o, "}", 1) ? FXI_BODY_DONE : FXI_BODY_NO_MEMORY;
}

static bool emit_key(fxi_output_parser *o)
{
    fxi_call_draft *d = &o->call;
    bool ok = emit_comma(o) && fxi_emit_args(o, "\"", 1) &&
              fxi_emit_args(o, d->word.p, d->word.n) && fxi_emit_args(o, "\": ", 3);
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
    const char *word = fxi_json_word(d->word.p, d->word.n), *w = word ? word : d->word.p;
    if (!fxi_json_scan_all(w, strlen(w))) return fxi_body_bad(o, 1);
    if (!emit_comma(o) || !fxi_emit_args(o, w, strlen(w))) return FXI_BODY_NO_MEMORY;
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
    bool ok = fxi_json_escape(&b, &c, 1) && fxi_emit_args(o, b.p, b.n);
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
